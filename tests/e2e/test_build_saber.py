"""`harness build saber`: end to end on the embedded problems, killed and resumed with a language model."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from llm_server import Server, serving
from tools import Place, table

STEPS = ["databank", "annotate", "ontology", "pairs", "select", "judge", "rate", "collection"]
MINI = ("build", "saber", "--config", "saber-mini")
WORDS = "take sum roots show even number divides product sides angle bound count parity square graph".split()  # noqa: SIM905


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as made:
        made.answer = answer
        yield made


def answer(body: dict[str, Any]) -> str:
    """Well-formed but for the first answer on some topics, which is no JSON, and of some comparisons: no decision."""
    text = body["messages"][0]["content"]
    rng = random.Random(text)
    if "response_format" not in body:  # the judge
        if len(body["messages"]) == 1 and rng.random() < 0.1:
            return "Both are close."
        return f"Because.\n$\\boxed{{{rng.randint(1, 2)}}}$"
    properties = body["response_format"]["json_schema"]["schema"]["properties"]
    if "coreIdea" in properties:
        return json.dumps({"noCoreIdea": False, "coreIdea": " ".join(rng.sample(WORDS, 4)), "supportingIdeas": []})
    if len(body["messages"]) == 1 and rng.random() < 0.2:
        return "Let me see."
    best = rng.choice(sorted(properties))
    return json.dumps({title: float(title == best) for title in properties})


def prepare(place: Place, url: str) -> None:
    rng = random.Random(1)
    problems = [
        {"id": f"q{i}", "statement": " ".join(rng.sample(WORDS, 8)), "solution": " ".join(rng.sample(WORDS, 9))}
        for i in range(14)
    ]
    place.write("problems.jsonl", "".join(json.dumps(each) + "\n" for each in problems))
    endpoint = {"model": "tiny-1", "url": url, "price_in": 10.0, "price_out": 30.0, "concurrency": 1}
    place.write("conf/llm/loopback.yaml", yaml.safe_dump({**endpoint, "parameters": {"max_tokens": 100}}))
    builder = {
        "databank": {"sources": [{"name": "mine", "file": {"file": "../../problems.jsonl"}}]},
        "ontology": {"embedded": "corpora/mini-ontology.json"},
        "annotate": {"by": "llm", "endpoint": "loopback"},
        "pairs": {"bma": 0.3, "jaccard": 0.14, "block": 4},
        "select": {"quotas": {"Algebra": 2}, "each": 1},
        "judge": {"by": "llm", "endpoint": "loopback", "rounds": 2},
    }
    place.write("conf/builder/mine.yaml", yaml.safe_dump(builder))


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.slow
def test_a_dry_run_then_every_step_then_nothing(place: Place) -> None:
    rows = table(place.good(*MINI, "--dry-run"))
    assert rows[0] == ["step", "state", "calls", "tokens in", "tokens out", "cost"]
    assert [row[0] for row in rows[1:9]] == STEPS
    assert {row[1] for row in rows[1:9]} == {"to make"}
    said = place.good(*MINI, "--output", "made")
    assert "databank: read 46" in said
    assert "annotate: by keywords, problems 46" in said
    targets = [json.loads(line) for line in (place.here / "made/select/targets.jsonl").read_text().splitlines()]
    assert len(targets) == 4
    assert {len(target["candidates"]) for target in targets} == {6}
    again = place.run(*MINI, "--output", "again")
    assert again.out.replace("again", "made") == said
    assert again.err.count("kept from before") == 8
    assert contents(place.here / "again") == contents(place.here / "made")
    rows = table(place.good(*MINI, "--dry-run"))
    assert {row[1] for row in rows[1:9]} == {"made"}
    assert (place.here / "made/collection").is_dir()


@pytest.mark.heavy
def test_killed_again_and_again_it_pays_for_no_answer_twice(place: Place, tmp_path: Path, server: Server) -> None:
    prepare(place, server.url)
    other = Place(tmp_path / "other")
    prepare(other, server.url)
    command = ("build", "saber", "--config", "mine", "--output", "made")
    expected = other.good(*command)
    calls = len(server.bodies)
    server.charged.clear()
    rng = random.Random(0)
    kills, torn, before = 0, 0, len(server.bodies)
    while True:
        at = before + rng.randint(2, calls // 2)
        process = place.start(*command)

        def kill(number: int, at: int = at, process: subprocess.Popen[str] = process) -> None:
            if number % 7 == 0:
                time.sleep(0.2)
            if number == at:
                os.kill(process.pid, signal.SIGKILL)

        server.on_request = kill
        faults = rng.sample(["500", "half", "broken", *["good"] * 7], 8)
        server.faults = list(faults)
        process.communicate()
        code = process.returncode
        torn += sum(fault in ("half", "broken") for fault in faults[: len(faults) - len(server.faults)])
        before = len(server.bodies)
        if code == 0:
            break
        assert code == -signal.SIGKILL
        kills += 1
        assert kills < 20
    assert kills >= 2
    # One call at a time: of each kill the one answer that did not arrive any more, those that arrived torn, no other.
    assert sum(times - 1 for times in server.charged.values()) <= kills + torn
    assert len(server.charged) == calls
    assert contents(place.here / "made") == contents(other.here / "made")
    assert place.good(*command) == expected
    assert len(server.bodies) == before


@pytest.mark.slow
def test_a_step_whose_input_changed_runs_again_and_no_other(place: Place) -> None:
    builder = yaml.safe_load((Path(__file__).parents[2] / "conf/builder/saber-mini.yaml").read_text())
    builder["select"]["seed"] = 5
    place.write("conf/builder/mine.yaml", yaml.safe_dump(builder))
    place.good(*MINI, "select")
    told = place.run("build", "saber", "select", "--config", "mine").err.splitlines()
    assert [line for line in told if "making" in line] == ["select: making"]
    builder["pairs"]["bma"] = 0.5
    place.write("conf/builder/mine.yaml", yaml.safe_dump(builder))
    told = place.run("build", "saber", "select", "--config", "mine").err.splitlines()
    assert [line for line in told if line.endswith(": making")] == ["pairs: making", "select: making"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "Missing option '--config'"),
        (("--config", "saber-minni"), "builder 'saber-minni' is unknown; did you mean 'saber-mini'?"),
        (("selekt", "--config", "saber-mini"), "step 'selekt' is unknown; did you mean 'select'?"),
        (("--config", "saber-mini", "--pilot", "3"), "--pilot: this builder annotates without a language model"),
        (("--config", "bad"), "key 'pairs': key 'quantil' is unknown"),
    ],
)
def test_mistakes_are_one_line(arguments: tuple[str, ...], said: str, place: Place) -> None:
    builder = yaml.safe_load((Path(__file__).parents[2] / "conf/builder/saber-mini.yaml").read_text())
    place.write("conf/builder/bad.yaml", yaml.safe_dump({**builder, "pairs": {"quantil": 0.5}}))
    done = place.run("build", "saber", *arguments)
    assert done.code == 2
    lines = [line for line in done.err.splitlines() if line.startswith("harness: ")]
    assert len(lines) == 1
    assert "Traceback" not in done.err
    assert said.replace("key 'pairs': ", "") in lines[0]
