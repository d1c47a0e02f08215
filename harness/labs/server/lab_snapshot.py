"""The lab as it is now, read again only when its files change; the server's own files; messages without its folders."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

from harness.errors import HarnessError, os_errors
from harness.io.console import log_text
from harness.io.files import write_atomic
from harness.labs.journal import FILE as JOURNAL
from harness.labs.journal import Event, Journal
from harness.labs.lab import FILE, Lab, read_lab
from harness.labs.submissions import Submission, from_events

HIDDEN = re.compile(r"(^|/)\.")  # in a path of the site: files that are not its pages
DATABASE, SITE, STATE, DOWNLOADS = "server.sqlite", "site", "site.json", "downloads"


class UnavailableError(HarnessError):
    """The server cannot do now what it could do later."""


class UnreadableError(UnavailableError):
    """The lab cannot be read, as its organisers must mend it."""

    def __init__(self) -> None:
        super().__init__("the lab cannot be read at present; the organisers can see why in the server's log")


def state_folder(lab: Path) -> Path:
    """Returns the default folder of a server's own files: beside the lab's, as `LAB.server`."""
    lab = lab.resolve()
    return lab.parent / f"{lab.name}.server"


def make_private(folder: Path) -> None:
    """Creates the folder of a server's own files, which only its user may read.

    Raises
    ------
    HarnessError
        It cannot be created, or others may read it.
    """
    with os_errors(folder, "created"):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        mode = folder.stat().st_mode & 0o777
    if mode & 0o077:
        raise HarnessError(f"{folder}: others may read it (mode {mode:o}); chmod 700 it")


@dataclass
class Live:
    """A lab that is read again when its settings or its journal change. Safe for threads.

    What cannot be read is tried again at the next call; the reason is said once, since it has paths of the server.
    """

    folder: Path
    _lock: Lock = field(default_factory=Lock, repr=False)
    _stamp: tuple[int, int] = (0, 0)
    _lab: Lab | None = None
    _journal: Journal | None = None
    _inode: int = 0
    _size: int = 0
    _submissions: tuple[int, tuple[Submission, ...]] = (-1, ())
    _said: str = ""

    def lab(self) -> Lab:
        """Returns the lab with its present settings.

        Raises
        ------
        UnreadableError
            The settings are wrong.
        """
        with self._lock, self._unreadable_logged():
            stamp = _stamp(self.folder / FILE)
            if self._lab is None or stamp != self._stamp:
                self._lab = None  # settings that were replaced may be those that told too much
                self._lab, self._stamp = read_lab(self.folder), stamp
            return self._lab

    def events(self) -> Sequence[Event]:
        """Returns the events of the journal.

        Raises
        ------
        UnreadableError
            The journal is missing or damaged.
        """
        with self._lock, self._unreadable_logged():
            return self._read_journal().events[:]

    def submissions(self) -> tuple[Submission, ...]:
        """Returns all submissions in the order of the journal."""
        with self._lock, self._unreadable_logged():
            events = self._read_journal().events
            if self._submissions[0] != len(events):
                self._submissions = len(events), from_events(events, self.folder)
            return self._submissions[1]

    def _read_journal(self) -> Journal:
        path = self.folder / JOURNAL
        with suppress(OSError):
            status = path.stat()
            # A journal that was restored from a copy is read from its beginning.
            if status.st_ino != self._inode or status.st_size < self._size:
                self._journal, self._inode, self._submissions = None, status.st_ino, (-1, ())
            self._size = status.st_size
        journal, self._journal = self._journal or Journal(self.folder), None
        journal.catch_up()
        self._journal = journal
        return journal

    @contextmanager
    def _unreadable_logged(self) -> Iterator[None]:
        try:
            yield
        except HarnessError as error:
            if self._said != str(error):
                self._said = str(error)
                log_text(self._said)
            raise UnreadableError from None

    def size(self) -> int:
        """Returns the size of the journal in bytes, by which its states are told apart."""
        return _stamp(self.folder / JOURNAL)[1]


def _stamp(path: Path) -> tuple[int, int]:
    with suppress(OSError):
        status = path.stat()
        return status.st_mtime_ns, status.st_size
    return 0, 0


def lab_state(folder: Path) -> list[int]:
    """Returns what the pages of a lab depend on: time of the settings, and size of the journal."""
    return [_stamp(folder / FILE)[0], _stamp(folder / JOURNAL)[1]]


def site_state(state: Path) -> Mapping[str, Any]:
    """Returns which state of the lab the pages show, as `set_site_state` recorded it; empty without a record."""
    with suppress(OSError, ValueError):
        content = json.loads((state / STATE).read_text("utf-8"))
        if isinstance(content, dict):
            return content
    return {}


def set_site_state(state: Path, content: Mapping[str, Any]) -> None:
    """Records which state of the lab the pages show."""
    write_atomic(state / STATE, json.dumps(content) + os.linesep)


# An absolute path, but not within an address or a word; its last part stays. What is quoted is not a path of ours.
_PATH = re.compile(r"(?<![\w.:/%~-])/(?:[^\s/:;,'\"]+/)*(?=[^\s/:;,'\"])")
_QUOTED = re.compile(r"""((?<!\w)'(?:[^'\\]|\\.)*'(?!\w)|"(?:[^"\\]|\\.)*"(?!\w))""")


def without_folders(
    lines: Iterable[str], folders: Mapping[Path, str] | None = None, others: bool = True
) -> tuple[str, ...]:
    """Replaces folders in messages by a word, and reduces other absolute paths to the name of the file.

    Texts in quotation marks are names that people gave, and stay whole.

    Parameters
    ----------
    others : False to leave other paths, in messages that name no file of the server but those in the folders.

    Examples
    --------
    >>> without_folders(["/srv/my lab/lab.yaml:3: wrong", "/home/x/.cache/a.txt: bad"], {Path("/srv/my lab"): "lab"})
    ('lab/lab.yaml:3: wrong', 'a.txt: bad')
    >>> without_folders(["label '/a/b': expected letters"])
    ("label '/a/b': expected letters",)
    """
    out = []
    # The longest first, since one may be within another.
    known = sorted((folders or {}).items(), key=lambda each: -len(str(each[0])))
    for line in lines:
        said = line
        for folder, word in known:
            said = said.replace(f"{folder}/", f"{word}/" if word else "").replace(str(folder), word or ".")
        if others:
            # Every second part is quoted; what the system says quotes paths as well.
            parts = [said] if "[Errno " in said else _QUOTED.split(said)
            said = "".join(part if at % 2 else _PATH.sub("", part) for at, part in enumerate(parts))
        out.append(said)
    return tuple(out)
