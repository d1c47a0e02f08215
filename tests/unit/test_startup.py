"""Heavy libraries are loaded by what needs them, not by starting."""

from __future__ import annotations

import subprocess
import sys

import pytest

LARGE = ("scipy.stats", "pandas", "matplotlib")
HEAVY = (*LARGE, "scipy.optimize", "hydra", "jinja2")
HELP = """
import sys
sys.argv = ["harness", "--help"]
from harness.cli.program import main
try:
    main()
except SystemExit as end:
    assert end.code == 0
"""
LOOK = """
from harness.cli.entries import rows
from harness.cli.findings import findings
rows("systems")
findings()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "kept_out"),
    [
        ("import harness", (*HEAVY, "numpy", "yaml", "typer", "scipy")),
        (HELP, (*HEAVY, "numpy", "yaml", "scipy")),
        # What `harness score` needs to read and score runs.
        ("import harness.data.trec, harness.scoring.scorer, harness.collections.collection", HEAVY),
        ("import harness.experiments.evaluate, harness.scoring.compare, harness.papers.paper", LARGE),
        # Lists and `harness doctor` look for packages, and load none.
        (LOOK, (*LARGE, "torch", "transformers", "sentence_transformers", "spacy", "sklearn")),
    ],
)
def test_what_is_not_loaded(code: str, kept_out: tuple[str, ...]) -> None:
    ending = f"import sys; sys.stderr.write(' '.join(m for m in {kept_out} if m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", f"{code}\n{ending}"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
