"""Compiles the kernels (all `*.c` files of the package) into one library; without a compiler the package is pure.

`HARNESS_PURE=1` leaves them out. The library holds the checksum of its sources, so that a library compiled from other
sources is not used (`harness/io/kernels.py`).
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# Neither -ffast-math nor contraction: the results are those of NumPy, bit by bit.
FLAGS = (
    "-std=c11",
    "-O3",
    "-fPIC",
    "-shared",
    "-pthread",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fvisibility=hidden",
)
LIBRARY = "harness/_kernels.so"


class Kernels(BuildHookInterface[Any]):
    """Hook of the build, for wheels and for editable installations."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compiles the library and adds it to the wheel, which is then of this platform, and of every Python 3."""
        if self.target_name != "wheel":
            return
        library = Path(self.root) / LIBRARY
        if os.environ.get("HARNESS_PURE") == "1" or not compiled(Path(self.root), library):
            if version == "editable":  # which would use an earlier one; wheels do not hold it
                library.unlink(missing_ok=True)
            return
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{_platform()}"
        build_data["artifacts"].append(LIBRARY)


def _platform() -> str:
    """Returns the platform of the wheel's tag, which promises no other distribution of Linux: that takes auditwheel."""
    from packaging.tags import platform_tags

    return next(tag for tag in platform_tags() if not tag.startswith(("manylinux", "musllinux")))


def compiled(root: Path, library: Path) -> bool:
    """Compiles the kernels; returns whether there is a compiler, and it succeeded, and the folder can be written."""
    compiler = shlex.split(os.environ.get("CC", "")) or ["cc"]
    sources = sorted((root / "harness").rglob("*.c"))
    if shutil.which(compiler[0]) is None or os.name != "posix":
        return False
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()
    try:
        with tempfile.TemporaryDirectory(dir=library.parent) as folder:
            made = Path(folder) / library.name
            command = [*compiler, *FLAGS, f'-DSOURCES="{digest}"', "-o", str(made), *map(str, sources), "-lm"]
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
            if done.returncode:
                print(f"kernels were not compiled: {shlex.join(command)}\n{done.stderr}", file=sys.stderr)
                return False
            made.replace(library)
    except OSError as error:  # such as a read-only checkout
        print(f"kernels were not compiled: {error}", file=sys.stderr)
        return False
    return True
