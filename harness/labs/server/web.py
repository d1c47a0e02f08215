"""What pages and API share on the side of HTTP: who calls, what was sent, and errors with a status."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import IO, Any, cast

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData, UploadFile
from starlette.requests import Request

from harness.errors import HarnessError
from harness.labs.server.accounts import Caller, Role
from harness.labs.server.guard import RefusedRequestError, client_address, same_origin
from harness.labs.server.lab_snapshot import UnavailableError
from harness.labs.server.queue import Upload
from harness.labs.server.service import FIELDS, Service, same

_TEXT = 16 << 10  # bytes of a field of a form
_AT_ONCE = 4  # uploads of a team that are received at the same time


class RoleError(Exception):
    """The caller is unknown (`who` is None), or may not do this."""

    def __init__(self, needed: Role, who: Caller | None) -> None:
        super().__init__(needed)
        self.needed, self.who = needed, who

    @property
    def line(self) -> str:
        """What is wrong, in one line."""
        if self.who is None:
            return f"log in as {'an organiser' if self.needed == 'organiser' else 'a team'}, or send a token"
        return "organisers only" if self.needed == "organiser" else "teams only; organisers use 'harness submit --lab'"


class FormError(HarnessError):
    """An upload was refused before it was taken; `given` are the texts that came with it, to fill in the form again."""

    def __init__(self, lines: Sequence[str], given: Mapping[str, str]) -> None:
        super().__init__(*lines)
        self.given = given


def service_of(request: Request) -> Service:
    """Returns the service."""
    return cast(Service, request.app.state.service)


def cookie_name(request: Request) -> str:
    """Returns the name of the session's cookie; with HTTPS, browsers accept `__Host-` from this host alone."""
    return "__Host-session" if is_secure(request) else "session"


def is_secure(request: Request) -> bool:
    """Returns whether the browser uses HTTPS."""
    return request.url.scheme == "https" or service_of(request).settings.secure


def address_of(request: Request) -> str:
    """Returns the address of the server without a slash at its end."""
    return (service_of(request).settings.url or str(request.base_url)).rstrip("/")


def caller(request: Request) -> Caller | None:
    """Returns who calls: by the token in `Authorization`, else by the session of a browser; None for a visitor.

    Raises
    ------
    RefusedRequestError
        The token is unknown, or too many were.
    """
    service = service_of(request)
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        attempt(request, spend=False)
        holder = service.by_token(token)
        if holder is None:
            attempt(request)
            raise RefusedRequestError(401, "the token is unknown or was revoked; the organisers can issue another")
        return holder
    secret = request.cookies.get(cookie_name(request))
    return service.by_session(secret) if secret else None


def attempt(request: Request, *, spend: bool = True) -> None:
    """Counts a wrong token or code of an address.

    Raises
    ------
    RefusedRequestError
        There were too many.
    """
    rate = service_of(request).settings.attempts
    if not request.app.state.rates.take(f"attempts {client_address(request.scope)}", rate, 1.0 if spend else 0.0):
        raise RefusedRequestError(429, "too many wrong tokens; wait a minute")


def caller_as(request: Request, role: Role) -> Caller:
    """Returns the caller, who must have a role.

    Raises
    ------
    RoleError
        The caller does not have the role.
    """
    who = caller(request)
    if who is None or who.role != role:
        raise RoleError(role, who)
    return who


def check_form(request: Request, who: Caller, given: Mapping[str, Any]) -> None:
    """Checks that a form of a session comes from one of its own pages.

    Raises
    ------
    RefusedRequestError
        It does not.
    """
    if who.csrf and not (same_origin(request) and same(str(given.get("csrf", "")), who.csrf)):
        reason = "the form is not from a page of your session; go back, reload the page and try again"
        raise RefusedRequestError(403, reason)


async def fields(request: Request) -> dict[str, str]:
    """Returns the fields of a form without files; of a repeated field, the last value."""
    if not same_origin(request):
        raise RefusedRequestError(403, "the form comes from another site")
    async with _open_form(request, files=0, texts=30) as form:
        return {name: value for name, value in form.multi_items() if isinstance(value, str)}


@asynccontextmanager
async def _open_form(request: Request, files: int, texts: int) -> AsyncIterator[FormData]:
    try:
        form = await request.form(max_files=files, max_fields=texts, max_part_size=_TEXT)
    except UnicodeError:  # by the character set that the request names
        raise RefusedRequestError(400, "the form is not text in the character set that it names; send UTF-8") from None
    try:
        yield form
    finally:
        await form.close()


@contextmanager
def upload_rate(request: Request, who: Caller) -> Iterator[None]:
    """Counts an upload of a team, which is received in the block.

    Raises
    ------
    RefusedRequestError
        The team sends too many.
    """
    if not request.app.state.rates.take(f"uploads {who.name}", service_of(request).settings.uploads):
        raise RefusedRequestError(429, f"team {who.name}: too many uploads; wait a minute")
    receiving: Counter[str] = request.app.state.receiving
    if receiving[who.name] >= _AT_ONCE:
        reason = f"team {who.name}: sends {_AT_ONCE} uploads already; wait until they have arrived"
        raise RefusedRequestError(429, reason)
    receiving[who.name] += 1
    try:
        yield
    finally:
        receiving[who.name] -= 1


async def take_upload(request: Request, who: Caller, key: str = "") -> Upload:
    """Reads an upload - the files `run` and `metadata`, and fields of text - and puts it into the queue.

    Raises
    ------
    FormError
        A part is missing or unknown, or the upload is refused.
    RefusedRequestError
        The form is not from a page of the caller's session.
    """
    with upload_rate(request, who):
        async with _open_form(request, files=2, texts=20) as form:
            items = form.multi_items()
            twice = [name for name, count in Counter(name for name, _ in items).items() if count > 1]
            files = {name: part for name, part in items if isinstance(part, UploadFile)}
            texts = {name: part for name, part in items if isinstance(part, str)}
            check_form(request, who, texts)
            if twice:
                raise FormError([f"field {twice[0]!r} is sent more than once; send one run at a time"], texts)
            try:
                return await run_in_threadpool(_enter, service_of(request), who.name, files, texts, key)
            except UnavailableError:
                raise
            except HarnessError as error:
                raise FormError(error.lines, texts) from None


def _enter(service: Service, team: str, files: Mapping[str, UploadFile], texts: Mapping[str, str], key: str) -> Upload:
    """Puts an upload of a form into the queue."""
    if unknown := sorted(files.keys() - {"run", "metadata"} | texts.keys() - {*FIELDS, "csrf", "key", "metadata"}):
        raise HarnessError(f"field {unknown[0]!r} is unknown; expected run, metadata, {', '.join(FIELDS)}")
    run, metadata = files.get("run"), files.get("metadata")
    if run is None or not run.filename:
        raise HarnessError("run: is missing; send the run file as the field 'run'")
    given: dict[str, Any] = {name: text for name, text in texts.items() if name in FIELDS and text.strip()}
    given["primary"] = _parse_bool(given.get("primary", "false"))
    beside = cast(IO[bytes], metadata.file) if metadata is not None and metadata.filename else None
    sent = (run.filename, cast(IO[bytes], run.file))
    return service.upload(team, sent, beside, given, key or texts.get("key", ""))


def _parse_bool(text: str) -> bool:
    if text not in ("true", "false"):
        raise HarnessError(f"primary: is {text!r}, expected true or false")
    return text == "true"
