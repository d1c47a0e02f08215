"""Processes that begin where the program's imports end: a server that has done them forks one for each command.

Starting the program takes a second, nearly all of it imports. The child is a process like any other: its folder,
environment, arguments and streams are its own, and it ends with the exit code and through the entry point of `harness`.
What is about the start itself (signals at once, limits, other programs, Python's own options) starts a real program.
"""

from __future__ import annotations

import atexit
import json
import mmap
import os
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}  # a process with threads is not forked
_PATIENCE = 900  # seconds for a command
_LONGEST = 1 << 20  # bytes of a request


class Server:
    """A process that forks others, one for each command; `of` gives the one of this test process and this code."""

    def __init__(self, code: str) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())],
                env={"PATH": os.environ["PATH"], "PYTHONPATH": code, "HOME": "/nonexistent", **ENVIRONMENT},
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                preexec_fn=_listening,  # noqa: PLW1509  (no threads here)
            )
        self.socket = ours
        ours.settimeout(_PATIENCE)
        atexit.register(self.close)

    def close(self) -> None:
        """End the server."""
        self.socket.close()
        self.process.wait()

    def run(self, arguments: Sequence[str], folder: Path, environment: Mapping[str, str], out: int, err: int) -> int:
        """The exit code of a command, negative if a signal ended it; `out`, `err`: descriptors for what it prints."""
        request = json.dumps([list(arguments), str(folder), dict(environment)]).encode()
        socket.send_fds(self.socket, [request], [out, err])
        return os.waitstatus_to_exitcode(int(self.socket.recv(_LONGEST)))


@cache
def of(code: str) -> Server:
    """The server for the code in a folder."""
    return Server(code)


def _listening() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _child(
    arguments: list[str], folder: str, environment: dict[str, str], out: int, err: int, wanted: mmap.mmap
) -> None:
    """Become the program, and never return; `wanted` notes that it imported torch."""
    code: Any = 1
    try:
        for descriptor, place in ((os.open(os.devnull, os.O_RDONLY), 0), (out, 1), (err, 2)):
            os.dup2(descriptor, place)
        os.closerange(3, 64)
        os.chdir(folder)
        kept = {name: os.environ[name] for name in ("LC_CTYPE",) if name in os.environ}  # as Python has set it
        os.environ.clear()
        os.environ.update(kept | environment)
        sys.argv = [str(Path(sys.executable).with_name("harness")), *arguments]
        from harness.__main__ import main

        code = 0
        try:
            main()
        except SystemExit as ended:
            code = ended.code
            if isinstance(code, str):
                sys.stderr.write(f"{code}\n")
                code = 1
        except BaseException:
            traceback.print_exc()
            code = 1
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        with suppress(OSError, ValueError):
            sys.stdout.flush()
        with suppress(OSError, ValueError):
            sys.stderr.flush()
    finally:
        wanted[0] = "torch" in sys.modules
        os._exit(code or 0)


def serve(descriptor: int) -> None:
    """Fork a child for each request, wait for it, and answer with its status; until the other side is gone."""
    sys.path[0] = str(Path(__file__).parents[1] / "tools")
    from warm import warm

    del sys.path[0]
    warm()
    wanted = mmap.mmap(-1, 1)
    listening = socket.socket(fileno=descriptor)
    while True:
        request, descriptors, _, _ = socket.recv_fds(listening, _LONGEST, 2)
        if not request:
            return
        if wanted[0]:  # two seconds, which most commands do not need
            with suppress(ImportError):
                import torch  # noqa: F401
        child = os.fork()
        if child == 0:
            listening.close()
            arguments, folder, environment = json.loads(request)
            out, err = descriptors
            _child(arguments, folder, environment, out, err, wanted)
        for one in descriptors:
            os.close(one)
        _, status = os.waitpid(child, 0)
        listening.send(str(status).encode())


if __name__ == "__main__":
    serve(int(sys.argv[1]))
