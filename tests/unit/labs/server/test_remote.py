"""The client of a server: receipts come back equal, what is lost is sent again, mistakes get a line."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from archive_tools import placed, zipped

from harness.errors import HarnessError
from harness.io.files import data_root
from harness.labs import remote
from harness.labs.receipts import Shown
from harness.labs.submit import Offer

RECEIPT = Shown(
    "SRC / a", "SRC", "a", 1, True, "submissions/SRC/a.v1", 1, {"nDCG": 0.5, "Bpref": None}, ("a note",), (("run",),),
    "rank 1 of 1", (), "", "",
)  # fmt: skip


@contextmanager
def answering(*answers: tuple[int, Any]) -> Iterator[tuple[str, list[tuple[str, dict[str, str], bytes]]]]:
    """A server that gives these answers in turn (status, content; status 0: the connection is cut)."""
    left, seen = list(answers), []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            seen.append((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
            status, content = left.pop(0)
            if not status:
                self.connection.close()
                return
            data = content if isinstance(content, bytes) else json.dumps(content).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST  # noqa: N815  (the name that the library wants)

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", seen
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.labs.remote.time.sleep", lambda _: None)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    path = tmp_path / "mein lauf.run"
    path.write_text("M.1 Q0 a1 1 1.0 x\n")
    return path


def test_a_receipt_comes_back_equal(run: Path) -> None:
    queued = {"id": "a/b", "state": "queued"}
    done = {"id": "a/b", "state": "done", "receipt": asdict(RECEIPT)}
    with answering((202, queued), (200, {**queued, "state": "running"}), (200, done)) as (address, seen):
        assert remote.submit_to(f"{address}/lab/", "secret", Offer(run, "", "a", "ü", primary=True)) == RECEIPT
    path, headers, body = seen[0]
    assert path == "/lab/api/v1/submissions"
    assert headers["authorization"] == "Bearer secret"
    assert b'name="run"; filename="mein_lauf.run"' in body and run.read_bytes() in body
    assert 'name="description"\r\n\r\nü\r\n'.encode() in body
    assert b'name="primary"\r\n\r\ntrue\r\n' in body and b'name="team"' not in body
    assert seen[1][0] == "/lab/api/v1/submissions/a%2Fb"


@pytest.mark.slow
@pytest.mark.parametrize("metadata", ["ir-metadata.yml", "run.ir-metadata.yml"])
def test_of_a_folder_run_and_metadata_are_sent_and_an_archive_as_it_is(tmp_path: Path, metadata: str) -> None:
    inside = {"run.txt": b"M.1 Q0 a1 1 1.0 x\n", metadata: b"platform: {}\n"}
    folder, archive = placed(tmp_path / "out", inside), zipped(tmp_path / "out.zip", inside)
    done = (200, {"id": "a", "state": "done", "receipt": asdict(RECEIPT)})
    with answering(done, done) as (address, seen):
        for path in (folder, archive):
            assert remote.submit_to(address, "secret", Offer(path, "")) == RECEIPT
    of_folder, of_archive = (body for _, _, body in seen)
    assert b'name="run"; filename="run.txt"' in of_folder and inside["run.txt"] in of_folder
    assert f'name="metadata"; filename="{metadata}"'.encode() in of_folder and inside[metadata] in of_folder
    assert b'name="run"; filename="out.zip"' in of_archive and archive.read_bytes() in of_archive
    assert b'name="metadata"' not in of_archive
    refused = {"id": "a", "state": "refused", "file": "run.txt", "errors": ["run.txt:1: bad"]}
    with answering((202, refused)) as (address, _), pytest.raises(HarnessError, match=f"^{folder}:1: bad$"):
        remote.submit_to(address, "secret", Offer(folder, ""))
    (folder / "run.txt").unlink()
    with pytest.raises(HarnessError, match=r"is a folder without run\.txt or run\.txt\.gz"):
        remote.submit_to("https://lab.example.org", "secret", Offer(folder, ""))


@pytest.mark.parametrize(
    ("given", "asked"), [("/submit", "/api/v1/x"), ("/submit/", "/api/v1/x"), ("/lab/submit", "/lab/api/v1/x")]
)
def test_the_address_of_the_form_names_the_server(given: str, asked: str) -> None:
    with answering((200, {"done": "withdrawn"})) as (address, seen):
        assert remote.act_on(f"{address}{given}", "secret", "x", {"label": "a"}) == "withdrawn"
    assert seen[0][0] == asked


def test_what_was_not_acknowledged_is_sent_again_with_the_same_key(run: Path) -> None:
    done = (200, {"id": "a", "state": "done", "receipt": asdict(RECEIPT)})
    with answering((0, None), (503, {}), (429, {}), (202, {"id": "a", "state": "queued"}), done) as (address, seen):
        assert remote.submit_to(address, "secret", Offer(run, "")).title == "SRC / a"
    keys = [headers["idempotency-key"] for path, headers, _ in seen if path.endswith("submissions")]
    assert len(keys) == 4 and len(set(keys)) == 1
    assert len({body for path, _, body in seen if path.endswith("submissions")}) == 1


def test_faults_name_the_file_as_the_user_does(run: Path) -> None:
    refused = {"id": "a", "state": "refused", "file": "mein_lauf.run", "errors": ["mein_lauf.run:3: bad", "label: bad"]}
    with answering((202, refused)) as (address, _), pytest.raises(HarnessError) as raised:
        remote.submit_to(address, "secret", Offer(run, ""))
    assert list(raised.value.lines) == [f"{run}:3: bad", "label: bad"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((401, {"errors": ["the token is unknown"]}), "the token is unknown"),
        ((200, b"<html>"), "is not a lab's server"),
        ((200, [1]), "is not a lab's server"),
        ((200, b"[" * 100_000), "is not a lab's server"),
        ((500, {"errors": []}), "status 500"),
        ((422, {"errors": "text"}), "status 422"),
        ((202, {"state": "done", "receipt": {"title": 3}}), "receipt: key 'title'"),
        ((202, {"state": "done", "receipt": []}), "receipt: key 'title' is missing"),
        ((202, {"state": "done"}), "receipt: key 'title' is missing"),
        ((202, {"state": "failed"}), "gave no reason"),
        ((202, {"state": "refused", "errors": {"a": 1}}), "gave no reason"),
        ((202, {"state": "refused", "errors": ["\x1b[2J\u202e"]}), r"^\\x1b\[2J\\u202e$"),
    ],
)
def test_answers_that_are_no_receipt(run: Path, answer: tuple[int, Any], said: str) -> None:
    with answering(answer) as (address, _), pytest.raises(HarnessError, match=said):
        remote.submit_to(address, "secret", Offer(run, ""))


def test_mistakes_of_the_user(run: Path, tmp_path: Path) -> None:
    for server, said in (
        ("lab.example.org", "expected an address such as https"),
        ("http://127.0.0.1:99999", "expected an address such as https"),
        ("http://127.0.0.1:abc", "expected an address such as https"),
        ("http://[::1", "expected an address such as https"),
        ("http://lab.example.org", "would send the token unencrypted"),
        ("http://127.0.0.1:1", "cannot be reached"),
    ):
        with pytest.raises(HarnessError, match=said):
            remote.submit_to(server, "secret", Offer(run, ""))
    with pytest.raises(HarnessError, match="no such file"):
        remote.submit_to("http://127.0.0.1:1", "secret", Offer(tmp_path / "none.run", ""))


def test_the_leaderboard_of_a_server_is_read_without_a_token(capsys: pytest.CaptureFixture[str]) -> None:
    from harness.cli.leaderboard import leaderboard

    runs = [str(path) for path in sorted((data_root() / "runs/mini/mini-task1").glob("*.run"))]
    leaderboard(places=runs, collection="mini-task1", resamples=10, as_json=True)
    (document,) = json.loads(capsys.readouterr().out)
    leaderboard(places=runs, collection="mini-task1", resamples=10)
    printed = capsys.readouterr().out
    with answering((200, document), (200, document), (404, {"errors": ["the leaderboard is not built yet"]})) as (
        server, seen,
    ):  # fmt: skip
        shown: tuple[dict[str, Any], ...] = ({"server": f"{server}/lab/submit"}, {"places": [f"{server}/lab/"]})
        for given in shown:
            leaderboard(**given)
            assert capsys.readouterr().out == printed
        assert [path for path, *_ in seen] == ["/lab/api/v1/leaderboard"] * 2
        assert all("authorization" not in headers for _, headers, _ in seen)
        with pytest.raises(HarnessError, match="is not built yet"):
            leaderboard(places=[server])
        refused: tuple[tuple[dict[str, Any], str], ...] = (
            ({"main": "AP"}, f"--main: the lab of {server} says this for its runs; leave it out"),
            ({"final": True}, f"--final: the lab of {server} says this"),
            ({"places": ["x.run"]}, f"{server}: the leaderboard of a server is shown alone"),
        )
        for given, said in refused:
            with pytest.raises(HarnessError, match=re.escape(said)):
                leaderboard(server=server, **given)
    with pytest.raises(HarnessError, match="leaderboard: name a lab, a folder, run files, or --server URL"):
        leaderboard()
