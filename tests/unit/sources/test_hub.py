"""Data sets of the hub: asked of a server on this machine that answers as the hub does."""

from __future__ import annotations

import hashlib
import io
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from refusals import refuses

from harness.cli import fetch as commands
from harness.collections import files
from harness.collections.beir import DataSet, named, survey
from harness.collections.readers.beir import find_beir_files
from harness.errors import HarnessError
from harness.papers.saber import readers as saber
from harness.sources import catalogue, fetch, hub

REVISION = "0123456789abcdef0123456789abcdef01234567"
FILES = {
    "corpus.jsonl": b'{"_id": "d1", "text": "one"}\n',
    "queries.jsonl": b'{"_id": "q1", "text": "one"}\n',
    "qrels/test.tsv": b"query-id\tcorpus-id\tscore\nq1\td1\t1\n",
    "qrels/train.tsv": b"query-id\tcorpus-id\tscore\n",
    "README.md": b"a card\n",
    "images/large.bin": b"0" * 1000,
}
QUERIES, DOCUMENTS = "sabermath/SaberMath-queries", "sabermath/SaberMath-documents"


def git_sha1(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


class Hub(BaseHTTPRequestHandler):
    """`/api/datasets/SET[/revision/R]` and `/datasets/SET/resolve/R/FILE`."""

    asked: ClassVar[list[str]] = []
    sets: ClassVar[dict[str, dict[str, bytes]]] = {}

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        called = next((each for each in self.sets if f"/datasets/{each}/" in f"{path}/"), "")
        files = self.sets.get(called, {})
        name = path.removeprefix(f"/datasets/{called}/resolve/{REVISION}/")
        headers = {}
        if path in (f"/api/datasets/{called}{end}" for end in ("", f"/revision/{REVISION}", "/revision/main")):
            about = {"id": called, "sha": REVISION, "siblings": [{"rfilename": each} for each in files]}
            status, content = 200, json.dumps(about).encode()
            headers = {"Content-Type": "application/json"}
        elif name in files:
            status, content = 200, files[name]
            headers = {"ETag": f'"{git_sha1(content)}"', "X-Repo-Commit": REVISION}
            if self.command == "GET":
                self.asked.append(name)
        else:
            status, content = 404, b""
            headers = {"X-Error-Code": "RepoNotFound", "X-Error-Message": "Repository not found"}
        self.send_response(status)
        for key, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def answering(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Hub]]:
    from huggingface_hub import constants

    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.delenv("HARNESS_OFFLINE", raising=False)
    monkeypatch.delenv("HARNESS_MIRROR", raising=False)
    Hub.asked.clear()
    monkeypatch.setattr(Hub, "sets", {"o/n": FILES})
    yield Hub
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_data_set_is_downloaded_once_without_what_is_not_read(answering: type[Hub]) -> None:
    data = DataSet(name="o/n", revision=REVISION)
    assert data.state("mine") == "needs the data set o/n (hub): harness fetch mine"
    data.reachable()
    files = data.files()
    assert sorted(answering.asked) == ["corpus.jsonl", "qrels/test.tsv", "queries.jsonl"]
    assert files.corpus[0].read_bytes() == FILES["corpus.jsonl"]
    assert data.state("mine") == "here"
    assert data.files() == files
    assert len(answering.asked) == 3
    other = DataSet(name="o/n", revision=REVISION, split="train")
    assert other.state("mine") != "here"
    other.files()
    assert answering.asked[3:] == ["qrels/train.tsv"]


def test_what_others_have_left_out_is_fetched(answering: type[Hub], monkeypatch: pytest.MonkeyPatch) -> None:
    excluded = "excluded_ids.jsonl"
    monkeypatch.setitem(FILES, excluded, b'{"query-id": "q1", "excluded-ids": ["d2"]}\n')
    data = DataSet(name="o/n", revision=REVISION)
    hub.download("o/n", REVISION, lambda names: find_beir_files(names, "o/n")["corpus"])
    hub.download("o/n", REVISION, lambda names: ["queries.jsonl", "qrels/test.tsv"])
    assert data.here() and not data.files().excluded
    assert [path.name for path in data.fetched().excluded] == [excluded]
    assert survey(data).excluded == 1
    assert answering.asked.count("corpus.jsonl") == 1


def test_what_is_here_is_enough_where_the_hub_does_not_answer(
    answering: type[Hub], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = DataSet(name="o/n", revision=REVISION)
    refuses("cannot be fetched", lambda: DataSet(name="o/other", revision=REVISION).fetched())
    files = data.fetched()
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    assert data.fetched() == files
    assert "cannot be fetched" in capsys.readouterr().err
    monkeypatch.setenv("HARNESS_OFFLINE", "1")
    assert data.fetched() == files


def test_the_newest_revision_is_written_down(answering: type[Hub]) -> None:
    assert named("o/n", None, "test", "") == DataSet(None, "o/n", REVISION)
    refuses(r"key 'revision' is 'main', expected the 40 hexadecimal digits", lambda: named("o/n", "main", "test", ""))
    refuses(r"data set o/other \(hub\): cannot be fetched: ", lambda: named("o/other", None, "test", ""))
    refuses(r"nowhere: no such folder, and no OWNER/NAME", lambda: named("nowhere", None, "test", ""))


def test_a_file_that_was_damaged_in_the_cache_is_noticed(answering: type[Hub]) -> None:
    data = DataSet(name="o/n", revision=REVISION)
    path = data.files().corpus[0]
    blob = path.resolve()
    blob.write_bytes(b'{"_id": "d1", "text": "two"}\n')
    refuses(r"corpus.jsonl: damaged \(checksum \w{12}, expected \w{12}\); delete", data.files)
    blob.unlink()
    path.unlink()
    assert data.files().corpus[0].read_bytes() == FILES["corpus.jsonl"]


def test_without_a_network_nothing_is_asked(answering: type[Hub], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_OFFLINE", "1")
    with pytest.raises(HarnessError, match=r"data set o/n \(hub\): HARNESS_OFFLINE forbids the network"):
        DataSet(name="o/n", revision=REVISION).files()
    assert hub.snapshot("o/n", REVISION) is None
    assert not answering.asked


# ---- rows as lines ------------------------------------------------------------------------------------------------


def parquet(rows: list[dict[str, object]]) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), out)
    return out.getvalue()


QUERY: dict[str, object] = {"problem": "Find $x$.", "solution": "S", "domains": ["Algebra"], "candidates": [0, 1]}
RATED = {**QUERY, "relevance_scores": [1.0, 2.5]}


def test_rows_of_a_data_set_become_lines_checked_on_arrival(
    answering: type[Hub], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Shards in their order; what is no problem is refused with its line."""
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "ours"))
    documents = b'{"problem": "Find $x$.", "solution": "S"}\n\n{"problem": "", "solution": "S"}\n'
    answering.sets[QUERIES] = {
        "README.md": b"a card\n",
        "data/train-00001-of-00002.parquet": parquet([{**RATED, "problem": "Find $y$."}]),
        "data/train-00000-of-00002.parquet": parquet([RATED]),
    }
    answering.sets[DOCUMENTS] = {"documents.jsonl": documents}
    first, second = catalogue.source_files("saber-math-data")
    (path,) = fetch.fetch_resources([first])
    assert [json.loads(line) for line in path.read_bytes().splitlines()] == [RATED, {**RATED, "problem": "Find $y$."}]
    found = [query for _, query in saber.queries(path.read_bytes(), str(path))]
    assert [(query.id, query.ratings) for query in found] == [(n, {"0": 1.0, "1": 2.5}) for n in ("0", "1")]
    files.check_arrived([first])
    assert fetch.resource_state(first) == "here"
    (path,) = fetch.fetch_resources([second])
    refuses(r"documents.jsonl:2: key 'problem' is missing, empty or no text", lambda: files.check_arrived([second]))
    asked = len(answering.asked)
    fetch.fetch_resources([first, second])
    assert len(answering.asked) == asked == 3


def test_a_data_set_without_rows_or_damaged(
    answering: type[Hub], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "ours"))
    wanted = catalogue.source_files("saber-math-data")[:1]
    brought = r"; or bring it yourself: export the data sets .* --from documents.jsonl$"
    refuses(rf"data set {QUERIES} \(hub\): cannot be fetched: .*{brought}", lambda: fetch.fetch_resources(wanted))
    answering.sets[QUERIES] = {"README.md": b"a card\n"}
    refuses(rf"none of its 1 files ends in .parquet or .jsonl{brought}", lambda: fetch.fetch_resources(wanted))
    answering.sets[QUERIES] = {"data.parquet": b"PAR1"}
    refuses(rf"data.parquet: no Parquet file of texts and numbers: .*{brought}", lambda: fetch.fetch_resources(wanted))
    assert not wanted[0].cached.exists()


def test_a_probe_asks_the_hub(answering: type[Hub], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "ours"))
    answering.sets[QUERIES] = answering.sets[DOCUMENTS] = {"rows.jsonl": b"{}\n"}
    commands.fetch(["saber-math-data"], probe=True)
    del answering.sets[DOCUMENTS]
    with pytest.raises(HarnessError, match=rf"data set {DOCUMENTS} \(hub\): cannot be fetched"):
        commands.fetch(["saber-math-data"], probe=True)
    assert not answering.asked
