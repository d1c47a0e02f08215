"""Pages of a lab's server in each of their states: what they say, and what their forms do."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from lab_tools import rankings, run_text
from server_tools import Served, served
from starlette.testclient import TestClient

from harness.labs.lab import Lab, new_lab
from harness.labs.server.processes import build_pages
from harness.labs.submit import open_lab


@dataclass
class Visit:
    """A browser without scripts: it keeps cookies, and sends the hidden fields of the page that it has opened."""

    client: TestClient
    text: str = ""
    status: int = 0

    def get(self, path: str) -> Visit:
        return self._took(self.client.get(path, follow_redirects=True))

    def send(self, path: str, files: dict[str, tuple[str, bytes]] | None = None, **fields: str) -> Visit:
        hidden = dict(re.findall(r'<input type="hidden" name="(csrf|key)" value="([^"]*)"', self.text))
        given = {**{name: hidden[name] for name in hidden if name == "csrf" or files}, **fields}
        return self._took(self.client.post(path, data=given, files=files, follow_redirects=True))

    def _took(self, answer: object) -> Visit:
        self.status, self.text = answer.status_code, answer.text  # type: ignore[attr-defined]
        return self

    @property
    def title(self) -> str:
        return html.unescape(re.search("<title>(.*?)</title>", self.text)[1])  # type: ignore[index]

    @property
    def said(self) -> str:
        """The text of the page's content."""
        content = self.text.partition('<main id="content"')[2].partition("</main>")[0].partition(">")[2]
        return html.unescape(re.sub(r"\s+", " ", re.sub("<[^>]+>", " ", content))).strip()


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    rules = {"cap": 3, "invalid_cap": 2, "require": ["description"]}
    return new_lab(tmp_path / "lab", {"title": "Lab <i>x</i>", "collection": "mini-task1", **rules})


@pytest.fixture
def site(lab: Lab) -> Served:
    return served(lab)


def visitor(site: Served, token: str = "") -> Visit:
    visit = Visit(site.client())
    return visit.get("/login").send("/login", token=token) if token else visit


def joined(site: Served, team: str = "SRC") -> Visit:
    return visitor(site, site.team(team))


def run(seed: int) -> bytes:
    topics = [f"M.{n}" for n in range(1, 43)]
    return run_text(rankings(seed, topics)).replace("doc-", "a1").encode()


def upload(visit: Visit, content: bytes, label: str, name: str = "my.run") -> Visit:
    return visit.get("/submit").send("/submit", {"run": (name, content)}, description="One.", label=label)


def page_of(team: Visit, name: str) -> str:
    """Address of the page of an upload."""
    found = re.search(rf'href="(/submissions/[^"]+)"><bdi>{name}<', team.get("/team").text)
    assert found is not None
    return found[1]


def test_visitors_see_the_lab_and_how_to_take_part(site: Served) -> None:
    home = visitor(site).get("/")
    assert home.title == "Lab <i>x</i>" and "<i>x</i>" not in home.text
    assert "built after the first submission" in home.said and "Ask to join" in home.said
    assert visitor(site).get("/nothing").status == 404
    assert visitor(site).get("/team").title.startswith("Log in")
    wrong = visitor(site).get("/login").send("/login", token="wrong")  # noqa: S106
    assert wrong.status == 401 and wrong.title.startswith("Error: Log in")
    assert 'role="alert"' in wrong.text and "unknown or was revoked" in wrong.said


def test_a_request_waits_then_opens_then_is_used(site: Served) -> None:
    asking = visitor(site).get("/ask").send("/ask", team="bad name", contact="")
    assert asking.status == 422 and 'value="bad name"' in asking.text
    asking.send("/ask", team="فريق", contact="a@example.org")
    link = asking.text.partition("data-copy><code>")[2].partition("\n")[0].removeprefix("http://localhost")
    assert asking.title.startswith("Your request waits")
    organiser = visitor(site, site.organiser("Ada"))
    assert "1 request to join" in organiser.said and organiser.title.startswith("Organise")
    id_ = re.search(r'name="id" value="([^"]+)"', organiser.text)[1]  # type: ignore[index]
    done = organiser.send("/do/accept", id=id_)
    assert done.title.startswith("Done: ") and 'role="status"' in done.text and "may join" in done.said
    assert "0 requests to join" in done.said
    assert f"organiser Ada accept id: {id_}, team: فريق" in organiser.get("/organise/audit").said
    assert asking.get(link).title.startswith("Join the lab")
    welcome = asking.send(link)
    token = welcome.text.partition("data-copy><code>")[2].partition("\n")[0]
    assert site.service.by_token(token).name == "فريق"  # type: ignore[union-attr]
    assert "فريق" in asking.get("/team").title
    assert "was used" in visitor(site).get(link).said
    assert visitor(site).get("/join/wrong").status == 404


def test_an_invitation_is_shown_once_and_can_be_cancelled(site: Served) -> None:
    organiser = visitor(site, site.organiser())
    wrong = organiser.get("/organise").send("/do/invite", team="A", contact="nobody")
    assert wrong.status == 422 and 'value="nobody"' in wrong.text
    link = re.search(r"http://localhost(/join/\S+)", organiser.send("/do/invite", team="A").text)[1]  # type: ignore[index]
    assert link not in organiser.get("/organise").text
    id_ = site.service.accounts.invitations()[0].id
    organiser.send("/do/refuse", id=id_)
    assert "withdrawn by the organisers" in visitor(site).get(link).said
    assert organiser.get("/do/refuse").title.startswith("Organise")  # the address of an action, opened by hand


def test_a_form_stays_filled_in_after_an_error(site: Served) -> None:
    team = joined(site)
    assert "submit my.run --server http://localhost --description 'one sentence'" in team.get("/").said
    assert "3 submissions left" in team.get("/submit").said
    found = "automatic: nobody adapted queries or results to these topics; manual: somebody did; post-hoc: listed"
    assert found in team.said
    given = {"description": "Two words.", "kind": "manual", "primary": "true", "label": "x<y", "key": "?"}
    team.send("/submit", {"run": ("my.run", b"")}, **given)
    assert team.status == 422 and "idempotency key: expected 1 to 100 letters" in team.said
    assert 'value="Two words."' in team.text and 'value="x&lt;y"' in team.text
    assert "<option selected>manual" in team.text and 'value="true" checked' in team.text


def test_an_upload_waits_is_refused_line_by_line_and_is_corrected(site: Served) -> None:
    team = joined(site)
    waits = upload(team, run(1).replace(b" Q0 ", b" ", 2), "first", "my run.run")
    assert "Waiting; it is next" in waits.said and "http-equiv" in waits.text
    site.score()
    refused = waits.get(page_of(team, "my_run.run"))
    assert "2 faults were found: my_run.run:1: 5 columns" in refused.said and 'role="alert"' in refused.text
    again = re.search(r'href="(/submit\?again=[^"]+)"', refused.text)[1]  # type: ignore[index]
    assert 'value="first"' in team.get(again).text and 'value="One."' in team.text
    assert 'value="first"' not in joined(site, "Other").get(again).text
    assert "1 invalid file left 1 of 2 made" in team.get("/team").said
    upload(team, run(2).replace(b" Q0 ", b" ", 1), "first")
    site.score()
    assert "has sent 2 of 2 invalid files" in team.get("/submit").said and 'type="file"' not in team.text


@pytest.mark.slow
def test_the_result_of_a_run_and_what_a_team_does_with_it(site: Served, lab: Lab) -> None:
    team = joined(site)
    for seed, label in ((1, "first"), (2, "second")):
        upload(team, run(seed), label, f"{label}.run")
        site.score()
    page = page_of(team, "second.run")
    done = team.get(page)
    assert done.title.startswith("Submission second.run: scored")
    said = "Not ranked, since another run is the team's primary run; as the primary run its rank would be 1 of 1"
    assert said in done.said
    assert "rank at the time of submission" not in done.said
    assert "page of the run is being built" in done.said and "SRC / first best ranked run, earlier run" in done.said
    seen = done.client.get(f"{page}/state").json()
    ended = build_pages(lab.folder, site.service.state / "site", "http://localhost", lambda: False)
    assert ended is not None and ended[1]
    assert seen == {"state": "done", "version": "done"}
    assert done.client.get(f"{page}/state").json()["version"] == "done with page"
    built = re.search(r'href="(/site/[^"]+)">The page', team.get(page).text)[1]  # type: ignore[index]
    assert "ranks primary runs only" in team.said and "second" in team.get(built).text
    about = team.get(f"/site/{site.service.base}/about.html").text
    assert "harness submit my.run --server http://localhost --description" in about
    team.get("/team").send("/do/primary", label="second")
    assert team.title.startswith("Done: Team SRC") and "primary run, automatic" in team.said
    team.send("/do/withdraw", label="first", version="1", reason="<b>wrong</b>")
    assert "withdrawn, automatic reason: <b>wrong</b>" in team.said and "1 submission left" in team.said
    team.send("/do/withdraw", label="first", version="1")
    assert team.status == 422 and team.title.startswith("Error: ") and "withdrawn" in team.said
    upload(team, run(3), "third")
    site.score()
    assert "has made 3 of 3 submissions" in team.get("/submit").said and 'type="file"' not in team.text
    home = visitor(site).get("/")
    assert "rank run nDCG′ 95% interval 1 SRC / first 0.0393" in home.said


@pytest.mark.slow
def test_the_first_page_of_a_lab_with_a_baseline_and_post_hoc_runs(tmp_path: Path) -> None:
    """The baseline is no run of a team, and runs without a rank are listed if there are no others."""
    rules = {"title": "Late", "collection": "mini-task1", "deadline": "2020-01-01T00:00:00+00:00"}
    (tmp_path / "base.run").write_bytes(run(9))
    for name, baseline in (("past", None), ("based", tmp_path / "base.run")):
        late = served(open_lab(tmp_path / name, rules, baseline))
        assert late.submit(late.team("SRC"), run(1), label="first", kind="post-hoc")["state"] == "done"
        built = build_pages(late.lab.folder, late.service.state / "site", "http://localhost", lambda: False)
        assert built is not None and built[1]
        home = visitor(late).get("/").said
        assert "Runs 1 run by 1 team" in home
        facts = late.client().get("/api/v1/lab").json()
        assert (facts["submissions"], facts["teams"]) == (1, 1)
        organiser = visitor(late, late.organiser())
        assert "1 submission " in organiser.said and "baseline" not in organiser.said
        for action in ("refund", "disqualify"):
            organiser.send(f"/do/{action}", team="baseline", label="base", version="1")
            assert organiser.status == 422 and "team 'baseline': is the organisers'" in organiser.said
        assert ("– SRC / first 0.0393" in home) == (baseline is None)


def test_organisers_decide_and_teams_see_it(site: Served) -> None:
    team = joined(site)
    upload(team, run(1), "first")
    site.score()
    organiser = visitor(site, site.organiser())
    assert "1 submission" in organiser.said and "Freeze the lab" in organiser.said
    organiser.send("/do/disqualify", team="SRC", label="first", version="1", reason="Uses the judgments.")
    assert "disqualified, automatic reason: Uses the judgments." in organiser.said
    assert "appeal" not in team.get("/team").said.replace("Appeal", "")
    team.send("/do/appeal", label="first", version="1", reason="It does not.")
    assert "appeal: It does not." in organiser.get("/organise").said
    organiser.send("/do/extend", deadline="soon")
    assert organiser.status == 422 and 'value="soon"' in organiser.text
    organiser.send("/do/freeze", reason="The end.")
    assert "Reopen the lab" in organiser.said
    assert "The lab is frozen." in team.get("/submit").said and 'type="file"' not in team.text
    assert "Submit a run" not in team.get("/team").said
    trail = organiser.get("/organise/audit").said
    assert "organiser org freeze reason: The end." in trail and "team SRC appeal" in trail
    assert team.get("/organise").status == 403 and 'href="/team">To your team' in team.text
    organiser.get("/submit")
    assert organiser.status == 403 and "Teams only" in organiser.said and "Log in" not in organiser.text


def test_a_team_sees_that_its_run_was_reinstated_and_why(site: Served) -> None:
    token = site.team("SRC")
    site.submit(token, run(1), label="first", description="One.")
    team, organiser = visitor(site, token), visitor(site, site.organiser())
    organiser.send("/do/disqualify", team="SRC", label="first")
    team.send("/do/appeal", label="first", reason="It is ours.")
    organiser.send("/do/reinstate", reason="It is.", team="SRC", label="first")
    assert "primary run, reinstated, automatic appeal: It is ours. reinstated: It is." in team.get("/team").said
    assert site.client(token).get("/api/v1/team").json()["runs"][0]["reinstated"] == "It is."
    organiser.send("/do/disqualify", team="SRC", label="first")
    assert "reinstated" not in team.get("/team").said


def test_the_state_of_a_published_lab_and_what_is_possible_then(tmp_path: Path) -> None:
    common = {"collection": "mini-task1", "private": True, "held_out": True, "cap": 5}
    early = served(open_lab(tmp_path / "early", {"title": "E", "deadline": "2099-01-01T00:00:00+00:00", **common}))
    assert "Possible after the deadline" in visitor(early, early.organiser()).said
    site = served(open_lab(tmp_path / "held", {"title": "H", **common}))
    organiser, team = visitor(site, site.organiser()), joined(site)
    assert "State open" in organiser.said and 'action="/do/publish"' in organiser.text
    organiser.send("/do/publish")
    assert "State published, frozen" in organiser.said and "State published, frozen" in team.get("/").said
    assert not re.search('action="/do/(publish|extend|freeze)"', organiser.text)
    assert "Teams can submit post-hoc runs and withdraw runs again." in organiser.said
    organiser.send("/do/reopen")
    assert "State published, open for post-hoc runs" in organiser.said and 'action="/do/freeze"' in organiser.text
    assert not re.search('action="/do/(publish|extend|reopen)"', organiser.text)
    assert "The lab has ended; only post-hoc runs are accepted." in team.get("/submit").said
    assert "<option selected>post-hoc" in team.text


def test_a_lab_without_held_out_topics_is_published_by_a_freeze(site: Served) -> None:
    organiser = visitor(site, site.organiser())
    organiser.send("/do/freeze", reason="A pause.")
    assert "State frozen" in organiser.said and 'action="/do/publish"' not in organiser.text
    organiser.send("/do/reopen")
    organiser.send("/do/publish")
    assert "State published, frozen" in organiser.said and 'action="/do/publish"' not in organiser.text
    assert "Teams can submit, withdraw and choose primary runs again." in organiser.said
    organiser.send("/do/reopen")
    assert "State open" in organiser.said and 'action="/do/publish"' in organiser.text


@pytest.mark.slow
def test_the_first_page_leads_to_the_final_ranking_once_it_is_built(tmp_path: Path) -> None:
    rules = {"title": "H", "collection": "mini-task1", "private": True, "held_out": True, "cap": 5}
    site = served(open_lab(tmp_path / "held", rules))
    assert site.submit(site.team("SRC"), run(1), label="first")["state"] == "done"
    for ended in (False, True):
        if ended:
            visitor(site, site.organiser()).send("/do/publish")
        built = build_pages(site.lab.folder, site.service.state / "site", "http://localhost", lambda: False)
        assert built is not None and built[1]
        home = visitor(site).get("/")
        assert ("The final ranking is by the means at the end" in home.said) == ended
    link = re.search(r'href="([^"]+)">final ranking', home.text)[1]  # type: ignore[index]
    assert home.get(link).status == 200 and "Final ranking" in home.title


@pytest.mark.slow
def test_submissions_are_found_among_many(site: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.labs.server.organising._FEW", 0)
    monkeypatch.setattr("harness.labs.server.organising._MOST_ROWS", 1)
    team = joined(site)
    for seed, label in ((1, "first"), (2, "second")):
        upload(team, run(seed), label)
        site.score()
    organiser = visitor(site, site.organiser())
    assert "1 of 2 shown" in organiser.said and "SRC / second" in organiser.said and "SRC / first" not in organiser.said
    assert "SRC / first" in organiser.get("/organise?find=FIRST").said
    assert "No submission matches." in organiser.get("/organise?find=zzz").said
