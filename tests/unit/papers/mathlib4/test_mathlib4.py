"""The Mathlib4 paper: each printed number has its recipe, and slices of its topics are scored."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.experiments.evaluate import evaluate
from harness.experiments.experiment import load_experiment
from harness.experiments.task import task
from harness.io import config
from harness.io.files import sha256
from harness.papers.cells import HEADER
from harness.papers.paper import load_paper
from harness.papers.reproduce import recompute_paper
from harness.papers.user_runs import bring
from harness.systems.states import system_state

RUNS = Path(__file__).parents[4] / "runs" / "mini" / "mini-theorems"
SYSTEMS = sorted(name for name in config.names("system") if name.startswith("mathlib4-"))
# Checksums of the instructions of queries and of documents, as the paper's tables 3 and 7 print them.
PRINTED = {
    ("formal", False): ("1a59414ac316", "c7bb5a95ea27"),
    ("formal+informal", True): ("335bd711a4e0", "335bd711a4e0"),
    ("informal", False): ("f13ed2b6994e", "3dc3c4f3ba83"),
    ("formal+informal", False): ("af0757cb2128", "b55ef75b0857"),
    ("formal", True): ("58595c541e5d", "58595c541e5d"),
    ("informal", True): ("39be2ee8aa87", "39be2ee8aa87"),
}
SLICED = """
key: own
title: A paper on the mini theorems
state: "blocked: nobody has its runs"
scored:
  protocol: mathlib
  measures: {ndcg@20: nDCG@20}
  collections: {c1: {collection: mini-theorems, edition: official}}
  slices: {All: {}, TN: {form: theorem name}, none: {form: a riddle}}
"""


@pytest.fixture(autouse=True)
def _no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


@pytest.mark.slow
def test_every_row_of_its_tables_has_a_command_and_says_what_it_needs() -> None:
    available = load_paper("mathlib4").available
    assert available is not None
    assert {row.table for row in available.rows} == {"4", "5", "6"}
    for row in available.rows:
        state, why = row.state(), available.why(row)
        if row.label == "Moogle":
            assert (state, available.full(row)) == ("blocked", "")
            continue
        assert state == "needs"
        said = available.full(row)
        assert said.startswith("harness run collection=leansearch corpus=mathlib-decls system=mathlib4-")
        assert "the model" in why or "openai is not installed" in why
        assert "the collection leansearch (manual download" in why
        view, augment = (dict(row.configuration) | dict(row.settings))["view"], "Our Methods" in row.label
        augment |= row.label.startswith("with query augmentation")
        assert ("answers of openai-gpt-3.5" in why) == (view != "formal")
        assert ("answers of openai-gpt-4" in why) == augment
        paid = "mathlib4-openai" in said  # for vectors
        assert ("system.mode=live" in said) == (view != "formal" or augment or paid)


def test_a_row_that_several_tables_print_is_one_run() -> None:
    paper = load_paper("mathlib4")
    assert paper.available is not None
    rows = {(row.table, row.label): row for row in paper.available.rows}
    for group, table_6 in (("Baselines", "without"), ("Our Methods", "with")):
        view = "formal" if group == "Baselines" else "formal+informal"
        same = [rows[table, f"{group} / E5_mistral-7b"] for table in "45"]
        same.append(rows["6", f"{table_6} query augmentation | E5_mistral-7b / {view} corpus"])
        assert {row.run for row in same} == {("4", f"{group} / E5_mistral-7b")}
    runs = {row.run_name for row in rows.values() if not row.registered()}
    assert len(runs) == 16  # four models twice, and the other views and queries of two


@pytest.mark.parametrize("name", SYSTEMS)
def test_its_systems_are_bi_encoders_of_what_the_paper_says(name: str) -> None:
    mapping, _ = config.load("system", name)
    inner = mapping["system"]
    assert inner["_target_"] == "harness.systems.dense.bi_encoder.BiEncoder"
    assert (inner["characters"], inner["search"], mapping["mode"]) == (4096, "chroma", "replay")
    state, why = system_state(mapping, name)
    assert state == "needs"
    live = " system.mode=live" * ("answers of" in why or "openai" in name)
    assert why.endswith(f"corpus=mathlib-decls system={name}{live}")
    if "openai" in name:
        assert inner["calls"] is None  # what the pipeline fills


def test_instructions_stand_before_both_sides_and_are_the_same_for_augmented_queries() -> None:
    found = {name: config.load("system", name)[0] for name in SYSTEMS if "e5" in name}
    assert len(found) == 6
    texts = set()
    for mapping in found.values():
        query, document = (mapping["system"]["prefixes"][role] for role in ("query", "document"))
        assert query.startswith("Instruct: ")
        assert (query[-9:], document[-7:]) == (" \n Query:", " \n Doc:")
        assert (query[:-9] == document[:-7]) == mapping["augment"]
        assert ("bilingual" in query) == (mapping["view"] == "formal+informal")
        texts |= {query, document}
        printed = (query[len("Instruct: ") : -9], document[len("Instruct: ") : -7])
        assert tuple(sha256(text.encode())[:12] for text in printed) == PRINTED[mapping["view"], mapping["augment"]]
    assert len(texts) == 12


def test_the_picture_of_queries_has_the_models_and_instructions_of_the_paper() -> None:
    cells = load_experiment("mathlib4-queries").cells()
    told = []
    for cell in cells:
        settings = dict(override.split("=", 1) for override in cell.overrides)
        assert settings["system"] in SYSTEMS and "augmented" not in settings["system"]
        if (query := settings.get("system.system.prefixes.query")) is not None:
            instruction, *rest = query.strip("'").split(" \n ")
            told.append((sha256(instruction.removeprefix("Instruct: ").encode())[:12], rest))
    assert told == [(sha256(b"")[:12], []), ("f13ed2b6994e", ["Query:"]), ("86c420c391e5", ["Query:"])]
    assert len({cell.overrides for cell in cells}) == 6


def test_slices_are_means_over_the_topics_that_have_their_attributes(
    conf: Callable[[str, str, str], Path], tmp_path: Path
) -> None:
    path = conf("paper", "own", SLICED)
    (path.parent / "cells").mkdir()
    slices = ("All", "TN", "none", "unknown")
    lines = [f"own,1,a table,mine,,c1,search,{part},ndcg@20,single,0.5,,,0," for part in slices]
    (path.parent / "cells" / "own.csv").write_text("\n".join([",".join(HEADER), *lines]) + "\n")
    folder = tmp_path / "brought"
    folder.mkdir()
    source = sorted(RUNS.glob("*.run"))[0]
    shutil.copyfile(source, folder / "mine.run")
    (folder / "map.yaml").write_text(yaml.safe_dump({"tables": {"1": {"mine": {"c1": "mine.run"}}}}))
    paper = load_paper("own")
    got = {v.cell.slice: v for v in recompute_paper(paper, brought=bring(paper, folder, None)).verdicts}
    mini = task("mini-theorems", protocol="mathlib")
    scores = evaluate(mini, source).scores[0]
    names = [topic.id for topic in mini.topics if topic.attributes["form"] == "theorem name"]
    expected: Any = [float(scores.column("nDCG@20")[scores.topics.index(name)]) for name in names]
    assert got["All"].value == pytest.approx(scores.mean("nDCG@20"))
    assert got["TN"].value == pytest.approx(sum(expected) / 10) and got["TN"].n == 10
    assert (got["unknown"].value, got["none"].value, got["none"].verdict) == (None, None, "blocked")
