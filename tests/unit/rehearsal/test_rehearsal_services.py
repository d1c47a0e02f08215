"""The stand-in for services, asked by the harness's own client and read by its own readers of answers."""

from __future__ import annotations

import base64
import http.client
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
import yaml
from case_tables import literals

from harness.collections.corpora import load_corpus
from harness.errors import HarnessError
from harness.io import config
from harness.io.checks import typed
from harness.rehearsal import services
from harness.rehearsal.services import MODELS, overlay, serving, vector
from harness.store.llm import Client, Endpoint
from harness.systems.theorems.informalise import DeclarationColumns, informal

pytest.importorskip("openai", reason="openai is not installed")

EMBEDDERS = ("gemini-embedding-001", "gemini-embedding-2", "openai-3-large", "openai-3-small", "openai-ada-002")
CHATS = ("openai-gpt-3.5", "openai-gpt-4")


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a key of the rehearsal")
    monkeypatch.setenv("GEMINI_API_KEY", "another key of the rehearsal")
    monkeypatch.delenv("HARNESS_OFFLINE", raising=False)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving(7) as found:
        yield found


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


def test_the_overlay_changes_address_and_limits_of_each_endpoint() -> None:
    files = overlay("http://127.0.0.1:1/v1")
    assert sorted(files) == sorted((*EMBEDDERS, *CHATS))
    for name, text in files.items():
        ours, theirs = typed(Endpoint, {**config.load("llm", name)[0], "name": name}, name), yaml.safe_load(text)
        same = replace(ours, url="http://127.0.0.1:1/v1", requests_per_minute=None, tokens_per_minute=None)
        assert typed(Endpoint, {**theirs, "name": name}, name) == same
        assert ours.model in MODELS


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


@pytest.mark.slow
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


def test_answers_are_decided_by_the_seed_and_some_are_bad() -> None:
    body = {"model": "gpt-3.5-turbo-16k", "messages": [{"role": "user", "content": "Query: what is a group?"}]}
    texts = [services.chat(seed, body)["choices"][0]["message"]["content"] for seed in range(200)]
    assert texts[0] == services.chat(0, body)["choices"][0]["message"]["content"]
    assert 2 <= sum(not text.endswith(("}", "```")) for text in texts) <= 15
    assert 8 <= sum(text.startswith("```json\n") for text in texts) <= 40
    assert json.loads(texts[0].strip("`").removeprefix("json"))["name"] == "What group"


# ---- refusals ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "body", "status", "said"),
    [
        *literals("rehearsal/refusals"),
        ("/v1/embeddings", {"model": "text-embedding-3-small", "input": ["x"] * 2049}, 400, "2048"),
        ("/v1/embeddings", {"model": "text-embedding-3-small", "input": "x " * 8193}, 400, "context_length_exceeded"),
        ("/v1/embeddings", {"model": "text-embedding-3-small", "input": ["x " * 8000] * 38}, 400, "max_tokens_per"),
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
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": 128_000}, "context_length_exceeded"),
        ({"stream": True}, "stream"),
        ({"response_format": {"type": "json_object"}}, "word 'json'"),
        ({"response_format": {"type": "json_schema"}}, "not supported"),
    ],
)
def test_parameters_that_are_refused(url: str, more: dict[str, Any], said: str) -> None:
    body = {"model": "gpt-4-0125-preview", "messages": [{"role": "user", "content": "x"}], **more}
    status, _, reply = asked(url, "/v1/chat/completions", body)
    assert (status, said in json.dumps(reply, ensure_ascii=False)) == (400, True)


def test_keys_and_models(url: str, tmp_path: Path) -> None:
    for told in ("", "Bearer "):
        status, _, reply = asked(url, "/v1/embeddings", {"model": "text-embedding-3-small"}, authorization=told)
        assert (status, reply["error"]["code"]) == (401, "invalid_api_key")
    with pytest.raises(HarnessError, match="has no model 'lost'"):
        client("openai-3-small", url, tmp_path, model="lost").embed(["x"])


def test_an_answer_is_cut_at_its_most_tokens() -> None:
    body = {"model": "gpt-4-0125-preview", "messages": [{"role": "user", "content": "Query: a"}], "max_tokens": 3}
    reply = services.chat(1, body)
    assert [each["finish_reason"] for each in reply["choices"]] == ["length"]
    assert reply["usage"]["completion_tokens"] == 3
    assert reply["usage"]["total_tokens"] == reply["usage"]["prompt_tokens"] + 3
