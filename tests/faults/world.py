"""The commands that are disturbed, the small world that they work in, and how they are started."""

from __future__ import annotations

import atexit
import json
import os
import random
import shutil
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "tests" / "tools")]  # the tiny models

COMMIT = "0123456789abcdef0123456789abcdef01234567"
LONGEST = 240  # seconds of one command, however disturbed
QUIET = "formats=[json]"
TASK = ("collection=mini-task1", "corpus=mini-answers")


@dataclass(frozen=True)
class Command:
    """A command that is disturbed.

    Attributes
    ----------
    words : arguments of `harness`; `{models}` is the folder of the models.
    before : commands that prepare the folder, and are not disturbed.
    done : what the command prints, if it was finished by an earlier call and refuses to do it again.
    """

    words: tuple[str, ...]
    before: tuple[tuple[str, ...], ...] = ()
    done: str = ""


_DENSE = ("device=cpu", "depth=20", "length=16")
_TRAINING = ("epochs=2", "every=2", "batch=4", "length=16", "validation=0.25", "rate=0.001")
COMMANDS: Mapping[str, Command] = {
    "run bm25": Command(("run", *TASK, "system=bm25", QUIET)),
    "run tree": Command(("run", "collection=mini-task2", "corpus=mini-formulas", "system=tree", QUIET)),
    "run bi-encoder": Command(
        (
            "run",
            *TASK,
            "system=bi-encoder-minilm",
            "system.model={models}/encoder",
            *(f"system.{k}" for k in _DENSE),
            QUIET,
        )
    ),
    "sweep": Command(("run", "-m", *TASK, "system=bm25", "system.k1=0.8,1.2", QUIET)),
    "experiment": Command(("run", "experiment=three", QUIET)),
    "training": Command(
        (
            *("run", "collection=future", "corpus=threads", "system=bi-encoder-tuned", "system.model={models}/tuned"),
            *("system.device=cpu", "system.training.collections=[past]", "system.training.leave_out=[future]"),
            *(f"system.training.{key}" for key in _TRAINING),
            QUIET,
        )
    ),
    "translation": Command(
        (
            *("run", "collection=mini-task1-spa", "system=cross-lingual-nllb", "system.translator.model={models}/nllb"),
            *("system.translator.device=cpu", "system.translator.length=24", QUIET),
        )
    ),
    "build": Command(("build", "saber", "--config", "saber-mini", "--output", "made")),
    "submit": Command(
        ("submit", "mine.run", "--lab", "lab", "--team", "ours", "--label", "first"),
        (("lab", "new", "lab", "-c", "mini-task1"), ("submit", "other.run", "--lab", "lab", "--team", "theirs")),
        "the same rankings were submitted before",
    ),
    "fetch": Command(("fetch", "theirs")),
}


@dataclass(frozen=True)
class Done:
    """How a command ended, negative for a signal; what it printed; and how long it took."""

    code: int
    out: str
    err: str
    seconds: float


@dataclass
class World:
    """What all commands share, and the folder in which each of them works.

    Every command works in a folder of the same name, since reports may show it.
    """

    root: Path
    environment: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self.given, self.place = self.root / "given", self.root / "place"
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.place / "home"),
            "TMPDIR": str(self.place / "tmp"),
            "HARNESS_CACHE": str(self.place / "cache"),
            "HARNESS_CONF": str(self.given / "conf"),
            "HARNESS_MIRROR": str(self.given / "mirror"),
            "HARNESS_OFFLINE": "1",
            "PYTHONPATH": str(ROOT),
            "OPENBLAS_NUM_THREADS": "1",
            "OMP_NUM_THREADS": "1",
        }
        os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"  # a process with threads is not forked

    def build(self, models: bool = True) -> None:
        """Write what all commands share, in a child, so that no thread of a library stays in this process.

        Parameters
        ----------
        models : whether to make the models of the commands that need one.
        """
        child = os.fork()
        if child == 0:
            code = 1
            try:
                os.environ.update(self.environment)
                _write(self.given, models)
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        if os.waitpid(child, 0)[1]:
            raise SystemExit("the world of the faults cannot be built")

    def fresh(self, name: str) -> None:
        """Make the folder of a command as it is before the command."""
        self.clear()
        prepared = self.root / "prepared" / name.replace(" ", "-")
        if not prepared.exists():
            for part in ("here", "home", "tmp", "cache"):
                (self.place / part).mkdir(parents=True)
            for run, tag in (("overlap", "mine"), ("shuffle", "other")):
                if COMMANDS[name].words[0] == "submit":
                    shutil.copy(ROOT / "runs/mini/mini-task1" / f"{run}.run", self.place / "here" / f"{tag}.run")
            for words in COMMANDS[name].before:
                self.good(words)
            prepared.parent.mkdir(exist_ok=True)
            self.place.rename(prepared)
        shutil.copytree(prepared, self.place, dirs_exist_ok=True)  # which may be a mount

    def clear(self) -> None:
        """Delete the folder of the command."""
        shutil.rmtree(self.place, ignore_errors=True)

    def words(self, name: str) -> tuple[str, ...]:
        """The arguments of a command."""
        return tuple(
            word.format(models=self.given / "models") if "{" in word else word for word in COMMANDS[name].words
        )

    def good(self, words: tuple[str, ...]) -> Done:
        """Run a command that must succeed."""
        done = self.run(words)
        if done.code:
            raise SystemExit(f"harness {' '.join(words)}: exit code {done.code}, undisturbed:\n{done.err}")
        return done

    def run(self, words: tuple[str, ...], before: Callable[[], object] | None = None) -> Done:
        """Run a command to its end."""
        return Process(self, words, before).wait()


class Process:
    """A command under way, in a process group of its own: a child of this process, which has done the imports.

    Parameters
    ----------
    before : called in the child before the command begins.
    environment : settings besides those of the world.
    """

    def __init__(
        self,
        world: World,
        words: tuple[str, ...],
        before: Callable[[], object] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.world, self._begin, self._seconds = world, time.monotonic(), 0.0
        self._code: int | None = None
        self._files = world.root / "here.out", world.root / "here.err"
        variables = world.environment | dict(environment or {})
        folder = world.place / "here"
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            _become(folder, variables, words, *self._files, before)

    def ended(self) -> bool:
        """Whether the command has ended."""
        if self._code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._code, self._seconds = os.waitstatus_to_exitcode(status), time.monotonic() - self._begin
        return self._code is not None

    def until(self, moment: float) -> bool:
        """Wait until so many seconds after the start; whether the command still runs."""
        while not self.ended() and (left := self._begin + moment - time.monotonic()) > 0:
            time.sleep(min(left, 0.02))
        return not self.ended()

    def kill(self) -> None:
        """Kill all processes of the group."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    def wait(self) -> Done:
        """How the command ended; it is killed if it takes too long."""
        if self.until(LONGEST):
            self.kill()
            while not self.ended():
                time.sleep(0.01)
        end = time.monotonic() + 10
        while self._code != 0 and time.monotonic() < end:
            try:
                os.killpg(self.pid, 0)  # until the children are gone as well
            except (ProcessLookupError, PermissionError):
                break
            time.sleep(0.01)
        out, err = (path.read_text("utf-8", "replace") if path.exists() else "" for path in self._files)
        return Done(self._code or 0, out, err, self._seconds)


def _become(
    here: Path,
    environment: Mapping[str, str],
    words: tuple[str, ...],
    out: Path,
    err: Path,
    before: Callable[[], object] | None,
) -> None:
    code: object = 99
    try:
        os.setsid()
        os.chdir(here)
        os.environ.clear()
        os.environ.update(environment)
        for path, descriptor in ((out, 1), (err, 2)):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), descriptor)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        sys.argv = ["harness", *words]
        import tempfile

        tempfile.tempdir = None
        from harness.__main__ import main

        try:
            if before is not None:
                before()
            main()
            code = 0
        except SystemExit as end:
            code = end.code or 0
        except BaseException:
            traceback.print_exc()
            code = 1
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        with suppress(OSError, ValueError):
            sys.stdout.flush()
        with suppress(OSError, ValueError):
            sys.stderr.flush()
        if names := environment.get("FAULTS_MODULES"):
            Path(names).write_text("\n".join(sys.modules))
    finally:
        os._exit(code if isinstance(code, int) else 1)


# ---- what all commands share ------------------------------------------------------------------------------------


def _write(folder: Path, models: bool) -> None:
    conf = folder / "conf"
    conf.mkdir(parents=True)

    def configured(group: str, name: str, text: str) -> Path:
        path = conf / group / f"{name}.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    if models:
        _models(folder / "models")
        _courses(configured, folder / "data")
    named = {name: {"overrides": [f"system={name}"]} for name in ("bm25", "tfidf-ltn", "overlap")}
    three = {"title": "Three", "shared": [*TASK], "conditions": named, "measures": ["nDCG", "AP"]}
    configured("experiment", "three", yaml.safe_dump({**three, "baseline": {"condition": "bm25"}}, sort_keys=False))
    _mirror(folder / "mirror", configured)


def _models(folder: Path) -> None:
    """Tiny models, one for each command that needs one."""
    import encoder_models
    import translation_models
    import tuning_tools

    folder.mkdir()
    encoder_models.save(folder / "encoder")
    translation_models.save(folder / "nllb", "nllb")
    tuning_tools.sentence_transformer(folder / "tuned")


def _courses(configured: Callable[[str, str, str], Path], folder: Path) -> None:
    """Threads, judgments to train on, and judgments to evaluate with."""
    import tuning_tools as tools

    folder.mkdir()
    made, documents = tools.Courses(configured, folder), tools.threads()
    made.corpus("threads", documents)
    past, future = (
        [tools.topic(f"{name}{n}", tools.SUBJECTS[n % 4], seed + n) for n in range(count)]
        for name, seed, count in (("P", 100, 8), ("F", 200, 4))
    )
    made.collection("past", past, tools.judged(past, documents, 3))
    made.collection("future", future, [("F0", "A0.0", 3), ("F1", "A5.1", 2), ("F2", "A6.0", 3), ("F3", "A7.1", 1)])


def _mirror(folder: Path, configured: Callable[[str, str, str], Path]) -> None:
    """An archive of some files, large enough that copying them takes a while."""
    import hashlib

    from archive_tools import tar

    chance = random.Random(1)
    files = {f"data/part-{number}.bin": chance.randbytes(3_000_000) for number in range(8)}
    listed = {name: {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)} for name, data in files.items()}
    source = {"title": "Theirs", "repository": "owner/name", "commit": COMMIT, "licence": "CC0", "files": listed}
    configured("source", "theirs", json.dumps(source))
    archive = folder / "github.com/owner/name" / f"{COMMIT}.tar.xz"
    archive.parent.mkdir(parents=True)
    archive.write_bytes(tar({f"name-{COMMIT}/{name}": data for name, data in files.items()}))
