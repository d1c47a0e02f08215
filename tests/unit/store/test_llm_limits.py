"""How fast calls follow each other, how long a pause is, what a budget lets through: with a clock of the tests."""

from __future__ import annotations

import random
import time
from datetime import UTC, datetime
from email.utils import format_datetime
from threading import Thread

import pytest

from harness.store.llm.limits import FIRST, LONGEST, MINUTE, Budget, Pace, pause, retry_after


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def send(pace: Pace, clock: Clock, tokens: float) -> float:
    """When a call went that waits as it is told to."""
    for _ in range(100):
        wait, ticket = pace.take(tokens)
        if ticket is not None:
            return clock.now
        assert wait > 0
        clock.now += wait
    raise AssertionError("it never goes")


@pytest.mark.parametrize("seed", range(5))
def test_no_minute_has_more_than_is_allowed_and_none_waits_in_vain(seed: int) -> None:
    rng, clock = random.Random(seed), Clock()
    requests, limit = rng.randint(2, 9), rng.randint(50, 500)
    pace = Pace(requests, limit, clock)
    sent: list[tuple[float, int]] = []
    for _ in range(60):
        clock.now += rng.choice([0.0, 0.1, 5.0, 30.0])
        tokens, asked = rng.randint(1, 50), clock.now
        when = send(pace, clock, tokens)
        last = [(t, n) for t, n in sent if t > when - MINUTE]
        assert len(last) + 1 <= requests
        assert sum(n for _, n in last) + tokens <= limit
        if when > asked:  # just before, it would have been too much
            before = [n for t, n in sent if t > when - MINUTE - 2e-3]
            assert len(before) + 1 > requests or sum(before) + tokens > limit
        sent.append((when, tokens))


def test_tokens_are_corrected_by_what_a_call_took() -> None:
    clock = Clock()
    pace = Pace(None, 100, clock)
    _, ticket = pace.take(90)
    assert ticket is not None
    assert pace.take(50)[1] is None
    pace.took(ticket, 10)
    assert pace.take(50)[1] is not None


def test_a_call_of_more_than_a_minute_allows_goes_alone() -> None:
    clock = Clock()
    pace = Pace(None, 100, clock)
    assert send(pace, clock, 500) == 1000.0
    assert send(pace, clock, 1) == pytest.approx(1000.0 + MINUTE)
    assert send(pace, clock, 500) == pytest.approx(1000.0 + 2 * MINUTE)


def test_a_pause_that_the_server_asks_for_holds_for_all() -> None:
    clock = Clock()
    pace = Pace(None, None, clock)
    pace.rest(7.0)
    pace.rest(3.0)
    assert pace.take(1) == (7.0, None)
    assert send(pace, clock, 1) == 1007.0


def test_retry_after_as_seconds_date_and_nonsense(monkeypatch: pytest.MonkeyPatch) -> None:
    later = format_datetime(datetime.fromtimestamp(1_700_000_030, UTC), usegmt=True)
    assert retry_after({"retry-after": later}, now=lambda: 1_700_000_000.0) == 30.0
    assert retry_after({"retry-after": later}, now=lambda: 1_700_000_100.0) == 0.0
    assert retry_after({"retry-after-ms": "1500", "retry-after": "9"}) == 1.5
    # The two obsolete forms, which RFC 9110 has recipients accept, are of Greenwich whatever zone this machine is in.
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    for old in ("Sun Nov  6 08:49:37 1994", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:37 -0000"):
        assert retry_after({"retry-after": old}, now=lambda: 784111767.0) == 10.0
    monkeypatch.undo()
    time.tzset()
    for nonsense in ("", "soon", "-3", "nan", "inf", f"Mon, 01 Jan 2024 00:00:00 +{'9' * 20}"):
        assert retry_after({"retry-after": nonsense}) is None


def test_pauses_grow_up_to_a_limit_and_are_spread() -> None:
    keys = [f"{i:08x}{'0' * 56}" for i in range(0, 2**32, 2**28)]
    for attempt in range(1, 40):
        longest = min(LONGEST, FIRST * 2 ** (attempt - 1))
        found = [pause(attempt, key) for key in keys]
        assert all(0.75 * longest <= each <= longest for each in found)
        assert len(set(found)) == len(keys)
        assert all(pause(attempt, key, 100.0) == 100.0 for key in keys)


def test_a_budget_counts_what_is_under_way_with_the_most_it_can_cost() -> None:
    budget = Budget(1.0)
    assert budget.reserve(0.6)
    waiting: list[bool] = []
    thread = Thread(target=lambda: waiting.append(budget.reserve(0.6)))
    thread.start()
    thread.join(0.05)
    assert not waiting  # it may fit yet
    budget.settle(0.6, 0.3)
    thread.join()
    assert waiting == [True]
    budget.settle(0.6, 0.6)
    assert not budget.reserve(0.2)
    assert budget.reserve(0.1)
    assert Budget(None).reserve(1e9)
    assert Budget(0.0).reserve(0.0)
