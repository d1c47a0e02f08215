"""A store of several machines: two writers end in one whole artifact, and nothing that is in use is deleted."""

from __future__ import annotations

import json
import os
import pickle
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from harness.errors import HarnessError
from harness.io import holders
from harness.io.leases import held
from harness.store import artefacts
from harness.store.artefacts import collect, get_or_build, key, store_root
from harness.store.leases import ArtefactBusy, found, without_waiting

SPEC = {"a": 1}


@pytest.fixture(autouse=True)
def _no_time_passes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The clock moves only while this process sleeps."""
    now = [1000.0]
    monkeypatch.setattr(holders, "clock", lambda: now[0])
    monkeypatch.setattr(holders, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    monkeypatch.setattr(holders, "_SEEN", {})
    monkeypatch.setattr(artefacts, "_USED", {})
    yield


def place() -> Path:
    return store_root() / "index" / key(SPEC)


def writes(text: str, *before: Callable[[], object]) -> Callable[[Path], None]:
    def build(folder: Path) -> None:
        (folder / "data").write_text(text)
        for call in before:
            call()
        (folder / "part").mkdir(parents=True, exist_ok=True)
        (folder / "part" / "more").write_text(text)

    return build


def content() -> tuple[str, str]:
    assert artefacts.damage(place(), "index") == ""
    return (place() / "data").read_text(), (place() / "part" / "more").read_text()


def hidden() -> list[str]:
    return sorted(path.name for path in store_root().rglob("*") if path.name.startswith("."))


class Other:
    """Another machine, on which something is done while this one is paused: no beat of this one is seen."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._patch = monkeypatch

    def __call__(self, call: Callable[[], object]) -> Callable[[], None]:
        def do() -> None:
            with self._patch.context() as patch:
                patch.setenv("HARNESS_HOST", "two")
                call()

        return do


@pytest.fixture
def other(monkeypatch: pytest.MonkeyPatch) -> Other:
    return Other(monkeypatch)


def test_who_was_paused_finds_the_artifact_of_the_other(other: Other, capsys: pytest.CaptureFixture[str]) -> None:
    there = other(lambda: get_or_build("index", SPEC, writes("theirs")))
    assert get_or_build("index", SPEC, writes("mine", there)) == place()
    assert content() == ("theirs", "theirs")
    assert hidden() == []
    assert "paused" not in capsys.readouterr().err  # nothing was lost


def test_who_resumes_before_the_other_ends_is_first(other: Other) -> None:
    calls: list[str] = []

    def both() -> None:
        with ExitStack() as stack:
            # The other has taken over and makes the artifact; its end comes after ours.
            stack.enter_context(held(place().parent, place().name))
            resumed.append(stack.pop_all())

    resumed: list[ExitStack] = []
    get_or_build("index", SPEC, writes("mine", other(both), lambda: calls.append("mine")))
    assert content() == ("mine", "mine")
    resumed[0].close()
    get_or_build("index", SPEC, writes("again"))
    assert content() == ("mine", "mine")


@pytest.mark.parametrize("after", ["nothing", "an artifact"])
def test_work_whose_folder_was_collected_during_a_pause_is_done_again(
    after: str, other: Other, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder that was deleted and made again by the builder holds only a part of the files."""
    calls: list[str] = []

    def away() -> None:
        if not calls:
            collect(30)
            assert hidden() == []
            if after == "an artifact":
                get_or_build("index", SPEC, writes("theirs"))
        calls.append("x")

    get_or_build("index", SPEC, writes("mine", other(away)))
    assert content() == (("mine", "mine") if after == "nothing" else ("theirs", "theirs"))
    assert len(calls) == (2 if after == "nothing" else 1)
    assert hidden() == []
    said = capsys.readouterr().err
    assert said.count("watching 1 lease of other machines") == 1
    assert said.count(f"{place()}: this process was paused, and another one took over its work") == 1


def test_a_paused_process_does_not_replace_what_another_one_repaired(other: Other) -> None:
    get_or_build("index", SPEC, writes("old"))
    (place() / "data").write_text("damaged")
    get_or_build("index", SPEC, writes("mine", other(lambda: get_or_build("index", SPEC, writes("theirs")))))
    assert content() == ("theirs", "theirs")
    assert hidden() == []


def test_an_intact_artifact_that_was_moved_away_as_damaged_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    get_or_build("index", SPEC, writes("intact"))
    with held(place().parent, place().name) as lease:
        artefacts._discard(place(), "index", lease)
        assert content() == ("intact", "intact")
        (place() / "data").write_text("damaged")
        artefacts._discard(place(), "index", lease)
        assert not place().exists()
    assert hidden() == []


def test_a_damaged_artifact_that_appears_during_the_work_is_replaced() -> None:
    def appears() -> None:
        (place() / "data").mkdir(parents=True)

    get_or_build("index", SPEC, writes("mine", appears))
    assert content() == ("mine", "mine")
    assert hidden() == []


def test_a_fault_of_the_builder_is_told_once_even_after_a_pause(other: Other) -> None:
    calls: list[str] = []

    def away() -> None:
        calls.append("x")
        if len(calls) == 1:
            collect(30)

    def fails() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        get_or_build("index", SPEC, writes("x", other(away), fails))
    assert len(calls) == 2
    assert hidden() == []
    with pytest.raises(HarnessError, match=r"making: deleted while it was made"):
        get_or_build("index", SPEC, writes("x", lambda: shutil.rmtree(next(place().parent.glob(".*.making")))))
    assert hidden() == []


# ---- waiting ----------------------------------------------------------------------------------------------------


def test_an_artifact_that_another_owner_makes_is_busy_for_who_does_not_wait(other: Other) -> None:
    def want() -> None:
        with without_waiting():
            with pytest.raises(ArtefactBusy) as caught:
                get_or_build("index", SPEC, writes("theirs"))
            assert (caught.value.kind, caught.value.key, caught.value.process) == ("index", key(SPEC), os.getpid())
            assert str(caught.value) == (
                f"index {key(SPEC)[:12]} is being made by {caught.value.machine}, process {os.getpid()}"
            )
            again = pickle.loads(pickle.dumps(caught.value))  # noqa: S301
            assert (str(again), again.key) == (str(caught.value), key(SPEC))
            assert isinstance(again, HarnessError)
            get_or_build("index", {"a": 2}, writes("another"))

    get_or_build("index", SPEC, writes("mine", want, other(want)))
    with without_waiting():
        assert get_or_build("index", SPEC, writes("theirs")) == place()
    assert content() == ("mine", "mine")


def test_who_does_not_wait_gets_the_artifact_of_a_dead_owner_in_the_end(other: Other) -> None:
    with ExitStack() as stack:
        other(lambda: stack.enter_context(held(place().parent, place().name)))()
        busy = 0
        with without_waiting():
            while True:
                try:
                    get_or_build("index", SPEC, writes("mine"))
                    break
                except ArtefactBusy:
                    busy += 1
                    holders.sleep(7.0)
        assert 9 <= busy <= 10
        assert content() == ("mine", "mine")


# ---- lists and garbage collection -------------------------------------------------------------------------------


def test_what_is_being_made_and_what_it_reads_are_kept(other: Other) -> None:
    read = get_or_build("index", {"read": "before"}, writes("1"))
    old = get_or_build("index", {"read": "never"}, writes("2"))
    artefacts._USED.pop(f"index/{old.name}")

    def during() -> None:
        within = get_or_build("index", {"read": "within"}, writes("3"))
        ((kind, name, holder),) = found(store_root())
        assert (kind, name, holder.process, holder.what) == ("index", key(SPEC), os.getpid(), "makes index")
        assert holder.uses == (f"index/{read.name}", f"index/{within.name}")
        assert [gone.path for gone in collect(0)] == [old]
        assert len([name for name in hidden() if name.endswith(".making")]) == 1

    get_or_build("index", SPEC, writes("mine", during))
    assert content() == ("mine", "mine")
    assert {gone.path for gone in collect(0)} == {read, place(), store_root() / "index" / key({"read": "within"})}
    assert list((store_root() / "index").iterdir()) == []


def test_remains_of_any_age_and_version_are_collected() -> None:
    folder = store_root() / "index"
    folder.mkdir(parents=True)
    for name in (".abc.making", f".abc.{'0' * 16}.making", f".abc.{'0' * 16}.damaged", f".{'1' * 16}.gone"):
        (folder / name).mkdir()
        (folder / name / "half").write_text("x")
    (folder / f".{'a' * 64}.lock").touch()
    (folder / f".x.{'0' * 16}.damaged").write_text("a file")
    collect(30)
    assert list(folder.iterdir()) == []


def test_what_is_collected_is_moved_away_first_so_that_nobody_finds_or_publishes_a_part(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = get_or_build("index", SPEC, writes("1"))
    making = made.parent / f".abc.{'0' * 16}.making"
    making.mkdir()
    (making / "half").write_text("x")
    deleted: list[Path] = []
    rmtree = shutil.rmtree

    def watched(path: Path, ignore_errors: bool) -> None:
        deleted.append(path)
        rmtree(path, ignore_errors)

    monkeypatch.setattr(shutil, "rmtree", watched)
    assert [gone.path for gone in collect(0)] == [made]
    assert {path.suffix for path in deleted} == {".gone"}
    assert len(deleted) >= 2
    assert list(made.parent.iterdir()) == []


def test_an_artifact_used_since_the_list_was_made_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    made = get_or_build("index", SPEC, writes("1"))
    os.utime(made / artefacts.SPEC, (time.time() - 10 * 86400,) * 2)
    (listed,) = artefacts.artefacts()
    get_or_build("index", SPEC, writes("2"))
    monkeypatch.setattr(artefacts, "artefacts", lambda: [listed])
    assert collect(5) == []
    assert content() == ("1", "1")


def test_a_clock_that_is_ahead_keeps_nothing_from_an_order_to_delete_all() -> None:
    made = get_or_build("index", SPEC, writes("1"))
    os.utime(made / artefacts.SPEC, (time.time() + 600,) * 2)
    assert [gone.path for gone in collect(0)] == [made]


def test_a_lease_of_an_artifact_says_what_can_be_known(other: Other) -> None:
    path = store_root() / "index" / ".abc.1.lease" / ("0" * 16)
    path.parent.mkdir(parents=True)
    said = {"host": "x", "machine": "x", "process": 7, "start": "", "user": "ann", "what": "makes index", "every": 10}
    path.write_text(json.dumps(said) + "\n.\n.\nuse index/1\n.\n")
    ((kind, name, holder),) = found(store_root())
    assert (kind, name, holder.user, holder.beats, holder.state()) == ("index", "abc", "ann", 3, "unknown")
    assert re.fullmatch(r"x, process 7, which makes index", str(holder))
