from __future__ import annotations

import errno
import gzip
import hashlib
import os
import pickle
import stat
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refusal as message
from refusals import refuses

from harness.errors import (
    FormatError,
    HarnessError,
    InputFault,
    format_error,
    printable,
    printable_line,
    shortened,
    suggestion,
)
from harness.io.files import cache_root, read_bytes, sha256, sha256_file, write_all, write_atomic

TEXT = b"T1 Q0 d1 1 0.5 r\n" * 20


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# Reading


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    assert message(lambda: read_bytes(tmp_path / "absent")) == f"{tmp_path / 'absent'}: no such file"
    assert message(lambda: read_bytes(tmp_path)) == f"{tmp_path}: is a folder, expected a file"
    (tmp_path / "file").write_bytes(b"")
    inside = tmp_path / "file" / "x"
    assert message(lambda: read_bytes(inside)) == f"{inside}: cannot be read: Not a directory"
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    assert message(lambda: read_bytes(loop)) == f"{loop}: cannot be read: Too many levels of symbolic links"


# Writing


def test_a_file_is_written_with_its_folders(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "c.txt"
    write_atomic(path, "é\n")
    assert path.read_bytes() == "é\n".encode()
    write_atomic(path, b"\x00new")
    assert path.read_bytes() == b"\x00new"
    assert names(path.parent) == ["c.txt"]


def test_others_may_read_what_is_written(tmp_path: Path) -> None:
    mask = os.umask(0o022)
    try:
        write_atomic(tmp_path / "x", "")
        assert (tmp_path / "x").stat().st_mode & 0o777 == 0o644
        os.umask(0o077)
        write_atomic(tmp_path / "y", "")
        assert (tmp_path / "y").stat().st_mode & 0o777 == 0o600
    finally:
        os.umask(mask)


def test_a_write_that_fails_leaves_the_old_content_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x"
    write_atomic(path, "old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert message(lambda: write_atomic(path, "new")) == f"{path}: cannot be written: No space left on device"
    assert path.read_text() == "old"
    assert names(tmp_path) == ["x"]


def test_what_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    inside = tmp_path / "file" / "x"
    assert message(lambda: write_atomic(inside, "a")) == f"{inside}: cannot be written: File exists"
    deeper = inside / "y"
    assert message(lambda: write_atomic(deeper, "a")) == f"{deeper}: cannot be written: Not a directory"
    folder = tmp_path / "folder"
    assert message(lambda: write_atomic(folder, "a")) == f"{folder}: cannot be written: Is a directory"
    long = tmp_path / ("n" * 300)
    assert message(lambda: write_atomic(long, "a")) == f"{long}: cannot be written: File name too long"
    assert names(tmp_path) == ["file", "folder"]


# Checksums and places


def test_checksums(tmp_path: Path) -> None:
    assert sha256(b"abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    (tmp_path / "x").write_bytes(gzip.compress(TEXT, mtime=0))
    assert sha256_file(tmp_path / "x") == hashlib.sha256(gzip.compress(TEXT, mtime=0)).hexdigest()


def test_the_cache_lies_where_it_is_told_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_CACHE", "/a/b")
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    monkeypatch.setenv("HOME", "/home/somebody")
    assert cache_root() == Path("/a/b")
    monkeypatch.delenv("HARNESS_CACHE")
    assert cache_root() == Path("/x/mathir-harness")
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    assert cache_root() == Path("/home/somebody/.cache/mathir-harness")


# Errors


def test_problems_are_lines() -> None:
    assert str(InputFault("f", 3, "bad")) == "f:3: bad"
    assert str(InputFault("f", 0, "bad")) == "f: bad"
    error = FormatError([InputFault("f", 3, "bad"), InputFault("f", 0, "worse")])
    assert str(error) == "f:3: bad\nf: worse"
    assert [problem.line for problem in error.problems] == [3, 0]
    assert isinstance(error, HarnessError)
    assert str(format_error(Path("f"), 2, "bad")) == "f:2: bad"


NASTY = "a\nb\x1b[31mred\r\u202ereversed\u2028line\x00\udcff\t\x85\xa0e"
PLAIN = r"a\nb\x1b[31mred\r\u202ereversed\u2028line\x00\udcff\t\x85\xa0e"


def test_errors_are_printable_whatever_is_in_them() -> None:
    assert printable(NASTY) == PLAIN
    assert printable("é∑ αβ 漢字 x\\y") == "é∑ αβ 漢字 x\\y"
    assert str(HarnessError(f"{NASTY}: no such run")) == f"{PLAIN}: no such run"
    assert HarnessError("a\nb", "c").lines == (r"a\nb", "c")
    assert str(HarnessError("a\nb", "c")) == "a\\nb\nc"
    assert format_error(NASTY, 3, NASTY).lines == (f"{PLAIN}:3: {PLAIN}",)


@given(st.text())
def test_any_text_becomes_one_short_line(text: str) -> None:
    for line in (
        printable_line(text),
        printable_line(text * 300),
        *HarnessError(text).lines,
        str(InputFault(text, 1, text)),
    ):
        assert line.isprintable()
        assert line.splitlines() in ([line], [])
    assert len(printable_line(text * 300)) <= 500
    assert printable_line(text) == printable(text) or len(printable(text)) > 500


def test_the_middle_of_a_long_line_is_left_out() -> None:
    assert shortened("abc", 3) == "abc"
    assert shortened("abcdefghij", 7) == "abcd…ij"
    assert len(printable_line("x" * 501)) == 500
    assert printable_line("x" * 500) == "x" * 500
    problem = printable_line(str(InputFault("p" * 4000, 17, "r" * 10_000 + " is wrong")))
    assert len(problem) == 500
    assert problem.startswith("p" * 100)
    assert "p:17: rrr" in problem
    assert problem.endswith("rrr is wrong")


def test_errors_survive_pickling() -> None:
    """Those of another process, as a launcher of sweeps hands them on."""
    problems = (InputFault("f", 3, "bad"), InputFault("g", 0, "x"))
    both: tuple[HarnessError, ...] = (HarnessError("a\nb", "c"), FormatError(problems))
    for error in both:
        again = pickle.loads(pickle.dumps(error))  # noqa: S301  (our own)
        assert (type(again), str(again), again.lines) == (type(error), str(error), error.lines)
        assert getattr(again, "problems", problems) == problems


def test_a_long_list_of_names_is_cut() -> None:
    names = [f"name-{number:03}" for number in range(100)]
    said = suggestion("zzz", names)
    assert said.startswith("known: name-000, name-001, ")
    assert said.endswith(" and 64 more")
    assert said.count("name-") == 36
    assert suggestion("zzz", {None: 1, 2: 3, "a": 4}) == "known: 2, None, a"
    assert suggestion("zzz", ["a", "b", "a"]) == "known: a, b"
    assert suggestion("NAME", ["other", "Name"]) == "did you mean 'Name'?"
    assert suggestion("zzz", ["x" * 1000, "y"]) == f"known: {'x' * 1000} and 1 more"


@pytest.mark.parametrize(
    ("name", "known", "end"),
    [
        ("crossmth", ["crossmath", "mathlib4"], "did you mean 'crossmath'?"),
        ("x", ["b", "a"], "known: a, b"),
        ("x", [], "there is none"),
        ("", ["a"], "known: a"),
    ],
)
def test_suggestions(name: str, known: list[str], end: str) -> None:
    assert suggestion(name, known) == end
    assert suggestion(name, iter(known)) == end


@pytest.mark.parametrize("links", [True, False])
@pytest.mark.parametrize("error", [OSError(errno.EIO, "Input/output error"), KeyboardInterrupt()])
@pytest.mark.parametrize("at", [0, 1, 2, 3])
def test_an_error_between_the_replacements_leaves_all_files_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int, error: BaseException, links: bool
) -> None:
    old, new, link, last = (tmp_path / name for name in ("old", "new", "link", "last"))
    old.write_text("before")
    last.write_text("also before")
    link.symlink_to("old")
    inode, left = old.stat().st_ino, [at]
    replace = Path.replace

    def failing(self: Path, target: Path) -> Path:
        if ".staged" in self.name and left[0] == 0:
            left[0] = -1
            raise error
        left[0] -= 1
        return replace(self, target)

    def unlinkable(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    if not links:  # as on FAT
        monkeypatch.setattr(os, "link", unlinkable)
    with monkeypatch.context() as patched, pytest.raises((HarnessError, KeyboardInterrupt)) as raised:
        patched.setattr(Path, "replace", failing)
        write_all({old: "x", new: "x", link: "x", last: "x"})
    if isinstance(raised.value, HarnessError):
        named = (old, new, link, last)[at]
        assert raised.value.lines == (f"{named}: cannot be written: Input/output error",)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["last", "link", "old"]
    assert (old.read_text(), last.read_text(), link.readlink()) == ("before", "also before", Path("old"))
    assert not links or old.stat().st_ino == inode
    write_all({old: "x", new: "x", link: "x", last: "x"})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["last", "link", "new", "old"]
    assert {path.read_text() for path in tmp_path.iterdir()} == {"x"} and not link.is_symlink()


def test_a_folder_in_the_place_of_a_file_leaves_the_others_as_they_were(tmp_path: Path) -> None:
    (tmp_path / "first").write_text("before")
    (tmp_path / "taken").mkdir()
    with pytest.raises(HarnessError, match=r"taken: cannot be written: Is a directory"):
        write_all({tmp_path / "first": "x", tmp_path / "taken": "x"})
    assert (tmp_path / "first").read_text() == "before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first", "taken"]


def test_devices_and_pipes_are_not_replaced(tmp_path: Path) -> None:
    """As root, a file could take the name of /dev/null."""
    pipe, other = tmp_path / "pipe", tmp_path / "other"
    os.mkfifo(pipe)
    (tmp_path / "link").symlink_to(os.devnull)
    for path in (pipe, tmp_path / "link"):
        refuses(r"cannot be written: a device or pipe, expected a file", partial(write_all, {other: "x", path: "x"}))
        assert not other.exists()
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert (tmp_path / "link").is_symlink()
