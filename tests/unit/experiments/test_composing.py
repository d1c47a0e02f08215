"""The cells of experiments, composed with shared choices of groups, equal Hydra's own composition."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hydra import compose
from hydra.errors import HydraException
from omegaconf import OmegaConf

from harness.cli.overrides import GROUPS, checked_overrides
from harness.experiments.cell_composition import composer, initialized
from harness.experiments.experiment import FULL, load_experiment
from harness.io import config


@pytest.fixture(autouse=True)
def configured() -> Iterator[None]:
    with initialized("run"):
        yield


@pytest.mark.slow
@pytest.mark.parametrize("name", config.names("experiment"))
def test_cells_of_every_experiment(name: str) -> None:
    found = load_experiment(name)
    composed = composer("run", GROUPS["run"])
    for scale in (FULL, *(scale for scale in found.scale if scale != FULL)):
        cells = found.cells((), scale)
        for cell in (cells[0], cells[-1]):
            words, _ = checked_overrides("run", cell.overrides)
            assert composed(words) == compose(config_name="run", overrides=words), cell


@pytest.mark.slow
def test_lists_mappings_and_added_keys_are_merged_as_by_hydra() -> None:
    """Cells do not see what an earlier cell has merged into the same choices."""
    composed = composer("run", GROUPS["run"])
    chosen = ["collection=mini-task1", "corpus=mini-answers", "system=fusion-rrf"]
    for more in (
        [],
        ["system.runs=[bm25,tfidf-ltn]", "++system.parameters={k: 5}", "seed=3"],
        ["++system.parameters.k=7", "edition=official"],
        ["seed=3", "seed=4", "++system.depth=10", "system.depth=20"],
        [],
    ):
        words = [*more[:1], *chosen, *more[1:]]
        assert OmegaConf.to_container(composed(words)) == OmegaConf.to_container(
            compose(config_name="run", overrides=words)
        )


def test_faults_are_those_of_hydra() -> None:
    words = ["system=bm25", "collection=mini-task1", "system.nothing.like.that=1"]
    with pytest.raises(HydraException) as expected:
        compose(config_name="run", overrides=words)
    with pytest.raises(HydraException) as found:
        composer("run", GROUPS["run"])(words)
    assert str(found.value) == str(expected.value)
