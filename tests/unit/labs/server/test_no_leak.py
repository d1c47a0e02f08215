"""What a server of a private lab says to visitors, teams and organisers: every page, answer and file is searched.

For nobody judgments, exact scores, seeds, secrets or folders; for visitors and teams no names behind pseudonyms, no
runs of others, and nothing of uploads that are no runs of the lab.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from pathlib import Path

import pytest
from lab_tools import DOCS, TOPICS, Conf, collection, judgments, rankings, run_text
from server_tools import Served, served
from site_tools import bare, build
from starlette.testclient import TestClient

from harness.io.files import sha256
from harness.labs.downloads import write_downloads
from harness.labs.folders import PRIVATE
from harness.labs.journal import Committed
from harness.labs.lab import SEED, Lab, new_lab
from harness.labs.roster import real_names, roster
from harness.labs.server.actions import ACTIONS
from harness.labs.server.lab_snapshot import DOWNLOADS, SITE
from harness.labs.server.worker import UploadWorker
from harness.labs.shown_scores import public_and_held_out
from harness.labs.submissions import events, scores_of, submissions

ROLES = ("visitor", "team", "organiser")
REAL = ("Zeppelin", "Quokka")
# Texts of uploads that were refused, and of requests to join, which the lab does not publish.
UNPUBLISHED = ("unsent-label", "unsent words", "asker@example.org", "Askers", "invited@example.org", "my-secret-file")
LINK = re.compile(r"""(?:href|src|action|location)\s*[=:]\s*["']([^"'#]+)""")


@dataclass
class World:
    site: Served
    clients: dict[str, TestClient]
    secrets: list[str]  # that nobody is told again
    answers: dict[str, dict[str, str]]  # role -> what was asked -> what was answered


def private_lab(folder: Path, kind: str) -> Lab:
    settings: dict[str, object] = {"held_out": {"held_out": True}, "ladder": {"ladder": True}}[kind]  # type: ignore[assignment]
    names = {"pseudonyms_until": "2099-01-01T00:00:00Z"}
    given = {"title": "A lab", "collection": "tiny", "measures": ["nDCG", "AP"], "cap": 9, **names, **settings}
    return new_lab(folder / "lab", given)


@pytest.fixture(params=[pytest.param("ladder", marks=pytest.mark.slow), "held_out"])
def world(request: pytest.FixtureRequest, conf: Conf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    # Noise by chance could make a shown mean look like an exact score.
    monkeypatch.setattr("harness.labs.lab.new_key", lambda: "5" * 64)
    collection(conf, tmp_path / "data", judgments(), private=True)
    lab = private_lab(tmp_path, request.param)
    site = served(lab)
    organiser = site.organiser()
    clients = {"visitor": site.client(), "organiser": site.client(organiser)}
    secrets = [organiser]
    for number, name in enumerate(REAL):
        link = clients["organiser"].post("/api/v1/invite", json={"team": name}).json()["secret"]
        page = site.client().post(link).text
        token = re.findall("HARNESS_TOKEN=(\\S+)", page)[0]
        secrets += [link.rpartition("/")[2], token]
        clients[("team", "other")[number]] = site.client(token)
    for seed, who, label in ((1, "team", "one"), (2, "other", "two"), (3, "team", "three"), (4, "other", "two")):
        fields = {"label": label, "description": f"Run {label}."}
        run = run_text(rankings(seed)).encode()
        assert clients[who].post("/api/v1/submissions", files={"run": ("x.run", run)}, data=fields).status_code == 202
    bad = {"label": "unsent-label", "description": "unsent words"}
    clients["other"].post("/api/v1/submissions", files={"run": ("my-secret-file", b"no run")}, data=bad)
    site.score()
    clients["visitor"].post("/ask", data={"team": "Askers", "contact": "asker@example.org"})
    clients["organiser"].post("/api/v1/invite", json={"contact": "invited@example.org"})
    (first,) = (each for each in submissions(lab) if each.label == "one")
    clients["organiser"].post("/api/v1/disqualify", json={"team": first.team, "label": "one", "reason": "a test"})
    code, said = build(lab.folder, "-o", site.service.state / SITE, "--quiet")
    assert code == 0, said
    assert write_downloads(lab, site.service.state / DOWNLOADS) == []
    made = World(site, clients, secrets, {})
    made.answers = {role: dict(crawled(made, role)) for role in ROLES}
    # Pages of the site are the same for all.
    for role in ROLES[1:]:
        same = {place for place, said in made.answers[role].items() if made.answers["visitor"].get(place) == said}
        made.answers[role] = {place: said for place, said in made.answers[role].items() if place not in same}
    return made


def crawled(world: World, role: str) -> Iterator[tuple[str, str]]:
    """Yields all that a role gets: pages and what they link to, the API, files, and answers to what is refused."""
    token, client = world.clients[role], world.clients[role]
    service = world.site.service
    uploads = [each.id for team in roster(service.live.events()) for each in service.queue.of_team(team)]
    runs = [f"{each.team}/{each.label}/{each.version}" for each in service.live.submissions()]
    built = (path for path in (service.state / SITE).rglob("*") if path.is_file())
    static = [path.relative_to(service.state).as_posix() for path in built]
    waiting = ["/", "/nothing", "/login", "/ask", "/submit", "/team"]
    waiting += ["/organise", "/organise/audit", "/organise/site.zip"]
    waiting += [f"/api/v1/{each}" for each in ("openapi.json", "lab", "leaderboard", "downloads", "team", "audit")]
    waiting += [f"{head}/{each}" for each in uploads for head in ("/submissions", "/api/v1/submissions")]
    waiting += [f"/submissions/{each}/state" for each in uploads]
    waiting += [f"{head}/{each}" for each in runs for head in ("/api/v1/runs", "/site/lab/runs")]
    waiting += [f"/team/runs/{each.partition('/')[2]}" for each in runs]
    waiting += [f"/{each}" for each in static]
    waiting += ["/server.sqlite", *(f"/site/{each}" for each in ("../server.sqlite", "..%2fserver.sqlite"))]
    waiting.append("/site/%2e%2e/%2e%2e/lab/private")
    seen: set[str] = set()
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        answer = token.get(path)
        heads = "\n".join(f"{name}: {value}" for name, value in answer.headers.items())
        if answer.headers.get("content-type") == "application/zip":
            archive = zipfile.ZipFile(BytesIO(answer.content))
            yield from ((f"{path}!{name}", archive.read(name).decode()) for name in archive.namelist())
            continue
        yield path, f"{heads}\n{bare(answer.text)}"
        if "html" in answer.headers.get("content-type", ""):
            for link in LINK.findall(answer.text):
                target = str(answer.url.join(link).path)
                if answer.url.join(link).host == "localhost" and target != "/logout":
                    waiting.append(target)
    for name, action in ACTIONS.items():
        # What is refused: of teams that do not exist, and of the other team.
        other = {"team": runs[1].split("/")[0], "label": "two", "reason": "", "deadline": "x", "id": "x", "name": "../"}
        wanted = {field: other[field] for field in action.arguments.__struct_fields__ if field in other}
        of_organisers = ("revoke", "disqualify", "refund", "issue", "invite", "freeze", "reopen", "publish")
        if name in of_organisers and role == "organiser":
            wanted["team"] = "Nobody"
        if name in ("freeze", "publish"):
            continue  # they would change what others get
        bodies: list[object] = [wanted, {}, {"label": 1}, [], {"team": "x" * 100}]
        for body in bodies:
            answer = client.post(f"/api/v1/{name}", json=body)
            yield f"{name} {json.dumps(body)[:40]} as {role}", answer.text
            if answer.status_code == 200 and name in ("invite", "issue", "add-organiser"):
                world.secrets.append(answer.json()["secret"].rpartition("/")[2])
    asked = {"team": "\\", "contact": "x"}
    for path, sent in {"/login": {"token": "x"}, "/ask": asked, "/submit": {"label": "x"}, "/join/x": {}}.items():
        yield f"POST {path}", client.post(path, data=sent).text


def found_in(world: World, role: str, wanted: list[str], words: bool = False) -> set[tuple[str, str]]:
    """Returns which of the given texts a role sees, and where; with `words`, only whole words and numbers."""
    out = set()
    for place, said in world.answers[role].items():
        if words:
            out |= {(place, each) for each in words_of(said).intersection(wanted)}
        else:
            out |= {(place, each) for each in wanted if each in said}
    return out


@cache
def words_of(text: str) -> frozenset[str]:
    return frozenset(each.strip(".-") for each in re.findall(r"[\w.-]+", text))


def own_run(place: str) -> bool:
    """Whether an answer is the file of a run, with documents and topics that its team knows."""
    return "/runs/" in place and not place.startswith("/site/")


def exact(lab: Lab) -> list[str]:
    """Exact scores and means, in all and of both halves of the topics, that no rounded mean may equal."""
    out = set()
    public, held = public_and_held_out(lab, events(lab), frozenset(TOPICS))
    for each in submissions(lab):
        scores = scores_of(lab, each)
        parts = [scores, *(scores.select(part) for part in (public, held) if part)]
        values = [value for part in parts for value in (*part.values.ravel().tolist(), *map(part.mean, part.measures))]
        telling = [value for value in values if abs(value * 100 - round(value * 100)) > 1e-6]
        out |= {f"{value:.{digits}f}" for value in telling for digits in (3, 4, 5, 6)}
    return sorted(out)


def nobody_learns_what_is_private(world: World) -> None:
    lab, service = world.site.lab, world.site.service
    assert len(world.answers["visitor"]) > 100
    journal = events(lab)
    hashes = [sha256(each.encode()) for each in world.secrets] + list(roster(journal).values())
    sessions = [client.cookies.get("session") for client in world.clients.values()]
    kept = [path for path in (lab.folder / PRIVATE).rglob("*") if path.is_file()]
    hashes += [sha256(path.read_bytes()) for path in kept] + [lab.task().scorer.qrels.sha256]
    key = (lab.folder / PRIVATE / SEED).read_text().strip()
    seeds = [key, sha256(key.encode())]
    assert isinstance(journal[0], Committed)
    folders = [str(lab.folder), str(lab.folder.parent), str(service.state), str(Path.home())]
    folders += ["/tmp", '.py"', "Traceback"]
    for role in ROLES:
        assert not found_in(world, role, [*hashes, *(each[:12] for each in hashes), *seeds, *folders])
        # An organiser gets a new secret in the answer to the act that made it, and nowhere else.
        shown = {place for place, _ in found_in(world, role, world.secrets)}
        expected = {"invite", "issue", "add-organiser"} if role == "organiser" else set()
        assert {place.partition(" ")[0] for place in shown} <= expected
        assert not {place for place, _ in found_in(world, role, [*DOCS, *TOPICS], words=True) if not own_run(place)}
        assert not {place for place, _ in found_in(world, role, exact(lab), words=True) if not own_run(place)}
    assert not [each for each in sessions if each]


def visitors_and_teams_learn_nothing_of_others(world: World) -> None:
    names = [*real_names(world.site.lab).values()]
    assert {*names} >= {*REAL}
    for role in ("visitor", "team"):
        said = {
            text: place
            for place, text in found_in(world, role, [*REAL, *(each.lower() for each in REAL), *UNPUBLISHED])
        }
        # The team's own name is in what it sends; nobody else's is anywhere.
        assert not said, said
        for place, text in world.answers[role].items():
            if own_run(place) and "\tQ0\t" in text:
                assert role == "team"
                found = {line.split("\t")[-1].rpartition("-")[2] for line in text.splitlines() if "\tQ0\t" in line}
                assert found <= {"one", "three"}
    # The scan finds it where it may be.
    assert {each for _, each in found_in(world, "organiser", list(REAL))} == set(REAL)
    assert found_in(world, "organiser", ["asker@example.org", "unsent-label"])


def held_out_topics_are_unknown_until_the_end(world: World) -> None:
    lab = world.site.lab
    if not lab.held_out:
        return
    _, held = public_and_held_out(lab, events(lab), frozenset(TOPICS))
    for role in ROLES:
        assert not {place for place, _ in found_in(world, role, sorted(held), words=True) if not own_run(place)}
    assert world.clients["organiser"].post("/api/v1/publish", json={}).status_code == 200
    key, journal = (lab.folder / PRIVATE / SEED).read_text().strip(), (lab.folder / "journal.jsonl").read_text()
    assert sha256(key.encode()) in journal and key not in journal


def what_fails_while_scoring_says_nothing(world: World, tmp_path: Path) -> None:
    """Also when the judgments are damaged: the upload waits, and its team sees no reason."""
    qrels, client = tmp_path / "data" / "qrels.txt", world.clients["team"]
    before = qrels.read_bytes()
    sent = client.post(
        "/api/v1/submissions", files={"run": ("y.run", run_text(rankings(9)).encode())}, data={"label": "late"}
    )
    qrels.write_bytes(before + b"T.1 0 doc-100 high\n")
    worker = UploadWorker(world.site.lab.folder, world.site.service.queue, world.site.limits)
    assert not worker.ready()
    shown = client.get(sent.headers["location"])
    assert shown.json()["state"] == "queued"
    qrels.write_bytes(before)
    assert worker.ready()
    world.site.score()
    assert client.get(sent.headers["location"]).json()["state"] == "done"


@pytest.mark.slow  # in each run of CI, however long: nothing else looks for leaks over HTTP
def test_no_role_learns_what_it_must_not(world: World, tmp_path: Path) -> None:
    nobody_learns_what_is_private(world)
    visitors_and_teams_learn_nothing_of_others(world)
    what_fails_while_scoring_says_nothing(world, tmp_path)
    held_out_topics_are_unknown_until_the_end(world)
    # The scan is no blind one: it notices whatever is put into an answer.
    lab = world.site.lab
    planted = [exact(lab)[0], DOCS[3], TOPICS[0], world.secrets[1], sha256(world.secrets[1].encode()), str(lab.folder)]
    for each in planted:
        world.answers["visitor"]["/planted"] = f"<p>{each}</p>"
        with pytest.raises(AssertionError):
            nobody_learns_what_is_private(world)
    for each in (REAL[0].lower(), UNPUBLISHED[0]):
        world.answers["visitor"]["/planted"] = f"<p>{each}</p>"
        with pytest.raises(AssertionError):
            visitors_and_teams_learn_nothing_of_others(world)
