"""Installed packages as tests need them: metadata with entry points, and modules, in a folder of their own."""

from __future__ import annotations

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
