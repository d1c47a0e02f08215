"""The simulated attacker of `bench.leak` sees what a participant sees; its attacks work where nothing stops them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from lab_tools import enrol

from bench import leak
from harness.data.run_writers import run_text
from harness.data.trec import Run, read_run
from harness.experiments.task import task
from harness.io.files import data_root
from harness.labs.lab import new_lab
from harness.labs.submit import Offer, submit_run


@pytest.fixture(scope="module")
def world() -> leak.World:
    run = read_run(data_root() / "runs/mini/mini-task1/overlap.run")
    return leak.World(task("mini-task1", measures=list(leak.MEASURES)), run)


def test_scores_are_those_of_the_harness(world: leak.World) -> None:
    draw = np.random.default_rng(0)
    world.check(world.start)
    for _ in range(5):
        world.check(draw.permuted(world.start, axis=1))


@pytest.mark.parametrize("ladder", [False, True])
def test_means_are_those_of_a_lab(
    world: leak.World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ladder: bool
) -> None:
    noises = [0.4, -0.4, 0.3, 0.45]
    settings = {"title": "x", "collection": "mini-task1", "private": True, "cap": 9, "measures": leak.MEASURES}
    feedback = {"ladder": True} if ladder else {"feedback": "noisy"}
    lab = enrol(new_lab(tmp_path / "lab", {**settings, **feedback, "least_results": 1}), "A")
    seen = leak.Lab(world, leak.Defence("", ladder=ladder), 0)
    assert seen.width == lab.noise == 0.24
    bench, draw = lab.task(), np.random.default_rng(1)
    for number, noise in enumerate(noises):
        monkeypatch.setattr("harness.labs.shown_scores.noise", lambda *_, noise=noise: noise)
        monkeypatch.setattr(seen, "noise", lambda noise=noise: noise)
        order = draw.permuted(world.start, axis=1)
        path = tmp_path / f"r{number}"
        path.write_text(run_text(Run.from_dict(f"r{number}", world.ranked(order))))
        means = submit_run(lab, Offer(path, "A"), bench=bench).submission.means
        assert [means["nDCG"]] == seen(order).tolist()


@pytest.mark.slow
def test_attacks_on_the_ranking(world: leak.World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leak, "SUBMISSIONS", (20, 200))
    none, *_, silent = leak.DEFENCES
    worst = {name: leak.gains(world, none, attack, 1)[200][0] for name, attack in leak.ATTACKS.items()}
    best = max(worst, key=lambda name: worst[name])
    assert worst[best] > 0.005
    assert leak.gains(world, silent, leak.ATTACKS[best], 1)[200] == (0.0, 0.0)


NONE, STEP, NOISE, LADDER, HELD_OUT, _, SILENT = leak.DEFENCES


@pytest.mark.parametrize("name", ["edge", "resubmit"])
def test_attacks_on_chosen_judgments(world: leak.World, name: str) -> None:
    """Twenty submissions tell at most one judgment beyond guessing under the default; without noise, almost all."""
    for defence in (NOISE, LADDER, HELD_OUT, SILENT):
        mean, error = leak.told(world, defence, leak.QUESTIONS[name], 20, 300)
        assert mean <= 1.0 + 4 * error
        assert mean >= -4 * error
    assert leak.told(world, NONE, leak.QUESTIONS[name], 20, 20)[0] >= 2.0


def test_weighing_tells_sums(world: leak.World) -> None:
    """Which no useful mean can hide."""
    none, noise, silent = (
        leak.told(world, each, leak.QUESTIONS["weigh 20"], 100, 100) for each in (NONE, NOISE, SILENT)
    )
    assert none == (10.0, 0.0)
    assert silent == (0.0, 0.0)
    assert 3.0 < noise[0] < 9.0
