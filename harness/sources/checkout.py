"""User-provided checkouts of repositories, in any version."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.errors import HarnessError, format_error
from harness.io.files import sha256, sha256_file


@dataclass(frozen=True)
class Checkout:
    """The files of one kind below some folders of a checkout.

    Attributes
    ----------
    what : name in messages, such as `Mathlib checkout`.
    variable : environment variable with its path.
    parts : folders that are read; empty for all.
    suffix : suffix of the files.
    get : instruction to obtain it; one line.
    place : its path, if the environment variable is not set.

    Examples
    --------
    >>> checkout = Checkout("checkout of A", "NO_SUCH_VARIABLE", ("A",), ".lean", "git clone A, and name it")
    >>> checkout.state()
    'needs a checkout of A: git clone A, and name it'
    """

    what: str
    variable: str
    parts: tuple[str, ...] = ()
    suffix: str = ".lean"
    get: str = ""
    place: Path | None = None

    def __post_init__(self) -> None:
        if not self.variable and self.place is None:
            raise HarnessError("a checkout needs a 'variable' or a 'place'")

    @property
    def root(self) -> Path:
        """Folder of the checkout.

        Raises
        ------
        HarnessError
            The folder or one of the parts is missing.
        """
        named = self._named()
        if named is None:
            raise HarnessError(f"{self.state()}")
        if fault := self._fault(named):
            raise HarnessError(f"{fault}; expected a {self.what}")
        return named

    def state(self) -> str:
        """Returns `here`, or `needs a ...` with how to get it, or what is wrong with the folder that is named."""
        named = self._named()
        if named is None:
            return f"needs a {self.what}: {self.get}"
        fault = self._fault(named)
        return f"needs a {self.what}: {fault}" if fault else "here"

    def _fault(self, named: Path) -> str:
        """Returns what is missing of a folder; empty if nothing is."""
        missing = next((part for part in ("", *self.parts) if not (named / part).is_dir()), None)
        if missing is None:
            return ""
        return f"{self.variable or 'place'}={named}: {f'has no folder {missing!r}' if missing else 'no such folder'}"

    def files(self) -> list[Path]:
        """Returns the files, sorted by path; hidden folders (`.lake`) are skipped.

        Raises
        ------
        HarnessError
            There is no file.
        """
        root = self.root
        paths = [path for part in self.parts or ("",) for path in _files_below(root / part, self.suffix)]
        if not paths:
            raise format_error(root, 0, f"no {self.suffix} file below {', '.join(self.parts) or 'it'}")
        return sorted(paths, key=lambda path: path.relative_to(root).parts)

    def checksums(self) -> dict[Path, str]:
        """Returns the SHA-256 of each file."""
        return {path: sha256_file(path) for path in self.files()}

    def digest(self) -> str:
        """Returns a SHA-256 of all files and their paths, as in `harness.sources.resource.RepositoryFolder`."""
        root = self.root
        lines = (f"{path.relative_to(root).as_posix()}\0{checksum}\n" for path, checksum in self.checksums().items())
        return sha256("".join(lines).encode())

    def _named(self) -> Path | None:
        named = os.environ.get(self.variable, "") if self.variable else ""
        return Path(named).expanduser() if named else self.place


def _files_below(folder: Path, suffix: str) -> Iterator[Path]:
    for here, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (Path(here) / name for name in sorted(files) if name.endswith(suffix))
