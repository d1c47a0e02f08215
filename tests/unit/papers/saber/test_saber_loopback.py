"""The judge that is a language model, played by a server on loopback: bad answers, failures, kills."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from llm_server import Server, serving

from harness.cli import build
from harness.errors import HarnessError
from harness.papers.saber import databank, judging, pipeline, steps
from harness.papers.saber.databank import MathProblem
from harness.papers.saber.judges import LanguageModel
from harness.papers.saber.judging import JudgeSettings, judge_step
from harness.papers.saber.select import TARGETS, Candidate, Target, write_targets
from harness.papers.saber.swiss import GAMES, position_bias, read_games, tournament
from harness.store.llm import Client

NAMES = [f"c{n}" for n in range(8)]
PROBLEMS = {name: MathProblem(name, f"Statement {name}.", f"Solution {name}.") for name in ("t", *NAMES)}


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as found:
        yield found


def smaller(body: dict[str, Any]) -> str:
    """A model that prefers the candidate with the smaller number, and at first forgets the box every third time."""
    text = body["messages"][0]["content"]
    first, second = (int(name) for name in re.findall(r"Statement c(\d)", text))
    if (first + second) % 3 == 0 and len(body["messages"]) == 1:
        return "It depends."
    return f"Because.\n$\\boxed{{{1 if first < second else 2}}}$"


@pytest.mark.slow
def test_bad_answers_and_failures_are_overcome(server: Server, tmp_path: Path) -> None:
    server.answer = smaller
    server.faults = ["500", "good", "half", "429", "broken", "timeout"]
    client = Client(server.endpoint(retries=3, concurrency=2, timeout=3.0), cache=tmp_path)
    games = tournament("t", NAMES, LanguageModel(client, PROBLEMS), 4)
    assert all(game.preferred == (1 if game.first < game.second else 2) for game in games.games)
    assert position_bias([games]).undecided == 0
    again = Client(server.endpoint(), "replay", cache=tmp_path)
    before = len(server.bodies)
    assert tournament("t", NAMES, LanguageModel(again, PROBLEMS), 4) == games
    assert len(server.bodies) == before


def test_an_answer_that_stays_bad_is_no_decision(server: Server, tmp_path: Path) -> None:
    server.answer = lambda body: "I like both."
    client = Client(server.endpoint(), cache=tmp_path)
    games = tournament("t", NAMES[:4], LanguageModel(client, PROBLEMS), 2)
    assert [game.preferred for game in games.games] == [0] * 4
    assert len(server.bodies) == 8  # each asked for twice


@pytest.mark.slow
def test_a_dry_run_after_a_pilot_tells_the_cost_within_five_percent(
    server: Server, tmp_path: Path, conf: Callable[[str, str, str], Path]
) -> None:
    """Problems of many lengths; one comparison in fifteen has no decision at first."""
    rng = random.Random(3)
    words = "take the sum of roots and show that an even number divides its product".split()  # noqa: SIM905

    def text() -> str:
        return " ".join(rng.choices(words, k=rng.randint(20, 200)))

    def answer(body: dict[str, Any]) -> str:
        drawn = random.Random("answer" + body["messages"][0]["content"])
        if drawn.random() < 1 / 15 and len(body["messages"]) == 1:
            return "Both are close."
        return f"{' '.join(drawn.choices(words, k=drawn.randint(10, 30)))}\n$\\boxed{{{drawn.randint(1, 2)}}}$"

    server.answer = answer
    conf("llm", "mine", f"model: tiny-1\nurl: {server.url}\nprice_in: 10.0\nprice_out: 30.0\n")
    problems = [MathProblem(f"p{n}", text(), text()) for n in range(16 * 13)]
    folders = {name: tmp_path / name for name in ("databank", "select")}
    databank.write_problems(folders["databank"] / databank.PROBLEMS, problems)
    names = [problem.id for problem in problems]
    targets = [
        Target(names[n], "", tuple(Candidate(name, "both") for name in names[n + 1 : n + 13]))
        for n in range(0, len(names), 13)
    ]
    write_targets(folders["select"] / TARGETS, targets)
    settings = JudgeSettings("llm", endpoint="mine", rounds=4)
    step = judge_step(settings, (16, 12))
    assert step.plan(folders).within == float("inf")
    assert server.bodies == []
    assert judging.pilot(settings, folders, 90).startswith("90 comparisons: ")
    paid = server.tokens_in * 10 + server.tokens_out * 30
    planned = step.plan(folders)
    assert 370 < planned.counts["comparisons"] <= 384  # who has met all others that are left sits out
    assert planned.counts["comparisons with cached answers"] == 90
    (tmp_path / "judged").mkdir()
    step.make(folders, tmp_path / "judged")
    spent = (server.tokens_in * 10 + server.tokens_out * 30 - paid) / 1e6
    assert planned.cost == pytest.approx(spent, rel=0.05)
    assert 0.01 < planned.within < 0.1
    assert set(server.charged.values()) == {1}
    assert step.plan(folders).cost == 0.0
    (games, *_) = read_games(tmp_path / "judged" / GAMES)
    assert len(games.games) + sum(map(len, games.sat_out)) / 2 == 24
    assert all(game.preferred for game in games.games)


@pytest.mark.slow
def test_the_dollars_of_a_databank_have_a_pilot_too(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, conf: Callable[[str, str, str], Path]
) -> None:
    """Without it a dry run guesses the length of the answers, and is nearly twice what is spent."""
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    rng = random.Random(5)
    rows = [
        {"id": n, "statement": " ".join(rng.choices(NAMES, k=rng.randint(9, 90))), "solution": f"It is {n}, {n}."}
        for n in range(60)
    ]
    (tmp_path / "problems.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    server.answer = lambda body: "\\boxed{" + body["messages"][0]["content"][-80:] + "}"
    conf("llm", "mine", f"model: tiny-1\nurl: {server.url}\nprice_in: 10.0\nprice_out: 30.0\n")
    bank = f"sources: [{{name: mine, file: {{file: {tmp_path / 'problems.jsonl'}}}}}], delimiters: llm, endpoint: mine"
    conf("builder", "mine", f"databank: {{{bank}}}\nontology: {{embedded: corpora/mini-ontology.json}}\n")
    settings, where = pipeline.load_settings("mine")
    step, *_ = pipeline.steps(settings, where)
    assert step.plan({}).within == float("inf")
    with pytest.raises(HarnessError, match="a language model makes the databank, whole; make that first"):
        build.saber("mine", None, pilot=5)
    assert server.bodies == []
    assert pipeline.pilot_dollars(settings, where, 50).startswith("50 texts: 50 calls, ")
    paid = server.tokens_in * 10 + server.tokens_out * 30
    planned = step.plan({})
    steps.build_steps([step])
    assert planned.cost == pytest.approx((server.tokens_in * 10 + server.tokens_out * 30 - paid) / 1e6, rel=0.05)
    assert set(server.charged.values()) == {1}


KILLED = """
import sys
from pathlib import Path
from test_saber_loopback import NAMES, PROBLEMS
from harness.papers.saber.judges import LanguageModel
from harness.papers.saber.swiss import tournament, write_games
from harness.store.llm import Client, Endpoint
endpoint = Endpoint("loopback", "tiny-1", 10.0, 30.0, url=sys.argv[1], parameters={"max_tokens": 100}, concurrency=2)
client = Client(endpoint, cache=Path(sys.argv[2]))
write_games(Path(sys.argv[3]), [tournament("t", NAMES, LanguageModel(client, PROBLEMS), 4)])
"""


@pytest.mark.slow
def test_killed_and_resumed_nothing_is_paid_twice(server: Server, tmp_path: Path) -> None:
    server.answer = smaller
    killed: list[subprocess.Popen[bytes]] = []

    def kill(number: int) -> None:
        if number == 9:
            os.kill(killed[0].pid, signal.SIGKILL)

    server.on_request = kill
    paths = os.pathsep.join([str(Path(__file__).parent), *(path for path in sys.path if path)])
    command = [sys.executable, "-c", KILLED, server.url, str(tmp_path / "kept"), str(tmp_path / "games.jsonl")]
    environment = {**os.environ, "PYTHONPATH": paths}
    killed.append(subprocess.Popen(command, env=environment))
    assert killed[0].wait() == -signal.SIGKILL
    assert not (tmp_path / "games.jsonl").exists()
    subprocess.run(command, env=environment, check=True)
    (row,) = (json.loads(line) for line in (tmp_path / "games.jsonl").read_text().splitlines())
    assert len(row["games"]) + sum(map(len, row["sat_out"])) / 2 == 16
    # At most the two that were under way when it was killed may have been answered twice.
    assert sum(count - 1 for count in server.charged.values()) <= 2
