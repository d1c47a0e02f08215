"""Submissions over HTTP: the same bytes in the lab as by command, the same words, nothing lost, nothing twice."""

from __future__ import annotations

import os
import signal
import time
from datetime import datetime
from pathlib import Path

import pytest
from archive_tools import tarred, zipped
from lab_tools import files
from server_tools import Served, served

from harness.errors import HarnessError
from harness.io.files import data_root
from harness.labs.journal import Submitted, TeamJoined
from harness.labs.lab import Lab, new_lab
from harness.labs.roster import add_team
from harness.labs.server.queue import LEASE, MOST_ATTEMPTS, MOST_WAITING
from harness.labs.server.service import FIELDS
from harness.labs.server.worker import Limits, UploadWorker
from harness.labs.submissions import events, submissions
from harness.labs.submit import Offer, submit_run
from harness.store import sidecar

RUNS = data_root() / "runs" / "mini" / "mini-task1"
OVERLAP = RUNS / "overlap.run"


def lab_in(folder: Path, **settings: object) -> Lab:
    return new_lab(folder, {"title": "Lab", "collection": "mini-task1", **settings})


@pytest.mark.parametrize("private", [False, True])
def test_the_same_bytes_as_by_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, private: bool) -> None:
    monkeypatch.setattr("harness.labs.lab.new_key", lambda: "5" * 64)
    settings = {"cap": 9, **({"private": True, "feedback": "noisy"} if private else {})}
    here, there = lab_in(tmp_path / "here", **settings), lab_in(tmp_path / "there", **settings)
    site = served(there)
    token = site.team("SRC")
    add_team(here, "SRC")
    run = tmp_path / "my.run"
    run.write_bytes(OVERLAP.read_bytes())
    meta = sidecar.sidecar_path(run)
    meta.write_text("platform:\n  software:\n    python: '3'\nmethod:\n  retrieval: overlap\n")
    client = site.client(token)
    fields = {"label": "first", "description": "Overlap, ü.", "code": "https://example.org/x", "primary": "true"}
    sent = {"run": (run.name, run.read_bytes()), "metadata": (meta.name, meta.read_bytes())}
    answer = client.post("/api/v1/submissions", files=sent, data=fields)
    site.score()
    found = client.get(answer.headers["location"]).json()
    now = datetime.fromisoformat(found["received"])
    offer = Offer(run, "SRC", "first", "Overlap, ü.", code="https://example.org/x", primary=True)
    receipt = submit_run(here, offer, now=now)
    assert found["state"] == "done"
    assert files(here.folder, "journal.jsonl") == files(there.folder, "journal.jsonl")
    by_command, by_http = ([each for each in events(lab) if isinstance(each, Submitted)] for lab in (here, there))
    assert by_command == by_http
    assert found["receipt"]["rank"] == 1
    assert receipt.submission.sha256 == client.get("/api/v1/team").json()["runs"][0]["sha256"]
    assert not list((site.service.state / "uploads").iterdir())


@pytest.mark.slow
def test_an_archive_is_scored_like_its_run_and_its_own_metadata_holds(tmp_path: Path) -> None:
    """Sent as it is, by the form or the API; a separate metadata file is taken for an archive that has none."""
    here, there = lab_in(tmp_path / "here"), lab_in(tmp_path / "there")
    site = served(there)
    token = site.team("SRC")
    add_team(here, "SRC")
    client = site.client(token)
    ours, other = b"platform: {software: {python: ours}}\n", b"platform: {software: {python: other}}\n"
    contents = {
        "with": {"run.txt": OVERLAP.read_bytes(), "ir-metadata.yml": ours},
        "without": {"output/run.txt": (RUNS / "shuffle.run").read_bytes()},
    }
    for label, inside in contents.items():
        path = zipped(tmp_path / f"{label}.zip", inside)
        beside = ("m.yml", other)
        sent = {"run": (path.name, path.read_bytes()), "metadata": beside}
        answer = client.post("/api/v1/submissions", files=sent, data={"label": label})
        site.score()
        found = client.get(answer.headers["location"]).json()
        assert found["state"] == "done", found["errors"]
        sidecar.sidecar_path(path).write_bytes(other)
        submit_run(here, Offer(path, "SRC", label), now=datetime.fromisoformat(found["received"]))
        kept = (there.folder / f"submissions/SRC/{label}.v1/run.ir-metadata.yml").read_text()
        assert ("python: ours" in kept, "python: other" in kept) == (label == "with", label == "without")
    assert files(here.folder, "journal.jsonl") == files(there.folder, "journal.jsonl")
    bad = zipped(tmp_path / "bad.zip", {"a/run.txt": b"x", "b/run.txt": b"x"})
    found = site.submit(token, bad, "bad.zip")
    expected = ("refused", ["bad.zip: has a/run.txt and b/run.txt; expected one of them"])
    assert (found["state"], found["errors"]) == expected
    # A damaged archive is a fault of the upload, which is final, and not of the disk.
    for made, size in ((bad, 60), (tarred(tmp_path / "bad.tar", {"run.txt": b"x" * 600}, "w"), 700)):
        found = site.submit(token, made.read_bytes()[:size], "cut.run")
        assert found["state"] == "refused" and found["errors"][0].startswith("cut.run: archive cannot be read: ")


@pytest.mark.slow
def test_faults_are_worded_as_by_command_and_name_no_path(tmp_path: Path) -> None:
    site = served(lab_in(tmp_path / "lab", invalid_cap=2))
    token = site.team("SRC")
    bad = OVERLAP.read_bytes() + b"garbage line\n"
    found = site.submit(token, bad, "my bad.run", label="x")
    assert found["state"] == "refused"
    (line,) = found["errors"]
    assert line.startswith("my_bad.run:") and line.endswith(" 2 columns, expected 6 (topic Q0 document rank score tag)")
    assert str(tmp_path) not in line
    path = tmp_path / "my_bad.run"
    path.write_bytes(bad)
    with pytest.raises(HarnessError) as raised:
        submit_run(lab_in(tmp_path / "other"), Offer(path, "SRC", "x"))
    assert [each.removeprefix(f"{tmp_path}/") for each in raised.value.lines] == found["errors"]
    assert site.client(token).get("/api/v1/team").json()["invalid"] == 1
    again = site.submit(token, bad, "my bad.run", label="y")
    assert again["state"] == "refused"
    third = site.submit(token, OVERLAP, label="z")
    assert "has sent 2 of 2 invalid files" in third["errors"][0]


def test_an_upload_with_the_same_key_is_the_same_upload(tmp_path: Path) -> None:
    site = served(lab_in(tmp_path / "lab"))
    client = site.client(site.team("SRC"))
    key = {"idempotency-key": "once"}
    first = client.post("/api/v1/submissions", files={"run": OVERLAP.read_bytes()}, data={"label": "a"}, headers=key)
    second = client.post("/api/v1/submissions", files={"run": OVERLAP.read_bytes()}, data={"label": "a"}, headers=key)
    site.score()
    third = client.post("/api/v1/submissions", files={"run": OVERLAP.read_bytes()}, data={"label": "a"}, headers=key)
    other = client.post("/api/v1/submissions", files={"run": OVERLAP.read_bytes()}, data={"label": "b"}, headers=key)
    assert first.json()["id"] == second.json()["id"] == third.json()["id"]
    assert third.json()["state"] == "done"
    assert other.status_code == 422 and "was used for another upload" in other.json()["errors"][0]
    assert len(submissions(site.lab)) == 1
    assert not list((site.service.state / "uploads").iterdir())
    sent = {"run": (RUNS / "shuffle.run").read_bytes()}
    another = site.client(site.team("DPRL")).post("/api/v1/submissions", files=sent, data={"label": "a"}, headers=key)
    assert another.json()["id"] != first.json()["id"]  # keys are of a team


def test_the_time_of_submission_is_that_of_the_upload(tmp_path: Path) -> None:
    lab = lab_in(tmp_path / "lab", deadline="2099-01-01T00:00:00Z")
    site = served(lab)
    client = site.client(site.team("SRC"))
    answer = client.post("/api/v1/submissions", files={"run": OVERLAP.read_bytes()}, data={"label": "in-time"})
    text = (lab.folder / "lab.yaml").read_text()
    assert "2099-01-01T00:00:00Z" in text
    (lab.folder / "lab.yaml").write_text(text.replace("2099-01-01T00:00:00Z", answer.json()["received"]))
    time.sleep(1.1)
    site.score()  # after the deadline
    assert client.get(answer.headers["location"]).json()["state"] == "done"
    late = site.submit(str(client.headers["authorization"]).split()[1], RUNS / "shuffle.run", label="late")
    assert late["state"] == "refused" and "the deadline was" in late["errors"][0]


def stopped_after(lab: Lab, site: Served, monkeypatch: pytest.MonkeyPatch) -> UploadWorker:
    """A worker whose children leave right after the submission is in the journal, as if they were killed."""

    def then_die(*args: object, **more: object) -> None:
        submit_run(*args, **more)  # type: ignore[arg-type]
        os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr("harness.labs.server.worker.submit_run", then_die)
    return UploadWorker(lab.folder, site.service.queue, Limits())


def test_a_submission_whose_worker_was_killed_is_neither_lost_nor_made_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = served(lab_in(tmp_path / "lab"))
    client = site.client(site.team("SRC"))
    answer = client.post("/api/v1/submissions", files={"run": OVERLAP.read_bytes()}, data={"label": "a"})
    with monkeypatch.context() as patched:
        worker = stopped_after(site.lab, site, patched)
        upload = site.service.queue.claim(worker.name)
        assert upload is not None
        worker.score(upload)
    assert client.get(answer.headers["location"]).json()["state"] == "queued"
    assert len(submissions(site.lab)) == 1
    site.wait()
    found = client.get(answer.headers["location"]).json()
    assert (found["state"], found["receipt"]["title"]) == ("done", "SRC / a")
    assert found["receipt"]["rank"] is None
    assert len(submissions(site.lab)) == 1


@pytest.mark.slow
def test_an_upload_that_stops_each_worker_is_kept_for_the_organisers(tmp_path: Path) -> None:
    site = served(lab_in(tmp_path / "lab"))
    client, queue = site.client(site.team("SRC")), site.service.queue
    organiser = site.client(site.organiser())
    bad = client.post("/api/v1/submissions", files={"run": OVERLAP.read_bytes()}, data={"label": "a"})
    for _ in range(MOST_ATTEMPTS):
        assert queue.claim("killed") is not None
        assert queue.claim("who watches") is None
        site.seconds += LEASE + 1
    good = client.post("/api/v1/submissions", files={"run": (RUNS / "shuffle.run").read_bytes()}, data={"label": "b"})
    site.wait()
    found = client.get(bad.headers["location"]).json()
    assert found["state"] == "held" and "the organisers decide" in found["errors"][0]
    assert client.get(good.headers["location"]).json()["state"] == "done"
    assert organiser.post("/api/v1/publish", json={}).status_code == 422
    retried = organiser.post("/api/v1/retry", json={"id": found["id"]})
    assert retried.status_code == 200
    site.score()
    assert client.get(bad.headers["location"]).json()["state"] == "done"


@pytest.mark.slow
@pytest.mark.parametrize("how", ["time", "memory", "crash"])
def test_a_run_that_exceeds_the_limits_harms_nobody_else_and_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    limits = Limits(seconds=2.0 if how == "time" else 60.0, memory=256)
    site = served(lab_in(tmp_path / "lab"), limits=limits)
    token, other = site.team("SRC"), site.team("DPRL")

    def greedy(*args: object, **more: object) -> object:
        if how == "time":
            time.sleep(60)
        if how == "crash":
            os.kill(os.getpid(), signal.SIGKILL)
        return [bytearray(1 << 24) for _ in range(1_000)]

    with monkeypatch.context() as patched:
        patched.setattr("harness.labs.server.worker.submit_run", greedy)
        found = site.submit(token, OVERLAP, label="a")
    assert (found["state"], found["errors"]) == ("queued", [])
    expected = {"time": "takes more than 2 s", "memory": "needs more than 256 MiB", "crash": "ended unexpectedly"}
    (troubled,) = site.service.queue.troubled()
    assert expected[how] in troubled.reason
    assert site.submit(other, RUNS / "shuffle.run", label="a")["state"] == "done"
    site.wait()
    assert site.client(token).get(f"/api/v1/submissions/{found['id']}").json()["state"] == "done"


def test_a_team_cannot_fill_the_queue(tmp_path: Path) -> None:
    site = served(lab_in(tmp_path / "lab"))
    client = site.client(site.team("SRC"))
    for number in range(MOST_WAITING):
        sent = {"run": OVERLAP.read_bytes()}
        assert client.post("/api/v1/submissions", files=sent, data={"label": f"r{number}"}).status_code == 202
    answer = client.post("/api/v1/submissions", files={"run": OVERLAP.read_bytes()}, data={"label": "more"})
    assert answer.status_code == 422 and "10 uploads are waiting" in answer.json()["errors"][0]
    other = site.client(site.team("DPRL"))
    assert other.post("/api/v1/submissions", files={"run": OVERLAP.read_bytes()}).status_code == 202
    assert len(list((site.service.state / "uploads").iterdir())) == MOST_WAITING + 1


def test_a_frozen_lab_takes_no_uploads(tmp_path: Path) -> None:
    site = served(lab_in(tmp_path / "lab"))
    token, organiser = site.team("SRC"), site.client(site.organiser())
    assert organiser.post("/api/v1/freeze", json={"reason": "done"}).status_code == 200
    assert site.submit(token, OVERLAP, label="a")["state"] == "422"
    assert organiser.post("/api/v1/reopen", json={}).status_code == 200
    assert site.submit(token, OVERLAP, label="a")["state"] == "done"


def test_what_is_missing_or_unknown_in_an_upload_gets_a_line(tmp_path: Path) -> None:
    site = served(lab_in(tmp_path / "lab"))
    client = site.client(site.team("SRC"))
    post = client.post
    other = post("/api/v1/submissions", files={"other": b"x"}).json()["errors"][0]
    assert other.startswith("field 'other' is unknown")
    assert "run: is missing" in post("/api/v1/submissions", data={"label": "a"}).json()["errors"][0]
    unknown = post("/api/v1/submissions", files={"run": b"x"}, data={"lable": "a"}).json()["errors"][0]
    assert unknown.startswith("field 'lable' is unknown")
    wrong = post("/api/v1/submissions", files={"run": b"x"}, data={"primary": "yes"}).json()["errors"][0]
    assert wrong == "primary: is 'yes', expected true or false"
    described = client.get("/api/v1/openapi.json").json()["paths"]["/api/v1/submissions"]["post"]["requestBody"]
    form = described["content"]["multipart/form-data"]["schema"]["properties"]
    assert form.keys() == {"run", "metadata", *FIELDS}
    assert not submissions(site.lab)


def test_the_roster_is_needed_even_in_an_open_lab(tmp_path: Path) -> None:
    site = served(lab_in(tmp_path / "lab"))
    assert site.client().post("/api/v1/submissions", files={"run": OVERLAP.read_bytes()}).status_code == 401
    assert site.client("wrong").post("/api/v1/submissions", files={"run": OVERLAP.read_bytes()}).status_code == 401
    assert not [each for each in events(site.lab) if isinstance(each, TeamJoined)]
