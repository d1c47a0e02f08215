from __future__ import annotations

import hashlib
import itertools
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import settings

pytest.register_assert_rewrite("browser_tools", "translation_models")

# The models of the tests are too small for several threads, which wait for each other when other tests run beside them.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Compiling ranx takes two minutes, and interpreting it a second.
os.environ.setdefault("NUMBA_DISABLE_JIT", "1")

# No deadlines: a busy machine must not fail a property. `make test-all` takes the profile `ci`.
settings.register_profile("dev", deadline=None, max_examples=25)
settings.register_profile("ci", deadline=None, max_examples=50)
settings.register_profile("fuzz", deadline=None, max_examples=2000)
settings.load_profile("dev")


PART = 10  # `--heavy part` runs one in so many tests that are marked `heavy`
DRAWN_BY = pytest.StashKey[str]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the option that decides which heavy tests run."""
    parser.addoption(
        "--heavy", choices=("all", "part"), default="all", help="all heavy tests, or those that the commit draws"
    )


def _commit() -> str:
    """Returns the commit that is tested; without git or a repository, as in an sdist, the version."""
    with suppress(OSError):
        found = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=Path(__file__).parent, capture_output=True, check=False
        )
        if found.returncode == 0:
            return f"commit {found.stdout.decode().strip()[:12]}"
    from harness.version import __version__

    return f"version {__version__}"


def drawn(test: str, commit: str) -> bool:
    """Returns whether a commit draws a heavy test; each commit draws others, and the same ones again and again."""
    return int(hashlib.sha256(f"{commit} {test}".encode()).hexdigest(), 16) % PART == 0


def pytest_configure(config: pytest.Config) -> None:
    """Reads the commit once: all processes of xdist must draw the same tests, also if somebody commits meanwhile."""
    if config.getoption("--heavy") == "part":
        given: dict[str, str] = getattr(config, "workerinput", {})
        config.stash[DRAWN_BY] = given["commit"] if "commit" in given else _commit()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:  # noqa: ANN401  (xdist's)
    """Tells a process of xdist the commit."""
    if DRAWN_BY in node.config.stash:
        node.workerinput["commit"] = node.config.stash[DRAWN_BY]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out the heavy tests that the commit does not draw."""
    if DRAWN_BY not in config.stash:
        return
    commit = config.stash[DRAWN_BY]
    left_out = [item for item in items if item.get_closest_marker("heavy") and not drawn(item.nodeid, commit)]
    gone = set(left_out)
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in gone]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says which heavy tests ran, and prints a line for each missing resource with the number of tests that need it."""
    if commit := terminalreporter.config.stash.get(DRAWN_BY, None):
        terminalreporter.write_line(f"heavy tests: one in {PART}, drawn by {commit}; all of them: make test-heavy")
    skipped: dict[str, list[str]] = {}
    for report in terminalreporter.stats.get("skipped", []):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        reason = reason.removeprefix("Skipped: ")
        skipped.setdefault(reason.rpartition(": ")[2], []).append(reason)
    if skipped:
        terminalreporter.section("skipped", sep="-")
    for reasons in sorted(skipped.values(), key=len, reverse=True):
        terminalreporter.write_line(f"{len(reasons):4d} tests  {reasons[0]}")


@pytest.fixture(scope="session")
def mirror() -> Path:
    """The folder of local copies; without it the test is skipped."""
    named = os.environ.get("HARNESS_MIRROR")
    if not named or not Path(named).is_dir():
        pytest.skip("no mirror: set HARNESS_MIRROR")
    return Path(named)


@pytest.fixture(scope="session")
def pdflatex() -> str:
    """The program, with the packages that reports use; without them the test is skipped."""
    program = shutil.which("pdflatex")
    if program is None or shutil.which("kpsewhich") is None:
        pytest.skip("pdflatex is not installed: apt-get install texlive-latex-recommended texlive-fonts-recommended")
    for style in ("amssymb", "array", "booktabs", "geometry", "graphicx", "longtable"):
        found = subprocess.run(["kpsewhich", f"{style}.sty"], capture_output=True, check=False)
        if not found.stdout.strip():
            pytest.skip(f"the LaTeX package {style} is not installed: apt-get install texlive-latex-recommended")
    return program


@pytest.fixture(scope="session", autouse=True)
def _shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One cache for all tests on real data, so that an archive is unpacked once; gives the user's own."""
    from harness.io.files import cache_root

    user = cache_root().absolute()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HARNESS_CACHE", str(tmp_path_factory.mktemp("shared-cache")))
        yield user


@pytest.fixture
def fetched_model(_shared_cache: Path) -> Callable[[str], str]:
    """A function that lends a model of the user's cache to that of the test; without the model the test is skipped.

    Nothing else of the user's cache is seen, and nothing is written to it.
    """
    from harness.io.files import cache_root
    from harness.systems.dense import models

    def lend(name: str) -> str:
        for folder in ("pypi", f"store/{models.KIND}"):
            link = cache_root() / folder
            if (_shared_cache / folder).is_dir() and not link.exists():
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(_shared_cache / folder)
        if lines := models.missing(name):
            pytest.skip(lines[0])
        return name

    return lend


_numbers = itertools.count()


@pytest.fixture(autouse=True)
def _own_cache(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every other test has a cache of its own, and no configuration of the user's.

    The folder is made by who writes to it first; `mktemp` would look through thousands of others for a free number.
    """
    monkeypatch.delenv("HARNESS_CONF", raising=False)
    monkeypatch.setenv("HARNESS_TIREX", "off")  # it takes half a second to start, once a run
    monkeypatch.setattr("harness.io.console._HIDDEN", [])  # `--quiet` is for the rest of a process
    if request.node.get_closest_marker("real") is None:
        monkeypatch.setenv("HARNESS_CACHE", str(tmp_path_factory.getbasetemp() / "caches" / str(next(_numbers))))


@pytest.fixture(autouse=True)
def _peak_of_the_process(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The peak of memory does not begin anew with each run, which takes longer than most runs of tests do."""
    if "cost" not in request.node.path.name:
        from harness.store import cost

        monkeypatch.setattr(cost, "_forget_peak", lambda: True)


@pytest.fixture
def conf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str, str], Path]:
    """A function that writes a configuration (group, name, YAML) into a user's folder, which the harness then reads."""
    folder = tmp_path / "user-conf"
    folder.mkdir()
    monkeypatch.setenv("HARNESS_CONF", str(folder))

    def write(group: str, name: str, text: str) -> Path:
        path = folder / group / f"{name}.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    return write


@pytest.fixture
def make_lab(conf: Callable[[str, str, str], Path], tmp_path: Path) -> Callable[..., Any]:
    """A function that creates a lab with the given settings on a collection of eight topics."""
    from lab_tools import collection, judgments, tiny_lab

    collection(conf, tmp_path / "data", judgments())
    return lambda **settings: tiny_lab(tmp_path / "lab", **settings)


@pytest.fixture
def importable(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[Path], None]]:
    """A function that makes the modules of a folder importable, until the test ends; then they are forgotten."""
    before = set(sys.modules)
    yield lambda folder: monkeypatch.syspath_prepend(str(folder))
    for name in set(sys.modules) - before:
        file = getattr(sys.modules[name], "__file__", None)
        if file is not None and Path(file).is_relative_to(tmp_path_factory.getbasetemp()):
            del sys.modules[name]


@pytest.fixture
def place(tmp_path: Path) -> Any:  # noqa: ANN401  (of the folder e2e)
    """An empty folder to run the program in: `e2e/tools.py`."""
    from tools import Place

    return Place(tmp_path)


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Progress from the first moment on, for every step: as if all work took long."""
    from harness.io import console

    for name in ("QUIET", "PAUSE"):
        monkeypatch.setattr(console, name, -1.0)
    monkeypatch.setattr(console, "_HIDDEN", [])


COMMIT = "ab" * 20
TINY = Path(__file__).parent / "data" / "tiny"  # T3 is the only topic labelled High; U3 has no relevant document
TINY_STATES = 'states: {"2": "blocked: times of another machine"}\n'


@pytest.fixture
def tiny(conf: Callable[[str, str, str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """A function that makes a small paper (its configuration, and its files in a mirror's archive); gives its key.

    It takes further lines of the paper's configuration, changed files of the archive (`cells.csv` is the cells), and
    a part of the configuration with what stands in its place.
    """
    from archive_tools import tarred

    def make(
        extra: str = "", files: Mapping[str, str] = MappingProxyType({}), change: tuple[str, str] = ("", "")
    ) -> str:
        paper = (TINY / "paper.yaml").read_text(encoding="utf-8")
        assert not change[0] or paper.count(change[0]) == 1
        paths = (path for path in (TINY / "archive").rglob("*") if path.is_file())
        contents = {path.relative_to(TINY / "archive").as_posix(): path.read_bytes() for path in paths}
        contents |= {name: text.encode() for name, text in files.items()}
        cells = contents.pop("cells.csv")
        archive = tmp_path / "mirror" / "github.com" / "someone" / "runs" / f"{COMMIT}.tar.xz"
        archive.parent.mkdir(parents=True)
        tarred(archive, {f"runs-{COMMIT}/{name}": content for name, content in contents.items()}, "w:xz")
        monkeypatch.setenv("HARNESS_MIRROR", str(tmp_path / "mirror"))
        monkeypatch.setenv("HARNESS_OFFLINE", "1")
        listed = [
            f"  {name}: {{sha256: {hashlib.sha256(content).hexdigest()}, size: {len(content)}}}\n"
            for name, content in contents.items()
        ]
        head = f"title: Tiny\nrepository: someone/runs\ncommit: {COMMIT}\nlicence: CC0\nfiles:\n"
        conf("source", "tiny", head + "".join(listed))
        conf("protocol", "tiny", "name: tiny\ntitle: Tiny protocol\nmeasures: [P@2, RR]\nprime: true\n")
        collection = (TINY / "collection.yaml").read_text(encoding="utf-8")
        for n in (1, 2):
            lines = contents[f"qrels{n}.txt"].decode().splitlines()
            topics = len({line.split()[0] for line in lines})
            conf("collection", f"tiny-{n}", collection.format(n=n, topics=topics, judgments=len(lines)))
        if "cells.csv" in files:
            assert TINY_STATES in paper
            paper = paper.replace(TINY_STATES, "")  # other cells may lack the table
        path = conf("paper", "tiny", (paper.replace(*change) if change[0] else paper) + extra)
        (path.parent / "cells").mkdir()
        (path.parent / "cells" / "tiny.csv").write_bytes(cells)
        return "tiny"

    return make
