"""Formulas of the ARQMath topics converted from LaTeX: trees identical to the official ones, tuple F1, speed.

The official trees are those of LaTeXML in the topic files of 2021 and 2022 (jpfyoder/pt-arqmath, read from the folder
HARNESS_MIRROR); the file of 2020 was made without amsmath and is no truth. Pairs whose official tree holds an error are
left out. `distinct` counts each LaTeX once. LaTeXML is left out where it is not installed, and takes minutes.
Prints one table; `--markdown` for bench/results.
"""

from __future__ import annotations

import argparse
import csv
import io
import os
import platform
import resource
import tarfile
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from unittest import mock

from harness.errors import HarnessError
from harness.formulas import latexml
from harness.formulas.counts import Reading, failed
from harness.formulas.layout import read_latex
from harness.formulas.mathml import read_content, read_presentation
from harness.formulas.tree import Tree
from harness.formulas.tuples import tuple_f1

ARCHIVE = "github.com/jpfyoder/pt-arqmath/0d63b1776a4da96d7200b8d5e86b4b15f1777e1d.tar.xz"
YEARS = (2020, 2021, 2022)
_FILES = {"latex": "latex", "opt": "content", "slt": "presentation"}
_DEPTH = 200


@dataclass(frozen=True)
class Pair:
    """A formula of a topic file: `q_N` restarts every year."""

    year: int
    key: str
    latex: str
    presentation: str
    content: str


def official_pairs(mirror: Path, year: int) -> list[Pair]:
    """The formulas of a year's topics of Task 1 that all three files have, in the order of the LaTeX file."""
    path = mirror / ARCHIVE
    if not path.is_file():
        raise HarnessError(f"{path}: no such file; it holds the official formulas of the topics")
    parts: dict[str, dict[str, str]] = {}
    with tarfile.open(path) as archive:
        for member in archive:
            name = Path(member.name)
            if name.parent.parent.name != "topics_task_1" or not name.name.startswith(f"{year}_formulas_"):
                continue
            stream = archive.extractfile(member)
            assert stream is not None
            text = io.StringIO(stream.read().decode("utf-8"), newline="")
            usual = csv.field_size_limit(1 << 30)
            rows = list(csv.reader(text, delimiter="\t"))[1:]
            csv.field_size_limit(usual)  # the limit is one of the whole process
            kind = _FILES[name.stem.rpartition("_")[2]]
            # A second header stands in the middle of a file of 2020.
            parts[kind] = {row[0]: row[4] for row in rows if len(row) == 5 and row[0] != "id"}
    keys = [key for key in parts["latex"] if key in parts["presentation"] and key in parts["content"]]
    return [Pair(year, key, *[parts[kind][key] for kind in ("latex", "presentation", "content")]) for key in keys]


def converter_alone(latex: str) -> Reading:
    """latex2mathml's Presentation MathML, read as it is."""
    from latex2mathml.converter import convert

    deepest = max(accumulate((each == "{") - (each == "}") for each in latex), default=0)
    if deepest + latex.count("\\left") > _DEPTH:
        return failed("too deep for latex2mathml, which recurses")
    try:
        return read_presentation(convert(latex))
    except Exception as error:
        return failed(type(error).__name__)


@dataclass(frozen=True)
class Parser:
    """A way from LaTeX to trees, and the official trees it is measured against."""

    name: str
    kind: str  # SLT or OPT
    read: Callable[[str], Reading]


PARSERS = [
    Parser("layout parser", "SLT", read_latex),
    Parser("latex2mathml alone", "SLT", converter_alone),
]


def truth(pair: Pair, kind: str) -> Tree | None:
    """The official tree; None if it holds an error."""
    reading = read_presentation(pair.presentation) if kind == "SLT" else read_content(pair.content)
    errors = reading.reason or any(label.startswith("E!") for label in reading.tree.labels)
    return None if errors else reading.tree


def measure(parser: Parser, pairs: list[tuple[str, Tree]]) -> tuple[float, float, float, float, int]:
    """Shares of identical trees over all and over distinct LaTeX, mean tuple F1, formulas a second, failed."""
    best = float("inf")
    readings: list[Reading] = []
    for _ in range(3):
        start = time.process_time()
        readings = [parser.read(latex) for latex, _ in pairs]
        best = min(best, time.process_time() - start)
    return (*agreement(readings, pairs), len(pairs) / best, sum(bool(reading.reason) for reading in readings))


def agreement(readings: list[Reading], pairs: list[tuple[str, Tree]]) -> tuple[float, float, float]:
    """Shares of identical trees over all and over distinct LaTeX, mean tuple F1."""
    same = [reading.tree == tree for reading, (_, tree) in zip(readings, pairs, strict=True)]
    f1 = [tuple_f1(reading.tree, tree) for reading, (_, tree) in zip(readings, pairs, strict=True)]
    distinct = {latex: each for (latex, _), each in zip(pairs, same, strict=True)}
    n = len(pairs)
    return sum(same) / n, sum(distinct.values()) / len(distinct), sum(f1) / n


def measure_latexml(pairs: list[tuple[str, Tree]], kind: str) -> tuple[float, float, float, float, int]:
    """The same of LaTeXML without its cache: each LaTeX once, CPU time of its processes, minutes."""
    with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, HARNESS_CACHE=folder):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        distinct = list(dict.fromkeys(latex for latex, _ in pairs))
        read = latexml.reader(distinct, kind.lower())
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    readings = [read(latex) for latex, _ in pairs]
    missed = sum(bool(reading.reason) for reading in readings)
    return (*agreement(readings, pairs), len(distinct) / seconds, missed)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--markdown", action="store_true", help="print a Markdown table")
    arguments = parser.parse_args()
    mirror = Path(os.environ.get("HARNESS_MIRROR", "."))
    table = [("tree", "parser", "topics", "pairs", "identical", "distinct", "tuple F1", "formulas/s", "failed")]
    for year in YEARS[1:]:
        official = official_pairs(mirror, year)
        for kind in ("SLT", "OPT"):
            pairs = [(pair.latex, tree) for pair in official if (tree := truth(pair, kind)) is not None]
            rows = [(each.name, measure(each, pairs)) for each in PARSERS if each.kind == kind]
            if not latexml.missing():
                rows.append((f"LaTeXML {latexml.version()}", measure_latexml(pairs, kind)))
            for name, (same, distinct, f1, speed, missed) in rows:
                shown = (f"{same:.1%}", f"{distinct:.1%}", f"{f1:.3f}", f"{speed:,.0f}", str(missed))
                table.append((kind, name, str(year), f"{len(pairs):,}", *shown))
    if arguments.markdown:
        print("| " + " | ".join(table[0]) + " |\n|" + "---|" * len(table[0]))
        for row in table[1:]:
            print("| " + " | ".join(row) + " |")
    else:
        for row in table:
            print("  ".join(field.ljust(18) for field in row))
    print(
        f"\none core, CPU time, best of three (LaTeXML: once); Python {platform.python_version()}, {platform.machine()}"
    )


if __name__ == "__main__":
    main()
