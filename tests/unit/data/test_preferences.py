"""Preference judgments in five columns: grades of one group, and what is refused."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import harness as h
from harness.collections.load import local_collection
from harness.data.trec import Qrels, parse_qrels, read_qrels
from harness.errors import HarnessError

PREFERENCES = b"q1 g s d1 3\nq1 g s d2 1.5\n\nq2 a 1 d1 0\r\nq2 a 1 d9 2\n"


def test_levels_are_grades(tmp_path: Path) -> None:
    expected = {"q1": {"d1": 3.0, "d2": 1.5}, "q2": {"d1": 0.0, "d9": 2.0}}
    for name, data in (
        ("p.txt", PREFERENCES),
        ("p.txt.gz", gzip.compress(PREFERENCES)),
        ("bom", b"\xef\xbb\xbf" + PREFERENCES),
    ):
        (tmp_path / name).write_bytes(data)
        qrels = read_qrels(tmp_path / name)
        assert qrels.frame().relevance.tolist() == [3.0, 1.5, 0.0, 2.0]
        assert {
            topic: qrels.frame().query("query_id == @topic").set_index("doc_id").relevance.to_dict()
            for topic in expected
        } == expected


def test_runs_are_scored_by_preferences(tmp_path: Path) -> None:
    """As by the same grades in four columns."""
    (tmp_path / "five.txt").write_bytes(PREFERENCES.replace(b"1.5", b"1"))
    (tmp_path / "four.txt").write_bytes(b"q1 0 d1 3\nq1 0 d2 1\nq2 0 d1 0\nq2 0 d9 2\n")
    run = h.Run.from_dict("mine", {"q1": {"d2": 2.0, "d1": 1.0}, "q2": {"d1": 2.0, "d9": 1.0}})
    five, four = (
        h.evaluate(h.task(local_collection(tmp_path / f"{name}.txt"), measures=["nDCG", "AP"]), run).scores[0]
        for name in ("five", "four")
    )
    np.testing.assert_array_equal(five.values, four.values)


SAMPLED = "5 columns like judgments that were sampled (topic document grade method probability)"


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"q1 g s d1 3\nq1 g s d1 2\n", ":2: document 'd1' of topic 'q1' is judged on line 1 already"),
        (
            b"q1 g s d1 3\nq1 g t d2 2\nq1 h s d3 1\n",
            ":2: topic 'q1' has preferences of the groups 'g s' (line 1) and 'g t'",
        ),
        (b"q1 g s d1 high\nq1 g s d2 1\n", ":1: level 'high' is not a finite number"),
        (b"q1 g s d1 -1\nq1 g s d2 1\n", ":1: level -1 is not between 0 and 9,007,199,254,740,992"),
        (b"q1 g s d1 1\nq1 g s d2 1\nq1 0 d3 1\n", ":3: 4 columns, expected 5 (topic group subgroup document level)"),
        (b"q1 g s " + b"d" * 256 + b" 1\n", ":1: document id of 256 bytes, at most 255"),
        (b"1 GX01 1 1 0.25\n1 GX02 0 2 1.0\n", f":1: {SAMPLED}"),
    ],
)
def test_what_is_refused(data: bytes, says: str) -> None:
    with pytest.raises(HarnessError) as caught:
        parse_qrels(data, "q.txt", edition="e")
    (line,) = caught.value.lines
    assert line.startswith(f"q.txt{says}")


def test_documents_that_are_numbers_are_no_methods() -> None:
    qrels = parse_qrels(b"1 2 3 1 1\n1 2 3 2 2\n", "q.txt", edition="e")
    assert qrels.to_dict() == {"1": {"1": 1, "2": 2}}


IDS = st.text("abcé0", min_size=1, max_size=4)


@given(st.dictionaries(IDS, st.dictionaries(IDS, st.integers(0, 9), min_size=1), min_size=1))
def test_any_preferences_are_read(levels: dict[str, dict[str, int]]) -> None:
    lines = [f"{topic} g s {doc} {level}" for topic, docs in levels.items() for doc, level in docs.items()]
    found = parse_qrels("\n".join(lines).encode(), "q.txt", edition="e")
    assert found.to_dict() == levels
    assert isinstance(found, Qrels)
