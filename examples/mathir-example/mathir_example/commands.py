"""A command: `harness symbols CORPUS`."""

from __future__ import annotations

import re
from collections import Counter
from typing import Annotated

import typer


def symbols(
    corpus: Annotated[str, typer.Argument(help="A corpus; see 'harness list'.")],
    most: Annotated[int, typer.Option(min=1, help="How many of them.")] = 10,
) -> None:
    """Print the LaTeX commands that stand in most documents of a corpus, with the numbers of documents."""
    from harness.collections.corpora import load_corpus

    counts: Counter[str] = Counter()
    for document in load_corpus(corpus):
        latex = " ".join(formula.latex for formula in document.formulas)
        counts.update(set(re.findall(r"\\[A-Za-z]+", latex)))
    for command, count in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:most]:
        print(f"{count:6}  {command}")
