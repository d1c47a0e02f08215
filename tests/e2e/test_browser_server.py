"""A lab's server in a real browser: from an empty lab to published results, with and without scripts."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

import httpx
import pytest
from browser_tools import fits, violations
from lab_tools import rankings, run_text
from server_tools import Program, Served, listening, program, served
from site_tools import build

from harness.labs.lab import new_lab
from harness.labs.server import processes
from harness.labs.submissions import submissions

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

pytest_plugins = ("browser_tools",)
PATIENCE = 180_000  # milliseconds; the machine may be busy
Contexts = Callable[..., "BrowserContext"]


def run(seed: int) -> bytes:
    topics = [f"M.{n}" for n in range(1, 43)]
    return run_text(rankings(seed, topics)).replace("doc-", "a1").encode()


BAD = run(9).replace(b" Q0 ", b" ", 3)


@pytest.fixture
def contexts(browser: Browser) -> Iterator[Contexts]:
    """A function that opens a browser of its own; in the end nothing may have been requested elsewhere or thrown."""
    made: list[BrowserContext] = []
    wrong: list[str] = []

    def context(script: bool = True, width: int = 1440, scheme: str = "light") -> BrowserContext:
        found = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme="dark" if scheme == "dark" else "light",
            java_script_enabled=script,
            reduced_motion="reduce",
        )
        found.set_default_timeout(PATIENCE)
        found.on("weberror", lambda error: wrong.append(str(error.error)))
        found.on("request", lambda request: None if _local(request.url) else wrong.append(request.url))
        made.append(found)
        return found

    yield context
    for each in made:
        each.close()
    assert wrong == []


def _local(address: str) -> bool:
    return urlsplit(address).scheme in ("data", "blob") or urlsplit(address).hostname in ("127.0.0.1", "localhost")


def log_in(page: Page, address: str, token: str) -> Page:
    page.goto(f"{address}/login")
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Log in").click()
    page.get_by_role("button", name="Log out").wait_for()
    return page


def heading(page: Page, text: str) -> None:
    page.get_by_role("heading", name=text, level=1).wait_for()


def submit(page: Page, content: bytes, file: str, label: str, state: str) -> None:
    """Fills in the form, sends it, and waits for the outcome; without scripts by looking again."""
    page.get_by_role("link", name="Submit", exact=True).click()
    send(page, content, file, label, state)


def send(page: Page, content: bytes, file: str, label: str, state: str) -> None:
    page.get_by_label("Run file").set_input_files({"name": file, "mimeType": "text/plain", "buffer": content})
    page.get_by_label("Label").fill(label)
    page.get_by_label("Description").fill(f"Random order, {label}.")
    page.get_by_role("button", name="Submit").click()
    page.locator("#state").filter(has_text=re.compile(f"^{state}")).wait_for()


def change(page: Page, title: str, button: str, reason: str = "") -> None:
    row = page.get_by_role("row").filter(
        has=page.get_by_role("rowheader").filter(has_text=re.compile(f"^{re.escape(title)}"))
    )
    row.locator("summary").click()
    if reason:
        row.get_by_label("Reason").fill(reason)
    row.get_by_role("button", name=button).click()


def act_as_a_team(page: Page, team: str, seed: int) -> None:
    """Submits a good, a bad, a corrected and a duplicate run; withdraws one and chooses a primary run."""
    submit(page, run(seed), "first.run", "first", "Scored")
    assert page.locator("main").inner_text().count(f"{team} / first") >= 2
    submit(page, BAD, "bad.run", "second", "Refused")
    alert = page.get_by_role("alert")
    assert "3 faults were found:" in alert.inner_text()
    assert "bad.run:1: 5 columns, expected 6 (topic Q0 document rank score tag)" in alert.inner_text()
    page.get_by_role("link", name="Submit a corrected file").click()
    assert page.get_by_label("Label").input_value() == "second"
    assert page.get_by_label("Description").input_value() == "Random order, second."
    send(page, run(seed + 1), "second.run", "second", "Scored")
    submit(page, run(seed), "again.run", "copy", "Refused")
    expected = page.get_by_role("alert").inner_text()
    assert f"again.run: the same rankings were submitted before as {team} / first" in expected
    page.get_by_role("link", name="Team", exact=True).click()
    assert "2 submissions left" in page.locator(".counts").inner_text().replace("\n", " ")
    change(page, f"{team} / second", "Make it the primary run")
    page.get_by_role("status").filter(has_text=f"{team} / second: is the primary run").wait_for()
    assert page.evaluate("document.activeElement.getAttribute('role')") == "status"
    change(page, f"{team} / first", "Withdraw", "The wrong file.")
    page.get_by_role("status").filter(has_text=f"{team} / first: withdrawn").wait_for()
    assert page.title().startswith(f"Done: Team {team}")


@pytest.mark.heavy
def test_a_lab_from_the_invitation_to_the_published_site(tmp_path: Path, contexts: Contexts) -> None:
    lab = new_lab(tmp_path / "lab", {"title": "A lab", "collection": "mini-task1", "cap": 4, "topic_pages": False})
    with program(lab.folder) as server:
        organiser = log_in(contexts().new_page(), server.address, server.organiser)
        organiser.get_by_label("Name of the team").fill("Alpha")
        organiser.get_by_role("button", name="Make an invitation link").click()
        link = organiser.get_by_role("status").locator("pre").inner_text().strip()
        organiser.get_by_role("link", name="Organise").click()
        assert link not in organiser.content()

        plain = contexts(script=False).new_page()
        plain.goto(f"{server.address}/ask")
        plain.get_by_label("Name of your team").fill("Beta")
        plain.get_by_role("button", name="Ask to join").click()
        heading(plain, "Your request waits")
        organiser.reload()
        organiser.get_by_role("button", name="Accept Beta").click()
        organiser.get_by_role("status").filter(has_text="Beta: may join").wait_for()
        plain.get_by_role("link", name="Look again").click()

        scripted = contexts().new_page()
        scripted.goto(urljoin(server.address, urlsplit(link).path))
        for page, team, seed in ((scripted, "Alpha", 1), (plain, "Beta", 3)):
            page.get_by_role("button", name="Join the lab").click()
            heading(page, "Welcome")
            page.get_by_role("link", name="Submit a run").click()
            act_as_a_team(page, team, seed)

        page = scripted
        page.get_by_role("link", name="second.run").click()
        page.get_by_role("link", name="The page of the run").click()  # it comes without a reload
        heading(page, "second")

        organiser.get_by_role("link", name="Organise").click()
        organiser.get_by_role("button", name="Freeze the lab").click()
        organiser.get_by_role("status").filter(has_text="The lab is frozen").wait_for()
        plain.reload()
        plain.get_by_role("link", name="Submit", exact=True).click()
        plain.get_by_text("The lab is frozen.").wait_for()
        assert plain.get_by_role("button", name="Submit").count() == 0
        organiser.get_by_role("button", name="Reopen the lab").click()
        organiser.get_by_role("status").filter(has_text="The lab is open again").wait_for()
        organiser.get_by_role("button", name="Publish the results").click()
        organiser.get_by_role("status").filter(has_text="download its site").wait_for()
        archive = the_site_of(organiser, server)
        live = crawl(server.address)
    assert [(each.title, each.primary, each.withdrawn) for each in submissions(lab)] == [
        ("Alpha / first", False, True),
        ("Alpha / second", True, False),
        ("Beta / first", False, True),
        ("Beta / second", True, False),
    ]
    assert live == archive
    code, said = build(lab.folder, "-o", tmp_path / "site", "--server", server.address)
    assert code == 0, said
    static = {
        path.relative_to(tmp_path / "site").as_posix(): path.read_bytes()
        for path in (tmp_path / "site").rglob("*")
        if path.is_file() and not path.name.startswith(".")
    }
    assert static.keys() == archive.keys() and static == archive


def the_site_of(organiser: Page, server: Program) -> dict[str, bytes]:
    """Waits until the pages are those of the lab as it is, and downloads them as the organiser does."""
    for _ in range(100):
        organiser.goto(f"{server.address}/organise")
        if not organiser.get_by_text("they are built again").count():
            break
        organiser.wait_for_timeout(1000)
    with organiser.expect_download() as found:
        organiser.get_by_role("link", name="Download the static site").click()
    with zipfile.ZipFile(io.BytesIO(found.value.path().read_bytes())) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def crawl(address: str) -> dict[str, bytes]:
    """All files of the live site: those that pages link to, and those that its manifest lists."""
    found: dict[str, bytes] = {}
    waiting = ["index.html", "manifest.json"]
    with httpx.Client(base_url=f"{address}/site/", timeout=60) as client:
        waiting += client.get("manifest.json").json()["files"]
        while waiting:
            path = waiting.pop()
            if path in found:
                continue
            answer = client.get(path)
            assert answer.status_code == 200, path
            found[path] = answer.content
            if path.endswith(".html"):
                for href in re.findall(r'(?:href|src)="([^"#?]+)', answer.text):
                    target = urlsplit(urljoin(f"http://site/{path}", href))
                    if target.hostname == "site" and target.scheme == "http":
                        waiting.append(target.path.lstrip("/"))
    return found


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> tuple[Served, dict[str, str]]:
    """A lab with long names, names from right to left, runs in all states, requests and uploads; and its tokens."""
    long = "A-team-with-a-name-as-long-as-the-rules-allow-of-60-letters"
    settings = {"title": "A lab with something on every page", "collection": "mini-task1", "topic_pages": False}
    lab = new_lab(
        tmp_path_factory.mktemp("labs") / "lab",
        {**settings, "cap": 9, "invalid_cap": 3, "about": "About.", "deadline": "2099-12-31T23:59:59Z"},
    )
    site = served(lab)
    tokens = {team: site.team(team) for team in ("DPRL", "فريق-البحث", long)}
    for seed, (team, label) in enumerate(
        (("DPRL", "first"), ("DPRL", "second"), ("فريق-البحث", "تجربة"), (long, long))
    ):
        assert site.submit(tokens[team], run(seed), f"{label}.run", label=label)["state"] == "done"
    assert site.submit(tokens["DPRL"], BAD, "bad.run", label="bad")["state"] == "refused"
    processes.build_pages(lab.folder, site.service.state / "site", "http://localhost", lambda: False)
    site.client(tokens["DPRL"]).post("/api/v1/withdraw", json={"label": "first", "reason": "wrong " * 30})
    site.client(tokens["DPRL"]).post(
        "/api/v1/submissions", files={"run": ("waits.run", run(8))}, data={"label": "waits"}
    )
    tokens["organiser"] = site.organiser("Ada")
    organiser = site.client(tokens["organiser"])
    organiser.post("/api/v1/disqualify", json={"team": long, "label": long, "reason": "Uses the judgments."})
    organiser.post("/api/v1/invite", json={"team": "Invited"})
    site.client().post("/ask", data={"team": long.replace("A-", "B-"), "contact": f"{'long.' * 20}name@example.org"})
    return site, tokens


@pytest.mark.heavy
@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (820, "light")])
def test_everyone_can_use_every_page(
    full: tuple[Served, dict[str, str]], contexts: Contexts, width: int, scheme: str
) -> None:
    site, tokens = full
    uploads = [each.id for each in site.service.queue.of_team("DPRL")]
    code = site.service.accounts.invite("", "", 9)
    waits = site.service.accounts.ask("Waits", "")
    pages = {
        "": ("/", "/login", "/ask", f"/join/{code}", f"/join/{waits}", "/join/unknown", "/nothing"),
        "DPRL": ("/", "/submit", "/team", *(f"/submissions/{each}" for each in uploads)),
        "organiser": ("/organise", "/organise/audit", "/organise?find=none"),
    }
    with listening(site) as address:
        for role, paths in pages.items():
            context = contexts(width=width, scheme=scheme)
            page = context.new_page()
            if role:
                log_in(page, address, tokens[role])
            for path in paths:
                page.goto(address + path)
                for details in page.locator("details").all()[:3]:
                    details.evaluate("(found) => { found.open = true }")
                assert fits(page), path
                assert violations(page, every=True) == [], path
                if width > 800:
                    page.emulate_media(media="print")
                    assert fits(page), f"{path}, printed"
                    page.emulate_media(media="screen")


@pytest.mark.slow
def test_the_form_by_keyboard_and_a_file_that_is_too_large(
    full: tuple[Served, dict[str, str]], contexts: Contexts
) -> None:
    site, tokens = full
    service = replace(site.service, settings=replace(site.service.settings, most_upload=100))
    with listening(replace(site, service=service)) as address:
        page = log_in(contexts().new_page(), address, tokens["DPRL"])
        page.goto(f"{address}/submit")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
        page.keyboard.press("Enter")
        order = []
        for _ in range(9):
            page.keyboard.press("Tab")
            assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
            order.append(page.evaluate("document.activeElement.name || document.activeElement.textContent"))
        expected = ["run", "label", "description", "kind", "code", "external_data", "metadata", "primary", "Submit"]
        assert order == expected
        page.get_by_label("Run file").set_input_files({"name": "my.run", "mimeType": "text/plain", "buffer": BAD})
        said = page.get_by_label("Run file").evaluate("(input) => input.validationMessage")
        assert said.startswith("my.run has 0") and said.endswith("are accepted.")
