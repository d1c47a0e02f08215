"""Writes a folder of files again and again: only what changed, and deletes only what it wrote itself.

The file `MANIFEST` in the folder lists the files of the last build with their SHA-256. While a build runs, `PARTIAL`
lists the paths that it is about to write, so that the next build recognizes the files of a killed one.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from harness.errors import HarnessError
from harness.io.files import sha256, sha256_file, write_all, write_atomic
from harness.render.pages import check_path

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
