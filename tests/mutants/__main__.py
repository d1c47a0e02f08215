"""Change the program at many places, one at a time, and count the changes that the tests notice.

    python -m tests.mutants --places 200 --seed 1            # with the tests of `make test`
    python -m tests.mutants --places 200 --seed 1 --slow     # with those marked `slow`, too

The tests of a change are those that call the changed function, of the files in the folder of `tests/unit` that stands
where the module stands and of those that import the module. What a file calls is recorded when it is run without a
change. A change that no test notices is listed: either a test is missing, or the change makes no difference to what
anybody sees.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FrameType

from .changes import Change, change, places

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("scoring", "data", "store", "labs", "systems/fusion")
PATIENCE = 300  # seconds for a file of tests; a change that makes a loop endless is noticed by it


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


def calls(tree: Path, file: str, slow: bool) -> set[str]:
    """Runs a test file without any change: "MODULE:LINE" of each function of the harness that it calls.

    A file that fails as it is notices nothing, and is named.
    """
    record = tree / "called"
    record.unlink(missing_ok=True)
    if failed := _run(tree, file, slow, record):
        print(f"left out {file}: without any change, {failed} fails", flush=True)
        return set()
    return set(record.read_text(encoding="utf-8").split())


def tests_of(module: str) -> list[str]:
    """Lists the test files that may call a module, those that bear its name first."""
    folder, name = str(Path(module).parent).removeprefix("harness/"), Path(module).stem
    package = f"harness.{folder.replace('/', '.')}"
    imported = re.compile(rf"{package}\.{name}\b|from {package} import .*\b{name}\b")
    files = [str(path) for kind in ("unit", "oracle") for path in sorted(Path("tests", kind).rglob("test_*.py"))]
    near = [file for file in files if file.startswith(f"tests/unit/{folder}/") or imported.search(_text(file))]
    return sorted(near, key=lambda file: name not in Path(file).stem)


@cache
def _text(file: str) -> str:
    return Path(file).read_text(encoding="utf-8")


def notice(tree: Path, chosen: Chosen, files: list[str], slow: bool) -> str:
    """Runs the tests on a copy of the repository with one change in it; gives what noticed it, or "" if nothing did."""
    path = tree / chosen.module
    whole = path.read_text(encoding="utf-8")
    path.write_text(chosen.change.text, encoding="utf-8")
    try:
        return next(filter(None, (_run(tree, file, slow) for file in files)), "")
    finally:
        path.write_text(whole, encoding="utf-8")


def _run(tree: Path, file: str, slow: bool, record: Path | None = None) -> str:
    """Runs a test file in a process of its own until a test fails; gives this test, or "" if all pass."""
    failed = tree / "failed"
    failed.unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        _test(tree, file, slow, failed, record)
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            first = failed.read_text(encoding="utf-8") if failed.exists() else ""
            return first or ("" if code == 0 else f"exit code {code}")
        time.sleep(0.05)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return f"still running after {PATIENCE} s"


def _test(tree: Path, file: str, slow: bool, failed: Path, record: Path | None) -> None:
    """Becomes a test process, and never returns."""
    code = 1
    called: set[tuple[str, int]] = set()
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
                    failed.write_text(report.nodeid, encoding="utf-8")

        def trace(frame: FrameType, event: str, value: object) -> None:
            called.add((frame.f_code.co_filename, frame.f_code.co_firstlineno))

        if record:
            sys.settrace(trace)
            threading.settrace(trace)
        chosen = "not heavy" if slow else "not slow and not heavy"
        options = ["-x", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", chosen]
        ended = pytest.main([*options, file], plugins=[First()])
        code = 0 if ended in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED) else int(ended)
    finally:
        sys.settrace(None)
        if record:
            here = f"{tree}/"
            lines = {f"{name.removeprefix(here)}:{line}" for name, line in called if name.startswith(f"{here}harness/")}
            record.write_text("\n".join(lines), encoding="utf-8")
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
        called: dict[str, set[str]] = {}
        for chosen in drawn:
            function, files = f"{chosen.module}:{chosen.change.function}", tests_of(chosen.module)
            called |= {file: calls(tree, file, asked.slow) for file in files if file not in called}
            noticed = notice(tree, chosen, [file for file in files if function in called[file]], asked.slow)
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
