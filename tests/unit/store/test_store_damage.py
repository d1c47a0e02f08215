"""What is read from the store is what was written: any damage is found, said once, and mended with the same bytes."""

from __future__ import annotations

import errno
import json
import os
import shutil
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.errors import HarnessError
from harness.experiments.produce import Produced, make
from harness.experiments.task import task
from harness.store import artefacts, provenance, sidecar
from harness.store.cost import Meter
from harness.systems import hardware

TASKS = {
    "bm25": ("mini-task1", "mini-answers"),
    "tree": ("mini-task2", "mini-formulas"),
    "tangent": ("mini-task2", "mini-formulas"),
    "l2l": ("mini-task2", "mini-formulas"),
    "structural": ("mini-task2", "mini-formulas"),
}


def flip(path: Path, at: float = 0.6) -> None:
    data = bytearray(path.read_bytes())
    data[int(at * (len(data) - 1))] ^= 4
    path.write_bytes(data)


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def append(path: Path) -> None:
    with path.open("ab") as stream:
        stream.write(b"\n")


def empty(path: Path) -> None:
    path.write_bytes(b"")


def add(path: Path) -> None:
    (path.parent / "more").write_text("x")


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


FAULTS: tuple[Callable[[Path], None], ...] = (flip, cut, Path.unlink, append, empty, add, folder)


def run(name: str, where: Path, **how: Any) -> Produced:  # noqa: ANN401
    return make(name, task(*TASKS[name]), runs=where, **how)


def content(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def whole() -> dict[Path, dict[str, bytes]]:
    return {found.path: content(found.path) for found in artefacts.artefacts()}


@pytest.mark.heavy
@pytest.mark.parametrize(
    "name", ["bm25", *(pytest.param(name, marks=pytest.mark.slow) for name in ("l2l", "structural"))]
)
def test_damage_to_any_file_ends_in_the_same_run_and_one_warning(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = run(name, tmp_path, reuse=False).path.read_bytes()
    before = whole()
    files = [folder / file for folder, files in before.items() for file in files]
    assert len(files) >= 10
    for number, path in enumerate(files):
        capsys.readouterr()
        FAULTS[number % len(FAULTS)](path)
        assert run(name, tmp_path, reuse=False).path.read_bytes() == expected
        warnings = [line for line in capsys.readouterr().err.splitlines() if "damaged" in line]
        assert len(warnings) == 1, (path, warnings)
        assert warnings[0].startswith(str(path.parent))
        assert warnings[0].endswith("rebuilding it")
        assert whole() == before


def small(folder: Path) -> None:
    (folder / "part").mkdir()
    (folder / "part" / "data").write_text("12345")


@pytest.mark.parametrize("fault", [*FAULTS, *(partial(flip, at=at) for at in (0.0, 0.5, 1.0))])
@pytest.mark.parametrize("file", ["part/data", artefacts.SPEC])
def test_damage_is_found_in_any_file(fault: Callable[[Path], None], file: str) -> None:
    made = artefacts.get_or_build("index", {"a": 1}, small)
    assert artefacts.damage(made, "index") == ""
    fault(made / file)
    assert artefacts.damage(made, "index").startswith("damaged: ")


def test_each_byte_of_the_list_of_files_counts() -> None:
    made = artefacts.get_or_build("index", {"a": [1, {"b": None}], "c": "ü"}, small)
    spec = made / artefacts.SPEC
    kept = spec.read_bytes()
    entry = json.loads(kept)["files"]["part/data"]
    assert entry["size"] == 5
    assert entry["sha256"] == "5994471abb01112afcc18159f6cc74b4f511b99806da59b3caf5a9c173cacfc5"
    for at in range(len(kept)):
        for bit in (1, 32):
            spec.write_bytes(kept[:at] + bytes([kept[at] ^ bit]) + kept[at + 1 :])
            assert artefacts.damage(made, "index").startswith("damaged: "), at
    spec.write_bytes(kept)
    assert artefacts.damage(made, "index") == ""
    assert artefacts.damage(made, "graphs").startswith("damaged: ")  # another kind of artefact lies there
    other = artefacts.get_or_build("index", {"a": 2}, small)
    shutil.copy(other / artefacts.SPEC, spec)
    assert artefacts.damage(made, "index").startswith("damaged: ")


@pytest.mark.parametrize("there", ["a file", "an empty folder", "an old artefact"])
def test_what_is_no_artefact_is_replaced(there: str, capsys: pytest.CaptureFixture[str]) -> None:
    place = artefacts.store_root() / "index" / artefacts.key({"a": 1})
    place.parent.mkdir(parents=True)
    if there == "a file":
        place.write_text("x")
    else:
        place.mkdir()
    if there == "an old artefact":
        (place / artefacts.SPEC).write_text(json.dumps({"kind": "index", "spec": {"a": 1}}))
    assert (artefacts.get_or_build("index", {"a": 1}, small) / "part" / "data").read_text() == "12345"
    assert capsys.readouterr().err.count("rebuilding it") == 1
    assert artefacts.damage(place, "index") == ""


def test_large_files_are_read_once_unless_they_change(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    fast = artefacts.fast_checksum

    def counted(path: Path) -> str:
        read.append(path.name)
        return fast(path)

    monkeypatch.setattr(artefacts, "fast_checksum", counted)

    def build(folder: Path) -> None:
        (folder / "large").write_bytes(bytes(artefacts.LARGE + 1))
        (folder / "small").write_bytes(b"x")

    made = artefacts.get_or_build("index", {"a": 1}, build)
    read.clear()
    for _ in range(3):
        artefacts.get_or_build("index", {"a": 1}, build)
    assert sorted(read) == ["large", "small", "small", "small"]
    flip(made / "large")
    assert artefacts.damage(made, "index").startswith("damaged: 'large'")


def test_keys_of_specifications_that_hold_numbers_as_names_are_found_again() -> None:
    spec = {"weights": {10: 1, 2: (1, 2)}}
    made = artefacts.get_or_build("index", spec, small)
    assert artefacts.damage(made, "index") == ""


# ---- runs -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_value_of_a_side_file_counts_but_for_the_actor(tmp_path: Path) -> None:
    path = run("bm25", tmp_path).path
    side = sidecar.sidecar_path(path)
    text = side.read_text(encoding="utf-8")
    for old, new in (
        ("k1: 1.2", "k1: 1.3"),
        ("in all: ", "in all: 1"),
        ("run layout: trec", "run layout: x"),
        ("tag: bm25", "tag: b"),
    ):
        assert text.count(old) == 1
        side.write_text(text.replace(old, new), encoding="utf-8")
        assert sidecar.claimed(side) == ("", "", "")
    bomb = "".join(f"a{n + 1}: &a{n + 1} [{', '.join([f'*a{n}'] * 9)}]\n" for n in range(12))
    side.write_text(f"{text}a0: &a0 x\n{bomb}", encoding="utf-8")
    assert sidecar.claimed(side) == ("", "", "")
    side.write_text(text.replace("team: null", "team: ours"), encoding="utf-8")
    assert run("bm25", tmp_path).reused
    assert "team: ours" in side.read_text(encoding="utf-8")


def test_the_side_file_names_the_gpus_that_were_used(monkeypatch: pytest.MonkeyPatch) -> None:
    made = sidecar.RunOrigin("k", {}, Meter(), provenance.provenance({}))

    def gpu(torch: object) -> list[str]:
        monkeypatch.setitem(sys.modules, "torch", torch)
        found = sidecar.text(made, name="x", sha256="y", layout="trec", collection="z")
        assert ("gpu:" in found) == bool(sidecar.used_gpus())
        return sidecar.used_gpus()

    cuda = SimpleNamespace(is_initialized=lambda: True, device_count=lambda: 2, get_device_name=lambda n: f"GPU {n}")
    assert gpu(SimpleNamespace(cuda=cuda)) == ["GPU 0", "GPU 1"]
    assert gpu(SimpleNamespace(cuda=SimpleNamespace(is_initialized=lambda: False))) == []
    assert gpu(None) == []


def test_arithmetic_tells_device_and_precision() -> None:
    kinds = [hardware.arithmetic(device, half) for device in ("cpu", "cuda") for half in (False, True)]
    assert len({artefacts.key({"arithmetic": kind}) for kind in kinds}) == 4


# ---- a cache that may not be written ----------------------------------------------------------------------------


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES, errno.EPERM])
def test_an_artefact_is_used_where_nothing_can_be_written(code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    made = artefacts.get_or_build("index", {"a": 1}, small)

    def refuse(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    for name in ("open", "utime", "mkdir", "rename", "replace", "unlink"):
        monkeypatch.setattr(os, name, refuse)
    assert artefacts.get_or_build("index", {"a": 1}, small) == made


def test_damage_where_nothing_can_be_written_says_both(monkeypatch: pytest.MonkeyPatch) -> None:
    made = artefacts.get_or_build("index", {"a": 1}, small)
    flip(made / "part" / "data")

    def open_to_read(path: Any, flags: int, *more: Any, **how: Any) -> int:  # noqa: ANN401
        if flags & os.O_CREAT:
            raise OSError(errno.EROFS, "Read-only file system")
        return real(path, flags, *more, **how)

    real = os.open
    monkeypatch.setattr(os, "open", open_to_read)
    with pytest.raises(HarnessError) as caught:
        artefacts.get_or_build("index", {"a": 1}, small)
    assert str(caught.value) == (
        f"{made.parent}: cannot be written: Read-only file system; {made.name} there is damaged: 'part/data' differs "
        "from what was written, and has to be rebuilt"
    )
