"""Experiments that launchers run, and what must be equal whatever ran them."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from tools import Place

MINI = ("collection=mini-task1", "corpus=mini-answers")
# A system that notes each call and the process, and does in it what a file says.
SYSTEM = """
import os
import signal
import time
from pathlib import Path

from harness.store import artefacts
from harness.systems.baselines import Overlap

def build(folder):
    with Path("..", "told", "built").open("a") as file:
        file.write("once\\n")
    while len(Path("..", "told", "calls").read_text().splitlines()) < 4:  # until all others have asked
        time.sleep(0.02)
    (folder / "index").touch()

class Noted(Overlap):
    def __call__(self, request):
        told_in = Path("..", "told")  # elsewhere: files beside a module whose names it has are part of its code
        with (told_in / "calls").open("a") as file:
            file.write(f"{self.depth} {os.getpid()} {os.environ.get('OMP_NUM_THREADS')}\\n")
        print("a line of the system", flush=True)
        for told in (f"do-{self.depth}", "do"):
            path = told_in / told
            what = path.read_text() if path.exists() else ""
            if what == "kill" or what == "kill once":
                if what == "kill once":
                    path.unlink()
                time.sleep(0.5)
                os.kill(os.getpid(), signal.SIGKILL)
            if what == "share":
                artefacts.get_or_build("shared", {"of": "all"}, build)
            if what == "raise":
                raise ValueError("as told")
            while path.exists() and what == "wait":
                time.sleep(0.02)
        return super().__call__(request)
"""


# A system that maps the documents in shards of four, and notes each; a file may say that a shard kills its process.
MAPPED = """
import os
import signal
from dataclasses import dataclass
from pathlib import Path

from harness.store import shards
from harness.systems.baselines import Overlap

TOLD = Path("..", "told").resolve()

@dataclass(frozen=True)
class Lengths:
    deadly: str = ""

    def __call__(self, ids):
        with (TOLD / "calls").open("a") as file:
            file.write(f"{ids[0]} {os.getpid()} -\\n")
        path = TOLD / "kill"
        if path.exists() and path.read_text() in ids:
            if (TOLD / "once").exists():
                path.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        return "".join(f"{name} {len(name)}\\n" for name in ids).encode()

def crashed(name):
    return f"{name} crashed\\n".encode()

class Mapped(Overlap):
    def __call__(self, request):
        def join(folder, of):
            groups = shards.parts((document.id for document in request.corpus), 4)
            task = shards.ShardTask(of, Lengths(), None, crashed if (TOLD / "survives").exists() else None)
            files = shards.mapped(task, groups, "measuring documents")
            (folder / "lengths").write_bytes(b"".join(file.read_bytes() for file in files))
            return files

        folder = shards.joined("lengths", {"corpus": request.corpus.identity()}, join)
        (TOLD / "lengths").write_bytes((folder / "lengths").read_bytes())
        return super().__call__(request)
"""


def mapping() -> dict[str, str]:
    """The files of a system `mapped`, whose documents are mapped in shards."""
    conf = {"title": "M", "_target_": "mapped.Mapped", "name": "mapped", "depth": 10}
    return {"mapped.py": MAPPED, "../told/none": "", "conf/system/mapped.yaml": yaml.safe_dump(conf)}


def experiment(depths: int, **system: object) -> dict[str, str]:
    """The files of an experiment `noted` of so many cells of the noting system; `system`: more keys of it."""
    conf = {"title": "N", "_target_": "noted.Noted", "name": "noted", "depth": 10, **system}
    overrides = {f"d{n}": {"overrides": [*MINI, "system=noted", f"system.depth={n}"]} for n in range(1, depths + 1)}
    cells = {"title": "Noted", "conditions": overrides, "measures": ["nDCG"]}
    return {
        "noted.py": SYSTEM,
        "../told/none": "",
        "conf/system/noted.yaml": yaml.safe_dump(conf),
        "conf/experiment/noted.yaml": yaml.safe_dump(cells, sort_keys=False),
    }


def calls(here: Path) -> list[list[str]]:
    """Depth, process and threads of each call of the noting system."""
    path = here.parent / "told" / "calls"
    return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


def runs_in(here: Path) -> dict[str, bytes]:
    """The run files below a folder, and nothing else: no logs, no remains."""
    found = {str(path.relative_to(here)): path.read_bytes() for path in sorted((here / "runs").rglob("*"))
             if path.is_file() and not path.name.endswith(".ir-metadata.yml")}  # fmt: skip
    assert all(name.endswith(".run") for name in found), sorted(found)
    return found


def report_in(here: Path, name: str) -> dict[str, Any]:
    """The report of an experiment without the time at which it was written."""
    found: dict[str, Any] = json.loads((here / "reports" / "experiments" / name / "report.json").read_text())
    return found


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Fails if the block takes longer."""
    begin = time.monotonic()
    yield
    assert time.monotonic() - begin < seconds


def alive(process: int) -> bool:
    """Whether a process runs; one that ended and waits for its parent does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_for(path: Path, lines: int, seconds: float = 90) -> None:
    """Waits until a file has so many lines."""
    deadline = time.monotonic() + seconds
    while not path.exists() or len(path.read_text().splitlines()) < lines:
        assert time.monotonic() < deadline, f"{path} has no {lines} lines; {os.listdir(path.parent)}"  # noqa: PTH208
        time.sleep(0.05)


def mapped_with_a_kill(place: Place, *words: str) -> str:
    """Makes a long map by a launcher (`words`) of which one worker is killed; what the command said.

    The bytes are those of one process, and the killed worker costs its shard.
    """
    for name, text in mapping().items():
        place.write(name, text)
    command = ("run", *MINI, "system=mapped", "formats=[json]")
    place.good(*command)
    alone, told = runs_in(place.here), place.here / "../told"
    lengths, shards = (told / "lengths").read_bytes(), [first for first, *_ in calls(place.here)]
    assert len(shards) > 6
    shutil.rmtree(place.cache / "store")
    (told / "calls").unlink()
    for name in ("kill", "once"):
        place.write(f"../told/{name}", shards[3])
    done = place.run(*command, *words, "reuse=false")
    assert done.code == 0, done.err
    assert (told / "lengths").read_bytes() == lengths
    assert runs_in(place.here) == alone
    again = Counter(first for first, *_ in calls(place.here))
    assert again.keys() == {*shards} and again[shards[3]] == 2
    assert again.total() <= len(shards) + 1 + ("hydra/launcher=joblib" in words)  # joblib ends both of its processes
    return done.err
