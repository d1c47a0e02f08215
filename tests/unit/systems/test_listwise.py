"""List-wise re-ranking: windows, repaired permutations, replay, what is counted and refused."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lexical_tools import rows_corpus
from llm_server import Server, serving
from refusals import refuses

from harness.data.topics import Topic, Topics
from harness.data.trec import Run
from harness.errors import HarnessError
from harness.store.cost import measuring
from harness.systems import listwise
from harness.systems.base import Request
from harness.systems.listwise import Listwise, Order, permutation, windows

TOPICS = Topics((Topic("T1", "one"), Topic("T2", "two"), Topic("T3", "")))
GOOD = {"one": 3, "two": 7}  # documents are good for a question if their number is near to this one
COUNT = 12


def answer(body: Mapping[str, Any]) -> str:
    """A model that orders passages well, in the way that it is asked to."""
    said = body["messages"][-1]["content"]
    wanted = GOOD[re.search(r"^Question: (\w+)", said)[1]]  # type: ignore[index]
    found = re.findall(r"^\[(\d+)\] document (\d+)", said, re.MULTILINE)
    ranked = sorted(found, key=lambda each: abs(int(each[1]) - wanted))
    return " > ".join(f"[{identifier}]" for identifier, _ in ranked)


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as made:
        made.answer = answer
        yield made


@pytest.fixture
def bed(tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> Any:  # noqa: ANN401
    """A function that re-ranks a run file; the endpoint leads to the server."""
    monkeypatch.setattr(listwise, "load_endpoint", lambda _: server.endpoint())
    rows = [{"id": f"d{n:02}", "body": f"document {n}\n[9] and more"} for n in range(COUNT)]
    corpus = rows_corpus(tmp_path / "made.jsonl", rows)
    first = tmp_path / "first.run"
    first.write_text("".join(f"{t.id} Q0 d{n:02} {n + 1} {-n} first\n" for t in TOPICS for n in range(COUNT)))

    def run(**keys: Any) -> Run:  # noqa: ANN401
        keys = {"mode": "live", "window": 4, "step": 2, "cache": {"file": str(tmp_path / "answers")}, **keys}
        system = Listwise("list", str(first), "tiny", **keys)
        return system(Request(TOPICS, corpus, tmp_path / "workspace"))

    return run


def ranked(run: Run, topic: str) -> list[int]:
    docs = run.to_dict()[topic]
    return [int(doc[1:]) for doc in sorted(docs, key=docs.__getitem__, reverse=True)]


def test_good_documents_move_through_all_windows(bed: Any, server: Server) -> None:  # noqa: ANN401
    with measuring() as meter:
        found = bed()
    # By hand: windows 8-11, 6-9, 4-7, 2-5, 0-3, each sorted by distance to 3 (7), ties in the order that was shown.
    order = list(range(COUNT))
    for topic, wanted in (("T1", 3), ("T2", 7)):
        expected = order.copy()
        for begin, end in windows(COUNT, 4, 2):
            expected[begin:end] = sorted(expected[begin:end], key=lambda n: abs(n - wanted))
        assert ranked(found, topic) == expected
        assert expected[0] == wanted
    assert ranked(found, "T3") == order  # it has no text
    said: Any = meter.notes["list: permutations"]
    assert (said["windows"], said["failed"], said["repaired"], said["calls"]) == (10, 0, 0, 10)
    shown = server.bodies[0]["messages"][-1]["content"]
    assert "document 8 [9] and more" in shown  # a document stays on the line of its identifier


def test_replay_needs_no_server_and_k_bounds_what_is_ordered(bed: Any, server: Server) -> None:  # noqa: ANN401
    first = bed(k=6)
    assert ranked(first, "T1")[6:] == list(range(6, COUNT))
    asked = len(server.bodies)
    assert bed(k=6, mode="replay").to_dict() == first.to_dict()
    assert len(server.bodies) == asked
    refuses(r"answers are not in .*: the same command with system.mode=live", lambda: bed(k=8, mode="replay"))


def test_broken_answers_are_repaired_and_counted(bed: Any, server: Server) -> None:  # noqa: ANN401
    server.answer = lambda _: "I think [4] > [4] > [9], then [1]"
    with measuring() as meter:
        found = bed(k=4)
    assert ranked(found, "T1") == [3, 0, 1, 2, *range(4, COUNT)]
    said: Any = meter.notes["list: permutations"]
    counts = {key: said[key] for key in ("windows", "failed", "repaired", "unknown", "duplicates", "missing")}
    assert counts == {"windows": 2, "failed": 0, "repaired": 2, "unknown": 2, "duplicates": 2, "missing": 4}


def test_an_answer_that_fails_keeps_the_order(bed: Any, server: Server) -> None:  # noqa: ANN401
    server.answer = lambda _: ""
    with measuring() as meter:
        assert ranked(bed(k=4), "T1") == list(range(COUNT))
    assert meter.notes["list: permutations"]["failed"] == 2  # type: ignore[index]


def test_a_dry_run_estimates_all_windows(bed: Any, server: Server) -> None:  # noqa: ANN401
    with pytest.raises(HarnessError, match=r"dry run, nothing is ranked: .*10") as error:
        bed(mode="dry")
    assert server.bodies == []
    assert len(error.value.lines) == 1


@given(st.text(alphabet="[]0123456789 >a", max_size=60), st.integers(1, 25))
def test_any_answer_gives_a_permutation(text: str, count: int) -> None:
    found = permutation(text, count)
    assert sorted(found.places) == list(range(count))
    kept = count - found.missing
    assert found.places[kept:] == tuple(sorted(found.places[kept:]))


def test_permutations_by_hand() -> None:
    assert permutation("[3] > [1] > [2]", 3) == Order((2, 0, 1))
    assert permutation("3, 1, 2", 3) == Order((2, 0, 1))
    assert permutation("", 3) == Order((0, 1, 2), missing=3)
    assert permutation("[0] > [2]", 2) == Order((1, 0), unknown=1, missing=1)


@given(st.integers(1, 60), st.integers(2, 25), st.data())
def test_windows_cover_all_ranks_and_end_at_the_first(count: int, window: int, data: Any) -> None:  # noqa: ANN401
    step = data.draw(st.integers(1, window))
    found = windows(count, window, step)
    assert set().union(*(range(*one) for one in found)) == set(range(count))
    assert found[-1][0] == 0
    assert found[0][1] == count
    assert all(end - begin <= window for begin, end in found)
