"""Prompts: Jinja files in `harness/prompts/`, each with blocks for the system and the user message."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import HarnessError, suggestion
from harness.io.files import read_bytes, sha256
from harness.store.llm import Message

if TYPE_CHECKING:
    from jinja2 import Template

FOLDER = Path(__file__).resolve().parents[1] / "prompts"
ROLES = ("system", "user")


def names() -> list[str]:
    """Returns the names of all prompts."""
    return sorted(path.stem for path in FOLDER.glob("*.jinja"))


def digest(name: str) -> str:
    """Returns the SHA-256 of a prompt's file."""
    return sha256(read_bytes(_path(name)))


def messages(prompt: str, /, **values: object) -> tuple[Message, ...]:
    """Fills in the values of a prompt; returns a message for each of its blocks `system` and `user`.

    Raises
    ------
    HarnessError
        There is no such prompt, or it needs a value that is not given.

    Examples
    --------
    >>> [message.role for message in messages("augment", query="Zorn's lemma")]
    ['system', 'user']
    >>> messages("augment", query="Zorn's lemma")[1].content
    "Query: Zorn's lemma\\nAnswer:"
    """
    from jinja2 import UndefinedError

    template = _template(prompt)
    try:
        context = template.new_context(values)
        return tuple(
            Message("system" if role == "system" else "user", "".join(template.blocks[role](context)).strip())
            for role in ROLES
            if role in template.blocks
        )
    except UndefinedError as error:
        raise HarnessError(f"prompt {prompt}: {error.message}") from None


@cache
def _template(name: str) -> Template:
    from jinja2 import Environment, StrictUndefined

    # The result is plain text for a model, so nothing is escaped.
    environment = Environment(undefined=StrictUndefined, autoescape=False, trim_blocks=True, lstrip_blocks=True)  # noqa: S701
    return environment.from_string(read_bytes(_path(name)).decode("utf-8"))


def _path(name: str) -> Path:
    if name not in names():
        raise HarnessError(f"prompt {name!r} is unknown; {suggestion(name, names())}")
    return FOLDER / f"{name}.jinja"
