"""Artefacts: keyed by content, built once, never half-made."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from refusals import refuses

from harness.store.artefacts import artefacts, collect, get_or_build, key, store_root


def writes(text: str, calls: list[str] | None = None) -> Callable[[Path], None]:
    def build(folder: Path) -> None:
        assert list(folder.iterdir()) == []
        (folder / "part").mkdir()
        (folder / "part" / "data").write_text(text)
        if calls is not None:
            calls.append(text)

    return build


def test_keys_follow_content_alone() -> None:
    assert key({"a": 1, "b": [1, 2]}) == key({"b": [1, 2], "a": 1})
    values: tuple[object, ...] = (1, 2, "1", 1.5, [1], None)
    different: list[dict[str, object]] = [*({"a": value} for value in values), {"b": 1}, {}]
    assert len({key(spec) for spec in different}) == len(different)
    refuses("artifact: specification cannot be written as JSON", lambda: key({"a": object()}))
    refuses("artifact: specification cannot be written as JSON", lambda: key({"a": float("nan")}))


def test_an_artefact_is_built_once() -> None:
    calls: list[str] = []
    first = get_or_build("index", {"corpus": "x"}, writes("one", calls))
    assert first == store_root() / "index" / key({"corpus": "x"})
    assert (first / "part" / "data").read_text() == "one"
    assert get_or_build("index", {"corpus": "x"}, writes("two", calls)) == first
    assert (first / "part" / "data").read_text() == "one"
    other = get_or_build("index", {"corpus": "y"}, writes("three", calls))
    assert other != first
    assert calls == ["one", "three"]


def test_a_builder_that_fails_leaves_nothing() -> None:
    def fails(folder: Path) -> None:
        (folder / "half").write_text("x")
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        get_or_build("index", {"a": 1}, fails)
    assert artefacts() == []
    assert [path for path in store_root().rglob("*") if path.name == "half"] == []
    folder = get_or_build("index", {"a": 1}, writes("whole"))
    assert (folder / "part" / "data").read_text() == "whole"


def _slow(cache: str, started: str) -> None:
    os.environ["HARNESS_CACHE"] = cache

    def build(folder: Path) -> None:
        (folder / "half").write_text("x")
        Path(started).touch()
        time.sleep(60)

    get_or_build("index", {"a": 1}, build)


def test_a_killed_builder_leaves_nothing_half_made(tmp_path: Path) -> None:
    started = tmp_path / "started"
    process = multiprocessing.get_context("spawn").Process(
        target=_slow, args=(os.environ["HARNESS_CACHE"], str(started))
    )
    process.start()
    while not started.exists():
        time.sleep(0.02)
        assert process.is_alive()
    os.kill(process.pid or 0, signal.SIGKILL)
    process.join()
    assert artefacts() == []
    # The lock has gone with the process, and what it left is cleared away.
    folder = get_or_build("index", {"a": 1}, writes("whole"))
    assert sorted(path.name for path in folder.iterdir()) == ["part", "spec.json"]


def _together(cache: str, log: str) -> None:
    os.environ["HARNESS_CACHE"] = cache

    def build(folder: Path) -> None:
        with Path(log).open("a") as stream:
            stream.write("built\n")
        time.sleep(0.2)
        (folder / "data").write_text("x")

    assert (get_or_build("index", {"a": 1}, build) / "data").read_text() == "x"


@pytest.mark.slow
def test_processes_that_want_the_same_artefact_build_it_once(tmp_path: Path) -> None:
    log = tmp_path / "log"
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_together, args=(os.environ["HARNESS_CACHE"], str(log))) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert log.read_text() == "built\n"


def test_what_is_in_the_store_and_what_is_collected() -> None:
    old = get_or_build("index", {"a": 1}, writes("12345"))
    new = get_or_build("graphs", {"b": 2}, writes("123"))
    os.utime(old / "spec.json", (time.time() - 10 * 86400,) * 2)
    listed = artefacts()
    assert [(found.kind, found.spec, found.path) for found in listed] == [
        ("index", {"a": 1}, old),
        ("graphs", {"b": 2}, new),
    ]
    assert listed[0].size == 5 + (old / "spec.json").stat().st_size
    assert [found.path for found in collect(days=5)] == [old]
    assert not old.exists()
    assert new.exists()
    assert collect(days=5) == []
    # Asking for an artefact is using it.
    os.utime(new / "spec.json", (time.time() - 10 * 86400,) * 2)
    get_or_build("graphs", {"b": 2}, writes("x"))
    assert collect(days=5) == []


@pytest.mark.parametrize("kinds", [("a", "b", "c"), ("c", "b", "a")])
def test_artefacts_last_used_at_one_time_are_listed_in_the_order_of_making(kinds: tuple[str, ...]) -> None:
    spec: dict[str, object] = {"corpus": "mini-answers"}
    for kind in kinds:
        os.utime(get_or_build(kind, spec, writes("x")) / "spec.json", (1, 1))
        spec = {kind: spec}
    assert [found.kind for found in artefacts()] == list(kinds)


@pytest.mark.parametrize("readable", [True, False])
def test_an_artefact_without_a_specification_is_listed_and_collected(readable: bool) -> None:
    folder = get_or_build("kind", {"a": 1}, lambda made: None)
    (folder / "spec.json").unlink()
    (folder / "spec.json").mkdir() if not readable else None
    (listed,) = artefacts()
    assert (listed.key, dict(listed.spec)) == (folder.name, {"damaged": str(folder / "spec.json")})
    assert [gone.key for gone in collect(0)] == [folder.name]
    assert not folder.exists()
