"""Stand-ins for language-model services: a server on the loopback that speaks OpenAI's protocol.

It knows the models of `conf/llm/` by their real names, dimensions and limits, and refuses what the real services
refuse. Vectors are sums of a sign pattern for each word, so that texts that share words are close. Answers to the
harness's prompts have the form that the prompt asks for (`harness.rehearsal.answers`); nothing else about them is
realistic.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import socket
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Lock, Thread
from typing import Any

import numpy as np
import numpy.typing as npt
import yaml

from harness.errors import HarnessError, suggestion
from harness.io import config
from harness.rehearsal.answers import chat_answer

MOST_BYTES = 16 << 20  # of a request's body
MOST_INPUTS, MOST_TOKENS = 2048, 300_000  # of one request for embeddings, at OpenAI
STALL = 1.0  # seconds for which the fault 'timeout' says nothing before it hangs up
FAULTS = ("429", "500", "too long", "timeout", "cut", "no usage")
_RETRY_MS = 100  # milliseconds that the fault '429' asks to wait
_DRAINED = 4 * MOST_BYTES  # bytes of a body above the limit that are read and dropped, so that its sender hears why
_PIECE = re.compile(r"[A-Za-z]{1,6}|\d{1,3}|[^\sA-Za-z\d]")
_WORD = re.compile(r"[^\W_]+")
_SAMPLING = ("frequency_penalty", "logit_bias", "presence_penalty", "seed", "stop", "temperature", "top_p")
_OPTIONS = frozenset((*_SAMPLING, "max_completion_tokens", "max_tokens", "n", "response_format", "user"))
_BOUNDS = {"temperature": (0.0, 2.0), "top_p": (0.0, 1.0), "presence_penalty": (-2.0, 2.0)}
_NOT_OURS = ("local",)  # endpoints of conf/llm/ that are a server of the user's own


@dataclass(frozen=True)
class ServedModel:
    """Facts of a model.

    Attributes
    ----------
    context : the most tokens that go in, of an embedding; in and out, of a chat.
    dimensions : of its vectors; 0 for a chat model. shortens: whether a request may ask for fewer.
    reports : the name under which it answers; empty for its own.
    formats : the types of `response_format` that it knows.
    """

    context: int
    dimensions: int = 0
    shortens: bool = True
    reports: str = ""
    formats: tuple[str, ...] = ("text",)


MODELS: Mapping[str, ServedModel] = {
    "text-embedding-3-large": ServedModel(8192, 3072),
    "text-embedding-3-small": ServedModel(8192, 1536),
    "text-embedding-ada-002": ServedModel(8192, 1536, shortens=False, reports="text-embedding-ada-002-v2"),
    "gemini-embedding-001": ServedModel(2048, 3072),
    "gemini-embedding-2": ServedModel(8192, 3072),
    "gpt-3.5-turbo-16k": ServedModel(16_385, reports="gpt-3.5-turbo-16k-0613"),
    "gpt-4-0125-preview": ServedModel(128_000, formats=("text", "json_object")),
    # Of no configuration; for builders whose endpoint is told of schemas.
    "gpt-4o": ServedModel(128_000, reports="gpt-4o-2024-08-06", formats=("text", "json_object", "json_schema")),
}


class RefusedCallError(Exception):
    """A request that the server refuses: status, message and code of the answer."""

    def __init__(self, status: int, message: str, code: str | None = None) -> None:
        super().__init__(message)
        self.status, self.code = status, code


def tokens(text: str) -> int:
    """Returns the length of a text in tokens: pieces of words, groups of digits, signs.

    >>> tokens("Find all primes below 1000."), tokens("$x^2$")
    (7, 5)
    """
    return len(_PIECE.findall(text))


def vector(seed: int, model: str, text: str, dimensions: int) -> npt.NDArray[np.float32]:
    """Returns the vector of a text, of length 1; the same for the same seed, model and text.

    Fewer dimensions than the model has are the first ones of its vector, scaled to length 1 again.
    """
    full = MODELS[model].dimensions
    total = 0.3 * _signs(f"{seed}\0{model}\0\0{text}", full).astype(np.float32)
    for word in sorted(set(_WORD.findall(text.lower()))):
        total += _signs(f"{seed}\0{model}\0{word}", full)
    cut = total[:dimensions]
    length = float(np.linalg.norm(cut))
    if not length:
        cut, length = np.ones(dimensions, np.float32), float(np.sqrt(dimensions))
    return np.asarray(cut / length, np.float32)


@lru_cache(4096)
def _signs(name: str, count: int) -> npt.NDArray[np.int8]:
    """Returns `count` numbers 1 or -1 that a name decides."""
    digest = hashlib.shake_128(name.encode("utf-8", "surrogatepass")).digest(-(-count // 8))
    signs = np.unpackbits(np.frombuffer(digest, np.uint8))[:count].astype(np.int8)
    signs *= 2
    signs -= 1
    return signs


@contextmanager
def serving(seed: int, faults: Sequence[str] = ()) -> Iterator[str]:
    """Serves for as long as the block lasts; the value is the address of the API, `http://127.0.0.1:PORT/v1`.

    Parameters
    ----------
    seed : decides all vectors and answers.
    faults : what becomes of the next requests that would be answered, in the order in which they come:

        - `429`: too many requests, with the time to wait;
        - `500`: an error of the server;
        - `too long`: the context length is exceeded;
        - `timeout`: no answer for `STALL` seconds, then the connection ends;
        - `cut`: half of the answer, with `finish_reason` `length`; vectors end in the middle of the body;
        - `no usage`: an answer that does not count its tokens.

    Raises
    ------
    HarnessError
        An unknown fault.
    """
    for fault in faults:
        if fault not in FAULTS:
            raise HarnessError(f"fault {fault!r} is unknown; {suggestion(fault, FAULTS)}")
    server = _Server(seed, faults)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, name="rehearsal services")
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.ended.set()
        server.shutdown()
        thread.join()
        server.hang_up()
        server.server_close()  # waits for the threads of connections


def overlay(url: str) -> dict[str, str]:
    """Returns endpoint -> YAML of its configuration with another address, for each endpoint that a system names.

    Limits of requests and tokens a minute are dropped, so that a rehearsal does not wait. Prices stay: they are part of
    what is rehearsed. Keys stay, too: each environment variable that the files name needs some value.

    >>> sorted(overlay("http://127.0.0.1:1/v1"))[-2:]
    ['openai-gpt-3.5', 'openai-gpt-4']
    """
    known = [name for name in config.names("llm") if name not in _NOT_OURS]
    named = {text for name in config.names("system") for text in _texts(config.load("system", name)[0])}
    return {name: _moved(config.load("llm", name)[0], url) for name in known if name in named}


def _texts(value: object) -> Iterator[str]:
    """Yields the texts of a configuration, of all levels."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)


def _moved(endpoint: Mapping[str, Any], url: str) -> str:
    dropped = ("url", "requests_per_minute", "tokens_per_minute")
    kept = {key: value for key, value in endpoint.items() if key not in dropped}
    return yaml.safe_dump({"url": url, **kept}, sort_keys=False, allow_unicode=True)


class _Server(ThreadingHTTPServer):
    daemon_threads = False  # so that `server_close` waits for them
    request_queue_size = 128

    def __init__(self, seed: int, faults: Sequence[str]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.seed, self.ended = seed, Event()
        self._faults, self._open = deque(faults), set[socket.socket]()
        self._lock = Lock()

    def fault(self) -> str:
        """Returns what becomes of the next request; empty for an answer."""
        with self._lock:
            return self._faults.popleft() if self._faults else ""

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401
        """Notes a connection, and answers it in a thread."""
        with self._lock:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:  # noqa: ANN401
        """Closes a connection."""
        with self._lock:
            self._open.discard(request)
        super().shutdown_request(request)

    def hang_up(self) -> None:
        """Ends the connections that are open and say nothing."""
        with self._lock:
            for each in self._open:
                try:
                    each.shutdown(socket.SHUT_RDWR)
                except OSError:
                    continue

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401
        """Says nothing of clients that hang up."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 60.0  # seconds in which a client must go on
    disable_nagle_algorithm = True
    server: _Server

    def do_GET(self) -> None:
        """Answers the list of models."""
        self._answer({"/v1/models": self._models})

    def do_POST(self) -> None:
        """Answers a request for vectors or a chat."""
        self._answer({"/v1/embeddings": self._embeddings, "/v1/chat/completions": self._chat})

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""

    def _answer(self, routes: Mapping[str, Any]) -> None:
        try:
            data = self._body()
            if self.path not in routes:
                raise RefusedCallError(404, f"Invalid URL ({self.command} {self.path})")
            scheme, _, key = self.headers.get("authorization", "").partition(" ")
            if scheme.lower() != "bearer" or not key.strip():
                raise RefusedCallError(401, "You didn't provide an API key.", "invalid_api_key")
            routes[self.path](data)
        except RefusedCallError as error:
            self._refuse(error)

    def _body(self) -> bytes:
        said = self.headers.get("content-length", "0" if self.command == "GET" else "")
        if not (said.isascii() and said.isdigit()):
            self.close_connection = True
            raise RefusedCallError(411, "The request has no content-length.")
        size = int(said)
        if size > MOST_BYTES:
            self.close_connection = True
            left = min(size, _DRAINED)
            while left > 0 and (part := self.rfile.read(min(left, 1 << 16))):
                left -= len(part)
            raise RefusedCallError(413, f"The request has {size} bytes; the most are {MOST_BYTES}.")
        return self.rfile.read(size)

    def _models(self, _: bytes) -> None:
        rows = [{"id": name, "object": "model", "created": 0, "owned_by": "rehearsal"} for name in MODELS]
        self._send(200, {"object": "list", "data": rows})

    def _embeddings(self, data: bytes) -> None:
        asked = _Embeddings.read(_object(data))
        fault = self._fault()
        rows = [vector(self.server.seed, asked.model, text, asked.dimensions) for text in asked.texts]
        written: list[Any] = [
            base64.b64encode(row.astype("<f4").tobytes()).decode() if asked.packed else [float(x) for x in row]
            for row in rows
        ]
        taken = sum(map(tokens, asked.texts))
        reply = {
            "object": "list",
            "data": [{"object": "embedding", "index": i, "embedding": row} for i, row in enumerate(written)],
            "model": MODELS[asked.model].reports or asked.model,
            "usage": {"prompt_tokens": taken, "total_tokens": taken},
        }
        self._send(200, _without_usage(reply, fault), cut=fault == "cut")

    def _chat(self, data: bytes) -> None:
        body = _object(data)
        asked = _Chat.read(body)
        fault = self._fault()
        taken = 3 + sum(4 + tokens(content) for _, content in asked.messages)
        choices, given = [], 0
        for i in range(asked.count):
            text = chat_answer(self.server.seed + i, body)
            longest = tokens(text) // 2 if fault == "cut" else asked.longest
            text, finish = _cut(text, longest)
            given += tokens(text)
            message = {"role": "assistant", "content": text, "refusal": None}
            choices.append({"index": i, "message": message, "logprobs": None, "finish_reason": finish})
        name = hashlib.sha256(data).hexdigest()[:24]
        reply = {
            "id": f"chatcmpl-{name}",
            "object": "chat.completion",
            "created": 0,
            "model": MODELS[asked.model].reports or asked.model,
            "choices": choices,
            "usage": {"prompt_tokens": taken, "completion_tokens": given, "total_tokens": taken + given},
        }
        self._send(200, _without_usage(reply, fault))

    def _fault(self) -> str:
        """Takes the fault that is scheduled for this request; raises those that are refusals."""
        fault = self.server.fault()
        if fault == "429":
            raise RefusedCallError(429, "Rate limit reached for requests.", "rate_limit_exceeded")
        if fault == "500":
            raise RefusedCallError(500, "The server had an error while processing your request.")
        if fault == "too long":
            raise RefusedCallError(400, "This model's maximum context length is 1 token.", "context_length_exceeded")
        if fault == "timeout":
            self.server.ended.wait(STALL)
            self.close_connection = True
            raise ConnectionAbortedError
        return fault

    def _refuse(self, error: RefusedCallError) -> None:
        kind = "server_error" if error.status >= 500 else "invalid_request_error"
        about = {"message": str(error), "type": kind, "param": None, "code": error.code}
        waits = {"retry-after-ms": str(_RETRY_MS), "retry-after": "1"} if error.status == 429 else {}
        self._send(error.status, {"error": about}, waits)

    def _send(self, status: int, body: object, headers: Mapping[str, str] | None = None, cut: bool = False) -> None:
        data = json.dumps(body).encode()
        head = {"content-type": "application/json", "content-length": str(len(data)), **(headers or {})}
        if cut:
            data = data[: len(data) // 2]
            self.close_connection = True
        if self.close_connection:
            head["connection"] = "close"
        self.send_response_only(status, HTTPStatus(status).phrase)
        for key, value in head.items():
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(data)


# ---- requests ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Embeddings:
    model: str
    texts: tuple[str, ...]
    dimensions: int
    packed: bool

    @classmethod
    def read(cls, body: Mapping[str, Any]) -> _Embeddings:
        """Checks a request for vectors as OpenAI's service does."""
        name, model = _model(body, embeds=True)
        _check_names(body, frozenset(("model", "input", "encoding_format", "dimensions", "user")))
        given = body.get("input")
        texts = [given] if isinstance(given, str) else given
        if not isinstance(texts, list) or not texts or not all(isinstance(text, str) and text for text in texts):
            raise RefusedCallError(400, "'$.input' is invalid: expected a text, or a list of texts, none empty.")
        if len(texts) > MOST_INPUTS:
            raise RefusedCallError(400, f"'$.input' is invalid: {len(texts)} inputs, the most are {MOST_INPUTS}.")
        sizes = [tokens(text) for text in texts]
        if max(sizes) > model.context:
            said = f"This model's maximum context length is {model.context} tokens, however you requested {max(sizes)}."
            raise RefusedCallError(400, said, "context_length_exceeded")
        if sum(sizes) > MOST_TOKENS:
            said = f"Requested {sum(sizes)} tokens, max {MOST_TOKENS} tokens per request"
            raise RefusedCallError(400, said, "max_tokens_per_request")
        form = body.get("encoding_format", "float")
        if form not in ("float", "base64"):
            raise RefusedCallError(400, f"encoding_format {form!r} is not one of float, base64.")
        dimensions = body.get("dimensions", model.dimensions)
        if "dimensions" in body and not model.shortens:
            raise RefusedCallError(400, "This model does not support specifying dimensions.")
        if type(dimensions) is not int or not 1 <= dimensions <= model.dimensions:
            raise RefusedCallError(400, f"dimensions: expected a whole number from 1 to {model.dimensions}.")
        return cls(name, tuple(texts), dimensions, form == "base64")


@dataclass(frozen=True)
class _Chat:
    model: str
    messages: tuple[tuple[str, str], ...]
    longest: int
    count: int

    @classmethod
    def read(cls, body: Mapping[str, Any]) -> _Chat:
        """Checks a chat as OpenAI's service does."""
        name, model = _model(body, embeds=False)
        _check_names(body, _OPTIONS | {"model", "messages"})
        messages = body.get("messages")
        if not isinstance(messages, list) or not messages:
            raise RefusedCallError(400, "'messages': expected a list of one message or more.")
        for each in messages:
            if not isinstance(each, dict) or each.get("role") not in ("system", "user", "assistant"):
                raise RefusedCallError(400, "'messages': expected the role system, user or assistant in each.")
            if not isinstance(each.get("content"), str):
                raise RefusedCallError(400, "'messages': expected a text as the content of each.")
        for key, (low, high) in _BOUNDS.items():
            value = body.get(key, low)
            if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
                raise RefusedCallError(400, f"{key!r}: expected a number from {low:g} to {high:g}.")
        said = tuple((each["role"], each["content"]) for each in messages)
        _check_format(body.get("response_format", {"type": "text"}), model, " ".join(text for _, text in said))
        taken = 3 + sum(4 + tokens(content) for _, content in said)
        longest = body.get("max_completion_tokens", body.get("max_tokens", max(model.context - taken, 1)))
        count = body.get("n", 1)
        if type(longest) is not int or longest < 1 or type(count) is not int or not 1 <= count <= 128:
            raise RefusedCallError(400, "'max_tokens' or 'n': expected a whole number, 1 or more.")
        if taken + longest > model.context:
            said_ = f"This model's maximum context length is {model.context} tokens, however you requested "
            raise RefusedCallError(400, f"{said_}{taken + longest} tokens.", "context_length_exceeded")
        return cls(name, said, longest, count)


def _object(data: bytes) -> dict[str, Any]:
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise RefusedCallError(400, "We could not parse the JSON body of your request.")
    return body


def _model(body: Mapping[str, Any], embeds: bool) -> tuple[str, ServedModel]:
    name = body.get("model")
    model = MODELS.get(name) if isinstance(name, str) else None
    if model is None or not isinstance(name, str):
        said = f"The model `{name}` does not exist or you do not have access to it."
        raise RefusedCallError(404, said, "model_not_found")
    if bool(model.dimensions) != embeds:
        if embeds:
            raise RefusedCallError(403, "You are not allowed to generate embeddings from this model")
        raise RefusedCallError(404, "This is not a chat model and thus not supported.", "model_not_found")
    return name, model


def _check_names(body: Mapping[str, Any], known: frozenset[str]) -> None:
    for key in body:
        if key not in known:
            raise RefusedCallError(400, f"Unrecognized request argument supplied: {key}", "unknown_parameter")


def _check_format(form: object, model: ServedModel, said: str) -> None:
    kind = form.get("type") if isinstance(form, dict) else None
    if not isinstance(form, dict) or kind not in model.formats:
        said = f"Invalid parameter: 'response_format' of type {kind!r} is not supported with this model."
        raise RefusedCallError(400, said)
    if kind == "json_object" and "json" not in said.lower():
        raise RefusedCallError(400, "'messages' must contain the word 'json' in some form.")
    named = form.get("json_schema")
    if kind == "json_schema" and not (isinstance(named, dict) and isinstance(named.get("schema"), dict)):
        raise RefusedCallError(400, "Missing required parameter: 'response_format.json_schema.schema'.")


def _cut(text: str, longest: int) -> tuple[str, str]:
    """Returns the first tokens of a text, and why it ends."""
    if tokens(text) <= longest:
        return text, "stop"
    ends = [match.end() for match in _PIECE.finditer(text)]
    return text[: ends[longest - 1]] if longest else "", "length"


def _without_usage(reply: dict[str, Any], fault: str) -> dict[str, Any]:
    return {key: value for key, value in reply.items() if key != "usage"} if fault == "no usage" else reply
