"""Attacks on a lab's server, each of which fails, and succeeds once its guard is taken out of the program."""

from __future__ import annotations

import asyncio
import re
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from guard_tools import without
from server_tools import FAST, Served, served
from starlette.testclient import TestClient
from starlette.types import Message, Receive, Scope, Send

from harness.io.files import data_root
from harness.labs.closing import freeze, reopen
from harness.labs.lab import new_lab
from harness.labs.roster import add_team, revoke_team, roster
from harness.labs.server import api, guard, organising, pages, service, web
from harness.labs.server.accounts import Accounts
from harness.labs.server.app import Pages, application
from harness.labs.server.guard import Rates, RefusedRequestError, RequestLimits
from harness.labs.server.lab_snapshot import SITE, without_folders
from harness.labs.server.service import ServerSettings
from harness.render import html

RUN = (data_root() / "runs/mini/mini-task1/overlap.run").read_bytes()
SCRIPT = "<script>alert(1)</script>"
LARGE = 'raise RefusedRequestError(413, f"the request is larger than {self._most(scope):,} bytes")'
UPLOADS = 'raise RefusedRequestError(429, f"team {who.name}: too many uploads; wait a minute")'


def changed(**settings: float | str) -> ServerSettings:
    """Returns the settings of tests with others."""
    return replace(FAST, **settings)  # type: ignore[arg-type]


@dataclass
class World:
    """A lab with two teams, a run of team A, and its upload."""

    site: Served
    a: str
    b: str
    organiser: str
    upload: str

    def client(self, token: str = "", **settings: float | str) -> TestClient:
        """Returns a client of the server, with other settings."""
        made = replace(self.site.service, settings=changed(**settings))
        return Served(self.site.lab, made).client(token)

    def browser(self, token: str) -> tuple[TestClient, str]:
        """Returns a browser that is logged in, and the token of its forms."""
        client = self.client()
        assert client.post("/login", data={"token": token}).status_code == 303
        return client, found_csrf(client.get("/").text)


def found_csrf(page: str) -> str:
    found = re.search('name="csrf" value="([^"]+)"', page)
    return found[1] if found else ""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("served") / "lab"
    site = served(new_lab(folder, {"title": f"A lab {SCRIPT}", "collection": "mini-task1"}))
    a, b, organiser = site.team("A"), site.team("B"), site.organiser()
    upload = site.submit(a, RUN, label="one")
    assert upload["state"] == "done"
    site.organiser("second")
    return World(site, a, b, organiser, str(upload["id"]))


Try = Callable[[World], bool]
Guarding = tuple[Callable[..., Any], str, str]


@dataclass(frozen=True)
class Attack:
    """An attack: whether it succeeds, and the guards without which it does."""

    tried: Try
    guards: tuple[Guarding, ...] = field(default=())


ATTACKS: list[Attack] = []


def attack(*guards: Guarding) -> Callable[[Try], Try]:
    def listed(tried: Try) -> Try:
        ATTACKS.append(Attack(tried, guards))
        return tried

    return listed


@pytest.mark.parametrize("given", ATTACKS, ids=lambda given: given.tried.__name__)
def test_each_attack_succeeds_without_its_guard_alone(world: World, given: Attack) -> None:
    assert not given.tried(world)
    for function, old, new in given.guards:
        with without(function, old, new):
            assert given.tried(world), f"no guard: {function.__qualname__}: {old}"
    assert not given.tried(world)


# ---- paths -----------------------------------------------------------------------------------------------------------


@attack(
    (
        service.file_name,
        'return name if name.strip("._") and not name.endswith(sidecar.ENDING) else "run.txt"',
        "return given",
    )
)
def names_a_file_outside_its_folder(world: World) -> bool:
    outside = world.site.service.state / "uploads" / "outside.run"
    world.client(world.b).post("/api/v1/submissions", files={"run": ("../outside.run", b"x")})
    world.site.service.queue.refuse("B", "removed")
    found = outside.exists()
    outside.unlink(missing_ok=True)
    return found


def _hide(world: World) -> Path:
    root = world.site.service.state / SITE
    (root / ".kept").mkdir(parents=True, exist_ok=True)
    (root / ".kept" / "hidden.txt").write_text("hidden")
    with suppress(FileExistsError):
        (root / "link.txt").symlink_to(world.site.lab.folder / "journal.jsonl")
    return root


@attack((Pages.get_response, "if HIDDEN.search(path):", "if False:"))
def reads_a_hidden_file_of_the_site(world: World) -> bool:
    _hide(world)
    return any(
        world.client().get(f"/site/{path}").status_code == 200 for path in (".kept/hidden.txt", "%2ekept/hidden.txt")
    )


@attack((organising.site_zip, "if HIDDEN.search(name) or", "if"))
def gets_hidden_files_in_the_zip(world: World) -> bool:
    _hide(world)
    return ".kept/hidden.txt" in _zipped(world)


@attack((organising.site_zip, "or not path.resolve().is_relative_to(root)", ""))
def follows_a_link_out_of_the_site_in_the_zip(world: World) -> bool:
    _hide(world)
    return "link.txt" in _zipped(world)


def _zipped(world: World) -> list[str]:
    browser, _ = world.browser(world.organiser)
    return zipfile.ZipFile(BytesIO(browser.get("/organise/site.zip").content)).namelist()


@attack((without_folders, "return tuple(out)", "return tuple(lines)"))
def learns_a_path_of_the_server(world: World) -> bool:
    freeze(world.site.lab)
    try:
        browser, csrf = world.browser(world.organiser)
        said = browser.post("/do/freeze", data={"csrf": csrf}).text
        said += world.client(world.organiser).post("/api/v1/freeze", json={}).text
    finally:
        reopen(world.site.lab)
    assert said.count("is frozen already") == 2
    return str(world.site.lab.folder.parent) in said


# ---- whose -----------------------------------------------------------------------------------------------------------


@attack((service.Service.may_see, "caller.name == team", "True"))
def reads_a_run_of_another_team(world: World) -> bool:
    client = world.client(world.b)
    upload = f"/submissions/{world.upload}"
    paths = ["/api/v1/runs/A/one/1", f"/api/v1{upload}", upload, f"{upload}/state"]
    return any(client.get(path).status_code == 200 for path in paths)


@attack((service.Service.may_see, "caller is not None and (caller.role", "(caller is None or caller.role"))
def reads_a_run_without_a_token(world: World) -> bool:
    return any(
        world.client().get(path).status_code == 200 for path in ("/api/v1/runs/A/one/1", f"/submissions/{world.upload}")
    )


@attack((web.caller_as, "who is None or who.role != role", "who is None"))
def acts_as_an_organiser_with_a_teams_token(world: World) -> bool:
    client = world.client(world.a)
    done = [
        client.get(path).status_code for path in ("/organise", "/organise/audit", "/organise/site.zip", "/api/v1/audit")
    ]
    return 200 in [*done, client.post("/api/v1/invite", json={}).status_code]


@attack((add_team, "if new and team in there:", "if False:"))
def joins_as_a_team_whose_token_was_revoked(world: World) -> bool:
    """And thus gets its runs, since an invitation may leave the name to the team."""
    if "Gone" not in roster(world.site.service.live.events()):
        add_team(world.site.lab, "Gone")
    revoke_team(world.site.lab, "Gone")
    link = world.client(world.organiser).post("/api/v1/invite", json={}).json()["secret"]
    return world.client().post(link, data={"team": "Gone"}).status_code == 200


# ---- tokens and sessions ---------------------------------------------------------------------------------------------


@attack((Accounts.in_session, "if hmac.compare_digest(current, token) else None", ""))
def keeps_the_session_of_a_revoked_token(world: World) -> bool:
    _, token = add_team(world.site.lab, "C")
    browser, _ = world.browser(token)
    assert browser.get("/team").status_code == 200
    revoke_team(world.site.lab, "C")
    return browser.get("/team").status_code == 200


@attack((roster, "token_of.pop(event.team, None)", "pass"))
def uses_a_revoked_token(world: World) -> bool:
    with without(add_team, "if team in taken:", "if False:"):
        _, token = add_team(world.site.lab, "D")
    revoke_team(world.site.lab, "D")
    client = world.client(token)
    return 401 not in (
        client.get("/api/v1/team").status_code,
        client.post("/api/v1/submissions", files={"run": RUN}).status_code,
    )


@attack((Accounts.remove_organiser, 'session.rows("DELETE FROM organisers WHERE name = ?", name)', ""))
def stays_an_organiser_after_removal(world: World) -> bool:
    token = world.site.organiser("third")
    assert world.client(world.organiser).post("/api/v1/remove-organiser", json={"name": "third"}).status_code == 200
    return world.client(token).get("/api/v1/audit").status_code == 200


@attack((pages._log_in_with_token, "_end(request)", ""))
def keeps_the_session_before_the_login(world: World) -> bool:
    browser, _ = world.browser(world.a)
    old = browser.cookies["session"]
    browser.post("/login", data={"token": world.b})
    assert browser.cookies["session"] != old
    other = world.client()
    other.cookies.set("session", old)
    return other.get("/team").status_code == 200


@attack((Accounts.log_in, "secret, csrf = secrets.token_urlsafe(32),", 'secret, csrf = "chosen",'))
def fixes_the_secret_of_a_session(world: World) -> bool:
    victim, attacker = world.client(), world.client()
    world.site.service.accounts.log_out("chosen")
    attacker.cookies.set("session", "chosen")
    victim.post("/login", data={"token": world.a})
    return attacker.get("/team").status_code == 200


@attack(
    (pages._set_cookie, "httponly=True", "httponly=False"),
    (pages._set_cookie, 'samesite="lax"', 'samesite="none"'),
    (pages._set_cookie, "secure=secure", "secure=False"),
)
def gets_a_cookie_by_script_or_other_site_or_without_encryption(world: World) -> bool:
    client = world.client(url="https://localhost")
    cookie = client.post("/login", data={"token": world.a}).headers["set-cookie"].lower()
    return not (
        cookie.startswith("__host-session=")
        and {"httponly", "samesite=lax", "secure", "path=/"} <= {*cookie.split("; ")}
    )


# ---- forms of other sites --------------------------------------------------------------------------------------------


@attack((web.check_form, "same_origin(request) and ", ""))
def sends_a_form_with_the_token_from_another_site(world: World) -> bool:
    with without(web.fields, "if not same_origin(request):", "if False:"):
        return _sends(world, None, {"origin": "https://evil.example"})


@attack((web.fields, "if not same_origin(request):", "if False:"))
def logs_in_a_visitor_from_another_site(world: World) -> bool:
    forged = [{"origin": each} for each in ("https://evil.example", "null")]
    forged += [{"sec-fetch-site": each} for each in ("cross-site", "same-site")]
    return any(
        world.client().post("/login", data={"token": world.a}, headers=each).status_code == 303 for each in forged
    )


@attack((web.check_form, 'and same(str(given.get("csrf", "")), who.csrf)', ""))
def sends_a_form_without_the_token_of_the_session(world: World) -> bool:
    other = world.browser(world.a)[1]
    return any(_sends(world, each, {}) for each in ("", other, "x"))


def _sends(world: World, csrf: str | None, headers: dict[str, str]) -> bool:
    """Sends forms; without a token, with that of the session."""
    browser, own = world.browser(world.a)
    token = own if csrf is None else csrf
    done = browser.post("/do/primary", data={"label": "one", "csrf": token}, headers=headers)
    sent = browser.post("/submit", files={"run": RUN}, data={"csrf": token}, headers=headers)
    world.site.service.queue.refuse("A", "removed")
    assert {done.status_code, sent.status_code} <= {200, 303, 403}
    return 403 not in (done.status_code, sent.status_code)


@attack((api._action, "if who.csrf:", "if False:"))
def acts_by_the_api_with_the_session_of_a_browser(world: World) -> bool:
    browser, _ = world.browser(world.a)
    return (
        browser.post("/api/v1/primary", content=b'{"label": "one"}', headers={"content-type": "text/plain"}).status_code
        == 200
    )


@attack(
    (pages._page_after, 'wanted if wanted in ("/submit", "/team", "/organise", "/organise/audit") else ""', "wanted")
)
def sends_people_to_another_site_after_the_login(world: World) -> bool:
    wanted = ("https://evil.example", "//evil.example", "/\\evil.example", "/team/../..//evil.example")
    answers = [world.client().post("/login", data={"token": world.a, "next": each}) for each in wanted]
    return any(each.headers["location"] != "/team" for each in answers)


@attack((RequestLimits._check, 'raise RefusedRequestError(400, "host: is not the address of this server")', "pass"))
def is_answered_under_another_name(world: World) -> bool:
    names = ("evil.example", "evil@localhost", "localhost/evil", "localhost#", "localhost:x", "[::1", "")
    return any(world.client().get("/api/v1/lab", headers={"host": name}).status_code != 400 for name in names)


@attack(
    (guard._add_headers, "headers.setdefault(name, value)", "pass"),
    (guard._add_headers, 'headers.setdefault("cache-control", "no-store")', ""),
)
def is_framed_or_kept_or_taken_for_another_type(world: World) -> bool:
    answers = [
        world.client().get(path).headers for path in ("/", "/api/v1/lab", "/nothing", "/api/v1/audit", "/site/none")
    ]
    wanted = {"x-content-type-options": "nosniff", "x-frame-options": "DENY", "cache-control": "no-store"}
    return any(each.get(name) != value for each in answers for name, value in wanted.items())


# ---- limits ----------------------------------------------------------------------------------------------------------


def _too_many(status: list[int]) -> bool:
    return 429 not in status


@attack((RequestLimits._check, 'raise RefusedRequestError(429, "too many requests; wait a minute")', "pass"))
def asks_too_often(world: World) -> bool:
    client = world.client(rate=3)
    return _too_many([client.get("/api/v1/lab").status_code for _ in range(5)])


@attack((guard.client_address, "return str(ipaddress.ip_network((address, 64), strict=False))", "return str(address)"))
def asks_too_often_from_all_addresses_of_a_network(world: World) -> bool:
    app = application(replace(world.site.service, settings=replace(FAST, rate=3)))
    clients = [TestClient(app, "http://localhost", client=(f"2001:db8::{n}", 1)) for n in range(1, 6)]
    return _too_many([each.get("/api/v1/lab").status_code for each in clients])


@attack((web.attempt, 'raise RefusedRequestError(429, "too many wrong tokens; wait a minute")', "pass"))
def guesses_tokens_and_invitations(world: World) -> bool:
    client = world.client(attempts=3)
    status = [client.post("/login", data={"token": f"guess {n}"}).status_code for n in range(2)]
    status += [client.get("/join/guess").status_code, client.get("/join/guess").status_code]
    return _too_many([*status, client.get("/api/v1/team", headers={"authorization": "Bearer guess"}).status_code])


@attack((web.upload_rate, UPLOADS, "pass"))
def uploads_too_often(world: World) -> bool:
    client = world.client(world.b, uploads=2)
    return _too_many([client.post("/api/v1/submissions", files={"other": b"x"}).status_code for _ in range(4)])


@attack((RequestLimits._check, LARGE, "pass"))
def announces_a_body_that_is_too_large(world: World) -> bool:
    lengths = (b"1000000000000", b"9" * 60, b"-1", b"+5", "\u0663".encode())
    heads = [{b"content-length": each} for each in lengths]
    status = [world.client().post("/ask", content=b"x", headers=each).status_code for each in heads]
    return status != [413] * len(lengths)


@attack((RequestLimits._limited, "if got > most:", "if False:"))
def sends_a_body_that_is_too_large_in_parts(world: World) -> bool:
    def parts(many: int) -> Iterator[bytes]:
        yield from (b"team=" + b"x" * 1_000,) * many

    refused = world.client().post(
        "/ask", content=parts(200), headers={"content-type": "application/x-www-form-urlencoded"}
    )
    large = world.client(world.b, most_upload=1 << 10).post(
        "/api/v1/submissions", content=parts(5_000), headers={"content-type": "multipart/form-data; boundary=x"}
    )
    return 413 not in (refused.status_code, large.status_code)


@attack((RequestLimits._check, 'raise RefusedRequestError(400, "the request has two lengths")', "pass"))
def sends_a_body_of_two_lengths(world: World) -> bool:
    heads = {"content-length": "1", "transfer-encoding": "chunked"}
    return world.client().post("/login", content=b"x", headers=heads).status_code != 400


@attack((web.upload_rate, "if receiving[who.name] >= _AT_ONCE:", "if False:"))
def sends_many_uploads_at_once(world: World) -> bool:
    client = world.client(world.b)
    client.app.app.state.receiving["B"] = 4  # type: ignore[attr-defined]
    return client.post("/api/v1/submissions", files={"other": b"x"}).status_code != 429


def _received(world: World, receive: Callable[[], Any], **settings: float | str) -> int:
    """Sends a body to the guard alone; returns the status, 0 if it waits forever."""
    status: list[int] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive()).get("more_body"):
            pass
        raise RefusedRequestError(200, "all was received")

    async def send(message: Message) -> None:
        status.append(message.get("status", 0))

    scope = {"type": "http", "path": "/submit", "scheme": "http", "method": "POST", "query_string": b""}
    scope["headers"] = [(b"host", b"localhost")]
    guarded = RequestLimits(app, changed(**settings), Rates(), frozenset({"localhost"}))

    async def answered() -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(guarded(scope, receive, send), 0.5)

    asyncio.run(answered())
    return status[0] if status else 0


@attack((RequestLimits._limited, "await asyncio.wait_for(receive(), idle)", "await receive()"))
def sends_nothing_of_a_body(world: World) -> bool:
    return _received(world, lambda: asyncio.sleep(3600), idle=0.01) != 408


@attack((RequestLimits._limited, "if not ended and beyond > 0 and got < beyond * least:", "if False:"))
def sends_a_body_byte_by_byte(world: World) -> bool:
    sent = 0

    async def receive() -> Message:
        nonlocal sent
        sent += 1
        if sent > 60:
            return {"type": "http.request", "body": b"", "more_body": False}
        await asyncio.sleep(0.002)
        return {"type": "http.request", "body": b"x", "more_body": True}

    return _received(world, receive, idle=0.02, least_speed=1 << 20) != 408


# ---- texts -----------------------------------------------------------------------------------------------------------


@attack((html.template, "autoescape=True", "autoescape=False"))
def puts_a_script_into_a_page(world: World) -> bool:
    html.template.cache_clear()
    with ExitStack() as after:
        after.callback(html.template.cache_clear)
        client = world.client()
        return SCRIPT in client.get("/").text + client.post("/ask", data={"team": SCRIPT, "contact": SCRIPT}).text


@attack((Accounts._add, "or not _CONTACT.fullmatch(contact)", ""))
def adds_an_address_to_a_message(world: World) -> bool:
    folder = world.site.service.state / "outbox"
    world.client(world.organiser).post("/api/v1/invite", json={"contact": "a@example.org,b@evil.example"})
    written = [path.read_text() for path in folder.glob("*.eml")] if folder.exists() else []
    for path in folder.glob("*.eml"):
        path.unlink()
    return any("evil.example" in text for text in written)
