"""Time to compose the cells of an experiment: one by one by Hydra, and with shared choices of groups.

    python bench/compose_cells.py [EXPERIMENT]

Both sides run in one process, in turn; the configurations must be equal.
"""

from __future__ import annotations

import sys
import time

from hydra import compose, initialize_config_dir

from harness.cli.overrides import GROUPS, checked_overrides
from harness.experiments.composing import composer
from harness.experiments.experiment import load_experiment
from harness.io import config


def main(name: str, rounds: int = 5) -> None:
    """Prints milliseconds of CPU time a cell, the best of some rounds."""
    cells = [checked_overrides("run", cell.overrides)[0] for cell in load_experiment(name).cells()]
    best = {"hydra.compose": float("inf"), "shared choices": float("inf")}
    for _ in range(rounds):
        results = []
        for side, least in best.items():
            composed = composer("run", GROUPS["run"])
            begin = time.process_time()
            if side == "hydra.compose":
                results.append([compose(config_name="run", overrides=words) for words in cells])
            else:
                results.append([composed(words) for words in cells])
            best[side] = min(least, time.process_time() - begin)
        if results[0] != results[1]:
            raise SystemExit("the configurations differ")
    for side, seconds in best.items():
        print(f"{name}, {len(cells)} cells, {side}: {1000 * seconds / len(cells):.2f} ms a cell")


if __name__ == "__main__":
    with initialize_config_dir(version_base="1.3", config_dir=str(config.folders()[0].resolve())):
        main(sys.argv[1] if len(sys.argv) > 1 else "mathamr-loss")
