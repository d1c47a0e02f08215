"""Who prefers one of two candidates for a target: a language model, the cosine of embeddings, or an oracle."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from harness.builders.saber.databank import Problem
from harness.builders.saber.draws import draw
from harness.collections.readers.saber import worded
from harness.errors import HarnessError
from harness.store import prompts
from harness.store.llm import Answer, Ask, Client, Message
from harness.store.llm.client import NOT_ASKED
from harness.store.llm.estimate import Taken, sizes

AGAIN = "saber-judge-again"
PROMPT = "saber-judge"
_DECISION = re.compile(r"\\boxed\{\s*([12])\s*\}")


@dataclass(frozen=True)
class Comparison:
    """A target and two candidates, by their ids, in the order in which the judge sees them."""

    target: str
    first: str
    second: str


class Judge(Protocol):
    """Prefers one of two candidates."""

    def prefer(self, comparisons: Sequence[Comparison]) -> Sequence[int]:
        """1 or 2 for each comparison; 0 if there is no decision."""
        ...


# ---- language model ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LanguageModel:
    """A language model that sees target and candidates with their solutions.

    An answer without a decision on its last line is asked for once more, with the answer before it; then it counts as
    none. Answers are kept by the client, so that what is stopped goes on without paying twice.

    Parameters
    ----------
    problems : all targets and candidates by id.
    explain : let it compare techniques and structure in writing first, as the paper's prompt does; else it is asked for
        the last line alone, which small models and small budgets need.
    """

    client: Client
    problems: Mapping[str, Problem]
    explain: bool = True

    def prefer(self, comparisons: Sequence[Comparison]) -> list[int]:
        """See `Judge`; a client that is dry decides nothing."""
        asks = [self.ask(each) for each in comparisons]
        answers = self.client.ask(asks)
        found = [decision(answer.text) for answer in answers]
        unclear = [n for n, answer in enumerate(answers) if not found[n] and answer.failed != NOT_ASKED]
        repairs = [_again(asks[n], answers[n]) for n in unclear]
        for n, answer in zip(unclear, self.client.ask(repairs) if repairs else (), strict=True):
            found[n] = decision(answer.text)
        return found

    def ask(self, comparison: Comparison) -> Ask:
        """What the model is asked."""
        target, first, second = (
            _known(self.problems, name) for name in (comparison.target, comparison.first, comparison.second)
        )
        return Ask(prompts.messages(PROMPT, target=target, first=first, second=second, explain=self.explain))


class KeptModel:
    """A language model of which only kept answers are taken, for plans: asks nobody, and notes what it meets.

    Later rounds pair by what was preferred in earlier ones, which it knows in part. That changes what is asked, but not
    how much: every candidate plays once a round.

    Attributes
    ----------
    seen : what each comparison took whose answers are kept.
    open : the sizes of the others (`harness.store.llm.estimate.sizes`).
    paid : of the others, what is paid already: answers without a decision, that will be asked for once more.
    """

    def __init__(self, model: LanguageModel) -> None:
        self._model = model
        self.seen: list[Taken] = []
        self.open: list[tuple[int, int]] = []
        self.paid: list[Answer] = []

    def prefer(self, comparisons: Sequence[Comparison]) -> list[int]:
        """See `Judge`; no decision where no answer is kept."""
        return [self._prefer(self._model.ask(each)) for each in comparisons]

    def _prefer(self, ask: Ask) -> int:
        size = sizes(ask.messages[0].content)
        (first,) = self._model.client.kept([ask])
        answers = [first]
        if first is not None and not decision(first.text):
            answers += self._model.client.kept([_again(ask, first)])
        found = [answer for answer in answers if answer is not None]
        if len(found) < len(answers):
            self.open.append(size)
            self.paid += found
            return 0
        self.seen.append(Taken(size, len(found), sum(a.tokens_in for a in found), sum(a.tokens_out for a in found)))
        return decision(found[-1].text)


def _again(ask: Ask, answer: Answer) -> Ask:
    """What is asked after an answer without a decision."""
    return Ask((*ask.messages, Message("assistant", answer.text), *prompts.messages(AGAIN)))


def decision(text: str) -> int:
    r"""The candidate that an answer prefers on its last line; 0 if that says none, or both.

    >>> decision("The first one.\n$\\boxed{1}$\n"), decision("$\\boxed{1}$ or $\\boxed{2}$?"), decision("1")
    (1, 0, 0)
    """
    last = next((line for line in reversed(text.splitlines()) if line.strip()), "")
    found = set(_DECISION.findall(last))
    return int(found.pop()) if len(found) == 1 else 0


def _known(problems: Mapping[str, Problem], name: str) -> Problem:
    if name not in problems:
        raise HarnessError(f"judge: problem {name!r} is not in the databank")
    return problems[name]


# ---- embeddings -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Embedding:
    """Prefers the candidate whose vector has the larger cosine with the target's; none where both are equal.

    Parameters
    ----------
    vectors : id -> vector, of one length, not zero.
    """

    vectors: Mapping[str, npt.NDArray[np.floating[Any]]]

    def prefer(self, comparisons: Sequence[Comparison]) -> list[int]:
        """See `Judge`."""
        out = []
        for each in comparisons:
            first, second = (self._cosine(each.target, name) for name in (each.first, each.second))
            out.append(0 if first == second else 1 if first > second else 2)
        return out

    def _cosine(self, a: str, b: str) -> float:
        for name in (a, b):
            if name not in self.vectors:
                raise HarnessError(f"judge: problem {name!r} has no vector")
        x, y = self.vectors[a].astype(np.float64), self.vectors[b].astype(np.float64)
        return float(x @ y / math.sqrt((x @ x) * (y @ y)))


def judged_text(problem: Problem) -> str:
    """What is embedded of a problem: statement and solution, as a judge sees both."""
    return worded(problem.statement, problem.solution)


# ---- oracle -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Oracle:
    """Knows the order, and errs: for experiments.

    It prefers a over b with probability 1 / (1 + exp(-(s_a - s_b) / noise)), as in the model of Bradley and Terry; the
    same answer comes whenever the same pair is asked for, so that Swiss and exhaustive tournaments see one judge.

    Parameters
    ----------
    strengths : target -> candidate -> its strength, high is better.
    noise : in units of strength; 0 makes no error, and gives no decision between equal strengths.
    bias : added to the log-odds of the one shown first.
    """

    strengths: Mapping[str, Mapping[str, float]]
    noise: float = 0.0
    bias: float = 0.0
    seed: int = 0

    def prefer(self, comparisons: Sequence[Comparison]) -> list[int]:
        """See `Judge`."""
        out = []
        for each in comparisons:
            known = self.strengths[each.target]
            ahead = float(known[each.first]) - float(known[each.second])
            if self.noise:
                # One draw for the pair, whichever is shown first: luck of the one with the smaller id.
                small = min(each.first, each.second)
                luck = draw(self.seed, "oracle", each.target, small, max(each.first, each.second))
                luck = min(max(luck, 1e-300), 1 - 1e-16)
                fate = math.log(luck / (1 - luck))
                ahead = ahead / self.noise + (fate if small == each.first else -fate)
            ahead += self.bias
            out.append(0 if ahead == 0 else 1 if ahead > 0 else 2)
        return out
