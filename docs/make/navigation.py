"""Hooks of MkDocs: generated pages of systems, papers, results and reports in the navigation; a mended search."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def on_config(config: Mapping[str, Any]) -> None:
    """Adds generated pages to the sections of the navigation."""
    pages = Path(config["docs_dir"])
    sections = {title: section for entry in config["nav"] for title, section in entry.items()}
    sections["Systems"] += families((pages / "systems/index.md").read_text(encoding="utf-8"))
    papers = [name for name in _names(pages, "papers/*.md") if not name.startswith("papers/settings-")]
    sections["Papers"] += [name for name in papers if name not in sections["Papers"]]
    sections["Results"] += [
        {"Measurements": _names(pages, "results/*.md")},
        {"Reports": _names(pages, "reports/*/report.md")},
    ]
    (groups,) = (entry["Configurations"] for entry in sections["Reference"] if "Configurations" in entry)
    for at, name in enumerate(groups):
        if name.endswith("/index.md"):
            title = name.split("/")[1].capitalize()
            groups[at] = {title: [name, *(each for each in _names(pages, f"{name[:-8]}*.md") if each != name)]}


def on_post_build(config: Mapping[str, Any]) -> None:
    """Mends the theme's search, lunr, which takes different nodes of its tree of words for equal.

    A node is known by its labels and the numbers of their nodes, one after the other: label 2 of node 34 and label 23
    of node 4 are the same text. Words that are not in the index are found then, and a query of a digit fails.
    """
    (worker,) = Path(config["site_dir"]).glob("assets/javascripts/workers/search.*.min.js")
    text = worker.read_text(encoding="utf-8")
    if text.count("e=e+s+o.id}") != 1:
        raise SystemExit(f"{worker}: is another version of the search; look whether its nodes are told apart")
    worker.write_text(text.replace("e=e+s+o.id}", 'e=e+s+o.id+";"}'), encoding="utf-8")


def families(index: str) -> list[dict[str, list[str]]]:
    """Returns the families of systems with their pages, from the page that lists them.

    Examples
    --------
    >>> families("## Lexical\\n| name |\\n|---|\\n| [bm25](bm25.md) | BM25 |\\n")
    [{'Lexical': ['systems/bm25.md']}]
    """
    parts = re.split(r"^## (.*)$", index, flags=re.MULTILINE)[1:]
    found = (re.findall(r"^\| \[[^]]*\]\(([^)]+)\)", rows, re.MULTILINE) for rows in parts[1::2])
    return [{title: [f"systems/{name}" for name in names]} for title, names in zip(parts[::2], found, strict=True)]


def _names(pages: Path, pattern: str) -> list[str]:
    return sorted(path.relative_to(pages).as_posix() for path in pages.glob(pattern))
