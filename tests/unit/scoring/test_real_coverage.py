from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.data.trec import Qrels, Run
from harness.scoring.coverage import Coverage, restrict_judgments
from harness.scoring.protocol import Protocol, load_protocol
from harness.scoring.scorer import Scorer

JUDGED = {
    "T1": {"a": 3.0, "b": 0.0, "c": 1.0},
    "T2": {"a": 1.0, "d": 0.0},
    "T3": {"e": 2.0},
    "T4": {"b": 0.0, "e": 3.0},
}
QRELS = Qrels.from_dict("official", JUDGED)


def test_judgments_are_cut_to_what_is_there() -> None:
    qrels, coverage = restrict_judgments(QRELS, iter(["b", "a", "x", "d", "a"]))
    assert qrels.to_dict() == {"T1": {"a": 3, "b": 0}, "T2": {"a": 1, "d": 0}, "T4": {"b": 0}}
    assert qrels.edition == "official"
    assert qrels.topics == ("T1", "T2", "T4")
    assert coverage == Coverage(
        pairs=8,
        present=5,
        topics=4,
        judged={"T1": 2, "T2": 2, "T4": 1},
        grades={"T1": frozenset({0.0, 3.0}), "T2": frozenset({0.0, 1.0}), "T4": frozenset({0.0})},
    )
    assert [coverage.relevant_from(grade) for grade in (0, 1, 2, 3, 4)] == [3, 2, 1, 1, 0]
    assert not coverage.complete


def test_a_corpus_that_holds_everything_changes_nothing() -> None:
    qrels, coverage = restrict_judgments(QRELS, "abcde")
    assert qrels is QRELS
    assert coverage.complete
    assert coverage.sentence(load_protocol("arqmath-task1"), ["chosen"]) == (
        "judged and present: 8 of 8 pairs; 4 topics with a relevant document for nDCG′, 3 for MAP′, P′@10 and Bpref"
    )


def test_a_measure_with_a_threshold_of_its_own_is_counted_by_it() -> None:
    pytest.importorskip("ir_measures", reason="in the extra 'measures'")
    _, coverage = restrict_judgments(QRELS, "abcde")
    assert coverage.sentence(Protocol("p", ("AP(rel=3)", "AP", "nDCG", "P@5"), relevant_from=2)) == (
        "judged and present: 8 of 8 pairs; 4 topics with a relevant document for nDCG, 3 for MAP and P@5, "
        "2 for MAP(rel=3)"
    )


def test_a_corpus_that_holds_nothing() -> None:
    qrels, coverage = restrict_judgments(QRELS, [])
    assert (len(qrels), qrels.topics, coverage.present, coverage.judged) == (0, (), 0, {})
    assert coverage.sentence(Protocol("p", ("P@5",)), ["chosen by hand"]) == (
        "judged and present: 0 of 8 pairs; 0 topics with a relevant document for P@5; chosen by hand; "
        "not comparable with published values"
    )


def test_words_follow_the_protocol() -> None:
    _, coverage = restrict_judgments(QRELS, "abd")
    task = load_protocol("arqmath-task1")
    assert coverage.sentence(task) == (
        "judged and present: 5 of 8 pairs; "
        "2 topics with a relevant document for nDCG′, 1 for MAP′, P′@10 and Bpref; not comparable with published values"
    )
    # Grades lowered by one: the 1 of T2 has no gain any more.
    assert coverage.sentence(load_protocol("crossmath")).startswith(
        "judged and present: 5 of 8 pairs; 1 topic with a relevant document for nDCG′@10, 1 for P′@10; "
    )
    assert coverage.with_gain(Protocol("p", ("nDCG",), gains=((0.0, 1.0), (3.0, 0.0), (1.0, 0.0)))) == 3
    alone = Protocol("p", ("Judged@10",))
    assert coverage.sentence(alone) == "judged and present: 5 of 8 pairs; not comparable with published values"


def test_large_numbers_have_separators() -> None:
    many = Qrels.from_dict("e", {"T": {f"d{n}": 1.0 for n in range(34_847)}})
    _, coverage = restrict_judgments(many, (f"d{n}" for n in range(1_328)))
    assert coverage.sentence(Protocol("p", ("AP",))).startswith("judged and present: 1,328 of 34,847 pairs; ")


def test_the_checksum_tells_judgments_apart() -> None:
    sums = {restrict_judgments(QRELS, ids)[0].sha256 for ids in ("abcde", "abcd", "abce", "ab", "ba", "")}
    assert len(sums) == 5
    assert restrict_judgments(QRELS, "ab")[0].sha256 == restrict_judgments(QRELS, ["b", "a", "y"])[0].sha256


IDS = st.text("abcdé", min_size=1, max_size=2)


@given(
    st.dictionaries(st.sampled_from(["T1", "T2", "T3"]), st.dictionaries(IDS, st.integers(0, 3)), min_size=1),
    st.sets(IDS),
)
def test_against_plain_dictionaries(judged: dict[str, dict[str, int]], ids: set[str]) -> None:
    judged = {topic: docs for topic, docs in judged.items() if docs}
    if not judged:
        return
    qrels, coverage = restrict_judgments(Qrels.from_dict("e", {t: dict(d) for t, d in judged.items()}), ids)
    expected = {t: {doc: grade for doc, grade in docs.items() if doc in ids} for t, docs in judged.items()}
    expected = {topic: docs for topic, docs in expected.items() if docs}
    assert qrels.to_dict() == expected
    assert coverage.judged == {topic: len(docs) for topic, docs in expected.items()}
    assert coverage.relevant_from(2) == sum(max(docs.values()) >= 2 for docs in expected.values())
    if expected:
        again = Qrels.from_dict("e", {t: dict(d) for t, d in expected.items()})
        assert np.array_equal(qrels.key, again.key)


def test_restricted_judgments_can_be_scored() -> None:
    qrels, _ = restrict_judgments(QRELS, "abd")
    scorer = Scorer(qrels, load_protocol("arqmath-task1"), collection="c", measures=("P@10", "nDCG"))
    scores = scorer(Run.from_dict("r", {"T1": {"b": 2.0, "a": 1.0}, "T3": {"e": 1.0}, "T4": {"b": 1.0}}))
    assert scores.topics == ("T1", "T2", "T4")
    assert scores.column("P@10").tolist() == pytest.approx([0.1, 0.0, 0.0])
    assert scores.qrels_sha256 == qrels.sha256


def test_many_ids_take_no_time() -> None:
    rng = random.Random(0)
    many = Qrels.from_dict("e", {f"T{t}": {f"d{rng.randrange(10**6)}": 1.0 for _ in range(400)} for t in range(80)})
    _, coverage = restrict_judgments(many, (f"d{n}" for n in range(0, 10**6, 2)))
    assert 0.4 < coverage.present / coverage.pairs < 0.6
