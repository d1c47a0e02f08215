"""Carrying out steps: what is run again, what a failure stops, waves of launchers, and how a budget is shared."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from llm_server import serving

from harness.collections.corpus import Corpus
from harness.experiments import launch
from harness.experiments.produce import make
from harness.experiments.task import task
from harness.io.files import sha256_file
from harness.papers import step_runner
from harness.papers.paper import load_paper
from harness.papers.rates import Range
from harness.papers.report.runs_made_here import durations_section
from harness.papers.step_runner import Making, StepOutcome, budget_keys, carry_out, finished, recorded, spent_dollars
from harness.papers.steps import RunStep, Selection, paper_steps
from harness.render.model import Prose
from harness.store import sidecar
from harness.systems.build import load_system

MINI = ("run", "collection=mini-task1", "corpus=mini-answers")


def single(system: str, *words: str) -> RunStep:
    return RunStep(system, (*MINI, f"system={system}", *words), ())


def fusion(name: str, *reads: str) -> RunStep:
    return RunStep(name, (*MINI, "system=fusion-rrf", f"system.runs=[{','.join(reads)}]", f"system.name={name}"), ())


@pytest.fixture
def done(tmp_path: Path) -> tuple[Making, RunStep, StepOutcome]:
    """A step that passed, with its record and its run."""
    how, step = Making(tmp_path / "making", work=tmp_path), single("bm25")
    run = tmp_path / "runs" / step.file
    produced = make(load_system("bm25"), task("mini-task1", "mini-answers"), runs=tmp_path / "runs")
    assert produced.path == run
    checksums = {f"runs/{step.file}": sha256_file(run)}
    result = StepOutcome(step.name, step.command, "", 1.0, 1.0, 1, checksums, step_runner.code())
    (how.folder / "steps").mkdir(parents=True)
    (how.folder / "steps" / "bm25.json").write_text(json.dumps(asdict(result)))
    return how, step, result


@pytest.mark.slow
def test_a_finished_step(done: tuple[Making, RunStep, StepOutcome]) -> None:
    how, step, result = done
    assert finished(how, step) == recorded(how, step) == result


def test_a_record_of_something_else(done: tuple[Making, RunStep, StepOutcome]) -> None:
    how, step, result = done
    changes: tuple[dict[str, Any], ...] = (
        {"command": "harness run"},
        {"code": "0" * 16},
        {"fault": "as told"},
        {"runs": {"runs/mini-task1/bm25.run": "0" * 64}},
        {"runs": {"runs/mini-task1/other.run": "0" * 64}},
    )
    for change in changes:
        (how.folder / "steps" / "bm25.json").write_text(json.dumps(asdict(replace(result, **change))))
        assert recorded(how, step) is not None
        assert finished(how, step) is None, change


def test_a_damaged_record_counts_as_none(done: tuple[Making, RunStep, StepOutcome]) -> None:
    how, step, result = done
    others = [
        {**asdict(result), key: value} for key, value in (("runs", 3), ("runs", None), ("runs", [1]), ("more", 1))
    ]
    for damage in ("", "{", "[]", "null", "3", '"x"', "{}", '{"step": "bm25"}', "\x00", *map(json.dumps, others)):
        (how.folder / "steps" / "bm25.json").write_text(damage)
        assert (recorded(how, step), finished(how, step)) == (None, None), damage


@pytest.mark.parametrize("change", ["changed", None])
@pytest.mark.parametrize("ending", [".run", ".ir-metadata.yml"])
def test_a_changed_or_deleted_run_is_made_again(
    done: tuple[Making, RunStep, StepOutcome], ending: str, change: str | None
) -> None:
    how, step, _ = done
    path = (how.work / "runs" / step.file).with_suffix(ending)
    path.write_text(change) if change else path.unlink()
    assert finished(how, step) is None


def test_a_run_on_another_version_of_the_corpus_is_made_again(
    done: tuple[Making, RunStep, StepOutcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    how, step, _ = done
    monkeypatch.setattr(Corpus, "declared", lambda _: "another")
    assert finished(how, step) is None


@pytest.mark.parametrize("words", [("fetch", "x"), ("run", "experiment=mini")])
def test_what_is_never_finished(done: tuple[Making, RunStep, StepOutcome], words: tuple[str, str]) -> None:
    """Fetched files may have been deleted since, and an experiment is always asked."""
    how, _, result = done
    step = RunStep("step", words, ())
    made = replace(result, step=step.name, command=step.command, runs={})
    (how.folder / "steps" / "step.json").write_text(json.dumps(asdict(made)))
    assert (recorded(how, step), finished(how, step)) == (made, None)


# ---- order and failures ---------------------------------------------------------------------------------------------


def test_waves() -> None:
    a, b, c, d = single("bm25"), single("overlap"), fusion("c", "bm25", "overlap"), fusion("d", "runs/mini-task1/c.run")
    assert [[step.name for step in wave] for wave in step_runner.waves([a, c, b, d])] == [
        ["bm25", "overlap"],
        ["c"],
        ["d"],
    ]


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, float | None]]:
    """Steps in place of commands: the name and the budget of each that is run; those named in `fail` fail."""
    called: list[tuple[str, float | None]] = []

    def command(how: Making, step: RunStep, _: Sequence[str]) -> StepOutcome:
        called.append((step.name, how.budget))
        if step_runner.budget_keys(step):  # an answer of 2.5 dollars, and half a dollar for one that was lost
            (how.folder / "spent").mkdir(parents=True, exist_ok=True)
            with (how.folder / "spent" / f"{step.name}.txt").open("a") as stream:
                stream.write("2.5\n0.5\n")
        runs = {f"runs/{step.file}": "0"} if not step.name.startswith("bad") else {}
        fault = "as told" if step.name.startswith("bad") else ""
        return StepOutcome(step.name, step.command, fault, 0, 0, 0, runs, step_runner.code(), "log")

    monkeypatch.setattr(step_runner, "_run_command", command)
    return called


def test_what_reads_a_failed_run_is_not_run_and_the_others_are(
    commands: list[tuple[str, float | None]], tmp_path: Path
) -> None:
    bad = replace(single("overlap"), name="bad", parts=(replace(single("overlap"), name="bad part"),))
    after = [fusion("with it", "bm25", "overlap"), fusion("further", "runs/mini-task1/with it.run")]
    after.append(single("tfidf-ltn"))
    found = {step.name: results for step, results in carry_out(Making(tmp_path), [single("bm25"), bad, *after])}
    assert [name for name, _ in commands] == ["bm25", "bad", "bad part", "tfidf-ltn"]
    assert [result.fault for result in found["with it"]] == ["not run: the step overlap on mini-task1 failed"]
    assert [result.fault for result in found["further"]] == ["not run: the step with it failed"]
    assert [result.fault for result in found["bad"]] == ["as told", "as told"]
    assert {name for name, results in found.items() if results[0].passed} == {"bm25", "tfidf-ltn"}
    assert recorded(Making(tmp_path), after[0]) is None  # it was not carried out


# ---- budgets --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_budget_is_shared_by_the_models_that_a_step_asks() -> None:
    made, _ = paper_steps(load_paper("mathlib4"))
    keys = {step.runs[0].system: budget_keys(step) for step in made}
    assert keys["mathlib4-openai-v2-augmented"] == ["system.budget"] * 3  # prose, queries, vectors
    assert keys["mathlib4-e5-mistral-f-augmented"] == ["system.budget"]  # queries
    assert keys["mathlib4-uae-large"] == []
    (endpoint,) = paper_steps(load_paper("saber-math"), Selection("*embedding-3-small*"))[0]
    assert budget_keys(endpoint) == ["system.calls.budget"]
    assert budget_keys(single("bm25")) == budget_keys(RunStep("x", ("run", "experiment=mathlib4"), ())) == []


@pytest.fixture
def paid(monkeypatch: pytest.MonkeyPatch, commands: list[tuple[str, float | None]]) -> list[tuple[str, float | None]]:
    """All steps but those named free ask a model, and each call takes 3 dollars, also if its step fails."""
    keys = ["system.budget"]
    monkeypatch.setattr(step_runner, "budget_keys", lambda step: [] if step.name.startswith("free") else keys)
    return commands


def test_a_budget_is_of_all_calls_and_a_failed_step_takes_what_it_spent(
    paid: list[tuple[str, float | None]], tmp_path: Path
) -> None:
    names = ["one", "free", "two", "bad", "three"]
    made = [replace(single("bm25", f"system.name={name}"), name=name) for name in names]
    how = Making(tmp_path, budget=14.0)
    list(carry_out(how, made))
    assert dict(paid) == {"one": 14.0, "free": 11.0, "two": 11.0, "bad": 8.0, "three": 5.0}
    assert spent_dollars(how) == 12.0
    paid.clear()
    list(carry_out(how, [replace(each, name=f"more {each.name}") for each in made[2:]]))  # a second command
    assert dict(paid) == {"more two": 2.0, "more bad": 0.0, "more three": 0.0}
    list(carry_out(Making(tmp_path / "again"), made[:1]))
    assert paid[-1] == ("one", None)


def test_a_budget_is_split_among_steps_at_the_same_time(
    paid: list[tuple[str, float | None]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def launched(jobs: Sequence[launch.Job], work: launch.Work, *_: object) -> list[launch.Ended]:
        return [launch.Ended("made", made=work(job.content)) for job in jobs]

    monkeypatch.setattr(launch, "chosen", lambda: "joblib")
    monkeypatch.setattr(launch, "launch", launched)
    made = [replace(single("bm25", f"system.name={name}"), name=name) for name in ("one", "free", "two")]
    made.append(fusion("after", "runs/mini-task1/one.run"))
    list(carry_out(Making(tmp_path, budget=10.0), made))
    assert dict(paid) == {"one": 5.0, "free": 5.0, "two": 5.0, "after": 4.0}


@pytest.mark.slow
def test_a_step_that_fails_after_calls_leaves_what_they_took(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the command itself: an answer, by the server's own count of tokens, and a refused key, which costs nothing."""
    monkeypatch.setenv("HARNESS_CONF", str(tmp_path / "conf"))
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    for part in ("making/logs", "making/steps", "conf/llm"):
        (tmp_path / part).mkdir(parents=True)
    with serving() as server:
        server.faults, server.answer = ["good", "401"], lambda _: "[3] > [1] > [2]"
        settings = {"model": "tiny-1", "url": server.url, "price_in": 10.0, "price_out": 30.0, "concurrency": 1}
        (tmp_path / "conf/llm/paid.yaml").write_text(json.dumps({**settings, "parameters": {"max_tokens": 20}}))
        step = single("listwise", "system.llm=paid", "system.first=bm25", "system.k=3", "system.mode=live")
        how = Making(tmp_path / "making", work=tmp_path, budget=5.0)
        ((_, (result,)),) = carry_out(how, [step])
    assert "refused" in result.fault
    assert server.charged
    assert spent_dollars(how) == pytest.approx((server.tokens_in * 10 + server.tokens_out * 30) / 1e6)


def test_what_a_step_took_is_its_record_and_the_metadata_of_its_runs(done: tuple[Making, RunStep, StepOutcome]) -> None:
    """Whichever call made it; a record of another command, as of another scale, does not count."""
    how, step, result = done
    run = how.work / "runs" / step.file
    path = sidecar.sidecar_path(run)
    document = yaml.safe_load(path.read_text())
    document["resources"] = {"cpu": {"energy used system": "12.5 J"}, "ram": {"energy used system": "3 J"}}
    document["platform"]["hardware"]["gpu"] = {"model": ["H100"]}
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    other = replace(step, words=(*step.words, "system.k1=2"))
    (cost,) = step_runner.step_costs(how, [step, other, single("never-made")], {step.name: Range(0.5, 2.0)})
    assert (cost.outcome, cost.joules, cost.estimate) == (result, 15.5, Range(0.5, 2.0))
    assert cost.device.startswith("H100, ")
    assert (cost.calls, cost.dollars) == (0, 0.0)
    section = durations_section([cost, replace(cost, joules=None, estimate=None, calls=3, dollars=0.25)])
    assert section is not None
    (said, _) = section.blocks
    assert isinstance(said, Prose)
    assert [line.partition(", on ")[0] for line in said.paragraphs] == [
        "2 steps: 2 s of wall-clock time, 2 s of CPU time",
        "Estimated for one core of another machine of the 1 whose time is known: 30 min to 2.0 h; measured over the "
        "geometric mean: 0.00028.",
        "Energy: 0.0000 kWh by the 1 steps whose energy was measured.",
        "3 calls, 0.25 dollars.",
    ]
