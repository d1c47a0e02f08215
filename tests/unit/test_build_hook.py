"""The hook that compiles the kernels when a wheel is built: what it leaves alone, and when it makes a pure wheel."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("hatchling", reason="hatchling is not installed: pip install -e '.[test]'")


@pytest.fixture(scope="module")
def hook() -> ModuleType:
    spec = importlib.util.spec_from_file_location("hatch_build", Path(__file__).parents[2] / "hatch_build.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "harness").mkdir()
    (tmp_path / "harness/a.c").write_text("int one(void) { return sizeof SOURCES; }")
    return tmp_path


def built(hook: ModuleType, source: Path, version: str) -> dict[str, Any]:
    data: dict[str, Any] = {"artifacts": []}
    hook.Kernels(str(source), {}, None, None, str(source), "wheel").initialize(version, data)
    return data


@pytest.mark.parametrize(("version", "stays"), [("standard", True), ("editable", False)])
def test_a_pure_wheel_leaves_the_library_of_the_checkout(
    hook: ModuleType, source: Path, monkeypatch: pytest.MonkeyPatch, version: str, stays: bool
) -> None:
    monkeypatch.setenv("HARNESS_PURE", "1")
    library = source / hook.LIBRARY
    library.write_bytes(b"earlier")
    assert built(hook, source, version) == {"artifacts": []}
    assert library.exists() == stays


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
@pytest.mark.parametrize("first", ["manylinux_2_36_x86_64", "musllinux_1_2_x86_64", "linux_x86_64"])
def test_the_wheel_is_of_this_platform(
    hook: ModuleType, source: Path, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    """Versions of `packaging` differ in which name of the platform comes first."""
    monkeypatch.setattr("packaging.tags.platform_tags", lambda: iter([first, "linux_x86_64"]))
    data = built(hook, source, "standard")
    assert data == {"artifacts": [hook.LIBRARY], "pure_python": False, "tag": "py3-none-linux_x86_64"}
    assert (source / hook.LIBRARY).exists()


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_a_folder_that_cannot_be_written(
    hook: ModuleType, source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not hook.compiled(source, tmp_path / "none" / "_kernels.so")
    assert "kernels were not compiled: [Errno 2]" in capsys.readouterr().err
