"""Stand-ins for the organisers' file of posts: the XML of Math Stack Exchange with generated questions and answers.

Judged answers keep their real ids, so that the real topics and judgments can be used. Texts are made of words and
formulas of the topics; an answer with a high grade shares more of them with its topic, so that a system that works
ranks better than chance. Nothing else about the texts is realistic.
"""

from __future__ import annotations

import html
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from harness.collections.load import load_collection
from harness.data.topics import Topics

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


def rows(posts: int, seed: int, words: Length = LONG, collections: Sequence[str] = COLLECTIONS) -> Iterator[str]:
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


def write(path: Path, posts: int, seed: int, words: Length = LONG) -> Path:
    """Writes a file of posts as the organisers give it (`Posts.V1.3.xml`); the same arguments give the same bytes.

    Parameters
    ----------
    words : of a paragraph, the fewest and the most; `LONG` is about as long as real ones, `SHORT` is for speed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")  # an interrupted call leaves no file that looks whole
    with part.open("w", encoding="utf-8", newline="\n") as stream:
        stream.write('<?xml version="1.0" encoding="utf-8"?>\n<posts>\n')
        remaining = rows(posts, seed, words)
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
    return (
        f"{rng.randint(2010, 2018)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}T{rng.randint(0, 23):02}:00:00.000"
    )


def _row(**attributes: object) -> str:
    """Returns a row of the file; line breaks are written as the dump has them."""
    said = (f'{name}="{_escape_attribute(str(value))}"' for name, value in attributes.items())
    return f"<row {' '.join(said)} />"


def _escape_attribute(text: str) -> str:
    return html.escape(text, quote=True).replace("&#x27;", "'").replace("\n", "&#xA;")
