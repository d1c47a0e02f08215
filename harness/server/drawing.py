"""Drawing of pages, and what pages of visitors, teams and organisers share."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from functools import cache
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from harness.labs.lab import Lab
from harness.labs.submissions import Submission
from harness.render import html
from harness.scoring.protocol import load_protocol
from harness.server.accounts import Caller
from harness.server.guard import RefusedError
from harness.server.live import SITE, UnreadableError
from harness.server.service import Service
from harness.server.web import caller, service_of
from harness.version import __version__


@cache
def _style() -> str:
    return "".join(html.read_template(name) for name in ("report.css", "site.css", "server/server.css"))


def page(
    request: Request,
    template: str,
    title: str,
    who: Caller | None,
    *,
    status: int = 200,
    errors: tuple[str, ...] = (),
    done: str = "",
    secret: str = "",
    script: str = "",
    waits: bool = False,
    **values: object,
) -> Response:
    """Draws a page from `templates/server/`."""
    from markupsafe import Markup, escape

    service = service_of(request)
    tabs = [("Home", "/"), *([("Results", f"/site/{service.base}/index.html")] if built(service) else [])]
    if who is None:
        tabs += [("Log in", "/login"), *([("Ask to join", "/ask")] if service.settings.asking else [])]
    elif who.role == "team":
        tabs += [("Submit", "/submit"), ("Team", "/team")]
    else:
        tabs += [("Organise", "/organise"), ("Audit", "/organise/audit")]
    code = html.read_template(script) if script else ""
    csrf = who.csrf if who is not None else ""
    text = html.template(f"server/{template}.html.j2").render(
        title=title,
        lab=_title(service),
        tabs=tabs,
        here=request.url.path,
        who=f"{who.role} {who.name}" if who is not None else "",
        secret_field=Markup(f'<input type="hidden" name="csrf" value="{escape(csrf)}">'),  # noqa: S704 - escaped
        errors=service.shown(errors),
        done=done,
        secret=secret,
        style=Markup(_style()),  # noqa: S704 - our own files
        script=Markup(code) if code else "",  # noqa: S704 - our own file
        waits=waits,
        version=__version__,
        **values,
    )
    scripts = f"script-src {html.source_hash(code)}; connect-src 'self'; " if code else ""
    policy = (
        f"default-src 'none'; style-src {html.source_hash(_style())}; {scripts}img-src data:; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    )
    return HTMLResponse(text, status, {"content-security-policy": policy})


def _title(service: Service) -> str:
    try:
        return service.lab().title
    except UnreadableError:  # a page that says so is drawn nevertheless
        return "Lab"


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
    except (RefusedError, UnreadableError):
        return None


def facts_of(service: Service, lab: Lab) -> list[tuple[str, str]]:
    """Returns facts about a lab: name, value."""
    found = service.live.submissions()
    current = [each for each in found if each.current]
    state = "frozen" if service.frozen() else "open" if closed(service) == "" else "closed"
    return [
        ("Collection", f"{lab.collection}, edition {lab.edition}"),
        ("Measures", ", ".join(load_protocol(lab.protocol).label(each) for each in lab.measures)),
        ("State", state),
        ("Deadline", "none" if lab.deadline is None else lab.deadline.isoformat(sep=" ")),
        ("Runs", f"{len(current)} of {len({each.team for each in current})} teams"),
        *([("Contact", lab.contact)] if lab.contact else []),
    ]


def closed(service: Service) -> str:
    """Returns why a lab takes no runs at present; empty if it does."""
    lab = service.lab()
    if service.frozen():
        return "The lab is frozen."
    if lab.deadline is not None and datetime.now(UTC) > lab.deadline:
        return f"The deadline was {lab.deadline.isoformat(sep=' ')}; only post-hoc runs are accepted."
    return ""


def run_row(lab: Lab, run: Submission, frozen: bool = False) -> dict[str, Any]:
    """Returns the template's variables for a version of a run."""
    parts = []
    if run.withdrawn:
        parts.append("withdrawn" + (f": {run.reason}" if run.reason else ""))
    if run.disqualified:
        parts.append("disqualified" + (f": {run.disqualified}" if run.disqualified != "-" else ""))
    if run.appeal:
        parts.append(f"appeal: {run.appeal}")
    if run.refunded:
        parts.append("refunded")
    if run.primary:
        parts.append("primary run")
    if not parts:
        parts.append("current" if run.current else "replaced by a later version")
    return {
        "team": run.team,
        "label": run.label,
        "version": run.version,
        "title": run.title,
        "kind": run.kind,
        "submitted": short(run.submitted),
        "means": ["n/a" if math.isnan(run.means[each]) else lab.text(run.means[each]) for each in lab.measures],
        "state": "; ".join(parts),
        "may_be_primary": run.current and not run.primary and run.kind != "post-hoc" and not frozen,
        "may_withdraw": not run.withdrawn and not frozen,
        "may_appeal": bool(run.disqualified) and not run.appeal and not frozen,
        "may_disqualify": not run.disqualified,
        "may_reinstate": bool(run.disqualified),
        "may_refund": not run.refunded,
    }


def short(time: str) -> str:
    """Returns a time of the journal for readers."""
    return time.replace("T", " ").replace("+00:00", " UTC")
