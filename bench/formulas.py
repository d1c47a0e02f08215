"""Formulas of the ARQMath topics converted from LaTeX: trees identical to the official ones, tuple F1, speed.

The official trees are those of LaTeXML in the topic files of 2021 and 2022 (jpfyoder/pt-arqmath, read from the folder
HARNESS_MIRROR); the file of 2020 was made without amsmath and is no truth. Pairs whose official tree holds an error are
left out. `distinct` counts each LaTeX once. CPU seconds and formulas a second are of the conversion alone, on one core.
LaTeXML (as installed here, without its cache) is left out where it is not installed; it takes minutes. Prints a table;
`--markdown` for bench/results.
"""

from __future__ import annotations

import csv
import io
import os
import re
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from unittest import mock

from bench.table import Clock, machine, options, show
from harness.errors import HarnessError
from harness.formulas.mathml import latexml
from harness.formulas.mathml.read import SOURCE, read_content, read_presentation
from harness.formulas.opt import read as operators
from harness.formulas.slt import read as layout
from harness.formulas.trees.tree import ERROR, ParsedFormula, Tree, tuple_f1

ARCHIVE = "github.com/jpfyoder/pt-arqmath/0d63b1776a4da96d7200b8d5e86b4b15f1777e1d.tar.xz"
YEARS = (2020, 2021, 2022)
_FILES = {"latex": "latex", "opt": "content", "slt": "presentation"}
_MARKED = re.compile(r"<(?:\w+:)?merror\b")
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


# Official trees -> our way from LaTeX to them.
PARSERS: Mapping[str, tuple[str, Callable[[str], ParsedFormula]]] = {
    "SLT": ("layout parser", layout.read_latex),
    "OPT": ("operator parser", operators.read_latex),
}
Truths = list[tuple[str, Tree]]  # LaTeX with its official tree


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


def cells(readings: list[ParsedFormula], pairs: Truths, seconds: float, number: int) -> tuple[str, ...]:
    """Readings against the official trees; `number` formulas were converted in so many CPU seconds."""
    same = [reading.tree == tree for reading, (_, tree) in zip(readings, pairs, strict=True)]
    f1 = [tuple_f1(reading.tree, tree) for reading, (_, tree) in zip(readings, pairs, strict=True)]
    distinct = {latex: each for (latex, _), each in zip(pairs, same, strict=True)}
    shares = f"{sum(same) / len(pairs):.1%}", f"{sum(distinct.values()) / len(distinct):.1%}"
    failed = sum(bool(reading.reason) for reading in readings)
    return (*shares, f"{sum(f1) / len(pairs):.3f}", str(failed), f"{seconds:.3g}", f"{number / seconds:,.0f}")


def measured(read: Callable[[str], ParsedFormula], pairs: Truths) -> tuple[str, ...]:
    """One of our own ways: the best of `TIMES`."""
    best = float("inf")
    for _ in range(TIMES):
        start = time.process_time()
        readings = [read(latex) for latex, _ in pairs]
        best = min(best, time.process_time() - start)
    return cells(readings, pairs, best, len(pairs))


def converted(latex: Iterable[str]) -> tuple[dict[str, latexml.Markup], float]:
    """What LaTeXML makes of formulas, each once and none from its cache, and the CPU seconds of its processes."""
    distinct = list(dict.fromkeys(latex))
    with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, HARNESS_CACHE=folder):
        latexml.version()  # asks a process, once
        begin = Clock.now()
        found = dict(zip(distinct, latexml.convert(distinct), strict=True))
        return found, Clock.now().cpu - begin.cpu


def table(years: Iterable[int], mirror: Path) -> list[tuple[str, ...]]:
    """The results; the first line is the head."""
    out: list[tuple[str, ...]] = [
        ("tree", "parser", "topics", "pairs", "identical", "distinct", "tuple F1", "failed", "CPU s", "formulas/s")
    ]
    for year in years:
        official = official_pairs(mirror, year)
        pairs = {
            kind: [(pair.latex, tree) for pair in official if (tree := truth(pair, kind)) is not None]
            for kind in PARSERS
        }
        markups: dict[str, latexml.Markup] = {}
        seconds = 0.0
        if not latexml.missing():  # which makes both trees at once
            markups, seconds = converted(latex for some in pairs.values() for latex, _ in some)
        for kind, (name, read) in PARSERS.items():
            some = pairs[kind]
            rows = {name: measured(read, some)}
            if markups:
                readings = [latexml.read_latexml(markups[latex], kind.lower()) for latex, _ in some]
                rows[f"LaTeXML {latexml.version()}"] = cells(readings, some, seconds, len(markups))
            out += [(kind, name, str(year), f"{len(some):,}", *row) for name, row in rows.items()]
    return out


def main() -> None:
    """Print the tables."""
    arguments = options(__doc__).parse_args()
    show(table(YEARS[1:], Path(os.environ.get("HARNESS_MIRROR", "."))), arguments.markdown)
    print(f"CPU time, the least of {TIMES} (LaTeXML: each LaTeX once, both trees at once, with its start);")
    print(machine())


if __name__ == "__main__":
    main()
