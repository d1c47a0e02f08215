"""Queue and accounts in SQLite and in PostgreSQL: each upload to one worker, leases, invitations used once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from postgres import postgres, programs

from harness.errors import HarnessError
from harness.server.accounts import Accounts
from harness.server.database import Database
from harness.server.queue import Queue, Upload

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
        for table in ("uploads", "invitations", "contacts", "organisers", "sessions", "audit"):
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
    queue = Queue(database, tmp_path)
    add(queue, "A", "k")
    upload = queue.claim("one")
    assert upload is not None
    with database.transaction() as session:
        session.rows("UPDATE uploads SET lease = 0")
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


def test_secrets_are_stored_as_hashes_alone(database: Database) -> None:
    accounts = Accounts(database)
    token = accounts.add_organiser("org")
    opened = accounts.log_in(token, [])
    assert opened is not None
    secrets = [token, opened[0], accounts.invite("A", "", 1), accounts.ask("B", "b@example.org")]
    tables = ("uploads", "invitations", "contacts", "organisers", "sessions", "audit")
    with database.transaction() as session:
        stored = repr([session.rows(f"SELECT * FROM {table}") for table in tables])  # noqa: S608
    assert not [secret for secret in secrets if secret in stored]
    assert opened[1].csrf in stored  # it is worth nothing without the session


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
