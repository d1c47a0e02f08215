"""Displays values in notebooks as the tables of their reports."""

from __future__ import annotations

from importlib import import_module

TABLES = "harness.reports.joint"


def table_html(value: object) -> str:
    """Returns the table as HTML.

    Reports are in a higher layer than the values. Only this function uses that layer, by a lazy import, so that there
    is no import from a lower to a higher layer.
    """
    html: str = import_module(TABLES).table_html(value)
    return html
