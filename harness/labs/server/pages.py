"""Pages for people: forms that work without scripts, in the style of the site."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from harness.errors import HarnessError, counted_text
from harness.labs.journal import KIND_MEANINGS, KINDS
from harness.labs.names import utc, zoned
from harness.labs.receipts import Shown
from harness.labs.roster import Allowance, add_team
from harness.labs.server import web
from harness.labs.server.accounts import SESSION_HOURS, Caller
from harness.labs.server.actions import ACTIONS, parsed, perform
from harness.labs.server.api import download_file, run_file
from harness.labs.server.guard import RefusedRequestError
from harness.labs.server.organising import audit_page, organise, organise_page, site_zip
from harness.labs.server.page_drawing import (
    closed,
    facts_of,
    final_page,
    home_of,
    known,
    leaders,
    page,
    plural,
    rank_and_group,
    result_page,
    run_row,
)
from harness.labs.server.queue import Upload
from harness.labs.server.service import Service, upload_json
from harness.scoring.protocol import load_protocol

STATES = {
    "queued": "waiting",
    "running": "being scored",
    "done": "scored",
    "refused": "refused",
    "held": "not scored yet; the organisers decide",
    "failed": "failed",  # of earlier versions of the server
}


def routes() -> list[Route]:
    """Returns the routes of the pages."""
    return [
        Route("/", _home_page),
        Route("/downloads", _downloads_page),
        Route("/downloads/{name:path}", download_file),
        Route("/login", _login_page),
        Route("/login", _log_in, methods=["POST"]),
        Route("/logout", _log_out, methods=["POST"]),
        Route("/ask", _ask_page),
        Route("/ask", _ask, methods=["POST"]),
        Route("/join/{code}", _join_page),
        Route("/join/{code}", _join, methods=["POST"]),
        Route("/submit", _submit_page),
        Route("/submit", _submit, methods=["POST"]),
        Route("/submissions/{id}", _upload_page),
        Route("/submissions/{id}/state", _upload_state),
        Route("/team", _team_page),
        Route("/team/runs/{label}/{version}", _team_run),
        Route("/organise", organise_page),
        Route("/organise/audit", audit_page),
        Route("/organise/site.zip", site_zip),
        Route("/do/{action}", _back),
        Route("/do/{action}", _action_endpoint, methods=["POST"]),
    ]


# ---- visitors --------------------------------------------------------------------------------------------------------


def _home_page(request: Request) -> Response:
    from harness.labs.site.board import submit_command

    service, who = web.service_of(request), web.caller(request)
    lab = service.lab()
    problem = "The pages could not be built; the organisers can see why." if service.site().get("error") else ""
    return page(
        request,
        "home",
        lab.title,
        who,
        about=lab.about,
        facts=facts_of(service, lab),
        problem=problem if service.live.submissions() else "",
        leaders=leaders(service, lab),
        final=final_page(service),
        closed=closed(service),
        command=submit_command(lab, "--server", web.address_of(request)),
    )


def _downloads_page(request: Request) -> Response:
    downloads = web.service_of(request).downloads()
    return page(
        request, "downloads", "Downloads", web.caller(request), downloads=downloads, address=web.address_of(request)
    )


def _login_page(request: Request) -> Response:
    return page(request, "login", "Log in", web.caller(request), next=_page_after(request.query_params))


def _page_after(given: Mapping[str, str]) -> str:
    """Returns where to go after logging in: one of our own pages."""
    wanted = given.get("next", "")
    return wanted if wanted in ("/submit", "/team", "/organise", "/organise/audit") else ""


async def _log_in(request: Request) -> Response:
    given = await web.fields(request)
    return await run_in_threadpool(_log_in_with_token, request, given.get("token", ""), _page_after(given))


def _log_in_with_token(request: Request, token: str, wanted: str) -> Response:
    service = web.service_of(request)
    web.attempt(request, spend=False)
    opened = service.accounts.log_in(token, service.live.events())
    if opened is None:
        web.attempt(request)
        errors = ("the token is unknown or was revoked; the organisers can issue another",)
        return page(request, "login", "Log in", None, status=401, errors=errors, next=wanted)
    secret, who = opened
    _end(request)
    answer = RedirectResponse(wanted or home_of(who), 303)
    _set_cookie(request, answer, secret)
    return answer


def _set_cookie(request: Request, answer: Response, secret: str) -> None:
    age, secure = SESSION_HOURS * 3600, web.is_secure(request)
    answer.set_cookie(web.cookie_name(request), secret, age, secure=secure, httponly=True, samesite="lax", path="/")


def _end(request: Request) -> None:
    """Ends the session that the browser had, so that an old cookie is worth nothing."""
    if old := request.cookies.get(web.cookie_name(request)):
        web.service_of(request).accounts.log_out(old)


async def _log_out(request: Request) -> Response:
    given = await web.fields(request)
    who = await run_in_threadpool(web.caller, request)
    if who is not None:
        web.check_form(request, who, given)
        await run_in_threadpool(_end, request)
    answer = RedirectResponse("/", 303)
    answer.delete_cookie(web.cookie_name(request), path="/", secure=web.is_secure(request), httponly=True)
    return answer


def _ask_page(request: Request) -> Response:
    if not web.service_of(request).settings.asking:
        raise RefusedRequestError(404, "teams join by invitation; ask the organisers")
    return page(request, "ask", "Ask to join", web.caller(request), team="", contact="")


async def _ask(request: Request) -> Response:
    given = await web.fields(request)
    if not web.service_of(request).settings.asking:
        raise RefusedRequestError(404, "teams join by invitation; ask the organisers")
    return await run_in_threadpool(_request_invitation, request, given.get("team", ""), given.get("contact", ""))


def _request_invitation(request: Request, team: str, contact: str) -> Response:
    web.attempt(request)
    try:
        code = web.service_of(request).accounts.ask(team.strip(), contact.strip())
    except HarnessError as error:
        who, errors = known(request), tuple(error.lines)
        return page(request, "ask", "Ask to join", who, status=422, errors=errors, team=team, contact=contact)
    return RedirectResponse(f"/join/{code}", 303)


_JOINING = {"open": "Join the lab", "asked": "Your request waits"}


def _join_page(request: Request, errors: tuple[str, ...] = (), given: str = "") -> Response:
    service = web.service_of(request)
    web.attempt(request, spend=False)
    invitation = service.accounts.invitation(request.path_params["code"])
    if invitation is None:
        web.attempt(request)
    state = "unknown" if invitation is None else invitation.state
    if invitation is not None and state in ("asked", "open") and invitation.expired(datetime.now(UTC)):
        state = "expired"
    hidden_until = service.lab().pseudonyms_until
    return page(
        request,
        "join",
        _JOINING.get(state, "Invitation"),
        known(request),
        status=404 if invitation is None else 422 if errors else 200,
        errors=errors,
        state=state,
        team="" if invitation is None else invitation.team,
        given=given,
        path=request.url.path,
        address=f"{web.address_of(request)}{request.url.path}",
        pseudonyms="" if hidden_until is None or datetime.now(UTC) >= hidden_until else zoned(hidden_until),
    )


async def _join(request: Request) -> Response:
    given = await web.fields(request)
    return await run_in_threadpool(_join_lab, request, given.get("team", "").strip())


def _join_lab(request: Request, chosen: str) -> Response:
    service, code = web.service_of(request), request.path_params["code"]
    web.attempt(request, spend=False)
    try:
        invitation = service.accounts.use(code)
        try:
            team, token = add_team(service.lab(), invitation.team or chosen, new=True)
        except BaseException:
            service.accounts.unuse(code)
            raise
    except HarnessError as error:
        web.attempt(request)
        return _join_page(request, tuple(error.lines), chosen)
    service.accounts.set_contact(team, invitation.contact)
    service.accounts.record(f"team {team}", "join", {})
    opened = service.accounts.log_in(token, service.live.events())
    who = None if opened is None else opened[1]
    answer = page(request, "joined", "Welcome", who, team=team, token=token, address=web.address_of(request))
    if opened is not None:
        _end(request)
        _set_cookie(request, answer, opened[0])
    return answer


# ---- teams -----------------------------------------------------------------------------------------------------------

_EMPTY = {"label": "", "description": "", "kind": "", "code": "", "external_data": "", "primary": ""}


def _submit_page(request: Request) -> Response:
    """Returns the form, filled in as for an earlier upload of the team if its id is given as `again`."""
    service, who = web.service_of(request), web.caller_as(request, "team")
    before = service.queue.find(request.query_params.get("again", ""))
    given = before.fields if before is not None and before.team == who.name else {}
    return _form(request, who, {**given, "primary": "true" if given.get("primary") else ""})


def _form(request: Request, who: Caller, given: Mapping[str, Any], errors: tuple[str, ...] = ()) -> Response:
    service = web.service_of(request)
    allowed, is_closed = service.allowance(who.name), closed(service)
    return page(
        request,
        "submit",
        "Submit a run",
        who,
        status=422 if errors else 200,
        errors=errors,
        counts=_left_to_submit(allowed),
        closed=is_closed,
        spent=_spent_lines(allowed, who.name),
        key=secrets.token_urlsafe(18),
        given={**_EMPTY, **given, "kind": given.get("kind") or ("post-hoc" if is_closed else KINDS[0])},
        kinds=KIND_MEANINGS,
        require=service.lab().require,
    )


def _spent_lines(allowance: Allowance, team: str) -> list[str]:
    """Returns why a team may submit nothing more at present; empty if it may."""
    invalid = allowance.invalid_cap is not None and allowance.invalid >= allowance.invalid_cap
    more = [f"team {team}: has sent {allowance.invalid} of {allowance.invalid_cap} invalid files"] if invalid else []
    return allowance.faults(team) + more


def _left_to_submit(allowance: Allowance) -> list[dict[str, object]]:
    """Returns what a team has left: number, of what, and how many it has made."""
    rows = [
        ("submission", "left", allowance.made, allowance.cap),
        ("submission", "left today (UTC)", allowance.today, allowance.cap_per_day),
        ("invalid file", "left", allowance.invalid, allowance.invalid_cap),
    ]
    shown = [
        {
            "number": f"{max(0, most - made):,}",
            "text": f"{plural(max(0, most - made), name)} {left}",
            "more": f"{made:,} of {most:,} made",
            "none": made >= most,
        }
        for name, left, made, most in rows
        if most is not None
    ]
    if allowance.cap is None:
        text = f"{plural(allowance.made, 'submission')} made"
        shown.insert(0, {"number": f"{allowance.made:,}", "text": text, "more": "no maximum", "none": False})
    return shown


async def _submit(request: Request) -> Response:
    who = await run_in_threadpool(web.caller_as, request, "team")
    try:
        upload = await web.take_upload(request, who)
    except web.FormError as error:
        return await run_in_threadpool(_form, request, who, error.given, tuple(error.lines))
    return RedirectResponse(f"/submissions/{upload.id}", 303)


def _upload_page(request: Request) -> Response:
    service, who, upload = _upload_of(request)
    facts = upload_json(service, upload)
    receipt = None if facts["receipt"] is None else Shown(**facts["receipt"])
    state = STATES[upload.state]
    if upload.state == "queued":
        state = f"waiting; {counted_text(facts['ahead'], 'upload')} ahead" if facts["ahead"] else "waiting; it is next"
        if upload.reason:
            state = "waiting; it could not be scored yet, for no fault of the run, and is tried again"
    run = None if receipt is None else service.run(receipt.team, receipt.label, str(receipt.version))
    rank, group = (None, "") if run is None else rank_and_group(service, run)
    return page(
        request,
        "upload",
        f"Submission {upload.file}: {STATES[upload.state]}",
        who,
        heading="Submission",
        waits=upload.state in ("queued", "running"),
        upload=facts,
        received=utc(upload.received),
        state=state,
        seen=_version(service, upload),
        receipt=receipt,
        headline="" if receipt is None else receipt.headline("the lab"),
        run_page="" if run is None else result_page(service, run),
        standing="" if run is None else run_row(service.lab(), run)["state"],
        rank=rank,
        group=group,
        counts=_left_to_submit(service.allowance(upload.team)),
    )


def _upload_of(request: Request) -> tuple[Service, Caller | None, Upload]:
    service, who = web.service_of(request), web.caller(request)
    upload = service.queue.find(request.path_params["id"])
    if upload is None or not service.may_see(who, upload.team):
        raise RefusedRequestError(404, "there is no such upload of yours; log in first")
    return service, who, upload


def _version(service: Service, upload: Upload) -> str:
    """Returns by what a script tells that the page of an upload has changed: state, and whether its run has a page."""
    if (receipt := upload.result.get("receipt")) is None:
        return upload.state
    run = service.run(str(receipt["team"]), str(receipt["label"]), str(receipt["version"]))
    return upload.state + (" with page" if run is not None and result_page(service, run) else "")


def _upload_state(request: Request) -> Response:
    service, _, upload = _upload_of(request)
    return JSONResponse({"state": upload.state, "version": _version(service, upload)})


def _team_page(request: Request) -> Response:
    return _draw_team(request, web.caller_as(request, "team"))


def _draw_team(request: Request, who: Caller, **outcome: Any) -> Response:  # noqa: ANN401
    service = web.service_of(request)
    lab = service.lab()
    return page(
        request,
        "team",
        f"Team {who.name}",
        who,
        **outcome,
        counts=_left_to_submit(service.allowance(who.name)),
        closed=closed(service),
        measures=[load_protocol(lab.protocol).label(each) for each in lab.measures],
        runs=[{**run_row(lab, each), "page": result_page(service, each)} for each in service.of_team(who.name)],
        uploads=[
            {"id": each.id, "file": each.file, "received": utc(each.received), "state": STATES[each.state]}
            for each in service.queue.of_team(who.name)
        ],
    )


def _team_run(request: Request) -> Response:
    who = web.caller_as(request, "team")
    at = request.path_params
    return run_file(web.service_of(request), who.name, at["label"], at["version"])


def _back(request: Request) -> Response:
    """Leads whoever opens the address of an action again to the page with its form."""
    who = web.caller(request)
    return RedirectResponse("/login" if who is None else home_of(who), 303)


async def _action_endpoint(request: Request) -> Response:
    action = ACTIONS.get(request.path_params["action"])
    if action is None:
        raise RefusedRequestError(404, "there is no such action")
    who = await run_in_threadpool(web.caller_as, request, action.role)
    given = await web.fields(request)
    web.check_form(request, who, given)
    given.pop("csrf", None)
    return await run_in_threadpool(_perform_and_draw, request, who, action.name, given)


def _perform_and_draw(request: Request, who: Caller, name: str, given: Mapping[str, str]) -> Response:
    action, service = ACTIONS[name], web.service_of(request)
    try:
        done = perform(service, who, action, parsed(action, given), web.address_of(request))
    except HarnessError as error:
        outcome: dict[str, Any] = {"errors": tuple(error.lines), "status": 422, "kept": {name: given}}
    else:
        outcome = {"done": f"{done.done}.", "secret": done.secret}
    return (_draw_team if who.role == "team" else organise)(request, who, **outcome)
