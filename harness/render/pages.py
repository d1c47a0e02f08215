"""Pages of a static site: plain values that `harness.render.site_html` draws.

All strings are untrusted plain text, as in `harness.render.model`, whose blocks pages may contain as well. A link
inside the site is the path of its target from the root of the site, such as `mini/index.html#ranks`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from harness.errors import HarnessError
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
