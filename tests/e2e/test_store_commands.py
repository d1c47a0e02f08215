"""The store, files with manual download and judgments cut to a corpus, from the command line."""

from __future__ import annotations

import os
import re
import shutil
import signal
from pathlib import Path

import pytest
from tools import MINI, Place, own_corpus, table

from harness.collections.corpora import load_corpus
from harness.collections.load import load_collection
from harness.io import staging_names as processes
from harness.io.locks import held

KINDS = ("tokens", "counts", "postings")
POSTS = """<?xml version="1.0" encoding="utf-8"?>
<posts>
<row Id="1" PostTypeId="1" Title="Sums" Body="&lt;p&gt;How?&lt;/p&gt;" Tags="&lt;sums&gt;" />
<row Id="2" PostTypeId="2" ParentId="1" Body="&lt;p&gt;So.&lt;/p&gt;" />
</posts>
"""


@pytest.mark.slow
def test_the_store_is_listed_and_emptied(place: Place) -> None:
    assert place.good("store", "ls").startswith("0 artifacts, 0 B in ")
    place.good("run", *MINI, "system=bm25", "formats=[json]")
    rows = table(place.good("store", "ls"))
    assert rows[0] == ["kind", "key", "size", "last used", "corpus"]
    # What is made of tokens does not say the corpus itself.
    assert {(row[0], row[4]) for row in rows[1:-1]} == {(kind, "mini-answers") for kind in KINDS}
    assert all(row[2].endswith("KiB") for row in rows[1:-1])
    assert re.match(r"3 artifacts, [\d.]+ KiB in ", rows[-1][0])
    assert place.good("store", "gc") == "0 artifacts deleted, 0 B freed\n"
    (spec,) = place.cache.rglob("tokens/*/spec.json")
    old = spec.stat().st_mtime - 31 * 86400
    os.utime(spec, (old, old))
    size = next(row[2] for row in rows if row[0] == "tokens")
    assert place.good("store", "gc") == f"1 artifact deleted, {size} freed\n"
    assert not list(place.cache.rglob("tokens/*/spec.json"))
    place.good("run", *MINI, "system=bm25", "formats=[json]", "reuse=false")
    assert place.good("store", "gc", "--days", "0").startswith("3 artifacts deleted")
    assert not list(place.cache.rglob("spec.json"))


@pytest.mark.slow
def test_who_waits_for_another_process_can_be_stopped(place: Place) -> None:
    place.good("run", *MINI, "system=bm25", "formats=[json]")
    (spec,) = place.cache.rglob("tokens/*/spec.json")
    made = spec.parent
    shutil.rmtree(made)
    with held(made.parent, made.name, "makes tokens"):
        rows = table(place.good("store", "ls"))
        user = [os.uname().nodename, str(os.getpid()), processes.user()]
        assert rows[-3:-1] == [["being made", "key", "machine", "process", "user"], ["tokens", made.name[:12], *user]]
        with place.start("run", *MINI, "system=bm25", "formats=[json]", "reuse=false") as process:
            assert process.stderr is not None
            assert process.stderr.readline() == "running bm25 on mini-task1\n"
            assert process.stderr.readline() == f"waiting for {user[0]}, process {user[1]}, which makes tokens\n"
            process.send_signal(signal.SIGINT)
            assert process.stderr.read() == "harness: stopped; what was written is whole\n"
            assert process.wait() == 130
        assert [path.name for path in made.parent.iterdir()] == [f".{made.name}.lock"]


@pytest.mark.slow
def test_a_file_brought_by_hand(place: Place) -> None:
    place.write("posts.xml", POSTS)
    path = place.good("fetch", "arqmath-posts", "--from", "posts.xml").strip()
    assert Path(path).read_text() == POSTS
    rows = {row[0]: row[1:] for row in table(place.good("list", "corpora"))}
    assert rows["arqmath-posts"][0] == "here"


@pytest.mark.slow
def test_judgments_are_cut_to_the_corpus_and_the_report_says_so_first(place: Place) -> None:
    documents = [document for _, document in zip(range(60), load_corpus("mini-answers"), strict=False)]
    own_corpus(place, "part", documents, notes=["the first documents of the corpus"])
    ids = {document.id for document in documents}
    judged = load_collection("mini-task1").qrels().to_dict()
    present = sum(doc in ids for docs in judged.values() for doc in docs)
    relevant = sum(any(grade >= 2 and doc in ids for doc, grade in docs.items()) for docs in judged.values())
    gained = sum(any(grade > 0 and doc in ids for doc, grade in docs.items()) for docs in judged.values())
    assert 0 < relevant < gained < len(judged)
    printed = place.good("run", "collection=mini-task1", "corpus=part", "system=overlap").splitlines()
    said = (
        f"judged and present: {present:,} of {sum(map(len, judged.values())):,} pairs; {gained} topics with a relevant "
        f"document for nDCG′, {relevant} for MAP′, P′@10 and Bpref; the first documents of the corpus; "
        "not comparable with published values"
    )
    assert printed[0] == said
    assert f"(edition official, n = {gained})" in printed[1]
    report = (place.here / "reports/mini-task1/overlap/report.md").read_text()
    first = report.partition("## Results")[2].strip().splitlines()[0]
    assert first == f"J{said[1:]}."
    scored = place.good("score", "runs/mini-task1/overlap.run", "-c", "mini-task1", "--corpus", "part")
    assert scored.splitlines()[0] == said
    row = table(scored)[2]
    assert f"{float(row[1]):.3f}" == re.findall(r"nDCG′ (\S+) by", printed[1])[0]
    assert row[-2] == f"{gained}/{relevant}/{relevant}/{relevant}/{len([t for t in judged if set(judged[t]) & ids])}"
    # A run of the whole corpus is another thing, and is made anew.
    whole = place.good("run", "collection=mini-task1", "corpus=mini-answers", "system=overlap").splitlines()
    assert "n = 42" in whole[0]


@pytest.mark.slow
def test_a_run_of_a_part_is_not_scored_on_the_whole_without_a_word(place: Place) -> None:
    place.good("run", *MINI, "system=overlap", "formats=[json]")
    assert place.run("score", "runs/mini-task1/overlap.run", "-c", "mini-task1").err == ""
    # One answer in twelve, of which some lose all relevant ones.
    whole, found = load_collection("mini-task1").qrels().to_dict(), load_corpus("mini-answers")
    kept = {document.id: document for number, document in enumerate(found) if number % 12 == 0}
    own_corpus(place, "some", kept.values())
    lost = sum(not any(grade > 1 and doc in kept for doc, grade in judged.items()) for judged in whole.values())
    assert 0 < lost < 42
    place.good("run", "collection=mini-task1", "corpus=some", "system=overlap", "formats=[json]")
    said = place.run("score", "runs/mini-task1/overlap.run", "-c", "mini-task1").err
    assert said.splitlines()[0] == (
        f"runs/mini-task1/overlap.run was made on corpus some, where {lost} of 42 judged topics have no relevant "
        "document; --corpus some restricts the judgments to its documents"
    )
    # No option mends a run of another collection.
    (said,) = place.run("score", "runs/mini-task1/overlap.run", "-c", "mini-theorems").err.splitlines()
    assert said.endswith("is among the collection's; is it a run of another collection?")
    side = place.here / "runs/mini-task1/overlap.ir-metadata.yml"
    side.write_text(side.read_text().replace("name: some", "name: mse-pages"))
    said = place.run("score", "runs/mini-task1/overlap.run", "-c", "mini-task1").err
    assert said == (
        "runs/mini-task1/overlap.run was made on corpus mse-pages, which is not here; "
        "--corpus mse-pages restricts the judgments to its documents\n"
    )
