"""Pyserini's searchers: on mini with the whole package, and with a double of it without."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping
from importlib import metadata
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lexical_tools import corpus_of, marked, message, topics_of

from harness.cli import findings
from harness.collections.corpora import load_corpus
from harness.collections.load import load_collection
from harness.store import artefacts, code
from harness.systems.base import Request
from harness.systems.build import load_system
from harness.systems.foreign import process, pyserini, pyserini_process
from harness.systems.foreign.pyserini import Pyserini
from harness.systems.lexical import runtime

WHOLE = pyserini.missing({"searcher": "faiss"})


with_pyserini = marked(pytest.mark.slow, pytest.mark.skipif(bool(WHOLE), reason=f"{'; '.join(WHOLE)}"))


# ---- the whole package ----------------------------------------------------------------------------------------------


@with_pyserini
def test_lucene_ranks_mini_as_the_jar_alone_does(tmp_path: Path) -> None:
    topics, corpus = load_collection("mini-task1").topics(), load_corpus("mini-answers")
    request = Request(topics, corpus, tmp_path)
    theirs, ours = (load_system(name)(request).to_dict() for name in ("pyserini", "anserini-bm25"))
    assert theirs.keys() == ours.keys()
    for topic, docs in theirs.items():
        assert docs.keys() == ours[topic].keys()
        assert docs == pytest.approx(ours[topic], abs=2e-4)  # the jar writes four digits, and lowers equal scores
    kinds = [each.kind for each in artefacts.artefacts()]
    assert kinds == ["anserini-index"]  # one index for both


@with_pyserini
def test_feedback_and_query_likelihood_change_the_ranking(tmp_path: Path) -> None:
    topics, corpus = load_collection("mini-task1").topics(), load_corpus("mini-answers")
    request = Request(topics, corpus, tmp_path)
    settings: Mapping[str, dict[str, Any]] = {
        "bm25": {},
        "rm3": {"rm3": {"fb_terms": 5, "fb_docs": 3, "original_query_weight": 0.6}},
        "qld": {"similarity": "qld", "mu": 500},
    }
    runs = {name: load_system("pyserini", depth=20, **how)(request).to_dict() for name, how in settings.items()}
    assert all(run.keys() == runs["bm25"].keys() for run in runs.values())
    assert max(len(docs) for docs in runs["rm3"].values()) == 20
    assert runs["rm3"] != runs["bm25"] != runs["qld"]
    found = load_system("pyserini", rm3={"fb_term": 5})
    assert "set_rm3() got an unexpected keyword argument 'fb_term'" in message(lambda: found(request))


@with_pyserini
def test_faiss_ranks_by_the_encoder(tmp_path: Path) -> None:
    """Against the products of vectors that transformers makes of the same model."""
    import torch
    from encoder_models import save
    from transformers import AutoModel, AutoTokenizer

    model = str(save(tmp_path / "model"))
    texts = {f"d{n}": " ".join(f"w{(7 * n + k * k) % 100}" for k in range(1 + n % 9)) for n in range(40)}
    corpus, topics = corpus_of(tmp_path, texts), topics_of(A="w1 w2 w3", B="w50")
    how: dict[str, Any] = {"searcher": "faiss", "encoder": model, "document": {"body": 1}, "depth": 7}
    run = Pyserini(**how)(Request(topics, corpus, tmp_path)).to_dict()
    tokenizer, network = AutoTokenizer.from_pretrained(model), AutoModel.from_pretrained(model)

    def vector(text: str) -> np.ndarray:
        with torch.no_grad():
            read = tokenizer(text, return_tensors="pt", return_token_type_ids=False)
            out: np.ndarray = network(**read)[0][0, 0].numpy()
        return out

    vectors = {doc: vector(text) for doc, text in texts.items()}
    for topic in topics:
        scores = {doc: float(vector(topic.title) @ each) for doc, each in vectors.items()}
        best = sorted(scores, key=lambda doc: (-scores[doc], doc))[:7]
        assert list(run[topic.id]) == best
        assert list(run[topic.id].values()) == pytest.approx([scores[doc] for doc in best], rel=1e-4)
    pool = {"A": frozenset({"d3", "d39"}), "B": frozenset[str]()}
    assert run.keys() == {"A", "B"}
    pooled = Pyserini(**how)(Request(topics, corpus, tmp_path, pool=pool)).to_dict()
    assert {topic: set(docs) for topic, docs in pooled.items() if docs} == {"A": {"d3", "d39"}}
    folder = next(each.path for each in artefacts.artefacts() if each.kind == "pyserini-index")
    again = Pyserini(**how | {"index": str(folder)})
    assert again(Request(topics, None, tmp_path)).to_dict() == run
    assert {"docid", "index"} <= again.reads()["index"].keys()


@with_pyserini
def test_impact_ranks_by_weighted_word_pieces(tmp_path: Path) -> None:
    import torch
    from encoder_models import WORDS, tokenizer
    from transformers import BertConfig, BertForMaskedLM

    own = tokenizer("bert")
    shape: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4}
    shape["intermediate_size"] = 64
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        network: Any = BertForMaskedLM(BertConfig(vocab_size=WORDS + 4, max_position_embeddings=16, **shape))
    network.save_pretrained(tmp_path / "model")
    own.save_pretrained(tmp_path / "model")
    texts = {f"d{n}": f"w{n} w{n + 1} w{2 * n}" for n in range(30)}
    corpus, topics = corpus_of(tmp_path, texts), topics_of(A="w1 w2 w3", B="w20")
    how: dict[str, Any] = {"searcher": "impact", "encoder": str(tmp_path / "model"), "document": {"body": 1}}
    run = Pyserini(**how)(Request(topics, corpus, tmp_path)).to_dict()
    network.eval()

    def weights(text: str) -> np.ndarray:
        with torch.no_grad():
            logits = network(own(text, return_tensors="pt")["input_ids"])["logits"]
        out: np.ndarray = np.round(torch.log1p(torch.relu(logits)).max(1)[0][0].numpy() / 5 * 256)
        return out

    vectors = {doc: weights(text) for doc, text in texts.items()}
    # Pyserini leaves out the pieces of a query that all documents have.
    some = np.sum([each > 0 for each in vectors.values()], axis=0) < len(vectors)
    for topic in topics:
        scores = {doc: float((weights(topic.title) * some) @ each) for doc, each in vectors.items()}
        expected = {doc: score for doc, score in scores.items() if score > 0}
        assert run[topic.id] == pytest.approx({doc: expected[doc] for doc in run[topic.id]}, rel=0.02)
        assert len(run[topic.id]) >= 0.9 * len(expected)


@with_pyserini
def test_an_index_that_is_not_there(tmp_path: Path) -> None:
    said = message(lambda: Pyserini(index="no-such-index")(Request(topics_of(A="a"), None, tmp_path)))
    expected = "index 'no-such-index' is neither a folder nor a prebuilt index that can be had"
    assert said == f"system pyserini: pyserini: {expected}"


# ---- without it -----------------------------------------------------------------------------------------------------


@pytest.fixture
def double(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Mapping[str, Any]]:
    """Searches that find document `d1` for topic `A`; returns the jobs."""
    jobs: list[Mapping[str, Any]] = []

    def answer(what: str, module: str, job: Mapping[str, Any], environment: Mapping[str, str]) -> Any:  # noqa: ANN401
        assert module == "harness.systems.foreign.pyserini_process"
        jobs.append(json.loads(json.dumps(job)) | dict(environment))
        return {"found": {"A": [["d1", 2.0], ["d3", 2.0]], "B": []}, "seconds": {"A": 0.1, "B": 0.1}}

    java = tmp_path / "java" / "bin" / "java"
    monkeypatch.setattr(pyserini, "process_answer", answer)
    monkeypatch.setattr(pyserini, "missing", lambda *_: ())
    engine = runtime.JavaRuntime(java, "21", tmp_path / "anserini.jar", "sha")
    monkeypatch.setattr(runtime, "engine", lambda *_: engine)
    return jobs


def test_a_job_and_its_results(double: list[Mapping[str, Any]], tmp_path: Path) -> None:
    (tmp_path / "lucene").mkdir()
    (tmp_path / "lucene" / "segments_1").write_bytes(b"1")
    how: dict[str, Any] = {"index": str(tmp_path / "lucene"), "rm3": {"fb_terms": 3}, "depth": 5, "query": {"title": 2}}
    system = Pyserini(**how)
    assert not system.searches()
    assert system.reads()["index"].keys() == {"segments_1"}
    run = system(Request(topics_of(A="x y", B="z", C=" "), None, tmp_path))
    assert run.to_dict() == {"A": {"d3": 2.0, "d1": 2.0}}
    (job,) = double
    assert job["queries"] == {"A": "x y x y", "B": "z z"}
    assert (job["depth"], job["folder"], job["prebuilt"]) == (5, str(tmp_path / "lucene"), None)
    assert (job["rm3"], job["rocchio"], job["k1"]) == ({"fb_terms": 3}, None, 0.9)
    assert job["JAVA_HOME"] == str(tmp_path / "java")
    Pyserini(index="msmarco-v1-passage")(Request(topics_of(A="x"), None, tmp_path))
    assert (double[1]["folder"], double[1]["prebuilt"]) == (None, "msmarco-v1-passage")
    corpus = corpus_of(tmp_path, {"d1": "a", "d2": "b"})
    said = message(lambda: Pyserini(index="msmarco-v1-passage")(Request(topics_of(A="x"), corpus, tmp_path)))
    assert said == "system pyserini: topic 'A': document 'd3' is not in corpus c"
    pool = {"A": frozenset({"d1"})}
    pooled = Pyserini(index="x")(Request(topics_of(A="x", B="y"), None, tmp_path, pool=pool))
    assert pooled.to_dict() == {"A": {"d1": 2.0}}
    assert (double[-1]["queries"], double[-1]["depth"]) == ({"A": "x"}, None)
    said = message(lambda: Pyserini(index="x")(Request(topics_of(A=" "), None, tmp_path)))
    assert said.startswith("system pyserini: no topic has a text")


@pytest.mark.slow
def test_the_process_with_a_double_of_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is called, with modules of the names of Pyserini's."""
    package = tmp_path / "doubles" / "pyserini" / "search"
    package.mkdir(parents=True)
    (tmp_path / "doubles" / "pyserini" / "__init__.py").write_text("")
    (tmp_path / "doubles" / "pyserini" / "encode.py").write_text(
        "def SpladeQueryEncoder(*a, **k): return ('splade', a, k)\n"
    )
    (tmp_path / "doubles" / "jnius_config.py").write_text("add_classpath = add_options = lambda *_: None\n")
    (tmp_path / "doubles" / "jnius.py").write_text("")
    (package / "__init__.py").write_text("")
    (package / "lucene.py").write_text("""
from collections import namedtuple
Hit = namedtuple("Hit", "docid score")
class LuceneSearcher:
    num_docs = 3
    def __init__(self, folder, *encoder): self.calls = [folder, *encoder]
    @classmethod
    def from_prebuilt_index(cls, name, *encoder): return None if name == "none" else cls(name, *encoder)
    def set_bm25(self, k1, b): self.calls.append(("bm25", k1, b))
    def set_qld(self, mu): self.calls.append(("qld", mu))
    def set_rm3(self, **how): self.calls.append(("rm3", how))
    def search(self, text, k): return [Hit(repr(self.calls + [text, k]), 1.5)]
class LuceneImpactSearcher(LuceneSearcher): pass
""")
    monkeypatch.setenv("PYTHONPATH", f"{Path(code.ROOT).parent}:{tmp_path / 'doubles'}")
    job: dict[str, Any] = {
        "task": "search", "jar": "j", "queries": {"A": "x"}, "depth": 2, "searcher": "lucene", "encoder": None,
        "encoder_class": "auto", "encoder_options": {}, "device": "cpu", "folder": "F", "prebuilt": None,
        "similarity": "bm25", "k1": 0.9, "b": 0.4, "mu": 1000.0, "rm3": {"fb_docs": 3}, "rocchio": None,
    }  # fmt: skip

    def found(**how: object) -> object:
        made = process.process_answer("p", pyserini_process.__name__, job | how)["found"]["A"]
        return [*made[0], len(made)]

    assert found() == [repr(["F", ("bm25", 0.9, 0.4), ("rm3", {"fb_docs": 3}), "x", 2]), 1.5, 1]
    whole = found(depth=None, similarity="qld", rm3=None, folder=None, prebuilt="P")
    assert whole == [repr(["P", ("qld", 1000.0), "x", 3]), 1.5, 1]
    impact = {"searcher": "impact", "encoder": "M", "encoder_class": "splade", "encoder_options": {"a": 1}}
    assert found(**impact)[0] == repr(["F", ("splade", ("M",), {"device": "cpu", "a": 1}), "x", 2])  # type: ignore[index]
    said = message(lambda: found(folder=None, prebuilt="none"))
    assert said == "p: index 'none' is neither a folder nor a prebuilt index that can be had"
    assert message(lambda: found(task="index")) == "p: KeyError: 'lucene'"


@pytest.mark.slow
def test_what_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    get = "pip install 'mathir-harness[pyserini]'"
    monkeypatch.setattr(runtime, "find_java", lambda *_: (Path("java"), "21"))
    has = {"pyserini", "pyyaml"}
    monkeypatch.setattr(pyserini, "_is_installed", lambda name: name in has)
    requires = ["tqdm", "pyyaml", "torch>=2.9", 'faiss>1; extra == "optional"']
    monkeypatch.setattr(metadata, "requires", lambda *_: requires)
    find, package = importlib.util.find_spec, ModuleSpec("pyserini", None, is_package=True)
    known = {"pyserini": package, "faiss": None}
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: known[name] if name in known else find(name, *more)
    )
    assert pyserini.missing() == (f"pyserini lacks tqdm and 1 other packages: {get}",)
    has |= {"tqdm", "torch"}
    assert pyserini.missing() == ()
    assert pyserini.missing({"searcher": "faiss"}) == (f"pyserini lacks faiss-cpu: {get}",)
    has.clear()
    assert pyserini.missing() == (f"pyserini is not installed: {get}",)
    said = message(lambda: Pyserini()(Request(topics_of(A="a"), corpus_of(tmp_path, {"d": "a"}), tmp_path)))
    assert said == f"pyserini is not installed: {get}"
    assert [row[1:] for row in findings.findings() if row[0] == "system pyserini"] == [said.split(": ")]
