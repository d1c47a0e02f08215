"""Judges that prefer one of two candidates for a target: language model, cosine of embeddings, oracle."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import xxhash

from harness.errors import HarnessError
from harness.papers.saber.databank import MathProblem, problem_named
from harness.papers.saber.readers import worded
from harness.store import prompts
from harness.store.llm import Answer, Ask, Client, Message
from harness.store.llm.client import NOT_ASKED
from harness.store.llm.estimate import Taken, character_counts

AGAIN = "saber-judge-again"
PROMPT = "saber-judge"
_DECISION = re.compile(r"\\boxed\{\s*([12])\s*\}")


@dataclass(frozen=True)
class CandidatePair:
    """Ids of a target and two candidates, in the order in which the judge sees them."""

    target: str
    first: str
    second: str


class Judge(Protocol):
    """Interface of a judge."""

    def prefer(self, comparisons: Sequence[CandidatePair]) -> Sequence[int]:
        """Returns 1 or 2, the preferred candidate, for each comparison; 0 without a decision."""
        ...


# ---- language model ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LanguageModel:
    """Judge that shows a language model the target and both candidates with their solutions.

    If the last line of an answer has no decision, the model is asked once more, with its answer in the conversation;
    after that the comparison has no decision. The client caches answers, so interrupted work resumes without new cost.

    Parameters
    ----------
    problems : id -> problem, for all targets and candidates.
    explain : the model compares techniques and structure in writing first, as in the paper's prompt; otherwise it is
        asked for the last line only, for small models and small budgets.
    """

    client: Client
    problems: Mapping[str, MathProblem]
    explain: bool = True

    def prefer(self, comparisons: Sequence[CandidatePair]) -> list[int]:
        """See `Judge`; in a dry run no comparison has a decision."""
        asks = [self.ask(each) for each in comparisons]
        answers = self.client.ask(asks)
        chosen = [decision(answer.text) for answer in answers]
        unclear = [n for n, answer in enumerate(answers) if not chosen[n] and answer.failed != NOT_ASKED]
        repairs = [_repeated_ask(asks[n], answers[n]) for n in unclear]
        for n, answer in zip(unclear, self.client.ask(repairs) if repairs else (), strict=True):
            chosen[n] = decision(answer.text)
        return chosen

    def ask(self, comparison: CandidatePair) -> Ask:
        """Returns the request to the model for a comparison."""
        names = (comparison.target, comparison.first, comparison.second)
        target, first, second = (problem_named(self.problems, name, "judge: ") for name in names)
        return Ask(prompts.messages(PROMPT, target=target, first=first, second=second, explain=self.explain))


class KeptModel:
    """Judge for cost plans: uses cached answers of a language model only and records what a real run would ask.

    Later rounds depend on earlier preferences, which are only partly cached. This changes which pairs are compared, but
    hardly how many: nearly every candidate plays once a round.

    Attributes
    ----------
    seen : cost of each comparison whose answers are cached.
    open : sizes of the other comparisons (`harness.store.llm.estimate.character_counts`).
    paid : cached answers without a decision, after which the model would be asked once more.
    """

    def __init__(self, model: LanguageModel) -> None:
        self._model = model
        self.seen: list[Taken] = []
        self.open: list[tuple[int, int]] = []
        self.paid: list[Answer] = []

    def prefer(self, comparisons: Sequence[CandidatePair]) -> list[int]:
        """See `Judge`; a comparison without a cached answer has no decision."""
        return [self._prefer(self._model.ask(each)) for each in comparisons]

    def _prefer(self, ask: Ask) -> int:
        size = character_counts(ask.messages[0].content)
        (first,) = self._model.client.kept([ask])
        answers = [first]
        if first is not None and not decision(first.text):
            answers += self._model.client.kept([_repeated_ask(ask, first)])
        given = [answer for answer in answers if answer is not None]
        if len(given) < len(answers):
            self.open.append(size)
            self.paid += given
            return 0
        self.seen.append(Taken(size, len(given), sum(a.tokens_in for a in given), sum(a.tokens_out for a in given)))
        return decision(given[-1].text)


def _repeated_ask(ask: Ask, answer: Answer) -> Ask:
    """Returns the second request, after an answer without a decision."""
    return Ask((*ask.messages, Message("assistant", answer.text), *prompts.messages(AGAIN)))


def decision(text: str) -> int:
    r"""Reads the preferred candidate from the last line of an answer; 0 if the line names none or both.

    >>> decision("The first one.\n$\\boxed{1}$\n"), decision("$\\boxed{1}$ or $\\boxed{2}$?"), decision("1")
    (1, 0, 0)
    """
    last = next((line for line in reversed(text.splitlines()) if line.strip()), "")
    decisions = set(_DECISION.findall(last))
    return int(decisions.pop()) if len(decisions) == 1 else 0


# ---- embeddings -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Embedding:
    """Judge that prefers the candidate whose vector has the larger cosine with the target's; no decision if equal.

    Parameters
    ----------
    vectors : id -> vector; all vectors have the same dimension and none is zero.
    """

    vectors: Mapping[str, npt.NDArray[np.floating[Any]]]

    def prefer(self, comparisons: Sequence[CandidatePair]) -> list[int]:
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


def judged_text(problem: MathProblem) -> str:
    """Returns the text of a problem to embed: statement and solution."""
    return worded(problem.statement, problem.solution)


# ---- oracle -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Oracle:
    """Simulated judge with known strengths and random errors, for experiments.

    It prefers a over b with probability 1 / (1 + exp(-(s_a - s_b) / noise)) (Bradley-Terry model). The same pair always
    gets the same answer, so Swiss and exhaustive tournaments see one judge.

    Parameters
    ----------
    strengths : target -> candidate -> strength; higher is better.
    noise : in units of strength; with 0 there are no errors, and no decision between equal strengths.
    bias : added to the log-odds of the candidate shown first.
    """

    strengths: Mapping[str, Mapping[str, float]]
    noise: float = 0.0
    bias: float = 0.0
    seed: int = 0

    def prefer(self, comparisons: Sequence[CandidatePair]) -> list[int]:
        """See `Judge`."""
        out = []
        for each in comparisons:
            known = self.strengths[each.target]
            ahead = float(known[each.first]) - float(known[each.second])
            if self.noise:
                # One draw per pair, whichever candidate is shown first; it applies to the smaller id.
                small = min(each.first, each.second)
                luck = draw(self.seed, "oracle", each.target, small, max(each.first, each.second))
                luck = min(max(luck, 1e-300), 1 - 1e-16)
                fate = math.log(luck / (1 - luck))
                ahead = ahead / self.noise + (fate if small == each.first else -fate)
            ahead += self.bias
            out.append(0 if ahead == 0 else 1 if ahead > 0 else 2)
        return out


def draw(*names: object) -> float:
    """Returns a number in [0, 1), uniform over names and equal for equal names, whatever was drawn before.

    >>> draw(0, "p1") == draw(0, "p1"), draw(0, "p1") == draw(1, "p1")
    (True, False)
    """
    text = "\0".join(map(str, names)).encode("utf-8", "surrogatepass")
    return (xxhash.xxh3_64_intdigest(text) >> 11) / (1 << 53)


def normal_number(radius: float, angle: float) -> float:
    """Makes a number of a standard normal distribution from two uniform ones in [0, 1), by Box and Muller (1958)."""
    return math.sqrt(-2 * math.log(1 - radius)) * math.cos(2 * math.pi * angle)
