"""Client of language models: answers requests from the cache, or by rate-limited calls that are then cached."""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor, as_completed
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from threading import Event, Lock
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeVar

from harness.errors import HarnessError
from harness.io.checks import check_number, choice
from harness.io.console import log_line, progress
from harness.io.files import cache_root
from harness.store import artefacts
from harness.store.llm.answer_cache import AnswerCache, Reply
from harness.store.llm.endpoint import Answer, Ask, Endpoint, Message, Spent, request, text_request
from harness.store.llm.estimate import ENOUGH, CallEstimate, Taken, character_counts, estimate_calls
from harness.store.llm.limits import PATIENCE, Budget, Pace, pause, record_cost
from harness.store.llm.wire import BrokenError, RefusedError, Wire, fault, validator, worded

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Mode = Literal["live", "replay", "dry"]
NOT_ASKED = "dry run: not asked"
_IN_A_ROW = 3  # number of consecutive requests without an answer after which the client stops
_MOST_SEEN = 2000  # maximum number of cached answers to other requests used in an estimate
_HALF = re.compile("[\ud800-\udfff]")  # a lone surrogate, which UTF-8 cannot encode
T = TypeVar("T")
_Replied = Callable[[Mapping[str, Any]], tuple[Reply, bool]]


class _AbsentError(Exception):
    """A reply is not in the cache."""


class _NoAnswerError(Exception):
    """A call failed in all attempts."""


class _NoBudgetError(Exception):
    """The next call might exceed the budget."""


class _CallStoppedError(Exception):
    """Another call failed permanently."""


def _wait(stop: Event, seconds: float) -> None:
    if stop.wait(seconds):
        raise _CallStoppedError


class Client:
    """Client of a language model with a cache of answers.

    Parameters
    ----------
    endpoint : the model, its server and prices.
    mode : `live` calls the model for answers that are not cached; `replay` uses only the cache; `dry` makes no calls,
        and estimates the cost of `live`.
    budget : maximum cost, in the unit of the endpoint's prices; None for no limit. A call is made only if its maximum
        cost fits the budget, so `parameters` must bound the length of answers (`max_tokens`).
    cache : folder of cached answers; None for `llm/` in the cache folder. It may be copied and published.
    fill : the command that adds missing answers, for messages in mode `replay`.

    Attributes
    ----------
    estimates : in a dry run, kind of calls (`chat`, `embedding`) -> estimate for all requests so far.

    Raises
    ------
    HarnessError
        There is a budget, but the length of answers is not bounded.

    Examples
    --------
    >>> endpoint = Endpoint("mine", "tiny", 0.0, 0.0, url="http://127.0.0.1:8080/v1")
    >>> Client(endpoint, "dry").ask([Ask((Message("user", "Is 7 prime?"),))])[0].failed
    'dry run: not asked'
    """

    def __init__(
        self,
        endpoint: Endpoint,
        mode: Mode = "live",
        budget: float | None = None,
        cache: Path | None = None,
        fill: str = "the same command with mode live",
    ) -> None:
        choice("mode", mode, ("live", "replay", "dry"))
        if budget is not None:
            check_number("budget", budget)
            if endpoint.price_out and endpoint.longest is None:
                raise HarnessError(
                    f"endpoint {endpoint.name}: a budget needs 'max_tokens' in its parameters, "
                    "otherwise the cost of a call has no limit"
                )
        self.endpoint, self.mode, self.estimates = endpoint, mode, dict[str, CallEstimate]()
        self._kept = AnswerCache(cache or cache_root() / "llm")
        self._budget, self._fill = Budget(budget), fill
        self._pace = Pace(endpoint.requests_per_minute, endpoint.tokens_per_minute)
        self._spent, self._lock = Spent(), Lock()
        self._dry: dict[str, tuple[dict[str, tuple[int, int]], dict[str, Taken]]] = {}  # per kind: sizes, usage

    @property
    def spent(self) -> Spent:
        """Calls, tokens and cost since the client was made."""
        with self._lock:
            return self._spent

    def ask(self, asks: Sequence[Ask]) -> tuple[Answer, ...]:
        """Returns the answers in the order of the requests; equal requests are sent once.

        Raises
        ------
        HarnessError
            In replay: answers are missing. Live: the key is refused, the server has another model, all attempts fail,
            or the budget is exhausted; calls in progress are finished and cached, so the same requests can be resumed.
            A cached answer was altered, or a schema is invalid.
        """
        unique = {artefacts.key(self._request(ask)): ask for ask in asks}
        for ask in unique.values():
            if ask.schema is not None:
                validator(ask.schema)
        known = {key: found for key, ask in unique.items() if (found := self._known(ask)) is not None}
        missing = {key: ask for key, ask in unique.items() if key not in known}
        answers = {key: answer for key, (answer, _) in known.items()}
        if missing and self.mode == "replay":
            self._absent(len(missing), len(unique))
        if self.mode == "dry":
            seen = {key: self._taken(unique[key], answer, calls) for key, (answer, calls) in known.items()}
            wanted = {key: character_counts(_text_of(self._request(ask))) for key, ask in missing.items()}
            answers |= dict.fromkeys(missing, Answer("", failed=NOT_ASKED))
            self._count(wanted, seen, "chat")
        elif missing:
            with closing(Wire(self.endpoint)) as wire:
                jobs = {key: partial(self._asked, ask, wire) for key, ask in missing.items()}
                answers |= self._all(jobs, len(unique))
        with self._lock:
            failed = sum(bool(answer.failed) and answer.failed != NOT_ASKED for answer in answers.values())
            self._spent = replace(self._spent, failed=self._spent.failed + failed)
        return tuple(answers[artefacts.key(self._request(ask))] for ask in asks)

    def kept(self, asks: Sequence[Ask]) -> tuple[Answer | None, ...]:
        """Returns cached answers, None where missing; makes no calls in any mode.

        For workflows in which requests depend on earlier answers. Raises `HarnessError` if a cached answer was altered.
        """
        return tuple(found and found[0] for found in map(self._known, asks))

    def _known(self, ask: Ask) -> tuple[Answer, int] | None:
        """Returns the cached answer to a request and the number of its calls; None if a reply is not in the cache."""
        try:
            return self._follow(ask, self._found)
        except _AbsentError:
            return None

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Returns the model's embeddings of texts, shape (texts, dimensions); in a dry run, shape (texts, 0).

        Raises the errors of `ask`, and HarnessError for a text that is empty or not encodable in UTF-8.
        """
        import numpy as np

        for i, text in enumerate(texts):
            if not text or _HALF.search(text):
                wrong = "holds half a character" if text else "is empty"
                raise HarnessError(f"endpoint {self.endpoint.name}: text {i + 1} of {len(texts)} {wrong}")
        unique = dict.fromkeys(texts)
        known = {text: reply for text in unique if (reply := self._kept.find(text_request(self.endpoint, text)))}
        missing = [text for text in unique if text not in known]
        if missing and self.mode == "replay":
            self._absent(len(missing), len(unique))
        if self.mode == "dry":
            took = {text: Taken(character_counts(text), 1, reply.tokens_in, 0) for text, reply in known.items()}
            self._count({text: character_counts(text) for text in missing}, took, "embedding")
            return np.empty((len(texts), 0), np.float32)
        if missing:
            size = self.endpoint.batch
            parts = [missing[i : i + size] for i in range(0, len(missing), size)]
            with closing(Wire(self.endpoint)) as wire:
                jobs = {str(i): partial(self._embedded, part, wire) for i, part in enumerate(parts)}
                for replies in self._all(jobs, len(parts)).values():
                    known |= replies
        if not texts:
            return np.empty((0, 0), np.float32)
        rows = {text: np.frombuffer(base64.b64decode(reply.vector), "<f4") for text, reply in known.items()}
        if len({row.shape for row in rows.values()}) > 1:
            raise HarnessError(f"endpoint {self.endpoint.name}: vectors of several lengths; is it one model?")
        return np.stack([rows[text] for text in texts]).astype(np.float32)

    # ---- requests and repairs -----------------------------------------------------------------------------------

    def _request(self, ask: Ask) -> dict[str, Any]:
        return request(self.endpoint, worded(ask, self.endpoint.schemas), ask.schema)

    def _follow(self, ask: Ask, replied: _Replied) -> tuple[Answer, int]:
        """Returns the answer to a request and the number of calls; each repair is a separate, cached call."""
        messages = worded(ask, self.endpoint.schemas)
        tokens_in = tokens_out = 0
        cached = True
        for calls in count(1):
            reply, kept = replied(request(self.endpoint, messages, ask.schema))
            cached &= kept
            tokens_in, tokens_out = tokens_in + reply.tokens_in, tokens_out + reply.tokens_out
            value, wrong, again = fault(reply, ask.schema)
            if not (wrong and again and calls <= self.endpoint.repairs):
                break
            repair = f"This answer cannot be used: {wrong}. Give the whole answer again, with that put right."
            messages = (*messages, Message("assistant", reply.text), Message("user", repair))
        cost = self.endpoint.cost(tokens_in, tokens_out)
        return Answer(reply.text, value, tokens_in, tokens_out, cost, cached, wrong), calls

    def _found(self, wanted: Mapping[str, Any]) -> tuple[Reply, bool]:
        reply = self._kept.find(wanted)
        if reply is None:
            raise _AbsentError
        return reply, True

    def _asked(self, ask: Ask, wire: Wire, stop: Event) -> Answer:
        return self._follow(ask, partial(self._paid, wire, stop))[0]

    def _paid(self, wire: Wire, stop: Event, wanted: Mapping[str, Any]) -> tuple[Reply, bool]:
        """Returns the reply to a request and whether it was cached; makes and caches the call otherwise."""
        with self._kept.locked(wanted, partial(_wait, stop)):
            if cached := self._kept.find(wanted):  # another process may have asked meanwhile
                return cached, True
            # Upper bound: a text has at most as many tokens as bytes; chat templates add a few per message.
            size = sum(len(message["content"].encode()) + 16 for message in wanted["messages"]) + 64
            size += len(json.dumps(wanted.get("schema"))) if "schema" in wanted else 0
            (reply,) = self._call(lambda: [wire.chat(wanted)], artefacts.key(wanted), size, stop)
            self._kept.keep(wanted, reply)
        return reply, False

    def _embedded(self, texts: Sequence[str], wire: Wire, stop: Event) -> dict[str, Reply]:
        """Returns the replies for texts that are embedded in one request."""
        wanted = {text: text_request(self.endpoint, text) for text in texts}
        with ExitStack() as locks:
            for each in sorted(wanted.values(), key=artefacts.key):  # in a fixed order, to avoid deadlocks
                locks.enter_context(self._kept.locked(each, partial(_wait, stop)))
            replies = {text: reply for text, each in wanted.items() if (reply := self._kept.find(each))}
            left = [text for text in texts if text not in replies]
            if left:
                asked = [wanted[text] for text in left]
                size = sum(len(text.encode()) + 16 for text in left)
                received = self._call(lambda: wire.vectors(asked), artefacts.key(asked[0]), size, stop)
                for text, reply in zip(left, received, strict=True):
                    self._kept.keep(wanted[text], reply)
                    replies[text] = reply
        return replies

    # ---- calls --------------------------------------------------------------------------------------------------

    def _call(self, call: Callable[[], list[Reply]], key: str, size: int, stop: Event) -> list[Reply]:
        """Makes a rate-limited call with retries; `size` is the maximum number of input tokens."""
        longest = self.endpoint.longest or 0
        most = self.endpoint.cost(size, longest)
        for attempt in count(1):
            if not self._budget.reserve(most):
                raise _NoBudgetError
            cost = most  # by default, assume that a call may be charged
            try:
                ticket = self._turn(size / 4 + longest, stop)
                replies = call()
                tokens_in, tokens_out = sum(r.tokens_in for r in replies), sum(r.tokens_out for r in replies)
                cost = self.endpoint.cost(tokens_in, tokens_out)
                self._pace.took(ticket, tokens_in + tokens_out)
                self._add(Spent(int(replies[0].finish != "refused"), tokens_in, tokens_out, cost))
                return replies
            except (_CallStoppedError, RefusedError):
                cost = 0.0
                raise
            except BrokenError as error:
                cost = most if error.charged else 0.0
                self._add(Spent(lost=int(error.charged)))
                reason, after = str(error), error.after
            finally:
                self._budget.settle(most, cost)
                record_cost(cost)
            if after and after > PATIENCE:
                raise HarnessError(f"endpoint {self.endpoint.name}: asks to wait {after:,.0f} s ({reason})")
            if attempt > self.endpoint.retries:
                raise _NoAnswerError(reason)
            if after:
                self._pace.rest(after)
            _wait(stop, pause(attempt, key, after))
        raise AssertionError

    def _turn(self, tokens: float, stop: Event) -> list[float]:
        """Waits until the rate limits allow a call of some tokens."""
        while True:
            wait, ticket = self._pace.take(tokens)
            _wait(stop, wait)
            if ticket is not None:
                return ticket

    def _add(self, more: Spent) -> None:
        with self._lock:
            before = self._spent
            self._spent = Spent(*(getattr(before, name) + getattr(more, name) for name in Spent.__dataclass_fields__))

    def _all(self, jobs: Mapping[str, Callable[[Event], T]], asked: int) -> dict[str, T]:
        """Runs all jobs concurrently; after a fatal fault, jobs in progress are still finished."""
        stop, done, name = Event(), dict[str, T](), self.endpoint.name
        broken: list[str] = []
        in_a_row = 0
        fatal: HarnessError | None = None
        out_of_budget = False
        with ThreadPoolExecutor(self.endpoint.concurrency) as pool, progress(f"asking {name}", len(jobs)) as shown:
            futures = {pool.submit(job, stop): key for key, job in jobs.items()}

            def end() -> None:
                stop.set()
                for future in futures:
                    future.cancel()

            try:
                for future in as_completed(futures):
                    try:
                        done[futures[future]] = future.result()
                        in_a_row = 0
                        shown.add()
                    except _NoAnswerError as error:
                        broken.append(str(error))
                        in_a_row += 1
                        if in_a_row >= _IN_A_ROW:
                            end()
                    except _NoBudgetError:
                        out_of_budget = True
                        end()
                    except (_CallStoppedError, CancelledError):
                        pass
                    except HarnessError as error:
                        fatal = fatal or error
                        end()
            finally:
                end()
        if len(done) == len(jobs):
            return done
        kept = f"{asked - len(jobs) + len(done)} of {asked} are answered and kept"
        if fatal:
            raise HarnessError(f"{fatal.lines[0]}; {kept}")
        if out_of_budget:
            spent, limit = self._budget.spent, self._budget.limit
            raise HarnessError(f"endpoint {name}: the budget of {limit:g} is at its end ({spent:.4g} spent); {kept}")
        tries = self.endpoint.retries + 1
        raise HarnessError(
            f"endpoint {name}: no answer after {tries} attempts ({broken[0]}); "
            f"{kept}, and the same command resumes there"
        )

    # ---- missing answers and dry runs ---------------------------------------------------------------------------

    def _absent(self, missing: int, asked: int) -> NoReturn:
        raise HarnessError(
            f"endpoint {self.endpoint.name}: {missing} of {asked} answers are not in {self._kept.folder}: {self._fill}"
        )

    def _taken(self, ask: Ask, answer: Answer, calls: int) -> Taken:
        return Taken(character_counts(_text_of(self._request(ask))), calls, answer.tokens_in, answer.tokens_out)

    def _count(self, wanted: Mapping[str, tuple[int, int]], seen: Mapping[str, Taken], kind: str) -> None:
        """Adds requests of a dry run to the estimate and reports it."""
        asked, known = self._dry.setdefault(kind, ({}, {}))
        asked |= wanted
        known |= seen
        like = list(known.values())
        basis = f"{len(like)} of these asks, which are kept"
        if rough := bool(asked) and len(like) < ENOUGH:
            others = self._kept.of_model(self.endpoint.model, kind, _MOST_SEEN)
            like = [
                Taken(character_counts(_text_of(each)), 1, reply.tokens_in, reply.tokens_out) for each, reply in others
            ]
            basis = f"{len(like)} kept answers of this model to other asks"
        made = estimate_calls(self.endpoint, list(asked.values()), like, basis)
        if rough:  # other requests are not a sample of these, so their spread does not measure the error
            made = replace(made, within=math.inf)
        if kind == "embedding":  # embedding calls have no output tokens, and several texts each
            cost, calls = self.endpoint.cost(made.tokens_in, 0), math.ceil(made.asks / self.endpoint.batch)
            made = replace(made, calls=calls, tokens_out=0.0, cost=cost)
        self.estimates[kind] = made
        every = self.estimates.values()
        counts = [round(sum(getattr(one, name) for one in every)) for name in ("calls", "tokens_in", "tokens_out")]
        with self._lock:
            self._spent = Spent(counts[0], counts[1], counts[2], sum(one.cost for one in every), self._spent.failed)
        log_line(f"dry run of {self.endpoint.name}: {made}")


def _text_of(wanted: Mapping[str, Any]) -> str:
    """Returns the text of a request."""
    if "input" in wanted:
        return str(wanted["input"])
    return "\n".join(str(message["content"]) for message in wanted["messages"])
