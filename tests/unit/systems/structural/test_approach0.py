"""Approach0: the producer with an engine in its place that breaks off as told, the whole with the real one."""

from __future__ import annotations

import importlib.util
from importlib import metadata
from pathlib import Path

import pytest
from lexical_tools import found, marked, message, rows_corpus
from structural_tools import formula_topics, posts_corpus

from harness.store import artefacts
from harness.systems.base import Request
from harness.systems.structural import approach0
from harness.systems.structural.approach0 import Approach0

# Stands in the engine's place: a document scores by how many of the query's formulas stand in it, and less than 0 if it
# has the formula `often`.
FAKE = """
import os, pathlib
def parse(latex):
    if latex == "segfault": os._exit(139)
    return ("syntax error, unexpected x", None) if latex == "bad" else ("OK", ())
def index_open(path, option):
    folder = pathlib.Path(path)
    folder.mkdir(exist_ok=True)
    print("creating index path")
    return folder
def index_writer(folder): return folder
def writer_add_doc(folder, content, url):
    if "breakindex" in content: os._exit(139)
    number = len(list(folder.iterdir())) + 1
    (folder / str(number)).write_text(content)
    return number
def writer_flush(folder): pass
def writer_maintain(folder, force): return True
def writer_close(folder): pass
def index_close(folder): pass
def search(folder, keywords, topk, verbose, log):
    hits = []
    for path in folder.iterdir():
        text = path.read_text()
        found = sum("[imath]" + each["str"] + "[/imath]" in text for each in keywords)
        score = found - 2 * ("[imath]often[/imath]" in text)
        if any(each["str"] == "breaksearch" for each in keywords): os._exit(139)
        if found: hits.append((score, int(path.name)))
    hits.sort(reverse=True)
    rows = ['{"docid": %d, "rank": %d, "score": %.3f, "field_url": "","field_content": "\\\\q"}' % (n, at, s)
            for at, (s, n) in enumerate(hits[:topk], 1)]
    return '{"ret_code": 0, "hits": [' + ", ".join(rows) + "]}"
"""


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine's place is taken."""
    package = tmp_path / "site" / "pya0"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError('the package is not to be loaded')")
    (package / "_pya0.py").write_text(FAKE)
    monkeypatch.setenv("PYTHONPATH", str(package.parent))
    known = metadata.version
    monkeypatch.setattr(metadata, "version", lambda name: "0.0.1" if name == "pya0" else known(name))


with_engine = marked(pytest.mark.slow, pytest.mark.usefixtures("engine"))


DOCUMENTS = {"d1": ("a", "b"), "d2": ("b",), "d3": (), "d4": ("c", "bad")}


@with_engine
def test_scores_are_of_the_documents(tmp_path: Path) -> None:
    corpus = posts_corpus(tmp_path, DOCUMENTS)
    topics = formula_topics(t1=("a", "b", "a"), t2=("c",), t3=("z",), t4=())
    assert found(Approach0(), topics, corpus, tmp_path) == {"t1": {"d1": 2.0, "d2": 1.0}, "t2": {"d4": 1.0}}


@with_engine
def test_pool_and_depth(tmp_path: Path) -> None:
    corpus = posts_corpus(tmp_path, DOCUMENTS)
    topics = formula_topics(t1=("a", "b"))
    pool = {"t1": frozenset(("d2", "d3", "elsewhere"))}
    assert found(Approach0(), topics, corpus, tmp_path, pool) == {"t1": {"d2": 1.0, "d3": 0.0}}
    assert found(Approach0(depth=1), topics, corpus, tmp_path) == {"t1": {"d1": 2.0}}


@with_engine
def test_hits_whose_score_is_not_above_0(tmp_path: Path) -> None:
    documents = {"d1": ("a", "often"), "d2": ("a", "b", "often"), "d3": ("a",), "d4": ("c",)}
    corpus = posts_corpus(tmp_path, documents)
    topics = formula_topics(t1=("a", "b"), t2=("c",))
    hits = {"t1": {"d3": 1.0, "d2": 0.0, "d1": -1.0}, "t2": {"d4": 1.0}}
    assert found(Approach0(), topics, corpus, tmp_path) == hits
    pool = {"t1": frozenset(("d1", "d2", "d4")), "t2": frozenset(("d1",))}
    assert found(Approach0(), topics, corpus, tmp_path, pool) == {
        "t1": {"d2": 0.0, "d1": -1.0, "d4": -2.0},
        "t2": {"d1": 0.0},
    }


@pytest.mark.parametrize("text", ["nan", "-nan", "inf", "-inf", "31,404", "", "1 2"])
def test_scores_that_are_no_numbers(text: str) -> None:
    line = f'{{"hits": [{{"docid": 1, "rank": 1, "score": {text}, "field_url": ""}}]}}'
    said = message(lambda: approach0.scored("T.1", approach0._HIT.findall(line), 1))
    assert said == f"Approach0 gives document 1 of topic T.1 the score {text!r}, expected a number"


# Of pya0 0.3.7, for a corpus of which most documents have x.
ANSWER = r"""{"ret_code": 0, "ret_str": "Successful", "tot_pages": 1, "hits": [
{"docid": 9, "rank": 1, "score": 0.071, "field_content": "{\"docid\": 7, \"rank\": 1, \"score\": 99.0, \"b ... "},
{"docid": 12, "rank": 2, "score": -0.182, "field_content": "<em>\q</em>","field_extern_id": ""}]}"""


def test_hits_are_read_from_what_the_engine_prints() -> None:
    hits = approach0._HIT.findall(ANSWER.replace("\n", ""))
    assert hits == [("9", "0.071"), ("12", "-0.182")]
    above, floor = approach0.scored("T", [("1", "1e-05"), ("2", "-2.5E+1"), ("3", "+.5"), ("4", "7.")], 5)
    assert (above + floor).tolist() == pytest.approx([1e-05, -25, 0.5, 7, -26])


@with_engine
def test_what_cannot_be_parsed_is_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    documents = {**DOCUMENTS, "d5": ("segfault", "b"), "d6": ("segfault",)}
    corpus = posts_corpus(tmp_path, documents)
    run = found(Approach0(), formula_topics(t1=("b", "bad"), t2=("segfault",)), corpus, tmp_path)
    assert run == {"t1": {"d1": 1.0, "d2": 1.0, "d5": 1.0}}
    said = capsys.readouterr().err
    assert "5 distinct formulas; parsed by Approach0: 3; not: syntax error: 1, broke off: 1" in said
    assert "3 distinct formulas, 1 topics without any; parsed by Approach0: 1" in said


@with_engine
def test_document_that_breaks_the_index(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    corpus = posts_corpus(tmp_path, {"d0": ("breakindex",), **DOCUMENTS, "d9": ("b", "breakindex")})
    run = found(Approach0(), formula_topics(t1=("b",)), corpus, tmp_path)
    assert run == {"t1": {"d1": 1.0, "d2": 1.0}}
    said = capsys.readouterr().err
    assert "broke off at document d0," in said
    assert "broke off at document d9," in said


@with_engine
def test_topic_that_breaks_the_search(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    corpus = posts_corpus(tmp_path, DOCUMENTS)
    run = found(Approach0(), formula_topics(t1=("breaksearch",), t2=("b",), t3=("breaksearch",)), corpus, tmp_path)
    assert run == {"t2": {"d1": 1.0, "d2": 1.0}}
    assert "broke off at topic t3," in capsys.readouterr().err


@with_engine
def test_index_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = posts_corpus(tmp_path, DOCUMENTS)
    first = found(Approach0(), formula_topics(t1=("b",)), corpus, tmp_path)
    monkeypatch.setattr(approach0, "build", lambda corpus, folder: pytest.fail("built again"))
    assert found(Approach0(), formula_topics(t1=("b",)), corpus, tmp_path) == first
    assert [artefact.kind for artefact in artefacts.artefacts()] == ["approach0-index"]


@with_engine
def test_posts_are_kept_as_context(tmp_path: Path) -> None:
    rows = [{"id": "f2", "latex": "b", "post": "p1"}, {"id": "f1", "latex": "a", "post": "p2"}]
    corpus, without = (rows_corpus(tmp_path / "c.jsonl", rows, "id latex", keep) for keep in ("post", ""))
    run = Approach0()(Request(formula_topics(t=("a",), u=("b", "a")), corpus, tmp_path))
    assert run.context is not None
    got = zip(run.topic.tolist(), run.doc.tolist(), run.context.tolist(), strict=True)
    assert set(got) == {(0, b"f1", b"p2"), (1, b"f1", b"p2"), (1, b"f2", b"p1")}
    assert Approach0()(Request(formula_topics(t=("a",)), without, tmp_path)).context is None


@with_engine
def test_corpus_without_formulas(tmp_path: Path) -> None:
    corpus = posts_corpus(tmp_path, {"d1": (), "d2": ("bad",)})
    said = message(lambda: Approach0()(Request(formula_topics(t=("a",)), corpus, tmp_path)))
    assert said == "corpus posts: has no formula that Approach0 can read, which reads LaTeX"


@pytest.mark.slow
def test_engine_that_does_not_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "pya0"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "_pya0.py").write_text("raise ImportError('libmpi.so: cannot open')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    said = message(lambda: approach0.search(tmp_path, {"t": ["a"]}, 1))
    assert said == (
        "Approach0 does not start: ImportError: libmpi.so: cannot open; pip install 'mathir-harness[approach0]'"
    )


def test_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lacking(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    corpus = posts_corpus(tmp_path, DOCUMENTS)
    monkeypatch.setattr(metadata, "version", lacking)
    said = message(lambda: Approach0()(Request(formula_topics(t=("a",)), corpus, tmp_path)))
    assert said == "pya0 is not installed: pip install 'mathir-harness[approach0]'"


LACKING = importlib.util.find_spec("pya0") is None


WHY = "pya0 is not installed: pip install 'mathir-harness[approach0]'"
real_engine = marked(pytest.mark.slow, pytest.mark.skipif(LACKING, reason=WHY))


@real_engine
def test_real_engine_finds_each_formula_first(tmp_path: Path) -> None:
    latex = [r"\frac{a}{b}+x^2", r"\int_0^1 f(x) dx", r"\sqrt{y^2+1}", r"\sum_{n=1}^\infty \frac{1}{n^2}", "e^{i t}"]
    corpus = posts_corpus(tmp_path, {f"d{n}": (each,) for n, each in enumerate(latex)})
    topics = formula_topics(**{f"t{n}": (each,) for n, each in enumerate(latex)}, broken=(r"\foo{{",))
    run = found(Approach0(), topics, corpus, tmp_path)
    assert {topic: max(docs, key=lambda name: docs[name]) for topic, docs in run.items()} == {
        f"t{n}": f"d{n}" for n in range(len(latex))
    }
