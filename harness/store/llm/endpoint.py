"""Data classes of language-model calls: endpoint, request, answer, cost."""

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
from harness.io.checks import check_number, check_whole_number, typed

OPENAI = "https://api.openai.com/v1"
Role = Literal["system", "user", "assistant"]
Schemas = Literal["json_schema", "json_object", "llama", "none"]
_KEY = re.compile(r"[A-Z_][A-Z0-9_]{0,63}")
_OURS = ("model", "messages", "input", "stream", "n", "response_format", "encoding_format", "stream_options")
_SECONDS = partial(check_number, low=1e-9, high=86_400)
_COUNT = partial(check_whole_number, low=1)


@dataclass(frozen=True)
class Message:
    """Message of a conversation; raises `HarnessError` for content that UTF-8 cannot encode."""

    role: Role
    content: str

    def __post_init__(self) -> None:
        try:
            self.content.encode()
        except UnicodeEncodeError as error:
            raise HarnessError(f"message of role {self.role}: {error.reason} at character {error.start}") from None


@dataclass(frozen=True)
class Ask:
    """Request: a conversation to be answered.

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
    """Answer to a request, or the reason of its failure.

    Attributes
    ----------
    text : the last answer, unchanged.
    value : its JSON value, if the request has a schema and the answer fits it; else None.
    tokens_in, tokens_out : totals over all calls for the request, repairs included.
    cost : cost of these tokens at the endpoint's prices, even if the answer is cached.
    cached : whether all replies came from the cache.
    failed : reason of failure; empty if valid. In a dry run, states that the model was not called.
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
    """Calls, tokens and cost of a client since it was made; estimates in a dry run (see `Estimate`).

    Attributes
    ----------
    calls : calls that were answered and paid for.
    cost : cost in the unit of the endpoint's prices.
    failed : number of failed answers, including cached ones.
    lost : calls that failed without an answer but may have been charged.
    """

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost: float = 0.0
    failed: int = 0
    lost: int = 0

    @property
    def tokens(self) -> int:
        """Input and output tokens."""
        return self.tokens_in + self.tokens_out


@dataclass(frozen=True)
class Endpoint:
    """A model on an OpenAI-compatible server; `conf/llm/NAME.yaml`.

    Attributes
    ----------
    name, title : name of the file, and description.
    model : the server's name of the model.
    url : base URL of the API (`http://127.0.0.1:8080/v1`); None for OpenAI.
    price_in, price_out : price of a million tokens; 0 for a local server.
    parameters : further parameters of each request (temperature, max_tokens, seed ...), part of the cache key.
    key : NAME of the environment variable that holds the API key, never the key itself; None if none is needed.
    concurrency : maximum number of concurrent calls.
    requests_per_minute, tokens_per_minute : rate limits of the server; None for no limit.
    timeout : maximum seconds for a complete answer, up to a day.
    retries : maximum number of retries of a failed call.
    repairs : maximum number of repeated requests if an answer does not fit its schema.
    schemas : how a schema is sent: as OpenAI's `json_schema` or `json_object`, as `llama` (`json_object` with a schema,
        for llama.cpp), or `none`; all but `json_schema` also add it to the last message.
    reports : model name reported by the server, if it is neither `model` nor `model` with a date or version (`-0613`,
        `-2024-08-06`, `-v2`).
    batch : texts per embedding request.

    Raises
    ------
    HarnessError
        A key, an address or a parameter is invalid. Messages never repeat a possible API key.
    """

    name: str
    model: str
    price_in: Annotated[float, check_number]
    price_out: Annotated[float, check_number]
    url: str | None = None
    title: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    key: str | None = None
    concurrency: Annotated[int, _COUNT] = 4
    requests_per_minute: Annotated[int, _COUNT] | None = None
    tokens_per_minute: Annotated[int, _COUNT] | None = None
    timeout: Annotated[float, _SECONDS] = 120.0
    retries: Annotated[int, check_whole_number] = 5
    repairs: Annotated[int, check_whole_number] = 2
    schemas: Schemas = "json_schema"
    reports: str | None = None
    batch: Annotated[int, _COUNT] = 64

    def __post_init__(self) -> None:
        if self.key is not None and not _KEY.fullmatch(self.key):
            raise HarnessError(
                "key 'key': expected the name of an environment variable, such as OPENAI_API_KEY; "
                "a key itself must never be in a file"
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
        """Base URL of requests."""
        return (self.url or OPENAI).rstrip("/")

    @property
    def local(self) -> bool:
        """Whether the address is on this machine."""
        host = urlsplit(self.address).hostname or ""
        try:
            return ipaddress.ip_address(host).is_loopback
        except ValueError:
            return host == "localhost"

    @property
    def longest(self) -> int | None:
        """Maximum number of tokens of an answer, from the parameters; None if not set."""
        limit = self.parameters.get("max_completion_tokens", self.parameters.get("max_tokens"))
        return limit if type(limit) is int and limit > 0 else None

    def cost(self, tokens_in: float, tokens_out: float) -> float:
        """Returns the price of some input and output tokens."""
        return (tokens_in * self.price_in + tokens_out * self.price_out) / 1e6

    def missing(self) -> list[str]:
        """Returns what is missing for a call, one line each, `WHAT: REMEDY`; makes no network requests."""
        from importlib.util import find_spec

        if find_spec("openai") is None or find_spec("jsonschema") is None:
            return ["openai is not installed: pip install 'mathir-harness[llm]'"]
        if self.key and not os.environ.get(self.key, "").strip():
            return [f"no key: set {self.key} to the key of {self.address}"]
        return []

    def answers(self) -> bool:
        """Returns whether a server accepts connections at the address; sends no data."""
        parts = urlsplit(self.address)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        try:
            with socket.create_connection((str(parts.hostname), port), timeout=2.0):
                return True
        except OSError:
            return False


def _addresses(url: str) -> bool:
    """Returns whether a text is a valid base URL without credentials, query and fragment."""
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").encode("idna")  # fails for names that are too long or invalid
        fits = parts.port is None or parts.port > 0
    except ValueError:
        return False
    bare = not (parts.username or parts.password or parts.query or parts.fragment)
    return fits and bare and bool(host) and parts.scheme in ("http", "https") and url.isprintable() and " " not in url


def load_endpoint(name: str) -> Endpoint:
    """Loads the endpoint of `conf/llm/NAME.yaml`, ours or the user's.

    Raises
    ------
    HarnessError
        There is no such endpoint, or keys of the file are wrong, one line each.

    Examples
    --------
    >>> load_endpoint("openai-gpt-4").model
    'gpt-4-0125-preview'
    """
    mapping, path = config.load("llm", name)
    given = {key: value for key, value in mapping.items() if key != "parameters" or value}
    return typed(Endpoint, {**given, "name": name}, path)


def request(endpoint: Endpoint, messages: Sequence[Message], schema: Mapping[str, Any] | None) -> dict[str, Any]:
    """Returns all inputs of an answer as plain values, the cache key; the endpoint's address is not included."""
    out: dict[str, Any] = {
        "kind": "chat",
        "model": endpoint.model,
        "parameters": _plain(dict(endpoint.parameters)),
        "messages": [{"role": message.role, "content": message.content} for message in messages],
    }
    return out if schema is None else {**out, "schema": _plain(dict(schema)), "schemas": endpoint.schemas}


def text_request(endpoint: Endpoint, text: str) -> dict[str, Any]:
    """Returns the cache key, as `request`, for the embedding of a text."""
    parameters = _plain(dict(endpoint.parameters))
    return {"kind": "embedding", "model": endpoint.model, "parameters": parameters, "input": text}


def _plain(value: object) -> object:
    """Normalises values, so that equal values are written in the same way: 0.0 as 0."""
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float) and math.isfinite(value) and value == int(value):
        return int(value)
    return value
