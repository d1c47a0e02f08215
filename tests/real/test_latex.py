"""The LaTeX of every paper's report compiles as it is."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from harness.papers.paper import load_paper, paper_names
from harness.papers.report.paper import paper_report
from harness.papers.reproduce import recompute_paper
from harness.store.provenance import provenance


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.parametrize("key", paper_names())
def test_the_report_of_a_paper_compiles(key: str, mirror: Path, tmp_path: Path, pdflatex: str) -> None:
    reproduction = recompute_paper(load_paper(key))
    report = paper_report(reproduction, provenance({}, ["harness", "reproduce", f"paper={key}"]))
    report.write(tmp_path, ["tex"])
    command = [pdflatex, "-no-shell-escape", "-interaction=nonstopmode", "-halt-on-error", "report.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout[-2000:].decode("utf-8", "replace")
    assert (tmp_path / "report.pdf").stat().st_size > 20_000
