"""Hand-made cases in files: `tests/data/NAME.tsv`, a case on each line, its fields between tabs."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[1] / "data"


def table(name: str) -> list[tuple[str, ...]]:
    """The rows of a table; lines that begin with `# ` are remarks."""
    lines = (DATA / f"{name}.tsv").read_text(encoding="utf-8").split("\n")[:-1]
    return [tuple(line.split("\t")) for line in lines if not line.startswith("# ")]


def literals(name: str) -> list[tuple[Any, ...]]:
    """The rows of a table whose fields are written as in Python."""
    return [tuple(map(ast.literal_eval, row)) for row in table(name)]


def refusals(name: str) -> list[tuple[str, ...]]:
    """The rows of `refusals/NAME.tsv`: a command, or a text and what replaces it, and the line that refuses it."""
    rows = table(f"refusals/{name}")
    return [tuple(field.replace("\\n", "\n").replace("\\t", "\t") for field in row) for row in rows]
