"""Sites of small labs, built by the command in this process, and what their files hold."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import yaml
from lab_tools import run_file
from typer.testing import CliRunner

from harness.cli.main import app
from harness.labs.lab import Lab
from harness.labs.submit import Offer, submit_run


def build(*arguments: str | Path) -> tuple[int, str]:
    """Exit code and all that `harness site build` prints."""
    result = CliRunner().invoke(app, ["site", "build", *map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output


def sent(lab: Lab, seed: int, team: str, label: str, metadata: object = None, **details: str) -> None:
    """Submits a run of its own for each seed, with metadata beside it."""
    path = run_file(lab.folder.parent / f"{seed}.run", seed)
    beside = path.with_suffix(".ir-metadata.yml")
    beside.unlink(missing_ok=True)
    if metadata is not None:
        beside.write_text(yaml.safe_dump(metadata, allow_unicode=True), encoding="utf-8")
    submit_run(lab, Offer(path, team, label, **details))  # type: ignore[arg-type]


class Seen(HTMLParser):
    """Elements, attributes and texts of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def bare(text: str) -> str:
    """A page without our own styles and scripts."""
    return re.sub(r"<(style|script)>.*?</\1>", "", text, flags=re.DOTALL)
