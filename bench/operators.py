"""The operator tree parser on the formulas of the ARQMath topics, by year and by size of the official tree; speed.

Columns: pairs, identical trees over all and over distinct LaTeX, mean tuple F1, formulas with a part that was not read.
Then what the formulas hold whose trees differ, formulas a second, and CPU time on long and broken input, which must
grow with the length: 50 ms at most up to 2 kB. The parser was developed on the topics of 2022; those of 2021 are held
out. Official trees with an error of LaTeXML are left out. Reads the folder HARNESS_MIRROR. `--markdown` for
bench/results.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from bench.formulas import official_pairs, truth
from harness.formulas.opt.read import read_latex
from harness.formulas.trees.tree import Tree
from harness.formulas.trees.tuples import tuple_f1

YEARS = (2021, 2022)
SIZES = ((1, 1), (2, 5), (6, 10), (11, 20), (21, 40), (41, 1_000_000))
LIMIT = 0.05  # CPU seconds for 2 kB
# What a formula holds, by the first that applies.
HOLDS = {
    "alignment or other environment": r"\\begin",
    "text": r"\\(?:text|mbox|hbox)|\\tag",
    "characters beyond ASCII": r"[^\x00-\x7f]",
    "question mark": r"\?",
    "bars": r"\||\\mid|\\[lr]?[vV]ert|\\parallel",
    "set": r"\\\{",
    "big operator": r"\\(?:sum|prod|int|lim|sup|inf|max|min|bigcup|bigcap)",
    "comma": ",",
    "slash": "/",
    "anything else": "",
}
PIECES = ("{", "(", "|", "x^{", "\\frac", "a-", "a,=", "|a", "\\sin ", "\\begin{matrix}a&", "\\left(", "\x00", "a\\\\")


@dataclass(frozen=True)
class Result:
    """A formula as it was read, and its official tree."""

    latex: str
    same: bool
    f1: float
    size: int
    failed: bool


def result(latex: str, tree: Tree) -> Result:
    """One formula, read and compared."""
    reading = read_latex(latex)
    return Result(latex, reading.tree == tree, tuple_f1(reading.tree, tree), len(tree), bool(reading.reason))


def row(name: str, results: list[Result]) -> tuple[str, ...]:
    """A line of the table."""
    if not results:
        return (name, "0", "", "", "", "")
    n = len(results)
    distinct = {each.latex: each.same for each in results}
    return (
        name,
        f"{n:,}",
        f"{sum(each.same for each in results) / n:.1%}",
        f"{sum(distinct.values()) / len(distinct):.1%} of {len(distinct):,}",
        f"{sum(each.f1 for each in results) / n:.3f}",
        str(sum(each.failed for each in results)),
    )


def seconds(formulas: list[str]) -> float:
    """CPU seconds to read formulas, the least of three."""
    best = float("inf")
    for _ in range(3):
        start = time.process_time()
        for formula in formulas:
            read_latex(formula)
        best = min(best, time.process_time() - start)
    return best


def shown(table: list[tuple[str, ...]], markdown: bool) -> None:
    """Prints a table, the first line being its head."""
    if markdown:
        print("| " + " | ".join(table[0]) + " |\n|" + "---|" * len(table[0]))
        print("\n".join("| " + " | ".join(line) + " |" for line in table[1:]) + "\n")
    else:
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        for line in table:
            print("  ".join(field.ljust(width) for field, width in zip(line, widths, strict=True)))
        print()


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--markdown", action="store_true", help="print Markdown tables")
    parser.add_argument("--year", type=int, action="append", help=f"a year of topics (default: {YEARS})")
    arguments = parser.parse_args()
    mirror = Path(os.environ.get("HARNESS_MIRROR", "."))
    table: list[tuple[str, ...]] = [("topics", "pairs", "identical", "distinct", "tuple F1", "failed")]
    differ: list[tuple[str, ...]] = [("formulas whose trees differ", "topics", "distinct formulas")]
    formulas: list[str] = []
    for year in arguments.year or YEARS:
        pairs = [(pair.latex, tree) for pair in official_pairs(mirror, year) if (tree := truth(pair, "OPT"))]
        results = [result(latex, tree) for latex, tree in pairs]
        formulas += [latex for latex, _ in pairs]
        table.append(row(str(year), results))
        for low, high in SIZES:
            name = f"{year}, {low} to {high} nodes" if high < SIZES[-1][1] else f"{year}, {low} nodes or more"
            table.append(row(name, [each for each in results if low <= each.size <= high]))
        held = Counter(
            next(name for name, pattern in HOLDS.items() if re.search(pattern, latex))
            for latex in {each.latex for each in results if not each.same}
        )
        differ += [(name, str(year), str(number)) for name, number in held.most_common()]
    shown(table, arguments.markdown)
    shown(differ, arguments.markdown)
    time_table: list[tuple[str, ...]] = [("CPU time", "ms at 2 kB", "ms at 20 kB", "ms at 200 kB")]
    worst = 0.0
    for piece in PIECES:
        times = [seconds([piece * (size // len(piece))]) for size in (2_000, 20_000, 200_000)]
        worst = max(worst, times[0])
        time_table.append((repr(piece), *(f"{each * 1000:.1f}" for each in times)))
    shown(time_table, arguments.markdown)
    print(f"{len(formulas) / seconds(formulas):,.0f} formulas a second on one core, CPU time, the least of three;")
    print(f"Python {platform.python_version()}, {platform.machine()}")
    assert worst < LIMIT, worst


if __name__ == "__main__":
    main()
