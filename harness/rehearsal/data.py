"""Stand-ins for data that a person must bring: posts of Math Stack Exchange, SABER-Math, declarations of Mathlib.

Posts have the XML of the organisers' file. Judged answers keep their real ids, so that the real topics and judgments
can be used. Texts are made of words and formulas of the topics; an answer with a high grade shares more of them with
its topic, so that a system that works ranks better than chance. Nothing else about the texts is realistic.
"""

from __future__ import annotations

import gzip
import html
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from harness.collections.load import load_collection
from harness.data.topics import Topics
from harness.io.files import write_atomic
from harness.papers.mathlib4.readers import FORMS, GROUPS

COLLECTIONS = ("arqmath-1-task1", "arqmath-2-task1", "arqmath-3-task1")
JUDGED_SHARE = 0.6  # of the posts; the others are questions and answers that nobody judged
_TAGS = ("algebra-precalculus", "calculus", "combinatorics", "group-theory", "linear-algebra", "probability")
_FIRST_QUESTION = 5_000_000  # ids of generated posts begin above those of the judged ones
SHORT, LONG = (4, 14), (8, 60)  # words of a paragraph, fewest and most

Length = tuple[int, int]


@dataclass(frozen=True)
class TextVocabulary:
    """Words and formulas (LaTeX without delimiters) of a text, or of all texts."""

    words: tuple[str, ...]
    formulas: tuple[str, ...]


@dataclass(frozen=True)
class JudgedAnswer:
    """A judged answer: its id, its topic and its grade (0 to 3)."""

    answer: int
    topic: str
    grade: int


def vocabularies(topics: Topics) -> dict[str, TextVocabulary]:
    """Returns topic -> the words and formulas of its title and body."""
    vocabulary_of = {}
    for topic in topics:
        words = [word for word in f"{topic.title} {topic.body}".split() if word.isalpha()]
        latex = [formula.latex for formula in topic.formulas if 0 < len(formula.latex) < 200]
        vocabulary_of[topic.id] = TextVocabulary(tuple(words) or ("what",), tuple(latex) or ("x^2",))
    return vocabulary_of


def judged(qrels: Mapping[str, Mapping[str, float]], most: int, seed: int) -> list[JudgedAnswer]:
    """Returns at most `most` judged answers, each once: of every topic the best ones first, then others by chance.

    Parameters
    ----------
    qrels : topic -> document -> grade, of all collections.

    Examples
    --------
    >>> [(each.answer, each.grade) for each in judged({"A.1": {"7": 2, "9": 0}, "A.2": {"8": 1}}, 2, seed=1)]
    [(7, 2), (8, 1)]
    """
    queues: list[list[JudgedAnswer]] = []
    for topic, grades in sorted(qrels.items()):
        rng = random.Random(f"{seed}:{topic}")
        listed = [JudgedAnswer(int(doc), topic, int(grade)) for doc, grade in sorted(grades.items())]
        rng.shuffle(listed)
        best = sorted(listed, key=lambda each: -each.grade)[:2]
        queues.append([*best, *(each for each in listed if each not in best)])
    chosen: dict[int, JudgedAnswer] = {}
    for place in range(max(map(len, queues), default=0)):
        for queue in queues:
            if place < len(queue) and len(chosen) < most:
                chosen.setdefault(queue[place].answer, queue[place])
    return sorted(chosen.values(), key=lambda each: each.answer)


def post_rows(posts: int, seed: int, words: Length = LONG, collections: Sequence[str] = COLLECTIONS) -> Iterator[str]:
    """Yields the lines of a file of `posts` posts; memory for the judgments alone.

    Every judged answer has a question of its own; a quarter of the other questions has no answer.
    """
    known: dict[str, TextVocabulary] = {}
    qrels: dict[str, Mapping[str, float]] = {}
    for name in collections:
        collection = load_collection(name)
        known |= vocabularies(collection.topics())
        for edition in collection.editions:
            qrels |= collection.qrels(edition).to_dict()
    everything = TextVocabulary(
        tuple(sorted({word for each in known.values() for word in each.words})),
        tuple(sorted({latex for each in known.values() for latex in each.formulas})),
    )
    question = _FIRST_QUESTION
    left = posts
    formula = 0
    for each in judged(qrels, int(posts * JUDGED_SHARE / 2), seed):
        rng = random.Random(f"{seed}:{each.answer}")
        about = known.get(each.topic, everything)
        asked, formula = _make_body(rng, about, everything, 0.5, formula, words)
        answered, formula = _make_body(rng, about, everything, (each.grade + 1) / 5, formula, words)
        yield _question_row(rng, question, asked, _make_title(rng, about, everything), answers=1, accepted=each.answer)
        yield _answer_row(rng, each.answer, question, answered)
        question, left = question + 1, left - 2
    while left > 0:
        rng = random.Random(f"{seed}:{question}")
        answers = min(rng.choice((0, 1, 1, 2)), left - 1)
        title = _make_title(rng, everything, everything)
        asked, formula = _make_body(rng, everything, everything, 1.0, formula, words)
        first = question + 1
        yield _question_row(rng, question, asked, title, answers=answers, accepted=first if answers else 0)
        for number in range(answers):
            answered, formula = _make_body(rng, everything, everything, 1.0, formula, words)
            yield _answer_row(rng, first + number, question, answered)
        question, left = first + answers, left - 1 - answers


def write_posts(path: Path, posts: int, seed: int, words: Length = LONG) -> Path:
    """Writes a file of posts as the organisers give it (`Posts.V1.3.xml`); the same arguments give the same bytes.

    Parameters
    ----------
    words : of a paragraph, the fewest and the most; `LONG` is about as long as real ones, `SHORT` is for speed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")  # an interrupted call leaves no file that looks whole
    with part.open("w", encoding="utf-8", newline="\n") as stream:
        stream.write('<?xml version="1.0" encoding="utf-8"?>\n<posts>\n')
        remaining = post_rows(posts, seed, words)
        while block := list(islice(remaining, 1000)):
            stream.write("".join(f"  {row}\n" for row in block))
        stream.write("</posts>\n")
    return part.replace(path)


def _make_title(rng: random.Random, about: TextVocabulary, everything: TextVocabulary) -> str:
    words = [rng.choice((about if rng.random() < 0.7 else everything).words) for _ in range(rng.randint(4, 10))]
    return " ".join([*words, f"${rng.choice(about.formulas)}$" if rng.random() < 0.4 else "?"])


def _make_body(
    rng: random.Random, about: TextVocabulary, everything: TextVocabulary, share: float, formula: int, words: Length
) -> tuple[str, int]:
    """Returns the HTML of a post, and the number of the next formula.

    Parameters
    ----------
    share : of words and formulas that are those of `about`.
    """
    paragraphs = []
    for _ in range(rng.randint(1, 2)):
        pieces = [html.escape(rng.choice((about if rng.random() < share else everything).words), quote=False)]
        for _ in range(rng.randint(*words)):
            source = about if rng.random() < share else everything
            if rng.random() < 0.12:
                latex = html.escape(rng.choice(source.formulas), quote=False)
                sign = "$$" if rng.random() < 0.2 else "$"
                pieces.append(f'<span class="math-container" id="{formula}">{sign}{latex}{sign}</span>')
                formula += 1
            else:
                pieces.append(html.escape(rng.choice(source.words), quote=False))
        paragraphs.append(f"<p>{' '.join(pieces)}.</p>")
    return "\n\n".join(paragraphs), formula


def _question_row(rng: random.Random, post: int, body: str, title: str, *, answers: int, accepted: int) -> str:
    tags = "".join(f"<{tag}>" for tag in rng.sample(_TAGS, rng.randint(1, 3)))
    more = {"AcceptedAnswerId": accepted} if accepted and rng.random() < 0.6 else {}
    return _row(
        Id=post, PostTypeId=1, **more, CreationDate=_draw_date(rng), Score=_votes(rng), ViewCount=rng.randint(10, 5000),
        Body=body, OwnerUserId=rng.randint(1, 9999), Title=title, Tags=tags, AnswerCount=answers, CommentCount=0,
    )  # fmt: skip


def _answer_row(rng: random.Random, post: int, question: int, body: str) -> str:
    return _row(
        Id=post, PostTypeId=2, ParentId=question, CreationDate=_draw_date(rng), Score=_votes(rng), Body=body,
        OwnerUserId=rng.randint(1, 9999), CommentCount=0,
    )  # fmt: skip


def _votes(rng: random.Random) -> int:
    """Returns votes with a long tail: one post in five has 50 or more, which MIRMU's training asks for."""
    return int(rng.paretovariate(0.4)) - 1 if rng.random() < 0.9 else -rng.randint(0, 3)


def _draw_date(rng: random.Random) -> str:
    year, month, day, hour = rng.randint(2010, 2018), rng.randint(1, 12), rng.randint(1, 28), rng.randint(0, 23)
    return f"{year}-{month:02}-{day:02}T{hour:02}:00:00.000"


def _row(**attributes: object) -> str:
    """Returns a row of the file; line breaks are written as the dump has them."""
    escaped = {name: html.escape(str(value)).replace("&#x27;", "'") for name, value in attributes.items()}
    said = (f'{name}="{text}"'.replace("\n", "&#xA;") for name, text in escaped.items())
    return f"<row {' '.join(said)} />"


QUERIES = 1000
CANDIDATES = 150  # of a query
_DOMAINS = ("Algebra", "Analysis", "Combinatorics", "Geometry", "Number Theory", "Probability")
_WORDS = (
    *("find", "all", "primes", "such", "that", "triangle", "integer"),
    *("sum", "of", "the", "function", "real", "graph"),
)
_FORMULAS = ("x^2+y^2=z^2", "\\frac{a}{b}", "\\sum_{k=1}^n k", "n!", "\\int_0^1 f(x)\\,dx", "a \\equiv b \\pmod p")


def documents(count: int, seed: int) -> Iterator[dict[str, object]]:
    """Yields documents: keys id, problem, solution; one in twenty has a long solution, as the real ones."""
    for number in range(count):
        rng = random.Random(f"document:{seed}:{number}")
        yield {
            "id": f"d{number}",
            "problem": _make_text(rng, rng.randint(8, 40)),
            "solution": _make_text(rng, rng.randint(200, 400) if rng.random() < 0.05 else rng.randint(10, 80)),
        }


def queries(count: int, seed: int) -> Iterator[dict[str, object]]:
    """Yields the queries for `count` documents: ratings from 0 to 5, domains that overlap."""
    for number in range(QUERIES):
        rng = random.Random(f"query:{seed}:{number}")
        candidates = rng.sample(range(count), CANDIDATES)
        yield {
            "id": f"q{number}",
            "problem": _make_text(rng, rng.randint(8, 40)),
            "solution": _make_text(rng, rng.randint(10, 80)),
            "domains": rng.sample(_DOMAINS, rng.randint(1, 2)),
            "candidates": [f"d{candidate}" for candidate in candidates],
            "relevance_scores": [round(min(5.0, rng.expovariate(1.0)), 3) for _ in candidates],
        }


def write_problems(folder: Path, count: int, seed: int) -> tuple[Path, Path]:
    """Writes `queries.jsonl` and `documents.jsonl` of at least 150 documents; equal arguments give equal bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    paths, count = (folder / "queries.jsonl", folder / "documents.jsonl"), max(count, CANDIDATES)
    for path, rows in zip(paths, (queries(count, seed), documents(count, seed)), strict=True):
        write_atomic(path, "".join(json.dumps(row) + "\n" for row in rows))
    return paths


def _make_text(rng: random.Random, words: int) -> str:
    return " ".join(f"${rng.choice(_FORMULAS)}$" if rng.random() < 0.1 else rng.choice(_WORDS) for _ in range(words))


KINDS = {"theorem": 58, "lemma": 20, "def": 14, "instance": 5, "class": 1, "structure": 1, "abbrev": 1}  # per cent
_NAMESPACES = ("Nat", "Int", "Finset", "Set", "Real", "Polynomial", "Group", "Ring", "Matrix", "Filter")
_NOUNS = ("add", "mul", "sub", "card", "sum", "prod", "map", "comap", "inter", "union", "order", "degree", "deriv")
_ENDS = ("comm", "assoc", "zero", "one", "le", "lt", "eq", "iff", "inj", "surj", "mono", "self", "left", "right")
_SYMBOLS = ("+", "*", "-", "≤", "<", "=", "∣", "∩", "∪", "→", "↔")


def declarations(count: int, seed: int) -> Iterator[dict[str, object]]:
    """Yields declarations: keys name, kind, module, line, signature, and of one in three doc."""
    rng = random.Random(f"declarations:{seed}")
    before: list[str] = ["Nat"]
    for number in range(count):
        namespace, kind = rng.choice(_NAMESPACES), rng.choices([*KINDS], [*KINDS.values()])[0]
        stem = f"{rng.choice(_NOUNS)}_{rng.choice(_NOUNS)}_{rng.choice(_ENDS)}"
        name = f"{namespace}.{stem}_{number}"
        left, right = rng.choice(_SYMBOLS), rng.choice(_SYMBOLS)
        said = f"(a b c : {namespace}) (h : {rng.choice(before)} a) : a {left} b {right} c"
        row: dict[str, object] = {"name": name, "kind": kind, "module": f"Mathlib.{namespace}.Basic"}
        row |= {"line": 10 + number, "signature": f"{kind} {stem}_{number} {said}"}
        if rng.random() < 0.33:
            row["doc"] = f"The {stem.replace('_', ' ')} law of `{namespace}`: $a {left} b$ and $c$."
        before = [*before[-20:], name]
        yield row


def benchmark(count: int, seed: int) -> list[dict[str, object]]:
    """Returns the groups of the benchmark, with labels for declarations of the same count and seed."""
    rng = random.Random(f"benchmark:{seed}")
    proved = [row for row in declarations(count, seed) if row["kind"] in ("theorem", "lemma")]
    forms = [form for form, number in FORMS.items() for _ in range(number)]
    natural, others = forms[:GROUPS], forms[GROUPS:]
    groups: list[dict[str, object]] = []
    for number in range(GROUPS):
        labelled = rng.sample(proved, min(8, len(proved)))
        words = str(labelled[0]["name"]).partition(".")[2].replace("_", " ")
        asked = {
            "natural description": f"If a, b and c are given, then {words}.",
            "latex formula": "If $a \\leq b$ and $b \\leq c$, then $a \\leq c$",
            "theorem name": f"The {words} theorem",
            "lean 4 term": str(labelled[0]["signature"]).partition(" : ")[2],
        }
        mine = [{"form": form, "query": asked[form]} for form in (natural[number], *others[number::GROUPS])]
        labels = {str(row["name"]): label for row, label in zip(labelled, (2, 1, 1, 1, 0, 0, 0, 0))}  # noqa: B905
        groups.append({"group": str(number + 1), "queries": mine, "theorems": labels})
    return groups


def write_theorems(folder: Path, count: int, seed: int) -> tuple[Path, Path]:
    """Writes the declarations and the benchmark; returns their files. The same arguments give the same bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    declared, asked = folder / "mathlib-decls-2025-09-10.jsonl.gz", folder / "benchmark.json"
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in declarations(count, seed))
    write_atomic(declared, gzip.compress(lines.encode(), 6, mtime=0))
    write_atomic(asked, json.dumps(benchmark(count, seed), ensure_ascii=False, indent=1) + "\n")
    return declared, asked
