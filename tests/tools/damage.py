"""What can happen to a file, and to a configuration."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

VALUES: tuple[object, ...] = (
    *(None, True, -1, 0, 3, 1.5, 1e308, 10**30, float("nan"), float("inf")),
    *("", "x", "/", ".", "/dev/zero", "none.txt", "a\nb", "\x1b[31mred", "\u202eno", "x" * 1000, "${none}", "é", "1"),
    *([], {}, [[]], ["x"], {"x": "y"}, [None], {"file": "x"}, {1: 2}),
)
PIECES = (
    *("[", "]", "{", "}", "&a ", "*a", "<<: *a\n", "!!python/name:os.system ", "!!binary x", "\t", "\0", "\x07", "é"),
    *("? ", "- ", "---\n", "...\n", "%YAML 9\n", "|\n", ">\n", "'", '"', "#", ": ", "\n\n", "0x", "2024-13-45", ".nan"),
    *("${", "${oc.env:NONE}", "_target_: ", "name: x\n", "\u2028", "\ufeff", "[" * 2000),
)


def flip(data: bytes, rng: random.Random) -> bytes:
    """One to three bits."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 3)) if data else 0):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def cut(data: bytes, rng: random.Random) -> bytes:
    """The end is missing."""
    return data[: rng.randrange(len(data))] if data else data


def empty(data: bytes, rng: random.Random) -> bytes:
    """Nothing is left."""
    return b""


def double(data: bytes, rng: random.Random) -> bytes:
    """The content twice, or a part of it."""
    at, to = sorted(rng.randrange(len(data) + 1) for _ in range(2))
    return data + rng.choice((data, data[at:to] or data))


def overwrite(data: bytes, rng: random.Random) -> bytes:
    """A stretch of other bytes, as a bad sector leaves them."""
    at = rng.randrange(len(data) + 1)
    noise = rng.choice((bytes(64), rng.randbytes(64)))
    return data[:at] + noise + data[at + 64 :]


def shift(data: bytes, rng: random.Random) -> bytes:
    """A byte more or less in the middle."""
    at = rng.randrange(len(data) + 1)
    return data[:at] + (rng.randbytes(1) if rng.random() < 0.5 else b"") + data[at + rng.randrange(2) :]


CONTENTS: tuple[Callable[[bytes, random.Random], bytes], ...] = (flip, flip, cut, cut, empty, double, overwrite, shift)


def damage(path: Path, others: list[Path], rng: random.Random) -> str:
    """Something happens to a file; what, in words."""
    kind = rng.randrange(len(CONTENTS) + 4)
    if kind < len(CONTENTS):
        change = CONTENTS[kind]
        path.write_bytes(change(path.read_bytes(), rng))
        return f"{change.__name__} {path.name}"
    if kind == len(CONTENTS):
        path.unlink()
        return f"delete {path.name}"
    if kind == len(CONTENTS) + 1:
        path.unlink()
        rng.choice((path.mkdir, lambda: os.mkfifo(path), lambda: path.symlink_to("/dev/zero")))()
        return f"no file {path.name}"
    other = rng.choice([other for other in others if other != path] or [path])
    if kind == len(CONTENTS) + 2:
        first, second = path.read_bytes(), other.read_bytes()
        path.write_bytes(second)
        other.write_bytes(first)
        return f"swap {path.name} with {other.name}"
    if path != other:
        shutil.copyfile(other, path)
    return f"copy {other.name} to {path.name}"


def mutate(path: Path, rng: random.Random) -> str:
    """A configuration as a person may have spoilt it: its text, its lines or its values; what, in words."""
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    kind = rng.choice(("bytes", "piece", "line", "value", "value", "value"))
    if kind == "bytes":
        path.write_bytes(rng.choice(CONTENTS)(text.encode(), rng))
    elif kind == "piece":
        at = rng.randrange(len(text) + 1)
        path.write_text(text[:at] + rng.choice(PIECES) + text[at:], encoding="utf-8")
    elif kind == "line":
        first, second = rng.randrange(len(lines)), rng.randrange(len(lines))
        change = rng.randrange(4)
        if change == 0:
            del lines[first]
        elif change == 1:
            lines.insert(second, lines[first])
        elif change == 2:
            lines[first], lines[second] = lines[second], lines[first]
        else:
            lines[first] = " " * rng.randrange(1, 5) + lines[first]
        path.write_text("".join(lines), encoding="utf-8")
    else:
        value = yaml.safe_load(text)
        _change(value, rng)
        path.write_text(yaml.safe_dump(value, sort_keys=False, allow_unicode=True), encoding="utf-8")
    return f"{kind} of {path.parent.name}/{path.name}"


def _change(value: dict[str, Any], rng: random.Random) -> None:
    """One key, at any depth, gets another value, another name, or goes."""
    places = list(_places(value))
    holder, key = rng.choice(places)
    change = rng.randrange(6)
    if change == 0:
        del holder[key]
    elif change == 1 and isinstance(holder, dict):
        holder[rng.choice(("x", "name", "", 5, None, key[::-1] if isinstance(key, str) else "y"))] = holder.pop(key)
    else:
        holder[key] = rng.choice(VALUES)


def _places(value: Any) -> Any:  # noqa: ANN401
    for key in value if isinstance(value, dict) else range(len(value)):
        yield value, key
        if isinstance(value[key], dict | list):
            yield from _places(value[key])
