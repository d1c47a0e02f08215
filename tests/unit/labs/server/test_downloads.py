"""Files that a lab offers: what the harness reads of them, what the settings allow, and what a bad server may do."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from guard_tools import without
from lab_tools import DOCS, Conf, collection, files, judgments
from server_tools import Served, listening, served
from test_remote import answering
from typer.testing import CliRunner

from harness.cli.main import app
from harness.collections.corpora import load_corpus
from harness.collections.load import load_collection
from harness.data.topics import SEPARATOR
from harness.errors import HarnessError
from harness.labs import downloads, remote
from harness.labs.downloads import offered, permitted, write_downloads
from harness.labs.lab import Lab, new_lab, read_lab
from harness.labs.server import processes
from harness.labs.server.lab_snapshot import DOWNLOADS

ODD = "<b>x & \u2028 y</b>"
TOPICS = [
    {"id": "T.1", "title": f"Is $a+b$ {ODD}?", "body": "Costs $5 or $x$", "tags": ["a-b", "c"], "language": "ces",
     "attributes": {"level": f"high{SEPARATOR}odd", "set": "1"}},
    {"id": "T.2", "title": "$y$", "attributes": {"set": "1"},
     "formulas": [{"id": "q_7", "latex": "y", "visual_id": "9"}]},
]  # fmt: skip
DOCUMENTS = [
    {"key": "doc-100", "head": "One", "text": [f"{ODD} costs $5", "and $z$"], "words": ["a", "b"], "note": "n1"},
    {"key": "doc-101", "maths": ["n^2", {"id": "f9", "latex": "2n", "visual_id": "7"}], "note": "n2"},
]
FIELDS = {"key": "id", "head": "title", "text": "body", "words": "tags", "maths": "formulas"}


def written_data(conf: Conf, folder: Path, *, private: bool = False, name: str = "úkol") -> None:
    """Writes a collection, its protocol and its corpus, with all that topics and documents may have."""
    collection(conf, folder, judgments(), name="tiny", private=private)
    of_topics, of_corpus = ("".join(json.dumps(row) + "\n" for row in rows) for rows in (TOPICS, DOCUMENTS))
    (folder / "topics.jsonl").write_text(of_topics)
    (folder / "documents.jsonl").write_text(of_corpus)
    (folder / "qrels.txt").write_text("T.1 0 doc-100 1\nT.2 0 doc-101 2\n")
    made = yaml.safe_load((folder.parent / "user-conf/collection/tiny.yaml").read_text())
    made["topics"]["dollars"] = "pandoc"
    conf("collection", name, yaml.safe_dump({**made, "name": name, "corpus": name, "cluster": "set"}))
    source = {"file": {"file": str(folder / "documents.jsonl")}, "fields": FIELDS, "keep": ["note"]}
    about = {"name": name, "title": ODD, "licence": "CC0", "dollars": "pandoc", "has_keys": True}
    conf("corpus", name, yaml.safe_dump({**about, **source}))


def offering(folder: Path, **settings: object) -> tuple[Served, list[str]]:
    """Serves a lab with its files written; returns also the lines on what is not offered."""
    given = {"title": f"Lab {ODD}", "collection": "úkol", "rules": [f"Be kind {ODD}."], "measures": ["P@5"], **settings}
    site = served(new_lab(folder / "lab", given))
    return site, write_downloads(site.lab, site.service.state / DOWNLOADS)


def names(site: Served) -> set[str]:
    """The files that a visitor sees by the API; the page lists the same ones."""
    listed = {each["name"] for each in site.client().get("/api/v1/downloads").json()["files"]}
    page = site.client().get("/downloads").text
    assert {re.sub("%C3%BA", "ú", name) for name in re.findall('href="/downloads/([^"]+)"', page)} == listed
    return listed


CONFIGURED = {f"conf/{group}/úkol.yaml" for group in ("collection", "corpus")}
ALL = {*CONFIGURED, "conf/collection/úkol.topics.jsonl", "conf/corpus/úkol.jsonl", "conf/protocol/tiny-plain.yaml"}


def test_a_participant_with_the_address_alone_reads_what_the_organisers_read(
    conf: Conf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written_data(conf, tmp_path / "data")
    ours = load_collection("úkol").topics(), list(load_corpus("úkol")), load_collection("úkol").clusters()
    site, faults = offering(tmp_path)
    assert (faults, names(site)) == ([], {*ALL, "rules.md"})
    with listening(site) as address:
        (tmp_path / "participant").mkdir()
        monkeypatch.chdir(tmp_path / "participant")
        said = CliRunner().invoke(app, ["fetch", f"{address}/submit"])
        assert said.exit_code == 0 and "6 files, checksums right" in said.output and "rules.md" in said.output
        kept = files(Path())
        assert CliRunner().invoke(app, ["fetch", address]).exit_code == 0 and files(Path()) == kept
    assert set(kept) == {*ALL, "rules.md"} and f"- Be kind {ODD}." in kept["rules.md"].decode()
    assert not any(b"qrels.txt" in content or b"0 doc-100" in content for content in kept.values())
    monkeypatch.setenv("HARNESS_CONF", "conf")
    theirs = load_collection("úkol")
    assert (theirs.topics(), list(load_corpus("úkol")), theirs.clusters()) == ours
    assert theirs.withheld() and theirs.protocol == "tiny-plain" and theirs.corpus == "úkol"
    assert load_corpus("úkol").has_keys


def test_the_data_of_the_harness_need_no_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site, faults = offering(tmp_path, collection="mini-task1")
    data = {"conf/collection/mini-task1.topics.jsonl", "conf/corpus/mini-answers.jsonl"}
    assert (faults, names(site)) == ([], {*data, "rules.md"})
    monkeypatch.chdir(tmp_path)
    with listening(site) as address:
        said = CliRunner().invoke(app, ["fetch", address]).output
    assert "their public files: harness fetch mini-task1 mini-answers" in said
    rows = [json.loads(line) for line in Path("conf/corpus/mini-answers.jsonl").read_text().split("\n")[:-1]]
    assert [row["id"] for row in rows] == [each.id for each in load_corpus("mini-answers")]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "kinds"),
    [
        ({}, {"topics", "documents", "rules"}),
        ({"topic_pages": False}, {"documents", "rules"}),
        ({"per_topic": False}, {"documents", "rules"}),
        ({"private": True, "cap": 5}, {"rules"}),
        ({"private": True, "cap": 5, "downloads": ["topics"]}, {"topics"}),
        ({"downloads": ["documents"]}, {"documents"}),
        ({"downloads": []}, set()),
        ({"downloads": ()}, set()),
    ],
)
def test_the_settings_say_what_is_offered(
    conf: Conf, tmp_path: Path, settings: dict[str, object], kinds: set[str]
) -> None:
    """At once: what the settings do not allow any more is refused although it is still there."""
    written_data(conf, tmp_path / "data")
    site, faults = offering(tmp_path, **settings)
    listed = site.client().get("/api/v1/downloads").json()["files"]
    assert faults == [] and {each["kind"] for each in listed} == kinds == set(permitted(site.lab))
    known = (site.service.state / DOWNLOADS / "downloads.json").read_text()
    for each in listed:
        content = site.client().get(f"/downloads/{each['name']}").content
        assert (len(content), hashlib.sha256(content).hexdigest()) == (each["bytes"], each["sha256"])
    path = site.lab.folder / "lab.yaml"
    path.write_text(re.sub("^(# )?downloads:.*$", "downloads: []", path.read_text(), flags=re.MULTILINE) + "\n")
    assert names(site) == set() and (site.service.state / DOWNLOADS / "downloads.json").read_text() == known
    assert {site.client().get(f"/downloads/{each['name']}").status_code for each in listed} <= {404}
    with listening(site) as address, pytest.raises(HarnessError, match="the lab offers no files to download"):
        remote.fetch_downloads(address, tmp_path)


def test_what_was_written_for_other_settings_is_not_offered(conf: Conf, tmp_path: Path) -> None:
    written_data(conf, tmp_path / "data")
    site, _ = offering(tmp_path)
    path = site.lab.folder / "lab.yaml"
    path.write_text(path.read_text().replace("# private:", "private: true  #").replace("# cap:", "cap: 5  #"))
    assert read_lab(site.lab.folder).private
    answer = site.client().get("/api/v1/downloads")
    assert answer.status_code == 503 and "being written" in answer.text
    assert "being written" in site.client().get("/downloads").text
    assert site.client().get("/downloads/conf/corpus/úkol.jsonl").status_code == 404
    write_downloads(read_lab(site.lab.folder), site.service.state / DOWNLOADS)
    assert names(site) == {"rules.md"}
    assert len(files(site.service.state / DOWNLOADS)) == 2  # what is not offered any more is deleted
    assert (site.service.state / DOWNLOADS).stat().st_mode & 0o777 == 0o700  # other users of the machine do not read it


@pytest.mark.parametrize("marked", ["edition", "lab"])
def test_nothing_made_of_private_judgments_is_offered(conf: Conf, tmp_path: Path, marked: str) -> None:
    """Neither a corpus of the judged documents nor the judged topics, although the organisers name them."""
    written_data(conf, tmp_path / "data", private=marked == "edition")
    whole = yaml.safe_load((tmp_path / "user-conf/corpus/úkol.yaml").read_text())
    conf("corpus", "judged", yaml.safe_dump({**whole, "name": "judged", "judged": ["úkol"]}))
    asked = {"downloads": ["topics", "documents", "rules"], "private": True, "cap": 5}
    site, faults = offering(tmp_path, corpus="judged", **asked)
    assert len(faults) == 1 and "judge" in faults[0] and "private" in faults[0]
    assert names(site) == {*ALL, "rules.md"} - {"conf/corpus/úkol.jsonl", "conf/corpus/úkol.yaml"}
    written = files(site.service.state / DOWNLOADS).items()
    everything = b"".join(content for name, content in written if name != "downloads.json").decode()
    assert not any(doc in everything for doc in DOCS) and "judged" not in everything and "qrels.txt" not in everything
    data = tmp_path / "beir"
    (data / "qrels").mkdir(parents=True)
    (data / "qrels/test.tsv").write_text("query-id\tcorpus-id\tscore\nT.1\td1\t1\n")
    (data / "queries.jsonl").write_text('{"_id": "T.1", "text": "one"}\n{"_id": "T.2", "text": "two"}\n')
    (data / "corpus.jsonl").write_text('{"_id": "d1", "title": "", "text": "one"}\n')
    about = f"name: of-beir\ntitle: B\nlicence: CC0\nprotocol: trec_eval\nbeir: {{folder: '{data}'}}\n"
    conf("collection", "of-beir", about)
    lab = new_lab(tmp_path / "of-beir", {"title": "B", "collection": "of-beir", **asked, "downloads": ["topics"]})
    expected = ["topics: are known from the judgments alone, and these are private"]
    assert write_downloads(lab, tmp_path / "of-beir-files") == expected
    assert offered(lab, tmp_path / "of-beir-files").files == ()


def test_public_files_of_others_are_not_copied_unless_named(conf: Conf, tmp_path: Path) -> None:
    """Neither topics nor documents that have a source with a licence of its own."""
    lab = Lab(**{**vars(new_lab(tmp_path / "lab", {"title": "A", "collection": "mini-task1"})), "topic_pages": True})
    for name, documents in (("arqmath-3-task1", "mse-pages"), ("arqmath-3-task2", "mse-formulas")):
        known = replace(lab, collection=name, corpus=documents, edition="official", protocol="arqmath-task1")
        assert write_downloads(known, tmp_path / name) == []
        found = offered(known, tmp_path / name)
        assert [each.name for each in found.files] == ["rules.md"] and found.ours


@pytest.mark.slow
def test_files_are_sent_in_parts_known_by_their_checksum_and_found_by_their_name_alone(
    conf: Conf, tmp_path: Path
) -> None:
    written_data(conf, tmp_path / "data")
    site, _ = offering(tmp_path)
    client, at = site.client(), "/downloads/conf/corpus/úkol.jsonl"
    whole = client.get(at)
    tag = f'"{hashlib.sha256(whole.content).hexdigest()}"'
    assert whole.headers["etag"] == tag and whole.headers["cache-control"] == "no-cache"
    assert whole.headers["content-disposition"].startswith("attachment") and "nosniff" in str(whole.headers)
    part = client.get(at, headers={"range": "bytes=5-9", "if-range": tag})
    assert (part.status_code, part.content) == (206, whole.content[5:10])
    assert client.get(at, headers={"range": "bytes=5-9", "if-range": '"other"'}).content == whole.content
    assert client.get(at, headers={"range": "bytes=999999-"}).status_code == 416
    for known in (tag, f"W/{tag}", f'"x", {tag}', "*"):
        same = client.get(at, headers={"if-none-match": known})
        assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", tag)
    assert client.get(at, headers={"if-none-match": '"x"'}).status_code == 200
    head = client.head(at)
    assert (head.content, head.headers["content-length"]) == (b"", str(len(whole.content)))
    (site.service.state / "secret.txt").write_text("unseen")
    odd = ["../secret.txt", "%2e%2e/secret.txt", "..%2fsecret.txt", "/etc/passwd", "downloads.json", "", "%00"]
    odd += ["x" * 5000, tag.strip('"'), "rules.md/", "rules.md%00", "RULES.MD", "%2e/rules.md", "conf/%2e%2e/rules.md"]
    for name in odd:
        for head_of in ("/downloads/", "/api/v1/downloads/"):
            answer = client.get(head_of + name)
            assert "unseen" not in answer.text and (answer.status_code in (307, 404) or not name), name
    page = client.get("/downloads").text
    assert "<b>x" not in page and tag.strip('"') in page
    (site.service.state / DOWNLOADS / tag.strip('"')).unlink()
    assert client.get(f"/api/v1{at}").status_code == 503


def test_the_publisher_writes_the_files_and_large_ones_only_once(
    conf: Conf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    written_data(conf, tmp_path / "data")
    lab = new_lab(tmp_path / "lab", {"title": "L", "collection": "úkol", "measures": ["P@5"]})
    state = tmp_path / "state"
    state.mkdir()
    monkeypatch.setattr(processes.os, "nice", lambda _: 0)  # type: ignore[attr-defined]
    monkeypatch.setattr(processes, "POLL", 0.001)
    monkeypatch.setattr(processes, "build_pages", lambda *_: ("made", True))

    def run() -> dict[str, bytes]:
        left = iter(range(5))
        processes.publish(lab.folder, state, "", lambda: next(left, None) is None, pause=0.0)
        return files(state / DOWNLOADS)

    first = run()
    assert {each.name for each in offered(lab, state / DOWNLOADS).files} == {*ALL, "rules.md"} and len(first) == 7
    with monkeypatch.context() as patched:  # the same documents are not read again
        patched.setattr(downloads, "_document_files", lambda *_: pytest.fail("read again"))
        assert run() == first
    (tmp_path / "data/documents.jsonl").write_text("{}\n")
    run()
    assert capsys.readouterr().err.count("downloads: ") == 1
    assert {each.kind for each in offered(lab, state / DOWNLOADS).files} == {"topics", "rules"}
    row = {"key": "d", **dict.fromkeys(("head", "text", "words", "note"), ""), "maths": []}
    (tmp_path / "data/documents.jsonl").write_text(json.dumps(row))
    run()
    assert {*ALL, "rules.md"} == {each.name for each in offered(lab, state / DOWNLOADS).files}


# ---- the client: what a server may do to it --------------------------------------------------------------------------

CONTENT = b'{"id": "T.1", "title": "one"}\n'
EDITION = {"title": "E", "private": True, "qrels": {"file": "c.qrels"}}
COLLECTION: dict[str, Any] = {
    "name": "c", "title": "C", "licence": "CC0", "protocol": "trec_eval",
    "editions": {"e": EDITION},
    "topics": {"reader": "jsonl", "file": "c.topics.jsonl"},
}  # fmt: skip
CORPUS = {"name": "c", "title": "C", "licence": "CC0", "file": {"file": "c.jsonl"}, "fields": {"id": "id"}}


def listed(name: str, content: bytes, **other: object) -> dict[str, object]:
    about = {"name": name, "kind": "topics", "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    return {"collection": "c", "corpus": "", "ours": False, "files": [{**about, **other}]}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("harness.labs.remote.time.sleep", lambda _: None)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return Path()


def refused(address: str) -> str:
    """What `harness fetch URL` says, in one line, when it ends with a fault and has written nothing."""
    before = files(Path())
    said = CliRunner().invoke(app, ["fetch", address])
    assert isinstance(said.exception, HarnessError) and said.output == "" and files(Path()) == before
    assert not list(Path().rglob("*.staged"))
    (line,) = said.exception.lines
    return line


@pytest.mark.parametrize(
    ("sent", "found"),
    [
        (CONTENT.replace(b"one", b"two"), "30 bytes with the SHA-256"),
        (CONTENT[:-1], "29 bytes"),
        (b"", "0 bytes"),
        (CONTENT + b"x", "more than 30 bytes"),
        (CONTENT * 100_000, "more than 30 bytes"),
    ],
)
def test_a_damaged_download_is_one_line_and_writes_nothing(here: Path, sent: bytes, found: str) -> None:
    both = listed("rules.md", CONTENT)
    both["files"] += listed("conf/collection/c.topics.jsonl", CONTENT)["files"]  # type: ignore[operator]
    with answering((200, both), (200, CONTENT), (200, sent)) as (address, _):
        said = refused(address)
    assert f"{address}: conf/collection/c.topics.jsonl: damaged: {found}" in said and "nothing was written" in said


@pytest.mark.slow
def test_a_lost_connection_is_tried_again(here: Path) -> None:
    with answering((200, listed("rules.md", CONTENT)), (0, None), (503, {}), (200, CONTENT)) as (address, seen):
        assert CliRunner().invoke(app, ["fetch", address]).exit_code == 0
    assert [path for path, *_ in seen] == ["/api/v1/downloads", *["/api/v1/downloads/rules.md"] * 3]
    assert Path("rules.md").read_bytes() == CONTENT
    Path("rules.md").write_text("mine")
    with answering((200, listed("rules.md", CONTENT))) as (address, _):
        assert "rules.md: exists already, and is not the lab's file" in refused(address)
    with answering((200, listed("conf/corpus/c.jsonl", CONTENT)), (404, {"errors": ["there is none"]})) as (address, _):
        assert "there is none" in refused(address)
    Path("conf").write_text("a file")
    with answering((200, listed("conf/corpus/c.jsonl", CONTENT)), (200, CONTENT)) as (address, _):
        refused(address)
    for options in ([address, "mini-task1"], [address, "--probe"]):
        said = CliRunner().invoke(app, ["fetch", *options])
        assert "the address of a lab's server is given alone" in str(said.exception)


OUTSIDE = r"""
../rules.md
/tmp/rules.md
conf/../rules.md
conf/corpus/../c.jsonl
conf/corpus/c.jsonl/../../../x
conf/system/c.yaml
conf/corpus/a/b.yaml
conf/corpus/_base.yaml
conf/corpus/.c.jsonl
conf/corpus/c.py
conf/corpus/c\..\x.yaml
c.jsonl
""".splitlines()


@pytest.mark.slow
def test_no_name_leads_out_of_the_folder(here: Path) -> None:
    for name in (*OUTSIDE, "rules.md\n", "conf/corpus/c.yaml\0"):
        with answering((200, listed(name, CONTENT))) as (address, _):
            assert "is no file of a lab" in refused(address), name
    for wrong in ({"bytes": -5}, {"bytes": "3"}, {"kind": "code"}, {"sha256": None}):
        with answering((200, listed("rules.md", CONTENT, **wrong))) as (address, _):
            refused(address)
    twice = listed("rules.md", CONTENT)
    twice["files"] *= 2  # type: ignore[operator]
    with answering((200, twice)) as (address, _):
        assert "or is listed twice" in refused(address)
    with (
        without(remote.fetch_downloads, "not NAMES.fullmatch(each.name) or", ""),
        answering((200, listed("../out.md", CONTENT)), (200, CONTENT)) as (address, _),
    ):
        CliRunner().invoke(app, ["fetch", address])
    assert Path("../out.md").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("group", "changed", "key"),
    [
        ("collection", {"topics": {"reader": "os:system", "file": "c.topics.jsonl"}}, "topics"),
        ("collection", {"topics": {"reader": "jsonl", "file": "/etc/passwd"}}, "topics"),
        ("collection", {"topics": {"reader": "jsonl", "embedded": "topics/x"}}, "topics"),
        ("collection", {"topics": "c.topics.jsonl"}, "topics"),
        ("collection", {"editions": {"e": {**EDITION, "qrels": {"file": "/etc/passwd"}}}}, "editions"),
        ("collection", {"editions": {"e": {**EDITION, "qrels": {"file": "c.qrels", "reader": "a:b"}}}}, "editions"),
        ("collection", {"editions": {"e": EDITION, "f": {**EDITION, "qrels": {"file": "x"}}}}, "editions"),
        ("collection", {"editions": {"e": {**EDITION, "order": {"file": "x"}}}}, "editions"),
        ("collection", {"editions": ["e"]}, "editions"),
        ("collection", {"keys": {"file": "x", "id_column": "a", "key_column": "b"}}, "keys"),
        ("collection", {"attributes": {"file": "x", "key": "a", "columns": {"a": "a"}}}, "attributes"),
        ("collection", {"defaults": ["/etc/x"]}, "defaults"),
        ("corpus", {"reader": "os:system"}, "reader"),
        ("corpus", {"file": {"file": "../../x"}}, "file"),
        ("corpus", {"file": None, "folder": {"path": "/"}}, "folder"),
        ("corpus", {"checkout": {"place": "/"}}, "checkout"),
        ("corpus", {"variants": {"x": {"reader": "os:system"}}}, "variants"),
    ],
)  # fmt: skip
def test_a_configuration_reads_the_download_alone_and_runs_no_code(
    here: Path, group: str, changed: dict[str, object], key: str
) -> None:
    given = COLLECTION if group == "collection" else CORPUS
    content = yaml.safe_dump({**given, **changed}).encode()
    with answering((200, listed(f"conf/{group}/c.yaml", content)), (200, content)) as (address, _):
        assert f"conf/{group}/c.yaml: key {key!r} names another file or reader" in refused(address)
    content = yaml.safe_dump(given).encode()
    with answering((200, listed(f"conf/{group}/c.yaml", content)), (200, content)) as (address, _):
        assert CliRunner().invoke(app, ["fetch", address]).exit_code == 0
