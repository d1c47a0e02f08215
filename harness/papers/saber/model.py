"""Annotation and rewriting by a language model: requests, checks of answers, cost estimates."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from harness.papers.saber.annotate import Annotation
from harness.papers.saber.databank import MathProblem, by_rule
from harness.papers.saber.dollars import without_dollars
from harness.papers.saber.ontology import ROOT, Ontology
from harness.papers.saber.steps import StepEstimate
from harness.store import prompts
from harness.store.llm import Answer, Ask, Client
from harness.store.llm.estimate import ENOUGH, Taken, character_counts, estimate_calls

IDEA, TAGS, DELIMITERS = "saber-idea", "saber-tags", "saber-delimiters"
MOST_WORDS = 30  # in a core idea
TOGETHER = 500  # problems whose requests are in memory at one time
IDEA_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "noCoreIdea": {"type": "boolean"},
        "coreIdea": {"type": ["string", "null"], "pattern": r"^\s*\S+(\s+\S+){0,29}\s*$"},
        "supportingIdeas": {"type": "array", "maxItems": 3, "items": {"type": "string", "minLength": 1}},
    },
    "required": ["noCoreIdea", "coreIdea", "supportingIdeas"],
    "additionalProperties": False,
}
Asking = Callable[[Sequence[Ask]], Sequence[Answer | None]]


def idea_ask(problem: MathProblem) -> Ask:
    """Returns the request for the core idea of a problem."""
    return Ask(prompts.messages(IDEA, problem=problem), IDEA_SCHEMA)


def tags_ask(problem: MathProblem, ontology: Ontology, node: str) -> Ask:
    """Returns the request to rate the relevance of a node's child topics, and of the node, to a problem."""
    titles = [ontology.title(child) for child in ontology.children[node]]
    parent = ontology.title(node)
    listed = [*titles, parent] if parent and parent not in titles else titles
    asked = prompts.messages(TAGS, problem=problem, topics=listed, parent=parent)
    number = {"type": "number", "minimum": 0, "maximum": 1}
    properties = dict.fromkeys(listed, number)
    schema = {"type": "object", "properties": properties, "required": titles, "additionalProperties": False}
    return Ask(asked, schema)


class Walk:
    """Descent of one problem through the ontology, level by level, below the topics that are relevant enough."""

    def __init__(self, problem: MathProblem, ontology: Ontology, threshold: float) -> None:
        self.problem, self._ontology, self._threshold = problem, ontology, threshold
        self.tags: dict[str, float] = {}
        self._nodes = [ROOT]

    def asks(self) -> list[Ask]:
        """Returns the requests of this level; empty at the end of the walk."""
        return [tags_ask(self.problem, self._ontology, node) for node in self._nodes]

    def go_on(self, answers: Sequence[Mapping[str, float] | None]) -> None:
        """Descends one level, given child title -> relevance for each node; None for a bad answer."""
        nodes, self._nodes = self._nodes, []
        for node, answer in zip(nodes, answers, strict=True):
            for child in self._ontology.children[node]:
                relevance = float((answer or {}).get(self._ontology.title(child), 0.0))
                if relevance >= self._threshold:
                    self.tags[child] = relevance
                    if self._ontology.children[child]:
                        self._nodes.append(child)


def scaled(tags: Mapping[str, float]) -> dict[str, float]:
    """Rescales relevance to [0, 1]: the most relevant tag gets 1.0, the least 0.0; equal tags all get 1.0.

    >>> scaled({"Algebra": 0.5, "Geometry": 0.25, "Topology": 0.0})
    {'Algebra': 1.0, 'Geometry': 0.5, 'Topology': 0.0}
    """
    low, high = min(tags.values(), default=0.0), max(tags.values(), default=0.0)
    return {tag: (value - low) / (high - low) if high > low else 1.0 for tag, value in sorted(tags.items())}


def annotated(
    problems: Sequence[MathProblem], ontology: Ontology, client: Client, threshold: float
) -> Iterator[tuple[str, Annotation, Counter[str]]]:
    """Yields each problem's id, annotation and counts of bad answers; raises what `Client.ask` raises.

    An answer that is still bad after the client's repairs is counted and gives no idea or no topic.
    """
    for start in range(0, len(problems), TOGETHER):
        part = problems[start : start + TOGETHER]
        ideas = client.ask([idea_ask(problem) for problem in part])
        walks = [Walk(problem, ontology, threshold) for problem in part]
        bad = [Counter({"bad answers on ideas": int(bool(answer.failed))}) for answer in ideas]
        while levels := [(i, ask) for i, walk in enumerate(walks) for ask in walk.asks()]:
            answers = client.ask([ask for _, ask in levels])
            for i, walk in enumerate(walks):
                mine = [answer for (j, _), answer in zip(levels, answers, strict=True) if j == i]
                walk.go_on([answer.value for answer in mine])
                bad[i]["bad answers on topics"] += sum(bool(answer.failed) for answer in mine)
        for problem, idea, walk, counts in zip(part, ideas, walks, bad, strict=True):
            yield problem.id, _as_annotation(idea.value, walk.tags), counts


def _as_annotation(idea: Mapping[str, Any] | None, tags: Mapping[str, float]) -> Annotation:
    said = idea or {"noCoreIdea": True, "supportingIdeas": []}
    core = None if said["noCoreIdea"] or not said["coreIdea"] else str(said["coreIdea"]).strip()
    return Annotation(core, tuple(said["supportingIdeas"]), scaled(tags))


def plan(problems: Sequence[MathProblem], ontology: Ontology, client: Client, threshold: float) -> StepEstimate:
    """Estimates the cost of `annotated` from the problems whose answers are all cached.

    Later requests depend on earlier answers and cannot be counted in advance. The cost of a problem is estimated from
    its size and from finished problems; `harness build saber --pilot N` finishes a random sample.
    """
    endpoint = client.endpoint
    seen: list[Taken] = []
    open_: list[tuple[int, int]] = []
    paid = np.zeros(3)  # calls and tokens of unfinished problems
    for problem in problems:
        size = character_counts(f"{problem.statement}\n{problem.solution}")
        (idea,) = client.kept([idea_ask(problem)])
        walk = Walk(problem, ontology, threshold)
        answers: list[Answer | None] = [idea]
        while asks := walk.asks():
            kept = client.kept(asks)
            answers += kept
            if any(answer is None for answer in kept):
                break
            walk.go_on([answer.value if answer else None for answer in kept])
        taken = [answer for answer in answers if answer]
        total = Taken(size, len(taken), sum(a.tokens_in for a in taken), sum(a.tokens_out for a in taken))
        if len(taken) == len(answers):
            seen.append(total)
        else:
            open_.append(size)
            paid += np.array([total.calls, total.tokens_in, total.tokens_out])
    counts = {"problems": len(problems), "problems with cached answers": len(seen)}
    if not open_:
        return StepEstimate(counts, basis="the cache")
    if len(seen) < ENOUGH:
        # The two requests that every problem needs.
        certain = [
            character_counts(message.content)
            for problem in problems[:ENOUGH]
            for ask in (idea_ask(problem), tags_ask(problem, ontology, ROOT))
            for message in ask.messages
        ]
        some = estimate_calls(endpoint, certain, [], "")
        share = len(open_) / min(len(problems), ENOUGH)
        basis = f"a lower bound; run a pilot of {ENOUGH} problems or more (--pilot) to measure their topics"
        calls, tokens_in, tokens_out, cost = (
            share * each for each in (some.calls, some.tokens_in, some.tokens_out, some.cost)
        )
        return StepEstimate(counts, calls, tokens_in, tokens_out, cost, math.inf, basis)
    made = estimate_calls(endpoint, open_, seen, f"{len(seen)} finished problems")
    # Part of the unfinished problems is paid for already.
    left = (np.array([made.calls, made.tokens_in, made.tokens_out]) - paid).tolist()
    calls, tokens_in, tokens_out, cost = (max(each, 0.0) for each in (*left, endpoint.cost(*left[1:])))
    return StepEstimate(counts, calls, tokens_in, tokens_out, cost, made.within, made.basis)


# ---- dollar signs -----------------------------------------------------------------------------------------------


def rewriter(client: Client) -> Callable[[Sequence[MathProblem]], tuple[list[MathProblem], Counter[str]]]:
    """Returns a function that asks a language model to put dollar signs around mathematics.

    An answer that is not one `\\boxed{...}`, or that changes anything else, is rejected and counted; the text is then
    rewritten by rule (`harness.papers.saber.dollars`).
    """

    def rewrite(problems: Sequence[MathProblem]) -> tuple[list[MathProblem], Counter[str]]:
        ruled, _ = by_rule(problems)
        counts: Counter[str] = Counter()
        out: list[MathProblem] = []
        for start in range(0, len(problems), TOGETHER):
            part = list(zip(problems[start : start + TOGETHER], ruled[start : start + TOGETHER], strict=True))
            asks = [dollars_ask(text) for problem, _ in part for text in (problem.statement, problem.solution)]
            answers = iter(client.ask(asks))
            for problem, rule in part:
                texts = []
                for before, fallback in ((problem.statement, rule.statement), (problem.solution, rule.solution)):
                    after = boxed(next(answers).text)
                    good = after is not None and without_dollars(after) == without_dollars(before)
                    counts["texts rewritten by the model" if good else "bad answers, rewritten by rule"] += 1
                    texts.append(after if good and after is not None else fallback)
                out.append(replace(problem, statement=texts[0], solution=texts[1]))
        return out, counts

    return rewrite


def dollars_ask(text: str) -> Ask:
    """Returns the request to put dollar signs around the mathematics of a text."""
    return Ask(prompts.messages(DELIMITERS, text=text))


def boxed(answer: str) -> str | None:
    r"""Returns the content of an answer that is a single `\boxed{...}`; None for any other answer.

    >>> boxed("\\boxed{Take $x_{1}$.}"), boxed("Sure: \\boxed{x}"), boxed("\\boxed{a} \\boxed{b}")
    ('Take $x_{1}$.', None, None)
    """
    text = answer.strip()
    if not text.startswith(r"\boxed{") or not text.endswith("}"):
        return None
    inner = text[len(r"\boxed{") : -1]
    depth = 0
    for sign in re.findall(r"\\.|[{}]", inner, re.DOTALL):
        depth += (sign == "{") - (sign == "}")
        if depth < 0:
            return None
    return inner.strip() if depth == 0 else None
