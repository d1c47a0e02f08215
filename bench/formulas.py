"""Formulas of the ARQMath topics converted from LaTeX: trees identical to the official ones, tuple F1, speed.

The official trees are those of LaTeXML in the topic files of 2021 and 2022 (jpfyoder/pt-arqmath, read from the folder
HARNESS_MIRROR); the file of 2020 was made without amsmath and is no truth. Pairs whose official tree holds an error are
left out. `distinct` counts each LaTeX once. CPU seconds and formulas a second are of the conversion alone, on one core.
LaTeXML (as installed here, without its cache) is left out where it is not installed; it takes minutes. Prints a table;
`--markdown` for bench/results.
"""

from __future__ import annotations

import argparse
import csv
import io
import os
import re
import resource
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from unittest import mock

from bench.table import machine, show
from harness.errors import HarnessError
from harness.formulas.mathml import latexml
from harness.formulas.mathml.read import SOURCE, read_content, read_presentation
from harness.formulas.opt import read as operators
from harness.formulas.slt import read as layout
from harness.formulas.trees.reading import ERROR, ParsedFormula
from harness.formulas.trees.tree import Tree
from harness.formulas.trees.tuples import tuple_f1

ARCHIVE = "github.com/jpfyoder/pt-arqmath/0d63b1776a4da96d7200b8d5e86b4b15f1777e1d.tar.xz"
YEARS = (2020, 2021, 2022)
_FILES = {"latex": "latex", "opt": "content", "slt": "presentation"}
_MARKED = re.compile(r"<(?:\w+:)?merror\b")
KINDS = ("SLT", "OPT")
TIMES = 20  # a year is read in some hundredths of a second


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


@dataclass(frozen=True)
class Parser:
    """A way from LaTeX to trees, and the official trees it is measured against."""

    name: str
    kind: str  # SLT or OPT
    read: Callable[[str], ParsedFormula]


PARSERS = [
    Parser("layout parser", "SLT", layout.read_latex),
    Parser("operator parser", "OPT", operators.read_latex),
]


def official_tree(pair: Pair, kind: str) -> ParsedFormula:
    """The official tree; its reason says why it is no truth, "" if it is one."""
    markup, read = (pair.presentation, read_presentation) if kind == "SLT" else (pair.content, read_content)
    reading = read(markup)
    # In Content MathML an error can stand within an identifier, where it leaves no trace in the tree.
    if reading.reason == SOURCE or _MARKED.search(markup):
        return replace(reading, reason="marks a part as an error (`merror`)")
    if reading.reason:
        return replace(reading, reason=f"has no tree: {reading.reason}")
    broken = any(label.startswith(ERROR) for label in reading.tree.labels)
    return replace(reading, reason="has a part that LaTeXML did not understand (`E!`)") if broken else reading


def truth(pair: Pair, kind: str) -> Tree | None:
    """The official tree; None if it holds an error."""
    reading = official_tree(pair, kind)
    return None if reading.reason else reading.tree


@dataclass(frozen=True)
class Result:
    """One way on the pairs of a year.

    Attributes
    ----------
    identical, distinct : shares of identical trees over all pairs, and over distinct LaTeX.
    f1 : mean tuple F1.
    seconds, number : CPU seconds and formulas converted in them.
    failed : pairs with a part that was not read.
    """

    identical: float
    distinct: float
    f1: float
    seconds: float
    number: int
    failed: int


def result(readings: list[ParsedFormula], pairs: list[tuple[str, Tree]], seconds: float, number: int) -> Result:
    """Readings against the official trees."""
    same = [reading.tree == tree for reading, (_, tree) in zip(readings, pairs, strict=True)]
    f1 = [tuple_f1(reading.tree, tree) for reading, (_, tree) in zip(readings, pairs, strict=True)]
    distinct = {latex: each for (latex, _), each in zip(pairs, same, strict=True)}
    failures = sum(bool(reading.reason) for reading in readings)
    n = len(pairs)
    return Result(sum(same) / n, sum(distinct.values()) / len(distinct), sum(f1) / n, seconds, number, failures)


def measure(parser: Parser, pairs: list[tuple[str, Tree]]) -> Result:
    """One of our own ways: the best of `TIMES`."""
    best = float("inf")
    readings: list[ParsedFormula] = []
    for _ in range(TIMES):
        start = time.process_time()
        readings = [parser.read(latex) for latex, _ in pairs]
        best = min(best, time.process_time() - start)
    return result(readings, pairs, best, len(pairs))


def converted(latex: Iterable[str]) -> tuple[dict[str, latexml.Markup], float]:
    """What LaTeXML makes of formulas, each once and none from its cache, and the CPU seconds of its processes."""
    distinct = list(dict.fromkeys(latex))
    with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, HARNESS_CACHE=folder):
        latexml.version()  # asks a process, once
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        found = dict(zip(distinct, latexml.convert(distinct), strict=True))
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return found, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def table(years: Iterable[int], mirror: Path) -> list[tuple[str, ...]]:
    """The results; the first line is the head."""
    out: list[tuple[str, ...]] = [
        ("tree", "parser", "topics", "pairs", "identical", "distinct", "tuple F1", "failed", "CPU s", "formulas/s")
    ]
    for year in years:
        official = official_pairs(mirror, year)
        pairs = {
            kind: [(pair.latex, tree) for pair in official if (tree := truth(pair, kind)) is not None] for kind in KINDS
        }
        faithful = {} if latexml.missing() else dict([_faithful(pairs)])
        for kind in KINDS:
            rows = [(each.name, measure(each, pairs[kind])) for each in PARSERS if each.kind == kind]
            rows += [(name, found[kind]) for name, found in faithful.items()]
            for name, each in rows:
                shown = (f"{each.identical:.1%}", f"{each.distinct:.1%}", f"{each.f1:.3f}", str(each.failed))
                speed = (f"{each.seconds:.3g}", f"{each.number / each.seconds:,.0f}")
                out.append((kind, name, str(year), f"{len(pairs[kind]):,}", *shown, *speed))
    return out


def _faithful(pairs: dict[str, list[tuple[str, Tree]]]) -> tuple[str, dict[str, Result]]:
    """LaTeXML, which makes both trees at once."""
    markups, seconds = converted(latex for some in pairs.values() for latex, _ in some)
    found = {
        kind: result(
            [latexml.read_latexml(markups[latex], kind.lower()) for latex, _ in some], some, seconds, len(markups)
        )
        for kind, some in pairs.items()
    }
    return f"LaTeXML {latexml.version()}", found


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--markdown", action="store_true", help="print Markdown tables")
    arguments = parser.parse_args()
    show(table(YEARS[1:], Path(os.environ.get("HARNESS_MIRROR", "."))), arguments.markdown)
    print(f"CPU time, the least of {TIMES} (LaTeXML: each LaTeX once, both trees at once, with its start);")
    print(machine())


if __name__ == "__main__":
    main()
