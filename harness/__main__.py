"""The program `harness`, also as `python -m harness`."""

from __future__ import annotations

import gc
import sys

from harness.io import interrupt


def main() -> None:
    """Does what the command line says; an interrupt is one line and exit code 130 from here on."""
    gc.set_threshold(200_000)  # looking for cycles every 700 objects takes a tenth of a start, which makes few
    heard = interrupt.begin()
    from harness.cli.program import main as commands

    try:
        if heard:
            interrupt.work()
        commands()
    except KeyboardInterrupt:  # in the moments when the commands have caught something else
        interrupt.leave()
    finally:
        if heard:
            interrupt.end()


if __name__ == "__main__":
    if not sys.flags.safe_path:
        del sys.path[0]  # the current folder, whose files are not ours
    main()
