"""Single calls to an endpoint through the package `openai`: what is sent, kinds of errors, checks of the answers."""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from threading import Thread
from time import monotonic
from typing import TYPE_CHECKING, Any, NoReturn

from harness.errors import HarnessError, printable_line, shortened
from harness.store.llm.answer_cache import Reply
from harness.store.llm.endpoint import Ask, Endpoint, Message
from harness.store.llm.limits import retry_after

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

_AGAIN = (408, 409, 425, 429)  # and 500 up
_HIDDEN = 8  # minimum length of a key to redact it in answers; shorter keys may be words of the answer
_DATED = re.compile(r"(?:-\d{4}|-\d{8}|-\d{4}-\d\d-\d\d|-v\d+)?")  # what servers put after the name of a model
# Error codes of requests that a server always refuses.
_REFUSED = (
    "context_length_exceeded",
    "exceed_context_size_error",
    "string_above_max_length",
    "content_filter",
    "content_policy_violation",
)
_EXHAUSTED = ("insufficient_quota", "billing_hard_limit_reached")
_SAID = 200  # maximum number of characters quoted from a server
_MOST = 1 << 28  # maximum number of bytes of an answer
_MOST_TOKENS = 1 << 40  # maximum plausible token count
_SPARE = 0.5  # seconds after the time-out in which the library may still raise a more precise error


class BrokenError(Exception):
    """A call failed without an answer, and may be retried.

    Attributes
    ----------
    after : seconds to wait, if requested by the server.
    charged : whether the endpoint may charge for it.
    """

    def __init__(self, reason: str, after: float | None = None, charged: bool = False) -> None:
        super().__init__(reason)
        self.after, self.charged = after, charged


class RefusedError(HarnessError):
    """The server refused a request by an error status, which costs nothing, and would again."""


class Wire:
    """Connection to an endpoint; thread-safe.

    Raises
    ------
    HarnessError
        The package or the key is missing, or `HARNESS_OFFLINE` forbids the network.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        if lacking := endpoint.missing():
            raise HarnessError(f"endpoint {endpoint.name}: {lacking[0]}")
        if os.environ.get("HARNESS_OFFLINE", "0") not in ("", "0") and not endpoint.local:
            raise HarnessError(f"endpoint {endpoint.name}: HARNESS_OFFLINE forbids the network")
        import openai

        def bound(response: Any) -> None:  # noqa: ANN401  (of httpx, or of httpx2)
            response.stream = _bounded(response.stream, endpoint.timeout)

        self._key = os.environ[endpoint.key].strip() if endpoint.key else ""
        if not (self._key.isascii() and self._key.isprintable()):
            raise HarnessError(f"endpoint {endpoint.name}: {endpoint.key} holds no key: it has unprintable characters")
        self._client = openai.OpenAI(
            api_key=self._key or "none",
            base_url=endpoint.address,
            timeout=endpoint.timeout,
            max_retries=0,
            http_client=openai.DefaultHttpxClient(event_hooks={"response": [bound]}),
        )

    def close(self) -> None:
        """Ends the connections."""
        self._client.close()

    def chat(self, request: Mapping[str, Any]) -> Reply:
        """Returns the answer to a conversation.

        Raises
        ------
        BrokenError
            There is no answer now, but a retry may succeed.
        HarnessError
            A retry cannot succeed: the key is refused, or the model is unknown or not the requested one.
        """
        more = dict(request["parameters"]) | _format_parameters(request)
        create = self._client.chat.completions.with_streaming_response.create
        call = partial(create, model=request["model"], messages=request["messages"], extra_body=more)
        body = self._send(call)
        if isinstance(body, Reply):
            return body
        try:
            choice = body["choices"][0]
            text = choice["message"].get("content") or choice["message"].get("refusal") or ""
            finish = str(choice.get("finish_reason") or "stop")
            if not isinstance(text, str):
                raise TypeError
        except (LookupError, TypeError, AttributeError):
            raise BrokenError("an answer without choices", charged=True) from None
        tokens_in, tokens_out = self._usage(body, "prompt_tokens", "completion_tokens")
        return Reply(self._text(text), "", self._text(str(body["model"])), self._text(finish), tokens_in, tokens_out)

    def vectors(self, requests: Sequence[Mapping[str, Any]]) -> list[Reply]:
        """Returns the embeddings of texts, in one request; raises the errors of `chat`."""
        import numpy as np

        texts = [str(request["input"]) for request in requests]
        call = partial(
            self._client.embeddings.with_streaming_response.create,
            model=requests[0]["model"],
            input=texts,
            encoding_format="float",
            extra_body=dict(requests[0]["parameters"]),
        )
        body = self._send(call)
        if isinstance(body, Reply):
            raise HarnessError(f"endpoint {self._endpoint.name}: refuses a text of this request: {body.text}")
        try:
            embeddings = {int(each["index"]): each["embedding"] for each in body["data"]}
            raw = [embeddings[i] for i in range(len(texts))]
            rows = [
                np.frombuffer(base64.b64decode(row, validate=True), "<f4")
                if isinstance(row, str)
                else np.array(row, "<f4")
                for row in raw
            ]
            if len({row.shape for row in rows}) != 1 or rows[0].ndim != 1 or not rows[0].size:
                raise ValueError
            if not all(np.isfinite(row).all() for row in rows):
                raise ValueError
        except (LookupError, TypeError, ValueError, AttributeError):
            raise BrokenError("an answer without a vector for each text", charged=True) from None
        total, _ = self._usage(body, "prompt_tokens", "")
        shares = _shares(total, [len(text.encode()) for text in texts])
        kept = [base64.b64encode(row.tobytes()).decode() for row in rows]
        model = self._text(str(body["model"]))
        return [Reply("", vector, model, "stop", tokens) for vector, tokens in zip(kept, shares, strict=True)]

    def _usage(self, body: Mapping[str, Any], *names: str) -> tuple[int, int]:
        """Returns the token counts reported by the server, which are required unless tokens are free."""
        usage = body.get("usage")
        counts = [usage.get(name, 0) if name and isinstance(usage, Mapping) else 0 for name in names]
        free = not (self._endpoint.price_in or self._endpoint.price_out)
        whole = isinstance(usage, Mapping) and all(type(n) is int and 0 <= n <= _MOST_TOKENS for n in counts)
        if not whole and not free:
            raise HarnessError(
                f"endpoint {self._endpoint.name}: answers without 'usage', so what they cost cannot be counted"
            )
        return (counts[0], counts[1]) if whole else (0, 0)

    def _send(self, call: Callable[[], AbstractContextManager[Any]]) -> dict[str, Any] | Reply:
        """Returns the body of an answer."""
        import openai

        try:
            data = self._whole(call)
        except BrokenError:
            raise
        except openai.APIStatusError as error:
            return self._status(error.status_code, dict(error.response.headers), error.body)
        except openai.APITimeoutError as error:
            never = "Connect" in type(error.__cause__).__name__
            raise BrokenError(f"no answer within {self._endpoint.timeout:g} s", charged=not never) from None
        except openai.APIConnectionError as error:
            never = "Connect" in type(error.__cause__).__name__
            raise BrokenError(self._clean(f"no connection: {error.__cause__ or error}"), charged=not never) from None
        except openai.OpenAIError as error:
            raise HarnessError(f"endpoint {self._endpoint.name}: {self._clean(error)}") from None
        except Exception as error:  # of whichever library reads the body
            raise BrokenError(self._clean(f"an answer cut short: {error}"), charged=True) from None
        try:
            body = json.loads(data)
        except (ValueError, RecursionError):
            raise BrokenError("an answer that is not valid JSON", charged=True) from None
        if not isinstance(body, dict):
            raise BrokenError("an answer that is not a JSON object", charged=True)
        if "model" not in body:
            raise BrokenError("an answer that names no model", charged=True)
        self._check_model(str(body["model"]))
        return body

    def _whole(self, call: Callable[[], AbstractContextManager[Any]]) -> bytes:
        """Returns the content of an answer within the time-out.

        The library's time-out restarts with each part of the headers, so a slow server would never time out. Therefore
        the call runs in a thread, which is abandoned after the time-out and ends with its connection.
        """
        made = Future[bytes]()

        def work() -> None:
            try:
                with call() as response:
                    made.set_result(b"".join(response.iter_bytes()))
            except BaseException as error:  # raised again where it is waited for
                made.set_exception(error)

        Thread(target=work, daemon=True).start()
        try:
            return made.result(self._endpoint.timeout + _SPARE)
        except TimeoutError:
            if made.done():  # one of the call's own
                raise
            raise BrokenError(f"no whole answer within {self._endpoint.timeout:g} s", charged=True) from None

    def _check_model(self, actual: str) -> None:
        model, reports = self._endpoint.model, self._endpoint.reports
        name = reports or model
        if not (actual.startswith(name) and _DATED.fullmatch(actual, len(name))):
            where = f"endpoint {self._endpoint.name} ({self._endpoint.address})"
            raise HarnessError(
                f"{where}: answers as model {self._clean(actual)!r}, expected {reports or model!r}; "
                "serve that one, or say its other name in the key 'reports'"
            )

    def _status(self, status: int, headers: Mapping[str, str], body: object) -> Reply:
        """Handles an error status: raises an error, or returns the reply that the request is refused."""
        about = body if isinstance(body, Mapping) else {}
        codes = {str(about.get("code")), str(about.get("type"))}
        said = self._clean(about.get("message") or body or "")
        where = f"endpoint {self._endpoint.name}"
        if codes.intersection(_REFUSED):
            return Reply(f"{status}: {said}", finish="refused")
        if status in (401, 403):
            key = f"the key in {self._endpoint.key}" if self._endpoint.key else "a call without a key"
            raise RefusedError(f"{where}: {self._endpoint.address} refuses {key} ({status}): {said}")
        if codes.intersection(_EXHAUSTED):
            raise RefusedError(f"{where}: the account has nothing left ({status}): {said}")
        if status in _AGAIN or status >= 500:
            raise BrokenError(f"{status}: {said}", retry_after({k.lower(): v for k, v in headers.items()}))
        if status == 404:
            raise RefusedError(f"{where}: {self._endpoint.address} has no model {self._endpoint.model!r} (404): {said}")
        raise RefusedError(f"{where}: the request was refused ({status}): {said}")

    def _clean(self, said: object) -> str:
        """Returns a foreign message shortened to part of one line, without the API key."""
        text = str(said)
        if self._key:
            text = text.replace(self._key, "[key]")
        return shortened(printable_line(" ".join(text.split())), _SAID)

    def _text(self, said: str) -> str:
        """Returns a text for the cache: without the API key, and encodable in UTF-8."""
        text = said.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return text.replace(self._key, "[key]") if len(self._key) >= _HIDDEN else text


def _bounded(stream: Any, seconds: float) -> Any:  # noqa: ANN401
    """Limits a response body of any status in total time and size, even if it arrives slowly."""
    end = monotonic() + seconds
    kind = next(each for each in type(stream).__mro__ if each.__name__ == "SyncByteStream")  # of httpx, or of httpx2

    def chunks(_: object) -> Iterator[bytes]:
        size = 0
        for chunk in stream:
            size += len(chunk)
            if monotonic() > end or size > _MOST:
                raise BrokenError(f"no whole answer within {seconds:g} s", charged=True)
            yield chunk

    return type("Bounded", (kind,), {"__iter__": chunks, "close": lambda _: stream.close()})()


def _format_parameters(request: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the request parameters that specify the format of the answer."""
    schema, schemas = request.get("schema"), request.get("schemas")
    if schema is None or schemas == "none":
        return {}
    if schemas == "json_schema":
        return {"response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}}
    with_schema = {"schema": schema} if schemas == "llama" else {}
    return {"response_format": {"type": "json_object", **with_schema}}


def _shares(total: int, sizes: Sequence[int]) -> list[int]:
    """Divides a count in proportion to sizes, so that the shares add up to it.

    >>> _shares(10, [1, 1, 2])
    [2, 3, 5]
    """
    whole = max(sum(sizes), 1)
    ends = [total * sum(sizes[: i + 1]) // whole for i in range(len(sizes))]
    return [end - begin for begin, end in zip([0, *ends], ends, strict=False)]


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
