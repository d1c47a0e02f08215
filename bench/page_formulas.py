"""Formulas of pages of Math Stack Exchange: trees of the harness's parsers and of LaTeXML, and kinds of differences.

Columns: distinct formulas of the corpus `mse-pages`, identical trees, formulas with a part that was not read. The pages
hold the organisers' Presentation MathML; `--latexml N` also converts N of the formulas without entities (drawn with
seed 42) with LaTeXML as it is installed here, a tenth of a second each. Formulas whose tree holds an error of LaTeXML
are left out. Then the formulas whose trees differ, by the first kind that applies. Reads the folder HARNESS_MIRROR.
"""

from __future__ import annotations

import argparse
import html
import random
import re
from collections import Counter
from collections.abc import Iterable

from harness.collections.corpora import load_corpus
from harness.formulas.mathml import latexml
from harness.formulas.mathml.read import read_presentation
from harness.formulas.opt import read as operators
from harness.formulas.slt import read as layout
from harness.formulas.trees.reading import ERROR, Reading

_MATH = re.compile(r'<span class="math-container" id="(\d+)" visual_id="\d+">(<math\b.*?</math>)', re.DOTALL)
# What the LaTeX of a differing formula holds, by the first pattern that applies.
KINDS = {
    "characters beyond ASCII (variables in LaTeXML)": r"[^\x00-\x7f]",
    "entities of HTML, or markup (the page's own trees are of other LaTeX)": r"&(?:[lg]t|amp|#\d+);|&\\displaystyle|</",
    "internal commands of LaTeXML in the page's LaTeX": r"\\(?:qvar@|@@|lx@)|\\hfil",
    "displays: text, or their first cell, in LaTeXML": r"\\begin\{(?:equation|align|gather|aligned)|\\\\",
    "bars": r"\||\\[lr]?[vV]ert|\\mid",
    "fonts: adjacent letters joined, or not": r"\\(?:mathbf|mathrm|mathsf|text(?:bf|it)|bf|rm)(?![a-z])",
    "arrows and relations with labels": r"\\(?:x[a-z]*arrow|(?:over|under)set|stackrel|mathop)",
    "integrals: whether d is a differential": r"\\i*int",
    "partial derivatives": r"\\partial",
    "limits of max and min (display style)": r"\\(?:max|min|limits)",
    "leading or wide spaces": r"^\\[ ,;]|\\q?quad|\\ \\ ",
    "brackets that do not match, sets that LaTeXML did not parse": r"[)(\]\[]|\\[{}]",
    "anything else": "",
}
Pairs = list[tuple[str, Reading]]


def page_pairs() -> Pairs:
    """Returns the distinct LaTeX of the pages, each with the tree of the page's markup."""
    corpus = load_corpus("mse-pages")
    found = {match[1]: match[2] for page in sorted(corpus.path.iterdir()) for match in _MATH.finditer(page.read_text())}
    latex = {
        formula.latex: found[formula.id]
        for document in corpus
        for formula in document.formulas
        if formula.latex and formula.id in found
    }
    return [(each, read_presentation(markup)) for each, markup in latex.items()]


def show(name: str, kind: str, pairs: Iterable[tuple[str, Reading]]) -> None:
    """Prints the line of one comparison and its differences by kind."""
    read = layout.read_latex if kind == "SLT" else operators.read_latex
    clean = [
        (latex, truth.tree)
        for latex, truth in pairs
        if not truth.reason and not any(label.startswith(ERROR) for label in truth.tree.labels)
    ]
    readings = [read(latex) for latex, _ in clean]
    differ = [latex for (latex, tree), reading in zip(clean, readings, strict=True) if reading.tree != tree]
    failed = sum(bool(reading.reason) for reading in readings)
    print(f"| {kind} | {name} | {len(clean):,} | {1 - len(differ) / len(clean):.2%} | {failed} |")
    kinds = Counter(next(name for name, pattern in KINDS.items() if re.search(pattern, latex)) for latex in differ)
    for held, number in kinds.most_common():
        print(f"|  | {held} | {number} |  |  |")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--latexml", type=int, default=0, metavar="N", help="formulas to convert with LaTeXML")
    arguments = parser.parse_args()
    pairs = page_pairs()
    print("| tree | made by | formulas | identical | failed |\n|---|---|---|---|---|")
    show("the pages", "SLT", pairs)
    if arguments.latexml:
        plain = [latex for latex, _ in pairs if html.unescape(latex) == latex and r"&\displaystyle amp;" not in latex]
        drawn = random.Random(42).sample(plain, arguments.latexml)
        markups = latexml.convert(drawn)
        for kind in ("SLT", "OPT"):
            trees = [latexml.read(markup, kind.lower()) for markup in markups]
            show(f"LaTeXML {latexml.version()}", kind, zip(drawn, trees, strict=True))


if __name__ == "__main__":
    main()
