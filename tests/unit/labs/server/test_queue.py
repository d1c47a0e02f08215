"""Queue and accounts in SQLite and in PostgreSQL: each upload to one worker, leases, invitations used once."""

from __future__ import annotations

import multiprocessing
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from postgres import postgres, programs

from harness.errors import HarnessError
from harness.labs.server.accounts import Accounts
from harness.labs.server.database import Database
from harness.labs.server.queue import LEASE, MOST_ATTEMPTS, PAUSE, SLOWER, Queue, Upload, worker_name

NO_POSTGRES = "PostgreSQL is not installed (Debian's package postgresql)"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    if programs() is None:
        pytest.skip(NO_POSTGRES)
    with postgres() as found:
        yield found


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    found = request.getfixturevalue("address") if request.param == "postgres" else str(tmp_path / "a.sqlite")
    made = Database(found)
    yield made
    with made.transaction() as session:
        for table in ("uploads", "shares", "invitations", "contacts", "organisers", "sessions", "audit"):
            session.rows(f"DELETE FROM {table}")  # noqa: S608
    made.close()


def add(queue: Queue, team: str, key: str, received: str = "2026-01-01T00:00:00+00:00") -> Upload:
    id_, folder = queue.new_folder()
    (folder / "my.run").write_text(key)
    return queue.add(id_, team, key, "0" * 64, "my.run", {"label": key}, received)


@pytest.mark.slow
def test_each_upload_goes_to_one_worker(database: Database, tmp_path: Path) -> None:
    queue = Queue(database, tmp_path)
    wanted = {add(queue, f"team{number}", "k").id for number in range(30)}

    def work(name: str) -> list[str]:
        mine = Queue(Database(database.address), tmp_path)
        out = []
        while (upload := mine.claim(name)) is not None:
            out.append(upload.id)
            mine.finish(upload, name, "done", {})
        mine.database.close()
        return out

    with ThreadPoolExecutor(6) as pool:
        found = [id_ for part in pool.map(work, (f"worker{number}" for number in range(6))) for id_ in part]
    assert Counter(found) == Counter(wanted)
    assert queue.waiting() == 0


@pytest.mark.slow
def test_uploads_are_scored_in_the_order_in_which_they_came(database: Database, tmp_path: Path) -> None:
    queue = Queue(database, tmp_path)
    for number in (1, 0, 2):
        add(queue, f"team{number}", "k")  # all in the same second
    last = queue.of_team("team2")[0]
    assert queue.ahead(last) == 2
    order = [upload.team for _ in range(3) if (upload := queue.claim("w")) is not None]
    assert order == ["team1", "team0", "team2"]


def test_uploads_of_a_team_are_scored_one_after_the_other(database: Database, tmp_path: Path) -> None:
    queue = Queue(database, tmp_path)
    for key in ("first", "second", "third"):
        add(queue, "A", key)
    add(queue, "B", "other")
    assert [each.key for each in queue.of_team("A")] == ["third", "second", "first"]
    begun = [upload for _ in range(4) if (upload := queue.claim("w")) is not None]
    assert [upload.key for upload in begun] == ["first", "other"]
    queue.finish(begun[0], "w", "refused", {"lines": []})
    second = queue.claim("w")
    assert second is not None and second.key == "second"
    queue.give_back(second, "w")
    again = queue.claim("w")
    assert again is not None and again.key == "second"


def test_only_the_worker_with_the_lease_ends_an_upload(database: Database, tmp_path: Path) -> None:
    clock = [0.0]
    queue = Queue(database, tmp_path, lambda: clock[0])
    add(queue, "A", "k")
    upload = queue.claim("one")
    assert upload is not None
    assert queue.claim("two") is None  # which begins to watch
    clock[0] += LEASE - 1
    assert queue.renew(upload, "one")
    clock[0] += LEASE - 1
    assert queue.claim("two") is None  # it was renewed meanwhile
    clock[0] += LEASE + 1
    again = queue.claim("two")
    assert again is not None and again.attempts == 2
    assert not queue.renew(upload, "one") and queue.renew(upload, "two")
    queue.finish(upload, "one", "refused", {"lines": ["late"]})
    assert (found := queue.find(upload.id)) is not None and found.state == "running"
    queue.finish(again, "two", "done", {"receipt": {"x": 1}})
    assert (found := queue.find(upload.id)) is not None and (found.state, found.result) == (
        "done",
        {"receipt": {"x": 1}},
    )


@pytest.mark.parametrize("step", [-86400.0, 86400.0])
def test_a_clock_that_is_set_changes_nothing(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: float
) -> None:
    clock, wall = [0.0], time.time()
    monkeypatch.setattr(time, "time", lambda: wall)
    queue = Queue(database, tmp_path, lambda: clock[0])
    upload = add(queue, "A", "k")
    assert queue.claim("killed") is not None
    monkeypatch.setattr(time, "time", lambda: wall + step)
    assert queue.claim("other") is None  # the first one may be alive
    clock[0] += LEASE + 1
    again = queue.claim("other")
    assert again is not None and (again.id, again.attempts) == (upload.id, 2)
    queue.sweep()
    assert (queue.folder / upload.id / "my.run").is_file()


def test_an_upload_of_a_worker_of_this_machine_that_has_ended_is_taken_at_once(
    database: Database, tmp_path: Path
) -> None:
    queue = Queue(database, tmp_path, lambda: 0.0)
    upload = add(queue, "A", "k")
    context = multiprocessing.get_context("fork")
    reading, writing = context.Pipe()
    process = context.Process(target=lambda: writing.send(worker_name()))
    process.start()
    ended = reading.recv()
    process.join()
    assert queue.claim(ended) is not None
    again = queue.claim(worker_name())
    assert again is not None and again.id == upload.id
    assert queue.claim("other") is None  # this process runs


def test_a_failed_attempt_is_followed_by_others_and_then_the_organisers_decide(
    database: Database, tmp_path: Path
) -> None:
    clock = [0.0]
    queue, beside = (Queue(database, tmp_path, lambda: clock[0]) for _ in range(2))
    upload = add(queue, "A", "k")
    later = add(queue, "A", "later")
    for attempt in range(1, MOST_ATTEMPTS + 1):
        claimed = queue.claim("w")
        assert claimed is not None and (claimed.id, claimed.attempts) == (upload.id, attempt)
        queue.fail(claimed, "w", "the disk is full", 0.5)
        if attempt < MOST_ATTEMPTS:
            assert [each.reason for each in queue.troubled()] == ["the disk is full"]
            assert queue.claim("w") is None and beside.claim("other") is None
            clock[0] += PAUSE * SLOWER ** (attempt - 1) - 0.1
            assert queue.claim("w") is None and beside.claim("other") is None
            clock[0] += 0.2
    (held,) = queue.troubled()
    assert (held.state, held.attempts, held.reason) == ("held", MOST_ATTEMPTS, "the disk is full")
    assert (queue.folder / upload.id / "my.run").read_text() == "k"
    queue.sweep()
    assert (queue.folder / upload.id / "my.run").is_file()
    following = queue.claim("w")  # the team's others go on
    assert following is not None and following.id == later.id
    queue.finish(following, "w", "done", {})
    assert queue.retry(upload.id).state == "queued"
    again = queue.claim("w")
    assert again is not None and (again.id, again.attempts, again.reason) == (upload.id, 1, "")
    queue.fail(again, "w", "still full")
    queue.discard(upload.id, "too late")
    assert (found := queue.find(upload.id)) is not None
    assert (found.state, found.result) == ("refused", {"lines": ["too late"]})
    assert not (queue.folder / upload.id).exists()
    for id_ in (upload.id, "x\0"):
        with pytest.raises(HarnessError, match="does not exist, is being scored, or was decided already"):
            queue.retry(id_)


def test_an_attempt_that_was_given_back_counts_as_none(database: Database, tmp_path: Path) -> None:
    queue = Queue(database, tmp_path)
    add(queue, "A", "k")
    for _ in range(2 * MOST_ATTEMPTS):
        upload = queue.claim("w")
        assert upload is not None and upload.attempts == 1
        queue.give_back(upload, "w")


def test_teams_take_turns_by_the_seconds_that_their_runs_take(database: Database, tmp_path: Path) -> None:
    queue = Queue(database, tmp_path)
    for number in range(4):
        add(queue, "Many", f"k{number}")
    other = add(queue, "Few", "a")
    last = add(queue, "Few", "b")
    assert (queue.ahead(other), queue.ahead(last)) == (1, 3)
    order = []
    seconds = {"Many": 26.0, "Few": 0.2, "New": 0.2}
    for turn in range(8):
        upload = queue.claim("w")
        assert upload is not None
        order.append(upload.team)
        queue.finish(upload, "w", "done", {}, seconds[upload.team])
        if turn == 3:
            for key in ("a", "b"):  # who comes later is not ahead of the others for as long as they have worked
                add(queue, "New", key)
    assert order == ["Many", "Few", "Few", "Many", "New", "New", "Many", "Many"]
    assert queue.claim("w") is None


def test_a_key_is_an_upload_even_if_two_send_it_at_once(database: Database, tmp_path: Path) -> None:
    queue = Queue(database, tmp_path)
    with ThreadPoolExecutor(8) as pool:
        ids = {upload.id for upload in pool.map(lambda _: add(queue, "A", "same"), range(8))}
    assert len(ids) == 1
    assert [path.name for path in (tmp_path / "uploads").iterdir()] == list(ids)


def test_an_invitation_is_used_once_even_if_two_use_it_at_once(database: Database) -> None:
    accounts = Accounts(database)
    code = accounts.invite("DPRL", "", 14)

    def use(_: int) -> bool:
        try:
            return accounts.use(code).team == "DPRL"
        except HarnessError:
            return False

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(use, range(8))) == 1
    accounts.unuse(code)
    assert use(0)


def test_requests_that_have_expired_leave_room_for_others(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.labs.server.accounts._MOST_REQUESTS", 3)
    accounts = Accounts(database)
    for number in range(3):
        accounts.ask(f"T{number}", "")
    with pytest.raises(HarnessError, match="3 requests to join are waiting"):
        accounts.ask("T3", "")
    with database.transaction() as session:
        session.rows("UPDATE invitations SET expires = '2020-01-01T00:00:00+00:00'")
    accounts.ask("T3", "")
    asked = {each.team: each for each in accounts.invitations()}
    with pytest.raises(HarnessError, match="has expired; invite the team instead"):
        accounts.decide(asked["T0"].id, "open")
    assert {each.team: each.state for each in accounts.invitations()}["T0"] == "asked"
    assert accounts.decide(asked["T0"].id, "refused").team == "T0"


def test_the_audit_trail_is_in_order(database: Database) -> None:
    accounts = Accounts(database)
    for number in range(5):
        accounts.record("organiser org", "freeze", {"number": number})
    assert [line["details"]["number"] for line in accounts.trail(3)] == [4, 3, 2]


def test_a_lost_connection_is_opened_again(address: str) -> None:
    database = Database(address)
    accounts = Accounts(database)
    accounts.record("a", "b", {})
    with Database(database.address).transaction() as session:
        session.rows("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
    with pytest.raises(Exception, match=r"terminat|closed|lost"):
        accounts.record("a", "c", {})
    accounts.record("a", "d", {})
    assert [line["action"] for line in accounts.trail(2)] == ["d", "b"]
    database.close()


def test_a_database_that_cannot_be_opened_gets_a_line_without_its_password(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="cannot be opened"):
        Database(str(tmp_path / "no" / "folder.sqlite"))
    (tmp_path / "text.sqlite").write_text("not a database " * 100)
    with pytest.raises(HarnessError, match=r"text\.sqlite: cannot be opened: file is not a database"):
        Database(str(tmp_path / "text.sqlite"))
    with pytest.raises(HarnessError) as raised:
        Database("postgresql://me:hidden@127.0.0.1:1/none")
    assert "postgresql://me@127.0.0.1:1/none: cannot be opened" in str(raised.value)
    assert "hidden" not in str(raised.value)
