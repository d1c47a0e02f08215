"""Installed packages as tests need them: metadata with entry points, and modules, in a folder of their own."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path


def install(
    site: Path, name: str, points: Mapping[str, Mapping[str, str]], files: Mapping[str, str] | None = None
) -> Path:
    """A package of version 0.1 in `site`: entry points by group (its last word) and name, files by path; `site`."""
    info = site / f"{name}-0.1.dist-info"
    groups = "".join(
        f"[mathir_harness.{group}]\n" + "".join(f"{key} = {value}\n" for key, value in entries.items())
        for group, entries in points.items()
    )
    metadata = {"METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1\n", "entry_points.txt": groups}
    for path, text in {**{str(info / key): text for key, text in metadata.items()}, **(files or {})}.items():
        target = site / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    return site


def pip_installed(source: Path, folder: Path) -> Path:
    """The folder below `folder` into which pip installs the package of a source tree, without a network."""
    shutil.copytree(source, folder / "source")
    options = ("--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--disable-pip-version-check")
    target = ("--target", str(folder / "site"), str(folder / "source"))
    command = [sys.executable, "-m", "pip", "install", *options, *target]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "site"
