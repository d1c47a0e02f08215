"""The reference of the Python functions, which mkdocstrings fills in."""

from __future__ import annotations

import harness


def page() -> str:
    """Returns the page: each name of the package's face, by the module that it comes from."""
    lines = [
        "# Python reference",
        "",
        "`import harness as h`; [examples](../python.md). These names are [public](../stability.md).",
        "",
    ]
    for name in harness.__all__:
        made = getattr(harness, name)
        lines += [f"::: {made.__module__}.{name}", "    options:", f"      heading: h.{name}", ""]
    return "\n".join(lines)
