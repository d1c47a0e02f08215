"""Values of language-model calls: where they go (an endpoint), what is asked, what is answered, what it costs."""

from __future__ import annotations

import ipaddress
import math
import os
import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from harness.errors import HarnessError
from harness.io import config
from harness.io.checks import number, typed, whole

OPENAI = "https://api.openai.com/v1"
Role = Literal["system", "user", "assistant"]
Schemas = Literal["json_schema", "json_object", "llama", "none"]
_KEY = re.compile(r"[A-Z_][A-Z0-9_]{0,63}")
_OURS = ("model", "messages", "input", "stream", "n", "response_format", "encoding_format", "stream_options")
_SECONDS = partial(number, low=1e-9, high=86_400)
_COUNT = partial(whole, low=1)


@dataclass(frozen=True)
class Message:
    """One message of a conversation; what is no text that UTF-8 can hold raises `HarnessError`."""

    role: Role
    content: str

    def __post_init__(self) -> None:
        try:
            self.content.encode()
        except UnicodeEncodeError as error:
            raise HarnessError(f"message of role {self.role}: {error.reason} at character {error.start}") from None


@dataclass(frozen=True)
class Ask:
    """A conversation to be answered.

    Attributes
    ----------
    schema : the JSON Schema that the answer must fit; None for an answer of any form.

    Examples
    --------
    >>> Ask((Message("user", "Is 7 prime?"),)).messages[0].content
    'Is 7 prime?'
    """

    messages: tuple[Message, ...]
    schema: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Answer:
    """What came of an ask.

    Attributes
    ----------
    text : the last answer as it came.
    value : what it says in JSON, if a schema was asked for and it fits; else None.
    tokens_in, tokens_out : over all calls that the ask took, those for repairs too.
    cost : of these tokens at the endpoint's prices, whether they were paid now or once.
    cached : whether nothing was paid now.
    failed : why it counts as failed; empty when good. Of a dry run, that it was not asked.
    """

    text: str
    value: Any = None
    tokens_in: int = 0
    tokens_out: int = 0
    cost: float = 0.0
    cached: bool = False
    failed: str = ""


@dataclass(frozen=True)
class Spent:
    """What a client has spent since it was made; of a dry run, what would be (see `Estimate`).

    Attributes
    ----------
    calls : calls that were answered and paid for.
    cost : in the unit of the endpoint's prices.
    failed : answers that count as failed, those from the cache too.
    lost : calls that broke off without an answer, which the endpoint may charge all the same.
    """

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost: float = 0.0
    failed: int = 0
    lost: int = 0

    @property
    def tokens(self) -> int:
        """Both ways."""
        return self.tokens_in + self.tokens_out


@dataclass(frozen=True)
class Endpoint:
    """An OpenAI-compatible server and one model of it; `conf/llm/NAME.yaml`.

    Attributes
    ----------
    url : where its API begins (`http://127.0.0.1:8080/v1`); None for OpenAI's own.
    price_in, price_out : of a million tokens; 0 for a server of one's own.
    parameters : what else goes with each request (temperature, max_tokens, seed ...); they decide the answer.
    key : NAME of the environment variable that holds the key, never the key; None if none is asked for.
    concurrency : calls under way at one time.
    requests_per_minute, tokens_per_minute : what the server allows; None for no limit.
    timeout : seconds, up to a day, in which an answer must be there as a whole.
    retries : how often a call that broke off is tried again.
    repairs : how often an answer that does not fit its schema is asked for again.
    schemas : how the server is told of a schema: as OpenAI's `json_schema` or `json_object`, as the `json_object` with
        a schema of `llama` (llama-cpp-python), or not at all; all but the first say it in the last message too.
    reports : the name by which the server reports the model, if it is neither `model` nor that with a date or version
        (`-0613`, `-2024-08-06`, `-v2`).
    batch : texts in one request for embeddings.

    Raises
    ------
    HarnessError
        A key, an address or a parameter that cannot be meant. What might be a key is never repeated.
    """

    name: str
    model: str
    price_in: Annotated[float, number]
    price_out: Annotated[float, number]
    url: str | None = None
    title: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    key: str | None = None
    concurrency: Annotated[int, _COUNT] = 4
    requests_per_minute: Annotated[int, _COUNT] | None = None
    tokens_per_minute: Annotated[int, _COUNT] | None = None
    timeout: Annotated[float, _SECONDS] = 120.0
    retries: Annotated[int, whole] = 5
    repairs: Annotated[int, whole] = 2
    schemas: Schemas = "json_schema"
    reports: str | None = None
    batch: Annotated[int, _COUNT] = 64

    def __post_init__(self) -> None:
        if self.key is not None and not _KEY.fullmatch(self.key):
            raise HarnessError(
                "key 'key': expected the name of an environment variable, such as OPENAI_API_KEY; "
                "a key itself must never stand in a file"
            )
        if self.url is not None and not _addresses(self.url):
            raise HarnessError("key 'url': expected http(s)://HOST[:PORT]/PATH, without user, password, ? and #")
        for name in _OURS:
            if name in self.parameters:
                raise HarnessError(f"key 'parameters': {name!r} is set by the harness; leave it out")
        if not self.model.strip():
            raise HarnessError("key 'model': expected the name that the server gives the model")

    @property
    def address(self) -> str:
        """Where requests go."""
        return (self.url or OPENAI).rstrip("/")

    @property
    def local(self) -> bool:
        """Whether it is on this machine."""
        host = urlsplit(self.address).hostname or ""
        try:
            return ipaddress.ip_address(host).is_loopback
        except ValueError:
            return host == "localhost"

    @property
    def longest(self) -> int | None:
        """The most tokens of an answer, by its parameters; None if they do not say."""
        found = self.parameters.get("max_completion_tokens", self.parameters.get("max_tokens"))
        return found if type(found) is int and found > 0 else None

    def cost(self, tokens_in: float, tokens_out: float) -> float:
        """Returns the price of so many tokens."""
        return (tokens_in * self.price_in + tokens_out * self.price_out) / 1e6

    def missing(self) -> list[str]:
        """Returns what a call would lack, one line each, `WHAT: REMEDY`; asks no network."""
        from importlib.util import find_spec

        if find_spec("openai") is None or find_spec("jsonschema") is None:
            return ["openai is not installed: pip install 'mathir-harness[llm]'"]
        if self.key and not os.environ.get(self.key, "").strip():
            return [f"no key: set {self.key} to the key of {self.address}"]
        return []

    def answers(self) -> bool:
        """Returns whether somebody listens at the address; sends nothing."""
        parts = urlsplit(self.address)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        try:
            with socket.create_connection((str(parts.hostname), port), timeout=2.0):
                return True
        except OSError:
            return False


def _addresses(url: str) -> bool:
    """Returns whether a text is an address that can be called, and no more than that."""
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").encode("idna")  # of what is too long, or no name
        fits = parts.port is None or parts.port > 0
    except ValueError:
        return False
    bare = not (parts.username or parts.password or parts.query or parts.fragment)
    return fits and bare and bool(host) and parts.scheme in ("http", "https") and url.isprintable() and " " not in url


def load_endpoint(name: str) -> Endpoint:
    """Returns the endpoint of `conf/llm/NAME.yaml`, ours or the user's.

    Raises
    ------
    HarnessError
        There is none of this name, or a key of the file is wrong: one line each.

    Examples
    --------
    >>> load_endpoint("openai-gpt-4").model
    'gpt-4-0125-preview'
    """
    mapping, path = config.load("llm", name)
    given = {key: value for key, value in mapping.items() if key != "parameters" or value}
    return typed(Endpoint, {**given, "name": name}, path)


def request(endpoint: Endpoint, messages: Sequence[Message], schema: Mapping[str, Any] | None) -> dict[str, Any]:
    """All that decides an answer, as plain values: what it is kept by. The endpoint's address is no part of it."""
    out: dict[str, Any] = {
        "kind": "chat",
        "model": endpoint.model,
        "parameters": _plain(dict(endpoint.parameters)),
        "messages": [{"role": message.role, "content": message.content} for message in messages],
    }
    return out if schema is None else {**out, "schema": _plain(dict(schema)), "schemas": endpoint.schemas}


def text_request(endpoint: Endpoint, text: str) -> dict[str, Any]:
    """Returns `request` of the vector of a text."""
    parameters = _plain(dict(endpoint.parameters))
    return {"kind": "embedding", "model": endpoint.model, "parameters": parameters, "input": text}


def _plain(value: object) -> object:
    """Values that are equal, written alike: 0.0 as 0."""
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float) and math.isfinite(value) and value == int(value):
        return int(value)
    return value
