"""A small world to fine-tune models in: threads and judgments of four subjects, tiny random models that read them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pytest
from encoder_models import word_tokenizer

from harness.collections.corpora import load_corpus
from harness.collections.corpus import Corpus
from harness.systems.dense.training.settings import Tuning, tuning

SUBJECTS = ("integral", "group", "graph", "prime")
COMMON = ("what", "is", "the", "of", "show", "take", "then", "we", "see", "number", "x", "y")
WORDS = tuple(f"{subject}{part}" for subject in SUBJECTS for part in ("", "al", "ic", "ism", "ize", "oid"))
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
KINDS = ("bert", "roberta", "mpnet")
SHORT: dict[str, Any] = {
    "collections": ["past"],
    "leave_out": ["future"],
    "length": 32,
    "batch": 4,
    "epochs": 3,
    "patience": 3,
    "rate": 1e-3,
    "validation": 0.25,
    "negative_questions": 3,
    "negatives_per_question": 2,
    "every": 2,
}


def words(rng: np.random.Generator, subject: str, count: int) -> str:
    """A text of a subject."""
    own = [word for word in WORDS if word.startswith(subject)]
    return " ".join(str(rng.choice(own if rng.random() < 0.6 else COMMON)) for _ in range(count))


def threads(questions: int = 16, answers: int = 2, **more: object) -> list[dict[str, Any]]:
    """Answers of questions, a subject each in turn; the first answer of each is the accepted one and has most votes."""
    rng = np.random.default_rng(5)
    out = []
    for number in range(questions):
        subject = SUBJECTS[number % len(SUBJECTS)]
        title, question = words(rng, subject, 4), words(rng, subject, 12)
        for answer in range(answers):
            said = {"id": f"A{number}.{answer}", "title": title, "question": question, "question_id": f"Q{number}"}
            said |= {"body": words(rng, subject, int(rng.integers(3, 24))), "accepted": "no" if answer else "yes"}
            said |= {"tags": f"{subject} common" if number % 8 == 7 else subject, "score": str(60 - 20 * answer)}
            out.append(said | more)
    return out


def topic(name: str, subject: str, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {"id": name, "title": words(rng, subject, 5), "body": words(rng, subject, 9), "tags": [subject]}


Judgments = Sequence[tuple[str, str, int]]  # topic, document, grade


@dataclass(frozen=True)
class OwnData:
    """Writes corpora and collections that the harness then knows by name."""

    conf: Callable[[str, str, str], Path]
    folder: Path

    fields: ClassVar = "{id: id, title: title, body: body, tags: tags}"
    kept: ClassVar = "[question, question_id, accepted, score]"

    def corpus(self, name: str, documents: Sequence[dict[str, Any]], fields: str = "", keep: str = "") -> Corpus:
        path = self.folder / f"{name}.jsonl"
        path.write_text("".join(json.dumps(document) + "\n" for document in documents), encoding="utf-8")
        text = f"name: {name}\ntitle: {name}\nlicence: CC0\nfile: {{file: {path}}}\n"
        self.conf("corpus", name, f"{text}fields: {fields or self.fields}\nkeep: {keep or self.kept}\n")
        return load_corpus(name)

    def editions(
        self, name: str, topics: Sequence[dict[str, Any]], *editions: Judgments, protocol: str = "arqmath-task1"
    ) -> None:
        """A collection with editions `e0`, `e1` and so on."""
        said = ""
        for number, judgments in enumerate(editions):
            path = self.folder / f"{name}-{number}.txt"
            path.write_text("".join(f"{t}\t0\t{d}\t{g}\n" for t, d, g in judgments), encoding="utf-8")
            asked = len({one[0] for one in judgments})
            entry = f"title: some, qrels: {{file: {path}}}, topics: {asked}, judgments: {len(judgments)}"
            said += f"  e{number}: {{{entry}}}\n"
        path = self.folder / f"{name}-topics.jsonl"
        path.write_text("".join(json.dumps(entry) + "\n" for entry in topics), encoding="utf-8")
        head = f"name: {name}\ntitle: {name}\nlicence: CC0\nprotocol: {protocol}\neditions:\n{said}"
        self.conf("collection", name, head + f"topics: {{reader: jsonl, file: {path}}}\n")


def judged(topics: Sequence[dict[str, Any]], documents: Sequence[dict[str, Any]], step: int) -> Judgments:
    """Grades 3 and 2 for answers of a topic's subject, 0 for others."""
    out = []
    for number, asked in enumerate(topics):
        for document in documents[number % step :: step]:
            same = asked["tags"][0] in document["tags"].split()
            out.append((asked["id"], document["id"], 3 - int(document["id"][-1]) if same else 0))
    return out


class Courses(OwnData):
    """Corpora of threads, and collections over them."""

    collection = OwnData.editions


@pytest.fixture
def courses(conf: Callable[[str, str, str], Path], tmp_path: Path) -> Courses:
    """The corpus `threads`, `past` to train on, and `future` that is evaluated and judges two answers."""
    folder = tmp_path / "courses"
    folder.mkdir()
    made = Courses(conf, folder)
    documents = threads()
    made.corpus("threads", documents)
    past = [topic(f"P{number}", SUBJECTS[number % 4], 100 + number) for number in range(8)]
    made.collection("past", past, judged(past, documents, 3))
    future = [topic(f"F{number}", SUBJECTS[number % 4], 200 + number) for number in range(4)]
    made.collection("future", future, [("F0", "A0.0", 3)], [("F1", "A5.1", 0)])
    return made


def settings(kind: str = "cross", **changes: object) -> Tuning:
    return tuning(kind, mapping(kind, **changes))


def mapping(kind: str = "cross", **changes: object) -> dict[str, Any]:
    return SHORT | ({"additional": 0} if kind == "bi" else {}) | changes


def similar(corpus: Corpus) -> Callable[[Sequence[str]], Iterator[npt.NDArray[np.float32]]]:
    """By the number of letters: any order will do that is not the corpus's."""
    lengths = np.array([len(document.body) for document in corpus], np.float32)

    def scores(texts: Sequence[str]) -> Iterator[npt.NDArray[np.float32]]:
        for text in texts:
            yield -np.abs(lengths - len(text)).astype(np.float32)

    return scores


def stop_at(monkeypatch: pytest.MonkeyPatch, owner: object, name: str, at: int, error: BaseException) -> None:
    """Raises an error in place of one call of a function."""
    real, calls = getattr(owner, name), count(1)

    def call(*given: object) -> object:
        if next(calls) == at:
            raise error
        return real(*given)

    monkeypatch.setattr(owner, name, call)


# ---- models -----------------------------------------------------------------------------------------------------


def tokenizer() -> Any:  # noqa: ANN401
    """Words, split at blanks; pairs as BERT has them."""
    names: dict[str, Any] = {f"{name[1:-1].lower()}_token": name for name in SPECIAL}
    names |= {"model_max_length": 64, "model_input_names": ["input_ids", "attention_mask"]}
    return word_tokenizer(SPECIAL, (*COMMON, *WORDS), "[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", **names)


def transformer(folder: Path, kind: str = "bert", dropout: float = 0.1, seed: int = 0, **more: object) -> Path:
    """A random encoder of two layers, without a head."""
    import torch
    from transformers import AutoModel, BertConfig, MPNetConfig, RobertaConfig

    shape: Any = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    shape |= {"vocab_size": len((*SPECIAL, *COMMON, *WORDS)), "max_position_embeddings": 70, "pad_token_id": 0}
    shape |= {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout, "initializer_range": 0.3}
    config = {"bert": BertConfig, "roberta": RobertaConfig, "mpnet": MPNetConfig}[kind](**shape, **more)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        automatic: Any = AutoModel
        automatic.from_config(config).save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return folder


def sentence_transformer(folder: Path, **more: Any) -> Path:  # noqa: ANN401
    """The same with mean pooling and normalisation, as sentence-transformers keeps it."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer

    first = Transformer(str(transformer(folder.with_name(f"{folder.name}-bare"), **more)))
    model = SentenceTransformer(modules=[first, Pooling(16, "mean"), Normalize()], device="cpu")
    model.save(str(folder), create_model_card=False)
    return folder


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Sums depend on the number of threads."""
    torch = pytest.importorskip("torch", reason="torch is not installed (extra sentences)")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
