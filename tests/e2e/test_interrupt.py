"""Interrupts (Ctrl-C): at any moment one line and exit code 130, also where workers and libraries are under way."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import subprocess
import sys
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from tools import CONF, Place, alive, listening, run_text, until

LINE = "harness: stopped; what was written is whole\n"
SCORE = ("score", "good.run", "-c", "mini-task1")
RUN = ("run", "collection=mini-task1", "corpus=mini-answers", "system=overlap", "reuse=false")
# The program, with a hook that counts what happens in it (imports, files opened, programs started ...) from the first
# import of a command on: at one of these it interrupts itself, or says that it has come so far.
WATCHED = """
import os, signal, sys
at, seen = int(sys.argv[1]), 0
sys.argv[:] = ["harness", *sys.argv[2:]]
from {module} import {name}
def hook(event, arguments):
    global at, seen
    if seen or (event == "import" and arguments[0] == "harness.cli.program"):
        seen += 1
        if at == 0 and seen == 1:
            os.write(2, b"ready\\n")
        if seen == at:
            at = -1
            os.kill(os.getpid(), signal.SIGINT)
sys.addaudithook(hook)
try:
    {name}()
finally:
    if at > 0:
        os.write(2, b"events: %d\\n" % seen)
"""
SLOW = """
import os
import time
from pathlib import Path

from harness.systems.baselines import Overlap

def wait(depth):
    Path("ready").mkdir(exist_ok=True)
    Path("ready", str(os.getpid())).touch()
    time.sleep(60)

class Slow(Overlap):
    def __call__(self, *arguments, **named):
        return wait(self.depth)

class Deaf(Overlap):
    def __call__(self, *arguments, **named):
        try:
            wait(self.depth)
        except KeyboardInterrupt:
            Path("ready", "again").touch()
            time.sleep(600)

class Unheard(Overlap):
    def __call__(self, *arguments, **named):
        import signal, threading
        def interrupt():
            time.sleep(0.5)  # until the main thread waits
            signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        threading.Thread(target=interrupt, daemon=True).start()
        threading.Event().wait()

class Own(Overlap):
    def __call__(self, *arguments, **named):
        import signal
        heard = []
        before = signal.signal(signal.SIGINT, lambda *_: heard.append(1))
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(4)  # in which an interrupt that nobody hears is repeated
        signal.signal(signal.SIGINT, before)
        Path("heard").write_text(str(len(heard)))
        return super().__call__(*arguments, **named)

class Forking(Overlap):
    def __call__(self, *arguments, **named):
        import multiprocessing
        with multiprocessing.get_context("fork").Pool(2) as pool:
            pool.map(wait, range(2), chunksize=1)

class Spawning(Overlap):
    def __call__(self, *arguments, **named):
        import concurrent.futures, multiprocessing
        context = multiprocessing.get_context("spawn")
        with concurrent.futures.ProcessPoolExecutor(2, context) as pool:
            list(pool.map(wait, range(2)))
"""


def watched() -> str:
    """The program as an installer makes it from the project's entry point, with the hook."""
    project = tomllib.loads((CONF.parent / "pyproject.toml").read_text())
    module, name = project["project"]["scripts"]["harness"].split(":")
    return WATCHED.format(module=module, name=name)


def start(
    place: Place, at: int, *arguments: str, before: Callable[[], object] = listening, session: bool = False
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", watched(), str(at), *arguments], cwd=place.here, env=place.environment, text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        preexec_fn=before, start_new_session=session,  # noqa: PLW1509  (no threads here)
    )  # fmt: skip


def faults(said: str) -> str:
    """Standard error without progress."""
    return re.sub(r"^running .*\n", "", said, flags=re.MULTILINE)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path)
    made.write("good.run", run_text())
    made.write("slow.py", SLOW)
    for name in ("Slow", "Deaf", "Unheard", "Own", "Forking", "Spawning"):
        made.write(f"conf/system/{name.lower()}.yaml", f"title: x\n_target_: slow.{name}\ndepth: 10\n")
    return made


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [SCORE, RUN], ids=lambda arguments: arguments[0])
def test_at_any_moment(place: Place, arguments: Sequence[str]) -> None:
    place.good(*arguments)  # so that modules are compiled, and the same happens each time
    whole = start(place, 1 << 60, *arguments)
    _, said = whole.communicate(timeout=120)
    count = re.search(r"events: (\d+)\n", said)
    assert count
    assert whole.returncode == 0
    for share in (0, 0.05, 0.3, 0.6, 0.9):
        stopped = start(place, 1 + int(share * int(count[1])), *arguments)
        _, said = stopped.communicate(timeout=120)
        assert (stopped.returncode, faults(said)) == (130, LINE), share


@pytest.mark.slow
def test_interrupts_that_are_ignored_stay_so(place: Place) -> None:
    """As `nohup` and the background jobs of a script have it."""
    process = start(place, 0, *SCORE, before=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
    assert process.stderr
    assert process.stderr.readline() == "ready\n"
    for _ in range(3):
        process.send_signal(signal.SIGINT)
    printed, said = process.communicate(timeout=120)
    assert (process.returncode, said) == (0, "")
    assert printed.startswith("run ")


def ready(place: Place, process: subprocess.Popen[str], count: int) -> set[int]:
    """Wait until so many processes have come to their work."""
    folder = place.here / "ready"
    until(lambda: process.poll() is not None or (folder.is_dir() and len(list(folder.iterdir())) >= count))
    assert process.poll() is None, process.communicate()
    return {int(path.name) for path in folder.iterdir() if path.name.isdecimal()}


@pytest.mark.slow
@pytest.mark.parametrize("second", [True, False])
def test_what_swallows_an_interrupt_is_ended_by_the_second_or_left(place: Place, second: bool) -> None:
    """As a pool does whose killed worker held a lock."""
    process = start(place, -1, *RUN[:3], "system=deaf")
    ready(place, process, 1)
    process.send_signal(signal.SIGINT)
    if second:
        ready(place, process, 2)
        process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert (process.returncode, faults(said)) == (130, LINE)


@pytest.mark.slow
def test_a_main_thread_that_waits_hears_an_interrupt_that_came_before(place: Place) -> None:
    """Python looks for signals before a wait for a lock: what comes then wakes it as little as this one."""
    process = start(place, -1, *RUN[:3], "system=unheard")
    _, said = process.communicate(timeout=60)
    assert (process.returncode, faults(said)) == (130, LINE)


@pytest.mark.slow
def test_a_library_that_hears_interrupts_itself_hears_each_once(place: Place) -> None:
    process = start(place, -1, *RUN[:3], "system=own")
    _, said = process.communicate(timeout=60)
    assert (process.returncode, (place.here / "heard").read_text()) == (0, "1"), said


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["forking", "spawning", "joblib"])
def test_workers_end_without_a_word(place: Place, kind: str) -> None:
    """A terminal interrupts all processes of its group at once."""
    arguments = [*RUN[:3], f"system={kind}"]
    if kind == "joblib":
        if importlib.util.find_spec("hydra_plugins.hydra_joblib_launcher") is None:
            pytest.skip("hydra-joblib-launcher is not installed: pip install 'mathir-harness[joblib]'")
        launcher = ("hydra/launcher=joblib", "hydra.launcher.n_jobs=2")
        arguments = [*RUN[:3], "-m", "system=slow", "system.depth=5,6,7", *launcher]
    process = start(place, -1, *arguments, session=True)
    workers = ready(place, process, 2)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert (process.returncode, faults(said)) == (130, LINE)
    assert process.pid not in workers
    until(lambda: not any(map(alive, workers)))
