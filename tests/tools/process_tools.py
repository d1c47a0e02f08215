"""Other processes that find what this one finds."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_HOLD = """
import sys, time
from pathlib import Path
from harness.io.locks import held
with held(Path(sys.argv[1]), sys.argv[2], "makes index"):
    print("held", flush=True)
    time.sleep(600)
"""


def same_paths() -> dict[str, str]:
    """The environment, in which a new Python imports the modules of the tests as this one does."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


@contextmanager
def holding(folder: Path, name: str) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds a lock of a folder, to make an index."""
    command = [sys.executable, "-c", _HOLD, str(folder), name]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=same_paths()) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "held\n"
            yield process
        finally:
            process.kill()
