"""Limits of calls: rate limits, pauses after failures, and budget."""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Callable, Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from pathlib import Path
from threading import Condition, Lock
from time import monotonic, time

MINUTE = 60.0  # seconds
FIRST, LONGEST = 0.5, 60.0  # seconds of the first and the longest pause after a failure
_STEP = 1e-3  # minimum seconds to wait; less may be lost in the clock's resolution
PATIENCE = 900.0  # seconds; if a server asks for a longer pause, the client gives up
SPENT = "HARNESS_SPENT"  # environment variable: file to which each call adds a line with its cost


def retry_after(headers: Mapping[str, str], now: Callable[[], float] = time) -> float | None:
    """Returns the wait requested by a server (`Retry-After` as seconds or date, RFC 9110; `retry-after-ms`) in seconds.

    >>> retry_after({"retry-after": "7"}), retry_after({"retry-after-ms": "250"}), retry_after({})
    (7.0, 0.25, None)
    """
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        said = headers.get(name, "")
        try:
            seconds = float(said) / unit
        except ValueError:
            continue
        if math.isfinite(seconds) and seconds >= 0:
            return seconds
    try:
        date = parsedate_to_datetime(headers.get("retry-after", ""))
        # The old form without a time zone is UTC as well.
        return max(0.0, (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() - now())
    except (ValueError, TypeError, OverflowError):
        return None


def pause(attempt: int, key: str, asked: float | None = None) -> float:
    """Returns the seconds before the next attempt: exponential backoff with jitter, at least the requested wait.

    Parameters
    ----------
    attempt : attempts so far, from 1.
    key : hexadecimal digits that determine the jitter, so that requests that failed together are spread.

    >>> [round(pause(attempt, "0" * 64), 2) for attempt in (1, 2, 3, 20)], pause(1, "0" * 64, 7.0)
    ([0.38, 0.75, 1.5, 45.0], 7.0)
    """
    longest = min(LONGEST, FIRST * 2.0 ** min(attempt - 1, 30))
    return max(asked or 0.0, longest * (0.75 + 0.25 * int(key[:8], 16) / 0xFFFFFFFF))


class Pace:
    """Rate limiter of one process: requests and tokens of the last minute, and pauses requested by a server.

    Parameters
    ----------
    requests, tokens : limits per 60 seconds; None for no limit. A call above the token limit runs alone.
    clock : function that returns the time in seconds.
    """

    def __init__(self, requests: int | None, tokens: int | None, clock: Callable[[], float] = monotonic) -> None:
        self._requests, self._tokens, self._clock = requests or math.inf, tokens or math.inf, clock
        self._sent: deque[list[float]] = deque()  # [when, tokens]
        self._until = 0.0
        self._lock = Lock()

    def take(self, tokens: float) -> tuple[float, list[float] | None]:
        """Returns (0, ticket) if a call of some tokens is allowed now, else (seconds to wait, None)."""
        with self._lock:
            now = self._clock()
            while self._sent and self._sent[0][0] <= now - MINUTE:
                self._sent.popleft()
            if now < self._until:
                return self._until - now, None
            fits = len(self._sent) < self._requests and sum(each[1] for each in self._sent) + tokens <= self._tokens
            if self._sent and not fits:
                return max(self._sent[0][0] + MINUTE - now, _STEP), None
            ticket = [now, tokens]
            if math.isfinite(self._requests) or math.isfinite(self._tokens):
                self._sent.append(ticket)
            return 0.0, ticket

    def took(self, ticket: list[float], tokens: float) -> None:
        """Records the tokens that a call took."""
        with self._lock:
            ticket[1] = tokens

    def rest(self, seconds: float) -> None:
        """Pauses all calls for some seconds."""
        with self._lock:
            self._until = max(self._until, self._clock() + seconds)


class Budget:
    """Budget, in which calls in progress count with their maximum cost.

    Parameters
    ----------
    limit : None for no limit.
    """

    def __init__(self, limit: float | None) -> None:
        self.limit = math.inf if limit is None else limit
        self.spent = self.held = 0.0
        self._calls = 0
        self._changed = Condition()

    def reserve(self, most: float) -> bool:
        """Waits until a call with this maximum cost fits the budget; returns False if it cannot."""
        with self._changed:
            # Calls in progress usually cost less than their maximum.
            self._changed.wait_for(lambda: self._fits(most) or not self._calls)
            if not self._fits(most):
                return False
            self.held += most
            self._calls += 1
            return True

    def _fits(self, most: float) -> bool:
        return self.spent + self.held + most <= self.limit * (1 + 1e-12)

    def settle(self, most: float, cost: float) -> None:
        """Replaces the reservation `most` of a call by its cost; a call that may have been charged counts as `most`."""
        with self._changed:
            self.held -= most
            self.spent += cost
            self._calls -= 1
            self._changed.notify_all()


def record_cost(cost: float) -> None:
    """Adds the cost of a call to the file that the environment variable `HARNESS_SPENT` names, if it names one."""
    if cost and (name := os.environ.get(SPENT)):
        with Path(name).open("a", encoding="ascii") as stream:
            stream.write(f"{cost!r}\n")  # one write of a short line, which other processes' lines cannot interrupt


def recorded_cost(path: Path) -> float:
    """Returns the sum of the costs in a file of `record_cost`; a damaged line, such as one cut short, counts nothing.

    Examples
    --------
    >>> recorded_cost(Path("no-such-file"))
    0.0
    """
    lines = path.read_bytes().splitlines() if path.is_file() else []
    return math.fsum(value for line in lines if (value := _number(line)) > 0 and math.isfinite(value))


def _number(line: bytes) -> float:
    try:
        return float(line)
    except ValueError:
        return 0.0
