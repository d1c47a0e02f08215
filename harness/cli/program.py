"""The program `harness`: calls a command, and says what is wrong in one line a fault."""

from __future__ import annotations

import io
import os
import sys

from harness.errors import DryRunError, HarnessError, SystemRaisedError, lacks_memory, out_of_memory
from harness.io import interrupt
from harness.io.compression import keep_pipes
from harness.io.console import leave_pipe, log_line, log_text, print_line

_PLAIN = {"NO_COLOR": "1", "RAY_COLOR_PREFIX": "0"}  # for libraries, most of which do not ask for a terminal
HYDRA_COMMANDS = ("reproduce", "run")


def main() -> None:
    """The program `harness`: exit code 0, or 2 after one clear line (a line a fault) on standard error.

    What a system raises is shown with the traceback of its own frames; with HYDRA_FULL_ERROR=1, any fault with all.
    """
    if not (sys.stdout.isatty() and sys.stderr.isatty()):
        for name, value in _PLAIN.items():
            os.environ.setdefault(name, value)
    full = os.environ.get("HYDRA_FULL_ERROR") == "1"  # Hydra's commands set it
    keep_pipes()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that lacks a character (such as the prime of nDCG′) gets its escape, not a traceback.
            stream.reconfigure(errors="backslashreplace")
    try:
        if len(sys.argv) > 1 and sys.argv[1] in HYDRA_COMMANDS:
            from harness.cli.compose import run_with_hydra as hydra_main

            hydra_main(sys.argv[1], sys.argv[2:])
            return
        from harness.cli.main import run_app  # with Typer, which those do not need

        code = run_app()
        if code == interrupt.CODE:  # Typer has caught it
            interrupt.log_interrupt()
        sys.exit(code)
    except HarnessError as error:
        if interrupt.stopping():  # only what some library made of it
            interrupt.leave()
        if isinstance(error, DryRunError):
            for line in error.lines:
                print_line(line)
            sys.exit(0)
        _tell(error, full)
        sys.exit(2)
    except KeyboardInterrupt:
        interrupt.log_interrupt()
        sys.exit(interrupt.CODE)
    except BrokenPipeError:
        leave_pipe(sys.stdout)
    except Exception as error:
        if not lacks_memory(error):
            raise
        _tell(out_of_memory(error), full)
        sys.exit(2)


def _tell(error: HarnessError, full: bool) -> None:
    if full:
        import traceback

        log_text("".join(traceback.format_exception(error)))
    elif isinstance(error, SystemRaisedError):
        log_text(error.trace)
    for line in error.lines:
        log_line(f"harness: {line}")
