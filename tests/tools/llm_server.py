"""An endpoint on loopback that counts what it is asked, and fails in the ways that endpoints fail."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Lock, Thread
from time import monotonic
from typing import Any

from harness.store.artefacts import key
from harness.store.llm import Endpoint

RETRY_AFTER = 0.3  # seconds
_PIECES = re.compile(r"[A-Za-z]{1,5}|\d{1,3}|\s+(?=\s)|[^\sA-Za-z\d]")
REFUSALS: dict[str, tuple[int, dict[str, Any]]] = {
    "401": (401, {"code": "invalid_api_key"}),
    "404": (404, {"code": "model_not_found"}),
    "400": (400, {"code": "unknown_parameter"}),
    "too long": (400, {"code": "context_length_exceeded"}),
    "no money": (429, {"code": "insufficient_quota"}),
    "500": (500, {}),
    "429": (429, {}),
}

CHANGED: dict[str, dict[str, Any]] = {"wrong model": {"model": "other-2"}, "no choices": {"choices": []}}
FINISHED = {"cut": "length", "filtered": "content_filter"}


def tokens(text: str) -> int:
    """How this endpoint counts: pieces of words, digits and signs."""
    return len(_PIECES.findall(text))


class Server:
    """What the tests look at and set.

    Attributes
    ----------
    faults : what becomes of the next requests, in the order in which they come; those after them are answered.
    answer : the text that answers a request's body.
    asked : bodies by their keys, and how often each came; `bodies`: as they came.
    charged : how often a body was answered as a whole; cost and tokens of these answers are the server's own count.
    impatient : requests that came before `Retry-After` was over.
    told : the keys that were sent.
    written : how an answer's body is written; `retry_after`: the header that goes with "429".
    """

    def __init__(self) -> None:
        self.faults: list[str] = []
        self.answer: Callable[[dict[str, Any]], str] = lambda body: f"to {body['messages'][-1]['content']}"
        self.on_request: Callable[[int], None] = lambda number: None
        self.bodies: list[dict[str, Any]] = []
        self.asked: Counter[str] = Counter()
        self.charged: Counter[str] = Counter()
        self.tokens_in = self.tokens_out = self.impatient = 0
        self.told: set[str] = set()
        self.written: Callable[[dict[str, Any]], bytes] = lambda reply: json.dumps(reply).encode()
        self.retry_after = str(RETRY_AFTER)
        self.url = ""
        self.ended, self.lock = Event(), Lock()
        self.rest_until = 0.0

    def endpoint(self, **settings: object) -> Endpoint:
        """An endpoint that leads here."""
        parameters = {"max_tokens": 100}
        given: dict[str, Any] = {"parameters": parameters, "price_in": 10.0, "price_out": 30.0, "timeout": 60.0}
        return Endpoint(**{"name": "loopback", "model": "tiny-1", "url": self.url, **given, **settings})

    def take(self, body: dict[str, Any], told: str) -> str:
        """Note a request; what becomes of it."""
        with self.lock:
            self.bodies.append(body)
            self.asked[key(body)] += 1
            self.told.add(told)
            self.impatient += monotonic() < self.rest_until
            number, fault = len(self.bodies), self.faults.pop(0) if self.faults else "good"
        self.on_request(number)
        return fault

    def reply(self, body: dict[str, Any]) -> dict[str, Any]:
        """The answer to a request, counted."""
        with self.lock:
            self.charged[key(body)] += 1
            if "input" in body:
                taken = sum(tokens(text) for text in body["input"])
                rows = [{"index": i, "embedding": vector(text)} for i, text in enumerate(body["input"])]
                self.tokens_in += taken
                return {"model": body["model"], "data": rows[::-1], "usage": {"prompt_tokens": taken}}
            taken = 3 + sum(4 + tokens(message["content"]) for message in body["messages"])
            text = self.answer(body)
            given = tokens(text)
            self.tokens_in, self.tokens_out = self.tokens_in + taken, self.tokens_out + given
            choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
            usage = {"prompt_tokens": taken, "completion_tokens": given}
            return {"model": body["model"], "choices": [choice], "usage": usage}


def vector(text: str) -> list[float]:
    """What stands for the vector of a text."""
    return [float(len(text)), 0.1, float(sum(map(ord, text)) % 97)]


@contextmanager
def serving() -> Iterator[Server]:
    """A server on a port of its own, for as long as the block lasts."""
    server = Server()
    http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(server))
    http.daemon_threads = True
    server.url = f"http://127.0.0.1:{http.server_port}/v1"
    Thread(target=lambda: http.serve_forever(poll_interval=0.02), daemon=True).start()
    try:
        yield server
    finally:
        server.ended.set()
        http.shutdown()
        http.server_close()


def _handler(server: Server) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            told = self.headers["authorization"].removeprefix("Bearer ")
            try:
                self.act(server.take(body, told), body, told)
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True

        def act(self, fault: str, body: dict[str, Any], told: str) -> None:
            if fault in REFUSALS:
                status, about = REFUSALS[fault]
                data = json.dumps({"error": {**about, "message": f"refused, with {told}"}}).encode()
                if fault == "429":
                    with server.lock:
                        server.rest_until = monotonic() + RETRY_AFTER
                self.start(status, len(data), fault == "429")
                self.wfile.write(data)
                return
            if fault == "drip 500":
                self.start(500, 1000)
                self.drip(b" " * 1000)
                return
            if fault == "timeout":
                server.ended.wait(60)
                return
            if fault == "drip head":
                self.drip(b"HTTP/1.1 200 OK\r\nx-slow: " + b"a" * 1000)
                return
            reply = server.reply(body)
            reply |= CHANGED.get(fault, {})
            if fault == "no usage":
                del reply["usage"]
            if fault in FINISHED:
                reply["choices"][0]["finish_reason"] = FINISHED[fault]
            data = server.written(reply)
            if fault == "broken":
                data = data[: len(data) // 2]
            self.start(200, len(data))
            if fault == "half":
                self.wfile.write(data[: len(data) // 2])
                self.close_connection = True
            elif fault == "drip":
                self.drip(data)
            else:
                self.wfile.write(data)

        def drip(self, data: bytes) -> None:
            for i in range(len(data)):
                self.wfile.write(data[i : i + 1])
                self.wfile.flush()
                if server.ended.wait(0.05):
                    return

        def start(self, status: int, length: int, rest: bool = False) -> None:
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(length))
            if rest:
                self.send_header("retry-after", server.retry_after)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    return Handler
