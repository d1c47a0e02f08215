"""The layers of the package, counted and drawn from its imports."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path
from xml.sax.saxutils import escape

from docs.make.tables import code, plain, table

PACKAGE = Path(__file__).resolve().parents[2] / "harness"
_WIDE, _BOX, _HIGH, _FLOOR = 880, 130, 40, 84  # of the picture, in its units
Graph = Mapping[str, set[str]]  # folder -> folders that it imports


def folders() -> dict[str, list[Path]]:
    """Returns folder or module of the package -> its files."""
    found = {}
    for path in sorted(PACKAGE.iterdir()):
        if (path / "__init__.py").is_file():
            found[path.name] = sorted(path.rglob("*.py"))
        elif path.suffix == ".py" and not path.name.startswith("_"):
            found[path.stem] = [path]
    return found


def imports() -> dict[str, set[str]]:
    """Returns folder -> the other folders that its files import, inside functions and for type checkers too."""
    known = folders()
    found: dict[str, set[str]] = {name: set() for name in known}
    for name, files in known.items():
        for file in files:
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                if isinstance(node, ast.ImportFrom) and node.module:
                    modules = [f"{node.module}.{alias.name}" for alias in node.names]
                parts = [module.split(".") for module in modules]
                found[name] |= {each[1] for each in parts if each[0] == "harness" and each[1] in known} - {name}
    return found


def floors(graph: Graph) -> dict[str, int]:
    """Returns folder -> number of folders on the longest way down from it.

    Examples
    --------
    >>> floors({"a": set(), "b": {"a"}, "c": {"a", "b"}})
    {'a': 0, 'b': 1, 'c': 2}
    """
    found: dict[str, int] = {}

    def height(name: str) -> int:
        if name not in found:
            found[name] = max((height(other) + 1 for other in graph[name]), default=0)
        return found[name]

    return {name: height(name) for name in graph}


def direct(graph: Graph) -> list[tuple[str, str]]:
    """Returns the imports without those that a longer way implies.

    Examples
    --------
    >>> direct({"a": set(), "b": {"a"}, "c": {"a", "b"}})
    [('b', 'a'), ('c', 'b')]
    """

    def below(name: str) -> set[str]:
        return set().union(*({other} | below(other) for other in graph[name]))

    return [
        (name, other)
        for name in graph
        for other in sorted(graph[name])
        if not any(other in below(between) for between in graph[name] - {other})
    ]


def drawn(graph: Graph) -> str:
    """Returns the picture: a box per folder, one floor above all that it imports."""
    height = floors(graph)
    top = max(height.values())
    place: dict[str, tuple[float, float]] = {}
    for floor in range(top + 1):
        names = [name for name in graph if height[name] == floor]
        for at, name in enumerate(names):
            place[name] = ((at + 0.5) * _WIDE / len(names), (top - floor) * _FLOOR + 30)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDE} {(top + 1) * _FLOOR}" role="img"'
        ' font-family="sans-serif" font-size="15">',
        "<title>Folders of the package and their imports</title>",
        "<style>rect{fill:#fff;stroke:#3f5b8c}line{stroke:#8a94a6}text{fill:#1c2430}"
        "@media (prefers-color-scheme:dark){"
        "rect{fill:#1c2430;stroke:#9db4dd}line{stroke:#6b7688}text{fill:#e6eaf2}}</style>",
    ]
    for name, other in direct(graph):
        (x, y), (to_x, to_y) = place[name], place[other]
        parts.append(f'<line x1="{x:.0f}" y1="{y + _HIGH / 2:.0f}" x2="{to_x:.0f}" y2="{to_y - _HIGH / 2:.0f}"/>')
    for name, (x, y) in place.items():
        parts.append(
            f'<rect x="{x - _BOX / 2:.0f}" y="{y - _HIGH / 2:.0f}" width="{_BOX}" height="{_HIGH}" rx="6"/>'
            f'<text x="{x:.0f}" y="{y + 5:.0f}" text-anchor="middle">{escape(name)}</text>'
        )
    return "\n".join([*parts, "</svg>"])


def pages() -> dict[str, str]:
    """Returns path in the site -> text, of the page and its picture."""
    graph, files = imports(), folders()
    height = floors(graph)
    rows = []
    for name in sorted(graph, key=lambda each: (-height[each], each)):
        texts = [file.read_text(encoding="utf-8") for file in files[name]]
        says = (ast.get_docstring(ast.parse(texts[0])) or "").partition("\n")[0]
        length = sum(len(text.splitlines()) for text in texts)
        rows.append([str(height[name]), code(name), plain(says), f"{length:,}", ", ".join(sorted(graph[name]))])
    lines = [
        "# Architecture",
        "",
        f"The package has {len(graph)} folders and modules on {max(height.values()) + 1} floors. An import goes to a"
        " lower floor only; a test checks this. The picture and the table are made from the imports. Lines that"
        " longer ways imply are left out of the picture.",
        "",
        "![Folders of the package and their imports](architecture.svg)",
        "",
        table(["floor", "folder", "content", "lines", "imports"], rows),
        "",
        "[Contributing](contributing.md) says where new code goes.",
    ]
    return {"project/architecture.md": "\n".join(lines), "project/architecture.svg": drawn(graph)}
