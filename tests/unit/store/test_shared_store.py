"""A store of several processes: two writers end in one whole artifact, and nothing that is in use is deleted."""

from __future__ import annotations

import os
import pickle
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from process_tools import holding

from harness.errors import HarnessError
from harness.io import locks
from harness.store import artefacts
from harness.store.artefacts import ArtefactBusy, being_made, collect, get_or_build, key, store_root, without_waiting

SPEC = {"a": 1}


@pytest.fixture(autouse=True)
def _nothing_was_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artefacts, "_USED", {})


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


def test_what_was_built_without_a_lock_is_not_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a file system has no locks, two processes build the same artifact; the first is kept."""
    monkeypatch.setattr(locks, "_locks", lambda *_: True)
    get_or_build("index", SPEC, writes("mine", lambda: get_or_build("index", SPEC, writes("theirs"))))
    assert content() == ("theirs", "theirs")
    (place() / "data").write_text("damaged")
    get_or_build("index", SPEC, writes("mine", lambda: get_or_build("index", SPEC, writes("repaired"))))
    assert content() == ("repaired", "repaired")
    assert hidden() == []


def test_an_intact_artifact_that_was_moved_away_as_damaged_comes_back() -> None:
    get_or_build("index", SPEC, writes("intact"))
    artefacts._discard(place(), "index")
    assert content() == ("intact", "intact")
    (place() / "data").write_text("damaged")
    artefacts._discard(place(), "index")
    assert not place().exists()
    assert hidden() == []


def test_a_damaged_artifact_that_appears_during_the_work_is_replaced() -> None:
    def appears() -> None:
        (place() / "data").mkdir(parents=True)

    get_or_build("index", SPEC, writes("mine", appears))
    assert content() == ("mine", "mine")
    assert hidden() == []


def test_a_folder_that_the_builder_deleted_is_a_fault() -> None:
    """If it was made again, it holds only a part of the files."""
    with pytest.raises(HarnessError, match=r"staged: deleted while it was made"):
        get_or_build("index", SPEC, writes("x", lambda: shutil.rmtree(next(place().parent.glob(".*.staged")))))
    assert hidden() == []


# ---- waiting ----------------------------------------------------------------------------------------------------


def test_an_artifact_that_another_process_makes_is_busy_for_who_does_not_wait() -> None:
    with holding(store_root() / "index", key(SPEC)) as process, without_waiting():
        with pytest.raises(ArtefactBusy) as caught:
            get_or_build("index", SPEC, writes("mine"))
        assert (caught.value.kind, caught.value.key, caught.value.process) == ("index", key(SPEC), process.pid)
        assert str(caught.value) == (
            f"index {key(SPEC)[:12]} is being made by {caught.value.machine}, process {process.pid}"
        )
        again = pickle.loads(pickle.dumps(caught.value))  # noqa: S301
        assert (str(again), again.key) == (str(caught.value), key(SPEC))
        assert isinstance(again, HarnessError)
        get_or_build("index", {"a": 2}, writes("another"))
    with without_waiting():  # its maker was killed
        assert get_or_build("index", SPEC, writes("mine")) == place()
    assert content() == ("mine", "mine")
    assert hidden() == []


# ---- lists and garbage collection -------------------------------------------------------------------------------


def test_what_is_being_made_and_what_it_reads_are_kept() -> None:
    read = get_or_build("index", {"read": "before"}, writes("1"))
    old = get_or_build("index", {"read": "never"}, writes("2"))
    artefacts._USED.pop(f"index/{old.name}")

    def during() -> None:
        within = get_or_build("index", {"read": "within"}, writes("3"))
        ((kind, name, holder),) = being_made(store_root())
        assert (kind, name, holder.process, holder.what) == ("index", key(SPEC), os.getpid(), "makes index")
        assert holder.uses == (f"index/{read.name}", f"index/{within.name}")
        assert [gone.path for gone in collect(0)] == [old]
        assert len([name for name in hidden() if name.endswith(".staged")]) == 1

    get_or_build("index", SPEC, writes("mine", during))
    assert content() == ("mine", "mine")
    assert {gone.path for gone in collect(0)} == {read, place(), store_root() / "index" / key({"read": "within"})}
    assert list((store_root() / "index").iterdir()) == []


def test_what_is_collected_is_moved_away_first_so_that_nobody_finds_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    made = get_or_build("index", SPEC, writes("1"))
    deleted: list[Path] = []
    rmtree = shutil.rmtree

    def watched(path: Path, ignore_errors: bool) -> None:
        deleted.append(path)
        rmtree(path, ignore_errors)

    monkeypatch.setattr(shutil, "rmtree", watched)
    assert [gone.path for gone in collect(0)] == [made]
    assert {path.suffix for path in deleted} == {".staged"}
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
