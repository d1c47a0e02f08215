"""What of a paper's tables runs here, and values that are printed twice: what is shipped, and how it is shown."""

from __future__ import annotations

import copy
import re
import shlex
from typing import Any

import pytest
import yaml
from case_tables import literals
from paper_tools import Tiny, grid, report_of, table_of
from refusals import refusal as message

from harness.io import config
from harness.papers.cells import HEADER
from harness.papers.paper import load_paper
from harness.papers.reproduce import recompute_paper
from harness.papers.rows import Available, SystemRow
from harness.render.model import Prose
from harness.systems.build import build_system
from harness.systems.dense import encoder, models
from harness.systems.states import system_state

# Table 1 of the MIRMU paper, which prints no numbers: official name -> the row of Table 2.
NICKS = dict(literals("papers/mirmu_nicks"))
MSM, MIRMU = {f"msm {n}" for n in (2, 3, 4, 5)}, {f"mirmu {n}" for n in range(1, 6)}
# How the labels of ensembles name their inputs.
WORDS = {
    "of 4 fine systems": {f"fine {n}" for n in range(1, 5)},
    **{f"of all{end}": MSM | MIRMU for end in ("", " 9 submitted")},
    "of all 4 msm": MSM,
    **{f"of all {count}mirmu": MIRMU for count in ("5 ", "")},
    **{f"of all 4 msm {end}": MSM | {"mirmu 1"} for end in ("+ Best mirmu", "+mirmu 1", "and mirmu 1")},
    **{f"of msm 4 {link} mirmu 1": {"msm 4", "mirmu 1"} for link in ("and", "+")},
}


def available_of(key: str) -> Available:
    available = load_paper(key).available
    assert available is not None
    return available


def by_label(available: Available, table: str) -> dict[str, SystemRow]:
    return {row.label: row for row in available.rows if row.table == table}


# MIRMU and MSM


def test_every_row_of_their_tables_is_there() -> None:
    paper, available = load_paper("mirmu-msm"), available_of("mirmu-msm")
    assert set(by_label(available, "1")) == set(NICKS)
    for table in ("2", "3", "figure 2"):
        cells = [cell for cell in paper.cells if cell.table == table]
        rows = by_label(available, table)
        assert set(rows) == {cell.system for cell in cells}
        for label, row in rows.items():
            years = sorted({cell.collection for cell in cells if cell.system == label})
            assert list(row.collections) == [f"{year}-task1" for year in years]
    assert len(available.rows) == 10 + 10 + 26 + 1
    assert {row.table for row in available.rows} == {"1", "2", "3", "figure 2"}


def test_their_first_table_names_the_rows_of_the_second() -> None:
    available = available_of("mirmu-msm")
    second = {row.short: row for row in by_label(available, "2").values()}
    for label, row in by_label(available, "1").items():
        other = second[NICKS[label]]
        assert (row.system, row.settings, row.inputs) == (other.system, other.settings, other.inputs)
        assert row.collections == ("arqmath-1-task1", "arqmath-2-task1", "arqmath-3-task1")


def test_their_ensembles_fuse_what_their_labels_say_as_they_say() -> None:
    seen = 0
    for row in available_of("mirmu-msm").rows:
        if row.table == "1":
            continue
        found = re.search(r"\b(rrf|rrf (?P<k>\d+)|ibc|rbc|wibc)(– Ensemble)? (?P<of>of .*)$", row.label)
        if found is None:
            assert not row.inputs
            continue
        seen += 1
        method = found[1].split()[0]
        assert row.system == f"fusion-{method}"
        assert {item.short for item in row.inputs} == WORDS[found["of"]]
        assert len(row.inputs) == len(WORDS[found["of"]])
        assert dict(row.settings) == ({"k": int(found["k"] or 60)} if method == "rrf" else {"variant": "paper"})
        assert row.trained == (method in ("rbc", "wibc"))
    assert seen == 24


@pytest.fixture
def no_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """No model is here, and the libraries that read them are."""
    monkeypatch.setattr(models, "missing", lambda name: [f"needs the model {name}: harness fetch {name}"])
    monkeypatch.setattr(encoder, "missing", list)


@pytest.mark.slow
@pytest.mark.usefixtures("no_models")
def test_what_of_theirs_runs_here() -> None:
    available = available_of("mirmu-msm")
    runs = {row.short: row for row in available.rows if row.state() == "runs"}
    systems = {"msm 2": "msm-tfidf", "msm 3": "msm-bm25", "msm 4": "msm-sum", "fine 2": "msm-bm25"}
    assert {row.short: row.system for row in runs.values() if row.table != "1"} == systems
    assert dict(runs["fine 2"].settings) == {"k1": 1.8, "b": 0.75, "delta": 1.0, "name": "msm-bm25-fine"}
    for row in available.rows:
        inputs = {item.short for item in row.inputs}
        if row.system == "compubert" or "msm 5" in inputs:  # whose model a person has to download
            assert row.state() == "needs"
            assert re.search(r"\bcompubert \(manual download of https://drive\.google\.com/", row.why())
        elif row.system.startswith("mirmu-") or inputs:
            assert row.state() == "needs"
            assert re.fullmatch(r"the models? .* \(hub\)", row.why())
        else:
            assert row.state() == "runs"
            assert row.why() == ""


@pytest.mark.slow
@pytest.mark.usefixtures("no_models")
def test_a_number_needs_the_models_and_the_corpus_of_its_row() -> None:
    available = available_of("mirmu-msm")
    causes = {
        verdict.cell.system.partition(":")[0]: (verdict.verdict, verdict.cause)
        for verdict in recompute_paper(load_paper("mirmu-msm")).verdicts
        if verdict.cell.table in ("2", "3")
    }
    retriever, corpus = "sentence-transformers/all-MiniLM-L12-v2", "and corpus arqmath-posts (rehearsed at 0.2.0)"
    assert causes["fine 4"] == ("needs", f"the model {retriever} (hub) {corpus}")
    for label, model in {"mirmu 1": "FacebookAI/roberta-large", "mirmu 5": "witiko/mathberta"}.items():
        assert causes[label] == ("needs", f"the models {model} and {retriever} (hub) {corpus}")
    assert causes["msm 3"] == ("needs", "the corpus arqmath-posts (rehearsed at 0.2.0)")
    brought = config.load("system", "compubert")[0]["by_hand"]
    assert causes["ens 9"] == causes["msm 5"] == ("needs", f"the model compubert ({brought}) {corpus}")
    assert all(available.full(row) for row in available.rows)


@pytest.mark.usefixtures("no_models")
def test_the_list_of_systems_gives_the_same_command() -> None:
    available = available_of("mirmu-msm")
    systems = {row.system: row for row in available.rows if row.system.startswith("mirmu-")}
    assert len(systems) == 7
    for name, row in systems.items():
        kind, state = system_state(config.load("system", name)[0], name)
        assert (kind, state) == ("needs", f"needs {row.why(available.corpus)}: {available.full(row)}")


@pytest.mark.slow
def test_every_command_of_theirs_is_one_that_can_be_given() -> None:
    available = available_of("mirmu-msm")
    commands = [command for row in available.rows for command in (available.full(row), available.small(row)) if command]
    assert len(commands) > len(available.rows)
    for command in commands:
        program, run, *words = shlex.split(command)
        assert (program, run) == ("harness", "run")
        given = dict(word.split("=", 1) for word in words)
        assert given["collection"] in config.names("collection")
        assert given["corpus"] in ("arqmath-posts", "mse-pages")
        mapping, where = config.load("system", given["system"])
        for key, value in given.items():
            if key.startswith("system."):
                *above, last = key.removeprefix("system.").split(".")
                inner = mapping = copy.deepcopy(mapping)
                for part in above:
                    inner = inner[part]
                assert last in inner
                inner[last] = yaml.safe_load(value)
        assert callable(build_system(mapping, where))
        if "training" in given:
            (training,) = yaml.safe_load(given["training"])
            assert training in config.names("collection")
            assert training != given["collection"]
            assert len(mapping["training_runs"]) == len(mapping["runs"])
        for run in mapping.get("runs", ()) if "mse-pages" in command else ():
            # A file where the name would make another run: of other settings, or trained on these very judgments.
            assert run in config.names("system") or re.fullmatch(rf"runs/{given['collection']}/[a-z0-9-]+\.run", run)


def test_one_command_of_theirs_in_full() -> None:
    available = available_of("mirmu-msm")
    row = by_label(available, "3")["ens 14: rbc of all 4 msm"]
    assert available.full(row) == (
        "harness run collection=arqmath-2-task1 corpus=arqmath-posts system=fusion-rbc system.variant=paper "
        "'system.runs=[msm-tfidf,msm-bm25,msm-sum,compubert]' 'training=[arqmath-1-task1]' "
        "'system.training_runs=[runs/arqmath-1-task1/msm-tfidf.run,runs/arqmath-1-task1/msm-bm25.run,"
        "runs/arqmath-1-task1/msm-sum.run,runs/arqmath-1-task1/compubert.run]'"
    )
    # A run with settings of its own is no system that a fusion can name.
    fine = by_label(available, "3")["ens 1: rrf 60 of 4 fine systems"]
    assert available.full(fine) == (
        "harness run collection=arqmath-3-task1 corpus=arqmath-posts system=fusion-rrf system.k=60 "
        "'system.runs=[mirmu-minilm-mathberta,runs/arqmath-3-task1/msm-bm25-fine.run,mirmu-minilm-roberta-tiered,"
        "mirmu-minilm]'"
    )
    # On the small corpus, which knows no votes, models are fine-tuned with other settings.
    tiered = by_label(available, "3")["fine 3: Improved Base"]
    assert available.small(tiered) == (
        "harness run collection=arqmath-3-task1 corpus=mse-pages system=mirmu-minilm-roberta-tiered "
        "system.training.positives=thread"
    )
    runs = ",".join(f"runs/arqmath-3-task1/{name}.run" for name in ("mirmu-minilm-mathberta", "msm-bm25-fine"))
    more = "runs/arqmath-3-task1/mirmu-minilm-roberta-tiered.run,runs/arqmath-3-task1/mirmu-minilm.run"
    assert f"'system.runs=[{runs},{more}]'" in available.small(fine)
    # Nor is one that is trained on the judgments of the collection that it is run on.
    learned = by_label(available, "3")["ens 17: rbc of msm 4 and mirmu 1"]
    assert "'system.runs=[msm-sum,runs/arqmath-2-task1/mirmu-minilm-roberta.run]'" in available.full(learned)


# Any paper

AVAILABLE: dict[str, Any] = {
    "corpus": "arqmath-posts",
    "collections": {"c1": "tiny-1", "c2": "tiny-2"},
    "without_numbers": ["0"],
    "tables": {
        "0": {"Nick": {"same_as": "Short", "note": "the same"}},
        "1": {
            "Base": {"system": "overlap"},
            "Short": {"system": "shuffle", "set": {"seed": 3, "name": "short"}},
            "Absent": {"state": "blocked: what nobody has"},
        },
    },
}


def with_rows(**rows: object) -> dict[str, Any]:
    """`AVAILABLE` with some rows of table 1 changed; None leaves one out."""
    first = {label: row for label, row in (AVAILABLE["tables"]["1"] | rows).items() if row is not None}
    return {**AVAILABLE, "tables": {**AVAILABLE["tables"], "1": first}}


def text(value: object) -> str:
    here = "here: {corpus: mini-answers, says: a small corpus}"
    return f"{here}\navailable: {yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=10000)}"


def test_a_table_of_rows(tiny: Tiny) -> None:
    report = report_of(tiny(text(AVAILABLE)))
    lacking = "the corpus arqmath-posts"
    assert grid(table_of(report, "available")) == [
        ["table", "row", "system", "runs", "missing for the full collection"],
        ["0", "Nick", "shuffle", "yes", lacking],
        ["1", "Base", "overlap", "yes", lacking],
        ["1", "Short", "shuffle", "yes", lacking],
        ["1", "Absent", "none", "blocked", f"what nobody has; {lacking}"],
    ]
    full, small = "corpus=arqmath-posts", "corpus=mini-answers"
    seeded = "system=shuffle system.seed=3 system.name=short"
    assert grid(table_of(report, "commands")) == [
        ["table", "row", "on the full collection", "on mini-answers"],
        *(
            [table, row, f"harness run {of} {full} {how}", f"harness run {of} {small} {how}"]
            for table, row, of, how in (
                ("0", "Nick", "collection=tiny-2", seeded),
                ("1", "Base", "collection=tiny-2", "system=overlap"),
                ("1", "Short", "collection=tiny-1", seeded),
            )
        ),
    ]
    (section,) = (section for section in report.sections if section.title == "Available rows")
    (prose,) = (block for block in section.blocks if isinstance(block, Prose))
    assert prose.paragraphs[0] == (
        "Of 4 rows, 3 can be run once their documents are available, 0 in part; "
        "0 need a resource, 0 are not implemented and 1 are blocked."
    )
    assert "manual download: get Posts.V1.3.xml from the organisers" in prose.paragraphs[1]
    assert prose.paragraphs[2].endswith("): here. It does not give the paper's numbers.")


def test_a_fusion_of_rows(tiny: Tiny) -> None:
    fused = {"system": "fusion-rrf", "set": {"k": 5}, "inputs": ["Base", "Short"]}
    available = available_of(tiny(text(with_rows(Absent=fused))))
    row = by_label(available, "1")["Absent"]
    assert row.state() == "runs"
    assert available.small(row) == (
        "harness run collection=tiny-1 corpus=mini-answers system=fusion-rrf system.k=5 "
        "'system.runs=[overlap,runs/tiny-1/short.run]'"
    )


def test_a_fusion_of_rows_that_are_blocked(tiny: Tiny) -> None:
    rows = with_rows(Base={"system": "fusion-ibc", "inputs": ["Absent", "Short"]})
    available = available_of(tiny(text(rows)))
    row = by_label(available, "1")["Base"]
    assert (row.state(), [item.label for item in row.elsewhere()]) == ("in part", ["Absent"])
    assert "'system.runs=[tiny-2/ABSENT.run,runs/tiny-2/short.run]'" in available.full(row)
    assert available.small(row) == ""


def test_rows_of_one_label_are_told_apart_by_their_group(tiny: Tiny) -> None:
    cells = ",".join(HEADER) + "\n"
    cells += "".join(f"tiny,9,C,Base,{group},c1,,,rr,single,0.5,,,0,\n" for group in ("ours", "theirs"))
    value = {**AVAILABLE, "tables": {"9": {f"{of} / Base": {"system": "overlap"} for of in ("ours", "theirs")}}}
    value.pop("without_numbers")
    found = by_label(available_of(tiny(text(value), {"cells.csv": cells})), "9")
    assert list(found) == ["ours / Base", "theirs / Base"]


def test_a_paper_need_not_say(tiny: Tiny) -> None:
    key = tiny()
    assert load_paper(key).available is None
    titles = {section.title for section in report_of(key).sections}
    assert not titles & {"Available rows", "Contradictory published values"}


@pytest.mark.parametrize(("rows", "keys", "fault"), literals("papers/available_faults"))
def test_faults(tiny: Tiny, rows: dict[str, Any], keys: dict[str, Any], fault: str) -> None:
    key = tiny(text({**with_rows(**rows), **keys}))
    where = config.names("paper")[key]
    assert message(lambda: load_paper(key)).startswith(f"{where}: available: {fault}")
