"""Change the program at many places, one at a time, and count the changes that the tests notice.

    python -m tests.mutants --places 200 --seed 1            # with the tests of `make test`
    python -m tests.mutants --places 200 --seed 1 --slow     # with those marked `slow`, too

The tests of a change are those in the folder of `tests/unit` that stands where the module stands, and those of
`tests/oracle` that import its folder. A change that no test notices is listed: either a test is missing, or the change
makes no difference to what anybody sees.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from .changes import Change, change, places

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("scoring", "data", "store", "labs", "systems/fusion")
PATIENCE = 600  # seconds for the tests of a change; one that makes a loop endless is noticed by it


@dataclass(frozen=True)
class Chosen:
    """A change and the module it is made in, relative to the repository."""

    module: str
    change: Change


def choose(count: int, seed: int, folders: tuple[str, ...] = FOLDERS) -> list[Chosen]:
    """Draws changes by seed, each of the folders' places with the same chance."""
    sources = {
        str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
        for folder in folders
        for path in sorted((ROOT / "harness" / folder).glob("*.py"))
    }
    everywhere = [(module, *place) for module, source in sources.items() for place in places(source)]
    drawn = sorted(random.Random(seed).sample(everywhere, min(count, len(everywhere))))
    return [Chosen(module, change(sources[module], at, variant)) for module, at, variant in drawn]


def tests_of(module: str) -> list[str]:
    """Lists the test files of a module, those that name it first."""
    folder = str(Path(module).parent).removeprefix("harness/")
    package = f"harness.{folder.replace('/', '.')}"
    oracles = [path for path in (ROOT / "tests/oracle").glob("test_*.py") if package in path.read_text("utf-8")]
    files = [*sorted((ROOT / "tests/unit" / folder).rglob("test_*.py")), *sorted(oracles)]
    name = Path(module).stem
    files.sort(key=lambda path: ("oracle" in path.parts, name not in path.stem, name not in path.read_text("utf-8")))
    return [str(path.relative_to(ROOT)) for path in files]


def notice(tree: Path, chosen: Chosen, slow: bool) -> str:
    """Runs the tests on a copy of the repository with one change in it; gives what noticed it, or "" if nothing did."""
    path = tree / chosen.module
    whole = path.read_text(encoding="utf-8")
    path.write_text(chosen.change.text, encoding="utf-8")
    report = tree / "noticed"
    report.unlink(missing_ok=True)
    try:
        child = os.fork()
        if child == 0:
            _test(tree, tests_of(chosen.module), slow, report)
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                code = os.waitstatus_to_exitcode(status)
                first = report.read_text(encoding="utf-8") if report.exists() else ""
                return first or ("" if code == 0 else f"exit code {code}")
            time.sleep(0.05)
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return f"still running after {PATIENCE} s"
    finally:
        path.write_text(whole, encoding="utf-8")


def _test(tree: Path, files: list[str], slow: bool, report: Path) -> None:
    """Becomes a test process, and never returns."""
    code = 1
    try:
        os.setpgid(0, 0)
        os.chdir(tree)
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(null, stream)
        os.environ["PYTHONPATH"] = str(tree)
        sys.path[0] = str(tree)
        import pytest

        class First:
            def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
                if report.failed:
                    noticed.write_text(report.nodeid, encoding="utf-8")

        noticed = report
        chosen = "not heavy" if slow else "not slow and not heavy"
        options = ["-x", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", chosen]
        for file in files:  # one by one: collecting all takes longer than the tests that notice most changes
            code = int(pytest.main([*options, file], plugins=[First()]))
            if code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
                return
        code = 0
    finally:
        os._exit(code)


def main() -> int:
    """Prints each change with the test that noticed it, and the share of those noticed; ends with 0."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__.partition("\n")[0])
    parser.add_argument("--places", type=int, default=200, help="how many changes")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--slow", action="store_true", help="also run the tests marked slow")
    parser.add_argument("--only", nargs="*", default=FOLDERS, metavar="FOLDER", help="folders of harness/")
    asked = parser.parse_args()
    import hypothesis  # noqa: F401  (imported once, before the forks)
    import numpy as np  # noqa: F401
    import scipy.stats  # noqa: F401

    counts: Counter[tuple[str, bool]] = Counter()
    with tempfile.TemporaryDirectory() as scratch:
        tree = Path(scratch) / "tree"
        _copy(tree)
        drawn = choose(asked.places, asked.seed, tuple(asked.only))
        for module in {Path(chosen.module).parent: chosen.module for chosen in drawn}.values():
            same = Chosen(module, Change(0, "", (ROOT / module).read_text(encoding="utf-8")))
            if failed := notice(tree, same, asked.slow):
                sys.exit(f"{module}: without any change, {failed} fails; mend it first")
        for chosen in drawn:
            noticed = notice(tree, chosen, asked.slow)
            counts[str(Path(chosen.module).parent), bool(noticed)] += 1
            where = f"{chosen.module}:{chosen.change.line}"
            print(f"{'noticed' if noticed else 'MISSED '} {where}  {chosen.change.says}  [{noticed}]", flush=True)
    for folder in [*sorted({folder for folder, _ in counts}), ""]:
        found = sum(count for (where, hit), count in counts.items() if hit and where.startswith(folder))
        total = sum(count for (where, _), count in counts.items() if where.startswith(folder))
        print(f"{folder or 'in all'}: {found} of {total} noticed")
    return 0


def _copy(tree: Path) -> None:
    skipped = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".mypy_cache", ".ruff_cache", "build", "dist")
    shutil.copytree(ROOT, tree, ignore=skipped, symlinks=True)
    with suppress(OSError):
        (tree / ".venv").symlink_to(ROOT / ".venv")
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    sys.dont_write_bytecode = True


if __name__ == "__main__":
    sys.exit(main())
