"""The file schemas of runs, scores and comparisons: what we write fits them, and what does not fit is noticed."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from referencing import Registry, Resource
from refusals import refusal

import harness
from harness.data import run_writers
from harness.data.run_writers import run_from_json, run_to_json
from harness.data.trec import parse_run
from harness.errors import InputFault
from harness.experiments import evaluate as workflow
from harness.experiments.evaluate import Evaluation, evaluation_to_json
from harness.experiments.task import task
from harness.io.names import NAME_RULE
from harness.labs import board
from harness.labs.site.files import SCHEMAS
from harness.scoring import comparison, reproduction, scores
from harness.scoring.compare import compare
from harness.scoring.comparison import Comparison, EquivalenceTest, PairDifference
from harness.scoring.comparison import comparison_to_json as written
from harness.scoring.protocol import Protocol
from harness.scoring.scores import Scores, scores_from_json, scores_to_json

FOLDER = Path(harness.__file__).parent / "data" / "schemas"
TWO = b"1 Q0 a 1 2.0 t\n1 Q0 b 2 1.0 t\n"
NOT_A_NUMBER = "float() argument must be a string or a real number, not 'NoneType'"
Json = dict[str, Any]


def scored(run: str, values: list[list[float]], how: Protocol) -> Scores:
    topics = tuple(f"A.{i}" for i in range(len(values)))
    return Scores(run, "c", "official", how, ("AP", "P@10"), topics, np.array(values), "0a" * 32, "", {"results": 3})


def compared(test: comparison.Test, values: list[list[float]], baseline: str | None = None, **more: Any) -> Comparison:  # noqa: ANN401
    zero = [[0.5, 0.25], [0.5, 0.5], [0.25, math.nan]]
    how = Protocol("p", ("AP", "P@10"))
    both = [scored("a", values, how), scored("b", zero, how)]
    return compare(both, baseline, test=test, permutations=100, **more)


def evaluated(comparison: Comparison | None) -> Json:
    made = tuple(scored(name, VALUES, Protocol("p", ("AP",))) for name in ("a", "b"))
    bounds = {"a": {"AP": (0.1, 0.2), "P@10": (0.0, 1.0)}}
    odd = replace(parse_run(TWO, "a"), warnings=(InputFault("a", 2, "odd"),))
    return evaluation_to_json(Evaluation(task("mini-task1"), (odd,), made, bounds), comparison)


def reproduced() -> Json:
    old, new = (scored(name, values, Protocol("p", ("AP",))) for name, values in (("a", VALUES), ("b", VALUES[::-1])))
    rankings = {"A.0": ["d1", "d2"], "A.1": ["d3"]}, {"A.0": ["d2", "d1", "d4"]}
    return reproduction.to_json(reproduction.reproduction(old, new, rankings, (new, old), measures=["AP"]))


VALUES = [[0.1, math.nan], [1 / 3, 1.0], [0.5, 0.5]]
UNLIKE, EQUAL = [[0.1, 0.2], [0.3, 1.0], [0.5, 0.5]], [[0.5, 0.25], [0.5, 0.5], [0.25, 0.5]]
PLAIN = Protocol("p", ("AP",))
WITH_ALL = Protocol("p", ("AP", "nDCG@10"), "title", None, True, ((0.0, 0.5), (2.0, 1.0)), 2.0)
# The first word of a name is that of its schema.
MADE: dict[str, Json] = {
    "run": run_to_json(parse_run(TWO, "run")),
    "run of task 2": run_to_json(parse_run("č f1 7 1 2 t\nč f2 é 2 -1e-300 t\n".encode(), "run")),
    "scores": scores_to_json(scored("r", VALUES, PLAIN)),
    "scores of no topics": scores_to_json(scored("r", VALUES, PLAIN).select([])),
    "scores of a protocol with everything": scores_to_json(scored("r", VALUES, WITH_ALL)),
    "comparison": written(compared("t", UNLIKE)),
    "comparison with a baseline": written(compared("randomization", UNLIKE, "b")),
    "comparison of equal runs": written(compared("t", EQUAL)),
    "comparison by maxT": written(compared("t", [[0.5, 0.2], [0.4, 0.5], [0.2, 0.5]], correction="maxT")),
    "comparison for equivalence": written(compared("t", [[0.5, 0.25], [0.4, 0.5], [0.25, 0.5]], margin={"AP": 0.1})),
    "comparison that is undefined": written(compared("t", [[0.6, 0.5], [0.6, 0.75], [0.35, 1]])),
    "evaluation": evaluated(None),
    "evaluation with a comparison": evaluated(compared("t", UNLIKE)),
    "reproduction": reproduced(),
}


def schema(name: str) -> Json:
    return dict(json.loads((FOLDER / f"{name}.json").read_text("utf-8")))


def faults(name: str, document: object) -> list[str]:
    """What does not fit the schema that the first word of a name says."""
    known = [schema(path.stem) for path in FOLDER.glob("*.json")]
    registry = Registry().with_resources((each["$id"], Resource.from_contents(each)) for each in known)
    validator = jsonschema.Draft202012Validator(schema(name.split(maxsplit=1)[0]), registry=registry)
    return [error.message for error in validator.iter_errors(document)]


def through_json(document: object) -> Json:
    """As it is read back from a file; NaN and infinities would be refused."""
    return dict(json.loads(json.dumps(document, allow_nan=False)))


def parts(node: object) -> Iterator[Mapping[str, Any]]:
    """Every schema within a schema."""
    if isinstance(node, dict):
        yield node
    for inner in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from parts(inner)


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.json")))
def test_schemas_are_valid_closed_and_described(name: str) -> None:
    loaded = schema(name)
    jsonschema.Draft202012Validator.check_schema(loaded)
    assert loaded["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    for part in parts(loaded):
        if part.get("type") == "object":
            # A mapping by run, topic or measure says what its values are.
            assert part["additionalProperties"] is False or ("properties" not in part and part["additionalProperties"])
            known = part.get("properties", {})
            later = [key for key in known if "Without this key:" in known[key].get("description", "")]
            assert part.get("required", []) == [key for key in known if key not in later]
        for key, described in part.get("properties", {}).items():
            assert "$ref" in described or {"title", "description"} <= described.keys(), key
    assert all({"title", "description"} <= part.keys() for part in (loaded, *loaded["$defs"].values()))


MODULES = (run_writers, scores, comparison, workflow, reproduction, board)


def test_there_is_a_schema_for_everything_that_is_written() -> None:
    kinds = {module.SCHEMA: module.VERSION for module in MODULES}
    kinds |= {f"mathir-harness/{name}": 1 for name in SCHEMAS if name.startswith("site")}
    loaded = [schema(path.stem).get("properties", {}) for path in FOLDER.glob("*.json")]
    named = [each for each in loaded if "schema" in each]  # lines of a journal and means of a submission name none
    assert {each["schema"]["const"]: each["version"]["const"] for each in named} == kinds


@pytest.mark.parametrize("made", MADE)
def test_what_is_written_fits_its_schema(made: str) -> None:
    assert faults(made, through_json(MADE[made])) == []


def test_the_schemas_have_the_fields_of_the_values() -> None:
    about = {"schema", "version"}
    run, scores, comparison = (schema(name) for name in ("run", "scores", "comparison"))
    again = schema("reproduction")
    assert run["properties"].keys() == about | {"name", "sha256", "topic", "doc", "score", "context"}
    for properties, made, more in (
        (scores["properties"], Scores, about),
        (scores["$defs"]["protocol"]["properties"], Protocol, set()),
        (comparison["properties"], Comparison, about),
        (again["properties"], reproduction.RunReproduction, about | {"rankings"}),
        (again["$defs"]["order"]["properties"], reproduction.TopicOrder, set()),
        (again["$defs"]["effect"]["properties"], reproduction.MeasureReproduction, set()),
        (comparison["$defs"]["row"]["properties"], PairDifference, set()),
        (comparison["$defs"]["equivalence"]["properties"], EquivalenceTest, set()),
    ):
        assert properties.keys() == more | {field.name for field in fields(made)}


def inner(document: Json) -> Iterator[tuple[Json, Json]]:
    """(copy of a document, an object in it) for each object that has fixed keys."""
    for path in ([], ["protocol"], ["rows", 0]):
        copied = found = copy.deepcopy(document)
        try:
            for step in path:
                found = found[step]  # type: ignore[index]
        except (KeyError, TypeError):
            continue
        if isinstance(found, dict):
            yield copied, found


@pytest.mark.slow
@pytest.mark.parametrize("name", MADE)
def test_what_lacks_a_key_or_has_another_or_a_value_of_another_type_does_not_fit(name: str) -> None:
    document = through_json(MADE[name])
    for which, (_, original) in enumerate(list(inner(document))):
        for key in original:
            changed, found = list(inner(document))[which]
            del found[key]
            assert faults(name, changed) == [f"{key!r} is a required property"]
            changed, found = list(inner(document))[which]
            found[key] = {"another": []}
            assert faults(name, changed), key
        changed, found = list(inner(document))[which]
        found["surplus"] = 1
        assert faults(name, changed) == ["Additional properties are not allowed ('surplus' was unexpected)"]


@pytest.mark.parametrize(
    ("made", "change"),
    [
        ("run", {"version": 2}),
        ("run", {"name": ""}),
        ("run", {"sha256": "0A" * 32}),
        ("run", {"topic": ["1", "a b"]}),
        ("run", {"doc": ["a", ""]}),
        ("run", {"doc": []}),
        ("run", {"score": [1, "2"]}),
        ("run", {"score": [1, None]}),
        ("run", {"context": ["7", 8]}),
        ("scores", {"values": [[0.1, -1]] * 3}),
        ("scores", {"values": [["1", 1]] * 3}),
        ("scores", {"measures": ["AP", "P at 10"]}),
        ("scores", {"topics": ["1", "1", "2"]}),
        ("scores", {"counts": {"results": -1}}),
        ("scores", {"counts": {"results": 1.5}}),
        ("scores", {"qrels_sha256": "abc"}),
        ("comparison", {"test": "wilcoxon"}),
        ("comparison", {"alpha": 0}),
        ("comparison", {"power": 1}),
        ("comparison", {"family": 0}),
        ("comparison", {"permutations": 0.5}),
        ("comparison", {"rows": []}),
    ],
)
def test_values_out_of_range_do_not_fit(made: str, change: Json) -> None:
    assert len(faults(made, {**through_json(MADE[made]), **change})) > 0


READERS: dict[str, Callable[[Json], object]] = {
    "run": run_from_json,
    "scores": scores_from_json,
    "comparison": comparison.comparison_from_json,
}


@pytest.mark.parametrize("made", [name for name in MADE if name.split()[0] in READERS])
def test_readers_take_what_fits_and_refuse_what_lacks_a_key(made: str) -> None:
    name, document = made.split(maxsplit=1)[0], through_json(MADE[made])
    READERS[name](document)
    for key in document:
        less = {known: value for known, value in document.items() if known != key}
        assert refusal(partial(READERS[name], less)).startswith(f"{name}: ")


def test_comparisons_come_back() -> None:
    made = compared("t", [[0.6, 0.2], [0.6, 1.0], [0.35, 0.5]])
    assert [row.p is None for row in made.rows] == [True, False]  # an undefined test and another
    assert comparison.comparison_from_json(through_json(written(made))) == made
    assert replace(made, seed=1) != made


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"schema": "x"}, "run: schema is 'x' version 1, expected 'mathir-harness/run' version 1"),
        ({"version": 2}, "run: schema is 'mathir-harness/run' version 2, expected 'mathir-harness/run' version 1"),
        ({"name": "a\n"}, rf"run: run name 'a\n' is not a name: expected {NAME_RULE}"),
        ({"doc": ["a"]}, "run: damaged, ValueError: zip() argument 2 is shorter than argument 1"),
        ({"doc": ["a", "b c"]}, "run: damaged, ValueError: an id is empty or holds blanks"),
        ({"topic": ["", "1"]}, "run: damaged, ValueError: an id is empty or holds blanks"),
        ({"context": ["7", "\n"]}, "run: damaged, ValueError: an id is empty or holds blanks"),
        ({"score": [1, None]}, f"run: damaged, TypeError: {NOT_A_NUMBER}"),
        ({"score": [1, np.nan]}, "run:2: score 'nan' is not a finite number"),
        ({"doc": ["a", "a"]}, "run:2: document 'a' of topic '1' is on line 1 already"),
        ({"topic": None}, "run: damaged, TypeError: 'NoneType' object is not iterable"),
    ],
)
def test_damaged_json(change: dict[str, Any], expected: str) -> None:
    assert refusal(lambda: run_from_json({**run_to_json(parse_run(TWO, "run")), **change})) == expected


def test_json_that_lacks_a_key_or_is_no_object() -> None:
    data = run_to_json(parse_run(TWO, "run"))
    for key in data.keys() - {"schema", "version"}:
        less = {known: value for known, value in data.items() if known != key}
        assert refusal(partial(run_from_json, less)) == f"run: damaged, KeyError: '{key}'"
    broken: Any = [data]
    assert refusal(lambda: run_from_json(broken)) == "run: is a list, expected an object"
