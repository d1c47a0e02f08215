"""The files for papers: a document with nothing but what they ask for takes in every table and every figure."""

from __future__ import annotations

import csv
import re
import subprocess
from itertools import product
from pathlib import Path

import pypdfium2
import pytest
from tools import Place

from harness.collections.load import load_collection


@pytest.fixture(scope="module")
def demonstration(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("typst", reason="typst is not installed (extra pdf)")
    place = Place(tmp_path_factory.mktemp("demonstration"))
    place.good("reproduce", "formats=[tex,csv,pdf]")
    return place.here / "reports"


def compiles(folder: Path, pdflatex: str) -> None:
    """A document that has each table and figure on a page of its own, and the whole report, go through pdflatex."""
    tables, figures = sorted(folder.glob("tables/*.tex")), sorted(folder.glob("figures/*.pdf"))
    assert {path.stem for path in tables} == {path.stem for path in folder.glob("tables/*.csv")}
    assert figures
    assert {path.stem for path in figures} == {path.stem for path in folder.glob("figures/*.svg")}
    packages: set[str] = set()
    pages = []
    for path in tables:
        lines = path.read_text("utf-8").splitlines()
        code = "\n".join(line for line in lines if not line.startswith("%"))
        assert code.startswith(r"\begin{tabular}")
        assert code.endswith(r"\end{tabular}")
        assert not re.search(r"\\(resizebox|allowbreak|documentclass|usepackage|begin\{table)", code)
        assert lines[0].startswith("% Needs ")
        packages.update(re.findall(r"\\usepackage(?:\[\w+\])?\{\w+\}", lines[0]))
        pages.append(f"\\begin{{table}}\\input{{tables/{path.stem}}}\\caption{{x}}\\end{{table}}")
    for path in figures:
        drawing = f"\\includegraphics[width=\\linewidth]{{figures/{path.stem}}}"
        pages.append(f"\\begin{{figure}}{drawing}\\caption{{x}}\\end{{figure}}")
    head = ["\\documentclass{article}", *sorted(packages), r"\usepackage{graphicx}", r"\begin{document}"]
    body = "\n\\clearpage\n".join(pages)
    (folder / "paper.tex").write_text("\n".join([*head, body, "\\end{document}\n"]), encoding="utf-8")
    for name in ("paper", "report"):
        command = [pdflatex, "-no-shell-escape", "-interaction=nonstopmode", "-halt-on-error", f"{name}.tex"]
        done = subprocess.run(command, cwd=folder, capture_output=True, timeout=300, check=False)
        assert done.returncode == 0, done.stdout.decode("utf-8", "replace")[-2000:]
    assert len(pypdfium2.PdfDocument(folder / "paper.pdf")) == len(pages)
    # The whole report shows the drawings themselves.
    log = (folder / "report.log").read_text("latin-1").replace("\n", "")
    assert all(f"figures/{path.name}" in log for path in figures)


@pytest.mark.parametrize("name", ["mini-task1", "mini-task2", "mini-theorems"])
@pytest.mark.slow
def test_the_files_of_the_demonstration_fit_into_a_paper(demonstration: Path, pdflatex: str, name: str) -> None:
    compiles(demonstration / name, pdflatex)


def read(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream, strict=True))


@pytest.mark.slow
def test_the_records_hold_every_run_topic_and_measure(demonstration: Path) -> None:
    for folder in sorted(demonstration.iterdir()):
        scores, tests = read(folder / "scores.csv"), read(folder / "comparison.csv")
        scorer = load_collection(folder.name).scorer()
        runs = {row["run"] for row in scores}
        assert {(row["run"], row["topic"]) for row in scores} == set(product(runs, scorer.qrels.topics))
        assert len(scores) == len(runs) * len(scorer.qrels.topics)
        fields = [(measure, row[measure]) for row in scores for measure in scorer.measures]
        # Of a topic without results there is no share of judged ones.
        assert all(0 <= float(value) <= 1 if value else measure.startswith("Judged") for measure, value in fields)
        compared = {(row["a"], row["b"], row["measure"]) for row in tests}
        (baseline,) = {row["b"] for row in tests}
        measures = [measure for measure in scorer.measures if not measure.startswith("Judged")]
        assert compared == {(run, baseline, measure) for run in runs - {baseline} for measure in measures}
        assert len(tests) == len(compared) == int(tests[0]["family"])
        for row in tests:
            low, middle, high = (float(row[key]) for key in ("ci_low", "difference", "ci_high"))
            assert low <= middle <= high
            assert float(row["p"]) <= float(row["p_holm"]) <= float(row["p_bonferroni"]) <= 1
            assert {"effect_size", "n", "mean_a", "mean_b"} <= set(row)
        for path in (*folder.glob("*.csv"), *folder.glob("tables/*.csv")):
            assert path.read_text("utf-8").partition("\n")[0].isascii(), path
    rows = read(demonstration / "mini-task1" / "tables" / "tests.csv")
    assert all(float(row["95% low"]) <= float(row["difference"]) <= float(row["95% high"]) for row in rows)


@pytest.mark.slow
def test_all_papers_without_the_files_of_one(tmp_path: Path) -> None:
    """Offline and with an empty cache: the others are recomputed, and the last line says how to get the files."""
    done = Place(tmp_path).run("reproduce", "paper=all", "formats=[json]")
    *papers, last = done.out.splitlines()
    assert (done.code, last) == (2, "reports: reports")
    assert {line.partition(":")[0] for line in papers} == {path.name for path in tmp_path.glob("here/reports/*")}
    assert "crossmath" not in done.out
    assert done.err.splitlines()[-1].endswith("files of the paper are not here; to fetch: harness fetch crossmath")
