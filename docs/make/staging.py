"""Pages of the repository as pages of the site: where each goes, and its links rewritten."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path, PurePosixPath

from docs.make import papers, results
from harness.papers.paper import paper_names

ROOT = Path(__file__).resolve().parents[2]
_PROJECT = ("CHANGELOG", "CONTRIBUTING", "SECURITY", "CODE_OF_CONDUCT")
_OTHERS = {
    "docs/home.md": "index.md",
    "README.md": "project/readme.md",
    "docs/README.md": "contents.md",
    "bench/README.md": "project/benchmarks.md",
    "bench/results/README.md": "results/index.md",
    "tests/README.md": "project/tests.md",
    "tests/oracle/README.md": "project/agreement.md",
    "conf/README.md": "project/configurations.md",
    "examples/README.md": "project/examples.md",
    "examples/mathir-example/README.md": "project/mathir-example.md",
    **{f"{name}.md": f"project/{name.lower()}.md" for name in _PROJECT},
    **{f"conf/paper/settings/{name}.csv": f"papers/settings-{name}.md" for name in paper_names()},
}
_FENCED = re.compile(r"^(```+|~~~+).*?^\1[ \t]*$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"(`+)(?!`)[^\n]+?(?<!`)\1(?!`)")
_HELD = re.compile("\ue000([0-9]+)\ue001")  # what stands for a piece of code while links are rewritten
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")
_LISTS = re.compile(r"^(?!\s*(?:[-*]|\d+\.)\s)(\S.*)\n(?=(?:[-*]|\d+\.) )", re.MULTILINE)


def shown() -> dict[str, str]:
    """Returns path in the repository -> path in the site, of pages and of the files beside them."""
    found = {source: to for source, to in _OTHERS.items() if (ROOT / source).is_file()}
    for path in sorted((ROOT / "docs").rglob("*")):
        name = path.relative_to(ROOT).as_posix()
        if name not in found and path.suffix in (".md", ".png", ".svg", ".css", ".js"):
            found[name] = name.removeprefix("docs/")
    for path in sorted((ROOT / "bench/results").glob("*.*")):
        found.setdefault(path.relative_to(ROOT).as_posix(), f"results/{path.name}")
    for folder in ("reports/reference", "reports/small-scale"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.is_file():
                found[path.relative_to(ROOT).as_posix()] = f"reports/{path.relative_to(ROOT / folder).as_posix()}"
    return found


def stage(out: Path) -> None:
    """Writes the pages of the repository into the folder that the site is built from.

    A link to another file of the repository becomes a link to a copy, and one to a folder becomes plain text.
    """
    pages = shown()
    for source, to in list(pages.items()):
        place = out / to
        place.parent.mkdir(parents=True, exist_ok=True)
        if source.endswith(".csv"):
            place.write_text(papers.settings_page(place.stem.removeprefix("settings-")), encoding="utf-8")
            continue
        if not source.endswith(".md"):
            shutil.copyfile(ROOT / source, place)
            continue
        text = (ROOT / source).read_text(encoding="utf-8")
        text = rewritten(text, source, to, pages)
        if source.startswith("reports/small-scale/"):
            # Formulas in topics have letters of two UTF-16 units, at which the search stops with an error.
            text = f"---\nsearch:\n  exclude: true\n---\n{text}"
        if to.startswith("results/") and place.stem != "index":
            text, files = results.shortened(text + results.provenance(ROOT / source), place.stem)
            for name, rows in files.items():
                place.with_name(name).write_text(rows, encoding="utf-8")
        place.write_text(text, encoding="utf-8")
    for source, to in pages.items():
        if not (out / to).exists():
            (out / to).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / source, out / to)


def rewritten(text: str, source: str, to: str, pages: dict[str, str]) -> str:
    """Returns a page with the links of its place in the site; files that it links to are added to `pages`.

    Examples
    --------
    >>> rewritten("[a](docs/a.md#b) `[c](d)`", "README.md", "index.md", {"docs/a.md": "a.md"})
    '[a](a.md#b) `[c](d)`'
    """

    def link(found: re.Match[str]) -> str:
        image, words, target = found.groups()
        path, mark, anchor = target.partition("#")
        if not path or re.match(r"[a-z]+:", target):
            return found[0]
        name = os.path.normpath(PurePosixPath(source).parent / path)
        if (ROOT / name).is_dir():
            name = f"{name}/README.md"
            if name not in pages:
                return words
        if name not in pages:
            if not (ROOT / name).is_file():
                raise SystemExit(f"{source}: link to {path}, which is not there")
            pages[name] = f"files/{name.lstrip('.')}"  # hidden folders are not served
        return f"{image}[{words}]({os.path.relpath(pages[name], PurePosixPath(to).parent)}{mark}{anchor})"

    held: list[str] = []

    def hold(found: re.Match[str]) -> str:
        held.append(found[0])
        return f"\ue000{len(held) - 1}\ue001"

    text = _CODE.sub(hold, _FENCED.sub(hold, text))
    # Python-Markdown, unlike GitHub, wants an empty line before a list.
    text = _LINK.sub(link, _LISTS.sub(r"\1\n\n", text))
    while _HELD.search(text):
        text = _HELD.sub(lambda found: held[int(found[1])], text)
    return text
