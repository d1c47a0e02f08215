"""Long maps in shards: who makes them, what is kept after faults, what is deleted."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pytest
from refusals import refuses

from harness.errors import HarnessError
from harness.io.locks import held
from harness.store import artefacts, shards
from harness.store.shards import Processes, Shard, ShardTask, joined, mapped, parts, spread_by

ITEMS = [f"item {n}" for n in range(23)]
SPEC = {"of": "words"}


@dataclass(frozen=True)
class Upper:
    """Writes items in capitals; kills its process when it has one of `deadly`, `times` times."""

    log: Path
    deadly: str = ""
    times: int = 1000

    def __call__(self, items: Sequence[str]) -> bytes:
        with self.log.open("a") as stream:
            stream.write(f"{os.getpid()} {items[0]}\n")
        if self.deadly in items:
            tried = self.log.with_name("tried")
            done = len(tried.read_text()) if tried.exists() else 0
            tried.write_text("x" * (done + 1))
            if done < self.times:
                os.kill(os.getpid(), signal.SIGKILL)
        return "".join(f"{item.upper()}\n" for item in items).encode()


def _missing() -> None:
    raise HarnessError("the model is missing")


def _lost(item: str) -> bytes:
    return f"lost {item}\n".encode()


def _join(task: ShardTask[str], size: int, workers: int, folder: Path, of: str) -> list[Path]:
    files = mapped(replace(task, of=of), parts(ITEMS, size), "items", total=len(ITEMS), workers=workers)
    (folder / "all").write_bytes(b"".join(file.read_bytes() for file in files))
    return files


def _whole(task: ShardTask[str], size: int = 5, workers: int = 1) -> bytes:
    found = joined("words", SPEC, partial(_join, task, size, workers))
    return (found / "all").read_bytes()


def _made() -> list[Path]:
    return sorted(artefacts.store_root().glob("words-shard/[!.]*"))


def _calls(log: Path) -> list[str]:
    return [line.partition(" ")[2] for line in log.read_text().splitlines()]


def _backwards(task: ShardTask[str], missing: Iterator[Shard]) -> Iterator[int]:
    """An engine that makes the last shard first."""
    yield from (shards.make(task, shard) for shard in reversed(list(missing)))


EXPECTED = "".join(f"{item.upper()}\n" for item in ITEMS).encode()


@pytest.mark.parametrize("size", [1, 5, 23, 100])
def test_any_size_of_shards_gives_the_same_bytes(tmp_path: Path, size: int) -> None:
    assert _whole(ShardTask("", Upper(tmp_path / "log")), size) == EXPECTED
    assert len(_calls(tmp_path / "log")) == -(-23 // size)
    assert _made() == []  # deleted when they are joined


def test_the_locks_of_killed_processes_go_with_the_shards(tmp_path: Path) -> None:
    def work(items: Sequence[str]) -> bytes:
        (artefacts.store_root() / "words-shard" / f".{_made()[-1].name}.lock").touch() if _made() else None
        return Upper(tmp_path / "log")(items)

    assert _whole(ShardTask("", work)) == EXPECTED
    assert list((artefacts.store_root() / "words-shard").iterdir()) == []


@pytest.mark.slow
def test_processes_and_engines_give_the_same_bytes(tmp_path: Path) -> None:
    for engine in (None, Processes(2), _backwards):
        task = ShardTask("", Upper(tmp_path / "log"))
        if engine is None:
            assert _whole(task, workers=2) == EXPECTED
        else:
            with spread_by(engine):
                assert _whole(task) == EXPECTED
        for artefact in artefacts.artefacts():
            artefacts.discard(artefact.path)
    mine = [line for line in (tmp_path / "log").read_text().splitlines() if line.startswith(f"{os.getpid()} ")]
    assert [line.partition(" ")[2] for line in mine] == [f"item {n}" for n in (20, 15, 10, 5, 0)]


def test_finished_shards_are_kept_after_a_fault(tmp_path: Path) -> None:
    class FullError(Exception):
        pass

    def work(items: Sequence[str]) -> bytes:
        if "item 12" in items and not (tmp_path / "space").exists():
            raise FullError
        return Upper(tmp_path / "log")(items)

    task = ShardTask("", work)
    with pytest.raises(FullError):
        _whole(task)
    assert _calls(tmp_path / "log") == ["item 0", "item 5"]
    assert len(_made()) == 2
    (tmp_path / "space").touch()
    assert _whole(task) == EXPECTED
    assert _calls(tmp_path / "log") == [f"item {n}" for n in (0, 5, 10, 15, 20)]


def test_many_shards_are_in_several_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "_TOGETHER", 3)
    task = ShardTask("words/key", Upper(tmp_path / "log"))
    files = mapped(task, parts(ITEMS, 2), "items")
    assert [file.parent.parent.name for file in files] == [
        *["words-shard"] * 3, *["words-shard-1"] * 3, *["words-shard-2"] * 3, *["words-shard-3"] * 3
    ]  # fmt: skip
    assert mapped(task, parts(ITEMS, 2), "items") == files
    assert len(_calls(tmp_path / "log")) == 12
    assert len(artefacts.collect(0)) == 12


def test_other_items_are_other_shards(tmp_path: Path) -> None:
    task = ShardTask("words/key", Upper(tmp_path / "log"))
    first = mapped(task, [("a", "b"), ("c",)], "items")
    again = mapped(task, [("a", "b"), ("d",)], "items")
    assert first[0] == again[0]
    assert first[1] != again[1]
    assert _calls(tmp_path / "log") == ["a", "c", "d"]
    # One shard of two texts is not two texts of one shard, and order counts.
    assert len({*mapped(task, [("a, b",)], "items"), *mapped(task, [("a", "b")], "items")}) == 2
    assert mapped(task, [("b", "a")], "items")[0].read_bytes() == b"B\nA\n"
    # The same items of another map.
    assert mapped(replace(task, of="words/other"), [("a", "b")], "items")[0] != first[0]


def test_a_damaged_shard_is_made_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task = ShardTask("words/key", Upper(tmp_path / "log"))
    files = mapped(task, parts(ITEMS, 5), "items")
    whole = [file.read_bytes() for file in files]
    files[2].write_bytes(whole[2][:-2] + b"x\n")
    assert [file.read_bytes() for file in mapped(task, parts(ITEMS, 5), "items")] == whole
    assert _calls(tmp_path / "log")[5:] == ["item 10"]
    assert "differs from what was written; rebuilding it" in capsys.readouterr().err


@pytest.mark.slow
def test_a_lost_process_costs_its_shards_only(tmp_path: Path) -> None:
    task = ShardTask("", Upper(tmp_path / "log", "item 12", times=1))
    assert _whole(task, workers=2) == EXPECTED
    calls = _calls(tmp_path / "log")
    # At most the two that ran at that time were begun again.
    assert set(calls) == {f"item {n}" for n in (0, 5, 10, 15, 20)}
    assert 6 <= len(calls) <= 7


@pytest.mark.slow
def test_an_item_that_kills_its_process(tmp_path: Path) -> None:
    task = ShardTask("", Upper(tmp_path / "log", "item 12"))
    refuses(r"^words-shard 2: its process was killed twice, or ran out of memory", lambda: _whole(task, workers=2))
    found = _whole(replace(task, crashed=_lost), workers=2)
    assert found == EXPECTED.replace(b"ITEM 12\n", b"lost item 12\n")


@pytest.mark.parametrize("workers", [1, 2])
def test_a_check_that_fails_is_one_error(tmp_path: Path, workers: int) -> None:
    task = ShardTask("", Upper(tmp_path / "log"), check=_missing)
    refuses(r"^the model is missing$", lambda: _whole(task, workers=workers))
    assert not (tmp_path / "log").exists()
    assert _made() == []


def _collected(days: float) -> int:
    return len([gone for gone in artefacts.collect(days) if gone.kind == "words-shard"])


@pytest.mark.parametrize(("state", "days", "deleted"), [
    ("unfinished", 30, 0), ("unfinished", 0, 2), ("being made", 0, 0), ("joined", 30, 2),
])  # fmt: skip
def test_garbage_collection(tmp_path: Path, state: str, days: float, deleted: int) -> None:
    """Shards go with age like other artifacts, at once when they are joined, and never while they are needed."""
    key = artefacts.key(SPEC)
    files = mapped(ShardTask(f"words/{key}", Upper(tmp_path / "log")), parts(ITEMS, 12), "items")
    if state == "joined":  # by a process that was killed before it deleted them
        artefacts.get_or_build("words", SPEC, lambda folder: (folder / "all").touch())
    if state == "being made":
        with held(artefacts.store_root() / "words", key, "makes words"):
            assert _collected(days) == deleted
    else:
        time.sleep(0.01)
        assert _collected(days) == deleted
    assert [file.exists() for file in files] == [not deleted] * 2


def test_shards_are_no_cost_of_a_run(tmp_path: Path) -> None:
    from harness.store.cost import measuring

    with measuring() as meter:
        _whole(ShardTask("", Upper(tmp_path / "log")))
    assert [Path(name).parent.name for name in meter.artefacts] == ["words"]
