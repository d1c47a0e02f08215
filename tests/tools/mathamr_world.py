"""A small world to run graph systems in: posts, formulas and judgments of the user's own, and a parser by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tuning_tools import OwnData

from harness.collections.corpus import Corpus
from harness.data.topics import Formula, Topic, Topics
from harness.data.trec import Run
from harness.store import artefacts
from harness.systems.base import Pool, Request
from harness.systems.mathamr.graphs import parsers
from harness.systems.mathamr.graphs.data import Parser
from harness.systems.mathamr.graphs.graph import Sentence
from harness.systems.mathamr.system import MathAMR

Conf = Callable[[str, str, str], Path]
THEMES = (
    ("integral", "substitution", "limits", r"\int x dx"),
    ("group", "subgroup", "coset", r"a b = b a"),
    ("graph", "vertex", "colouring", r"K_5"),
    ("prime", "divisor", "modulo", r"p^2 + 1"),
)
TINY = {"dim": 8, "out": 4, "layers": 1, "bases": 2}
SHORT = {"seed": 1, "batch": 4, "epochs": 1, "validation": 0.25}


@dataclass(frozen=True)
class Words:
    """A sentence of the words of each text, joined in a row; it counts its calls, and may end the process."""

    calls: list[int] = field(default_factory=list, compare=False, repr=False)
    stop: list[int] = field(default_factory=list, compare=False, repr=False)  # at which call

    def __call__(self, texts: Sequence[str]) -> list[list[Sentence]]:
        if texts:
            self.calls.append(len(texts))
        if self.stop and len(self.calls) >= self.stop[0]:
            raise KeyboardInterrupt
        return [[_row(text.split())] if text.split() else [] for text in texts]


def _row(words: Sequence[str]) -> Sentence:
    labels = tuple(word if word.startswith("FORMULA_") else word.lower() for word in words)
    return Sentence(labels, tuple((i, ":next", i + 1) for i in range(len(labels) - 1)), 0)


def parser(words: Words) -> Parser:
    return Parser(words, {"parser": "words in a row"})


def row(name: str, number: int, answer: int = 0, **more: object) -> dict[str, Any]:
    """A document of the corpus: an answer with its question and the formulas of both."""
    first, second, third, latex = THEMES[number % len(THEMES)]
    asked = f"why does the {first} number {number} need ${latex}$"
    found = f"take the {second} and the {third} to see ${latex}$ of {number} {'again ' * answer}"
    formulas = [{"id": f"{name}-{n}", "latex": latex, "visual_id": f"v{name}-{n}"} for n in (1, 2)]
    document = {"id": name, "title": f"a {first}", "question": asked, "question_id": f"Q{number}", "body": found}
    return document | {"formulas": formulas} | more


def rows(questions: int = 12, answers: int = 2) -> list[dict[str, Any]]:
    return [row(f"A{q}.{a}", q, a) for q in range(questions) for a in range(answers)]


class World(OwnData):
    """Corpora of posts with formulas, and collections that judge some of them."""

    fields = "{id: id, title: title, body: body, formulas: formulas}"
    kept = "[question, question_id]"

    def collection(self, name: str, judged: Sequence[str], protocol: str = "arqmath-task1") -> None:
        """A collection that judges some documents, the last of them in an edition of its own."""
        parts = ([("T1", doc, 1) for doc in part] for part in (judged[:-1], judged[-1:]))
        self.editions(name, [{"id": "T1", "title": "one"}], *parts, protocol=protocol)


@pytest.fixture
def world(conf: Conf, tmp_path: Path) -> World:
    folder = tmp_path / "world"
    folder.mkdir()
    return World(conf, folder)


def topics(*texts: str) -> Topics:
    return Topics(tuple(Topic(f"T{number}", text) for number, text in enumerate(texts, 1)))


def asking(name: str, text: str, latex: str, formula: str) -> Topic:
    """A topic of formula search."""
    return Topic(name, text, formulas=(Formula(formula, latex),))


ASKED = topics("why does the integral need $\\int x dx$", "the coset of a subgroup", "", "colouring a vertex")


@dataclass(frozen=True)
class Place:
    """A world with the corpus `qa`, the collection `asked`, and a parser by hand in the place of all."""

    world: World
    corpus: Corpus
    words: Words
    folder: Path

    def system(self, **keys: object) -> MathAMR:
        given: dict[str, Any] = {"vocabulary": 200, "device": "cpu"}
        given |= {"pairs": {"qa": "question"}, "leave_out": ["asked"], "model": TINY, "training": SHORT}
        given.update(keys)
        return MathAMR("tiny", **given)

    def run(self, asked: Topics = ASKED, corpus: Corpus | None = None, pool: Pool | None = None, **keys: object) -> Run:
        return self.system(**keys)(Request(asked, corpus or self.corpus, self.folder / "workspace", pool=pool))

    def left(self) -> list[Path]:
        return list((self.folder / "workspace").iterdir())


@pytest.fixture
def place(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    words = Words()
    monkeypatch.setattr(parsers, "load", lambda name: parser(words))
    world.collection("asked", ["A0.0", "A1.1"])
    torch = pytest.importorskip("torch", reason="torch is not installed (extra graphs)")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # more of them only wait for each other at this size
    yield Place(world, world.corpus("qa", rows()), words, tmp_path)
    torch.set_num_threads(threads)


def kept(kind: str) -> list[Path]:
    return sorted(path.parent for path in artefacts.store_root().glob(f"{kind}/*/{artefacts.SPEC}"))


def one_line(said: str, begin: str) -> bool:
    return sum(line.startswith(begin) for line in said.splitlines()) == 1
