"""What an interrupt (Ctrl-C, SIGINT) does: one line on standard error and exit code 130, whatever is going on.

Imports next to nothing, so that `begin` stands before anything slow. Before that the interpreter itself starts, and
what it does then is not ours to decide.
"""

from __future__ import annotations

import os
import signal
import sys

TYPE_CHECKING = False  # importing `typing` takes longer than all else here
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

CODE = 130
_LINE = b"harness: stopped; what was written is whole\n"
_told = False
_stopping = False


def begin() -> bool:
    """Lets interrupts end the program from now on; False if they are ignored, as under `nohup`, and stay so."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        return False
    signal.signal(signal.SIGINT, leave)
    return True


def work() -> None:
    """Lets an interrupt raise KeyboardInterrupt from now on, so that work ends in order; a second one ends the program.

    Processes that are forked end silently when they are interrupted, as this one reports it.
    """
    sys.unraisablehook = _unraisable
    os.register_at_fork(after_in_child=_forked)
    signal.signal(signal.SIGINT, _stop)


def end() -> None:
    """Lets an interrupt end the program at once while the interpreter exits."""
    import atexit

    signal.signal(signal.SIGINT, leave)
    # Python gives the signal its default back then, which would kill the process without a word.
    atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)


def tell() -> None:
    """Writes the line, unless it is there already."""
    global _told  # noqa: PLW0603
    if not _told:
        _told = True
        try:  # noqa: SIM105  (contextlib is slow to import)
            os.write(2, _LINE)
        except OSError:  # nobody reads any more
            pass


def stopping() -> bool:
    """Returns whether there was an interrupt: another error may be only what some library made of it."""
    return _stopping


def leave(*_: object) -> None:
    """Ends the program here and now."""
    _end_workers()
    tell()
    os._exit(CODE)


def quiet_workers() -> None:
    """Lets processes that libraries start for Python code (multiprocessing, joblib) know nothing of interrupts.

    An interrupt from a terminal goes to all processes at once, and each of them would print a traceback of its own.
    They are started with SIGINT blocked, and `_stop` ends them. What runs in them may call `in_worker`.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        return
    import _posixsubprocess  # the one place through which both start processes; subprocess has its own name for it
    import subprocess  # noqa: F401

    start: Callable[..., int] = _posixsubprocess.fork_exec

    def quiet(*arguments: object) -> int:
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            return start(*arguments)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    _posixsubprocess.fork_exec = quiet


def in_worker() -> None:
    """Lets an interrupt end a process of `quiet_workers` silently, with the programs that it started."""
    if signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ()):
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _stop(_: int, frame: FrameType | None) -> None:
    global _stopping  # noqa: PLW0603
    _stopping = True
    signal.signal(signal.SIGINT, leave)
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            leave()  # libraries turn what is raised while they are imported into other errors, or swallow it
        frame = frame.f_back
    _end_workers()
    raise KeyboardInterrupt


def _end_workers() -> None:
    children = getattr(sys.modules.get("multiprocessing"), "active_children", list)
    for worker in children():
        worker.terminate()


def _unraisable(found: sys.UnraisableHookArgs) -> None:
    if issubclass(found.exc_type, KeyboardInterrupt):
        leave()  # raised in a destructor or a callback, where Python drops it
    sys.__unraisablehook__(found)


def _forked() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
