"""Pages of organisers."""

from __future__ import annotations

import tempfile
import zipfile
from contextlib import suppress
from pathlib import Path

from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import FileResponse, Response

from harness.labs.roster import real_names, roster
from harness.server.accounts import Caller
from harness.server.drawing import built, facts_of, page, run_row, short
from harness.server.live import HIDDEN, SITE
from harness.server.web import needed, service_of


def organise_page(request: Request) -> Response:
    """Returns the organisers' page."""
    return organise(request, needed(request, "organiser"))


def organise(
    request: Request, who: Caller, errors: tuple[str, ...] = (), done: str = "", secret: str = "", status: int = 200
) -> Response:
    """Draws the organisers' page, with the outcome of an action."""
    service = service_of(request)
    lab, events, site = service.lab(), service.live.events(), service.site()
    known, names, found = roster(events), real_names(lab), service.live.submissions()
    teams = [
        {
            "team": team,
            "name": names.get(team, team),
            "made": sum(each.team == team for each in found),
            "valid": team in known,
        }
        for team in sorted({*known, *(each.team for each in found)})
    ]
    said = f"The pages are those of {short(site['at'])}." if site.get("at") else "The pages are not built yet."
    if site.get("error"):
        said = f"The pages could not be built: {service.shown([site['error']])[0]}"
    return page(
        request,
        "organise",
        "Organise",
        who,
        status=status,
        errors=errors,
        done=done,
        secret=secret,
        facts=[*facts_of(service, lab), ("Uploads that wait", str(service.queue.waiting()))],
        deadline="" if lab.deadline is None else lab.deadline.isoformat(),
        frozen=service.frozen(),
        site=said,
        built=built(service),
        invitations=service.accounts.invitations()[:200],
        teams=teams,
        runs=[run_row(lab, each) for each in found[::-1]],
        organisers=service.accounts.organisers(),
    )


def audit_page(request: Request) -> Response:
    """Returns the page of the audit trail."""
    who = needed(request, "organiser")
    lines = service_of(request).accounts.trail()
    shown = [
        {**line, "details": ", ".join(f"{name}: {value}" for name, value in line["details"].items() if value)}
        for line in lines
    ]
    return page(request, "audit", "Audit trail", who, lines=shown)


def site_zip(request: Request) -> Response:
    """Packs the pages as they are; equal pages give equal bytes."""
    needed(request, "organiser")
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
