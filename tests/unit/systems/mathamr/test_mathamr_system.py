"""MathAMR+ as a run producer on a small world: its runs, what it learns from, and what it keeps."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from mathamr_world import SHORT, TINY, Place, World, asking, kept, one_line, place, rows, topics, world

from harness.collections.corpus import Corpus
from harness.data.topics import Topics
from harness.errors import HarnessError
from harness.io.files import sha256_file
from harness.store import artefacts, code
from harness.systems import hardware
from harness.systems.dense.maxsim import Vectors
from harness.systems.mathamr.encoder.pack import Pack
from harness.systems.mathamr.encoder.vocabulary import NodeVocabulary
from harness.systems.mathamr.system import DIFFERENCES, MathAMR

torch = pytest.importorskip("torch", reason="torch is not installed (extra graphs)")

from harness.systems.mathamr.encoder.model import GraphEncoder  # noqa: E402
from harness.systems.mathamr.training import trainer as training  # noqa: E402

__all__ = ["place", "world"]


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often there is a step of training, and how many graphs are encoded."""
    calls: Counter[str] = Counter()
    step, encode = training.Trainer.step, training.encode

    def counted_step(trainer: training.Trainer, *rest: object) -> float:
        calls["steps"] += 1
        return step(trainer, *rest)  # type: ignore[arg-type]

    def counted_encode(model: GraphEncoder, pack: Pack, numbers: Sequence[int], *rest: object) -> list[Any]:
        calls["encoded"] += len(numbers)
        return encode(model, pack, numbers, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(training.Trainer, "step", counted_step)
    monkeypatch.setattr(training, "encode", counted_encode)
    return calls


# ---- runs -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_depth_and_candidates(place: Place) -> None:
    every = place.run().to_dict()["T1"]
    assert list(place.run(depth=3).to_dict()["T1"].items()) == list(every.items())[:3]
    single = list(place.run(strategy="single").to_dict()["T1"])
    few = place.run(strategy="rerank", candidates=5).to_dict()["T1"]
    assert set(few) == set(single[:5])
    assert few == {doc: every[doc] for doc in few}


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["single", "rerank", "colbert"])
def test_only_documents_of_the_pool_are_ranked(place: Place, strategy: str) -> None:
    every = place.run(strategy=strategy).to_dict()
    pool = {"T1": frozenset({"A2.0", "A5.1", "elsewhere"}), "T2": frozenset({"elsewhere"})}
    found = place.run(pool=pool, strategy=strategy).to_dict()
    assert {topic: set(docs) for topic, docs in found.items()} == {"T1": {"A2.0", "A5.1"}}
    assert found["T1"] == {doc: every["T1"][doc] for doc in found["T1"]}


@pytest.mark.slow
def test_a_post_finds_itself(place: Place) -> None:
    documents = {document.id: document for document in place.corpus}
    asked = topics(documents["A6.1"].body, documents["A9.0"].body)
    for strategy in ("single", "colbert"):
        found = place.run(asked, strategy=strategy).to_dict()
        assert [found["T1"]["A6.1"], found["T2"]["A9.0"]] == pytest.approx([1, 1], abs=1e-6)
        # An untrained post may come as near, and the last bit is not the same in every company.
        assert max(found["T1"].values()) == pytest.approx(found["T1"]["A6.1"], abs=1e-6)
        assert max(found["T2"].values()) == pytest.approx(found["T2"]["A9.0"], abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("structure", ["hierarchy", "global", "none"])
@pytest.mark.parametrize("formulas", ["both", "none"])
def test_structures_and_formulas(place: Place, structure: str, formulas: str) -> None:
    found = place.run(structure=structure, formulas=formulas).to_dict()
    assert all(len(docs) == 24 for docs in found.values())
    (folder,) = kept("mathamr-vectors")
    vectors = Vectors.load(folder)
    assert (vectors.document >= 0).all() == (structure != "none")
    # One formula and one sentence a post.
    number = {"both": 2, "none": 1}[formulas] + {"hierarchy": 1, "global": 1, "none": 0}[structure]
    assert np.diff(vectors.start).tolist() == [number] * 24
    assert (folder / "graphs.pack").exists() is False


@pytest.mark.slow
def test_the_untrained_model(place: Place, counted: Counter[str]) -> None:
    untrained = place.run(training=None).to_dict()
    assert counted["steps"] == 0
    trained = place.run().to_dict()
    assert counted["steps"] > 0
    assert set(untrained["T1"]) == set(trained["T1"])
    assert untrained != trained
    assert len(kept("mathamr-model")) == 2


# ---- what it learns from --------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_held_out_questions_are_not_in_the_vocabulary(place: Place) -> None:
    documents = rows()
    for number, document in enumerate(documents):
        document["body"] += f" zq{'abcdefghijkl'[number // 2]}zq"  # a word of both answers of a question
    place.world.corpus("qc", documents)
    place.run(pairs={"qc": "question"}, leave_out=[])
    (folder,) = kept("mathamr-model")
    nodes = NodeVocabulary.load(folder / "vocabulary.json").nodes
    assert sum(name.startswith("zq") for name in nodes) == 9  # a quarter of twelve questions is held out


# ---- what it keeps --------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_second_run_makes_nothing_again(place: Place, counted: Counter[str]) -> None:
    first = place.run()
    assert place.left() == []
    before, parsed = dict(counted), len(place.words.calls)
    second = place.run()
    assert second.sha256 == first.sha256
    assert counted["steps"] == before["steps"]
    assert counted["encoded"] - before["encoded"] == 3  # topics
    assert len(place.words.calls) == parsed + 1
    assert place.left() == []


@pytest.mark.slow
def test_cold_stores_give_the_same_bytes(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def made(name: str) -> tuple[str, dict[str, str]]:
        monkeypatch.setenv("HARNESS_CACHE", str(place.folder / name))
        found = place.run()
        root = artefacts.store_root()
        # What the training cost is of this one time.
        files = (path for path in root.rglob("*") if path.is_file() and path.name not in (artefacts.SPEC, "cost.json"))
        return found.sha256, {str(path.relative_to(root)): sha256_file(path) for path in files}

    run, files = made("one")
    torch.manual_seed(7)
    assert (run, files) == made("two")
    assert {name.rsplit("/", 1)[1] for name in files} >= {"best.pt", "vocabulary.json", "values.npy", "log.jsonl"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        {"model": TINY | {"layers": 2}},
        {"training": SHORT | {"seed": 2}},
        {"training": None},
        {"formulas": "opt"},
        {"structure": "global"},
        {"auxiliary": "full"},
        {"vocabulary": 100},
        {"least_number": 1},
        {"leave_out": ["asked", "more"]},
        {"pairs": {"qa": "title2"}},
        {"pairs": {"qa": "question", "qd": "question"}},
    ],
)
def test_a_key_that_matters_makes_another_model(place: Place, change: dict[str, Any]) -> None:
    place.world.collection("more", ["A5.0", "A5.1"])
    place.world.corpus("qd", rows(3, 1))
    place.world.corpus(
        "qa", [document | {"title2": document["title"]} for document in rows()], keep="[question, title2]"
    )
    system, other = place.system(), place.system(**change)
    assert system.reads() == place.system().reads()
    assert system.reads() != other.reads()


@pytest.mark.parametrize(
    "change",
    [
        *({"strategy": "single"}, {"depth": 3}, {"precision": "approximate"}, {"ef": 7}, {"workers": 2}),
        {"pairs": {"qa": "question", "mse-pages": None}},
    ],
)
def test_a_key_that_does_not_matter_makes_none(place: Place, change: dict[str, Any]) -> None:
    assert place.system(**change).reads() == place.system().reads()


def test_judgments_and_columns_matter_under_the_same_names(place: Place) -> None:
    before = place.system().reads()
    place.world.collection("asked", ["A0.0", "A1.0"])
    # Configurations are read once in a process, so files change below them.
    assert place.system().reads() != before
    place.world.collection("asked", ["A0.0", "A1.1"])
    assert place.system().reads() == before


@pytest.mark.parametrize("part", ["model", "vectors"])
def test_what_is_kept_does_not_depend_on_the_code_of_search(part: str) -> None:
    parts = "harness.systems.mathamr"
    found = code.depends(frozenset([f"{parts}.{part}"]), frozenset()).files
    ours = {name.split()[-1] for name in found}
    assert {f"{parts}.model", f"{parts}.training.trainer", f"{parts}.encoder.model"} <= ours
    assert not ours & {"harness.systems.dense.search", "harness.systems.dense.ann", f"{parts}.system"}


@pytest.mark.slow
def test_the_type_of_the_device_is_part_of_the_keys(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    here = place.system().reads()["model"]
    monkeypatch.setattr(hardware, "device", lambda name: "cuda")
    there = place.system().reads()["model"]
    assert there != here
    monkeypatch.setattr(hardware, "device", lambda name: "cpu")
    assert place.system().reads()["model"] == here
    half = place.system(training=SHORT | {"autocast": True})
    assert half.made_from()["arithmetic"] == ["cpu", "bfloat16"]
    assert place.system().made_from()["arithmetic"] == ["cpu", "float32"]
    place.run()
    (folder,) = kept("mathamr-vectors")
    assert json.loads((folder / "spec.json").read_text())["spec"]["arithmetic"] == ["cpu", "float32"]


# ---- formulas -------------------------------------------------------------------------------------------------------


@pytest.fixture
def formulas(place: Place) -> Corpus:
    """Each formula of the corpus `qa`, with its post; some without."""
    documents = []
    for document in rows():
        for number, formula in enumerate(document["formulas"]):
            post = (document["question_id"], document["id"])[number]
            documents.append({"id": formula["id"], "latex": formula["latex"], "visual_id": formula["visual_id"]})
            documents[-1]["post"] = post
    documents.append({"id": "nowhere", "latex": "z", "visual_id": "vz", "post": "P"})
    fields = "{id: id, latex: [body, latex], visual_id: visual_id}"
    return place.world.corpus("formulas", documents, fields, "[post]")


@pytest.mark.slow
def test_formulas_are_ranked_with_their_posts(
    place: Place, formulas: Corpus, capsys: pytest.CaptureFixture[str]
) -> None:
    bodies = {document.id: document.body for document in place.corpus}
    asked = Topics(
        (
            asking("F1", bodies["A5.1"], "a b = b a", "q1"),
            asking("F2", "a set of primes", "p^2 + 1", "q2"),  # not in the text
            asking("F3", "$y$ and $p^2 + 1$", "p^2 + 1", "q3"),
        )
    )
    # Deep enough for a formula to know the words around its placeholder.
    found = place.run(asked, formulas, task="formulas", posts="qa", model=TINY | {"layers": 4})
    said = capsys.readouterr().err
    assert one_line(said, "topic F2: its formula is not in its text; it is asked at the end")
    # The question's formulas have the ids of the first answer's page; those of the second are not found.
    assert one_line(said, "corpus formulas: 36 of 49 formulas found in graphs")
    ranked = found.to_dict()
    assert list(ranked) == ["F1", "F2", "F3"]
    assert "nowhere" not in ranked["F1"]
    best = max(ranked["F1"].values())
    assert best == pytest.approx(1, abs=1e-6)
    # Identical formulas in identical contexts.
    assert {doc for doc, score in ranked["F1"].items() if score == best} == {"A1.1-2", "A5.1-2", "A9.1-2"}
    assert found.context is not None
    posts = {document.id: document.columns["post"] for document in formulas}
    assert [post.decode() for post in found.context.tolist()] == [posts[doc.decode()] for doc in found.doc.tolist()]
    assert {post.decode()[0] for post in found.context.tolist()} == {"Q", "A"}


@pytest.mark.slow
def test_the_query_is_the_vector_of_the_asked_formula(place: Place, formulas: Corpus) -> None:
    system = place.system(task="formulas", posts="qa")
    workspace = place.folder / "workspace"
    workspace.mkdir()
    trained = system.trained(workspace)
    text = "one $u$ and $v^2$ and $u$"
    asked = Topics((asking("F1", text, "v^2", "q1"), asking("F2", text, "u", "q2"), asking("F3", "one", "v^2", "q3")))
    queries, ids = system._queries(asked, trained)
    assert ids == ["F1", "F2", "F3"]
    assert all(query.values.shape == (1, 4) and query.document == 0 for query in queries.values())
    whole = place.system()._queries(Topics((topics(text).topics[0],)), trained)[0]["T1"].values
    assert whole.shape == (5, 4)  # three formulas, a sentence, the document
    np.testing.assert_allclose(queries["F1"].values[0], whole[1], atol=1e-6)
    np.testing.assert_allclose(queries["F2"].values[0], whole[0], atol=1e-6)
    assert np.abs(whole[0] - whole[1]).max() > 1e-3


@pytest.mark.slow
def test_a_topic_without_a_formula_is_left_out(
    place: Place, formulas: Corpus, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = Topics((*topics("no formula").topics, asking("F1", "the $p^2 + 1$", "p^2 + 1", "q1")))
    assert list(place.run(asked, formulas, task="formulas", posts="qa").to_dict()) == ["F1"]
    assert one_line(capsys.readouterr().err, "1 of 2 topics have no vectors, such as T1")


@pytest.mark.slow
def test_documents_that_are_no_formulas_are_refused(place: Place) -> None:
    asked = Topics((asking("F1", "the $p^2 + 1$", "p^2 + 1", "q1"),))
    with pytest.raises(HarnessError, match=r"'task' is 'formulas', but no document of corpus .* is a formula of the"):
        place.run(asked, place.corpus, task="formulas", posts="qa")


@pytest.mark.slow
def test_a_pool_of_formulas(place: Place, formulas: Corpus) -> None:
    asked = Topics((asking("F1", "the $p^2 + 1$", "p^2 + 1", "q1"),))
    pool = {"F1": frozenset({"A3.0-1", "A3.1-2", "nowhere"})}
    found = place.run(asked, formulas, pool, task="formulas", posts="qa", strategy="rerank")
    assert set(found.to_dict()["F1"]) == {"A3.0-1", "A3.1-2"}
    assert found.context is not None
    assert dict(zip(found.doc.tolist(), found.context.tolist(), strict=True)) == {b"A3.0-1": b"Q3", b"A3.1-2": b"A3.1"}


# ---- with spaCy -----------------------------------------------------------------------------------------------------


def test_notes_say_what_was_trained_on(world: World) -> None:
    world.collection("asked", ["A1.0"])
    said = {**rows(2)[0], "accepted": "yes"}
    world.corpus("qa", rows(2))
    world.corpus("qb", [said], keep="[question, question_id, accepted]")

    def notes(**keys: object) -> tuple[str, ...]:
        given: dict[str, Any] = {"pairs": {"qa": "question", "qb": "question"}, "leave_out": ["asked"], **keys}
        return MathAMR("m", **given).notes()

    dependency, *same, trained, unsaid = notes()
    assert tuple(same) == DIFFERENCES
    assert [word in " ".join(same) for word in ("MathML", "temperature", "negatives")] == [True] * 3
    assert "not of AMR" in dependency
    assert trained == "Trained on the pairs of qa, qb; left out were posts that asked judges."
    assert unsaid.startswith("qa: which answer was accepted is not known")
    assert notes(training=None)[1:] == (*DIFFERENCES, "The model is untrained.")
    assert len(notes(parser="amrlib:here", pairs={"qb": "question"})) == 1 + len(DIFFERENCES)
    assert "A sample of 7 pairs (seed 3), held-out ones among them." in notes(sample=7, sample_seed=3)
    assert "of AMR, those of documents of a dependency parser" in notes(parser="penman-file")[0]
