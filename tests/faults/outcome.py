"""What a command left, and what is wrong with it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import yaml

from .world import Done

Kept = dict[str, str]  # path below the folder -> checksum of its content, without times
Finished = dict[str, tuple[object, ...]]
_TIMES = ("seconds", "latency of each query in seconds", "peak memory of the run in bytes", "sha256")
# Files of libraries, which they keep or delete themselves.
_OTHERS = ("tmp/torchinductor",)


def kept(place: Path) -> Kept:
    """All files and folders below the folder of a command, hidden ones too."""
    out = {}
    for path in sorted(place.rglob("*")):
        name = path.relative_to(place).as_posix()
        if not name.startswith(_OTHERS):
            out[name] = "folder" if path.is_dir() else hashlib.sha256(_content(path)).hexdigest()
    return out


def _content(path: Path) -> bytes:
    """The content of a file without what differs from call to call."""
    data = path.read_bytes()
    if path.name.endswith(".ir-metadata.yml") and b"run sha256" in data:
        said = yaml.safe_load(data)
        said["harness"] = {key: value for key, value in said["harness"].items() if key not in _TIMES}
        # A run that another launcher or an earlier call made may name another command line.
        said.pop("implementation", None)
        said.pop("platform", None)
        data = json.dumps(said, sort_keys=True).encode()
    elif path.name in ("journal.jsonl", "entry.json"):  # a journal's line, alone
        lines = [json.loads(line) for line in data.splitlines()]
        data = json.dumps([{k: v for k, v in line.items() if k not in ("at", "check")} for line in lines]).encode()
    return data


def finished(place: Path) -> Finished:
    """What a command had finished: path -> what changes if it is made again."""
    found: Finished = {}
    cache = place / "cache"
    for path in cache.rglob("*"):
        parts = path.relative_to(cache).parts
        # Checksums of code are added to one file.
        if (
            path.is_file()
            and path.name != "spec.json"
            and parts[0] != "code"
            and not any(part.startswith(".") for part in parts)
        ):
            found[path.relative_to(place).as_posix()] = _identity(path)
    for path in place.glob("here/runs/*/*.run"):
        if path.with_suffix(".ir-metadata.yml").exists():
            found[path.relative_to(place).as_posix()] = _identity(path)
    for path in place.glob("here/lab/journal.jsonl"):
        for number, line in enumerate(path.read_bytes().splitlines(keepends=True)):
            if line.endswith(b"\n"):
                found[f"{path.relative_to(place).as_posix()}:{number + 1}"] = (line,)
                said = json.loads(line)
                folder = path.parent / "submissions" / said["team"] / f"{said['label']}.v{said['version']}"
                found |= {each.relative_to(place).as_posix(): _identity(each) for each in folder.iterdir()}
    return found


def _identity(path: Path) -> tuple[object, ...]:
    status = path.stat()
    return status.st_ino, status.st_mtime_ns


def lost(before: Finished, after: Finished) -> list[str]:
    """What was finished and is not there any more, or was made again."""
    gone = [f"{name} is lost" for name in before if name not in after]
    return gone + [f"{name} was made again" for name in before if name in after and before[name] != after[name]]


def differences(found: Kept, expected: Kept) -> list[str]:
    """How the files differ from those of the undisturbed command."""
    return [
        *(f"{name} is missing" for name in expected if name not in found),
        *(f"{name} is left" for name in found if name not in expected),
        *(f"{name} differs" for name in expected if found.get(name, expected[name]) != expected[name]),
    ]


def unclear(done: Done, several: bool = False) -> str:
    """What is wrong with how a disturbed command ended; empty if nothing is.

    Parameters
    ----------
    several : whether the command has parts that go on without each other, each with a line.
    """
    lines = done.err.removesuffix("\n").split("\n")
    if done.code < 0:
        return f"ended by signal {-done.code}"
    if "Traceback" in done.err:
        return "traceback"
    if done.code == 0:
        return ""
    if done.code != 2:
        return f"exit code {done.code}"
    if not all(len(line) <= 500 and line.isprintable() for line in lines):
        return "a line that is too long or cannot be printed"
    said = [line for line in lines if line.startswith("harness: ")]
    if not said or lines[-1] != said[-1]:
        return "no line that says what is wrong"
    return "" if several or len(said) == 1 else f"{len(said)} lines"
