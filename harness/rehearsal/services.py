"""Stand-ins for language-model services: a server on the loopback that speaks OpenAI's protocol.

It knows the models of `conf/llm/` by their real names, dimensions and limits, and refuses what the real services
refuse. Vectors are sums of a sign pattern for each word, so that texts that share words are close. Answers to the
prompts of the Mathlib4 paper, the only ones that a recipe asks for, have the form that the prompt asks for; nothing
else about them is realistic.
"""

from __future__ import annotations

import base64
import hashlib
import json
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import numpy as np
import numpy.typing as npt
import yaml

from harness.io import config

MOST_INPUTS, MOST_TOKENS = 2048, 300_000  # of one request for embeddings, at OpenAI
FAULTY = 0.03  # share of answers without their last bracket
FENCED = 0.1  # share of answers between fences, of models that are not held to JSON; and of theorems with a proof
_PIECE = re.compile(r"[A-Za-z]{1,6}|\d{1,3}|[^\sA-Za-z\d]")
_WORD = re.compile(r"[^\W_]+")
_IDENTIFIER = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")  # parts of one
_ROLES = ("system", "user", "assistant")
_SHARED = frozenset(("model", "user"))
_EMBEDDING = _SHARED | {"input", "encoding_format", "dimensions"}
_CHAT = _SHARED | {"messages", "max_completion_tokens", "max_tokens", "response_format", "seed", "temperature", "top_p"}
_NOT_OURS = ("local",)  # endpoints of conf/llm/ that are a server of the user's own


@dataclass(frozen=True)
class ServedModel:
    """Facts of a model.

    Attributes
    ----------
    context : the most tokens that go in, of an embedding; in and out, of a chat.
    dimensions : of its vectors; 0 for a chat model. shortens: whether a request may ask for fewer.
    reports : the name under which it answers; empty for its own.
    json : whether a request may ask for JSON.
    """

    context: int
    dimensions: int = 0
    shortens: bool = True
    reports: str = ""
    json: bool = False


MODELS: Mapping[str, ServedModel] = {
    "text-embedding-3-large": ServedModel(8192, 3072),
    "text-embedding-3-small": ServedModel(8192, 1536),
    "text-embedding-ada-002": ServedModel(8192, 1536, shortens=False, reports="text-embedding-ada-002-v2"),
    "gemini-embedding-001": ServedModel(2048, 3072),
    "gemini-embedding-2": ServedModel(8192, 3072),
    "gpt-3.5-turbo-16k": ServedModel(16_385, reports="gpt-3.5-turbo-16k-0613"),
    "gpt-4-0125-preview": ServedModel(128_000, json=True),
}


class RefusedCallError(Exception):
    """A request that the server refuses: status, message and code of the answer."""

    def __init__(self, status: int, message: str, code: str | None = None) -> None:
        super().__init__(message)
        self.status, self.code = status, code


def _check(good: bool, message: str, code: str | None = None) -> None:
    """Raises RefusedCallError, with status 400, unless a request is good."""
    if not good:
        raise RefusedCallError(400, message, code)


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
    return 2 * np.unpackbits(np.frombuffer(digest, np.uint8))[:count].astype(np.int8) - 1


@contextmanager
def serving(seed: int) -> Iterator[str]:
    """Serves for as long as the block lasts; the value is the address of the API, `http://127.0.0.1:PORT/v1`.

    Parameters
    ----------
    seed : decides all vectors and answers.
    """
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler_class(seed))
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, name="rehearsal services")
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def overlay(url: str) -> dict[str, str]:
    """Returns endpoint -> YAML of its configuration with another address.

    Limits of requests and tokens a minute are dropped, so that a rehearsal does not wait. Prices stay: they are part of
    what is rehearsed. Keys stay, too: each environment variable that the files name needs some value.

    >>> sorted(overlay("http://127.0.0.1:1/v1"))[-2:]
    ['openai-gpt-3.5', 'openai-gpt-4']
    """
    texts = {}
    for name in (name for name in config.names("llm") if name not in _NOT_OURS):
        mapping = {**config.load("llm", name)[0], "url": url}
        kept = {key: value for key, value in mapping.items() if key not in ("requests_per_minute", "tokens_per_minute")}
        texts[name] = yaml.safe_dump(kept, sort_keys=False, allow_unicode=True)
    return texts


def _handler_class(seed: int) -> type[BaseHTTPRequestHandler]:
    routes = {"/v1/embeddings": embeddings, "/v1/chat/completions": chat}

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            """Answers a request for vectors or a chat."""
            data = self.rfile.read(int(self.headers.get("content-length", 0)))
            try:
                if self.path not in routes:
                    raise RefusedCallError(404, f"Invalid URL ({self.command} {self.path})")
                if not self.headers.get("authorization", "").removeprefix("Bearer").strip():
                    raise RefusedCallError(401, "You didn't provide an API key.", "invalid_api_key")
                self._send(200, routes[self.path](seed, _parse_object(data)))
            except RefusedCallError as error:
                about = {"message": str(error), "type": "invalid_request_error", "param": None, "code": error.code}
                self._send(error.status, {"error": about})

        def _send(self, status: int, body: object) -> None:
            data = json.dumps(body).encode()
            self.send_response_only(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            """Says nothing."""

    return Handler


# ---- requests ---------------------------------------------------------------------------------------------------


def embeddings(seed: int, body: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the answer to a request for vectors, which is checked as OpenAI's service does.

    Raises
    ------
    RefusedCallError
        The service would refuse it.
    """
    name, model = _served_model(body, _EMBEDDING, embeds=True)
    given = body.get("input")
    texts: Any = [given] if isinstance(given, str) else given
    good = isinstance(texts, list) and bool(texts) and all(isinstance(text, str) and text for text in texts)
    _check(good, "'$.input' is invalid: expected a text, or a list of texts, none empty.")
    _check(len(texts) <= MOST_INPUTS, f"'$.input' is invalid: {len(texts)} inputs, the most are {MOST_INPUTS}.")
    sizes = [tokens(text) for text in texts]
    _check_length(max(sizes), model)
    said = f"Requested {sum(sizes)} tokens, max {MOST_TOKENS} tokens per request"
    _check(sum(sizes) <= MOST_TOKENS, said, "max_tokens_per_request")
    dimensions = body.get("dimensions", model.dimensions)
    _check("dimensions" not in body or model.shortens, "This model does not support specifying dimensions.")
    good = type(dimensions) is int and 1 <= dimensions <= model.dimensions
    _check(good, f"dimensions: expected a whole number from 1 to {model.dimensions}.")
    rows = [vector(seed, name, text, dimensions) for text in texts]
    packed = body.get("encoding_format") == "base64"
    written: list[Any] = [
        base64.b64encode(row.astype("<f4").tobytes()).decode() if packed else [float(x) for x in row] for row in rows
    ]
    return {
        "object": "list",
        "data": [{"object": "embedding", "index": i, "embedding": row} for i, row in enumerate(written)],
        "model": model.reports or name,
        "usage": {"prompt_tokens": sum(sizes), "total_tokens": sum(sizes)},
    }


def chat(seed: int, body: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the answer to a chat, which is checked as OpenAI's service does.

    Raises
    ------
    RefusedCallError
        The service would refuse it.
    """
    name, model = _served_model(body, _CHAT, embeds=False)
    messages: Any = body.get("messages")
    good = isinstance(messages, list) and bool(messages) and all(isinstance(each, dict) for each in messages)
    _check(good, "'messages': expected a list of one message or more.")
    good = all(each.get("role") in _ROLES and isinstance(each.get("content"), str) for each in messages)
    _check(good, "'messages': expected a role and a text as the content of each.")
    contents = [each["content"] for each in messages]
    form = body.get("response_format", {"type": "text"})
    held = form == {"type": "json_object"}
    supported = form == {"type": "text"} or (held and model.json)
    _check(supported, "Invalid parameter: 'response_format' is not supported with this model.")
    said_json = any("json" in content.lower() for content in contents)
    _check(said_json or not held, "'messages' must contain the word 'json' in some form.")
    taken = 3 + sum(4 + tokens(content) for content in contents)
    longest = body.get("max_completion_tokens", body.get("max_tokens", max(model.context - taken, 1)))
    _check(type(longest) is int and longest >= 1, "'max_tokens': expected a whole number, 1 or more.")
    _check_length(taken + longest, model)
    said = answer(contents, random.Random(f"{seed} {json.dumps(body, sort_keys=True)}"), held)
    ends = [match.end() for match in _PIECE.finditer(said)]
    message = {"role": "assistant", "content": said[: ends[min(longest, len(ends)) - 1]]}
    finish = "length" if len(ends) > longest else "stop"
    given = min(len(ends), longest)
    return {
        "object": "chat.completion",
        "model": model.reports or name,
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {"prompt_tokens": taken, "completion_tokens": given, "total_tokens": taken + given},
    }


def answer(contents: Sequence[str], rng: random.Random, held: bool) -> str:
    """Returns what a model says to messages; unless it is `held` to JSON, some answers are fenced or broken."""
    said = next((each for each in contents if each.startswith(("The declaration `", "Query:"))), contents[-1])
    named = re.match("The declaration `(.*?)`", said)  # in the prompt `informalise`; the other prompt is `augment`
    value = _informal_answer(named[1], said, rng) if named else _augmented_answer(said, rng)
    written = json.dumps(value, ensure_ascii=False)
    if not held and rng.random() < FAULTY:
        return written[:-1]
    return f"```json\n{written}\n```" if not held and rng.random() < FENCED else written


def _informal_answer(name: str, said: str, rng: random.Random) -> dict[str, str]:
    """Returns what the stand-in of a model answers to the prompt `informalise`: name and statement."""
    words = [part.lower() for part in _IDENTIFIER.findall(name)] or ["statement"]
    about = " ".join(rng.choices(sorted(set(_WORD.findall(said))), k=12))
    statement = f"Let $x$ be given. Then the {' '.join(words)} holds: {about}, that is $x = x$."
    return {"name": " ".join(words).capitalize(), "statement": statement}


def _augmented_answer(said: str, rng: random.Random) -> dict[str, str]:
    """Returns what the stand-in of a model answers to the prompt `augment`: name, statement and Lean for a query."""
    query = said.split("\n\nAnswer with", 1)[0].removeprefix("Query:").removesuffix("Answer:").strip()
    words = re.findall("[a-z]{3,}", query.lower())[:5] or ["identity"]
    proof = " := by\n  rfl" if rng.random() < FENCED else ""  # the prompt forbids one; models give it all the same
    lean = f"theorem {'_'.join(words)} (n : ℕ) (h : 0 < n) : n = n{proof}"
    statement = f"Let $n$ be a positive integer. Then {query}."
    return {"name": " ".join(words).capitalize(), "statement": statement, "lean": lean}


def _parse_object(data: bytes) -> dict[str, Any]:
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise RefusedCallError(400, "We could not parse the JSON body of your request.")
    return body


def _served_model(body: Mapping[str, Any], known: frozenset[str], embeds: bool) -> tuple[str, ServedModel]:
    name = body.get("model")
    model = MODELS.get(name) if isinstance(name, str) else None
    if not isinstance(name, str) or model is None or bool(model.dimensions) != embeds:
        said = f"The model `{name}` does not exist, cannot do this, or you do not have access to it."
        raise RefusedCallError(404, said, "model_not_found")
    for key in body:
        _check(key in known, f"Unrecognized request argument supplied: {key}", "unknown_parameter")
    return name, model


def _check_length(taken: int, model: ServedModel) -> None:
    said = f"This model's maximum context length is {model.context} tokens, however you requested {taken} tokens."
    _check(taken <= model.context, said, "context_length_exceeded")
