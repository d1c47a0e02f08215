"""Hand-made cases in files: `tests/data/NAME.tsv`, a case on each line, its fields between tabs."""

from __future__ import annotations

from pathlib import Path

DATA = Path(__file__).parents[1] / "data"


def table(name: str) -> list[tuple[str, ...]]:
    """The rows of a table; lines that begin with `# ` are remarks."""
    lines = (DATA / f"{name}.tsv").read_text(encoding="utf-8").split("\n")[:-1]
    return [tuple(line.split("\t")) for line in lines if not line.startswith("# ")]
