"""Pages of a static site: plain values that `harness.render.site_html` draws.

All strings are untrusted plain text, as in `harness.render.model`, whose blocks pages may contain as well. A link
inside the site is the path of its target from the root of the site, such as `mini/index.html#ranks`.

Writes a folder of files again and again: only what changed, and deletes only what it wrote itself.

The file `MANIFEST` in the folder lists the files of the last build with their SHA-256. While a build runs, `PARTIAL`
lists the paths that it is about to write, so that the next build recognizes the files of a killed one.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Literal, TypeAlias

from harness.errors import HarnessError
from harness.io.files import sha256, sha256_file, write_all, write_atomic
from harness.io.names import without_accents
from harness.render.model import Direction, Facts, Figure, Prose, Table

_WORDS = re.compile(r"[^a-z0-9._-]+")
_DEVICE = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?", re.ASCII)
_PATH = re.compile(r"(?:[a-z0-9_][a-z0-9._-]*/)*[a-z0-9_][a-z0-9._-]*", re.ASCII)
_LONGEST = 64  # characters of a name in a path
_WEB = re.compile(r"https?://[^\s\x00-\x20\"'<>\\]+")


def file_stem(name: str) -> str:
    """Returns a name for a file or folder that depends only on the given name.

    It has lower-case ASCII letters, which lose their accents, digits and `_.-`. A name that would lose more than its
    case gets eight digits of its SHA-256 at the end, so that names that differ in more than case get different files.

    Examples
    --------
    >>> file_stem("PSU-A2"), file_stem("../../etc"), file_stem("a b"), file_stem("Česká-skupina")[:14]
    ('psu-a2', 'etc-74ccf3c5', 'a-b-c8687a08', 'ceska-skupina-')
    """
    safe = _WORDS.sub("-", without_accents(name)).strip(".-")[:_LONGEST].rstrip(".-")
    if safe and safe == name.lower() and not _DEVICE.fullmatch(safe):
        return safe
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{safe}-{digest}" if safe and not _DEVICE.fullmatch(safe) else f"x-{digest}"


def check_path(path: str) -> str:
    """Returns a path of a file below the root of a site; raises HarnessError for any that could lead elsewhere."""
    if not _PATH.fullmatch(path) or any(_DEVICE.fullmatch(part) for part in path.split("/")):
        raise HarnessError(f"site: path {path!r} is not usable; expected names of a-z, 0-9, '.', '_' and '-'")
    return path


def is_web(address: str) -> bool:
    """Returns whether a text is exactly an address of the web, which alone may become a link out of the site."""
    return _WEB.fullmatch(address) is not None


@dataclass(frozen=True)
class Link:
    """A link; `address` is a path inside the site or an address of the web. Other addresses are shown as text."""

    text: str
    address: str


@dataclass(frozen=True)
class Rich:
    """A paragraph of texts and links."""

    parts: tuple[str | Link, ...]


@dataclass(frozen=True)
class QuotedText:
    """Text by others with formulas in LaTeX; blank lines separate paragraphs.

    Attributes
    ----------
    language : BCP 47 tag; empty if unknown.
    label : what the passage is, for a closed part of the page; empty if it is always visible.
    """

    text: str
    language: str = ""
    direction: Direction = "auto"
    label: str = ""


@dataclass(frozen=True)
class Badge:
    """A short statement and what it means; `tone` is good, plain or warn."""

    text: str
    meaning: str
    tone: Literal["good", "plain", "warn"] = "plain"


@dataclass(frozen=True)
class Badges:
    """Badges of a run."""

    items: tuple[Badge, ...]


@dataclass(frozen=True)
class Code:
    """Lines to copy, such as commands, with what they do."""

    label: str
    text: str


@dataclass(frozen=True)
class Folded:
    """A closed part of the page: a line that opens further blocks."""

    summary: str
    blocks: tuple[Block, ...]
    marks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Item:
    """A cell of a listing.

    Attributes
    ----------
    value : number that sorts the cell; None to sort by text.
    small : second line.
    link : where the text leads; empty for nowhere.
    best : whether the value is the best of its column.
    grades : (text, level from 0 to 3; -1 without a grade, meaning) for each of a row of boxes.
    strip : positions from 0 to 1, drawn as ticks on a line.
    maths : whether formulas in the text are drawn.
    """

    text: str
    value: float | None = None
    small: str = ""
    link: str = ""
    best: bool = False
    grades: tuple[tuple[str, int, str], ...] = ()
    strip: tuple[float, ...] = ()
    maths: bool = False


@dataclass(frozen=True)
class Head:
    """Heading of a column of a listing; a column that is not `shown` can be switched on."""

    title: str
    kind: Literal["text", "number"] = "text"
    shown: bool = True
    about: str = ""


@dataclass(frozen=True)
class ListingLine:
    """A row of a listing; `facets` : name of a facet -> the row's values."""

    items: tuple[Item, ...]
    facets: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Facet:
    """A filter of a listing.

    Attributes
    ----------
    values : values to choose from; a row fits if it has one of the chosen ones.
    chosen : value that is chosen when the page opens; empty for all.
    everything : label of the choice of all rows.
    """

    name: str
    label: str
    values: tuple[str, ...]
    chosen: str = ""
    everything: str = "all"


@dataclass(frozen=True)
class ExtraColumn:
    """A further column of a listing, chosen by the reader: `values[i]` has a text for each row."""

    label: str
    names: tuple[str, ...]
    values: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Listing:
    """A table whose rows lead to pages, with search, filters and optional columns.

    Attributes
    ----------
    search : whether there is a search box.
    notes : lines below.
    """

    id: str
    caption: str
    heads: tuple[Head, ...]
    lines: tuple[ListingLine, ...]
    facets: tuple[Facet, ...] = ()
    search: bool = False
    lookup: ExtraColumn | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_path(self.id)
        for number, line in enumerate(self.lines, 1):
            if len(line.items) != len(self.heads):
                raise HarnessError(
                    f"listing {self.id}: row {number} has {len(line.items)} cells, expected {len(self.heads)}"
                )


@dataclass(frozen=True)
class RunValues:
    """Values of all runs on all topics, from which the page compares any two runs.

    Attributes
    ----------
    runs : (name, key in addresses, page).
    topics : (id, title, page).
    measures : labels of the measures.
    values : measure -> run -> topic; NaN where a topic does not count.
    clusters : cluster of each topic; empty if topics are independent.
    tests : (index of a run, index of a later run, corrected p, whether it is significant) of the pairs whose p in the
        first measure is corrected; both None if the test is undefined. No other p is corrected.
    correction : the correction in words; alpha : level.
    first : indices of the two runs that are compared at first.
    """

    runs: tuple[tuple[str, str, str], ...]
    topics: tuple[tuple[str, str, str], ...]
    measures: tuple[str, ...]
    values: tuple[tuple[tuple[float, ...], ...], ...]
    clusters: tuple[int, ...] = ()
    tests: tuple[tuple[int, int, float | None, bool | None], ...] = ()
    correction: str = ""
    alpha: float = 0.05
    first: tuple[int, int] = (0, 1)


Block: TypeAlias = (
    Prose
    | Facts
    | Table
    | Figure
    | Rich
    | QuotedText
    | Badges
    | Code
    | Folded
    | Listing
    | RunValues  # pragma: no mutate
)


@dataclass(frozen=True)
class PageSection:
    """A section of a page; its id is the slug of the title."""

    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Page:
    """A page of a site.

    Attributes
    ----------
    path : of its file, from the root of the site.
    tabs : pages of the same lab or paper; `tab` is the address of the one that this page belongs to.
    crumbs : pages above this one, the root first.
    steps : previous and next page, None where there is none.
    kicker : a line above the title.
    beside : the same content in other formats.
    feed : path of the Atom feed; empty for none.
    """

    path: str
    title: str
    headline: str
    parts: tuple[PageSection, ...]
    tabs: tuple[Link, ...] = ()
    tab: str = ""
    crumbs: tuple[Link, ...] = ()
    steps: tuple[Link | None, Link | None] = (None, None)
    kicker: str = ""
    beside: tuple[Link, ...] = ()
    feed: str = ""
    site: str = ""

    def __post_init__(self) -> None:
        check_path(self.path)

    def blocks(self) -> Iterator[Block]:
        """Yields all blocks in reading order, those of folded parts included."""
        waiting: list[Block] = [block for part in reversed(self.parts) for block in reversed(part.blocks)]
        while waiting:
            block = waiting.pop()
            yield block
            if isinstance(block, Folded):
                waiting.extend(reversed(block.blocks))


MANIFEST, PARTIAL = "manifest.json", ".partial"
SCHEMA, VERSION = "mathir-harness/site-files", 1
_SHA = re.compile("[0-9a-f]{64}")


class BuildFolder:
    """A folder while a build writes it; a context manager.

    Attributes
    ----------
    written, same, deleted : numbers of files that this build wrote, found unchanged, and deleted.

    Raises
    ------
    HarnessError
        The folder cannot be written, another build is writing it, its manifest is damaged, or a file that this build
        would write was written by somebody else.

    Examples
    --------
    >>> for _ in range(2):
    ...     with BuildFolder(Path("built")) as folder:
    ...         folder.write({"a/index.html": "a page"})
    >>> folder.written, folder.same, folder.deleted
    (0, 1, 0)
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.written = self.same = self.deleted = 0
        self._files: dict[str, str] = {}  # of this build: path -> SHA-256
        self._owned: dict[str, str] = {}  # of earlier builds; empty checksum if unknown
        self._handle = -1

    def __enter__(self) -> BuildFolder:
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            self._handle = os.open(self.root / PARTIAL, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise HarnessError(f"{self.root}: cannot be written: {error.strerror or error}") from None
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._handle)
            raise HarnessError(f"{self.root}: another build is writing this folder; wait until it ends") from None
        try:
            self._owned = {**_partial(self.root / PARTIAL), **_read_manifest(self.root / MANIFEST)}
        except BaseException:
            os.close(self._handle)
            raise
        return self

    def write(self, files: Mapping[str, str | bytes]) -> None:
        """Writes files, path -> content; those that have this content already are left alone."""
        changed: dict[str, bytes] = {}
        for path, content in files.items():
            if check_path(path) in self._files:
                raise HarnessError(f"site: two pages have the path {path}")
            data = content.encode("utf-8") if isinstance(content, str) else content
            self._files[path] = sha256(data)
            if self._on_disk(path) == self._files[path]:
                self.same += 1
            else:
                changed[path] = data
        if not changed:
            return
        new = [path for path in changed if path not in self._owned]
        for path in new:
            if os.path.lexists(self.root / path):
                reason = "exists and was not written by 'harness site build'; choose another folder, or move the file"
                raise HarnessError(f"{self.root / path}: {reason}")
        os.write(self._handle, "".join(f"{path}\n" for path in new).encode())
        write_all({self.root / path: data for path, data in changed.items()})
        self.written += len(changed)

    def _on_disk(self, path: str) -> str:
        """Returns the checksum of a file as it is; empty if there is none."""
        try:
            return sha256_file(self.root / path)
        except HarnessError:
            return ""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        try:
            if kind is None:
                self._finish()
        finally:
            os.close(self._handle)

    def _finish(self) -> None:
        """Deletes files of earlier builds that nobody changed since, and writes the manifest."""
        for path, checksum in self._owned.items():
            if path not in self._files and checksum in ("", self._on_disk(path)):
                with suppress(OSError):  # somebody else deleted it
                    (self.root / path).unlink()
                    self.deleted += 1
                for parent in Path(path).parents[:-1]:
                    with suppress(OSError):  # not empty
                        (self.root / parent).rmdir()
        document = {"schema": SCHEMA, "version": VERSION, "files": dict(sorted(self._files.items()))}
        text = json.dumps(document, indent=1) + "\n"
        if self._on_disk(MANIFEST) != sha256(text.encode()):
            write_atomic(self.root / MANIFEST, text)
        (self.root / PARTIAL).unlink(missing_ok=True)


def _partial(path: Path) -> dict[str, str]:
    """Returns the paths that a killed build may have written."""
    lines = path.read_text("utf-8", "replace").splitlines()
    return {line: "" for line in lines if _is_valid_path(line)}


def _read_manifest(path: Path) -> dict[str, str]:
    if not path.exists():
        return {}
    try:
        document = json.loads(path.read_text("utf-8"))
        files = document["files"]
        right = (document["schema"], document["version"]) == (SCHEMA, VERSION)
        right = right and all(_is_valid_path(name) and _SHA.fullmatch(digest) for name, digest in files.items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        right = False
    if not right:
        raise HarnessError(f"{path}: is not the list of files of 'harness site build'; choose another folder")
    return dict(files)


def _is_valid_path(path: object) -> bool:
    """Returns whether a value is a path that a manifest may name."""
    try:
        return isinstance(path, str) and bool(check_path(path))
    except HarnessError:
        return False
