"""Repeated ids are found in small and in large corpora."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from harness.collections.corpus import Corpus
from harness.collections.distinct import Distinct
from harness.errors import FormatError


def _corpus(folder: Path, ids: list[str]) -> Corpus:
    path = folder / "corpus.jsonl"
    path.write_text("".join(json.dumps({"id": name, "body": "text"}) + "\n" for name in ids))
    return Corpus("some", "Some", "CC0", path, (("id", "id"), ("body", "body")))


@pytest.mark.parametrize(
    ("ids", "line"),
    [
        (["a", "b", "a", "c", "d"], 3),  # among the first ones
        (["a", "b", "c", "d", "a"], 5),  # of the first ones, repeated later
        (["a", "b", "c", "d", "d"], 5),
        (["a", "b", "c", "d", "e", "c", "d"], 6),  # the first of two
    ],
)
def test_a_repeated_id_is_refused_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ids: list[str], line: int
) -> None:
    monkeypatch.setattr("harness.collections.corpus.Distinct", partial(Distinct, few=3))
    repeated = ids[line - 1]
    with pytest.raises(FormatError, match=rf"corpus\.jsonl:{line}: document '{repeated}' is on an earlier line"):
        list(_corpus(tmp_path, ids))


def test_an_id_that_shares_a_hash_is_no_repetition(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Colliding(Distinct):
        def suspects(self) -> frozenset[int]:
            return frozenset({hash("a"), hash("c")})

    monkeypatch.setattr("harness.collections.corpus.Distinct", Colliding)
    assert [document.id for document in _corpus(tmp_path, ["a", "b", "c"])] == ["a", "b", "c"]
