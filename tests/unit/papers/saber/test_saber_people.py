"""People as judges: sessions that end at any moment, files of choices, agreement by hand."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from refusals import refuses

from harness.papers.saber.databank import MathProblem
from harness.papers.saber.judges import CandidatePair
from harness.papers.saber.people import Choice, ask, pairs_to_judge, people_agreement, read_choices

PROBLEMS = {name: MathProblem(name, f"Statement {name}.", f"Solution {name}.") for name in "tabcdé"}
PAIRS = [CandidatePair("t", first, second) for first, second in itertools.combinations("abcdé", 2)]


def session(path: Path, *answers: str, person: str = "me") -> list[str]:
    """What was shown to a person who gives some answers and then is gone."""
    waiting: Iterator[str] = iter(answers)
    shown: list[str] = []

    def read(_: str) -> str:
        for answer in waiting:
            return answer
        raise EOFError

    ask(PAIRS, PROBLEMS, person, path, read, shown.append)
    return shown


@pytest.mark.slow
def test_a_session_cut_at_any_byte_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "choices.jsonl"
    session(path, "1", "maybe", "", "i", "2", "s", "é")
    whole = path.read_bytes()
    ends = [at + 1 for at, sign in enumerate(whole) if sign == ord("\n")]
    assert [choice.preferred for choice in read_choices(path)] == [1, 2, 0]
    for cut in range(len(whole) + 1):
        path.write_bytes(whole[:cut])
        kept = sum(end <= cut + 1 for end in ends)  # a line that lacks its end alone is whole
        assert len(read_choices(path)) == kept, cut
        session(path, *"1212121212")
        choices = read_choices(path)
        assert len(choices) == len(PAIRS) == len({(each.first, each.second) for each in choices})
        assert [each.preferred for each in choices[:kept]] == [1, 2, 0][:kept]


def test_another_person_is_asked_the_same(tmp_path: Path) -> None:
    path = tmp_path / "choices.jsonl"
    session(path, "1", "q")
    assert any("1 of 10" in text for text in session(path, "2", person="you"))
    assert [(each.person, each.preferred) for each in read_choices(path)] == [("me", 1), ("you", 2)]


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "choices.jsonl"
    good = {"person": "a", "target": "t", "first": "a", "second": "b", "preferred": 1}
    for line, said in (
        ('{"person": "a"}', "key 'target' is missing"),
        (json.dumps({**good, "target": ["t"]}), r"target is \['t'\], expect"),
        (json.dumps({**good, "preferred": True}), "preferred is True, expect"),
        (json.dumps({**good, "preferred": 3}), "preferred is 3, expected 0"),
        ('{"person": ', "Expecting value"),
    ):
        path.write_text(f"{line}\n")
        refuses(rf"choices.jsonl:1: .*{said}", lambda: read_choices(path))


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    refuses(r"choices\.jsonl: cannot be written", lambda: session(tmp_path / "file" / "choices.jsonl", "1"))


def test_agreement_by_hand_and_choices_of_others() -> None:
    order = {"t": {"a": 3.0, "b": 2.0, "c": 2.0}}
    choices = [
        Choice("me", "t", "a", "b", 1),
        Choice("me", "t", "b", "a", 1),
        Choice("you", "t", "c", "a", 2),
        Choice("me", "t", "b", "c", 1),  # the order ties them
        Choice("me", "t", "a", "c", 0),  # skipped
        Choice("me", "t", "a", "z", 1),
        Choice("me", "u", "a", "b", 2),
    ]
    found = people_agreement(choices, order)
    assert (found.choices, found.agreed, found.unknown) == (3, 2, 2)


def test_pairs_are_drawn_once_and_swapped_by_chance() -> None:
    rng = random.Random(4)
    ratings = {f"t{n}": {f"c{m}": rng.random() for m in range(12)} for n in range(4)}
    drawn = pairs_to_judge(ratings, 200, seed=1)
    assert len({(each.target, frozenset((each.first, each.second))) for each in drawn}) == 200
    assert drawn[:20] == pairs_to_judge(ratings, 20, seed=1)
    assert 70 < sum(each.first < each.second for each in drawn) < 130
