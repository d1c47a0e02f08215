"""The client of language models: what is kept, replayed, repaired, counted before it is spent."""

from __future__ import annotations

import json
import math
import os
import random
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
from case_tables import literals
from llm_server import Server, serving, vector
from refusals import refusal, refuses

from harness.errors import HarnessError
from harness.store.llm import Answer, Ask, Client, Endpoint, Message, Spent, load_endpoint, sample

NUMBER = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}, "required": ["n"]}


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as made:
        yield made


def ask(text: str, **more: object) -> Ask:
    return Ask((Message("system", "Be brief."), Message("user", text)), **more)  # type: ignore[arg-type]


def texts(answers: tuple[Answer, ...]) -> list[str]:
    return [answer.text for answer in answers]


def test_answers_in_order_equal_asks_once_and_then_never_again(server: Server, tmp_path: Path) -> None:
    asks = [ask(f"q{i % 7}") for i in range(20)]
    client = Client(server.endpoint(), cache=tmp_path)
    answers = client.ask(asks)
    assert texts(answers) == [f"to q{i % 7}" for i in range(20)]
    assert len(server.bodies) == 7
    assert {answer.cached for answer in answers} == {False}
    assert client.spent.cost == pytest.approx((server.tokens_in * 10 + server.tokens_out * 30) / 1e6)
    assert replace(client.spent, cost=0.0) == Spent(7, server.tokens_in, server.tokens_out)
    again = Client(server.endpoint(), cache=tmp_path)
    assert texts(again.ask(asks)) == texts(answers)
    assert (again.spent, len(server.bodies)) == (Spent(), 7)
    assert again.ask(asks)[0] == replace(answers[0], cached=True)


def test_what_is_sent(server: Server, tmp_path: Path) -> None:
    endpoint = server.endpoint(parameters={"max_tokens": 9, "temperature": 0.0, "min_p": 0.1, "seed": 3})
    Client(endpoint, cache=tmp_path).ask([ask("q")])
    assert server.bodies == [
        {
            "model": "tiny-1",
            "max_tokens": 9,
            "temperature": 0,
            "min_p": 0.1,
            "seed": 3,
            "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "q"}],
        }
    ]


def test_replay_calls_nobody_wherever_the_endpoint_was(server: Server, tmp_path: Path) -> None:
    asks = [ask("q1"), ask("q2")]
    live = Client(server.endpoint(), cache=tmp_path / "a").ask(asks)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    elsewhere = server.endpoint(url="http://192.0.2.1/v1", name="theirs", timeout=1.0, price_in=0.0, key="NOBODYS_KEY")
    replayed = Client(elsewhere, "replay", cache=tmp_path / "b").ask(asks)
    assert texts(replayed) == texts(live)
    assert all(answer.cached for answer in replayed)
    client = Client(elsewhere, "replay", cache=tmp_path / "b", fill="harness run llm.mode=live")
    line = f"endpoint theirs: 1 of 3 answers are not in {tmp_path / 'b'}: harness run llm.mode=live"
    assert refusal(lambda: client.ask([*asks, ask("q3")])) == line
    assert len(server.bodies) == 2


@pytest.mark.parametrize(
    ("changed", "asked"),
    [
        ({"model": "tiny-2"}, ask("q")),
        ({"parameters": {"max_tokens": 100, "temperature": 1}}, ask("q")),
        ({}, Ask((Message("user", "Be brief."), Message("user", "q")))),
        ({}, ask("q", schema=NUMBER)),
    ],
)
def test_what_decides_an_answer_is_what_it_is_kept_by(
    changed: dict[str, Any], asked: Ask, server: Server, tmp_path: Path
) -> None:
    server.answer = lambda _: '{"n": 1}'
    first, endpoint = ask("q"), server.endpoint()
    Client(endpoint, cache=tmp_path).ask([first])
    with pytest.raises(HarnessError, match="1 of 1 answers are not in"):
        Client(replace(endpoint, **changed), "replay", cache=tmp_path).ask([asked])
    same = replace(endpoint, parameters={"max_tokens": 100.0})
    assert Client(same, "replay", cache=tmp_path).ask([first])[0].cached


DAMAGES: dict[str, Callable[[bytes, bytes], bytes]] = {
    "text": lambda data, _: data.replace(b"to q", b"TO q"),
    "byte": lambda data, _: data.replace(b'"tokens_in": 1', b'"tokens_in": 2'),
    "cut": lambda data, _: data[:-20],
    "moved": lambda _, other: other,
    "empty": lambda *_: b"",
    "no JSON": lambda *_: b"\xff{",
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("mode", ["replay", "live", "dry"])
def test_an_altered_entry_is_one_line_in_every_mode(damage: str, mode: str, server: Server, tmp_path: Path) -> None:
    asks = [ask("q1"), ask("q2")]
    Client(server.endpoint(), cache=tmp_path).ask(asks)
    path, other = sorted(tmp_path.rglob("*.json"))
    content = path.read_bytes()
    path.write_bytes(DAMAGES[damage](content, other.read_bytes()))
    assert path.read_bytes() != content
    what = "holds the answer to another request" if damage == "moved" else "altered since it was written"
    line = refusal(lambda: Client(server.endpoint(), mode, cache=tmp_path).ask(asks))  # type: ignore[arg-type]
    assert line == f"{path}: {what}; delete it to ask again, or restore it"
    assert len(server.bodies) == 2
    path.unlink()
    assert not Client(server.endpoint(), cache=tmp_path).ask(asks)[0].failed


def test_a_repair_says_what_was_wrong_and_is_bounded(server: Server, tmp_path: Path) -> None:
    said = iter(["seven", '{"n": 0}', '```json\n{"n": 7}\n```', '{"n": 0}', "{}", "[]", "never asked"])
    server.answer = lambda _: next(said)
    endpoint = server.endpoint(concurrency=1, repairs=2)
    client = Client(endpoint, cache=tmp_path)
    (good,) = client.ask([ask("q1", schema=NUMBER)])
    assert (good.value, good.failed, client.spent.calls, client.spent.failed) == ({"n": 7}, "", 3, 0)
    assert good.tokens_in == server.tokens_in
    first, second, third = (body["messages"] for body in server.bodies)
    assert second[: len(first)] == first
    assert third[: len(second)] == second
    assert second[2] == {"role": "assistant", "content": "seven"}
    assert "it is not valid JSON" in second[3]["content"]
    assert "$.n: 0 is less than the minimum of 1" in third[5]["content"]
    (bad,) = client.ask([ask("q2", schema=NUMBER)])
    assert bad.value is None
    assert bad.failed == "it does not fit the schema: $: [] is not of type 'object'"
    assert (client.spent.calls, client.spent.failed) == (6, 1)
    # The whole chain is kept, that of the failed answer too.
    replayed = Client(endpoint, "replay", cache=tmp_path).ask([ask("q1", schema=NUMBER), ask("q2", schema=NUMBER)])
    assert replayed == (replace(good, cached=True), replace(bad, cached=True))


@pytest.mark.parametrize(
    ("schemas", "form"),
    [
        ("json_schema", {"type": "json_schema", "json_schema": {"name": "answer", "schema": NUMBER}}),
        ("json_object", {"type": "json_object"}),
        ("llama", {"type": "json_object", "schema": NUMBER}),
        ("none", None),
    ],
)
def test_how_a_server_is_told_of_a_schema(schemas: str, form: object, server: Server, tmp_path: Path) -> None:
    server.answer = lambda _: '{"n": 7}'
    Client(server.endpoint(schemas=schemas), cache=tmp_path).ask([ask("q", schema=NUMBER)])
    (body,) = server.bodies
    assert body.get("response_format") == form
    in_words = json.dumps(NUMBER) in body["messages"][-1]["content"]
    assert in_words == (schemas != "json_schema")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"s": "cut \\ud835"}', "good"),  # half a character, as JSON writes it
        ('{"s": "cut \ud835"}', "cut \ufffd"),  # half a character in the text itself
        ("[" * 100_000, "good"),
        ('{"s": ' + "[" * 400 + "]" * 400 + "}", "good"),
    ],
)
def test_answers_that_cannot_be_written_are_repaired(text: str, value: str, server: Server, tmp_path: Path) -> None:
    nested = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"$ref": "#/$defs/s"}}]}
    schema = {"type": "object", "properties": {"s": {"$ref": "#/$defs/s"}}, "$defs": {"s": nested}}
    said = iter([text, '{"s": "good"}'])
    server.answer = lambda _: next(said)
    (answer,) = Client(server.endpoint(), cache=tmp_path).ask([ask("q", schema=schema)])
    assert answer.value == {"s": value}
    assert len(server.bodies) == (2 if value == "good" else 1)
    (again,) = Client(server.endpoint(), "replay", cache=tmp_path).ask([ask("q", schema=schema)])
    assert again == replace(answer, cached=True)


def test_a_schema_that_is_none_and_one_that_asks_the_network(server: Server, tmp_path: Path) -> None:
    server.answer = lambda _: "{}"
    client = Client(server.endpoint(), cache=tmp_path)
    refuses(r"schema of an ask: \$\.type: 'odd' is not valid", lambda: client.ask([ask("q", schema={"type": "odd"})]))
    assert not server.bodies
    with pytest.raises(HarnessError, match=r"schema of an ask: .*192\.0\.2\.1"):
        client.ask([ask("q", schema={"$ref": "http://192.0.2.1/schema.json"})])


@pytest.mark.parametrize(
    ("fault", "failed"), [("cut", "cut off"), ("filtered", "filtered"), ("too long", "refused: 400")]
)
def test_answers_that_count_as_failed_are_kept(fault: str, failed: str, server: Server, tmp_path: Path) -> None:
    server.faults = [fault]
    client = Client(server.endpoint(), cache=tmp_path)
    (answer,) = client.ask([ask("q")])
    assert failed in answer.failed
    assert client.spent.failed == 1
    (again,) = Client(server.endpoint(), "replay", cache=tmp_path).ask([ask("q")])
    assert again == replace(answer, cached=True)


# ---- vectors ----------------------------------------------------------------------------------------------------


def test_vectors_in_order_each_text_once_in_batches(server: Server, tmp_path: Path) -> None:
    given = [f"text {i % 11}" * (1 + i % 3) for i in range(40)]
    client = Client(server.endpoint(batch=4), cache=tmp_path)
    found = client.embed(given)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, np.array([vector(text) for text in given], np.float32))
    sent = [text for body in server.bodies for text in body["input"]]
    assert sorted(sent) == sorted(set(given))
    assert max(len(body["input"]) for body in server.bodies) == 4
    assert client.spent.tokens_in == server.tokens_in
    again = Client(server.endpoint(batch=7), "replay", cache=tmp_path)
    np.testing.assert_array_equal(again.embed(given), found)
    refuses("1 of 2 answers are not in", lambda: again.embed(["text 0", "new"]))
    refuses("text 2 of 2 is empty", lambda: again.embed(["text 0", ""]))


# ---- before it is spent -----------------------------------------------------------------------------------------


def statements(count: int, seed: int) -> list[Ask]:
    """Asks of much varying length, some prose, some formulas."""
    rng = random.Random(seed)
    words = ["every", "continuous", "function", "on", "a", "compact", "space", "is", "bounded", "ring", "homomorphism"]
    signs = [r"$\int_0^1 f(x)\,dx$", r"$x^2+1=0$", "∀ ε > 0", "Finset.sum_comm", "(hf : Monotone f)", r"$\mathbb{Z}/n$"]
    out = []
    for i in range(count):
        part = rng.choices(words, k=rng.randint(3, 60)) + rng.choices(signs, k=rng.randint(0, 15))
        rng.shuffle(part)
        out.append(ask(f"Put this into plain words. Statement {i}: {' '.join(part)}"))
    return out


@pytest.mark.heavy
def test_a_dry_run_counts_within_five_percent_of_what_is_then_spent(server: Server, tmp_path: Path) -> None:
    def answer(body: dict[str, object]) -> str:
        content = body["messages"][-1]["content"]  # type: ignore[index]
        rng = random.Random(content)
        return " ".join(
            rng.choices(["open", "closed", "homotopic", "$n$"], k=10 + len(content) // 8 + rng.randint(0, 9))
        )

    server.answer = answer
    asks, endpoint = statements(400, 1), server.endpoint(concurrency=8)
    first = Client(endpoint, cache=tmp_path)
    first.ask(sample(asks, 40))
    paid = len(server.bodies)
    dry = Client(endpoint, "dry", cache=tmp_path)
    answers = dry.ask(asks)
    assert len(server.bodies) == paid == 40
    assert sum(answer.failed == "dry run: not asked" for answer in answers) == 360
    made = dry.estimates["chat"]
    assert made.asks == dry.spent.calls == 360
    live = Client(endpoint, cache=tmp_path)
    live.ask(asks)
    assert live.spent.calls == 360
    for name in ("tokens_in", "tokens_out", "cost"):
        assert getattr(dry.spent, name) == pytest.approx(getattr(live.spent, name), rel=0.05)
    assert 0 < made.within < 0.05
    assert abs(made.cost / live.spent.cost - 1) < made.within
    after = Client(endpoint, "dry", cache=tmp_path)
    after.ask(asks)
    assert after.spent == Spent()
    # Other asks of the same kind, by what these took.
    others = statements(200, 2)
    dry = Client(endpoint, "dry", cache=tmp_path)
    dry.ask(others)
    assert dry.estimates["chat"].within == math.inf  # they are no sample of these
    live = Client(endpoint, cache=tmp_path)
    live.ask(others)
    assert dry.spent.cost == pytest.approx(live.spent.cost, rel=0.05)


@pytest.mark.slow
def test_a_dry_run_of_several_parts_is_that_of_the_whole(server: Server, tmp_path: Path) -> None:
    asks, endpoint = statements(120, 4), server.endpoint(concurrency=8)
    Client(endpoint, cache=tmp_path).ask(sample(asks, 30))
    whole, parts = (Client(endpoint, "dry", cache=tmp_path) for _ in range(2))
    whole.ask(asks)
    for at in (0, 0, 50, 110):  # a part that comes again is paid once
        parts.ask(asks[at : at + 60])
    assert whole.spent.calls == parts.spent.calls == 90
    assert parts.spent.cost == pytest.approx(whole.spent.cost, rel=1e-9)
    assert parts.estimates["chat"].within == pytest.approx(whole.estimates["chat"].within, rel=1e-6)


def test_a_dry_run_of_an_unknown_model_says_that_it_is_rough(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    client = Client(server.endpoint(), "dry", cache=tmp_path)
    client.ask(statements(30, 1))
    assert "(rough), from 3.5 characters a token: ask 20 of them first" in capsys.readouterr().err
    assert not server.bodies
    assert client.embed(["a", "b"]).shape == (2, 0)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_repairs_and_vectors_are_in_the_estimate(server: Server, tmp_path: Path) -> None:
    server.answer = lambda body: '{"n": 1}' if len(body["messages"]) > 2 else "one"
    asks = [ask(f"number {i} of the asks", schema=NUMBER) for i in range(100, 200)]
    given = [each.messages[-1].content for each in statements(150, 3)]
    endpoint = server.endpoint(concurrency=8)
    first, dry, live = (Client(endpoint, mode, cache=tmp_path) for mode in ("live", "dry", "live"))
    first.ask(sample(asks, 25))
    for client in (dry, live):
        client.ask(asks)
    assert dry.spent.calls == live.spent.calls == 150
    assert dry.spent.cost == pytest.approx(live.spent.cost, rel=0.05)
    first.embed(sample(given, 30))
    dry, live = (Client(endpoint, mode, cache=tmp_path) for mode in ("dry", "live"))
    for client in (dry, live):
        client.embed(given)
    assert dry.spent.cost == pytest.approx(live.spent.cost, rel=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("budget", [0.0, 0.006, 0.008])
def test_a_budget_is_never_exceeded_and_what_is_paid_is_kept(budget: float, server: Server, tmp_path: Path) -> None:
    asks = [ask(f"q{i}") for i in range(30)]
    client = Client(server.endpoint(), budget=budget, cache=tmp_path)
    line = refusal(lambda: client.ask(asks))
    paid = (server.tokens_in * 10 + server.tokens_out * 30) / 1e6
    assert client.spent.cost == pytest.approx(paid)
    assert paid <= budget
    done = len(server.bodies)
    assert (done > 0) == (budget > 0)
    assert done < 30
    assert f"the budget of {budget:g} is at its end" in line
    assert f"{done} of 30 are answered and kept" in line
    Client(server.endpoint(), budget=1.0, cache=tmp_path).ask(asks)
    assert len(server.bodies) == 30


def test_a_budget_for_answers_of_any_length_is_refused() -> None:
    endpoint = Endpoint("e", "m", 1.0, 2.0)
    for unbounded in (endpoint, replace(endpoint, parameters={"max_tokens": True})):
        refuses("a budget needs 'max_tokens' in its parameters", partial(Client, unbounded, budget=1.0))
    Client(replace(endpoint, parameters={"max_completion_tokens": 5}), budget=1.0)
    Client(replace(endpoint, price_out=0.0), budget=1.0)


@pytest.mark.parametrize("text", ["", "half \ud800 of a pair"])
@pytest.mark.parametrize("mode", ["live", "dry", "replay"])
def test_a_text_that_cannot_be_sent_is_one_line(text: str, mode: str, server: Server, tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match=r"text 2 of 2 (is empty|holds half a character)"):
        Client(server.endpoint(), mode, cache=tmp_path).embed(["good", text])  # type: ignore[arg-type]
    assert not server.bodies


def test_two_at_once_pay_once(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = os.open

    def slowly(*given: Any) -> int:  # noqa: ANN401
        """Both threads are where the file of the locks is opened."""
        time.sleep(0.05)
        return opened(*given)

    monkeypatch.setattr(os, "open", slowly)
    asks, found = [ask(f"q{i}") for i in range(12)], []
    both = [Thread(target=lambda: found.append(Client(server.endpoint(), cache=tmp_path).ask(asks))) for _ in range(2)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert texts(found[0]) == texts(found[1]) == [f"to q{i}" for i in range(12)]
    assert set(server.asked.values()) == {1}


# ---- configurations ---------------------------------------------------------------------------------------------


def test_every_endpoint_of_ours_loads() -> None:
    from harness.io import config

    loaded = [load_endpoint(name) for name in config.names("llm")]
    assert {endpoint.name for endpoint in loaded} >= {"openai-gpt-4", "openai-3-large", "openai-ada-002", "local"}
    for endpoint in loaded:
        assert endpoint.local or endpoint.key in {"OPENAI_API_KEY", "GEMINI_API_KEY"}
        assert Client(endpoint, "dry", budget=1.0).spent == Spent()


@pytest.mark.parametrize(("text", "line"), literals("store/llm_a_wrong_configuration_is_one_line"))
def test_a_wrong_configuration_is_one_line(text: str, line: str, conf: object) -> None:
    start = "" if text.startswith("model") else "model: m\nprice_in: 1\nprice_out: 1\n"
    conf("llm", "mine", start + text)  # type: ignore[operator]
    found = refusal(lambda: load_endpoint("mine"))
    assert line in found
    assert "abcdefgh" not in found
