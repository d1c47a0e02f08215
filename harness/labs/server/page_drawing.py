"""Drawing of pages, what pages of visitors, teams and organisers share, and the results that were built."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from functools import cache, lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from harness.errors import counted_text
from harness.labs.board import Mean, Span, leaderboard_from_json, shown_columns
from harness.labs.journal import NAME_RULE
from harness.labs.lab import Lab
from harness.labs.names import utc, zoned
from harness.labs.server.accounts import Caller
from harness.labs.server.guard import RefusedRequestError
from harness.labs.server.lab_snapshot import SITE, UnreadableError
from harness.labs.server.service import Service
from harness.labs.server.web import caller, service_of
from harness.labs.submissions import Submission
from harness.render import html
from harness.scoring.protocol import load_protocol
from harness.version import __version__

TEMPLATES = Path(__file__).parent / "templates"


@cache
def _styles() -> str:
    shared = "".join(html.read_template(name) for name in ("report.css", "site.css"))
    return shared + html.read_template("server.css", TEMPLATES)


def page(
    request: Request,
    template: str,
    title: str,
    who: Caller | None,
    *,
    status: int = 200,
    errors: tuple[str, ...] = (),
    heading: str = "",
    done: str = "",
    secret: str = "",
    waits: bool = False,
    **values: object,
) -> Response:
    """Draws a page from `templates/`; its heading is its title unless given."""
    from markupsafe import Markup, escape

    service = service_of(request)
    here = request.url.path
    if here.startswith("/do/") and who is not None:
        here = home_of(who)
    is_built = built(service)
    tabs = [("Home", "/"), *([("Results", f"/site/{service.base}/index.html")] if is_built else [])]
    tabs.append(("Downloads", "/downloads"))
    if who is None:
        tabs += [("Log in", "/login"), *([("Ask to join", "/ask")] if service.settings.asking else [])]
    elif who.role == "team":
        tabs += [("Submit", "/submit"), ("Team", "/team")]
    else:
        tabs += [("Organise", "/organise"), ("Audit", "/organise/audit")]
    code = html.read_template("server.js", TEMPLATES)
    csrf = who.csrf if who is not None else ""
    text = html.template(
        f"{template}.html.j2", TEMPLATES
    ).render(
        title=title,
        heading=heading or title,
        lab=_lab_title(service),
        tabs=tabs,
        here=here,
        who=f"{who.role} {who.name}" if who is not None else "",
        secret_field=Markup(f'<input type="hidden" name="csrf" value="{escape(csrf)}">'),  # noqa: S704 - escaped
        errors=service.shown(errors),
        done=done,
        secret=secret,
        style=Markup(_styles()),  # noqa: S704 - our own files
        script=Markup(code),  # noqa: S704 - our own file
        waits=waits,
        version=__version__,
        service=service,
        built=is_built,
        role="" if who is None else who.role,
        rule=f"{NAME_RULE[:1].upper()}{NAME_RULE[1:]}.",
        **values,
    )
    policy = (
        f"default-src 'none'; style-src {html.source_hash(_styles())}; script-src {html.source_hash(code)}; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    )
    return HTMLResponse(text, status, {"content-security-policy": policy})


def _lab_title(service: Service) -> str:
    try:
        return service.lab().title
    except UnreadableError:  # a page that says so is drawn nevertheless
        return "Lab"


def home_of(who: Caller) -> str:
    """Returns the page on which a caller acts."""
    return "/team" if who.role == "team" else "/organise"


def built(service: Service) -> bool:
    """Returns whether the pages of results were built."""
    return (service.state / SITE / service.base / "index.html").is_file()


def message(request: Request, title: str, text: str, status: int, back: str = "/") -> Response:
    """Draws a page with one sentence."""
    (text,) = service_of(request).shown([text])
    return page(request, "message", title, known(request), status=status, text=text, back=back)


def known(request: Request) -> Caller | None:
    """Returns who calls; None also for a token that is refused, or if the lab cannot be read."""
    try:
        return caller(request)
    except (RefusedRequestError, UnreadableError):
        return None


def facts_of(service: Service, lab: Lab) -> list[tuple[str, str]]:
    """Returns facts about a lab: name, value; a value may be an address of the web."""
    current = [each for each in service.of_teams() if each.current]
    state = "frozen" if service.frozen() else "open" if closed(service) == "" else "open for post-hoc runs"
    state = f"published, {state}" if service.published() else state
    return [
        ("Collection", f"{lab.collection}, edition {lab.edition}"),
        ("Measures", ", ".join(load_protocol(lab.protocol).label(each) for each in lab.measures)),
        ("State", state),
        ("Deadline", "none" if lab.deadline is None else zoned(lab.deadline)),
        (
            "Runs",
            f"{counted_text(len(current), 'run')} by {counted_text(len({each.team for each in current}), 'team')}",
        ),
        *([("Contact", lab.contact)] if lab.contact else []),
    ]


def closed(service: Service) -> str:
    """Returns why a lab takes no runs at present; empty if it does."""
    lab = service.lab()
    if service.frozen():
        return "The lab is frozen."
    if service.revealed():
        return "The lab has ended; only post-hoc runs are accepted."
    if lab.deadline is not None and datetime.now(UTC) > lab.deadline:
        return f"The deadline was {zoned(lab.deadline)}; only post-hoc runs are accepted."
    return ""


def plural(number: int, name: str) -> str:
    """Returns the name of a number of things."""
    return name if number == 1 else f"{name}s"


def run_row(lab: Lab, run: Submission) -> dict[str, Any]:
    """Returns the template's variables for a version of a run."""
    marks = [("withdrawn", run.withdrawn), ("disqualified", bool(run.disqualified)), ("refunded", run.refunded)]
    states = [name for name, holds in marks if holds]
    states += ["primary run"] if run.primary else []
    states = states or ["current" if run.current else "replaced by a later version"]
    states += ["reinstated"] if run.reinstated else []
    withdrawn = run.reason if run.withdrawn else ""
    disqualified, reinstated = ("" if each == "-" else each for each in (run.disqualified, run.reinstated))
    reasons = [("reason", withdrawn), ("reason", disqualified), ("appeal", run.appeal), ("reinstated", reinstated)]
    return {
        **vars(run),
        "title": run.title,
        "submitted": utc(run.submitted),
        "means": ["n/a" if math.isnan(run.means[each]) else lab.text(run.means[each], each) for each in lab.measures],
        "state": ", ".join(states),
        "reasons": [f"{name}: {reason}" for name, reason in reasons if reason],
    }


_FIRST = 5  # runs of the leaderboard that the first page shows


def leaders(service: Service, lab: Lab) -> list[list[str]]:
    """Returns the first rows of the leaderboard, below a heading: rank, run, group, mean and its interval.

    Empty if the leaderboard is not built. It shows what the page of the leaderboard shows; if no run is ranked, the
    other runs.
    """
    content = _json(service.state / SITE / service.base / "leaderboard.json")
    if not content:
        return []
    board = leaderboard_from_json(content)
    shown = (board.ranked or board.others)[:_FIRST]
    if not shown:
        return []
    all_columns = shown_columns(board, "server", board.measures[:1])
    columns = [each for each in all_columns if each.name != "group" or any(run.group for run in shown)]
    spans = [_interval_text(lab, run.mean(board.measures[0])) for run in shown]
    rows = [[each.name for each in columns], *([_cell(lab, each.value(run)) for each in columns] for run in shown)]
    names, last = ["run", *(run.name for run in shown)], ["95% interval", *spans]
    shows = any(spans)
    return [
        [*row[:1], name, *row[1:], *([span] if shows else [])]
        for row, name, span in zip(rows, names, last, strict=True)
    ]


def _interval_text(lab: Lab, mean: Mean) -> str:
    return "" if mean.low is None or mean.high is None else f"{lab.text(mean.low)} to {lab.text(mean.high)}"


def _cell(lab: Lab, value: str | float | Span | Mean | None) -> str:
    match value:
        case Mean():
            return "n/a" if value.value is None else lab.text(value.value)
        case Span():
            return "" if value.low is None else f"{value.low} to {value.high}"
    return "–" if value is None else str(value)


def final_page(service: Service) -> str:
    """Returns the address of the final ranking of a lab with private judgments; empty if it is not built."""
    path = service.state / SITE / service.base / "final.html"
    return f"/site/{service.base}/final.html" if path.is_file() else ""


def result_page(service: Service, run: Submission) -> str:
    """Returns the address of a run's page; empty if it is not built yet."""
    path = _built_file(service, run, "html")
    inside = path.relative_to(service.state / SITE).as_posix()
    return f"/site/{quote(inside)}" if path.is_file() else ""


def rank_and_group(service: Service, run: Submission) -> tuple[int | None, str]:
    """Returns the rank and the group of a run on the leaderboard as built; None and empty if it is not ranked."""
    content = _json(_built_file(service, run, "json"))
    return content.get("rank"), str(content.get("group", ""))


def _built_file(service: Service, run: Submission, ending: str) -> Path:
    from harness.labs.site.lab_view import submission_key

    return service.state / SITE / service.base / "runs" / f"{submission_key(run)}.{ending}"


def _json(path: Path) -> dict[str, Any]:
    """Returns a JSON object of the site; empty if it is not there."""
    try:
        return _read_json(path, path.stat().st_mtime_ns)
    except (OSError, ValueError):
        return {}


@lru_cache(maxsize=16)
def _read_json(path: Path, _: int) -> dict[str, Any]:
    content = json.loads(path.read_bytes())
    return content if isinstance(content, dict) else {}
