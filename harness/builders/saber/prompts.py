"""What language models are asked: texts of our own in `harness/prompts/NAME.jinja`."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from harness.io.files import sha256

if TYPE_CHECKING:
    from jinja2 import Template

_FOLDER = Path(__file__).resolve().parents[2] / "prompts"


def prompt(name: str, **values: object) -> str:
    """The prompt of a name, filled in; every value that it names must be given.

    >>> "$x$ is" in prompt("saber-delimiters", text="$x$ is small")
    True
    """
    return _template(name).render(values)


def digest(*names: str) -> str:
    """A hash of some prompts, for what depends on their wording."""
    return sha256(b"\x00".join((_FOLDER / f"{name}.jinja").read_bytes() for name in names))


@cache
def _template(name: str) -> Template:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    # Plain text for a model: no escaping.
    environment = Environment(loader=FileSystemLoader(_FOLDER), undefined=StrictUndefined, autoescape=False)  # noqa: S701
    return environment.get_template(f"{name}.jinja")
