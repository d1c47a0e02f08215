"""What a file of an experiment says: its cells, its baseline, its family, and its faults."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml
from case_tables import literals
from refusals import refusal, refuses

from harness.errors import HarnessError
from harness.experiments.experiment import Experiment, load_experiment
from harness.experiments.overrides import Condition, Seeds

Conf = Callable[[str, str, str], Path]
WHOLE: dict[str, Any] = {
    "title": "Languages and years",
    "shared": ["corpus=c", "edition=old"],
    "axes": {
        "language": {"English": ["collection=eng"], "Spanish": ["collection=spa"], "Czech": ["collection=ces"]},
        "masking": {"off": [], "on": ["system.masking=QZ"]},
        "year": {2021: ["edition=a"], 2022: ["edition=b"]},
    },
    "conditions": {
        "human": {"overrides": ["system=bm25"], "only": {"language": ["English"], "masking": ["off"]}},
        "nllb": {"overrides": ["system=nllb"], "only": {"language": ["Spanish", "Czech"]}},
        "random": {"overrides": ["system=shuffle"], "only": {"masking": ["off"], "language": ["Spanish"]}},
    },
    "pool": "year",
    "seeds": {"key": "system.seed", "values": [1, 2, 3], "only": {"condition": ["random"]}},
    "measures": ["nDCG", "AP", "Judged@10"],
    "baseline": {"condition": "human", "language": "English", "masking": "off"},
}


def without(*keys: str, **changes: object) -> dict[str, Any]:
    return {key: value for key, value in (WHOLE | changes).items() if key not in keys}


def loaded(conf: Conf, mapping: Mapping[str, Any]) -> Experiment:
    conf("experiment", "mine", yaml.safe_dump(dict(mapping), sort_keys=False))
    return load_experiment("mine")


def test_conditions_are_crossed_with_the_axes(conf: Conf) -> None:
    found = loaded(conf, without(shared=["corpus=c"]))
    expected = [("human", "English", "off", year) for year in ("2021", "2022")]
    expected += [("nllb", *rest) for rest in product(("Spanish", "Czech"), ("off", "on"), ("2021", "2022"))]
    expected += [("random", "Spanish", "off", year) for year in ("2021", "2022") for _ in range(3)]
    cells = found.cells()
    assert [cell.labels for cell in cells] == expected
    assert [cell.seed for cell in cells] == [*[None] * 10, "1", "2", "3", "1", "2", "3"]
    by = {(*cell.labels, cell.seed): cell.overrides for cell in cells}
    assert by["human", "English", "off", "2021", None] == ("corpus=c", "collection=eng", "edition=a", "system=bm25")
    assert by["nllb", "Czech", "on", "2022", None] == (
        "corpus=c", "collection=ces", "system.masking=QZ", "edition=b", "system=nllb",
    )  # fmt: skip
    assert by["random", "Spanish", "off", "2022", "3"][-2:] == ("system=shuffle", "system.seed=3")


def test_what_is_shared_gives_way(conf: Conf) -> None:
    """To axes and conditions, and to the command line; no key stands twice."""
    found = loaded(conf, WHOLE)
    assert found.cells()[0].overrides == ("corpus=c", "edition=a", "collection=eng", "system=bm25")
    assert found.cells(["corpus=other", "rerank=true"])[0].overrides == (
        "corpus=other", "edition=a", "rerank=true", "collection=eng", "system=bm25",
    )  # fmt: skip


def test_keys_may_hold_hyphens(conf: Conf) -> None:
    """Names of corpora are keys of some systems."""
    word = "system.pairs.mse-pages=null"
    mapping = {"title": "t", "conditions": {"a": {"overrides": ["system=x", word]}}, "measures": ["AP"]}
    assert loaded(conf, mapping).cells()[0].overrides == ("system=x", word)


def test_the_family_is_that_of_the_whole(conf: Conf) -> None:
    """Five rows are tested, each on two years and on both together, by the two measures that are no diagnostics."""
    found = loaded(conf, WHOLE)
    assert found.of_tests == ("nDCG", "AP")
    assert found.tests == (4 + 1) * (2 + 1) * 2
    assert loaded(conf, without(tested=["AP"])).tests == 15
    assert loaded(conf, without(family=30)).tests == 30
    assert loaded(conf, without("pool")).tests == 5 * 2 * 2  # each year's rows by themselves
    assert loaded(conf, without("baseline")).tests == 0
    only = {
        **WHOLE["conditions"],
        "late": {"overrides": ["system=late"], "only": {**WHOLE["conditions"]["random"]["only"], "year": [2022]}},
    }
    assert loaded(conf, without(conditions=only)).tests == 30 + 2  # it has not all topics


def test_a_cell_is_tested_against_the_same_coordinates(conf: Conf) -> None:
    found = loaded(conf, WHOLE)
    assert found.baseline_of(("nllb", "Czech", "on", "2022")) == ("human", "English", "off", "2022")
    same = loaded(
        conf, without(baseline={"masking": "off"}, conditions={"nllb": WHOLE["conditions"]["nllb"]}, seeds=None)
    )
    assert same.baseline_of(("nllb", "Czech", "on", "2022")) == ("nllb", "Czech", "off", "2022")
    assert same.row(("nllb", "Czech", "on", "2022")) == ("nllb", "Czech", "on")
    assert same.part(("nllb", "Czech", "on", "2022")) == "2022"


def test_a_restriction_keeps_what_is_tested_against(conf: Conf) -> None:
    found = loaded(conf, WHOLE)
    kept = found.restricted(found.cells(), {"language": ("Czech",), "year": ("2022",)})
    assert [cell.labels for cell in kept] == [
        ("human", "English", "off", "2022"), ("nllb", "Czech", "off", "2022"), ("nllb", "Czech", "on", "2022"),
    ]  # fmt: skip
    assert found.restricted(found.cells(), None) == found.cells()
    second = found.restricted(found.cells(), {"seed": ("2",)})
    assert {cell.seed for cell in second} == {None, "2"}
    assert [cell.labels for cell in second if cell.seed] == list(
        dict.fromkeys(c.labels for c in found.cells() if c.seed)
    )
    small = loaded(conf, without(scale={"here": {"says": "smaller", "seeds": [5]}}))
    cells = small.cells(scale="here")
    assert {cell.seed for cell in small.restricted(cells, {"seed": ("5",)})} == {None, "5"}
    refuses("no seed is 2; known: 5", lambda: small.restricted(cells, {"seed": ("2",)}))
    for only, said in (
        ({"seed": ("7",)}, "run: key 'only': no seed is 7; known: 1, 2, 3"),
        ({"langage": ("Czech",)}, "run: key 'only': no axis is called 'langage'; did you mean 'language'?"),
        ({"language": ("Check",)}, "run: key 'only': language has no 'Check'; did you mean 'Czech'?"),
        ({"language": ()}, "run: key 'only': language has no label left"),
        (
            {"condition": ("random",), "masking": ("on",)},
            "run: key 'only': no cell of the experiment has all of these labels",
        ),
    ):
        assert refusal(partial(found.restricted, found.cells(), only)) == said


MANY: dict[str, Any] = {"axes": {f"x{at}": {str(label): [] for label in range(10)} for at in range(30)}}
ENDLESS: dict[str, Any] = {"conditions": {"t": {"tune": {f"system.k{at}": list(range(10)) for at in range(30)}}}}
CROSSED = "000,000,000,000,000,000,000,000,000,000 cells, all labels crossed; at most 10,000 can be run"


@pytest.mark.parametrize(
    ("name", "gone", "put", "more", "said"),
    [
        *literals("experiments/faults"),
        ("more cells than can be counted", (), MANY, {}, f"has 3,{CROSSED}"),
        ("tuned without end", (), ENDLESS, {}, f"has 12,{CROSSED}"),
    ],
)
def test_faults_of_the_file(
    conf: Conf, name: str, gone: tuple[str, ...], put: dict[str, Any], more: dict[str, Any], said: str
) -> None:
    added = {key: {**WHOLE[key], **values} for key, values in more.items()}
    with pytest.raises(HarnessError) as caught:
        loaded(conf, without(*gone, **put, **added))
    lines = caught.value.lines
    assert all(".yaml: " in line and "\n" not in line for line in lines)
    assert any(line.partition(".yaml: ")[2].startswith(said) for line in lines), (name, lines)


def test_faults_are_told_together(conf: Conf) -> None:
    with pytest.raises(HarnessError) as caught:
        loaded(conf, without(pool="years", tested=["P@5"], measures=["nDCG", "APP"]))
    said = [line.partition(".yaml: ")[2].partition(";")[0] for line in caught.value.lines]
    assert [line.split("'")[1] for line in said] == ["APP", "pool", "tested"]


def test_keys_beside_those_of_an_axis_may_be_set(conf: Conf) -> None:
    """Keys and values in braces leave the others as they are, and a label that a condition leaves out hides nothing."""
    axes = {"rate": {"as it is": [], "low": ["system.training.rate=1"]}}
    conditions = {
        "short": {"overrides": ["system=x", "system.training={epochs: 1}"]},
        "untrained": {"overrides": ["system=x", "system.training=null"], "only": {"rate": ["as it is"]}},
    }
    found = loaded(conf, without(axes=axes, conditions=conditions, pool=None, baseline=None, seeds=None))
    assert [cell.labels for cell in found.cells()] == [
        ("short", "as it is"), ("short", "low"), ("untrained", "as it is")
    ]  # fmt: skip


def test_a_condition_that_is_tuned_has_a_cell_for_each_combination(conf: Conf) -> None:
    tuned = {"overrides": ["system=bm25"], "tune": {"system.k1": [0.5, 1], "system.b": [0, 1]}, "only": {
        "language": ["Czech"], "masking": ["off"]}}  # fmt: skip
    found = loaded(conf, without(conditions={**WHOLE["conditions"], "tuned": tuned}))
    cells = [cell for cell in found.cells() if cell.labels[0] == "tuned"]
    assert [(cell.labels[-1], cell.point) for cell in cells] == [
        (year, f"k1={k1}, b={b}") for year in ("2021", "2022") for k1 in ("0.5", "1") for b in ("0", "1")
    ]
    assert cells[1].overrides[-2:] == ("system.k1=0.5", "system.b=1")
    assert found.tests == loaded(conf, WHOLE).tests + 3 * 2  # one row more, however many are tried


def test_a_scale_changes_what_has_its_keys(conf: Conf) -> None:
    """Of systems those that have the key, and whose words do not leave it out; all words of a run in any case."""
    conf("system", "trained", "title: T\n_target_: x.y\ntraining: {epochs: 9}\n")
    conf("system", "plain", "title: P\n_target_: x.y\n")
    conditions = {
        "trained": {"overrides": ["system=trained"]},
        "untrained": {"overrides": ["system=trained", "system.training=null"]},
        "plain": {"overrides": ["system=plain"]},
    }
    here = {"says": "small", "changes": ["system.training.epochs=1", "corpus=few"], "seeds": [1]}
    mapping = {
        "title": "t", "shared": ["corpus=all"], "conditions": conditions, "measures": ["AP"],
        "seeds": {"key": "system.seed", "values": [1, 2]}, "scale": {"here": here, "full": {"needs": ["gpu"]}},
    }  # fmt: skip
    found = loaded(conf, mapping)
    assert [cell.seed for cell in found.cells()] == ["1", "2"] * 3
    assert {cell.overrides[0] for cell in found.cells()} == {"corpus=all"}
    assert [cell.overrides for cell in found.cells(scale="here")] == [
        ("corpus=few", "system=trained", "system.seed=1", "system.training.epochs=1"),
        ("corpus=few", "system=trained", "system.training=null", "system.seed=1"),
        ("corpus=few", "system=plain", "system.seed=1"),
    ]
    refuses("the experiment has no scale 'hear'; did you mean 'here'?", lambda: found.cells(scale="hear"))
    lost = loaded(conf, {**mapping, "scale": {"here": {**here, "changes": ["system.trainin.epochs=1"]}}})
    line = "key 'scale': here: system.trainin.epochs=1: no system has this key"
    assert refusal(lambda: lost.cells(scale="here")) == line


def test_an_axis_of_numbers(conf: Conf) -> None:
    pairs = {"numeric": True, 1000: ["system.k1=1"], 2500: ["system.k1=2"]}
    found = loaded(conf, without(axes={**WHOLE["axes"], "masking": pairs}, baseline=None,
                                 conditions={"a": {"overrides": ["system=bm25"]}}, seeds=None))  # fmt: skip
    assert found.numeric == ("masking",)
    assert found.labels("masking") == ("1000", "2500")


def test_the_embedded_experiment_is_what_it_seems() -> None:
    found = load_experiment("mini")
    assert len(found.cells()) == 9
    assert found.tests == 5 * 2
    assert replace(found, seeds=None).cells() == tuple(
        cell for cell in replace(found, seeds=None).cells() if not cell.seed
    )


def test_a_value_is_enough() -> None:
    """An experiment can be made without a file."""
    found = Experiment(
        "t", {"a": Condition(("system=a",)), "b": Condition(("system=b",))}, ("AP",), seeds=Seeds("system.seed", ("7",))
    )
    assert [cell.overrides for cell in found.cells()] == [("system=a", "system.seed=7"), ("system=b", "system.seed=7")]
