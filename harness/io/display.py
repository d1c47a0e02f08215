"""Displays values in notebooks as the tables of their reports; apart from what systems import, on which runs depend."""

from __future__ import annotations

from importlib import import_module


def table_html(value: object) -> str:
    """Returns the table as HTML.

    Reports are in a higher layer than the values. Only this function uses that layer, by a lazy import, so that there
    is no import from a lower to a higher layer.
    """
    html: str = import_module("harness.reports.joint").table_html(value)
    return html
