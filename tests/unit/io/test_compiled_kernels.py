"""The library of compiled kernels: when it is used, and what it takes."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from harness.io import kernels

NAME = "harness_best"
compiled = pytest.mark.skipif(kernels.kernel(NAME) is None, reason=f"kernels: {kernels.state()[0]}")


@pytest.fixture
def fresh() -> Iterator[None]:
    kernels._library.cache_clear()
    yield
    kernels._library.cache_clear()


@compiled
def test_a_variable_turns_them_off(monkeypatch: pytest.MonkeyPatch) -> None:
    assert kernels.state() == ("compiled", "")
    monkeypatch.setenv(kernels.VARIABLE, "off")
    assert kernels.kernel(NAME) is None
    assert kernels.state() == ("not used", "unset HARNESS_KERNELS")


def test_no_library(fresh: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "LIBRARY", tmp_path / "none.so")
    assert kernels.kernel(NAME) is None
    assert kernels.state()[0] == "not compiled"
    (tmp_path / "none.so").write_bytes(b"not a library")
    kernels._library.cache_clear()
    assert kernels.state()[0] == "not compiled"


@compiled
def test_a_library_of_other_sources(fresh: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "other.c").write_text("int other;")
    monkeypatch.setattr(kernels, "ROOT", tmp_path)
    assert kernels.kernel(NAME) is None
    assert kernels.state() == ("compiled from other sources", "install mathir-harness again")


@compiled
def test_arrays_must_be_contiguous() -> None:
    call = kernels.kernel(NAME)
    assert call is not None
    with pytest.raises(ValueError, match="contiguous"):
        call(np.zeros((4, 4))[:, 1])


@compiled
@pytest.mark.parametrize("number", [2**63, -(2**63) - 1])
def test_whole_numbers_must_fit(number: int) -> None:
    call = kernels.kernel(NAME)
    assert call is not None
    with pytest.raises(OverflowError, match="does not fit 64 bits"):
        call(number)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_the_sources_compile_without_a_warning(tmp_path: Path) -> None:
    root = kernels.ROOT
    for source in sorted(root.rglob("*.c")):
        command = ["cc", "-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", '-DSOURCES=""', "-c", "-o"]
        done = subprocess.run([*command, tmp_path / "a.o", source], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_each_source_is_named_by_a_module_beside_it() -> None:
    """So that a change of it changes the fingerprint of what it makes."""
    for source in sorted(kernels.ROOT.rglob("*.c")):
        if source.with_suffix(".py") == Path(kernels.__file__):
            continue
        assert any(source.name in path.read_text() for path in source.parent.glob("*.py")), source


@compiled
def test_nothing_is_loaded_before_it_is_used() -> None:
    code = "import harness.cli.main, sys; print('ctypes' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
