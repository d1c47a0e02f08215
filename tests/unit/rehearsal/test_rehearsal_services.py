"""The stand-in for services, asked by the harness's own client and read by its own readers of answers."""

from __future__ import annotations

import base64
import http.client
import json
import re
import socket
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import active_count
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
import yaml

from harness.collections.corpora import load_corpus
from harness.collections.load import load_collection
from harness.errors import HarnessError
from harness.io import config
from harness.io.checks import typed
from harness.papers.saber import model
from harness.papers.saber.databank import MathProblem
from harness.papers.saber.dollars import without_dollars
from harness.papers.saber.judges import CandidatePair, LanguageModel
from harness.papers.saber.ontology import Ontology
from harness.rehearsal import services
from harness.rehearsal.services import MODELS, overlay, serving, vector
from harness.store.llm import Ask, Client, Endpoint, Message
from harness.systems.theorems.augment import augmented
from harness.systems.theorems.informalise import DeclarationColumns, informal

pytest.importorskip("openai", reason="openai is not installed")

EMBEDDERS = ("gemini-embedding-001", "gemini-embedding-2", "openai-3-large", "openai-3-small", "openai-ada-002")
CHATS = ("openai-gpt-3.5", "openai-gpt-4")
WORDS = ("prime", "divisor", "triangle", "circle", "integer", "polynomial", "sequence", "limit", "matrix", "graph")
PROBLEMS = {
    f"p{n}": MathProblem(
        f"p{n}",
        f"Find the {WORDS[n % 10]} \\(x_{n}\\) of the {WORDS[(n + 3) % 10]}.",
        f"Look at the {WORDS[n % 10]}. If the radius r is {n}, then the {WORDS[(n * 7 + 1) % 10]} is $x^2$.",
    )
    for n in range(40)
}


def topic(title: str, *links: dict[str, Any]) -> dict[str, Any]:
    return {"title": title, "links": list(links)}


TREE = topic(
    "Mathematics",
    topic("Algebra", topic("Polynomial"), topic("Matrix")),
    topic("Geometry", topic("Triangle"), topic("Circle")),
    topic("Primes"),
)


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a key of the rehearsal")
    monkeypatch.setenv("GEMINI_API_KEY", "another key of the rehearsal")
    monkeypatch.delenv("HARNESS_OFFLINE", raising=False)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving(7) as found:
        yield found


@pytest.fixture(scope="module")
def files() -> dict[str, str]:
    return overlay("http://127.0.0.1:1/v1")


def endpoint(name: str, url: str, **more: object) -> Endpoint:
    mapping = yaml.safe_load(overlay_text(name, url))
    return typed(Endpoint, {**mapping, **more, "name": name}, name)


def overlay_text(name: str, url: str) -> str:
    mapping, _ = config.load("llm", name)
    return yaml.safe_dump({**mapping, "url": url, "requests_per_minute": None, "tokens_per_minute": None})


def client(name: str, url: str, tmp_path: Path, **more: object) -> Client:
    return Client(endpoint(name, url, **more), cache=tmp_path)


def asked(url: str, path: str, body: object, **headers: str) -> tuple[int, dict[str, Any], Any]:
    """Status, headers and body of what the server answers to a request that is written by hand."""
    parts = urlsplit(url)
    line = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=10)
    try:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        line.request("POST", path, data, {"authorization": "Bearer k", **headers})
        reply = line.getresponse()
        return reply.status, dict(reply.headers), json.loads(reply.read())
    finally:
        line.close()


# ---- configurations ---------------------------------------------------------------------------------------------


def test_the_overlay_has_the_endpoints_that_systems_name(files: dict[str, str]) -> None:
    assert sorted(files) == sorted((*EMBEDDERS, *CHATS))
    for name, text in files.items():
        ours, theirs = typed(Endpoint, {**config.load("llm", name)[0], "name": name}, name), yaml.safe_load(text)
        same = replace(ours, url="http://127.0.0.1:1/v1", requests_per_minute=None, tokens_per_minute=None)
        assert typed(Endpoint, {**theirs, "name": name}, name) == same
        assert ours.model in MODELS


def test_every_model_of_a_configuration_is_known() -> None:
    named = {str(config.load("llm", name)[0]["model"]) for name in config.names("llm") if name != "local"}
    assert named <= set(MODELS)


# ---- vectors ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", EMBEDDERS)
def test_vectors_through_the_client(name: str, url: str, tmp_path: Path) -> None:
    texts = ["roots of unity", "the roots of unity", "a right angle $\\alpha$"]
    one = client(name, url, tmp_path)
    found = one.embed(texts)
    facts = MODELS[one.endpoint.model]
    assert found.shape == (3, facts.dimensions)
    assert np.abs(np.linalg.norm(found, axis=1) - 1).max() < 1e-5
    assert found[0] @ found[1] > 0.7
    assert abs(found[0] @ found[2]) < 0.3
    assert one.spent.tokens_in == sum(map(services.tokens, texts))
    assert (found[0] == vector(7, one.endpoint.model, texts[0], facts.dimensions)).all()


def test_vectors_depend_on_seed_and_model_alone() -> None:
    a = vector(1, "text-embedding-3-large", "x y", 3072)
    assert (a == vector(1, "text-embedding-3-large", "x y", 3072)).all()
    for other in (vector(2, "text-embedding-3-large", "x y", 3072), vector(1, "gemini-embedding-2", "x y", 3072)):
        assert abs(a @ other) < 0.2
    assert abs(np.linalg.norm(vector(1, "text-embedding-3-small", "", 5)) - 1) < 1e-6


def test_fewer_dimensions_and_base64(url: str) -> None:
    body = {"model": "text-embedding-3-large", "input": "x y", "dimensions": 256}
    _, _, plain = asked(url, "/v1/embeddings", body)
    _, _, packed = asked(url, "/v1/embeddings", {**body, "encoding_format": "base64"})
    row = np.frombuffer(base64.b64decode(packed["data"][0]["embedding"]), "<f4")
    assert row.shape == (256,)
    assert (row == np.array(plain["data"][0]["embedding"], np.float32)).all()
    assert abs(np.linalg.norm(row) - 1) < 1e-5
    full = vector(7, "text-embedding-3-large", "x y", 3072)[:256]
    assert np.allclose(row, full / np.linalg.norm(full))


# ---- answers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [pytest.param("openai-gpt-3.5", marks=pytest.mark.slow), "openai-gpt-4"])
def test_declarations_in_prose(name: str, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    corpus = load_corpus("mini-theorems")
    one = client(name, url, tmp_path)
    found = informal(corpus, one, columns=DeclarationColumns(statement="formal"))
    wanted = sum(1 for document in corpus if document.columns["formal"].strip())
    assert len(found) == wanted
    assert all(each.name and "$x = x$" in each.statement for each in found.values())
    assert one.spent.calls >= wanted
    assert one.spent.cost > 0


@pytest.mark.slow
def test_queries_as_theorems(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    topics = load_collection("mini-theorems").topics()
    found = augmented(topics, client("openai-gpt-4", url, tmp_path))
    assert len(found) == len(topics)
    assert all(re.fullmatch(r"theorem \w+ \(n : ℕ\) \(h : 0 < n\) : n = n", each.formal) for each in found.values())


@pytest.mark.slow
@pytest.mark.parametrize("explain", [True, False])
def test_judgments(url: str, tmp_path: Path, explain: bool) -> None:
    names = list(PROBLEMS)
    pairs = [CandidatePair(names[0], a, b) for a in names[1:20] for b in names[20:24]]
    judge = LanguageModel(client("openai-gpt-4", url, tmp_path), PROBLEMS, explain)
    found = judge.prefer(pairs)
    assert set(found) - {0} == {1, 2}
    assert found.count(0) <= 2  # asked twice, each time with a share of bad answers
    assert judge.client.spent.calls > len(pairs)  # some were asked again
    assert judge.prefer(pairs) == found


@pytest.mark.slow
def test_annotations(url: str, tmp_path: Path) -> None:
    ontology = Ontology.of(TREE)
    one = client("openai-gpt-4", url, tmp_path)
    found = list(model.annotated(list(PROBLEMS.values()), ontology, one, 0.85))
    assert [name for name, _, _ in found] == list(PROBLEMS)
    assert sum((counts for _, _, counts in found), Counter())["bad answers on ideas"] == 0
    cores = [each.core for _, each, _ in found]
    assert None in cores
    assert all(len(core.split()) <= model.MOST_WORDS for core in cores if core)
    tags = Counter(tag for _, each, _ in found for tag in each.tags)
    assert tags.keys() >= {"Algebra", "Geometry", "Primes"}
    assert any("/" in tag for tag in tags)  # some walks go down, some do not
    assert any(not any("/" in tag for tag in each.tags) for _, each, _ in found)


@pytest.mark.slow
def test_mathematics_in_dollars(url: str, tmp_path: Path) -> None:
    done, counts = model.rewriter(client("openai-gpt-4", url, tmp_path))(list(PROBLEMS.values()))
    assert counts["texts rewritten by the model"] > 60
    assert 0 < counts["bad answers, rewritten by rule"] < 15
    for before, after in zip(PROBLEMS.values(), done, strict=True):
        assert without_dollars(before.solution) == without_dollars(after.solution)
    assert "$r$" in done[0].solution


@pytest.mark.slow
def test_any_schema_in_each_form(url: str, tmp_path: Path) -> None:
    schema = {
        "type": "object",
        "properties": {
            "grade": {"type": "integer", "minimum": 0, "maximum": 3},
            "label": {"enum": ["good", "bad"]},
            "parts": {"type": "array", "minItems": 1, "items": {"type": "string", "minLength": 1}},
            "sure": {"type": ["boolean", "null"]},
        },
        "required": ["grade", "label", "parts", "sure"],
        "additionalProperties": False,
    }
    asks = [Ask((Message("user", f"Grade answer {n} of the exam."),), schema) for n in range(8)]
    for schemas, name in (("json_schema", "gpt-4o"), ("json_object", "gpt-4o"), ("none", "gpt-3.5-turbo-16k")):
        one = client("openai-gpt-4", url, tmp_path, schemas=schemas, model=name)
        found = one.ask(asks)
        assert [answer.failed for answer in found] == [""] * 8, schemas
        assert len({answer.text for answer in found}) > 1


def test_answers_repeat(url: str, tmp_path: Path) -> None:
    ask = Ask((Message("user", "What is a group?"),))
    found = [client("openai-gpt-4", url, tmp_path / str(n)).ask([ask])[0].text for n in range(2)]
    assert found[0] == found[1] != ""
    with serving(8) as other:
        assert client("openai-gpt-4", other, tmp_path / "other").ask([ask])[0].text != found[0]


# ---- refusals ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "body", "status", "said"),
    [
        ("/v1/embeddings", {"model": "lost", "input": "x"}, 404, "model_not_found"),
        ("/v1/chat/completions", {"model": "lost", "messages": []}, 404, "model_not_found"),
        ("/v1/chat/completions", {"model": ["gpt-4o"], "messages": []}, 404, "model_not_found"),
        ("/v1/embeddings", {"model": "gpt-4o", "input": "x"}, 403, "not allowed"),
        ("/v1/chat/completions", {"model": "text-embedding-3-small", "messages": []}, 404, "not a chat model"),
        ("/v1/completions", {"model": "gpt-4o"}, 404, "Invalid URL"),
        ("/chat/completions", {"model": "gpt-4o"}, 404, "Invalid URL"),
        ("/v1/embeddings", b"{", 400, "JSON"),
        ("/v1/embeddings", b"[1]", 400, "JSON"),
        ("/v1/embeddings", {"model": "text-embedding-3-small", "input": ""}, 400, "input"),
        ("/v1/embeddings", {"model": "text-embedding-3-small", "input": ["x"] * 2049}, 400, "2048"),
        ("/v1/embeddings", {"model": "text-embedding-3-small", "input": "x " * 8193}, 400, "context_length_exceeded"),
        ("/v1/embeddings", {"model": "text-embedding-3-small", "input": ["x " * 8000] * 38}, 400, "max_tokens_per"),
        ("/v1/embeddings", {"model": "text-embedding-3-small", "input": "x", "dimensions": 1537}, 400, "1536"),
        ("/v1/embeddings", {"model": "text-embedding-ada-002", "input": "x", "dimensions": 8}, 400, "dimensions"),
        ("/v1/embeddings", {"model": "text-embedding-3-small", "input": "x", "prompt": 1}, 400, "unknown_parameter"),
        ("/v1/embeddings", {"model": "text-embedding-3-small", "input": "x", "encoding_format": 1}, 400, "base64"),
        ("/v1/chat/completions", {"model": "gpt-4o", "messages": []}, 400, "messages"),
        ("/v1/chat/completions", {"model": "gpt-4o", "messages": [{"role": "user", "content": 1}]}, 400, "content"),
        ("/v1/chat/completions", {"model": "gpt-4o", "messages": [{"role": "x", "content": "y"}]}, 400, "role"),
    ],
)
def test_refusals(url: str, path: str, body: object, status: int, said: str) -> None:
    found, _, reply = asked(url, path, body)
    assert found == status
    assert said in json.dumps(reply["error"])
    assert {"message", "type", "param", "code"} == reply["error"].keys()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"temperature": 3}, "temperature"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": 128_000}, "context_length_exceeded"),
        ({"stream": True}, "stream"),
        ({"response_format": {"type": "json_object"}}, "word 'json'"),
        ({"response_format": {"type": "json_schema"}}, "not supported"),
        ({"response_format": "json"}, "not supported"),
    ],
)
def test_parameters_that_are_refused(url: str, more: dict[str, Any], said: str) -> None:
    body = {"model": "gpt-4-0125-preview", "messages": [{"role": "user", "content": "x"}], **more}
    status, _, reply = asked(url, "/v1/chat/completions", body)
    assert (status, said in json.dumps(reply, ensure_ascii=False)) == (400, True)


def test_keys_models_and_sizes(url: str, tmp_path: Path) -> None:
    body = {"model": "text-embedding-3-small", "input": "x"}
    for told in ("", "Bearer ", "Basic k"):
        status, _, reply = asked(url, "/v1/embeddings", body, authorization=told)
        assert (status, reply["error"]["code"]) == (401, "invalid_api_key")
    status, headers, _ = asked(url, "/v1/embeddings", b"x" * (services.MOST_BYTES + 1))
    assert (status, headers["connection"]) == (413, "close")
    with pytest.raises(HarnessError, match="has no model 'lost'"):
        client("openai-3-small", url, tmp_path, model="lost").embed(["x"])
    with pytest.raises(HarnessError, match=r"has no model .*Invalid URL"):
        client("openai-3-small", url.removesuffix("/v1"), tmp_path).embed(["x"])


def test_an_answer_is_cut_at_its_most_tokens(url: str) -> None:
    body = {"model": "gpt-4o", "messages": [{"role": "user", "content": "What is a group?"}], "max_tokens": 3, "n": 2}
    _, _, reply = asked(url, "/v1/chat/completions", body)
    assert [each["finish_reason"] for each in reply["choices"]] == ["length"] * 2
    assert reply["usage"]["completion_tokens"] == 6
    assert reply["usage"]["total_tokens"] == reply["usage"]["prompt_tokens"] + 6


def test_a_request_without_its_length(url: str) -> None:
    parts = urlsplit(url)
    with socket.create_connection((str(parts.hostname), int(parts.port or 0)), timeout=10) as line:
        line.sendall(b"POST /v1/embeddings HTTP/1.1\r\nhost: x\r\n\r\n")
        assert line.recv(100).startswith(b"HTTP/1.1 411 ")


# ---- faults -----------------------------------------------------------------------------------------------------


def test_faults_that_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "STALL", 0.1)
    monkeypatch.setattr("harness.store.llm.limits.FIRST", 0.01)
    with serving(1, ["429", "500", "timeout", "cut"]) as url:
        one = client("openai-3-small", url, tmp_path, retries=4)
        assert one.embed(["x"]).shape == (1, 1536)
        assert one.spent.calls == 1
        assert one.spent.lost == 2  # the connection that ended and the body that was cut: they may be charged


def test_faults_that_stay(tmp_path: Path) -> None:
    ask = Ask((Message("user", "What is a group?"),))
    with serving(1, ["too long", "cut", "no usage", "too long"]) as url:
        one = client("openai-gpt-4", url, tmp_path)
        assert one.ask([ask])[0].failed.startswith("refused: 400")
        assert "cut off" in one.ask([Ask((Message("user", "What is a ring?"),))])[0].failed
        with pytest.raises(HarnessError, match="answers without 'usage'"):
            one.ask([Ask((Message("user", "What is a field?"),))])
        with pytest.raises(HarnessError, match="refuses a text"):
            client("openai-3-small", url, tmp_path).embed(["x"])


def test_a_wait_that_the_server_asks_for(tmp_path: Path) -> None:
    with serving(1, ["429"]) as url:
        status, headers, reply = asked(url, "/v1/embeddings", {"model": "text-embedding-3-small", "input": "x"})
        assert (status, headers["retry-after-ms"], headers["retry-after"]) == (429, "100", "1")
        assert reply["error"]["code"] == "rate_limit_exceeded"


def test_an_unknown_fault() -> None:
    with pytest.raises(HarnessError, match="fault '404' is unknown"), serving(1, ["404"]):
        pass


def test_the_server_ends_with_the_block(capfd: pytest.CaptureFixture[str]) -> None:
    before = active_count()
    with serving(1) as url:
        parts = urlsplit(url)
        idle = socket.create_connection((str(parts.hostname), int(parts.port or 0)), timeout=10)
        half = socket.create_connection((str(parts.hostname), int(parts.port or 0)), timeout=10)
        half.sendall(b"POST /v1/embeddings HTTP/1.1\r\ncontent-length: 100\r\n\r\n{")
        gone = socket.create_connection((str(parts.hostname), int(parts.port or 0)), timeout=10)
        gone.sendall(b"nonsense\r\n\r\n")
        gone.close()
    assert active_count() == before
    with pytest.raises(OSError, match="refused"):
        socket.create_connection((str(parts.hostname), int(parts.port or 0)), timeout=10)
    idle.close()
    half.close()
    assert capfd.readouterr() == ("", "")
