"""The web application: routes, errors, and the guard around them."""

from __future__ import annotations

from collections import Counter
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Scope

from harness.errors import HarnessError
from harness.io.console import log_line, log_text
from harness.labs.server import api, database, pages
from harness.labs.server.guard import API, Rates, RefusedRequestError, RequestLimits
from harness.labs.server.lab_snapshot import HIDDEN, SITE, UnavailableError
from harness.labs.server.page_drawing import home_of, message
from harness.labs.server.service import Service
from harness.labs.server.web import RoleError

LOCAL = ("localhost", "127.0.0.1", "::1")


class Pages(StaticFiles):
    """The pages of the site; not its hidden files, nor anything that a link leads out to."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        """Returns a file."""
        if HIDDEN.search(path):
            raise HTTPException(404)
        response = await super().get_response(path, scope)
        response.headers["cache-control"] = "no-cache"
        # Each page has its own policy, by the hashes of its styles and scripts.
        response.headers["content-security-policy"] = "frame-ancestors 'none'"
        return response


def application(service: Service, hosts: tuple[str, ...] = ()) -> ASGIApp:
    """Returns the web application of a lab.

    Parameters
    ----------
    hosts : names by which requests may reach it, besides those of this machine and of the settings' address.
    """
    site = service.state / SITE
    site.mkdir(exist_ok=True)
    app = Starlette(
        routes=[*api.routes(), *pages.routes(), Mount("/site", Pages(directory=site, html=True))],
        exception_handlers={
            HarnessError: _service_error,
            RoleError: _service_error,
            RefusedRequestError: _refusal,
            HTTPException: _http_error,
            Exception: _server_error,
            **dict.fromkeys(database.errors(), _database_error),
        },
    )
    app.state.service, app.state.rates, app.state.receiving = service, Rates(), Counter()
    named = urlsplit(service.settings.url).hostname
    known = frozenset({*LOCAL, *hosts, *([named] if named else [])})
    return RequestLimits(app, service.settings, app.state.rates, known)


def _of_api(request: Request) -> bool:
    """Returns whether a request is to the API, whose errors are JSON."""
    return request.url.path.startswith(API)


def _service_error(request: Request, error: Exception) -> Response:
    if isinstance(error, UnavailableError):
        return _refusal(request, RefusedRequestError(503, error.lines[0]))
    if _of_api(request):
        return api.error(request, error)
    if isinstance(error, RoleError):
        if error.who is None and request.method == "GET":
            return RedirectResponse(f"/login?next={request.url.path}", 303)
        status, back = (401, "/login") if error.who is None else (403, home_of(error.who))
        return message(request, "Not allowed", f"{error.line[:1].upper()}{error.line[1:]}.", status, back)
    lines = error.lines if isinstance(error, HarnessError) else ()
    return message(request, "Not possible", "; ".join(lines), 422)


def _refusal(request: Request, error: Exception) -> Response:
    assert isinstance(error, RefusedRequestError)  # noqa: S101  (it is registered for this class)
    if _of_api(request) or error.status in (408, 413, 429):
        return error.response(request.url.path)
    return message(request, "Not possible", f"{error.line[:1].upper()}{error.line[1:]}.", error.status)


def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101  (it is registered for this class)
    line = {404: "there is no such page", 405: "this address takes no such request"}.get(error.status_code, "")
    return _refusal(request, RefusedRequestError(error.status_code, line or str(error.detail).lower()))


def _database_error(request: Request, error: Exception) -> Response:
    log_line(f"{request.method} {request.url.path}: database: {' '.join(str(error).split())}")
    refused = RefusedRequestError(503, "the server's database cannot be used at present; try again later")
    return refused.response(request.url.path)


def _server_error(request: Request, error: Exception) -> Response:
    import traceback

    log_line(f"{request.method} {request.url.path}: an error of the server")
    log_text("".join(traceback.format_exception(error)))
    if _of_api(request):
        return api.error(request, error)
    line = "an error of the server; the organisers can see it in its log"
    try:
        return message(request, "Error of the server", f"{line[:1].upper()}{line[1:]}.", 500)
    except Exception:  # the database may be what is broken
        return RefusedRequestError(500, line).response("")
