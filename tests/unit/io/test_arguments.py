"""Arguments of public functions: a wrong type is one line that names the argument."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import refusal

import harness as h
from harness.errors import HarnessError
from harness.io.arguments import checked_arguments
from harness.io.files import data_root
from harness.scoring.measures import parse_measure

WRONG = (None, 0, 1.5, b"x", [None], {"a": None}, object())
RUN = data_root() / "runs" / "mini" / "mini-task1" / "overlap.run"


@pytest.fixture(scope="module")
def evaluation() -> h.Evaluation:
    return h.evaluate(h.task("mini-task1"), RUN)


def lines_or_nothing(call: Callable[[Any], object], value: object) -> list[str]:
    try:
        call(value)
    except HarnessError as error:
        return list(error.lines)
    return []


@pytest.mark.parametrize(
    "name", ["names", "load_collection", "load_corpus", "load_protocol", "load_system", "task", "compare", "report"]
)
def test_functions_refuse_a_first_argument_of_another_type(name: str) -> None:
    for value in WRONG:
        assert lines_or_nothing(getattr(h, name), value), value


def test_functions_raise_nothing_but_our_errors(evaluation: h.Evaluation, tmp_path: Path) -> None:
    task, report = evaluation.task, h.report(evaluation)
    function = parse_measure("AP").function
    calls: tuple[Callable[[Any], object], ...] = (
        h.read_qrels,
        lambda value: h.read_run(RUN, name=value),
        lambda value: h.read_run(RUN, format=value),
        lambda value: h.task("mini-task1", value),
        lambda value: h.task("mini-task1", measures=value),
        lambda value: h.task("mini-task1", keys=value),
        lambda value: h.load_system("bm25", k1=value),
        lambda value: h.produce(value, task),
        lambda value: h.produce("shuffle", value),
        lambda value: h.evaluate(task, value),
        lambda value: h.evaluate(value, RUN),
        lambda value: h.compare(evaluation, value),
        lambda value: h.compare(evaluation, alpha=value),
        lambda value: h.compare(evaluation, family=value),
        lambda value: h.compare(evaluation, seed=value),
        lambda value: h.report(evaluation, value),
        report.write,
        lambda value: report.write(tmp_path, formats=value),
        lambda value: h.Measure(value, function),
        lambda value: h.Measure("own", value),
        lambda value: h.Measure("own", function, k=value),
    )
    for call in calls:
        for value in WRONG:
            lines_or_nothing(call, value)


def test_a_line_names_function_argument_value_and_type(evaluation: h.Evaluation) -> None:
    face: Any = h
    calls: dict[str, Callable[[], object]] = {
        "load_corpus: argument 'name' is None, expected text": lambda: face.load_corpus(None),
        "task: argument 'measures' is 7, expected a list of texts": lambda: face.task("mini-task1", measures=7),
        "produce: argument 'training' is [3], expected a list of texts": lambda: face.produce(
            "overlap", evaluation.task, training=[3]
        ),
        "compare: argument 'baseline' is 5, expected text or None": lambda: face.compare(evaluation, 5),
        "evaluate: argument 'runs' is 7, expected Run, a path, a mapping or a frame": lambda: face.evaluate(
            evaluation.task, 7
        ),
        "compare: argument 'test' is 'z', expected one of 't', 'randomization'": lambda: face.compare(
            evaluation, test="z"
        ),
        "measure 'P@0': expected a name without a cutoff; the cutoff is 'k'": lambda: face.Measure("P@0"),
    }
    for line, call in calls.items():
        assert refusal(call) == line


def test_values_that_stand_for_the_type_are_taken() -> None:
    @checked_arguments
    def function(count: int, share: float | None = None, *names: str, **more: int) -> tuple[object, ...]:
        return (count, share, names, more)

    given: Any = function
    assert given(np.int64(2), np.float32(0.5), "a", b=1) == (2, 0.5, ("a",), {"b": 1})
    assert given(2, 1) == (2, 1, (), {})
    for arguments in ((True,), (1, "x"), (1, None, "a", 2)):
        with pytest.raises(HarnessError):
            given(*arguments)
    with pytest.raises(TypeError):  # Python's own, as for any function
        given()
