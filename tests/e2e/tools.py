"""The program as people meet it: a process in a folder of its own, with a home and a cache of its own, offline."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import forks
import yaml

import harness
from harness.collections.corpus import Document
from harness.data.topics import Topic
from harness.io.files import data_root

CODE = str(Path(harness.__file__).parents[1])
AT_START = ("PYTHON", "LC_", "LANG", "LD_")  # settings that are read when Python starts
PROGRAM = Path(sys.executable).with_name("harness")
CONF = data_root() / "conf"
QRELS = data_root() / "qrels" / "mini-task1.txt"
MINI = ("collection=mini-task1", "corpus=mini-answers")
TOPICS = ("M.1", "M.2")
PROGRESS = re.compile(r".*( so far|/s|/s, .* left| in \d+ s)")  # which a slow machine shows


@dataclass(frozen=True)
class Done:
    """How a command ended: its exit code, and what it wrote to standard output and standard error."""

    code: int
    out: str
    err: str


def run_text(tag: str = "mine", topics: Iterable[str] = TOPICS, docs: Sequence[str] = ("a1007", "a1088", "x")) -> str:
    """A TREC run that ranks the same documents for each topic, first to last."""
    ranked = [f"Q0\t{doc}\t{rank}\t{len([*docs]) - rank + 1}.5\t{tag}\n" for rank, doc in enumerate(docs, 1)]
    return "".join(f"{topic}\t{line}" for topic in topics for line in ranked)


def _text(data: bytes) -> str:
    return data.decode().replace("\r\n", "\n")


def listening() -> None:
    """Called in a child: interrupts mean what they do at a terminal, also where whoever runs the tests ignores them."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Place:
    """An empty folder to run the program in."""

    def __init__(self, root: Path, program: Path = PROGRAM) -> None:
        self.here = root / "here"
        self.cache = root / "cache"
        self.program = program
        self.here.mkdir(parents=True)
        (root / "home").mkdir()
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(root / "home"),
            "HARNESS_CACHE": str(self.cache),
            "HARNESS_OFFLINE": "1",
            "HARNESS_TIREX": "off",  # starts sooner
            "OPENBLAS_NUM_THREADS": "1",  # starts sooner
        }
        if program == PROGRAM:  # this tree's code, whatever tree the program was installed from
            self.environment["PYTHONPATH"] = CODE

    def start(
        self,
        *arguments: str,
        environment: Mapping[str, str] | None = None,
        largest: int | None = None,
        out: IO[str] | int = subprocess.PIPE,
    ) -> subprocess.Popen[str]:
        """The program, started; no file that it writes may be larger than `largest` bytes (a multiple of 512)."""
        limit, settings = [], self.environment | dict(environment or {})
        if largest is not None:
            limit = ["sh", "-c", f'ulimit -f {largest // 512}; exec "$0" "$@"']
            # Python would write its compiled modules as far as the limit lets it, and stumble over them for ever.
            settings["PYTHONDONTWRITEBYTECODE"] = "1"
        return subprocess.Popen(
            [*limit, str(self.program), *arguments],
            cwd=self.here,
            env=settings,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            preexec_fn=listening,  # noqa: PLW1509  (no threads here)
        )

    def run(
        self,
        *arguments: str,
        environment: Mapping[str, str] | None = None,
        largest: int | None = None,
        out: IO[str] | int = subprocess.PIPE,
    ) -> Done:
        """The program, run to its end; see `start`. Forked where nothing depends on how it starts: see `forks`."""
        settings = self.environment | dict(environment or {})
        code = self.environment.get("PYTHONPATH", "")
        at_start = {name for name in settings if name.startswith(AT_START) or name.endswith("_NUM_THREADS")}
        usual = at_start <= {"PYTHONPATH", "OPENBLAS_NUM_THREADS"} and settings.get("PYTHONPATH") == CODE == code
        if usual and largest is None and out == subprocess.PIPE and self.program == PROGRAM:
            with tempfile.TemporaryFile() as printed, tempfile.TemporaryFile() as said:
                ended = forks.of(code).run(arguments, self.here, settings, printed.fileno(), said.fileno())
                for stream in (printed, said):
                    stream.seek(0)
                return Done(ended, _text(printed.read()), _text(said.read()))
        process = self.start(*arguments, environment=environment, largest=largest, out=out)
        whole, faults = process.communicate(timeout=120)
        return Done(process.returncode, whole or "", faults)

    def good(self, *arguments: str, environment: Mapping[str, str] | None = None) -> str:
        """What a command prints that must succeed."""
        done = self.run(*arguments, environment=environment)
        assert done.code == 0, done.err
        return done.out

    def refused(self, *arguments: str, environment: Mapping[str, str] | None = None) -> list[str]:
        """The faults with which a command ends that prints nothing else and leaves all files as they were."""
        before = {name: data for name, data in self.files().items() if "__pycache__" not in name}
        done = self.run(*arguments, environment=environment)
        assert (done.code, done.out) == (2, ""), done
        assert {name: data for name, data in self.files().items() if "__pycache__" not in name} == before
        return [line.removeprefix("harness: ") for line in done.err.splitlines() if not PROGRESS.fullmatch(line)]

    def write(self, path: str, content: str | bytes) -> Path:
        """A file below the folder."""
        assert not Path(path).is_absolute(), path
        target = self.here / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)
        return target

    def lay(self, files: Mapping[str, str | bytes]) -> None:
        """Some files below the folder."""
        for path, content in files.items():
            self.write(path, content)

    def runs(self, folder: str = "runs") -> dict[str, bytes]:
        """The run files below a folder."""
        return {name: content for name, content in self.files(folder).items() if name.endswith(".run")}

    def files(self, *folders: str) -> dict[str, bytes]:
        """All files below the folder (or some of its folders), hidden ones too, with their contents."""
        roots = [self.here / folder for folder in folders] or [self.here]
        found = [path for root in roots for path in root.rglob("*") if path.is_file()]
        return {str(path.relative_to(self.here)): path.read_bytes() for path in sorted(found)}


def own_collection(
    place: Place, name: str, topics: Iterable[Topic], judged: Iterable[tuple[str, str, float]], **more: object
) -> None:
    """A collection below `conf`: topics, and judgments as (topic, document, grade); `more`: other keys of its file."""
    rows = [
        {"id": t.id, "title": t.title, "body": t.body, "tags": [*t.tags], "attributes": {**t.attributes}}
        for t in topics
    ]
    lines = [f"{topic} 0 {doc} {grade:g}\n" for topic, doc, grade in judged]
    place.write(f"conf/collection/{name}.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    place.write(f"conf/collection/{name}.txt", "".join(lines))
    counts = {"topics": len({line.split()[0] for line in lines}), "judgments": len(lines)}
    keys = {"name": name, "title": name, "licence": "CC0", "protocol": "arqmath-task1"}
    keys |= {"topics": {"reader": "jsonl", "file": f"{name}.jsonl"}}  # type: ignore[dict-item]
    editions = {"editions": {"official": {"title": "x", "qrels": {"file": f"{name}.txt"}, **counts}}}
    place.write(f"conf/collection/{name}.yaml", yaml.safe_dump({**keys, **editions, **more}))


def own_corpus(place: Place, name: str, documents: Iterable[Document], **more: object) -> None:
    """A corpus below `conf` of the titles and bodies of documents; `more`: other keys of its file."""
    rows = [json.dumps({"id": each.id, "title": each.title, "body": each.body}) + "\n" for each in documents]
    place.write(f"conf/corpus/{name}.jsonl", "".join(rows))
    fields = {"id": "id", "title": "title", "body": "body"}
    keys = {"name": name, "title": name, "licence": "CC0", "file": {"file": f"{name}.jsonl"}, "fields": fields}
    place.write(f"conf/corpus/{name}.yaml", yaml.safe_dump({**keys, **more}))


def points(place: Place) -> list[dict[str, Any]]:
    """The records of the one sweep in the folder."""
    (folder,) = (place.here / "reports" / "sweeps").iterdir()
    return [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]


def alive(process: int) -> bool:
    """Whether a process runs; one that ended and waits for its parent does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def until(true: Callable[[], object], seconds: float = 90) -> None:
    """Waits until a condition holds."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def wait_for(path: Path, lines: int) -> None:
    """Waits until a file has so many lines."""
    until(lambda: path.exists() and len(path.read_text().splitlines()) >= lines)


def table(text: str) -> list[list[str]]:
    """The rows of a printed table; its columns are two blanks or more apart."""
    rows = [line.strip() for line in text.splitlines()]
    return [[field.strip() for field in row.split("  ") if field.strip()] for row in rows]
