"""Vectors of an endpoint: asked for once, with the prefix of their role, and from what is kept without its key."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lexical_tools import rows_corpus
from llm_server import serving, vector
from refusals import refuses

from harness.data.topics import Topic, Topics
from harness.data.trec import Run
from harness.errors import HarnessError
from harness.store import artefacts
from harness.systems.base import Request
from harness.systems.build import build_system
from harness.systems.dense import encoder, models
from harness.systems.dense.documents import EncoderSource
from harness.systems.dense.encoder import EndpointCalls
from harness.systems.dense.engines import EncoderSettings

pytest.importorskip("openai", reason="openai is not installed")
LIVE = EndpointCalls("live")
Conf = Callable[[str, str, str], Path]
ENDPOINT = "title: T\nmodel: tiny-1\nurl: {url}\nprice_in: 1\nprice_out: 0\nkey: TINY_KEY\nbatch: 2\n"


def test_vectors_are_paid_for_once_and_repeat_without_a_key(conf: Conf, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = EncoderSettings(prefixes={"query": "Q: ", "document": "D: "}, normalise=True)
    texts = ["one", "three", "one"]
    expected = {text: np.array(vector(f"D: {text}")) for text in texts}
    with serving() as server:
        conf("llm", "tiny", ENDPOINT.format(url=server.url))
        monkeypatch.setenv("TINY_KEY", "secret")
        assert models.missing("tiny") == []
        loaded = encoder.load("tiny", settings, calls=LIVE)
        first = loaded.encode(texts)
        query = loaded.encode(["one"], "query")
        again = loaded.encode(texts[:2])
        assert sorted(text for body in server.bodies for text in body["input"]) == ["D: one", "D: three", "Q: one"]
        cut = EncoderSource("tiny", settings, "cpu", characters=6, calls=LIVE).load().encoded(texts, "document")
    for row, text in zip(first, texts, strict=True):
        assert row == pytest.approx(expected[text] / np.linalg.norm(expected[text]), abs=1e-6)
    assert not np.array_equal(query[0], first[0])
    assert np.array_equal(again, first[:2])
    assert cut.cut.tolist() == [False, True, False]
    monkeypatch.delenv("TINY_KEY")
    (line,) = models.missing("tiny")
    assert line.startswith("needs the model tiny: no key: set TINY_KEY")
    for calls in (None, LIVE):
        assert np.array_equal(encoder.load("tiny", settings, calls=calls).encode(texts), first)
    with pytest.raises(HarnessError, match=r"1 of 2 answers are not in .*: no key: set TINY_KEY") as error:
        encoder.load("tiny", settings, calls=LIVE).encode(["one", "four"])
    assert "secret" not in str(error.value)


TOPICS = Topics((Topic("T1", "three"), Topic("T2", "five")))


@pytest.mark.slow
def test_a_key_alone_pays_for_nothing_and_the_pipeline_hands_down_its_mode(
    conf: Conf, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TINY_KEY", "secret")
    rows = [{"id": f"d{n}", "kind": "theorem", "signature": f"theorem {n} {'abc' * n}"} for n in range(1, 31)]
    rows.append({"id": "x", "kind": "def", "signature": "x"})
    corpus = rows_corpus(tmp_path / "made.jsonl", rows, "id", "kind signature")
    request = Request(TOPICS, corpus, tmp_path / "workspace")
    inner: dict[str, Any] = {
        "_target_": "harness.systems.dense.bi_encoder.BiEncoder",
        "model": "tiny",
        "name": "inner",
        "calls": None,
    }
    inner |= {"parts": {"declaration": ["body"]}, "characters": 60}
    keys: dict[str, Any] = {"_target_": "harness.systems.theorems.pipeline.Pipeline", "llm": "tiny", "view": "formal"}
    keys |= {"augment": False, "kinds": ["theorem"], "query": ["title"], "system": inner, "name": "piped"}

    def run(mode: str, **more: object) -> Run:
        return build_system({**keys, "mode": mode, **more}, "here")(request)

    with serving() as server:
        conf("llm", "tiny", ENDPOINT.format(url=server.url))
        for searcher in (inner, {**inner, "calls": {"mode": "replay"}}):
            with pytest.raises(HarnessError, match=r"31 of 31 answers are not in .*: mode live asks for them"):
                build_system(searcher | {"parts": {"declaration": ["signature"]}}, "here")(request)
        refuses("30 of 30 answers are not in", lambda: run("replay"))
        refuses(r"dry run, nothing is searched: vectors of tiny 16 calls, \d+ .* 0 out", lambda: run("dry"))
        assert server.bodies == []
        refuses("the budget of 1e-07 is at its end", lambda: run("live", budget=1e-7))
        own = {"file": str(tmp_path / "kept")}
        found = run("live", cache=own)
        sent = [text for body in server.bodies for text in body["input"]]
        assert len(server.bodies) == 16
        assert len(sent) == len(set(sent)) == 32  # 30 theorems and 2 queries, in a folder of their own
        assert max(map(len, sent)) == 60
        assert len(list((tmp_path / "kept").rglob("*.json"))) == 32
        refuses(r"dry run, nothing is searched: vectors of tiny 0 calls", lambda: run("dry", cache=own))
        for artefact in artefacts.artefacts():
            shutil.rmtree(artefact.path)
        monkeypatch.delenv("TINY_KEY")
        assert run("replay", cache=own).to_dict() == found.to_dict()
        assert len([text for body in server.bodies for text in body["input"]]) == 32
    refuses(r"key 'calls': key 'mod' is unknown", lambda: build_system({**inner, "calls": {"mod": "live"}}, "here"))


def test_what_the_server_decides_cannot_be_set() -> None:
    with pytest.raises(HarnessError, match="key 'pooling': model openai-3-large is an endpoint, which has its own"):
        encoder.load("openai-3-large", EncoderSettings(pooling="cls"))


def test_endpoints_of_other_models_have_other_vectors() -> None:
    names = ("openai-3-large", "openai-ada-002")
    assert len({str(encoder.identity(name, EncoderSettings())) for name in names}) == 2
