"""The reference of the schemas of files."""

from __future__ import annotations

import json
from pathlib import Path

from docs.make.tables import code, plain, table

SCHEMAS = Path(__file__).resolve().parents[2] / "harness/data/schemas"


def page() -> str:
    """Returns the page: a section per schema with the keys at its top."""
    lines = [
        "# Schemas of files",
        "",
        "JSON Schemas (draft 2020-12) of the files that the harness writes; a test validates what it writes by them.",
        "The name of each is the file itself.",
    ]
    for path in sorted(SCHEMAS.glob("*.json")):
        schema = json.loads(path.read_text(encoding="utf-8"))
        lines += [
            "",
            f"## [{path.name}](schemas/{path.name})",
            "",
            plain(schema.get("description", schema.get("title", ""))),
        ]
        needed = schema.get("required", [])
        rows = [
            [code(key), _kind(each), "yes" * (key in needed), plain(each.get("description", ""))]
            for key, each in schema.get("properties", {}).items()
        ]
        if rows:
            lines += ["", table(["key", "type", "required", "meaning"], rows)]
    return "\n".join(lines)


def _kind(schema: dict[str, object]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    found = schema.get("type", "enum" if "enum" in schema else "const" if "const" in schema else "")
    return " or ".join(map(str, found)) if isinstance(found, list) else str(found)
