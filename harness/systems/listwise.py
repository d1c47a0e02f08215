"""List-wise re-ranking by a language model, with a sliding window as in RankGPT (Sun et al. 2023).

The model orders the documents of one window at a time, from the last ranks to the first. A window starts `step` ranks
above the one before, so that a good document can move through all of them. Unlike in the authors' code, the last window
always starts at the first rank.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from harness.collections.corpus import Document
from harness.data.trec import Run
from harness.errors import DryRunError, HarnessError
from harness.io import checks
from harness.io.console import log_line
from harness.sources import catalogue
from harness.store import prompts
from harness.store.cost import note, phase
from harness.store.llm import Ask, Client, Endpoint, load_endpoint
from harness.store.llm.answer_cache import answers_digest
from harness.systems.base import Request
from harness.systems.dense import documents, heads, texts

PROMPT = "listwise"
_IN_BRACKETS = re.compile(r"\[(\d+)\]")
_NUMBER = re.compile(r"\d+")


class Order(NamedTuple):
    """A permutation read from an answer, and what was repaired.

    Attributes
    ----------
    places : the places 0 to n - 1 in their new order.
    unknown, duplicates, missing : identifiers in the answer that no document has, or that it repeats, which are
        dropped; and those that it lacks, which are appended in their old order.
    """

    places: tuple[int, ...]
    unknown: int = 0
    duplicates: int = 0
    missing: int = 0


def permutation(answer: str, count: int) -> Order:
    """Reads a permutation of the identifiers 1 to `count` from an answer, and repairs it.

    Numbers in brackets are identifiers; if there are none, all numbers are.

    Examples
    --------
    >>> permutation("[2] > [3] > [1]", 3)
    Order(places=(1, 2, 0), unknown=0, duplicates=0, missing=0)
    >>> permutation("The 3 best: [3] > [3] > [7]", 3)
    Order(places=(2, 0, 1), unknown=1, duplicates=1, missing=2)
    """
    named = [int(number[:9]) for number in _IN_BRACKETS.findall(answer) or _NUMBER.findall(answer)]
    known = [number - 1 for number in named if 1 <= number <= count]
    first = list(dict.fromkeys(known))
    lacking = [place for place in range(count) if place not in set(first)]
    return Order((*first, *lacking), len(named) - len(known), len(known) - len(first), len(lacking))


def windows(count: int, window: int, step: int) -> list[tuple[int, int]]:
    """Returns the windows (begin, end) of so many documents, from the last ranks to the first.

    Examples
    --------
    >>> windows(25, 10, 5)
    [(15, 25), (10, 20), (5, 15), (0, 10)]
    >>> windows(23, 10, 5)
    [(13, 23), (8, 18), (3, 13), (0, 10)]
    >>> windows(3, 10, 5)
    [(0, 3)]
    """
    bounds = []
    begin = max(count - window, 0)
    while begin > 0:
        bounds.append((begin, begin + window))
        begin -= step
    return [*bounds, (0, min(window, count))] if count else []


@dataclass(frozen=True)
class Listwise(heads.TopicTexts, heads.OverFirst):
    """Re-ranks the top documents of a first ranking by a language model that orders windows of them.

    The whole ranking is returned: documents below the re-ranked ones keep their order, and so do topics without text.
    If the model's answer is no permutation, it is repaired as by `permutation`; if a call fails, its window keeps its
    order. All of this is counted in the metadata of the run. Answers are cached, so that a run can be repeated without
    calls.

    Parameters
    ----------
    name : name of the run.
    first : ranking to re-rank: the name of a system, the configuration of one, or a run file.
    llm : endpoint of the model, a name in `conf/llm/`.
    k : documents re-ranked for each topic.
    window, step : documents of a window, and ranks from one window to the next.
    query, document : fields of a topic and of a document, joined: see `harness.systems.dense.texts`.
    view : `latex`, `text` or `mathberta`.
    characters : maximum characters of a document in a prompt; the rest is cut, and cut documents are counted.
    mode : `replay` uses cached answers only; `live` requests missing ones, which costs money; `dry` only estimates the
        cost, as if no window changed the order.
    budget : maximum cost, in the unit of the endpoint's prices.
    cache : folder of cached answers, as `{file: FOLDER}` or `{embedded: FOLDER}`; None for the user's cache.

    Raises
    ------
    HarnessError
        A key has an invalid value, or the endpoint or the first system does not exist.

    Examples
    --------
    >>> Listwise("rankgpt", "bm25", "openai-gpt-4", step=30)
    Traceback (most recent call last):
    harness.errors.HarnessError: key 'step' is 30, expected at most the window, 20: documents between would be skipped
    """

    name: str
    first: str | Mapping[str, Any]
    llm: checks.Words
    k: checks.Positive = 100
    window: Annotated[int, partial(checks.check_whole_number, low=2)] = 20
    step: checks.Positive = 10
    query: texts.TopicFields = ("title", "body")
    document: texts.Fields = ("body",)
    view: texts.ViewName = "latex"
    characters: checks.Positive = 1500
    mode: Literal["live", "replay", "dry"] = "replay"
    budget: checks.Number | None = None
    cache: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.step > self.window:
            raise HarnessError(
                f"key 'step' is {self.step}, expected at most the window, {self.window}: documents between would be "
                "skipped"
            )
        self._endpoint, self._answer_folder  # noqa: B018  (validates them at once)

    def _reads(self) -> dict[str, Any]:
        """Returns what a run depends on besides the configuration: the language model and its prompt."""
        one = self._endpoint
        model = {"model": one.model, "parameters": dict(one.parameters), "prompt": prompts.digest(PROMPT)}
        kept = {} if self._answer_folder is None else {"answers": answers_digest(self._answer_folder)}
        return {**model, **kept}

    def _notes(self) -> tuple[str, ...]:
        """Returns sentences for a run's metadata."""
        return (f"The first {self.k} documents are ordered by {self._endpoint.model}, by a prompt of this harness.",)

    def __call__(self, request: Request) -> Run:
        """Re-ranks the first ranking.

        Raises
        ------
        HarnessError
            There is no corpus, or it holds none of the documents; no topic has a text; in replay, answers are missing;
            the client fails. A dry run always ends with an error that reports the estimates.
        """
        request.corpus_for(self.name)  # before the first ranking is made
        run, text = self.read(request, self.k, self._document_text)
        worded = self._worded(request.topics)
        cut = sum(len(each) > self.characters for each in text.values())
        heads.note_cut(self.name, "documents", cut, len(text), {"characters": self.characters})
        rows = heads.ranked(run)
        query = {topic.id: topic_text for topic, topic_text in worded if topic.id in rows}
        order = {topic: run.doc[rows[topic][: self.k]].tolist() for topic in query}
        with phase("language model"):
            self._ordered(order, query, text)
        places = {topic: {doc: float(len(docs) - at) for at, doc in enumerate(docs)} for topic, docs in order.items()}
        with phase("search"):
            return heads.rescored(self.name, run, request.topics.topics, order, self.k, lambda topic, _: places[topic])

    # ---- windows ------------------------------------------------------------------------------------------------

    def _ordered(self, order: dict[str, list[bytes]], query: Mapping[str, str], text: Mapping[bytes, str]) -> None:
        """Orders the documents of all topics in place, window by window; topics are asked at the same time."""
        fill = "the same command with system.mode=live asks for them"
        client = Client(self._endpoint, self.mode, self.budget, self._answer_folder, fill)
        ahead = {topic: windows(len(docs), self.window, self.step) for topic, docs in order.items()}
        ahead = {topic: [one for one in left if one[1] - one[0] > 1] for topic, left in ahead.items()}
        if self.mode == "dry":
            client.ask([self._request(query[name], order[name][a:b], text) for name in ahead for a, b in ahead[name]])
            cost = client.estimates.get("chat")
            raise DryRunError(f"system {self.name}: dry run, nothing is ranked: {cost}; run it with system.mode=live")
        counts = dict.fromkeys(("windows", "failed", "repaired", *Order._fields[1:]), 0)
        while some := {topic: left.pop(0) for topic, left in ahead.items() if left}:
            asks = [self._request(query[topic], order[topic][a:b], text) for topic, (a, b) in some.items()]
            for (topic, (a, b)), answer in zip(some.items(), client.ask(asks), strict=True):
                counts["windows"] += 1
                if answer.failed:
                    counts["failed"] += 1
                    continue
                reply = permutation(answer.text, b - a)
                order[topic][a:b] = [order[topic][a + place] for place in reply.places]
                counts["repaired"] += any(reply[1:])
                for name in Order._fields[1:]:
                    counts[name] += getattr(reply, name)
        spent = client.spent
        used = {"model": client.endpoint.model, "mode": self.mode, "calls": spent.calls, "tokens": spent.tokens}
        note(f"{self.name}: permutations", {**counts, **used, "cost": spent.cost})
        if counts["failed"] or counts["repaired"]:
            log_line(
                f"{self.name}: of {counts['windows']:,} answers, {counts['failed']:,} failed and "
                f"{counts['repaired']:,} were no permutation and are repaired"
            )

    def _request(self, query: str, docs: Sequence[bytes], text: Mapping[bytes, str]) -> Ask:
        # Lines of a document are joined: a line break could look like the end of a passage.
        passages = [" ".join(text[doc][: self.characters].split()) for doc in docs]
        return Ask(prompts.messages(PROMPT, query=query, passages=passages))

    def _document_text(self, document: Document) -> str:
        return documents.text_of(document, self.document, self.view)

    @cached_property
    def _endpoint(self) -> Endpoint:
        return load_endpoint(self.llm)

    @cached_property
    def _answer_folder(self) -> Path | None:
        if self.cache is None:
            return None
        folder = catalogue.resource(self.cache, "key 'cache'")
        if not isinstance(folder, Path):
            raise HarnessError(f"key 'cache' is {self.cache!r}, expected {{file: FOLDER}} or {{embedded: FOLDER}}")
        return folder
