"""The HTTP API: JSON in and out, described by `/api/v1/openapi.json`, which is made from the same table and types."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route

from harness.errors import HarnessError
from harness.labs.downloads import Downloads
from harness.labs.receipts import Shown, shown_means_of
from harness.labs.server.actions import ACTIONS, Action, Done, parsed, perform
from harness.labs.server.guard import RefusedRequestError
from harness.labs.server.lab_snapshot import DOWNLOADS, SITE
from harness.labs.server.page_drawing import TEMPLATES
from harness.labs.server.queue import State
from harness.labs.server.service import Service, upload_json
from harness.labs.server.web import RoleError, address_of, caller, caller_as, service_of, take_upload
from harness.render import html
from harness.version import __version__

ROOT = "/api/v1"


class LabFacts(msgspec.Struct, frozen=True):
    """A lab: its settings that participants see, and its state."""

    title: str
    collection: str
    edition: str
    protocol: str
    measures: list[str]
    private: bool
    deadline: str | None
    cap: int | None
    cap_per_day: int | None
    frozen: bool
    submissions: int
    teams: int


class UploadFacts(msgspec.Struct, frozen=True):
    """An upload; `ahead`: number of uploads scored before it if teams take turns, null unless it waits.

    `held`: it could not be scored, for no fault of its own; its file is kept until the organisers decide.
    """

    id: str
    team: str
    file: str
    received: str
    state: State
    ahead: int | None
    finished: str | None
    errors: list[str]
    receipt: Shown | None


class RunFacts(msgspec.Struct, frozen=True):
    """A version of a run of the caller's team."""

    label: str
    version: int
    kind: str
    submitted: str
    sha256: str
    means: dict[str, float | None]
    current: bool
    primary: bool
    withdrawn: bool
    disqualified: str
    appeal: str
    reinstated: str
    refunded: bool


class TeamFacts(msgspec.Struct, frozen=True):
    """A team: how many submissions it has made and may make, and its runs, the latest first."""

    team: str
    made: int
    cap: int | None
    today: int
    cap_per_day: int | None
    invalid: int
    invalid_cap: int | None
    runs: list[RunFacts]


class AuditLine(msgspec.Struct, frozen=True):
    """A line of the audit trail."""

    number: int
    at: str
    actor: str
    action: str
    details: dict[str, Any]


class Errors(msgspec.Struct, frozen=True):
    """What is wrong, a line each."""

    errors: list[str]


def routes() -> list[Route]:
    """Returns the routes of the API."""
    return [
        Route(f"{ROOT}/openapi.json", lambda request: JSONResponse(description(address_of(request)))),
        Route(f"{ROOT}/lab", _lab),
        Route(f"{ROOT}/leaderboard", _leaderboard),
        Route(f"{ROOT}/downloads", _downloads),
        Route(f"{ROOT}/downloads/{{name:path}}", download_file),
        Route(f"{ROOT}/submissions", _submit, methods=["POST"]),
        Route(f"{ROOT}/submissions/{{id}}", _upload),
        Route(f"{ROOT}/team", _team),
        Route(f"{ROOT}/runs/{{team}}/{{label}}/{{version}}", _run),
        Route(f"{ROOT}/audit", _audit),
        *(Route(f"{ROOT}/{name}", _action(action), methods=["POST"]) for name, action in ACTIONS.items()),
    ]


def _json(content: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:  # noqa: ANN401
    """Answers with a JSON value."""
    return Response(msgspec.json.encode(content), status, headers, "application/json")


def _lab(request: Request) -> Response:
    """Answers with the lab: its state, and how many submissions and teams it has."""
    service = service_of(request)
    lab, submissions = service.lab(), service.of_teams()
    state = {"deadline": None if lab.deadline is None else lab.deadline.isoformat(), "frozen": service.frozen()}
    counts = {"submissions": len(submissions), "teams": len({each.team for each in submissions})}
    return _json(msgspec.convert({**vars(lab), **state, **counts}, LabFacts))


def _leaderboard(request: Request) -> Response:
    service = service_of(request)
    path = service.state / SITE / service.base / "leaderboard.json"
    if not path.is_file():
        raise RefusedRequestError(404, "the leaderboard is not built yet")
    return FileResponse(path, media_type="application/json", headers={"cache-control": "no-cache"})


def _downloads(request: Request) -> Response:
    downloads = service_of(request).downloads()
    if not downloads.ready:
        raise RefusedRequestError(503, "the files to download are being written; try again later")
    return _json(downloads)


def download_file(request: Request) -> Response:
    """Answers with a file that the lab offers, or with a range of it; its name is only compared with those offered."""
    service, name = service_of(request), request.path_params["name"]
    found = next((each for each in service.downloads().files if each.name == name), None)
    if found is None:
        raise RefusedRequestError(404, "there is no such file to download")
    path = service.state / DOWNLOADS / found.sha256
    if not path.is_file():
        raise RefusedRequestError(503, "the file is being written again; try again later")
    headers = {"etag": f'"{found.sha256}"', "cache-control": "no-cache"}
    known = [each.strip().removeprefix("W/") for each in request.headers.get("if-none-match", "").split(",")]
    if {headers["etag"], "*"} & set(known):
        return Response(status_code=304, headers=headers)
    file_name = name.rpartition("/")[2]
    return FileResponse(path, headers=headers, media_type="application/octet-stream", filename=file_name)


async def _submit(request: Request) -> Response:
    who = await run_in_threadpool(caller_as, request, "team")
    upload = await take_upload(request, who, request.headers.get("idempotency-key", ""))
    content = await run_in_threadpool(upload_json, service_of(request), upload)
    return _json(content, 202, {"location": f"{ROOT}/submissions/{upload.id}"})


def _upload(request: Request) -> Response:
    service, who = service_of(request), caller(request)
    upload = service.queue.find(request.path_params["id"])
    if upload is None or not service.may_see(who, upload.team):
        raise RefusedRequestError(404, "there is no such upload of yours")  # the same whether it exists or not
    return _json(upload_json(service, upload))


def _team(request: Request) -> Response:
    """Answers with what the team may still submit and its runs."""
    service, who = service_of(request), caller_as(request, "team")
    lab, left = service.lab(), service.allowance(who.name)
    mine = service.of_team(who.name)
    runs = [msgspec.convert({**vars(each), "means": shown_means_of(lab, each)}, RunFacts) for each in mine]
    return _json(TeamFacts(who.name, **vars(left), runs=runs))


def _run(request: Request) -> Response:
    """Answers with the file of a run, if the caller may see it."""
    at = request.path_params
    if not service_of(request).may_see(caller(request), at["team"]):
        raise RefusedRequestError(404, "there is no such run of yours")
    return run_file(service_of(request), at["team"], at["label"], at["version"])


def run_file(service: Service, team: str, label: str, version: str) -> Response:
    """Returns the stored file of a run."""
    submission = service.run(team, label, version)
    if submission is None:
        raise RefusedRequestError(404, "there is no such run of yours")
    # The name in the answer's header has no character of the team's.
    name = f"run-{submission.sha256[:12]}.txt"
    return FileResponse(submission.run, media_type="text/plain; charset=utf-8", filename=name)


def _audit(request: Request) -> Response:
    caller_as(request, "organiser")
    return _json([AuditLine(**line) for line in service_of(request).accounts.trail(1_000)])


def _action(action: Action) -> Any:  # noqa: ANN401
    """Returns the endpoint of an action, which takes its fields as JSON and a token of the right role."""

    async def endpoint(request: Request) -> Response:
        who = await run_in_threadpool(caller_as, request, action.role)
        if who.csrf:  # a browser sends its cookie with forms of other sites; those of our pages go to /do/
            raise RefusedRequestError(403, "the API takes tokens, not the session of a browser")
        given = parsed(action, await request.body())
        return _json(await run_in_threadpool(perform, service_of(request), who, action, given, address_of(request)))

    return endpoint


# ---- description -----------------------------------------------------------------------------------------------------


def description(address: str) -> dict[str, Any]:
    """Returns the API as an OpenAPI document."""
    types: list[type] = [LabFacts, Downloads, UploadFacts, TeamFacts, AuditLine, Errors, Done]
    types = sorted({*types, *(each.arguments for each in ACTIONS.values())}, key=lambda each: each.__name__)
    schemas, components = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    known = dict(zip(types, schemas, strict=True))
    paths: dict[str, Any] = json.loads(html.read_template("openapi.json", TEMPLATES))
    for action in ACTIONS.values():
        done = {"description": "What was done.", "content": {"application/json": {"schema": known[Done]}}}
        paths[f"/{action.name}"] = {
            "post": {
                "summary": f"{'Organisers: ' if action.role == 'organiser' else ''}{action.summary}",
                "security": [{"token": []}],
                "requestBody": {"content": {"application/json": {"schema": known[action.arguments]}}},
                "responses": {"200": done},
            }
        }
    wrong = {"description": "What is wrong, a line each.", "content": {"application/json": {"schema": known[Errors]}}}
    for answers in (method["responses"] for path in paths.values() for method in path.values()):
        if not {"text/plain", "application/octet-stream"} & answers.get("200", {}).get("content", {}).keys():
            answers["4XX"] = wrong
    return {
        "openapi": "3.1.0",
        "info": {"title": "Server of a lab", "version": __version__},
        "servers": [{"url": address}],
        "paths": {f"{ROOT}{path}": methods for path, methods in paths.items()},
        "components": {"schemas": components, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
    }


def error(request: Request, raised: Exception) -> Response:
    """Returns the answer of the API to an error."""
    if isinstance(raised, HarnessError):
        return _json(Errors(list(service_of(request).shown(raised.lines))), 422)
    if isinstance(raised, RoleError):
        status = 401 if raised.who is None else 403
        return _json(Errors([raised.line]), status, {"www-authenticate": "Bearer"} if status == 401 else None)
    return _json(Errors(["an error of the server; the organisers can see it in its log"]), 500)
