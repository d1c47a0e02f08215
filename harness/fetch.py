"""Public files and folders, each named by source, commit, path and SHA-256: from the cache, a mirror or the network."""

from __future__ import annotations

import hashlib
import logging
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import quote, urljoin

from harness import __version__, archives, console
from harness.errors import HarnessError, suggestion
from harness.files import cache_root, sha256_file
from harness.temporary import lock, new_file

if TYPE_CHECKING:
    from http.client import HTTPResponse

    from harness.folders import Folder

LOG = logging.getLogger(__name__)
RAW_BASE = "https://raw.githubusercontent.com"
URL = re.compile(r"https?://[\w.:\[\]-]+([/?#][!-~]*)?", re.ASCII)
TIMEOUT = 30.0  # seconds without progress, while connecting or waiting for the next byte
TRIES = 4
PAUSE = 0.5  # seconds before the second try; doubles from then on
MAX_FILE = 1 << 30  # bytes of one file whose size is not declared
MAX_REDIRECTS = 5
CHUNK = 1 << 16

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Resource:
    """One public file.

    Attributes
    ----------
    repository : `owner/name` on github.com; empty for a plain URL and for a manual download.
    commit : 40 hexadecimal digits; empty without a repository.
    path : the file's place inside the repository or, without one, inside the mirror and `files/` of the cache.
    sha256 : 64 hexadecimal digits. Only a manual download may leave it empty; it is then taken unverified.
    size : bytes, 0 if unknown.
    url : where to download from, if that is not the repository's raw file.
    by_hand : how a person gets the file, if it cannot be fetched.

    A malformed field, a path that leads out of its folder and a missing source raise `HarnessError`.
    """

    repository: str
    commit: str
    path: str
    sha256: str
    size: int = 0
    licence: str = ""
    url: str = ""
    by_hand: str = ""

    def __post_init__(self) -> None:
        for field in fields(self):
            kind, said = (int, "a whole number") if field.name == "size" else (str, "text (in quotes)")
            if type(value := getattr(self, field.name)) is not kind:
                raise HarnessError(f"{field.name} must be {said}, got {value!r}")
        commit = "[0-9a-f]{40}" if self.repository else ""
        sha256 = "([0-9a-f]{64})?" if self.by_hand else "[0-9a-f]{64}"
        inside = self.path.isprintable() and not {"", ".", ".."} & set(self.path.split("/"))
        for name, good, form in (
            ("repository", re.fullmatch(r"(\w[\w.-]*/\w[\w.-]*)?", self.repository, re.ASCII), "owner/name"),
            ("commit", re.fullmatch(commit, self.commit), "40 lower-case hex digits (empty without a repository)"),
            ("path", inside, "relative, printable, without '.', '..' and empty parts"),
            ("sha256", re.fullmatch(sha256, self.sha256), "64 lower-case hex digits"),
            ("size", self.size >= 0, "0 (unknown) or more"),
            ("url", not self.url or URL.fullmatch(self.url), "an http or https address, percent-encoded"),
        ):
            if not good:
                raise HarnessError(f"{name} must be {form}, got {getattr(self, name)!r}")
        if bool(self.by_hand) == bool(self.url) and (self.url or not self.repository):
            raise HarnessError("the source must be a repository, url or by_hand, and not both of the last two")

    @classmethod
    def from_config(cls, mapping: Mapping[str, Any], where: str) -> Resource:
        """A resource from configuration. Unknown, missing and malformed keys raise `HarnessError`, after `where`."""
        known = {field.name for field in fields(cls)}
        for key in mapping:
            if key not in known:
                raise HarnessError(f"{where}: unknown key {str(key)!r}; {suggestion(str(key), known)}")
        for key in ("path", "licence", "by_hand" if "by_hand" in mapping else "sha256"):
            if key not in mapping:
                raise HarnessError(f"{where}: key {key!r} is missing")
        try:
            return cls(**{"repository": "", "commit": "", "sha256": "", **mapping})
        except HarnessError as error:
            raise HarnessError(f"{where}: {error}") from None

    @property
    def name(self) -> str:
        """What messages call the file: `owner/name@commit/path` with 7 digits of the commit, or the path alone."""
        return f"{self.repository}@{self.commit[:7]}/{self.path}" if self.repository else self.path

    @property
    def _folder(self) -> str:
        return f"github.com/{self.repository}/{self.commit}" if self.repository else ""

    @property
    def _member(self) -> str:
        return f"{self.repository.rpartition('/')[2]}-{self.commit}/{self.path}"

    @property
    def _address(self) -> str:
        base = os.environ.get("HARNESS_RAW_BASE") or RAW_BASE
        return self.url or f"{base.rstrip('/')}/{self.repository}/{self.commit}/{quote(self.path)}"

    @property
    def cached(self) -> Path:
        """Where the cache keeps the file, and where a person may put it."""
        return cache_root() / (self._folder or "files") / self.path


def fetch(
    resources: Iterable[Resource | Folder], *, progress: Progress | None = None, timeout: float = TIMEOUT
) -> list[Path]:
    """The local paths of verified files and folders, in the order of `resources`.

    An archive is unpacked once for all files.

    Looks in the cache, then in `HARNESS_MIRROR`, then (unless `HARNESS_OFFLINE` is set) on the network, where
    `timeout` is in seconds without a byte. Files got before another one fails stay in the cache. A file that cannot
    be had or has another checksum raises `HarnessError`, which says where it was looked for and what to do.
    """
    wanted = list(resources)
    files: dict[Path, Resource] = {}
    for resource in wanted:
        if isinstance(resource, Resource) and files.setdefault(resource.cached, resource).sha256 != resource.sha256:
            raise HarnessError(f"{resource.name}: asked for with two checksums")
    archives: dict[Path, list[Resource]] = {}
    elsewhere: list[Resource] = []
    for resource in files.values():
        if _is_cached(resource, progress or LOG.warning):
            continue
        plain, archive = _mirrored(resource)
        if plain is not None:
            with _reported(plain, "read"), plain.open("rb") as content:
                _put(resource, content, str(plain))
        elif archive is not None:
            archives.setdefault(archive, []).append(resource)
        else:
            elsewhere.append(resource)
    for archive, members in archives.items():
        (progress or LOG.info)(f"unpacking {archive}")
        elsewhere += _extract(archive, members)
    for resource in elsewhere:
        _download(resource, progress or LOG.info, timeout)
    for folder in dict.fromkeys(entry for entry in wanted if not isinstance(entry, Resource)):
        from harness.folders import get_folder

        get_folder(folder, progress, timeout)
    return [resource.cached for resource in wanted]


def fetch_one(resource: Resource, *, progress: Progress | None = None, timeout: float = TIMEOUT) -> Path:
    """The local path of one verified file; see `fetch`."""
    return fetch([resource], progress=progress, timeout=timeout)[0]


def state(resource: Resource | Folder) -> str:
    """`here` (in the cache or mirror, or its archive is), `fetchable`, or `manual download: HOW`. Reads no file.

    A `HARNESS_MIRROR` that does not exist raises `HarnessError`.
    """
    with _reported(resource.cached, "read"):
        by_hand = resource.by_hand if isinstance(resource, Resource) else ""
        here = resource.cached.is_file() if isinstance(resource, Resource) else resource.cached.is_dir()
        if here or any(_mirrored(resource)):
            return "here"
    return f"manual download: {_line(by_hand)}" if by_hand else "fetchable"


def reachable(timeout: float = 5.0) -> bool:
    """Whether the network (or the proxy that downloads go through) answers within `timeout` seconds."""
    import socket
    from urllib.parse import urlsplit
    from urllib.request import getproxies, proxy_bypass

    if _offline():
        return False
    base = urlsplit(os.environ.get("HARNESS_RAW_BASE") or RAW_BASE)
    proxy = getproxies().get(base.scheme)
    if proxy and not proxy_bypass(base.hostname or ""):
        base = urlsplit(proxy if "//" in proxy else f"http://{proxy}")
    try:
        port = base.port or (443 if base.scheme == "https" else 80)
        with socket.create_connection((base.hostname or "", port), timeout):
            return True
    except (OSError, ValueError):
        return False


def _offline() -> bool:
    return os.environ.get("HARNESS_OFFLINE", "0") not in ("", "0")


_verified: set[tuple[str, int, int, str]] = set()  # path, mtime in ns, size, SHA-256


def _stamp(resource: Resource | Folder) -> tuple[str, int, int, str]:
    status = resource.cached.stat()
    return str(resource.cached), status.st_mtime_ns, status.st_size, resource.sha256


def _is_cached(resource: Resource, warn: Progress) -> bool:
    """Whether the cache holds the right file. A damaged one is removed, unless a person put it there."""
    path = resource.cached
    with _reported(path, "read"):
        try:
            stamp = _stamp(resource)
        except (FileNotFoundError, NotADirectoryError):
            return False
        if not resource.sha256 or stamp in _verified or (found := sha256_file(path)) == resource.sha256:
            _verified.add(stamp)
            return True
        if resource.by_hand:
            raise _wrong(resource, f"sha256 {resource.sha256}", found, str(path), "it was left there")
        path.unlink(missing_ok=True)
    warn(f"{resource.name}: the cached file was damaged (sha256 {found}), getting it again")
    return False


def _put(resource: Resource, content: IO[bytes], source: str) -> None:
    """Write a file into the cache, all of it and verified or not at all."""
    target = resource.cached
    digest = hashlib.sha256()
    length = 0
    told = console.progress(f"checking {resource.name}", resource.size / 1e6 or None, " MB")
    with _reported(target, "written"), new_file(target.parent) as (temporary, stream), told as shown:
        while chunk := content.read(CHUNK):
            length += len(chunk)
            shown.add(len(chunk) / 1e6)
            if length > (resource.size or MAX_FILE):
                raise _wrong(resource, f"at most {resource.size or MAX_FILE} bytes", f"{length}", source)
            digest.update(chunk)
            stream.write(chunk)
        stream.flush()
        os.fsync(stream.fileno())
        if digest.hexdigest() != (resource.sha256 or digest.hexdigest()):
            raise _wrong(resource, f"sha256 {resource.sha256}", digest.hexdigest(), source)
        temporary.replace(target)
        _verified.add(_stamp(resource))


def _mirrored(resource: Resource | Folder) -> tuple[Path | None, Path | None]:
    """Where the mirror has the file itself, and where it has the archive that should hold it."""
    named = os.environ.get("HARNESS_MIRROR")
    if not named:
        return None, None
    mirror = Path(named)
    if not mirror.is_dir():
        raise HarnessError(f"HARNESS_MIRROR: no such folder: {mirror}")
    plain = mirror / resource._folder / resource.path
    archive = mirror / f"{resource._folder}.tar.xz"
    return plain if plain.is_file() else None, archive if archive.is_file() else None


def _extract(archive: Path, resources: list[Resource]) -> list[Resource]:
    """Stream once through an archive, put the wanted members into the cache, and return what it does not hold.

    Only members of exactly the wanted names are taken, to paths of our own making.
    """
    wanted = {resource._member: resource for resource in resources}
    told = console.progress(f"unpacking {archive.name}, files", len(wanted))
    with archives.unpacked(archive) as (content, tar), told as shown:
        for member in archives.members(content, tar, archive):
            if resource := wanted.pop(member.name.removeprefix("./"), None):
                _put(resource, archives.content(tar, member, archive), str(archive))
                shown.add()
            if not wanted:
                break
    return list(wanted.values())


def _download(resource: Resource, say: Progress, timeout: float) -> None:
    """Download into a part file beside the target, going on where an earlier try stopped; then verify and rename."""
    if resource.by_hand:
        raise _unavailable(resource, f"must be downloaded manually: {_line(resource.by_hand)}")
    if _offline():
        raise _unavailable(resource, "HARNESS_OFFLINE forbids the network")
    part = resource.cached.parent / f".{resource.sha256}.part"
    with _reported(resource.cached, "written"):
        part.parent.mkdir(parents=True, exist_ok=True)
        with _locked(part.parent):
            # Another process may have finished the file while this one waited.
            if _is_cached(resource, say):
                return
            say(f"downloading {resource._address}")
            _complete(resource, part, timeout)
            with part.open("rb") as content:
                part.unlink()  # whatever its checksum turns out to be
                _put(resource, content, resource._address)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Only one process at a time downloads into a folder."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        lock(handle)
        yield
    finally:
        os.close(handle)


def _complete(resource: Resource | Folder, part: Path, timeout: float) -> None:
    """Try until the part file is complete; if that fails, what came stays in it for the next run."""
    from http.client import HTTPException
    from urllib.error import URLError

    reason = ""
    for attempt in range(1, TRIES + 1):
        try:
            return _receive(resource, part, timeout)
        except TimeoutError:
            reason = f"nothing came for {timeout:g} s"
        except URLError as error:
            raise _unavailable(resource, f"no connection to {resource._address}: {_line(error.reason)}") from None
        except (OSError, HTTPException, ValueError) as error:
            reason = _line(error)
        if attempt < TRIES:
            time.sleep(PAUSE * 2 ** (attempt - 1))
    raise _unavailable(resource, f"{reason} ({TRIES} tries of {resource._address})")


def _receive(resource: Resource | Folder, part: Path, timeout: float) -> None:
    """One try: append to the part file what it lacks, or begin it anew if the server does not go on where it ends.

    Raises `OSError` where another try may succeed, `HarnessError` where none will.
    """
    have = part.stat().st_size if part.exists() else 0
    if have and have == resource.size:
        return
    with _open(resource, have, timeout) as response:
        start = re.match(r"bytes (\d+)-", response.headers.get("Content-Range", ""))
        if have and (response.status == 416 or (response.status == 206 and (start is None or int(start[1]) != have))):
            part.unlink()
            raise ConnectionError(f"the server does not go on from byte {have}")
        if response.status >= 500 or response.status in (408, 429):
            raise ConnectionError(f"HTTP status {response.status}")
        if response.status not in (200, 206):
            raise _unavailable(resource, f"HTTP status {response.status} from {resource._address}")
        have = have if response.status == 206 else 0
        total = resource.size if response.length is None else have + response.length
        left = (total - have) / 1e6 if total else None
        told = console.progress(f"downloading {resource.name}", left, " MB")
        with part.open("ab" if have else "wb") as stream, told as shown:
            # read1 returns what has come, so that a stall loses none of it.
            while chunk := response.read1(CHUNK):
                have += len(chunk)
                if max(have, total) > (limit := resource.size or MAX_FILE):
                    part.unlink()
                    raise _wrong(resource, f"at most {limit} bytes", f"{max(have, total)}", resource._address)
                stream.write(chunk)
                shown.add(len(chunk) / 1e6)
    if have < total:
        raise ConnectionError(f"cut short after {have} of {total} bytes")


def _open(resource: Resource | Folder, offset: int, timeout: float) -> HTTPResponse:
    """The answer, of whatever status, to a GET of the bytes from `offset` on, after redirects."""
    from urllib.request import HTTPHandler, HTTPSHandler, OpenerDirector, ProxyHandler, Request

    opener = OpenerDirector()  # with these handlers only: no files, no ftp, no redirects but those followed below
    for handler in (ProxyHandler(), HTTPHandler(), HTTPSHandler()):
        opener.add_handler(handler)
    headers = {"User-Agent": f"mathir-harness/{__version__}"}
    if offset:
        headers["Range"] = f"bytes={offset}-"
    url, secure = resource._address, False
    for _ in range(MAX_REDIRECTS + 1):
        if not URL.fullmatch(url) or (secure and url.startswith("http:")):
            raise _unavailable(resource, f"refused to load {url!r} for {resource._address}")
        secure = url.startswith("https:")
        response: HTTPResponse = opener.open(Request(url, headers=headers), timeout=timeout)  # noqa: S310
        location = response.headers.get("Location")
        if location is None or not 300 < response.status < 400:
            return response
        response.close()
        url = urljoin(url, location)
    raise _unavailable(resource, f"more than {MAX_REDIRECTS} redirects from {resource._address}")


@contextmanager
def _reported(path: Path, done: str, errors: tuple[type[Exception], ...] = (OSError,)) -> Iterator[None]:
    try:
        yield
    except errors as error:
        raise HarnessError(f"{path}: cannot be {done}: {_line(error)}") from None


def _line(what: object) -> str:
    return " ".join((getattr(what, "strerror", None) or str(what) or type(what).__name__).split())


def _wrong(
    resource: Resource | Folder, expected: str, found: str, source: str, after: str = "nothing was kept"
) -> HarnessError:
    return HarnessError(f"{resource.name}: expected {expected}, found {found} in {source}; {after}")


def _unavailable(resource: Resource | Folder, reason: str) -> HarnessError:
    """Why a file could not be had, where it was looked for, and what to do."""
    mirror = _mirrored(resource)[1] or os.environ.get("HARNESS_MIRROR")
    looked = f"not in {mirror}" if mirror else "HARNESS_MIRROR is not set"
    holder = f"{resource._folder}.tar.xz" if resource._folder else resource.path
    kind = "folder" if not isinstance(resource, Resource) else "file"
    checksum = f" (sha256 {resource.sha256})" if resource.sha256 else ""
    return HarnessError(
        f"{resource.name}: {reason}; not in the cache, {looked}; "
        f"set HARNESS_MIRROR to a folder with {holder}, or put the {kind}{checksum} at {resource.cached}"
    )
