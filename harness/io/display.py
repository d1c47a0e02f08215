"""What a notebook shows of a value: the table that a report has of it."""

from __future__ import annotations

from importlib import import_module

TABLES = "harness.reports.notebook"


def table_html(value: object) -> str:
    """Returns the table as HTML.

    A report stands above what it is of. This is the one place where a value asks for what is above it, by name, when
    it is displayed, so that no import goes up.
    """
    found: str = import_module(TABLES).table_html(value)
    return found
