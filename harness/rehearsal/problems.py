"""Stand-ins for SABER-Math's two data sets: queries with 150 rated candidates each, and the documents."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path

from harness.io.files import write_atomic

QUERIES = 1000
CANDIDATES = 150  # of a query
LEAST = CANDIDATES  # documents
_DOMAINS = ("Algebra", "Analysis", "Combinatorics", "Geometry", "Number Theory", "Probability")
_WORDS = (
    "find",
    "all",
    "primes",
    "such",
    "that",
    "triangle",
    "integer",
    "sum",
    "of",
    "the",
    "function",
    "real",
    "graph",
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


def write(folder: Path, count: int, seed: int) -> tuple[Path, Path]:
    """Writes `queries.jsonl` and `documents.jsonl` of at least 150 documents, and both as Parquet beside them.

    The same arguments give the same bytes. Without pyarrow (extra `hub`) there are no Parquet files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    count = max(count, LEAST)
    made: list[Path] = []
    rows: tuple[tuple[str, Callable[[int, int], Iterator[dict[str, object]]]], ...] = (
        ("queries", queries),
        ("documents", documents),
    )
    for name, generate in rows:
        generated = list(generate(count, seed))
        made.append(folder / f"{name}.jsonl")
        write_atomic(made[-1], "".join(json.dumps(row) + "\n" for row in generated))
        try:
            from pyarrow import Table, parquet
        except ImportError:
            continue
        parquet.write_table(Table.from_pylist(generated), folder / f"{name}.parquet")
    return made[0], made[1]


def _make_text(rng: random.Random, words: int) -> str:
    return " ".join(f"${rng.choice(_FORMULAS)}$" if rng.random() < 0.1 else rng.choice(_WORDS) for _ in range(words))
