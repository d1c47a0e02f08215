"""PyTerrier's pipelines as systems: their frames, as retrievers and re-rankers, and what is refused."""

from __future__ import annotations

import importlib.util
import itertools
import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from case_tables import table
from hypothesis import given
from hypothesis import strategies as st
from lexical_tools import corpus_of, message, topics_of

from harness.cli import findings
from harness.data.topics import Formula, Topic, Topics
from harness.errors import HarnessError
from harness.experiments import produce
from harness.experiments.task import task
from harness.io import config
from harness.store import artefacts, code
from harness.store.cost import measuring
from harness.systems.base import MARK, Pool, Request
from harness.systems.build import build_system
from harness.systems.foreign import pyterrier
from harness.systems.foreign.pyterrier import PyTerrier
from harness.systems.foreign.results import ForeignResults, run_of

needs = pytest.mark.skipif(importlib.util.find_spec("pyterrier") is None, reason="pyterrier is not installed")
COUNT = itertools.count()
Make = Callable[[str], str]

HEAD = """
import pandas as pd
import pyterrier as pt

SEEN = []

def _seen(frame):
    SEEN.append(frame.copy())

"""
# Scores documents of a frame by the words that they share with the query.
OVERLAP = """
def _overlap(frame):
    _seen(frame)
    shared = [len({*q.split()} & {*t.split()}) for q, t in zip(frame["query"], frame["text"])]
    return frame.assign(score=[float(each) for each in shared])

overlap = pt.apply.generic(_overlap)
"""
# Returns given documents for each topic.
FIXED = """
def fixed(docs=("d1", "d2"), scores=(2.0, 1.0), **more):
    def search(frame):
        _seen(frame)
        rows = [{"qid": q, "docno": d, "score": s, **{k: v[i] for k, v in more.items()}}
                for q in frame["qid"] for i, (d, s) in enumerate(zip(docs, scores))]
        return pd.DataFrame(rows, columns=["qid", "docno", "score", *more])
    return pt.apply.generic(search)
"""


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Writes a module of pipelines into the path of Python; returns its name."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(text: str) -> str:
        name = f"pipelines_{next(COUNT)}"
        (tmp_path / f"{name}.py").write_text(HEAD + text)
        importlib.invalidate_caches()
        code.forget()
        return name

    return write


def seen(module: str) -> list[dict[str, list[object]]]:
    """The frames that a pipeline got; not those by which PyTerrier finds out what it takes."""
    return [frame.to_dict("list") for frame in sys.modules[module].SEEN if len(frame)]


def ranked(
    system: PyTerrier, topics: Topics, corpus: object, folder: Path, pool: Pool | None = None
) -> dict[str, object]:
    return {t: dict(docs) for t, docs in system(Request(topics, corpus, folder, pool=pool)).to_dict().items()}  # type: ignore[arg-type]


# ---- retrievers -----------------------------------------------------------------------------------------------------


@needs
def test_a_retriever_gets_topics_as_pyterrier_names_them(tmp_path: Path, made: Make) -> None:
    module = made(FIXED)
    topics = Topics((
        Topic("T1", "a $x$", "body", ("t1", "t2"), (Formula("q_1", "x"),), "ces", {"query": "an attribute"}),
        Topic("T2", "b"),
    ))  # fmt: skip
    corpus = corpus_of(tmp_path, {"d1": "a", "d2": "b"})
    system = PyTerrier(f"{module}:fixed")
    assert ranked(system, topics, corpus, tmp_path) == {t: {"d1": 2.0, "d2": 1.0} for t in ("T1", "T2")}
    assert seen(module) == [{
        "qid": ["T1", "T2"], "query": ["a $x$ body t1 t2", "b"], "query_title": ["a $x$", "b"],
        "query_body": ["body", ""], "query_tags": ["t1 t2", ""], "language": ["ces", "eng"],
    }]  # fmt: skip
    ranked(PyTerrier(f"{module}:fixed", query=["title", "formulas"], view="text"), topics, corpus, tmp_path)
    assert seen(module)[1]["query"] == ["a", "b"]


@needs
def test_its_index_is_built_once_from_the_documents(tmp_path: Path, made: Make) -> None:
    module = made(
        """
import json
from pathlib import Path

def write(documents, folder):
    SEEN.append(list(documents))
    assert SEEN[-1] == list(documents)  # they can be read again
    Path(folder, "index.json").write_text(json.dumps({d["docno"]: d["text"] for d in documents}))

def search(index, factor=1):
    held = json.loads(Path(index, "index.json").read_text())
    def ranked(frame):
        rows = [(q, d, factor * len(text)) for q in frame["qid"] for d, text in held.items()]
        return pd.DataFrame(rows, columns=["qid", "docno", "score"])
    return pt.apply.generic(ranked)
"""
    )
    corpus, topics = corpus_of(tmp_path, {"d1": "a", "d2": "bb $x$"}, more={"d1": "m"}), topics_of(T="q")
    where = {"pipeline": f"{module}:search", "index": f"{module}:write"}
    assert ranked(PyTerrier(**where), topics, corpus, tmp_path) == {"T": {"d2": 6.0, "d1": 1.0}}  # type: ignore[arg-type]
    again = PyTerrier(**where, arguments={"factor": 2})  # type: ignore[arg-type]
    assert ranked(again, topics, corpus, tmp_path) == {"T": {"d2": 12.0, "d1": 2.0}}
    (first,) = sys.modules[module].SEEN
    assert first[0] == {"more": "m", "docno": "d1", "text": "a", "title": "", "body": "a", "tags": ""}
    ranked(PyTerrier(**where, text=["more", "body"]), topics, corpus, tmp_path)  # type: ignore[arg-type]
    assert len(sys.modules[module].SEEN) == 2
    assert [each.kind for each in artefacts.artefacts()] == ["pyterrier-index"] * 2


# ---- re-rankers -----------------------------------------------------------------------------------------------------


@needs
def test_a_reranker_of_a_first_ranking(tmp_path: Path, made: Make) -> None:
    module = made(OVERLAP)
    corpus = corpus_of(tmp_path, {"d1": "a b c", "d2": "a b", "d3": "a", "d4": "z", "d5": "y"}, more={"d1": "m"})
    topics = topics_of(T1="a b c", T2="z")
    first = tmp_path / "first.run"
    lines = [("T1", "d3", 9), ("T1", "d1", 8), ("T1", "d4", 7), ("T1", "d2", 6), ("T2", "d5", 1), ("T2", "gone", 5)]
    first.write_text("".join(f"{t} Q0 {d} 1 {s} first\n" for t, d, s in lines))
    system = PyTerrier(f"{module}:overlap", first=str(first), k=3)
    run = system(Request(topics, corpus, tmp_path))
    assert run.to_dict() == {"T1": {"d1": 3.0, "d3": 1.0, "d4": 0.0, "d2": -1.0}, "T2": {"d5": 0.0}}
    (frame,) = seen(module)
    assert frame["qid"] == ["T1", "T1", "T1", "T2"]
    assert frame["docno"] == ["d3", "d1", "d4", "d5"]
    assert frame["text"] == ["a", "a b c", "z", "y"]
    assert frame["more"] == ["", "m", "", ""]
    assert frame["score"] == [9.0, 8.0, 7.0, 1.0]
    assert frame["rank"] == [0, 1, 2, 0]
    assert frame["query"] == frame["query_title"] == ["a b c"] * 3 + ["z"]
    cut = PyTerrier(f"{module}:overlap", first=str(first), depth=2)(Request(topics, corpus, tmp_path)).to_dict()
    assert cut == {"T1": {"d1": 3.0, "d2": 2.0}, "T2": {"d5": 0.0}}


@needs
def test_documents_below_the_first_k_stay_below_them(tmp_path: Path, made: Make) -> None:
    """Also below scores whose neighbours as float32 are further away than 1, and where the pipeline returns nothing."""
    module = made(
        """
def _masked(frame):
    return frame[frame["qid"] == "T1"].assign(score=-1e9)

masked = pt.apply.generic(_masked)
"""
    )
    corpus = corpus_of(tmp_path, {"d1": "a", "d2": "b", "d3": "c", "d4": "d"})
    first = tmp_path / "first.run"
    first.write_text("".join(f"{topic} Q0 d{n} 1 {9 - n} first\n" for topic in ("T1", "T2") for n in (1, 2, 3, 4)))
    system = PyTerrier(f"{module}:masked", first=str(first), k=1)
    run = system(Request(topics_of(T1="a", T2="b"), corpus, tmp_path))
    assert {topic: list(docs) for topic, docs in run.to_dict().items()} == {
        "T1": ["d1", "d2", "d3", "d4"],
        "T2": ["d2", "d3", "d4"],
    }
    scores = run.score.astype(np.float32)
    assert (scores[1:4] < scores[:3]).all()


@needs
def test_columns_of_the_corpus_replace_none_of_a_topic(tmp_path: Path, made: Make) -> None:
    module = made(OVERLAP)
    corpus = corpus_of(tmp_path, {"d1": "a"}, query={"d1": "other"}, qid={"d1": "T9"}, score={"d1": "7"})
    first = tmp_path / "first.run"
    first.write_text("T1 Q0 d1 1 1 first\n")
    system = PyTerrier(f"{module}:overlap", first=str(first))
    assert ranked(system, topics_of(T1="a b"), corpus, tmp_path) == {"T1": {"d1": 1.0}}
    (frame,) = seen(module)
    assert (frame["qid"], frame["query"], frame["score"]) == (["T1"], ["a b"], [1.0])


@needs
def test_a_reranker_of_the_pool(tmp_path: Path, made: Make) -> None:
    class Without:
        def out(self, topics: object, topic: np.ndarray, doc: np.ndarray) -> np.ndarray:
            return np.isin(doc, [b"d2"])

        def among(self, docs: np.ndarray) -> object:
            return lambda topic: np.isin(docs, [b"d2"])

    module = made(OVERLAP)
    corpus, topics = corpus_of(tmp_path, {"d1": "a b", "d2": "a", "d3": "z"}), topics_of(T1="a b", T2="z")
    pool = {"T1": frozenset({"d1", "d2", "absent"})}
    system = PyTerrier(f"{module}:overlap", takes="documents")
    assert ranked(system, topics, corpus, tmp_path, pool) == {"T1": {"d1": 2.0, "d2": 1.0}}
    request = Request(topics, corpus, tmp_path, pool=pool, excluded=Without())  # type: ignore[arg-type]
    assert system(request).to_dict() == {"T1": {"d1": 2.0}}
    said = message(lambda: ranked(system, topics, corpus, tmp_path))
    assert said.startswith("system pyterrier: has nothing to re-rank; give the key 'first'")


@needs
def test_what_the_pipeline_says_it_takes(tmp_path: Path, made: Make) -> None:
    module = made(
        """
class Reranker(pt.Transformer):
    def transform(self, frame):
        pt.validate.result_frame(frame, extra_columns=["query", "text"])
        _seen(frame)
        return frame.assign(score=1.0)
"""
    )
    corpus, topics = corpus_of(tmp_path, {"d1": "a b", "d2": "a"}), topics_of(T1="a b")
    pool = {"T1": frozenset({"d1", "d2"})}
    assert ranked(PyTerrier(f"{module}:Reranker"), topics, corpus, tmp_path, pool) == {"T1": {"d2": 1.0, "d1": 1.0}}
    assert seen(module)[-1]["text"] == ["a", "a b"]


@needs
def test_ties_and_what_is_noted(tmp_path: Path, made: Make) -> None:
    module = made(FIXED)
    how = {"docs": ["d1", "d3", "d2"], "scores": [1.0, 1.0, 1.0], "rank": [1, 0, 2]}
    topics = topics_of(T="a")
    with measuring() as meter:
        by_id = PyTerrier(f"{module}:fixed", arguments=how)(Request(topics, None, tmp_path))
    assert by_id.to_dict() == {"T": {"d3": 1.0, "d2": 1.0, "d1": 1.0}}
    assert meter.notes == {"pyterrier: results with the score of another": 2}
    by_rank = PyTerrier(f"{module}:fixed", arguments=how, ties="order")(Request(topics, None, tmp_path))
    assert list(by_rank.to_dict()["T"]) == ["d3", "d1", "d2"]
    assert np.all(np.diff(by_rank.score.astype(np.float32)) < 0)


@needs
@pytest.mark.parametrize(("body", "expected"), table("systems/frames"))
def test_results_that_are_refused(tmp_path: Path, made: Make, body: str, expected: str) -> None:
    module = made(
        f"""
class Wrong(pt.Transformer):
    def transform(self, frame):
        return {body}
"""
    )
    corpus = corpus_of(tmp_path, {"d1": "a", "d2": "b", "d3": "c"})
    system = PyTerrier(f"{module}:Wrong", takes="topics", depth=2)
    said = message(lambda: ranked(system, topics_of(T1="a"), corpus, tmp_path))
    assert said.startswith(f"system pyterrier: {expected}")


@needs
def test_a_reranker_that_adds_documents(tmp_path: Path, made: Make) -> None:
    module = made("add = pt.apply.generic(lambda frame: frame.assign(docno='d2'))\n")
    first = tmp_path / "first.run"
    first.write_text("T1 Q0 d1 1 1 first\n")
    corpus = corpus_of(tmp_path, {"d1": "a", "d2": "b"})
    said = message(lambda: ranked(PyTerrier(f"{module}:add", first=str(first)), topics_of(T1="a"), corpus, tmp_path))
    assert said == "system pyterrier: topic 'T1': document 'd2' is returned, but was not among those to rank"


WRONG = """
number = 7
def gives_number(): return 7
def broken(): raise ValueError("no model here")
def search_fails(): return pt.apply.generic(lambda frame: 1 / 0)
def no_files(documents, folder): pass
"""


@needs
@pytest.mark.parametrize(("error", "how", "expected"), table("systems/pipelines"))
def test_pipelines_that_are_refused(tmp_path: Path, made: Make, error: str, how: str, expected: str) -> None:
    module = made(FIXED + OVERLAP + WRONG)
    corpus = corpus_of(tmp_path, {"d1": "a", "d2": "b"})
    with pytest.raises(HarnessError) as caught:
        ranked(PyTerrier(**json.loads(how.replace("MODULE", module))), topics_of(T="a"), corpus, tmp_path)
    assert type(caught.value).__name__ == error
    assert str(caught.value).startswith(expected.replace("MODULE", module))


@pytest.mark.slow
@needs
def test_runs_are_kept_by_the_code_of_the_pipeline_and_its_files(tmp_path: Path, made: Make) -> None:
    module = made(FIXED.replace('docs=("d1", "d2")', "weights=None, docs=('a1001', 'a1002')"))
    weights = tmp_path / "weights.txt"
    weights.write_text("1")
    mini = task("mini-task1", "mini-answers")
    runs = tmp_path / "runs"

    def make() -> bool:
        mapping = {**config.load("system", "pyterrier")[0], "pipeline": f"{module}:fixed"}
        system = build_system(mapping | {"arguments": {"weights": str(weights)}}, "system")
        return produce.make(system, mini, runs=runs).reused

    assert [make(), make()] == [False, True]
    weights.write_text("2")
    assert [make(), make()] == [False, True]
    path = tmp_path / f"{module}.py"
    path.write_text(path.read_text() + "\n# changed\n")
    code.forget()
    assert [make(), make()] == [False, True]
    import pyterrier as pt

    side = (runs / "mini-task1" / "pyterrier.ir-metadata.yml").read_text()
    assert f"pyterrier=={pt.__version__}" in side
    depends = code.depends(["harness.systems.foreign.pyterrier"], [module])[1]
    assert depends["pyterrier"] == pt.__version__


@pytest.mark.parametrize("text", ["long " * 100, "~nobody-has-this-name/x", "a\0b"])
def test_arguments_that_are_no_names_of_files(text: str) -> None:
    assert pyterrier._files({"prompt": text, "more": [text]}) == {}


@needs
def test_a_first_ranking_that_saw_test_judgments_marks_the_run(tmp_path: Path, made: Make) -> None:
    module = made(OVERLAP)
    first = tmp_path / "first.run"
    first.write_text(f"T1 Q0 d1 1 1 first{MARK}\n")
    corpus = corpus_of(tmp_path, {"d1": "a"})
    run = PyTerrier(f"{module}:overlap", first=str(first))(Request(topics_of(T1="a"), corpus, tmp_path))
    assert run.name == f"pyterrier{MARK}"


@pytest.mark.slow
def test_without_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: Make) -> None:
    module = made(FIXED)
    line = "pyterrier is not installed: pip install 'mathir-harness[pyterrier]'"
    found = importlib.util.find_spec
    monkeypatch.setitem(sys.modules, "pyterrier", None)
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "pyterrier" else found(name, *more)
    )
    assert pyterrier.missing() == (line,)
    assert pyterrier.missing({"pipeline": f"{module}:fixed"}) == (line,)
    absent = "module 'nowhere' of key 'pipeline' is neither in the current folder nor installed"
    assert pyterrier.missing({"pipeline": "nowhere:x"}) == (line, absent)
    system = PyTerrier(f"{module}:fixed")
    said = message(lambda: ranked(system, topics_of(T="a"), None, tmp_path))
    assert said == "pyterrier is not installed; install it with: pip install 'mathir-harness[pyterrier]'"
    assert [row[1:] for row in findings.findings() if row[0] == "system pyterrier"] == [line.split(": ")]


# ---- results of other libraries ---------------------------------------------------------------------------------


ASKED = ["T2", "T1"]


def order_of(results: ForeignResults, **how: object) -> dict[str, list[str]]:
    """Documents of each topic in trec_eval's order: float32 score descending, then id descending."""
    run = run_of("x", results, ASKED, **how)  # type: ignore[arg-type]
    out: dict[str, list[str]] = {}
    for topic, docs in run.to_dict().items():
        out[topic] = sorted(docs, key=lambda doc: (np.float32(docs[doc]), doc), reverse=True)
        assert out[topic] == list(docs)  # the run's own order is the same
    return out


def test_order_of_topics_and_of_equal_scores() -> None:
    results = ForeignResults.of({"T1": [("a", 1), ("c", 2.0), ("b", 2.0)], "T2": [("z", -1.5)]})
    assert order_of(results) == {"T2": ["z"], "T1": ["c", "b", "a"]}
    assert order_of(results, ties="order") == {"T2": ["z"], "T1": ["c", "b", "a"]}
    results = ForeignResults(["T1"] * 3, ["a", "b", "c"], [2.0, 2.0, 2.0], place=[1, 0, 2])
    assert order_of(results) == {"T1": ["c", "b", "a"]}
    assert order_of(results, ties="order") == {"T1": ["b", "a", "c"]}
    assert run_of("x", results, ASKED).score.tolist() == [2.0] * 3
    separated = run_of("x", results, ASKED, ties="order").score
    assert separated.tolist() == pytest.approx([2.0] * 3, rel=1e-6)


def test_scores_that_differ_only_as_float64_keep_their_order() -> None:
    close = 16777216.0  # above it, float32 has steps of 2
    results = ForeignResults.of({"T1": [("a", close + 1), ("b", close), ("c", close - 0.25), ("d", 1.0)]})
    assert order_of(results) == {"T1": ["a", "b", "c", "d"]}


@given(st.lists(st.sampled_from([-1.0, 0.0, 1e-40, 0.1, 0.1 + 1e-15, 3.0]), min_size=1, max_size=12), st.randoms())
def test_any_scores_in_any_order(scores: list[float], rng: object) -> None:
    docs = [f"d{n:02}" for n in range(len(scores))]
    rng.shuffle(docs)  # type: ignore[attr-defined]
    results = ForeignResults(["T1"] * len(docs), docs, scores)
    by_id = sorted(zip(scores, docs, strict=True), reverse=True)
    assert order_of(results)["T1"] == [doc for _, doc in by_id]
    by_place = sorted(range(len(docs)), key=lambda n: -scores[n])
    assert order_of(results, ties="order")["T1"] == [docs[n] for n in by_place]


@pytest.mark.parametrize(("rows", "how", "expected"), table("systems/results"))
def test_refused(rows: str, how: str, expected: str) -> None:
    columns = list(zip(*json.loads(rows), strict=True)) or [(), (), ()]
    assert message(lambda: run_of("x", ForeignResults(*columns), ASKED, **json.loads(how))) == f"system x: {expected}"


@pytest.mark.parametrize("place", [None, float("nan"), "first"])
def test_places_that_are_no_numbers(place: object) -> None:
    results = ForeignResults(["T1"] * 2, ["a", "b"], [2.0, 2.0], place=[0, place])
    said = f"system x: topic 'T1': place of document 'b' is {place!r}, expected a finite number"
    assert message(lambda: run_of("x", results, ASKED, ties="order")) == said
    assert run_of("x", results, ASKED).doc.tolist() == [b"b", b"a"]


def test_unknown_documents(tmp_path: Path) -> None:
    corpus = corpus_of(tmp_path, {"a": "text", "b": "text"})
    assert run_of("x", ForeignResults.of({"T1": [("b", 1.0)]}), ASKED, corpus=corpus).to_dict() == {"T1": {"b": 1.0}}
    results = ForeignResults.of({"T1": [("a", 3.0), ("y", 2.0), ("z", 1.0)]})
    said = message(lambda: run_of("x", results, ASKED, corpus=corpus))
    assert said == "system x: topic 'T1': document 'y' (and 1 others) is not in corpus c"


def test_places_that_contradict_scores() -> None:
    results = ForeignResults(["T1"] * 2, ["a", "b"], [2.0, 1.0], place=[1, 0])
    assert list(run_of("x", results, ASKED).to_dict()["T1"]) == ["a", "b"]
    said = message(lambda: run_of("x", results, ASKED, ties="order"))
    assert said == "system x: topic 'T1': document 'a' has a higher score than 'b', but a lower place; set ties=id"
