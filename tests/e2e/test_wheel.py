"""The wheel, built from the files that git knows and installed elsewhere, needs no file of the repository."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest
from fresh_wheel import followed
from page_tools import explored
from tools import Place, table

from harness import __version__
from harness.io.files import data_root

ROOT = Path(__file__).resolve().parents[2]
DATA = ("conf", "topics", "qrels", "corpora", "runs/mini")
pytestmark = pytest.mark.slow


def execute(*command: str | Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the repository that git has or would take, and nothing else."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("not a git repository")
    pytest.importorskip("hatchling", reason="hatchling is not installed: pip install -e '.[test]'")
    target = tmp_path_factory.mktemp("clone")
    listed = execute("git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    for name in listed.split("\0"):
        if name and (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, target / name)
    return target


@pytest.fixture(scope="module")
def wheel(clone: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("dist")
    execute(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", target, clone)
    (built,) = target.iterdir()
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program in a fresh environment, which sees the libraries of this one but not the repository."""
    folder = tmp_path_factory.mktemp("elsewhere") / "venv"
    execute(sys.executable, "-m", "venv", "--without-pip", folder)
    python = folder / "bin" / "python"
    packages = Path(execute(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    # Folders named in a .pth file are searched, but the .pth files inside them (of editable installs) are not read.
    libraries = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    (packages / "libraries.pth").write_text("".join(f"{library}\n" for library in libraries))
    options = ("--no-deps", "--no-index", "--quiet", "--force-reinstall", "--disable-pip-version-check")
    execute(sys.executable, "-m", "pip", "--python", python, "install", *options, wheel)
    return folder / "bin" / "harness"


def test_what_the_wheel_holds(clone: Path, wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        metadata = Parser().parsestr(archive.read(f"mathir_harness-{__version__}.dist-info/METADATA").decode())
        for folder in DATA:
            for path in (path for path in (clone / folder).rglob("*") if path.is_file()):
                inside = f"harness/_data/{path.relative_to(clone)}"
                assert archive.read(inside) == path.read_bytes()
                names.remove(inside)
    package = {str(path.relative_to(clone)) for path in (clone / "harness").rglob("*.*") if path.suffix != ".so"}
    assert package <= names
    built = {name for name in names - package if ".dist-info/" not in name}
    if shutil.which("cc"):
        assert built == {"harness/_kernels.so"}
        assert "-py3-none-linux" in wheel.name or sys.platform != "linux"
    else:
        assert built == set()
    assert (metadata["Name"], metadata["Version"]) == ("mathir-harness", __version__)
    assert metadata["License-Expression"] == "Apache-2.0"
    heavy = ("torch", "numba", "pyserini", "pytrec")
    required = [line for line in metadata.get_all("Requires-Dist", []) if "extra ==" not in line]
    assert [line for line in required if line.startswith(heavy)] == []


def test_the_source_distribution_holds_the_repository(clone: Path, tmp_path: Path) -> None:
    """What the package, the tests and the site are made from."""
    execute(sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", tmp_path, clone)
    (built,) = tmp_path.iterdir()
    with tarfile.open(built) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    files = {name for name in execute("git", "-C", ROOT, "ls-files", "-z").split("\0") if (clone / name).is_file()}
    assert len(files) > 1000 and files - names == set()


@pytest.mark.heavy
def test_the_installed_program(installed: Path, tmp_path: Path) -> None:
    place = Place(tmp_path, installed)
    assert place.good("--version") == f"mathir-harness {__version__}\n"
    configuration = next(row for row in table(place.good("doctor")) if row[0] == "configuration")[1]
    assert Path(configuration).is_relative_to(installed.parents[1])
    if shutil.which("cc"):
        assert ["kernels", "compiled"] in table(place.good("doctor"))
    assert place.files() == {}

    printed = place.good("reproduce", "formats=[html,json]").splitlines()
    assert [line for line in printed if line.startswith("report: ")] == [
        f"report: reports/{name}/index.html" for name in ("mini-task1", "mini-task2", "mini-theorems")
    ]
    assert {path.name for path in place.here.iterdir()} == {"runs", "reports"}
    page = (place.here / "reports/mini-task1/index.html").read_text()
    for written in (page, explored(page)):
        assert str(ROOT) not in written
        assert str(data_root()) not in written


def test_the_installed_program_follows_the_readme(installed: Path, tmp_path: Path) -> None:
    """`python tests/tools/fresh_wheel.py` does the same in new environments of several Pythons."""
    number, wrong = followed(installed.parent, tmp_path)
    assert wrong == []
    assert number > 25
