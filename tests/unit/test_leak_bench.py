"""The simulated attacker of `bench.leak` sees what a participant sees; its attacks work where nothing stops them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from lab_tools import enrol

from bench import leak
from harness.data.trec import Run, read_run
from harness.data.written import run_text
from harness.experiments.task import task
from harness.io.files import data_root
from harness.labs.lab import new_lab
from harness.labs.submit import Offer, submit


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
def test_means_are_those_of_a_lab(world: leak.World, tmp_path: Path, ladder: bool) -> None:
    settings = {"title": "x", "collection": "mini-task1", "private": True, "cap": 9, "measures": leak.MEASURES}
    lab = enrol(new_lab(tmp_path / "lab", {**settings, "ladder": ladder or None, "least_results": 1}), "A")
    seen = leak.Lab(world, leak.Defence("", step=0.0, ladder=ladder), 0)
    assert seen.step == lab.step == 0.05
    bench, draw = lab.task(), np.random.default_rng(1)
    for number in range(4):
        order = draw.permuted(world.start, axis=1)
        path = tmp_path / f"r{number}"
        path.write_text(run_text(Run.from_dict(f"r{number}", world.ranked(order))))
        means = submit(lab, Offer(path, "A"), bench=bench).submission.means
        assert [means[measure] for measure in leak.MEASURES] == seen(order).tolist()


@pytest.mark.slow
def test_attacks(world: leak.World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leak, "SUBMISSIONS", (20, 200))
    none, *_, everything = leak.DEFENCES
    worst = {name: leak.gains(world, none, attack, 1)[200][0] for name, attack in leak.ATTACKS.items()}
    best = max(worst, key=lambda name: worst[name])
    assert worst[best] > 0.005
    held = leak.gains(world, replace(none, held_out=True), leak.ATTACKS["boost"], 1)[200]
    assert held[0] > held[1]
    after = leak.gains(world, everything, leak.ATTACKS[best], 1)
    assert after[20] == after[200]  # the cap
    assert leak.told_of_sixteen(world, none, 1) == 16
    assert leak.told_of_sixteen(world, everything, 1) == 8  # as many as one guess for all
