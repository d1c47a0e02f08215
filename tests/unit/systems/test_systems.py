from __future__ import annotations

import importlib
import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from case_tables import table
from lexical_tools import message

from harness.collections.corpora import load_corpus
from harness.collections.corpus import Corpus
from harness.collections.load import load_collection
from harness.data.topics import Topic, Topics
from harness.data.trec import Qrels, Run
from harness.errors import FormatError, HarnessError, SystemRaisedError, system_raised
from harness.io import config
from harness.io.files import sha256
from harness.systems.base import MARK, Request, System
from harness.systems.baselines import External, Overlap, Shuffle, tokens
from harness.systems.build import BuiltSystem, build_system, load_system
from harness.systems.rerank import RerankPool

SIMPLE = "harness.systems.baselines"


# `even` stands in two of them, `the` in all.
DOCUMENTS = [
    {"id": "d1", "title": "the even number", "body": "", "tags": ["parity"]},
    {"id": "d2", "title": "the", "body": "even EVEN even \\sqrt 2", "tags": []},
    {"id": "d3", "title": "the odd", "body": "number_theory", "tags": ["parity", "primes"]},
]
Make = Callable[[Sequence[Mapping[str, object]]], Corpus]


@pytest.fixture
def make(conf: Callable[[str, str, str], Path], tmp_path: Path) -> Make:
    """A function that makes a corpus of documents."""

    def build(documents: Sequence[Mapping[str, object]]) -> Corpus:
        name = f"c{len(list(tmp_path.glob('*.jsonl')))}"
        path = tmp_path / f"{name}.jsonl"
        path.write_text("\n".join(json.dumps(document) for document in documents))
        fields = "{id: id, title: title, body: body, tags: tags}"
        conf("corpus", name, f"name: {name}\ntitle: C\nlicence: CC0\nfile: {{file: '{path}'}}\nfields: {fields}\n")
        return load_corpus(name)

    return build


@pytest.fixture
def corpus(make: Make) -> Corpus:
    return make(DOCUMENTS)


TOPICS = Topics(
    (
        Topic("T1", "Is the even number", "\\Sqrt of 2", ("primes",)),
        Topic("T2", "the", "nothing else"),
        Topic("T3", "parity parity"),
    )
)
WORK = Path("workspace")


def ranking(run_of: System, corpus: Corpus | None, **how: object) -> dict[str, dict[str, float]]:
    return run_of(Request(TOPICS, corpus, WORK, **how)).to_dict()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("Even, EVEN!", ["even", "even"]),
        ("x^2 + 13ab", ["x", "2", "13", "ab"]),
        (r"\frac{1}{2}\alpha", [r"\frac", "1", "2", r"\alpha"]),
        ("Řešení nežádoucí", ["řešení", "nežádoucí"]),
        ("a_b", ["a", "b"]),
    ],
)
def test_tokens(text: str, expected: list[str]) -> None:
    assert tokens(text) == expected


def test_overlap_by_hand(corpus: Corpus) -> None:
    rare, common = math.log(3), math.log(3 / 2)
    found = ranking(Overlap(), corpus)
    assert list(found) == ["T1", "T3"]  # T2 shares only a word of all documents, which weighs nothing
    # d1: even, number. d2: even, \sqrt, 2. d3: number, primes.
    assert found["T1"] == pytest.approx({"d2": common + 2 * rare, "d3": common + rare, "d1": 2 * common})
    assert list(found["T1"]) == ["d2", "d3", "d1"]
    # Equal scores: the document id decides, descending as in trec_eval.
    assert list(found["T3"]) == ["d3", "d1"]
    assert found["T3"] == pytest.approx({"d3": common, "d1": common})


def test_jaccard_by_hand(corpus: Corpus) -> None:
    found = ranking(load_system("jaccard"), corpus)
    # T1: is, the, even, number, \\sqrt, of, 2, primes. d3: the, odd, number, theory, parity, primes.
    assert found["T1"] == pytest.approx({"d2": 4 / 8, "d1": 3 / 9, "d3": 3 / 11})
    assert found["T3"] == pytest.approx({"d1": 1 / 4, "d3": 1 / 6})
    assert "key 'score' is 'dice'" in message(lambda: Overlap(score="dice"))  # type: ignore[arg-type]


def test_overlap_of_titles_alone(corpus: Corpus) -> None:
    found = ranking(Overlap(title_only=True), corpus)
    common = math.log(3 / 2)
    assert found["T1"] == pytest.approx({"d1": 2 * common, "d2": common, "d3": common})


def test_overlap_ranks_the_pool_alone(corpus: Corpus) -> None:
    pool = {"T1": frozenset({"d1", "unknown"}), "T3": frozenset({"d2"})}
    found = ranking(Overlap(), corpus, pool=pool)
    assert {topic: list(docs) for topic, docs in found.items()} == {"T1": ["d1"]}
    # Words weigh what they weigh in the corpus, not in the pool.
    assert found["T1"]["d1"] == ranking(Overlap(), corpus)["T1"]["d1"]


def test_shuffle_depends_on_seed_topic_and_document_alone(make: Make, corpus: Corpus) -> None:
    one, two = ranking(Shuffle(seed=1), corpus), ranking(Shuffle(seed=2), corpus)
    assert one == ranking(Shuffle(seed=1), corpus)
    assert one != two
    assert set(one) == {"T1", "T2", "T3"}
    assert all(set(docs) == {"d1", "d2", "d3"} for docs in one.values())
    assert one["T1"] != one["T2"]
    # The order of the corpus is of no consequence.
    assert ranking(Shuffle(seed=1), make(DOCUMENTS[::-1])) == one


def test_shuffle_keeps_its_order_for_good() -> None:
    pool = {"T1": frozenset("abcdef")}
    run = Shuffle(seed=0)(Request(TOPICS, None, WORK, pool=pool))
    assert list(run.to_dict()["T1"]) == ["a", "d", "b", "c", "e", "f"]  # sha256sum of "0<tab>T1<tab>a" and so on


def test_shuffle_ranks_the_pool_alone_and_needs_no_corpus() -> None:
    found = ranking(Shuffle(), None, pool={"T2": frozenset({"x", "y", "z"}), "T9": frozenset({"x"})})
    assert {topic: set(docs) for topic, docs in found.items()} == {"T2": {"x", "y", "z"}}
    assert list(found["T2"].values()) == sorted(found["T2"].values(), reverse=True)
    assert len(ranking(Shuffle(depth=2), None, pool={"T2": frozenset("xyz")})["T2"]) == 2


@pytest.mark.parametrize("system", [Overlap(), Shuffle()])
def test_a_system_that_needs_a_corpus_says_so(system: Overlap | Shuffle) -> None:
    expected = f"system {system.name}: needs a corpus; name one with corpus=NAME (known: arqmath-posts, "
    assert message(lambda: system(Request(TOPICS, None, WORK))).startswith(expected)


@pytest.mark.slow
def test_the_embedded_collection_gives_the_same_bytes_again() -> None:
    topics, answers = load_collection("mini-task1").topics(), load_corpus("mini-answers")
    for name in ("overlap", "overlap-title", "shuffle"):
        one, two = (load_system(name)(Request(topics, answers, WORK)) for _ in range(2))
        assert one.sha256 == two.sha256
        assert one.name == name
        assert len(one) > 100


def test_a_run_made_elsewhere_is_read_and_checked(tmp_path: Path) -> None:
    path = tmp_path / "theirs.tsv"
    path.write_text("T1\tp1\t1\t0.5\ttheirs\nT9\tp1\t1\t0.5\ttheirs\n")
    with pytest.raises(FormatError) as caught:
        External(str(path))(Request(TOPICS, None, WORK))
    assert str(caught.value) == f"{path}:2: topic 'T9' is not among the collection's topics"
    path.write_text("T1\tp1\t1\t0.5\ttheirs\n")
    assert ranking(External(str(path)), None) == {"T1": {"p1": 0.5}}
    assert External(str(path), name="ours")(Request(TOPICS, None, WORK)).name == "ours"
    (tmp_path / "tira").mkdir()
    (tmp_path / "tira" / "run.txt").write_bytes(path.read_bytes())
    folder = External(str(tmp_path / "tira"))
    assert ranking(folder, None) == {"T1": {"p1": 0.5}}
    assert [*folder.reads().values()] == [*External(str(path)).reads().values()]
    wrong = External(str(path), format="trek")
    assert message(lambda: wrong(Request(TOPICS, None, WORK))) == "--format trek: no such format; did you mean 'trec'?"
    assert message(lambda: External("absent.tsv")(Request(TOPICS, None, WORK))) == "absent.tsv: no such file"


def ranks(request: object) -> None:
    """What a configuration must not name: not what makes a system, but what ranks."""


class Older:
    """What was a system before requests were one value."""

    def __call__(self, topics: object, corpus: object, workspace: object, training: object = None) -> None: ...


@pytest.mark.parametrize(
    ("mapping", "fault"),
    [
        *((json.loads(mapping), fault) for mapping, fault in table("systems/configurations")),
        (
            {"_target_": "harness.absent.Thing", "extra": "dense"},
            "harness.absent.Thing cannot be loaded: module 'harness.absent' is neither in the current folder "
            f"({Path.cwd()}) nor installed; install it with: pip install 'mathir-harness[dense]'",
        ),
        ({"_target_": f"{__name__}.ranks"}, f"key '_target_': {__name__}.ranks ranks by itself, "),
        (
            {"_target_": f"{__name__}.Older"},
            f"key '_target_': {__name__}.Older gives Older, which is not a system: it cannot be called with one "
            "harness.systems.base.Request, but with (topics: 'object', corpus: 'object', workspace: 'object', training",
        ),
    ],
)
def test_faults_of_a_configuration(mapping: Mapping[str, object], fault: str) -> None:
    assert message(lambda: build_system(mapping, "f")).startswith(f"f: {fault}")


@pytest.mark.parametrize(
    ("key", "value", "fault"), [("depth", 0, "key 'depth' is 0, expected"), ("deph", 5, "key 'deph' is unknown to")]
)
def test_wrong_resources_are_told_with_other_faults(key: str, value: int, fault: str) -> None:
    with pytest.raises(HarnessError) as caught:
        build_system({"_target_": f"{SIMPLE}.Overlap", key: value, "resources": {"gpus": "all"}}, "f")
    first, second = caught.value.lines
    assert first == "f: resources: key 'gpus' is 'all', expected a whole number from 0 up"
    assert second.startswith(f"f: {fault}")


def test_what_a_configuration_says_about_itself_is_no_parameter() -> None:
    about = {"title": "T", "extra": "lexical", "needs": "rank_bm25", "_target_": f"{SIMPLE}.Shuffle", "seed": 3}
    assert build_system(about, "f").system == Shuffle(seed=3)


def test_an_unknown_system_is_answered_with_the_nearest() -> None:
    assert message(lambda: load_system("overlp")) == "system 'overlp' is unknown; did you mean 'overlap'?"
    where = config.names("system")["external"]
    assert message(lambda: load_system("external")) == f"{where}: key 'path' is missing"


def test_what_a_system_says_when_it_fails_is_cut() -> None:
    raised = system_raised("system x", ValueError("\n".join(f"line {n}" for n in range(300))))
    assert isinstance(raised, SystemRaisedError)
    assert len(raised.trace.splitlines()) == 1 + 20
    assert "line 19" in raised.trace
    assert "line 20" not in raised.trace


# What is known of a system


def one_each(request: Request) -> Run:
    return Run.from_dict("one", {topic.id: {"d1": 1.0} for topic in request.topics})


def test_what_a_plain_function_does_not_say() -> None:
    built = BuiltSystem(one_each)
    assert (built.name, built.module, built.configuration) == ("one_each", __name__, None)
    assert (built.reads(), built.notes(), built.trains_without()) == ({}, (), None)
    assert built(Request(TOPICS, None, WORK)).to_dict() == {topic.id: {"d1": 1.0} for topic in TOPICS}


def test_what_a_system_says_is_passed_on() -> None:
    class Saying(Overlap):
        def reads(self) -> dict[str, str]:
            return {"table": "1"}

        def notes(self) -> list[str]:
            return ["Made of tables."]

        def trains_without(self) -> list[str]:
            return []

    built = BuiltSystem(Saying(name="../x"))
    assert built.name == "../x"  # any tag of a run
    assert (built.reads(), built.notes(), built.trains_without()) == ({"table": "1"}, ("Made of tables.",), frozenset())
    assert load_system("overlap", name="mine").name == "mine"


def test_faults_of_what_python_hands_over() -> None:
    request = "it cannot be called with one harness.systems.base.Request"
    assert message(lambda: BuiltSystem(Older())).startswith(  # type: ignore[arg-type]
        f"got Older, which is not a system: {request}, but with (topics"
    )
    assert message(lambda: BuiltSystem("bm25")) == f"got str, which is not a system: {request}"  # type: ignore[arg-type]
    said = "got the class Overlap, which is not a system: expected an object of it"
    assert message(lambda: BuiltSystem(Overlap)) == said  # type: ignore[arg-type]
    asked = Request(TOPICS, None, WORK)
    assert message(lambda: BuiltSystem(ranks)(asked)) == (  # type: ignore[arg-type]
        "system ranks: gave NoneType, expected a harness.data.trec.Run"
    )

    def failing(_: Request) -> Run:
        raise KeyError("weights")

    assert message(lambda: BuiltSystem(failing)(asked)) == "system failing: KeyError: 'weights'"


def test_settings_stand_above_the_configuration() -> None:
    built = load_system("bm25", k1=0.5, name="bm25-k1")
    assert built.configuration == config.load("system", "bm25")[0] | {"k1": 0.5, "name": "bm25-k1"}
    assert built == build_system(built.configuration, "here")
    assert load_system("bm25", k1=np.float64(0.5), name="bm25-k1") == built
    assert type(load_system("bm25", k1=np.float64(0.5)).configuration["k1"]) is float  # type: ignore[index]
    assert load_system("bm25").configuration == config.load("system", "bm25")[0]


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ({"dept": 1}, "key 'dept' is unknown to harness.systems.lexical.system.BM25; did you mean 'depth'?"),
        ({"depth": "5"}, "key 'depth' is '5', expected a whole number"),
        ({"k1": -1}, "key 'k1' is -1, expected a number from 0 up"),
        ({"name": "a b"}, "key 'name' is 'a b', which is no tag of a run: "),
        ({"view": WORK}, "settings that no YAML file can hold: Object of type PosixPath is not JSON serializable; "),
        ({"k1": math.nan}, "settings that no YAML file can hold: "),
    ],
)
def test_faults_of_settings(settings: Mapping[str, object], fault: str) -> None:
    assert message(lambda: load_system("bm25", **settings)).startswith(f"system bm25: {fault}")


@pytest.mark.parametrize(("system", "parameters", "said"), table("systems/faults"))
def test_wrong_parameters(system: str, parameters: str, said: str) -> None:
    module, _, name = system.rpartition(".")
    made = getattr(importlib.import_module(f"harness.systems.{module}"), name)
    assert message(lambda: made(**json.loads(parameters))) == said


def test_what_a_system_of_others_needs_is_told_before_it_is_made() -> None:
    mapping = {"_target_": "json.JSONDecoder", "needs": ["nosuch", "json"], "extra": "dense"}
    with pytest.raises(HarnessError, match=r"^mine: nosuch is not installed: pip install 'mathir-harness\[dense\]'$"):
        build_system(mapping, "mine")


# ---- another system on a pool -----------------------------------------------------------------------------------


Conf = Callable[[str, str, str], Path]
POOLED = Topics((Topic("T1", "one"), Topic("T2", "two"), Topic("T3", "three")))
POOL = {"T1": frozenset({"d1", "d9"}), "T2": frozenset({"d2"})}


def test_what_is_not_in_the_pool_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "made.run"
    path.write_text("T1 Q0 d1 1 3.5 made\nT1 Q0 d2 2 2 made\nT2 Q0 d2 1 9 made\nT2 Q0 d1 2 8 made\nT3 Q0 d1 1 1 made\n")
    system = build_system(
        {
            "_target_": "harness.systems.rerank.RerankPool",
            "system": {"_target_": "harness.systems.baselines.External", "path": str(path)},
        },
        "f",
    )
    run = system(Request(POOLED, None, WORK, pool=POOL))
    assert run.name == "made-pool"
    assert {topic: docs for topic, docs in run.to_dict().items() if docs} == {"T1": {"d1": 3.5}, "T2": {"d2": 9.0}}
    assert system.reads() == {str(path): sha256(path.read_bytes())}


def test_a_run_with_nothing_in_the_pool(tmp_path: Path) -> None:
    path = tmp_path / "made.run"
    path.write_text("T1 Q0 d5 1 3.5 made\n")
    system = RerankPool({"_target_": "harness.systems.baselines.External", "path": str(path)})
    fault = "system rerank-pool: nothing that made returns is in the pool"
    assert message(lambda: system(Request(POOLED, None, WORK, pool=POOL))) == fault


def test_it_refuses_to_run_without_a_pool() -> None:
    rule = "has no pool to rank; run it with rerank=true"
    assert message(lambda: RerankPool("shuffle")(Request(POOLED, None, WORK))) == f"system rerank-pool: {rule}"
    assert message(lambda: RerankPool("shuffle", "mine")(Request(POOLED, None, WORK))) == f"system mine: {rule}"


@dataclass(frozen=True)
class Recorder:
    """Returns a run of its own with posts, and keeps what it was called with."""

    name: str = "recorder"

    def __call__(self, request: Request) -> Run:
        CALLS.append((request.topics, request.corpus, request.workspace, request.training, request.pool))
        topic = np.array([0, 0, 1], dtype=np.int32)
        columns = (np.array([b"d1", b"d3", b"d2"]), np.array([3.0, 2.0, 1.0]), np.array([b"p1", b"p3", b"p2"]))
        return Run(self.name, ("T1", "T2"), topic, *columns, sha256="of another file")


CALLS: list[tuple[object, ...]] = []


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The configuration of a system that keeps what it was called with in `CALLS`."""
    module = ModuleType("recording_systems")
    module.Recorder = Recorder  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "recording_systems", module)
    CALLS.clear()
    return {"_target_": "recording_systems.Recorder"}


def test_everything_is_passed_on_and_posts_are_kept(recorder: dict[str, Any]) -> None:
    training = Qrels.from_dict("other", {"U1": {"d1": 1}})
    corpus = load_corpus("mini-answers")
    run = RerankPool(recorder)(Request(POOLED, corpus, WORK, training, POOL))
    (call,) = CALLS
    assert call == (POOLED, corpus, WORK, training, POOL)
    assert (run.doc.tolist(), run.score.tolist(), run.topic.tolist()) == ([b"d1", b"d2"], [3.0, 1.0], [0, 1])
    assert run.context is not None
    assert run.context.tolist() == [b"p1", b"p2"]
    assert run.sha256 == ""


def test_a_run_that_learnt_from_test_judgments_stays_marked(recorder: dict[str, Any]) -> None:
    marked = {**recorder, "name": f"learner{MARK}"}
    assert RerankPool(marked)(Request(POOLED, None, WORK, pool=POOL)).name == f"learner-pool{MARK}"
    assert RerankPool(marked, "mine")(Request(POOLED, None, WORK, pool=POOL)).name == f"mine{MARK}"
    assert RerankPool(recorder, "mine")(Request(POOLED, None, WORK, pool=POOL)).name == "mine"


def test_a_named_system_is_read_as_it_is_now() -> None:
    assert RerankPool("overlap").reads() == {"overlap": config.load("system", "overlap")[0]}
    assert RerankPool({"_target_": "harness.systems.baselines.Shuffle"}).reads() == {}


def test_more_faults(conf: Conf) -> None:
    mine = "title: T\n_target_: harness.systems.rerank.RerankPool\nsystem: {}\n"
    conf("system", "mine", mine.format("yours"))
    conf("system", "yours", mine.format("mine"))
    assert message(lambda: RerankPool("mine")) == "system mine: is made from itself (mine <- yours <- mine)"
    assert message(lambda: RerankPool("overlap", 5)) == "key 'name' is 5, expected text"  # type: ignore[arg-type]
    assert " is blocked: " in message(lambda: RerankPool("moogle"))
    where = config.names("system")["rerank-pool"]
    assert message(lambda: load_system("rerank-pool")) == f"{where}: key 'system' is missing"


def test_a_pool_within_a_pool() -> None:
    twice = RerankPool({"_target_": "harness.systems.rerank.RerankPool", "system": "shuffle"})
    run = twice(Request(POOLED, None, WORK, pool=POOL))
    assert run.name == "shuffle-pool-pool"
    assert run.to_dict() == Shuffle()(Request(POOLED, None, WORK, pool=POOL)).to_dict()
