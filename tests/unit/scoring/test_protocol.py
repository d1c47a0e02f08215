from __future__ import annotations

import json
import math
from dataclasses import asdict, fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refusal

from harness.errors import HarnessError
from harness.scoring.protocol import Protocol
from harness.scoring.scores import Scores, scores_from_json, scores_to_json

MINIMAL = {"name": "p", "measures": ["AP"]}
FULL = {
    "name": "task",
    "title": "A task",
    "measures": ["nDCG", "AP", "P@10"],
    "depth": None,
    "prime": True,
    "gains": {2: 1.0, 1: 0.3, 0: 0},
    "relevant_from": 2,
    "ideal": "retrieved",
    "ties": "file",
    "deduplicate": True,
    "ties_deduplicate": "reference",
    "topics": "answered",
    "no_relevant": "skip",
    "exclude": [],
    "candidates": "any",
    "precision": "double",
}
ALL_NAMES = "known: AP, Bpref, GMAP, Judged, NumQ, NumRel, NumRet, P, R, RR, RelRet, Rprec, Success, nDCG"
SCORES = Scores(
    run="r",
    collection="c",
    edition="official",
    protocol=Protocol("p", ("AP", "Judged@10"), gains=((1.0, 0.3),), relevant_from=2.0),
    measures=("AP", "Judged@10"),
    topics=("A.1", "B.2", "č"),
    values=np.array([[0.1, math.nan], [1 / 3, 1.0], [math.nan, math.nan]]),
    qrels_sha256="aa",
    run_sha256="bb",
    counts={"results": 7},
)


def test_a_protocol_from_its_configuration() -> None:
    assert Protocol.from_config(MINIMAL, "where") == Protocol("p", ("AP",))
    assert Protocol.from_config(FULL, "where") == Protocol(
        name="task",
        title="A task",
        measures=("nDCG", "AP", "P@10"),
        depth=None,
        prime=True,
        gains=((0.0, 0.0), (1.0, 0.3), (2.0, 1.0)),
        relevant_from=2.0,
        ideal="retrieved",
        ties="file",
        deduplicate=True,
        ties_deduplicate="reference",
        topics="answered",
        no_relevant="skip",
        precision="double",
    )
    assert FULL.keys() == {field.name for field in fields(Protocol)}


def test_gains_are_also_taken_as_pairs_and_the_configuration_is_left_alone() -> None:
    config = {**MINIMAL, "gains": [[2, 1], [1, 0.3]]}
    assert Protocol.from_config(config, "where").gains == ((1.0, 0.3), (2.0, 1.0))
    assert config == {"name": "p", "measures": ["AP"], "gains": [[2, 1], [1, 0.3]]}
    assert Protocol.from_config({**MINIMAL, "gains": None}, "where").gains == ()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dept": 5}, "key 'dept' is unknown; did you mean 'depth'?"),
        ({"relevance_from": 2}, "key 'relevance_from' is unknown; did you mean 'relevant_from'?"),
        ({1: 2}, "key 1 is unknown; known: " + ", ".join(sorted(FULL))),
        ({"name": None}, "key 'name' is missing"),
        ({"name": ""}, "key 'name' is missing"),
        ({"measures": None}, "key 'measures' is missing"),
        ({"measures": []}, "key 'measures' is missing"),
        ({"measures": "AP"}, "key 'measures' is 'AP', expected a list such as [nDCG, AP, P@10]"),
        ({"measures": {"AP": 1}}, "key 'measures' is {'AP': 1}, expected a list such as [nDCG, AP, P@10]"),
        ({"measures": 5}, "key 'measures' is 5, expected a list such as [nDCG, AP, P@10]"),
        ({"measures": ["AP", "MAP"]}, "key 'measures': measure 'MAP' is named twice"),
        ({"measures": ["P"]}, "key 'measures': measure 'P' needs a cut, such as P@10"),
        ({"measures": [None]}, "key 'measures': measure 'None' is unknown; " + ALL_NAMES),
        ({"gains": 5}, "key 'gains' is 5, expected grades and gains such as {2: 1.0, 1: 0.3}"),
        ({"gains": {"a": 1}}, "key 'gains' is {'a': 1}, expected grades and gains such as {2: 1.0, 1: 0.3}"),
        ({"gains": {1: None}}, "key 'gains' is {1: None}, expected grades and gains such as {2: 1.0, 1: 0.3}"),
        ({"gains": [[1, 2, 3]]}, "key 'gains' is [[1, 2, 3]], expected grades and gains such as {2: 1.0, 1: 0.3}"),
        ({"gains": {1: -0.5}}, "key 'gains' has a gain below 0, above 9,007,199,254,740,992 or not finite"),
        ({"gains": {1: math.nan}}, "key 'gains' has a gain below 0, above 9,007,199,254,740,992 or not finite"),
        ({"gains": {1: 1e300}}, "key 'gains' has a gain below 0, above 9,007,199,254,740,992 or not finite"),
        ({"gains": {1: math.inf}}, "key 'gains' has a gain below 0, above 9,007,199,254,740,992 or not finite"),
        ({"ideal": "all"}, "key 'ideal' is 'all', expected one of judged, retrieved"),
        ({"ties": "trec_eval"}, "key 'ties' is 'trec_eval', expected one of reference, file"),
        (
            {"deduplicate": True, "ties_deduplicate": "score"},
            "key 'ties_deduplicate' is 'score', expected one of reference, file",
        ),
        ({"ties_deduplicate": "file"}, "key 'ties_deduplicate' has no use without 'deduplicate: true'"),
        ({"measures": ["AP@5", "P@1", "AP@5"]}, "key 'measures': measure 'AP@5' is named twice"),
        ({"measures": ["AP@5", "AP@05"]}, "key 'measures': measure 'AP@05': the cut begins with 0, expected AP@5"),
        ({"topics": None}, "key 'topics' is None, expected one of all, answered"),
        ({"topics": ["all"]}, "key 'topics' is ['all'], expected one of all, answered"),
        ({"no_relevant": 0}, "key 'no_relevant' is 0, expected one of zero, skip"),
        ({"depth": 0}, "key 'depth' is 0, expected a whole number from 1, or null for all"),
        ({"depth": -1}, "key 'depth' is -1, expected a whole number from 1, or null for all"),
        ({"depth": 10.0}, "key 'depth' is 10.0, expected a whole number from 1, or null for all"),
        ({"depth": "all"}, "key 'depth' is 'all', expected a whole number from 1, or null for all"),
        ({"depth": True}, "key 'depth' is True, expected a whole number from 1, or null for all"),
        ({"prime": "yes"}, "key 'prime' is 'yes', expected true or false"),
        ({"prime": 1}, "key 'prime' is 1, expected true or false"),
        ({"deduplicate": None}, "key 'deduplicate' is None, expected true or false"),
        ({"relevant_from": 0}, "key 'relevant_from' is 0, expected a grade above 0"),
        ({"relevant_from": -2.5}, "key 'relevant_from' is -2.5, expected a grade above 0"),
        ({"relevant_from": "2"}, "key 'relevant_from' is '2', expected a grade above 0"),
        ({"relevant_from": True}, "key 'relevant_from' is True, expected a grade above 0"),
        ({"relevant_from": None}, "key 'relevant_from' is None, expected a grade above 0"),
        ({"relevant_from": math.nan}, "key 'relevant_from' is nan, expected a grade above 0"),
        ({"relevant_from": math.inf}, "key 'relevant_from' is inf, expected a grade above 0"),
    ],
)
def test_what_is_wrong_with_a_configuration(change: dict[str, Any], message: str) -> None:
    assert refusal(Protocol.from_config, {**MINIMAL, **change}, "p.yaml") == f"p.yaml: {message}"


@pytest.mark.parametrize("key", ["name", "measures"])
def test_a_configuration_without_a_necessary_key(key: str) -> None:
    mapping = {known: value for known, value in MINIMAL.items() if known != key}
    assert refusal(Protocol.from_config, mapping, "p.yaml") == f"p.yaml: key {key!r} is missing"


def test_every_setting_of_a_protocol_shows_in_its_words() -> None:
    plain = Protocol("p", ("AP",))
    assert plain.in_words() == (
        "The first 1,000 results of a topic count; ties are in the order of trec_eval 9 "
        "(32-bit score, then document id, both descending).",
        "Documents without a judgment count as not relevant.",
        "Gains of nDCG are the grades.",
        "Binary measures count grades from 1 up as relevant.",
        "The ideal ranking is made of all judged documents.",
        "Means are over all topics of the edition; a topic that a run does not answer counts 0.",
        "A topic without relevant documents counts 0.",
    )
    assert Protocol.from_config(FULL, "where").in_words() == (
        "All results count; ties are in the order of trec_eval 10 (64-bit score, then document id, both descending).",
        "Results are mapped to their keys and only the first of each key is kept; then equal scores keep the order of "
        "the file.",
        "Documents without a judgment are removed before scoring (prime).",
        "Gains of nDCG: 0 -> 0, 1 -> 0.3, 2 -> 1.",
        "Binary measures count grades from 2 up as relevant.",
        "The ideal ranking is made of the judged documents that the run retrieved.",
        "Means are over the topics that the run answers.",
        "A topic without relevant documents is left out of a measure's mean.",
    )
    full = replace(Protocol.from_config(FULL, "where"), ties_deduplicate="file")
    assert "trec_eval 10 (64-bit score, then document id" in replace(plain, precision="double").in_words()[0]
    for name, value in (asdict(full) | {"exclude": ("own",), "candidates": "judged"}).items():
        base = replace(plain, deduplicate=name == "ties_deduplicate")
        said = replace(base, **{name: value}).in_words()
        assert (said == base.in_words()) == (name in ("name", "title", "measures")), name


def test_the_two_rules_for_ties_are_said_in_words() -> None:
    how = Protocol("p", ("AP",), deduplicate=True, ties="reference", ties_deduplicate="file")
    assert how.tie_rules == ("file", "reference")
    assert how.in_words()[:2] == (
        "The first 1,000 results of a topic count; equal scores keep the order of the file.",
        "Results are mapped to their keys and only the first of each key is kept; then ties are in the order of "
        "trec_eval 9 (32-bit score, then key, both descending).",
    )
    assert replace(how, ties_deduplicate=None).tie_rules == ("reference", "reference")
    assert replace(how, deduplicate=False, ties_deduplicate=None, ties="file").tie_rules == ("file", "file")


def test_labels_have_a_prime_where_unjudged_documents_are_removed() -> None:
    assert Protocol("p", ("AP",)).label("AP") == "MAP"
    assert Protocol("p", ("AP",), prime=True).label("nDCG@10") == "nDCG\u2032@10"


def test_means_are_over_the_topics_that_count() -> None:
    assert SCORES.column("Judged@10").tolist() == pytest.approx([math.nan, 1.0, math.nan], nan_ok=True)
    assert (SCORES.n("AP"), SCORES.n("Judged@10")) == (2, 1)
    assert SCORES.mean("AP") == pytest.approx((0.1 + 1 / 3) / 2)
    assert SCORES.mean("Judged@10") == 1.0
    none = SCORES.select(["č"])
    assert none.n("AP") == 0
    assert math.isnan(none.mean("AP"))


def test_a_measure_that_was_not_scored() -> None:
    with pytest.raises(HarnessError, match=r"^run r: measure 'Judged@5' was not scored; did you mean 'Judged@10'\?$"):
        SCORES.column("Judged@5")


def test_a_selection_keeps_the_order_of_the_scores() -> None:
    some = SCORES.select(iter(["č", "A.1", "unknown"]))
    assert some.topics == ("A.1", "č")
    np.testing.assert_array_equal(some.values, SCORES.values[[0, 2]])
    assert replace(some, topics=SCORES.topics, values=SCORES.values).counts == SCORES.counts


def same(one: Scores, two: Scores) -> bool:
    parts = [{field.name: getattr(scores, field.name) for field in fields(Scores)} for scores in (one, two)]
    first, second = (part.pop("values") for part in parts)
    return parts[0] == parts[1] and first.shape == second.shape and first.tobytes() == second.tobytes()


def written(scores: Scores) -> Any:  # noqa: ANN401
    return json.loads(json.dumps(scores_to_json(scores), allow_nan=False))


def test_scores_come_back_from_json_to_the_last_bit() -> None:
    assert written(SCORES)["values"] == [[0.1, None], [1 / 3, 1.0], [None, None]]
    assert same(scores_from_json(written(SCORES)), SCORES)
    assert same(scores_from_json(scores_to_json(SCORES)), SCORES)
    nothing = SCORES.select([])
    assert nothing.values.shape == (0, 2)
    assert same(scores_from_json(written(nothing)), nothing)
    full = replace(SCORES, protocol=Protocol.from_config(FULL, "where"))
    assert same(scores_from_json(written(full)), full)


@given(st.lists(st.tuples(st.floats(0, 1), st.one_of(st.floats(0, 1), st.just(math.nan))), min_size=1, max_size=9))
@settings(deadline=None)
def test_any_scores_come_back_from_json(rows: list[tuple[float, float]]) -> None:
    topics = tuple(f"t{i}" for i in range(len(rows)))
    scores = replace(SCORES, topics=topics, values=np.array(rows))
    assert same(scores_from_json(written(scores)), scores)


def test_scores_of_version_1_are_read_where_their_one_rule_for_ties_means_the_same() -> None:
    def old(**protocol: object) -> dict[str, Any]:
        data = written(SCORES)
        del data["protocol"]["ties_deduplicate"]
        return {**data, "version": 1, "protocol": {**data["protocol"], **protocol}}

    assert same(scores_from_json(old()), SCORES)
    assert scores_from_json(old(deduplicate=True, ties="file")).protocol.tie_rules == ("file", "file")
    with pytest.raises(HarnessError, match=r"^scores: version 1 ordered tied keys by document ids, .*; score again$"):
        scores_from_json(old(deduplicate=True))


SCHEMA = "'mathir-harness/scores' version 2"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": "mathir-harness/run"}, f"scores: schema is 'mathir-harness/run' version 2, expected {SCHEMA}"),
        ({"version": 3}, f"scores: schema is 'mathir-harness/scores' version 3, expected {SCHEMA}"),
        ({"values": []}, "scores: table of shape (0,), expected (3, 2)"),
        ({"values": [[1, 2]]}, "scores: table of shape (1, 2), expected (3, 2)"),
        ({"values": [[1], [2], [3]]}, "scores: table of shape (3, 1), expected (3, 2)"),
        ({"values": [[], [], []]}, "scores: table of shape (3, 0), expected (3, 2)"),
        ({"values": [[[1]], [[2]], [[3]]]}, "scores: table of shape (3, 1, 1), expected (3, 2)"),
        ({"topics": []}, "scores: table of shape (3, 2), expected (0, 2)"),
        ({"values": 5}, "scores: damaged, TypeError: 'int' object is not iterable"),
        ({"values": [["a", 1]] * 3}, "scores: damaged, ValueError: could not convert string to float: 'a'"),
        ({"topics": None}, "scores: damaged, TypeError: 'NoneType' object is not iterable"),
        ({"protocol": {**MINIMAL, "prime": 3}}, "scores: protocol: key 'prime' is 3, expected true or false"),
        ({"protocol": {"name": "p"}}, "scores: protocol: key 'measures' is missing"),
    ],
)
def test_damaged_scores(change: dict[str, Any], message: str) -> None:
    assert refusal(scores_from_json, {**scores_to_json(SCORES), **change}) == message


def test_scores_of_unequal_rows() -> None:
    with pytest.raises(HarnessError, match=r"^scores: damaged, ValueError: "):
        scores_from_json({**scores_to_json(SCORES), "values": [[1, 2], [1], [1, 2]]})


@pytest.mark.parametrize("key", sorted(scores_to_json(SCORES).keys() - {"schema", "version"}))
def test_scores_without_a_key(key: str) -> None:
    data = {known: value for known, value in scores_to_json(SCORES).items() if known != key}
    with pytest.raises(HarnessError, match=f"^scores: damaged, KeyError: '{key}'$"):
        scores_from_json(data)


@pytest.mark.parametrize(("data", "kind"), [([], "list"), (None, "NoneType"), ("{}", "str")])
def test_scores_that_are_no_object(data: Any, kind: str) -> None:  # noqa: ANN401
    with pytest.raises(HarnessError, match=f"^scores: is a {kind}, expected an object$"):
        scores_from_json(data)
