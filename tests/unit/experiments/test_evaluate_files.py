"""Files scored one at a time have the scores, names, warnings and faults of files that are read together."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest
from refusals import refuses

from harness.collections.load import local_collection
from harness.errors import FormatError, HarnessError
from harness.experiments.evaluate import Evaluation, cautions, evaluate, evaluation_to_json, inputs
from harness.experiments.task import Task, task

ROOT = Path(__file__).parents[3]
RUNS = sorted((ROOT / "runs" / "mini" / "mini-task1").glob("*.run"))[:3]


def _both(bench: Task, paths: list[Path], names: tuple[str, ...] = ()) -> tuple[Evaluation, Evaluation]:
    whole = evaluate(bench, *paths, names=names)
    light = evaluate(bench, *paths, names=names, lines=False)
    return whole, light


def test_scores_ties_and_origins_do_not_depend_on_the_lines() -> None:
    whole, light = _both(task("mini-task1"), RUNS, ("", "named", ""))
    assert evaluation_to_json(light) == evaluation_to_json(whole)
    assert [run.name for run in light.runs] == [scores.run for scores in light.scores] == [r.name for r in whole.runs]
    assert inputs(light).files == inputs(whole).files
    assert [run.topics for run in light.runs] == [run.topics for run in whole.runs]
    assert sum(map(len, whole.runs)) > 0 == sum(map(len, light.runs))


def _judged(folder: Path) -> Task:
    (folder / "some.qrels").write_text("T1 0 a 1\nT2 0 b 2\n")
    return task(local_collection(folder / "some.qrels"))


def test_runs_that_share_a_tag_are_named_by_their_files(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.run").write_text("T1 Q0 a 1 2 tag\nT1 Q0 c 2 2 tag\n")
    whole, light = _both(_judged(tmp_path), [tmp_path / "one.run", tmp_path / "two.run"])
    assert [run.name for run in light.runs] == ["one", "two"]
    assert evaluation_to_json(light) == evaluation_to_json(whole)
    assert set(light.bounds) == {"one", "two"}


def test_a_run_without_judged_documents_is_remarked_on_under_its_final_name(tmp_path: Path) -> None:
    (tmp_path / "good.run").write_text("T1 Q0 a 1 2 tag\n")
    (tmp_path / "odd.run").write_text("T1 Q0 x 1 2 tag\nT2 Q0 y 1 2 tag\n")
    whole, light = _both(_judged(tmp_path), [tmp_path / "good.run", tmp_path / "odd.run"])
    assert cautions(light) == cautions(whole)
    assert any(said.startswith("odd: none of its 2 documents is judged, such as 'x'") for said in cautions(light))


def test_faults_of_all_files_are_told(tmp_path: Path) -> None:
    paths = [tmp_path / f"{name}.run" for name in ("a", "b", "c")]
    for path, text in zip(paths, ("T1 Q0 a 1 2 a\n", "T1 Q0 a 1 high b\n", "T1 Q0 a\n"), strict=True):
        path.write_text(text)
    with pytest.raises(FormatError) as light:
        evaluate(_judged(tmp_path), *paths, lines=False)
    with pytest.raises(FormatError) as whole:
        evaluate(_judged(tmp_path), *paths)
    assert str(light.value) == str(whole.value)
    assert "b.run:1" in str(light.value)
    assert "c.run:1" in str(light.value)


@pytest.mark.parametrize("lines", [True, False])
def test_no_runs_and_one_name_for_two_are_refused(tmp_path: Path, lines: bool) -> None:
    bench = _judged(tmp_path)
    refuses("expected at least one run", lambda: evaluate(bench, lines=lines))
    (tmp_path / "a.run").write_text("T1 Q0 a 1 2 tag\n")
    with pytest.raises(HarnessError, match="same: 2 runs have this name"):
        evaluate(bench, *[tmp_path / "a.run"] * 2, names=("same", "same"), lines=lines)


@pytest.mark.heavy
def test_memory_does_not_grow_with_the_number_of_runs(tmp_path: Path) -> None:
    bench = _judged(tmp_path)
    path = tmp_path / "long.run"
    path.write_text("".join(f"T1 Q0 d{n} 1 {100_000 - n} long\n" for n in range(100_000)))

    def most(count: int) -> int:
        names = [f"run{number}" for number in range(count)]
        tracemalloc.start()
        try:
            evaluate(bench, *[path] * count, names=names, lines=False)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    most(1)
    one, six = most(1), most(6)
    assert six < one + 1_000_000  # the lines of a run take 2.7 MB
