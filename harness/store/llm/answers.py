"""Wording of requests, and validation of answers."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

from harness.errors import HarnessError, printable_line, shortened
from harness.store.llm.answer_cache import Reply
from harness.store.llm.endpoint import Ask, Message

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

_FENCED = re.compile(r"\s*```(?:json)?\s*\n(.*?)\n?\s*```\s*", re.DOTALL)
_LONGEST = 300  # maximum number of characters in the description of a fault


def worded(ask: Ask, schemas: str) -> tuple[Message, ...]:
    """Returns the messages to send; adds the schema as text unless the server supports `json_schema`.

    Raises
    ------
    HarnessError
        The ask has no message.
    """
    if not ask.messages:
        raise HarnessError("an ask without messages; expected at least one")
    if ask.schema is None or schemas == "json_schema":
        return ask.messages
    written = json.dumps(ask.schema, ensure_ascii=False)
    last = ask.messages[-1]
    content = (
        f"{last.content}\n\nAnswer with one JSON value that fits this JSON Schema, and with nothing else:\n{written}"
    )
    return (*ask.messages[:-1], replace(last, content=content))


def validator(schema: Mapping[str, Any]) -> Validator:
    """Returns a validator of values against a schema; makes no network requests.

    Raises
    ------
    HarnessError
        The schema is invalid, or jsonschema is not installed.
    """
    try:
        import jsonschema
        from referencing import Registry
    except ImportError:
        raise HarnessError("jsonschema is not installed: pip install 'mathir-harness[llm]'") from None
    kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    try:
        kind.check_schema(dict(schema))
    except jsonschema.SchemaError as error:
        raise HarnessError(
            f"schema of an ask: {error.json_path}: {shortened(printable_line(error.message), 200)}"
        ) from None
    return kind(schema, registry=Registry())


def fault(reply: Reply, schema: Mapping[str, Any] | None) -> tuple[Any, str, bool]:
    """Returns (value, fault or "", whether a retry may help) of a reply.

    >>> fault(Reply('{"n": 7}'), {"type": "object", "required": ["n"]})
    ({'n': 7}, '', False)
    >>> fault(Reply("7", finish="length"), None)
    (None, 'it was cut off at the most tokens that it may have', False)
    """
    if reply.finish == "refused":
        return None, f"refused: {reply.text}", False
    if reply.finish == "content_filter":
        return None, "the server filtered its content", False
    if reply.finish == "length":
        return None, "it was cut off at the most tokens that it may have", schema is not None
    if not reply.text.strip():
        return None, "it is empty", schema is not None
    if schema is None:
        return None, "", False
    fenced = _FENCED.fullmatch(reply.text)
    try:
        value = json.loads(fenced[1] if fenced else reply.text, parse_constant=_no_number)
        json.dumps(value, ensure_ascii=False).encode()  # fails for lone surrogates, which cannot be written
    except (ValueError, RecursionError) as error:
        return None, shortened(printable_line(f"it is not valid JSON: {error}"), _LONGEST), True
    from jsonschema.exceptions import best_match
    from referencing.exceptions import Unresolvable

    try:
        misfit = best_match(validator(schema).iter_errors(value))
    except RecursionError:
        return None, "it is nested too deeply", True
    except Unresolvable as error:
        raise HarnessError(f"schema of an ask: {shortened(printable_line(str(error)), 200)}") from None
    if misfit is not None:
        return (
            None,
            shortened(printable_line(f"it does not fit the schema: {misfit.json_path}: {misfit.message}"), _LONGEST),
            True,
        )
    return value, "", False


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")
