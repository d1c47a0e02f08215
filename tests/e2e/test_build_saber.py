"""`harness build saber`: end to end on the embedded problems, killed and resumed with a language model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from tools import Place, table

STEPS = ["databank", "annotate", "ontology", "pairs", "select", "judge", "rate", "collection"]
MINI = ("build", "saber", "--config", "saber-mini")


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
