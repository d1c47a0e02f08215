"""Checksums and imports of this package's modules, kept in the cache folder from one process to the next.

A checksum is trusted as long as device, inode, size and times of its file are the same. Imports are kept by the
checksum of the module, and in one file for each version of the code that finds them, so they are never out of date.
"""

from __future__ import annotations

import json
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from harness.errors import HarnessError
from harness.io.files import cache_root, known_checksums, sha256, sha256_file, write_atomic

_MOST = 4000  # entries; beyond, those of earlier versions are dropped


class CodeCache:
    """The content of the file for the modules below a folder; without a writable cache folder, of this process only."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._path: Path | None = None
        self.modules: dict[str, Any] = {}
        self._kept = 0
        with suppress(HarnessError, OSError, ValueError, TypeError, KeyError, AttributeError):
            name = sha256(f"{root} {sha256_file(Path(__file__).with_name('code.py'))}".encode())[:16]
            self._path = cache_root() / "code" / f"{name}.json"
            read = json.loads(self._path.read_text(encoding="utf-8"))
            known_checksums({root / name: (tuple(state), str(sha)) for name, (state, sha) in read["files"].items()})
            self.modules = dict(read["modules"])
            self._kept = len(self.modules)

    def write(self) -> None:
        """Writes what was added since the file was read."""
        if self._path is None or len(self.modules) == self._kept:
            return
        files = {str(path.relative_to(self._root)): entry for path, entry in known_checksums().items()
                 if path.is_relative_to(self._root)}  # fmt: skip
        modules = dict(list(self.modules.items())[-_MOST:])
        with suppress(HarnessError, OSError):
            write_atomic(self._path, json.dumps({"files": files, "modules": modules}))
        self._kept = len(self.modules)


@cache
def code_cache(root: Path) -> CodeCache:
    """Returns the cache for the modules below a folder."""
    return CodeCache(root)
