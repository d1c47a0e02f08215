"""Pages of organisers."""

from __future__ import annotations

import tempfile
import zipfile
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import FileResponse, Response

from harness.labs.names import utc
from harness.labs.roster import real_names, roster
from harness.labs.server.accounts import Caller, Invitation
from harness.labs.server.lab_snapshot import HIDDEN, SITE, lab_state
from harness.labs.server.page_drawing import facts_of, page, plural, run_row
from harness.labs.server.queue import Upload
from harness.labs.server.web import caller_as, service_of

_MOST_ROWS = 200  # submissions and invitations that the page shows
_FEW = 15  # submissions that need no search
_LONGEST_WANTED = 200  # characters


def organise_page(request: Request) -> Response:
    """Returns the organisers' page."""
    return organise(request, caller_as(request, "organiser"))


def organise(
    request: Request,
    who: Caller,
    kept: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
    **outcome: Any,  # noqa: ANN401
) -> Response:
    """Draws the organisers' page, with the outcome of an action.

    Parameters
    ----------
    kept : name of an action that was refused -> the fields of its form, to fill it in again.
    outcome : of `page`: status, errors, done, secret.
    """
    service = service_of(request)
    lab, events, site = service.lab(), service.live.events(), service.site()
    known, names, sent = roster(events), real_names(lab), service.of_teams()
    troubled = service.queue.troubled()
    now, invitations = datetime.now(UTC), service.accounts.invitations()
    sizes = Counter(each.team for each in sent)
    everybody = sorted({*known, *sizes})
    teams = [{"team": t, "name": names.get(t, t), "made": sizes[t], "valid": t in known} for t in everybody]
    wanted = request.query_params.get("find", "").strip()[:_LONGEST_WANTED]
    runs = [each for each in sent[::-1] if wanted.casefold() in f"{each.title} {names.get(each.team, '')}".casefold()]
    said = f"The pages are those of {utc(site['at'])}." if site.get("at") else "The pages are not built yet."
    if not service.live.submissions():
        said = "The pages are built after the first submission."
    elif site.get("error"):
        said = f"The pages could not be built: {service.shown([site['error']])[0]}"
    elif site.get("of") != lab_state(service.live.folder):
        said = f"{said} The lab has changed since; they are built again."
    requests = [each for each in invitations if each.state == "asked" and not each.expired(now)]
    return page(
        request,
        "organise",
        "Organise",
        who,
        kept=kept,
        **outcome,
        counts=[
            _count_data(len(requests), "request", " to join"),
            _count_data(len(known), "team", " with a token"),
            _count_data(len(sent), "submission"),
            _count_data(service.queue.waiting(), "upload", " waiting"),
            *([_count_data(len(troubled), "upload", " not scored, see below")] if troubled else []),
        ],
        troubled=[_troubled(each) for each in troubled],
        facts=facts_of(service, lab),
        deadline="" if lab.deadline is None else lab.deadline.isoformat(),
        late=lab.deadline is not None and now > lab.deadline,
        held=lab.private,
        may_publish=not service.revealed() and (lab.private or not service.frozen()),
        early=lab.private and lab.deadline is not None and now <= lab.deadline,
        site=said,
        requests=[_invitation_data(each, now) for each in requests],
        invitations=[_invitation_data(each, now) for each in invitations if each not in requests][:_MOST_ROWS],
        teams=teams,
        pseudonyms=any(each["team"] != each["name"] for each in teams),
        runs=[run_row(lab, each) for each in runs[:_MOST_ROWS]],
        shown=f"{min(len(runs), _MOST_ROWS):,} of {len(sent):,}",
        wanted=wanted,
        searchable=len(sent) > _FEW,
    )


def _troubled(upload: Upload) -> dict[str, object]:
    """Returns a row of an upload that could not be scored."""
    held = upload.state == "held"
    state = "held until you decide" if held else "being scored" if upload.state == "running" else "is tried again"
    return {
        **vars(upload),
        "title": f"{upload.team} / {upload.fields.get('label') or upload.file}",
        "received": utc(upload.received),
        "state": f"{state}; {plural(upload.attempts, 'attempt')}: {upload.attempts}",
        "reason": upload.reason,
        "decide": upload.state != "running",
    }


def _count_data(number: int, name: str, more: str = "") -> dict[str, object]:
    return {"number": f"{number:,}", "text": f"{plural(number, name)}{more}", "more": "", "none": False}


def _invitation_data(invitation: Invitation, now: datetime) -> dict[str, object]:
    state = {"asked": "request", "open": "not used yet", "used": "used", "refused": "refused"}[invitation.state]
    waits = invitation.state in ("asked", "open")
    return {
        **vars(invitation),
        "state": "expired" if waits and invitation.expired(now) else state,
        "created": utc(invitation.created),
        "expires": utc(invitation.expires) if waits else "",
        "may_refuse": waits and not invitation.expired(now),
    }


def audit_page(request: Request) -> Response:
    """Returns the page of the audit trail."""
    who = caller_as(request, "organiser")
    shown = []
    for line in service_of(request).accounts.trail():
        details = ", ".join(f"{name}: {value}" for name, value in line["details"].items() if value)
        shown.append({**line, "at": utc(line["at"]), "details": details})
    return page(request, "audit", "Audit trail", who, lines=shown)


def site_zip(request: Request) -> Response:
    """Packs the pages as they are; equal pages give equal bytes."""
    caller_as(request, "organiser")
    root = (service_of(request).state / SITE).resolve()
    out = tempfile.NamedTemporaryFile(suffix=".zip", delete=False)  # noqa: SIM115  (deleted after the answer)
    with out, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(root.rglob("*")):
            name = path.relative_to(root).as_posix()
            # As for single pages: no hidden files, and nothing that a link leads out to.
            if HIDDEN.search(name) or not path.resolve().is_relative_to(root):
                continue
            with suppress(FileNotFoundError, IsADirectoryError):  # the pages may be built again meanwhile
                archive.writestr(zipfile.ZipInfo(name), path.read_bytes(), zipfile.ZIP_DEFLATED)
    done = BackgroundTask(Path(out.name).unlink)
    return FileResponse(out.name, media_type="application/zip", filename="site.zip", background=done)
