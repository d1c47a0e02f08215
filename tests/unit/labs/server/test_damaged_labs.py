"""A lab that is damaged, locked or changed while it is served: nothing is lost, nothing is told, and it goes on."""

from __future__ import annotations

import errno
import gzip
import hmac
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from guard_tools import without
from server_tools import Served, served

from harness.cli.lab import check_
from harness.errors import HarnessError
from harness.io.files import data_root
from harness.labs.closing import freeze, reopen
from harness.labs.journal import FILE as JOURNAL
from harness.labs.lab import FILE, new_lab
from harness.labs.roster import add_team, revoke_team, roster
from harness.labs.server import actions
from harness.labs.server.accounts import Accounts, Outbox, hashed
from harness.labs.server.processes import Place, run_server
from harness.labs.server.queue import MOST_ATTEMPTS
from harness.labs.server.worker import Limits, UploadWorker
from harness.labs.submission_storage import MOST_TAKEN
from harness.labs.submissions import submissions

RUNS = data_root() / "runs/mini/mini-task1"
OVERLAP, SHUFFLE = ((RUNS / f"{name}.run").read_bytes() for name in ("overlap", "shuffle"))


@pytest.fixture
def site(tmp_path: Path) -> Served:
    return served(new_lab(tmp_path / "lab", {"title": "Lab", "collection": "mini-task1", "cap": 9}))


def send(site: Served, token: str, run: bytes = OVERLAP, label: str = "a", **files: bytes) -> str:
    """Uploads a run; returns the address of the upload."""
    sent = {"run": ("my.run", run), **{name: (f"{name}.yml", content) for name, content in files.items()}}
    answer = site.client(token).post("/api/v1/submissions", files=sent, data={"label": label})
    assert answer.status_code == 202, answer.text
    return str(answer.headers["location"])


def state(site: Served, token: str, upload: str) -> str:
    return str(site.client(token).get(upload).json()["state"])


@pytest.mark.parametrize("name", [FILE, JOURNAL])
def test_uploads_wait_while_the_lab_cannot_be_read(site: Served, tmp_path: Path, name: str) -> None:
    token, path = site.team("SRC"), site.lab.folder / name
    upload, whole = send(site, token), path.read_bytes()
    for damaged in (b"{not: [yaml\n", b""):
        path.write_bytes(damaged if name == FILE else whole[:-9] + damaged + b"\n")
        worker = UploadWorker(site.lab.folder, site.service.queue, Limits())
        assert not worker.ready()
        # Also if it was damaged after the upload was claimed.
        claimed = site.service.queue.claim(worker.name)
        assert claimed is not None
        assert not worker.score(claimed)
        answers = [
            site.client(each).get(at) for each in (token, "") for at in ("/", "/api/v1/lab", "/api/v1/team", upload)
        ]
        assert {each.status_code for each in answers} <= {200, 401, 404, 503}
        assert 503 in {each.status_code for each in answers}
        assert not [each for each in answers if str(tmp_path) in each.text or "Traceback" in each.text]
        path.write_bytes(whole)
    assert state(site, token, upload) == "queued"
    site.score()
    assert state(site, token, upload) == "done"


def test_a_journal_that_was_restored_from_a_copy_is_read_again(site: Served) -> None:
    token, path = site.team("SRC"), site.lab.folder / JOURNAL
    old = path.read_bytes()
    site.team("Later")
    assert len(site.service.live.events()) == 2
    path.write_bytes(old)  # shorter, in the same file
    assert len(site.service.live.events()) == 1
    shutil.copy(path, path.with_suffix(".copy"))
    path.with_suffix(".copy").rename(path)  # another file
    site.team("Other")
    assert [event.team for event in site.service.live.events()] == ["SRC", "Other"]  # type: ignore[union-attr]
    assert site.client(token).get("/api/v1/team").status_code == 200


@pytest.mark.slow
def test_uploads_of_a_revoked_token_are_not_scored(site: Served) -> None:
    """Neither if it was revoked before a worker took them, nor if the team has another token by then."""
    token, organiser = site.team("SRC"), site.client(site.organiser())
    first = send(site, token)
    revoke_team(site.lab, "SRC")
    site.score()
    _, token = add_team(site.lab, "SRC")
    assert state(site, token, first) == "refused"
    second = send(site, token, SHUFFLE, "b")
    organiser.post("/api/v1/revoke", json={"team": "SRC"})
    token = organiser.post("/api/v1/issue", json={"team": "SRC"}).json()["secret"]
    site.score()
    found = site.client(token).get(second).json()
    assert (found["state"], found["errors"]) == ("refused", ["the team's token was revoked while the upload waited"])
    assert not submissions(site.lab)
    third = send(site, token, SHUFFLE, "c")
    with without(actions._revoke, "service.queue.refuse(", "max("):
        organiser.post("/api/v1/revoke", json={"team": "SRC"})
    token = organiser.post("/api/v1/issue", json={"team": "SRC"}).json()["secret"]
    site.score()
    assert state(site, token, third) == "done"


def test_a_token_that_is_revoked_while_its_upload_arrives(site: Served) -> None:
    token = site.team("SRC")
    client = site.client(token)

    def parts() -> Iterator[bytes]:
        yield b'--x\r\ncontent-disposition: form-data; name="run"; filename="a"\r\n\r\n'
        revoke_team(site.lab, "SRC")
        yield OVERLAP + b"\r\n--x--\r\n"

    answer = client.post(
        "/api/v1/submissions", content=parts(), headers={"content-type": "multipart/form-data; boundary=x"}
    )
    assert answer.status_code in (401, 422)
    assert not site.service.queue.waiting()


def test_what_waits_in_a_frozen_lab_waits_until_it_is_reopened(site: Served) -> None:
    token = site.team("SRC")
    upload = send(site, token)
    claimed = site.service.queue.claim("w")
    assert claimed is not None
    freeze(site.lab)
    worker = UploadWorker(site.lab.folder, site.service.queue, Limits())
    worker.name = "w"
    assert not worker.score(claimed)  # it was frozen after the upload was claimed
    site.score()
    assert state(site, token, upload) == "queued"
    reopen(site.lab)
    site.score()
    assert state(site, token, upload) == "done"


def test_a_full_disk_keeps_the_server_answering(site: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    token = site.team("SRC")
    with monkeypatch.context() as patched:

        def full(*_: object) -> None:
            raise OSError(errno.ENOSPC, "No space left on device", "/secret/folder")

        patched.setattr(shutil, "copyfileobj", full)
        answer = site.client(token).post("/api/v1/submissions", files={"run": OVERLAP})
    assert answer.status_code == 503  # which the client sends again
    assert answer.json() == {"errors": ["the server cannot keep the upload at present; try again later"]}
    assert not list((site.service.state / "uploads").iterdir())
    assert site.submit(token, OVERLAP, label="a")["state"] == "done"


@pytest.mark.slow
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS])
def test_an_upload_waits_while_the_disk_is_full_or_read_only(
    site: Served, monkeypatch: pytest.MonkeyPatch, code: int, tmp_path: Path
) -> None:
    """It is scored once there is room, or decided by the organisers, who see why; the team sees no path."""
    token, organiser = site.team("SRC"), site.client(site.organiser())
    reason = os.strerror(code)

    def failing(*_: object, **__: object) -> None:
        raise OSError(code, reason)

    with monkeypatch.context() as patched:
        patched.setattr(tempfile, "mkdtemp", failing)
        upload = send(site, token)
        site.score()
        assert state(site, token, upload) == "queued"
        for _ in range(MOST_ATTEMPTS):
            site.wait()
        found = site.client(token).get(upload)
        assert found.json()["state"] == "held" and str(tmp_path) not in found.text and reason not in found.text
        assert "its file is kept" in found.json()["errors"][0]
        login = organiser.post("/login", data={"token": organiser.headers["authorization"].split()[1]})
        assert login.status_code == 303
        assert f".staging: cannot be written: {reason}" in organiser.get("/organise").text
        with pytest.raises(HarnessError, match=f"upload .* of team SRC .* is held until you decide .*: {reason}"):
            check_(site.lab.folder, "")
        assert not submissions(site.lab)
    (kept,) = (site.service.state / "uploads").iterdir()
    assert (kept / "my.run").read_bytes() == OVERLAP
    assert organiser.post("/api/v1/retry", json={"id": found.json()["id"]}).status_code == 200
    site.score()
    assert state(site, token, upload) == "done"
    check_(site.lab.folder, "")
    assert not list((site.service.state / "uploads").iterdir())


def test_an_upload_that_was_damaged_on_the_disk_is_not_scored(site: Served) -> None:
    token = site.team("SRC")
    upload = send(site, token)
    (kept,) = (site.service.state / "uploads").iterdir()
    (kept / "my.run").write_bytes(OVERLAP[:-1])
    site.score()
    assert state(site, token, upload) == "queued"
    assert "damaged: the file is not the one that was uploaded" in site.service.queue.troubled()[0].reason
    (kept / "my.run").write_bytes(OVERLAP)
    site.wait()
    assert state(site, token, upload) == "done"


def test_a_database_that_cannot_be_used_now(site: Served, tmp_path: Path) -> None:
    token = site.team("SRC")
    database = site.service.queue.database
    whole, database.address = database.address, str(tmp_path / "nowhere" / "x.sqlite")
    database.close()
    (tmp_path / "nowhere").mkdir()
    (tmp_path / "nowhere" / "x.sqlite").mkdir()
    answer = site.client(token).post("/api/v1/submissions", files={"run": OVERLAP})
    assert answer.status_code == 503 and str(tmp_path) not in answer.text
    database.address = whole
    assert site.submit(token, OVERLAP, label="a")["state"] == "done"


def test_two_runs_in_one_upload_are_refused(site: Served) -> None:
    client = site.client(site.team("SRC"))
    both = client.post("/api/v1/submissions", files=[("run", ("a.run", OVERLAP)), ("run", ("b.run", SHUFFLE))])
    labels = client.post("/api/v1/submissions", files={"run": OVERLAP}, data={"label": ["a", "b"]})
    assert [each.status_code for each in (both, labels)] == [422, 422]
    assert both.json()["errors"] == ["field 'run' is sent more than once; send one run at a time"]
    assert labels.json()["errors"] == ["field 'label' is sent more than once; send one run at a time"]
    assert not site.service.queue.waiting()


@pytest.mark.parametrize("name", ["baseline", "Baseline", "src", "SRC", "DPRL ", "a/b", "ＤＰＲＬ"])
def test_a_name_by_which_no_team_can_join_is_not_invited(site: Served, name: str) -> None:
    site.team("SRC")
    site.team("DPRL")
    organiser = site.client(site.organiser())
    answer = organiser.post("/api/v1/invite", json={"team": name})
    assert answer.status_code == 422 and answer.json()["errors"][0].startswith("team ")
    assert not site.service.accounts.invitations()
    assert organiser.post("/api/v1/invite", json={"team": "NTCIR"}).status_code == 200
    with pytest.raises(HarnessError, match="is the organisers'"):
        site.service.accounts.ask("baseline", "")


@pytest.mark.slow
def test_what_a_team_wrote_is_quoted_whole(site: Served) -> None:
    token = site.team("SRC")
    found = site.submit(token, OVERLAP.replace(b" a1088 ", b" /x/y/a1088 x ", 1), label="/a/b c/d")
    line = next(each for each in found["errors"] if "label" in each)
    assert line.startswith("label '/a/b c/d': expected letters, digits")
    assert site.submit(token, SHUFFLE, label="a")["state"] == "done"
    answer = site.client(token).post("/api/v1/withdraw", json={"label": "/a/b"})
    assert "'/a/b'" in answer.json()["errors"][0]


@pytest.mark.slow
def test_a_program_beside_the_server_is_not_run(tmp_path: Path) -> None:
    """A file `harness.py` in the current folder has the name of the package."""
    (tmp_path / "harness.py").write_text("import pathlib; pathlib.Path('ran').touch(); raise SystemExit(3)\n")
    new_lab(tmp_path / "lab", {"title": "Lab", "collection": "mini-task1"})
    program = Path(sys.executable).with_name("harness")
    words = [str(program), "serve", "lab", "--port", "0"]
    process = subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    state = tmp_path / "lab.server"
    until = time.monotonic() + 120
    while not (state / "site.json").is_file() and not (tmp_path / "ran").exists():
        assert time.monotonic() < until and process.poll() is None
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert not (tmp_path / "ran").exists() and "ended with code 3" not in said


@pytest.mark.slow
@pytest.mark.parametrize(
    "metadata",
    [
        gzip.compress(b"method:\n" + b"".join(b"  k%d: v\n" % n for n in range(400_000)), 1),  # 2 MB, once unpacked 5
        b"method:\n a: &a '" + b"x" * 40_000 + b"'\n b: [" + b"*a," * 2_000 + b"]\n",  # 50 kB that were 80 MB
        b"method: {a: " + b"9:" * 200_000 + b"9}",  # one number, of which the time grows with the square
        b"method: &a [x, x]\nb: &b [*a, *a]\n" + b"".join(b"c%d: &b [*b, *b]\n" % n for n in range(40)),
        b"method: " + b"[" * 100_000,
        b"method: !!python/object/apply:os.system ['touch /tmp/x']",
        b"\xff\xfe\x00",
        b"- a\n- b",
        b"method: {<script>: <script>alert(1)</script>}\nimplementation: {source: {repository: 'javascript:alert(1)'}}",
    ],
    ids=["packed", "repeated", "number", "aliases", "deep", "object", "bytes", "list", "script"],
)
def test_metadata_of_any_kind_does_no_harm(site: Served, metadata: bytes) -> None:
    site.limits = Limits(seconds=20, memory=512)
    token = site.team("SRC")
    upload = send(site, token, metadata=metadata)
    site.score()
    found = site.client(token).get(upload).json()
    assert found["state"] == "done"
    assert str(site.service.state) not in str(found)
    (kept,) = site.lab.folder.rglob("*.ir-metadata.yml")
    assert kept.stat().st_size < MOST_TAKEN


def test_messages_are_made_whatever_the_names(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path / "outbox")
    outbox.send("a@example.org", "A title\r\nBcc: b@evil.example", "Text\n.\nBcc: x")
    (written,) = (tmp_path / "outbox").glob("*.eml")
    heads = written.read_text().partition("\n\n")[0]
    assert not [line for line in heads.splitlines() if line.lower().startswith("bcc")]
    for address in ("a@[b", "@[a@b", "a@b\nBcc: c@d", "\udcff@b"):
        outbox.send(address, "s", "t")  # is not made, or harmless
    assert not [
        path for path in (tmp_path / "outbox").glob("*.eml") if "\nBcc" in path.read_text().partition("\n\n")[0]
    ]


@pytest.mark.slow
def test_every_act_is_in_the_audit_trail(site: Served) -> None:
    """With who did it; and no secret."""
    organiser_token = site.organiser()
    organiser, visitor = site.client(organiser_token), site.client()
    link = organiser.post("/api/v1/invite", json={"team": "SRC"}).json()["secret"]
    joined = visitor.post(link).text
    token = joined.partition("HARNESS_TOKEN=")[2].split()[0]
    csrf = joined.partition('name="csrf" value="')[2].partition('"')[0]
    upload = send(site, token)
    site.score()
    assert state(site, token, upload) == "done"
    failed = [send(site, token, SHUFFLE, label).rpartition("/")[2] for label in ("b", "c")]
    site.service.queue.delay("the disk is full")
    site.client().post("/ask", data={"team": "Asker"})
    (asked,) = (each for each in site.service.accounts.invitations() if each.state == "asked")
    team = site.client(token)
    done: list[tuple[object, str, dict[str, object]]] = [
        (organiser, "disqualify", {"team": "SRC", "label": "a"}),
        (team, "appeal", {"label": "a"}),
        (organiser, "reinstate", {"team": "SRC", "label": "a"}),
        (organiser, "refund", {"team": "SRC", "label": "a"}),
        (team, "primary", {"label": "a"}),
        (team, "withdraw", {"label": "a"}),
        (organiser, "accept", {"id": asked.id}),
        (organiser, "refuse", {"id": asked.id}),
        (organiser, "extend", {"deadline": "2099-01-01T00:00:00Z"}),
        (organiser, "freeze", {}),
        (organiser, "reopen", {}),
        (organiser, "discard", {"id": failed[0]}),
        (organiser, "retry", {"id": failed[1]}),
        (organiser, "add-organiser", {"name": "other"}),
        (organiser, "remove-organiser", {"name": "other"}),
        (organiser, "revoke", {"team": "SRC"}),
        (organiser, "publish", {}),
        (organiser, "issue", {"team": "SRC"}),
    ]
    visitor.post("/logout", data={"csrf": csrf})
    for client, name, given in done:
        answer = client.post(f"/api/v1/{name}", json=given)  # type: ignore[attr-defined]
        assert answer.status_code == 200, (name, answer.text)
    trail = site.service.accounts.trail(1_000)
    acts = {(each["actor"], each["action"]) for each in trail}
    expected = {("organiser org" if client is organiser else "team SRC", name) for client, name, _ in done}
    expected |= {("team SRC", each) for each in ("join", "log in", "log out", "upload")}
    expected |= {("visitor", "ask"), ("organiser org", "invite")}
    assert acts == expected
    assert {*actions.ACTIONS} <= {name for _, name in acts}
    for secret in (organiser_token, token, link.rpartition("/")[2]):
        assert secret not in str(trail)
        assert hashed(secret) not in str(trail)


def test_the_address_of_a_database_is_not_in_the_list_of_processes(
    site: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which all users of the machine can read: it may hold a password."""
    begun: list[tuple[list[str], dict[str, str]]] = []
    told = threading.Event()

    class Ended:
        returncode = 0
        returned: int | None = None

        def __init__(self, command: list[str], env: dict[str, str], **_: object) -> None:
            begun.append((command, env))
            told.set()

        def poll(self) -> int | None:
            return self.returned

        def terminate(self) -> None:
            Ended.returned = 0

        def wait(self, _: float = 0.0) -> None:
            pass

    monkeypatch.setattr(subprocess, "Popen", Ended)
    monkeypatch.setattr("uvicorn.Server.run", lambda *_, **__: told.wait(20))
    place = Place(site.lab.folder, site.service.state, "postgresql://user:secret@host/db")
    run_server(site.service, place, "127.0.0.1", 0, lambda address: [["serve", address]], lambda _: None)
    ((command, environment),) = begun
    assert command[0] == sys.executable and "secret" not in str(command)
    assert command[-1].startswith("http://127.0.0.1:")
    assert environment["HARNESS_DATABASE"] == place.database


def test_every_hash_is_compared_in_constant_time(site: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """As often for a token that is known as for one that is not; and nothing compares secrets otherwise."""
    a, organiser = site.team("A"), site.organiser()
    site.team("B"), site.organiser("second")
    compared: list[tuple[str, str]] = []
    equal = hmac.compare_digest

    def noting(one: str, other: str) -> bool:
        compared.append((one, other))
        return equal(one, other)

    monkeypatch.setattr(hmac, "compare_digest", noting)
    counts = set()
    for token in (organiser, a, "unknown", "", "\udcff"):
        compared.clear()
        site.service.by_token(token)
        counts.add(len(compared))
    teams = len(roster(site.service.live.events()))
    assert counts == {teams + len(site.service.accounts.organisers())}
    with without(Accounts.holder, "hmac.compare_digest(hash_, digest)", "hash_ == digest"):
        compared.clear()
        site.service.by_token(a)
        assert len(compared) == teams


def test_no_secret_is_stored(site: Served) -> None:
    """Neither tokens nor sessions, invitations nor what they give access to, in any file of the server or the lab."""
    a, organiser, browser = site.team("A"), site.organiser(), site.client()
    browser.post("/login", data={"token": a})
    link = site.client(organiser).post("/api/v1/invite", json={}).json()["secret"]
    secrets = [a, organiser, browser.cookies["session"], link.rpartition("/")[2]]
    for folder in (site.lab.folder, site.service.state):
        for path in folder.rglob("*"):
            if path.is_file():
                content = path.read_bytes()
                assert not [each for each in secrets if each.encode() in content], path
    assert site.service.state.stat().st_mode & 0o077 == 0
