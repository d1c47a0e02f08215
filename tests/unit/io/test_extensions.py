"""Entry points of other packages: found without importing anything, and their faults in one line each."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from extension_tools import install
from refusals import refusal as message

from harness.errors import HarnessError
from harness.io import config, extensions

SYSTEM = "title: Theirs\n_target_: theirs.Nothing\n"
BROKEN = "raise RuntimeError('imported')\n"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, importable: Callable[[Path], None]) -> Path:
    """A folder of installed packages, which nothing else is in."""
    folder = tmp_path / "site"
    folder.mkdir()
    importable(folder)
    monkeypatch.chdir(tmp_path)
    return folder


def test_configurations_of_a_package_stand_beside_ours(site: Path) -> None:
    files = {"theirs/__init__.py": BROKEN, "theirs/conf/system/theirs.yaml": SYSTEM}
    install(site, "theirs", {"conf": {"theirs": "theirs:conf"}}, files)
    assert config.folders() == (config.folders()[0], site / "theirs" / "conf")
    assert config.names("system")["theirs"] == site / "theirs" / "conf" / "system" / "theirs.yaml"
    assert config.load("system", "theirs")[0]["title"] == "Theirs"
    assert "theirs" not in sys.modules


@pytest.mark.parametrize(
    "value", ["theirs", "theirs.inner", "theirs.inner:more", "theirs:inner/more", "theirs:inner.more"]
)
def test_a_folder_is_a_package_or_below_one(site: Path, value: str) -> None:
    install(site, "theirs", {"conf": {"x": value}}, {"theirs/__init__.py": BROKEN, "theirs/inner/__init__.py": BROKEN})
    (site / "theirs" / "inner" / "more").mkdir()
    (found,) = extensions.extensions("conf")
    assert extensions.folder(found) == site / Path(*value.replace(":", "/").replace(".", "/").split("/"))
    assert "theirs" not in sys.modules


@pytest.mark.parametrize("value", ["theirs:absent", "nowhere:conf", "theirs.module", "json:conf", "__main__"])
def test_a_folder_that_is_not_there(site: Path, value: str) -> None:
    install(site, "theirs", {"conf": {"x": value}}, {"theirs/__init__.py": "", "theirs/module.py": ""})
    where = "theirs 0.1: entry point mathir_harness.conf: x"
    fault = f"{where}: {value!r} is not a folder of an installed package; install it again"
    assert message(config.folders) == fault
    assert message(lambda: config.names("system")) == fault


@pytest.mark.parametrize("value", ["theirs:../conf", "theirs:/conf", "a b", "theirs:"])
def test_what_names_no_folder(site: Path, value: str) -> None:
    install(site, "theirs", {"conf": {"x": value}}, {"theirs/__init__.py": ""})
    assert message(config.folders) == (
        f"theirs 0.1: entry point mathir_harness.conf: x: is {value!r}, expected a package, or 'package:folder'"
    )


def test_names_that_two_have(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"{}/__init__.py": "", "{}/conf/system/same.yaml": SYSTEM, "{}/conf/protocol/{}.yaml": "name: x\n"}
    for name in ("one", "two"):
        named = {path.replace("{}", name): text for path, text in files.items()}
        install(site, name, {"conf": {name: f"{name}:conf"}}, named)
    path = site / "two" / "conf" / "system" / "same.yaml"
    fault = f"{path}: two 0.1: one 0.1 has a system of this name already; uninstall one of the two"
    assert message(lambda: config.names("system")) == fault
    assert message(lambda: config.load("system", "bm25")) == fault
    assert {"one", "two", "trec_eval"} <= config.names("protocol").keys()  # other groups have no fault

    mine = tmp_path / "conf" / "protocol" / "one.yaml"
    mine.parent.mkdir(parents=True)
    mine.write_text("name: one\n")
    fault = f"{mine}: one 0.1 has a protocol of this name already; choose another file name"
    assert message(lambda: config.names("protocol")) == fault

    mine.unlink()
    theirs = site / "two" / "conf" / "protocol" / "trec_eval.yaml"
    theirs.write_text("name: trec_eval\n")
    fault = f"{theirs}: two 0.1: the harness has a protocol of this name already; uninstall one of the two"
    assert message(lambda: config.names("protocol")) == fault


def test_a_package_that_one_works_in_is_read_once(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"theirs/__init__.py": "", "theirs/conf/system/theirs.yaml": SYSTEM}
    install(site, "theirs", {"conf": {"theirs": "theirs:conf"}}, files)
    monkeypatch.chdir(site / "theirs")
    assert config.folders() == (config.folders()[0], site / "theirs" / "conf")
    assert "theirs" in config.names("system")


def test_a_package_that_comes_and_goes_in_a_running_process(site: Path) -> None:
    assert extensions.extensions("commands") == ()
    os.utime(site, (0, 0))
    install(site, "theirs", {"commands": {"b": "theirs:b", "a": "theirs:a"}, "conf": {"c": "theirs"}})
    found = extensions.extensions("commands")
    assert [(entry.name, entry.value, entry.distribution) for entry in found] == [
        ("a", "theirs:a", "theirs 0.1"),
        ("b", "theirs:b", "theirs 0.1"),
    ]
    os.utime(site, (0, 0))
    shutil.rmtree(site / "theirs-0.1.dist-info")
    assert extensions.extensions("commands") == ()


def test_what_is_loaded(site: Path) -> None:
    install(
        site, "theirs", {}, {"theirs_load/__init__.py": "", "theirs_load/inner.py": "import os\nvalue = [os.sep]\n"}
    )
    assert extensions.load("theirs_load.inner:value", "x") == ["/"]
    assert extensions.load("theirs_load.inner", "x").value == ["/"]


@pytest.mark.parametrize(
    ("name", "text", "fault"),
    [
        ("theirs_a:f", "", "x: theirs_a:f: theirs_a has no 'f'"),
        ("theirs_b.inner:f", "", "x: theirs_b.inner:f: module 'theirs_b.inner' is not installed"),
        ("theirs_c:f", "import theirs_absent\n", "x: theirs_c:f: module 'theirs_absent' is not installed"),
        ("theirs_d:f", "\nraise ValueError('no\\nluck')\n", "x: theirs_d:f: ValueError: no luck (PATH, line 2)"),
        ("theirs_e:f", "a = 1\ndef (:\n", "x: theirs_e:f: SyntaxError: invalid syntax (PATH, line 2)"),
        (
            "theirs_f:f",
            "import json\njson.loads('[')\n",
            "x: theirs_f:f: json.decoder.JSONDecodeError: Expecting value: line 1 column 2 (char 1) (PATH, line 2)",
        ),
    ],
)
def test_what_cannot_be_loaded(site: Path, name: str, text: str, fault: str) -> None:
    path = site / name.partition(":")[0].partition(".")[0] / "__init__.py"
    install(site, "theirs", {}, {str(path): text})
    assert message(lambda: extensions.load(name, f"x: {name}")) == fault.replace("PATH", str(path))


def test_errors_of_others_become_one_line_and_ours_stay() -> None:
    def fails(error: Exception) -> None:
        with extensions.guarded("what", (KeyError,)):
            raise error

    cause = ValueError("no")
    with pytest.raises(HarnessError) as caught:
        fails(cause)
    assert caught.value.lines == (f"what: ValueError: no ({__file__}, line {fails.__code__.co_firstlineno + 2})",)
    assert caught.value.__cause__ is cause
    assert message(lambda: fails(HarnessError("f:1: wrong"))) == "f:1: wrong"
    with pytest.raises(KeyError):
        fails(KeyError("left"))


def test_the_code_of_others_does_not_end_the_program() -> None:
    with pytest.raises(HarnessError, match="a reader: SystemExit: 3"), extensions.guarded("a reader"):
        sys.exit(3)
