"""Judges: the language model through the client, embeddings, people."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from harness.errors import HarnessError
from harness.papers.saber.databank import MathProblem
from harness.papers.saber.judges import CandidatePair, Embedding, LanguageModel, decision, judged_text
from harness.papers.saber.people import pairs_to_judge
from harness.papers.saber.swiss import tournament
from harness.store.llm import Answer, Ask, Client, Endpoint

PROBLEMS = {
    name: MathProblem(name, f"Statement of {name}: $x_{n}$", f"Solution of {name}") for n, name in enumerate("tabcd")
}


class Scripted(Client):
    """A client whose answers are written down."""

    def __init__(self, answers: list[str]) -> None:
        super().__init__(Endpoint("scripted", "tiny", 0.0, 0.0), "replay")
        self.answers, self.asked = list(answers), list[Ask]()

    def ask(self, asks: object) -> tuple[Answer, ...]:
        self.asked += list(asks)  # type: ignore[call-overload]
        return tuple(Answer(self.answers.pop(0)) for _ in asks)  # type: ignore[attr-defined]


def test_decisions() -> None:
    """Besides those of the docstring."""
    assert decision("First.\n\n  $\\boxed{2}$  \n\n") == decision("\\boxed{ 2 }") == 2
    assert decision("So $\\boxed{1}$, and again $\\boxed{1}$.") == 1
    for text in ("$\\boxed{1}$\nThat is all.", "$\\boxed{3}$", ""):
        assert decision(text) == 0


def test_an_unclear_answer_is_asked_for_once_more() -> None:
    client = Scripted(["$\\boxed{2}$", "Both are nice.", "No idea", "$\\boxed{1}$", "Still none"])
    judge = LanguageModel(client, PROBLEMS)
    comparisons = [CandidatePair("t", "a", "b"), CandidatePair("t", "c", "d"), CandidatePair("t", "b", "c")]
    assert judge.prefer(comparisons) == [2, 1, 0]
    assert [len(each.messages) for each in client.asked] == [1, 1, 1, 3, 3]
    assert [message.role for message in client.asked[3].messages] == ["user", "assistant", "user"]
    assert client.asked[3].messages[1].content == "Both are nice."


def test_what_the_model_sees() -> None:
    long, short = (
        LanguageModel(Scripted([]), PROBLEMS, explain).ask(CandidatePair("t", "b", "a")).messages[0].content
        for explain in (True, False)
    )
    for text in (long, short):
        places = [text.index(f"Statement of {name}") for name in "tba"]
        assert places == sorted(places)
        assert all(f"Solution of {name}" in text for name in "tba")
        assert "$\\boxed{1}$" in text.splitlines()[-1]
        assert "$\\boxed{2}$" in text.splitlines()[-1]
        assert "{%" not in text
    assert len(short) < len(long)


def test_a_dry_client_decides_nothing_and_counts_every_comparison(tmp_path: Path) -> None:
    client = Client(Endpoint("mine", "tiny", 1.0, 1.0, parameters={"max_tokens": 64}), "dry", cache=tmp_path)
    games = tournament("t", list("abcd"), LanguageModel(client, PROBLEMS), 3)
    assert [game.preferred for game in games.games] == [0] * 6
    assert client.spent.calls == 6


def test_a_problem_that_is_not_there() -> None:
    judge = LanguageModel(Scripted([]), PROBLEMS)
    with pytest.raises(HarnessError, match="judge: problem 'z' is not in the databank"):
        judge.prefer([CandidatePair("t", "a", "z")])


def test_embeddings_prefer_the_larger_cosine() -> None:
    values = {"t": [1.0, 0.0], "a": [10.0, 10.0], "b": [0.1, 0.0]}
    judge = Embedding({name: np.array(vector, np.float32) for name, vector in values.items()})
    assert judge.prefer([CandidatePair("t", *pair) for pair in ("ab", "ba", "bb")]) == [2, 1, 0]
    with pytest.raises(HarnessError, match="judge: problem 'z' has no vector"):
        judge.prefer([CandidatePair("t", "a", "z")])
    assert judged_text(PROBLEMS["a"]) == "Problem: Statement of a: $x_1$\n\nSolution: Solution of a"


# ---- people

ORDER = {"t": {"a": 4.0, "b": 3.0, "c": 2.0, "d": 1.0}}
OTHER = {"t": {"a": 4.0, "b": 3.0, "c": 1.0, "d": 2.0}}


def test_pairs_on_which_two_orders_differ() -> None:
    found = pairs_to_judge(ORDER, 1, 0, OTHER)
    assert {found[0].first, found[0].second} == {"c", "d"}
    with pytest.raises(HarnessError, match="comparison: 2 pairs requested, but there are only 1"):
        pairs_to_judge(ORDER, 2, 0, OTHER)
