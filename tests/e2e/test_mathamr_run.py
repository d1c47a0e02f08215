"""MathAMR+ on dependency graphs from the command line, on the embedded corpus: made, made again, and refused."""

from __future__ import annotations

import pytest
from tools import Place, table

from harness.store.sidecar import sidecar_path
from harness.systems.mathamr.graphs import parsers

CORPUS = """name: mini-problems
title: Mini collection, problems with their solutions
licence: CC0
file: {embedded: corpora/mini-problems.jsonl}
fields: {id: id, solution: body}
keep: [problem]
"""
RUN = ("run", "collection=mini-task1", "corpus=mini-answers", "system=mathamr-dependency", "formats=[json]")
SMALL = (
    *("system.pairs.mse-pages=null", "system.pairs.math=null", "+system.pairs.mini-problems=problem"),
    "system.leave_out=[mini-task1]",
    "system.vocabulary=500",
    *("system.model.dim=8", "system.model.out=4", "system.model.layers=1", "system.model.bases=2"),
    *("system.training.epochs=1", "system.training.batch=8", "system.training.validation=0.2"),
)
PRODUCED = "runs/mini-task1/mathamr-dependency.run"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A folder in which the run has been made once."""
    for module in ("torch", "spacy"):
        pytest.importorskip(module, reason=f"{module} is not installed (extra graphs)")
    if lines := parsers.missing():
        pytest.skip(lines[0])
    place = Place(tmp_path_factory.mktemp("mathamr"))
    # The library chooses its numbers of threads by the processor, and sums of floats depend on it.
    place.environment["OMP_NUM_THREADS"] = "1"
    place.write("conf/corpus/mini-problems.yaml", CORPUS)
    place.good(*RUN, *SMALL)
    return place


@pytest.mark.heavy
def test_a_run_of_all_documents(place: Place) -> None:
    lines = [line.split("\t") for line in (place.here / PRODUCED).read_text().splitlines()]
    topics = list(dict.fromkeys(line[0] for line in lines))
    documents = {line[2] for line in lines}
    assert len(topics) > 40
    assert len(lines) == len(topics) * len(documents)
    assert sidecar_path(place.here / PRODUCED).is_file()
    assert [path.name for path in (place.here / "runs" / "workspace").rglob("*")] == ["mathamr-dependency"]
    kinds = {row[0] for row in table(place.good("store", "ls"))[1:-1]}
    assert {"post-graphs", "mathamr-model", "mathamr-vectors"} <= kinds


@pytest.mark.slow
def test_the_report_says_what_it_is(place: Place) -> None:
    (report,) = (place.here / "reports" / "mini-task1" / "mathamr-dependency").glob("report.json")
    text = report.read_text(encoding="utf-8")
    assert "Graphs are of a dependency parser, not of AMR." in text
    assert "Trained on the pairs of mini-problems; left out were posts that mini-task1 judges." in text
    assert "mini-problems: which answer was accepted is not known" in text
