"""Interrupts (Ctrl-C, SIGINT): one line on standard error and exit code 130, during any work.

Imports almost nothing, so that `begin` runs before slow imports. Interrupts during the start of the interpreter itself
cannot be handled.
"""

from __future__ import annotations

import os
import signal
import sys

TYPE_CHECKING = False  # importing `typing` would take longer than the rest of this module
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any

CODE = 130
_PATIENCE = 20.0  # seconds for an orderly end
_SETTLE = 5.0  # seconds for a library whose workers are killed to remove what it has
_HEARD = 1.0  # seconds in which the main thread hears an interrupt, unless it has just begun to wait
_LINE = b"harness: stopped; what was written is whole\n"
_PROGRAM = "HARNESS_PROGRAM"  # process of the program, for the workers that systems and libraries start
_told = False
_stopping = False
_arrivals = -1  # pipe to which Python writes the number of each signal that arrives


def begin() -> bool:
    """Makes interrupts end the program; returns False if they are ignored, as under `nohup`, which is kept."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        return False
    signal.signal(signal.SIGINT, leave)
    return True


def work() -> None:
    """Makes an interrupt raise KeyboardInterrupt, for an orderly end; a second one, or 20 s, ends the program at once.

    Forked processes end silently at an interrupt, because this process reports it.
    """
    global _arrivals
    os.environ[_PROGRAM] = str(os.getpid())
    sys.unraisablehook = _unraisable
    _arrivals, arriving = os.pipe()
    for each in (_arrivals, arriving):
        os.set_blocking(each, False)
    signal.set_wakeup_fd(arriving, warn_on_full_buffer=False)
    os.register_at_fork(after_in_child=_forked)
    signal.signal(signal.SIGINT, _stop)


def end() -> None:
    """Makes an interrupt end the program at once while the interpreter exits."""
    import atexit

    signal.signal(signal.SIGINT, leave)
    # Python then restores the default handler, which would kill the process without a message.
    atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)


def log_interrupt() -> None:
    """Writes the message once."""
    global _told  # noqa: PLW0603
    if not _told:
        _told = True
        try:  # noqa: SIM105  (contextlib is slow to import)
            os.write(2, _LINE)
        except OSError:  # the reader of standard error is gone
            pass


def stopping() -> bool:
    """Returns whether there was an interrupt; libraries may convert it to other errors."""
    return _stopping


def pause(seconds: float) -> None:
    """Sleeps, in another thread than the main one, and repeats an interrupt that the main thread has not heard.

    Python looks for signals between two instructions, and one that arrives after the last look before a wait for a lock
    would only be heard when that wait ends; if the worker that is waited for was interrupted too, this is never.
    """
    import select
    import threading

    arrived = select.select([_arrivals] if _arrivals != -1 else [], [], [], seconds)[0]
    if arrived and signal.SIGINT in os.read(_arrivals, 4096):
        select.select([], [], [], _HEARD)
        main = threading.main_thread().ident
        if signal.getsignal(signal.SIGINT) is _stop and main is not None:  # it has heard none, and nobody else does
            signal.pthread_kill(main, signal.SIGINT)


def leave(*_: object) -> None:
    """Ends the program immediately."""
    _end_workers()
    log_interrupt()
    os._exit(CODE)


class Withheld:
    """A block in which this thread, and the processes that it starts, do not hear interrupts.

    An interrupt from a terminal goes to all processes at once, and each of them would print its own traceback. Workers
    started in such a block end with `_stop`, or hear interrupts after `in_worker`.
    """

    def __enter__(self) -> None:
        """Begins the block."""
        self._before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})

    def __exit__(self, *_: object) -> None:
        """Ends the block, in which an interrupt may have waited."""
        signal.pthread_sigmask(signal.SIG_SETMASK, self._before)


def call_withheld(function: Callable[[], Any]) -> Any:  # noqa: ANN401
    """Calls a function that starts workers, in a thread in which interrupts are withheld; this thread hears them."""
    import threading

    results: list[Any] = []
    faults: list[BaseException] = []
    ended = threading.Event()  # an interrupted `Thread.join` takes the thread to have ended

    def call() -> None:
        with Withheld():
            try:
                results.append(function())
            except BaseException as error:
                faults.append(error)
            finally:
                ended.set()

    threading.Thread(target=call, name="launch", daemon=True).start()
    try:
        ended.wait()
    except KeyboardInterrupt:
        ended.wait(_SETTLE)  # joblib would remove the same folders in it and as the program exits, and tell of a fault
        raise
    if faults:
        raise faults[0]
    return results[0]


def in_worker() -> None:
    """Makes an interrupt silently end a worker that was started where it is withheld, and its own workers.

    A worker of joblib can start processes afterwards, which would not know its way of starting them.
    """
    if "joblib" in sys.modules:
        import multiprocessing

        if multiprocessing.get_start_method(allow_none=True) == "loky":
            multiprocessing.set_start_method("spawn", force=True)
    if signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ()):
        _end_silently()


def _end_silently() -> None:
    os.environ[_PROGRAM] = str(os.getpid())
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _stop(_: int, frame: FrameType | None) -> None:
    global _stopping  # noqa: PLW0603
    _stopping = True
    signal.signal(signal.SIGINT, leave)
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            leave()  # libraries convert or swallow exceptions raised while they are imported
        frame = frame.f_back
    _end_workers()
    _leave_later()
    raise KeyboardInterrupt


def _leave_later() -> None:
    """Ends the program some time later: multiprocessing may wait forever for a lock that a killed worker held."""
    import threading

    timer = threading.Timer(_PATIENCE, leave)
    timer.daemon = True
    timer.start()


def _end_workers() -> None:
    children = getattr(sys.modules.get("multiprocessing"), "active_children", list)
    for worker in children():
        worker.terminate()


def _unraisable(raised: sys.UnraisableHookArgs) -> None:
    if issubclass(raised.exc_type, KeyboardInterrupt):
        leave()  # raised in a destructor or a callback, where Python drops it
    sys.__unraisablehook__(raised)


def _forked() -> None:
    global _arrivals  # noqa: PLW0603
    _arrivals = -1  # both ends of the pipe belong to the process that has forked
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGINT, signal.SIG_DFL)


# A process that a system or a library has started, by multiprocessing or joblib, and that imports what it works with.
if os.environ.get(_PROGRAM) == str(os.getppid()) and signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
    _end_silently()
