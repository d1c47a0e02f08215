"""A lab's server under load: many teams submit at once while the server and its worker are killed.

    python -m bench.server [--teams 200] [--each 5] [--clients 16] [--kills 10] [--machine] [--postgres] [--json FILE]

Each submission is another run of the embedded collection, sent by the harness's own client, which sends again what was
not acknowledged. Half of the kills end `harness serve`, which is started again on the same port, the other half its
worker, each by SIGKILL. With `--machine` (as root), between the kills the process that scores a run is killed, the disk
is full, the lab's folder is read-only, and the clock is set by hours and days. At the end
every submission must be in the lab exactly once, each receipt must name it, and the leaderboard of the server must
equal one that is computed again from the lab's folder.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np

from harness.data.run_writers import run_text
from harness.data.trec import Run, read_run
from harness.errors import HarnessError
from harness.io.files import data_root
from harness.labs.lab import new_lab
from harness.labs.remote import submit_to
from harness.labs.server.lab_snapshot import lab_state, site_state, state_folder
from harness.labs.submissions import submissions
from harness.labs.submit import Offer

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "tools"))

RUN = data_root() / "runs" / "mini" / "mini-task1" / "overlap.run"


def variants(count: int, folder: Path, seed: int = 0) -> list[Path]:
    """Writes runs that differ in their rankings."""
    run, rng, out = read_run(RUN), np.random.default_rng(seed), []
    for number in range(count):
        score = run.score + rng.normal(0, 2.0, len(run.score)).astype(run.score.dtype)
        path = folder / f"run-{number}.run"
        changed_run = Run(f"r{number}", run.topics, run.topic, run.doc, score, run.context)
        path.write_text(run_text(changed_run, format="trec"))
        out.append(path)
    return out


class Memory(threading.Thread):
    """Largest resident memory of the processes of a kind, in MiB, looked at twice a second."""

    def __init__(self, lab: Path) -> None:
        super().__init__(daemon=True)
        self.lab = lab
        self.most: dict[str, float] = {}
        self.stop = threading.Event()

    def run(self) -> None:
        """Looks until it is stopped."""
        while not self.stop.wait(0.5):
            for kind, pid in processes(self.lab):
                with suppress(OSError, IndexError):
                    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
                    mib = pages * os.sysconf("SC_PAGESIZE") / 2**20
                    self.most[kind] = max(self.most.get(kind, 0.0), mib)


def processes(lab: Path) -> list[tuple[str, int]]:
    """Returns kind and pid of a lab's server: `web`, `worker` (and its children), `pages`, `site build`."""
    out = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = path.read_bytes().decode("utf-8", "replace").split("\0")
            if "harness" not in words or str(lab) not in words:
                continue
            pid = int(path.parent.name)
            if "serve" in words:
                out.append((words[words.index("--only") + 1] if "--only" in words else "web", pid))
            elif "site" in words:
                out.append(("site build", pid))
    return out


def killed(
    faults: Sequence[tuple[str, Callable[[], None]]],
    kills: int,
    pause: tuple[float, float],
    ended: threading.Event,
    log: list[str],
) -> None:
    """Causes faults in turn, at random times."""
    rng = random.Random(1)
    for number in range(kills):
        if ended.wait(rng.uniform(*pause)):
            return
        name, cause = faults[number % len(faults)]
        cause()
        log.append(name)


def kill_workers(lab: Path, children: bool = False) -> None:
    """Kills the workers of a lab's server with the processes in which they score; or those processes alone."""
    found = {pid for kind, pid in processes(lab) if kind == "worker"}
    for pid in found:
        with suppress(OSError, IndexError):
            parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
            if not children or parent in found:
                os.kill(pid, signal.SIGKILL)


def machine_faults(stack: ExitStack, folder: Path) -> list[tuple[str, Callable[[], None]]]:
    """Returns faults of the machine for servers that are started from now on, with labs in a folder that is made."""
    from machine_faults import STEPS, MovedClock, fill, lock_up, small_disk

    clock, steps = MovedClock(folder.parent), cycle(STEPS)
    before = {name: os.environ.get(name) for name in clock.environment}
    stack.callback(lambda: [os.environ.pop(name, None) if old is None else None for name, old in before.items()])
    os.environ.update(clock.environment)
    stack.enter_context(small_disk(folder))
    return [
        ("scoring process", lambda: kill_workers(folder / "lab", children=True)),
        ("full disk", lambda: fill(folder, 4.0)),
        ("clock", lambda: clock.set(next(steps))),
        ("read-only lab", lambda: lock_up(folder / "lab", 4.0)),
    ]


def main() -> None:
    """Measures, and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("teams", 200), ("each", 5), ("clients", 16), ("kills", 10)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--machine", action="store_true")
    parser.add_argument("--postgres", action="store_true")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    given.pause = (4.0, 12.0)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        options = ["--rate", "1000000", "--uploads", "1000000", "--workers", str(given.workers)]
        if given.postgres:
            from postgres import postgres

            options += ["--database", stack.enter_context(postgres())]
        found = measured(folder, options, given)
    print(json.dumps(found, indent=1))
    if given.json is not None:
        given.json.write_text(json.dumps(found, indent=1) + "\n")


def measured(folder: Path, options: list[str], given: argparse.Namespace) -> dict[str, Any]:
    """Runs the load in a folder; returns the figures."""
    with ExitStack() as stack:
        others = machine_faults(stack, folder / "disk") if given.machine else []
        return _measured(folder, folder / "disk" if given.machine else folder, options, given, others)


def _measured(
    folder: Path,
    disk: Path,
    options: list[str],
    given: argparse.Namespace,
    others: list[tuple[str, Callable[[], None]]],
) -> dict[str, Any]:
    from server_tools import start, stop

    lab = new_lab(disk / "lab", {"title": "Load", "collection": "mini-task1"}).folder
    (folder / "runs").mkdir()
    runs = variants(given.teams * given.each, folder / "runs")
    program = [start(lab, *options)]
    port, organiser = int(program[0].address.rpartition(":")[2]), program[0].organiser
    with program[0].client(organiser) as client:
        tokens = [
            client.post("/api/v1/issue", json={"team": f"team{number}"}).json()["secret"]
            for number in range(given.teams)
        ]
    ended, memory = threading.Event(), Memory(lab)
    log: list[str] = []
    memory.start()

    def kill_server() -> None:
        os.kill(program[0].process.pid, signal.SIGKILL)
        program[0].process.wait()
        program[0] = start(lab, *options, port=port, organiser=organiser)

    kills = [("server", kill_server), ("worker", lambda: kill_workers(lab))]
    faults = [each for pair in zip(others, cycle(kills), strict=False) for each in pair] or kills
    killer = threading.Thread(target=killed, args=(faults, given.kills, given.pause, ended, log))
    seconds: list[float] = []

    def client_of(team: int) -> list[tuple[str, str]]:
        out = []
        for number in range(given.each):
            begun = time.perf_counter()
            path = runs[team * given.each + number]
            try:
                receipt = submit_to(program[0].address, tokens[team], Offer(path, "", f"run{number}"))
                out.append((f"team{team} / run{number}", receipt.title))
            except HarnessError as error:
                out.append((f"team{team} / run{number}", f"refused: {error.lines[0]}"))
            seconds.append(time.perf_counter() - begun)
        return out

    begun = time.perf_counter()
    killer.start()
    with ThreadPoolExecutor(given.clients) as pool:
        told = [each for part in pool.map(client_of, range(given.teams)) for each in part]
    whole = time.perf_counter() - begun
    ended.set()
    killer.join()
    memory.stop.set()
    state = state_folder(lab)
    while site_state(state).get("of") != lab_state(lab) or site_state(state).get("error"):
        time.sleep(1.0)
    built = time.perf_counter() - begun - whole
    with program[0].client() as client:
        live = client.get("/api/v1/leaderboard").json()
    stop(program[0])
    subprocess.run([sys.executable, "-m", "harness", "lab", "check", str(lab)], check=True, stdout=subprocess.DEVNULL)
    again = [sys.executable, "-m", "harness", "site", "build", str(lab), "--output", str(folder / "again"), "--quiet"]
    subprocess.run(again, check=True, stdout=subprocess.DEVNULL)
    kept = Counter(each.title for each in submissions(lab_of(lab)))
    expected = {name for name, _ in told}
    return {
        "submissions": len(told),
        "clients": given.clients,
        "workers": given.workers,
        "database": "PostgreSQL" if given.postgres else "SQLite",
        "killed": dict(Counter(log)),
        "lost": sorted(expected - kept.keys()),
        "twice": sorted(name for name, count in kept.items() if count > 1 or name not in expected),
        "wrong receipts": [each for each in told if each[0] != each[1]],
        "leaderboard equals a recomputation": live
        == json.loads((folder / "again" / "lab" / "leaderboard.json").read_text()),
        "seconds": round(whole, 1),
        "submissions a second": round(len(told) / whole, 2),
        "seconds from upload to receipt, median": round(float(np.median(seconds)), 2),
        "seconds from upload to receipt, p95": round(float(np.quantile(seconds, 0.95)), 2),
        "seconds until the pages show all": round(built, 1),
        "most memory, MiB": {kind: round(mib) for kind, mib in sorted(memory.most.items())},
        "load of the machine at the end": round(os.getloadavg()[0], 1),
    }


def lab_of(folder: Path) -> Any:  # noqa: ANN401
    """Returns the lab in a folder."""
    from harness.labs.lab import read_lab

    return read_lab(folder)


if __name__ == "__main__":
    main()
