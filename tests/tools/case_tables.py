"""Hand-made cases in files: `tests/data/NAME.tsv`, a case on each line, its fields between tabs."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest

from harness.errors import HarnessError

DATA = Path(__file__).parents[1] / "data"


def table(name: str) -> list[tuple[str, ...]]:
    """The rows of a table; lines that begin with `# ` are remarks."""
    lines = (DATA / f"{name}.tsv").read_text(encoding="utf-8").split("\n")[:-1]
    return [tuple(line.split("\t")) for line in lines if not line.startswith("# ")]


def faults(*families: str) -> pytest.MarkDecorator:
    """Parametrises a test with the systems of some families, wrong parameters and what is said of them."""
    rows = [row for row in table("systems/faults") if row[0].split(".")[0] in families]
    return pytest.mark.parametrize(("system", "parameters", "said"), rows)


def check_fault(system: str, parameters: str, said: str) -> None:
    """A system, by its dotted name below `harness.systems`, refuses its parameters (JSON) with one line."""
    module, _, name = system.rpartition(".")
    with pytest.raises(HarnessError) as caught:
        getattr(importlib.import_module(f"harness.systems.{module}"), name)(**json.loads(parameters))
    assert str(caught.value) == said
