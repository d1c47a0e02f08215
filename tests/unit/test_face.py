"""The Python face: what `import harness` offers, that it costs nothing, and that its examples are true."""

from __future__ import annotations

import ast
import doctest
import pickle
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from process_tools import same_paths

import harness as h
from harness.experiments.evaluate import inputs

ROOT = Path(h.__file__).parents[1]
# But for the face itself, whose example is of data that is fetched.
WITH_EXAMPLES = [
    path for path in sorted((ROOT / "harness").rglob("*/*.py")) if "\n    >>> " in path.read_text(encoding="utf-8")
]
STUB = ast.parse((ROOT / "harness" / "__init__.pyi").read_text(encoding="utf-8"))


def test_the_names_are_those_of_the_readme_and_of_the_stub() -> None:
    page = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    listed = re.findall(r"`h\.(\w+)", page)
    assert sorted(set(listed)) == h.__all__
    for node in STUB.body:
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                assert getattr(h, alias.name) is getattr(import_module(str(node.module)), alias.name)
    said = next(node.value for node in STUB.body if isinstance(node, ast.Assign))
    assert sorted(ast.literal_eval(said)) == sorted([*h.__all__, "__version__"])
    assert dir(h) == h.__all__


def test_the_readmes_program_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    program, _, shown = (ROOT / "README.md").read_text(encoding="utf-8").split("## From Python")[1].split("```")[1:4]
    exec(program.removeprefix("python"), {})  # noqa: S102  (that of the README)
    assert capsys.readouterr().out.strip("\n") == shown.removeprefix("text").strip("\n")
    assert (tmp_path / "reports" / "bm25" / "index.html").is_file()


def test_measures_of_ir_measures_say_what_computed_them() -> None:
    run = ROOT / "runs/mini/mini-task1/overlap.run"
    versions = {
        name: dict(inputs(h.evaluate(h.task("mini-task1", measures=name), run)).versions)
        for name in ("AP", "RBP(p=0.8)")
    }
    added = versions["RBP(p=0.8)"].keys() - versions["AP"].keys()
    assert added == {"ir-measures", "pytrec-eval-terrier", "cwl-eval"}


def test_importing_loads_nothing_of_ours_and_no_library() -> None:
    """And a function is not shadowed by a folder of its name that is imported later."""
    program = "import importlib, sys; before = set(sys.modules); import harness as h; print(*set(sys.modules) - before)"
    program += "; import harness.reports.comparison, harness.cli.main; print(callable(h.report))"
    said = subprocess.check_output([sys.executable, "-c", program], env=same_paths(), text=True)
    first, last = said.splitlines()
    assert (sorted(first.split()), last) == (["harness", "harness.version"], "True")
    with pytest.raises(AttributeError, match="has no attribute 'no_such_name'"):
        _ = h.no_such_name  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", h.__all__)
def test_every_public_name_says_what_it_does_by_an_example(name: str) -> None:
    found = doctest.DocTestFinder().find(getattr(h, name), name)
    assert any(test.examples for test in found)


@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_example_in_a_docstring_holds(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("runs", "qrels"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    monkeypatch.chdir(tmp_path)
    module = import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE, verbose=False)
    said: list[str] = []
    for test in doctest.DocTestFinder().find(module):
        runner.run(test, out=said.append)
    assert runner.tries > 0
    assert not said, "".join(said)


def test_a_run_of_topics_that_the_collection_lacks_is_refused_as_its_file_is() -> None:
    run = h.Run.from_dict("mixed", {"M.1": {"a1088": 1.0}, "Z.1": {"q": 1.0}})
    with pytest.raises(h.HarnessError, match=r"run mixed: topic 'Z\.1' is not among the collection's topics"):
        h.evaluate(h.task("mini-task1"), run)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("mini-task1", {}), r"mini-task1: a collection and no file; evaluate h\.task\('mini-task1'\)"),
        (("no.txt", {}), r"no\.txt: "),
        ((3, {}), "argument 'task' is 3, expected Task or Qrels, a path, a mapping or a frame"),
        (({"q": {"d": 1}}, [1]), r"argument 'runs' is \[1\]; pass the runs one by one"),
        (({"q": {"d": 1}},), "expected at least one run"),
        (({"q": {"d": 1}}, {"q": {"d": "high"}}), "high"),
    ],
)
def test_careless_arguments_are_one_line(given: tuple[Any, ...], message: str) -> None:
    with pytest.raises(h.HarnessError, match=message) as caught:
        h.evaluate(*given)
    assert len(str(caught.value).splitlines()) == 1


def test_options_of_a_task_and_names_of_other_runs_are_refused() -> None:
    task, run = h.task("mini-task1"), h.Run.from_dict("mine", {"M.1": {"a1088": 1.0}})
    for options in ({"measures": "AP"}, {"protocol": "trec_eval"}, {"names": ["a", "b"]}):
        with pytest.raises(h.HarnessError, match=r"belong to the task|1 run, but 2 names"):
            h.evaluate(task, run, **options)


@pytest.mark.slow
def test_judgments_and_runs_of_any_form_give_the_scores_of_their_files(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    qrels, folder = ROOT / "qrels/mini-task1.txt", ROOT / "runs/mini/mini-task1"
    paths = [folder / f"{name}.run" for name in ("overlap", "shuffle")]
    judged, runs = h.read_qrels(qrels), [h.read_run(path) for path in paths]
    named: dict[str, Any] = {"measures": ["nDCG", "AP"], "names": ["first", "second"]}
    expected = h.evaluate(qrels, *paths, **named).frame()
    assert sorted(set(expected["run"])) == ["first", "second"]
    for judgments in (str(qrels), judged, judged.to_dict(), judged.frame()):
        for each in (runs, [run.to_dict() for run in runs], [run.frame() for run in runs]):
            assert h.evaluate(judgments, *each, **named).frame().equals(expected)
    other = h.evaluate(judged, *runs, protocol="arqmath-task1", measures=["AP"])
    task = h.task("mini-task1", measures=["AP"])
    assert other.frame()["value"].tolist() == h.evaluate(task, *runs).frame()["value"].tolist()
    evaluation = h.evaluate(judged.to_dict(), *(run.to_dict() for run in runs))
    assert [scores.run for scores in evaluation.scores] == ["run-1", "run-2"]
    one = h.evaluate(h.task("mini-task1", measures="P@5"), paths[0])  # one measure or format may stand for itself
    assert sorted(h.report(one).write(tmp_path / "one", formats="md")) == ["md"]
    assert (h.report(evaluation, h.compare(evaluation)).write(tmp_path)["html"]).is_file()


def test_scores_of_measures_of_ir_measures_can_be_pickled() -> None:
    pytest.importorskip("ir_measures")
    run = h.Run.from_dict("mine", {"M.1": {"a1088": 1.0}})
    found = h.evaluate(h.task("mini-task1", measures=["RBP(p=0.8)", "AP(rel=2)"]), run)
    again = pickle.loads(pickle.dumps(found))  # noqa: S301
    assert again.frame().equals(found.frame())
    assert again.task.scorer(run).values.tolist() == found.scores[0].values.tolist()
