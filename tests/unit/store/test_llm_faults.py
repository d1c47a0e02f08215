"""The client against an endpoint that fails, and processes that are killed: nothing paid for is lost or paid twice."""

from __future__ import annotations

import json
import logging
import os
import pickle
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest
from case_tables import literals
from llm_server import Server, serving
from process_tools import same_paths
from refusals import refusal, refuses

from harness.errors import HarnessError
from harness.store.llm import Ask, Client, Message, limits
from harness.store.llm.answer_cache import AnswerCache, Reply

KEY = "sk-test-0123456789abcdef"  # of nobody
FAULTS = ("timeout", "429", "500", "broken", "half", "drip", "drip 500", "drip head", "no choices")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(limits, "FIRST", 0.02)
    monkeypatch.setenv("TEST_KEY", KEY)
    with serving() as made:
        yield made


def asks(count: int) -> list[Ask]:
    return [Ask((Message("user", f"q{i}"),)) for i in range(count)]


@pytest.mark.parametrize(
    "fault", [pytest.param(each, marks=pytest.mark.slow) if "drip" in each else each for each in FAULTS]
)
def test_a_call_that_breaks_off_is_tried_again(fault: str, server: Server, tmp_path: Path) -> None:
    slow = fault in ("timeout", "drip", "drip 500", "drip head")  # of 200 bytes and more, 20 a second
    server.faults = [fault] if slow else [fault, fault]
    endpoint = server.endpoint(timeout=3.0 if slow else 60.0, concurrency=1)
    client = Client(endpoint, cache=tmp_path)
    answers = client.ask(asks(2))
    assert [answer.text for answer in answers] == ["to q0", "to q1"]
    broken = 1 if slow else 2
    assert len(server.bodies) == 2 + broken
    assert server.impatient == 0
    # Statuses are not charged; whatever else breaks off may be.
    assert client.spent.lost == (0 if fault in ("429", "500") else broken)
    assert client.spent.calls == 2


def test_a_pause_that_the_server_asks_for_is_kept_by_all_calls(server: Server, tmp_path: Path) -> None:
    server.faults = ["429"] * 3
    Client(server.endpoint(concurrency=1), cache=tmp_path).ask(asks(8))
    assert (server.impatient, len(server.bodies)) == (0, 11)


@pytest.mark.slow
def test_a_pause_as_a_date_and_one_that_is_too_long(server: Server, tmp_path: Path) -> None:
    now = time.time()
    server.faults, server.retry_after = ["429"], formatdate(now + 2.0, usegmt=True)  # in whole seconds
    Client(server.endpoint(concurrency=1), cache=tmp_path).ask(asks(1))
    assert time.time() >= int(now + 2.0)
    server.faults, server.retry_after = ["429"] * 99, "7200"
    line = "endpoint loopback: asks to wait 7,200 s (429: refused, with none); 1 of 9 are answered and kept"
    assert refusal(lambda: Client(server.endpoint(concurrency=1), cache=tmp_path).ask(asks(9))) == line
    assert len(server.bodies) <= 4  # one more may have been under way


@pytest.mark.parametrize("fault", ["500", "broken", "half"])
def test_no_answer_after_all_attempts_is_one_line_and_the_others_are_kept(
    fault: str, server: Server, tmp_path: Path
) -> None:
    server.faults = ["good", *[fault] * 3]
    endpoint = server.endpoint(concurrency=1, retries=2)
    line = refusal(lambda: Client(endpoint, cache=tmp_path).ask(asks(6)))
    assert "endpoint loopback: no answer after 3 attempts (" in line
    assert "; 5 of 6 are answered and kept, and the same command resumes there" in line
    Client(endpoint, cache=tmp_path).ask(asks(6))
    assert len(server.bodies) == 3 + 6


def test_a_dead_endpoint_is_soon_given_up(server: Server, tmp_path: Path) -> None:
    server.faults = ["500"] * 1000
    with pytest.raises(HarnessError, match="0 of 200 are answered"):
        Client(server.endpoint(concurrency=2, retries=1), cache=tmp_path).ask(asks(200))
    assert len(server.bodies) < 30
    gone = server.endpoint(url="http://127.0.0.1:1/v1", retries=0, concurrency=1)
    client = Client(gone, cache=tmp_path)
    refuses(r"no answer after 1 attempts .no connection: .*refused", lambda: client.ask(asks(200)))
    assert client.spent.lost == 0


@pytest.mark.parametrize(
    ("fault", "line"),
    [
        ("401", "refuses the key in TEST_KEY (401): refused, with [key]"),
        ("404", "has no model 'tiny-1' (404)"),
        ("400", "the request was refused (400)"),
        ("no money", "the account has nothing left (429)"),
        ("wrong model", "answers as model 'other-2', expected 'tiny-1'"),
        ("no usage", "answers without 'usage', so what they cost cannot be counted"),
    ],
)
def test_what_will_not_get_better_ends_it_in_one_line(fault: str, line: str, server: Server, tmp_path: Path) -> None:
    server.faults = ["good", fault]
    client = Client(server.endpoint(concurrency=1, key="TEST_KEY"), cache=tmp_path)
    found = refusal(lambda: client.ask(asks(9)))
    assert line in found
    assert len(server.bodies) in (2, 3)  # one more may have been under way
    kept = len(list(tmp_path.rglob("*.json")))
    assert f"; {kept} of 9 are answered and kept" in found
    assert kept in (1, 2)
    if fault == "wrong model":
        refuses("are not in", lambda: Client(server.endpoint(), "replay", cache=tmp_path).ask(asks(2)))


@pytest.mark.parametrize(("named", "good"), literals("store/llm_faults_a_model_may_report_a_date_but_no_other_model"))
@pytest.mark.parametrize("reports", [None, "gpt-4o"])
def test_a_model_may_report_a_date_but_no_other_model(
    named: str, good: bool, reports: str | None, server: Server, tmp_path: Path
) -> None:
    server.written = lambda reply: json.dumps({**reply, "model": named}).encode()
    endpoint = server.endpoint(model="mine" if reports else "gpt-4o", reports=reports)
    if good:
        assert Client(endpoint, cache=tmp_path).ask(asks(1))[0].text == "to q0"
    else:
        refuses(f"answers as model '{named}', expected 'gpt-4o'", lambda: Client(endpoint, cache=tmp_path).ask(asks(1)))
        assert not list(tmp_path.rglob("*.json"))


@pytest.mark.parametrize("count", [-1, 10**400, "3", True])
def test_a_count_of_tokens_that_is_none_is_one_line(count: object, server: Server, tmp_path: Path) -> None:
    def written(reply: dict[str, Any]) -> bytes:
        return json.dumps({**reply, "usage": {"prompt_tokens": count, "completion_tokens": 1}}).encode()

    server.written = written
    client = Client(server.endpoint(), cache=tmp_path)
    refuses("what they cost cannot be counted", lambda: client.ask(asks(1)))


def test_a_free_server_need_not_count(server: Server, tmp_path: Path) -> None:
    server.faults = ["no usage"]
    (answer,) = Client(server.endpoint(price_in=0.0, price_out=0.0), cache=tmp_path).ask(asks(1))
    assert (answer.text, answer.tokens_in, answer.failed) == ("to q0", 0, "")


def test_what_may_have_been_charged_counts_for_the_budget(server: Server, tmp_path: Path) -> None:
    server.faults = ["broken"] * 100
    endpoint = server.endpoint(concurrency=1, retries=50)
    most = endpoint.cost(2 + 16 + 64, 100)
    refuses(r"the budget of .* is at its end", lambda: Client(endpoint, budget=3.5 * most, cache=tmp_path).ask(asks(1)))
    assert len(server.bodies) == 3


def test_a_missing_key_and_a_forbidden_network(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TEST_KEY")
    with_key, away = server.endpoint(key="TEST_KEY"), server.endpoint(url="http://192.0.2.1/v1")
    no_key = "endpoint loopback: no key: set TEST_KEY to the key of http"
    refuses(no_key, lambda: Client(with_key, cache=tmp_path).ask(asks(1)))
    monkeypatch.setenv("TEST_KEY", " \n")
    refuses(no_key, lambda: Client(with_key, cache=tmp_path).ask(asks(1)))
    assert not server.told
    monkeypatch.setenv("HARNESS_OFFLINE", "1")
    refuses("HARNESS_OFFLINE forbids the network", lambda: Client(away, cache=tmp_path).ask(asks(1)))
    assert Client(server.endpoint(), cache=tmp_path).ask(asks(1))[0].text == "to q0"


@pytest.mark.slow
def test_the_key_is_nowhere_but_in_the_request(
    server: Server,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    server.answer = lambda _: f"your key is {KEY}"  # a server may say anything
    endpoint = server.endpoint(key="TEST_KEY", concurrency=1, retries=0)
    seen = [repr(endpoint)]
    for faults in ([], ["401"], ["500"], ["broken"], ["400"], ["too long"], ["half"], ["wrong model"], ["no money"]):
        server.faults = list(faults)
        client = Client(endpoint)
        named = Ask((Message("user", f"q of {faults}"),))
        try:
            seen.append(repr(client.ask([named])))
        except HarnessError as error:
            seen += [str(error), "".join(traceback.format_exception(error)), repr(pickle.dumps(error))]
        seen += [repr(client), repr(vars(client)), repr(client.spent)]
    assert server.told == {KEY}
    output = capfd.readouterr()
    seen += [output.out, output.err, caplog.text]
    assert "your key is [key]" in seen[1]
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(written) >= 2
    for path in written:
        assert KEY.encode() not in path.read_bytes()
        assert KEY not in str(path)
    assert not [text for text in seen if KEY in text]


@pytest.mark.parametrize("key", ['sk/with\\slash+"quote"', "sk-abcdefgh/ij"])
def test_a_key_that_the_server_writes_in_another_way_is_hidden(
    key: str, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_KEY", key)
    escaped = "".join(f"\\u{ord(c):04x}" for c in key)

    def written(reply: dict[str, Any]) -> bytes:
        return json.dumps(reply).replace("KEY", escaped).encode()

    server.answer, server.written = lambda _: "your key is KEY", written
    (answer,) = Client(server.endpoint(key="TEST_KEY"), cache=tmp_path).ask(asks(1))
    assert answer.text == "your key is [key]"
    (path,) = tmp_path.rglob("*.json")
    assert json.loads(path.read_text())["reply"]["text"] == "your key is [key]"


def test_a_short_key_is_hidden_in_faults_and_changes_no_answer(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_KEY", "q0")
    client = Client(server.endpoint(key="TEST_KEY", concurrency=1), cache=tmp_path)
    assert client.ask(asks(1))[0].text == "to q0"
    server.faults = ["400"]
    line = refusal(lambda: client.ask(asks(2)))
    assert "refused, with [key]" in line
    assert "q0" not in line


# ---- processes that are killed ----------------------------------------------------------------------------------

ASK = """
import sys
from pathlib import Path
from harness.store.llm import Ask, Client, Endpoint, Message
endpoint = Endpoint("loopback", "tiny-1", 10.0, 30.0, url=sys.argv[1], parameters={"max_tokens": 100}, concurrency=3)
Client(endpoint, cache=Path(sys.argv[2])).ask([Ask((Message("user", f"q{i}"),)) for i in range(30)])
"""


@pytest.mark.slow
@pytest.mark.parametrize("at", [4, 17])
def test_sigkill_loses_and_repeats_no_more_than_was_under_way(at: int, server: Server, tmp_path: Path) -> None:
    killed: list[subprocess.Popen[bytes]] = []

    def kill(number: int) -> None:
        if number == at:
            os.kill(killed[0].pid, signal.SIGKILL)

    server.on_request = kill
    killed.append(subprocess.Popen([sys.executable, "-c", ASK, server.url, str(tmp_path)], env=same_paths()))
    assert killed[0].wait() == -signal.SIGKILL
    endpoint = server.endpoint(concurrency=3)
    kept = {path.stem for path in tmp_path.rglob("*.json")}
    assert at - 3 <= len(kept) < at
    before = set(server.charged)
    Client(endpoint, cache=tmp_path).ask(asks(30))
    twice = [body for body, times in server.charged.items() if times > 1]
    assert len(server.charged) == 30
    assert set(twice) <= before
    assert len(twice) <= 3
    assert sum(server.asked.values()) == 30 + len([body for body, times in server.asked.items() if times > 1])
    assert len(list(tmp_path.rglob("*.json"))) == 30
    left = [each for each in tmp_path.rglob("*") if each.is_file() and ".locks" not in each.parts]
    assert {each.suffix for each in left if not each.name.startswith(".")} == {".json"}
    assert len(Client(endpoint, "replay", cache=tmp_path).ask(asks(30))) == 30


def test_replies_in_one_file(tmp_path: Path) -> None:
    requests = [{"model": "tiny", "kind": "chat", "number": number} for number in range(3)]
    path = tmp_path / "new" / "replies.jsonl"
    for number in range(2):
        AnswerCache(path).keep(requests[number], Reply(f"reply {number}", model="tiny"))
    assert len(path.read_text().splitlines()) == 2
    kept = AnswerCache(path)
    assert [reply and reply.text for reply in map(kept.find, requests)] == ["reply 0", "reply 1", None]
    kept.keep(requests[2], Reply("reply 2"))
    assert {reply.text for _, reply in kept.of_model("tiny", "chat", 9)} == {"reply 0", "reply 1", "reply 2"}
    assert [len(list(kept.of_model(*asked))) for asked in (("tiny", "chat", 2), ("tiny", "x", 9))] == [2, 0]
    with kept.locked(requests[0]):
        assert list((tmp_path / "new" / ".locks").iterdir())
    path.write_text(path.read_text().replace("reply 1", "answer 1"))
    refuses(r"replies\.jsonl:2: altered since it was written", lambda: AnswerCache(path).find(requests[0]))


def test_a_folder_that_cannot_be_written_is_one_line_before_anything_is_paid(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HarnessError, match=r"file/below.*: cannot be (read|written): Not a directory"):
        Client(server.endpoint(), cache=tmp_path / "file" / "below").ask(asks(3))
    assert not server.bodies
