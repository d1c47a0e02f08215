from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fusion_tools import judgments, noisy, order, pairs_of, ranked, same
from lexical_tools import message

from harness.collections.corpora import load_corpus
from harness.collections.load import load_collection
from harness.data.run_writers import write_run
from harness.data.topics import Topic, Topics
from harness.data.trec import Qrels, Run
from harness.errors import FormatError
from harness.io import config
from harness.scoring.protocol import Protocol
from harness.scoring.scorer import score_run as scores_of
from harness.systems.base import Request
from harness.systems.build import build_system, load_system
from harness.systems.fusion import candidates, methods
from harness.systems.fusion.candidates import align_results, fuse
from harness.systems.fusion.methods import training_ndcg
from harness.systems.fusion.system import Fusion

TOPICS = Topics((Topic("T1", "one"), Topic("T2", "two")))
WORK = Path("workspace")
MEASURED = Protocol("prime", ("nDCG",), prime=True)


# Learning


def test_training_weights_are_what_scoring_gives() -> None:
    qrels = judgments()
    weights = []
    for noise, topics, depth in ((0.1, "ABC", 1000), (1, "ABC", 1000), (1, "AB", 1000), (1, "ABC", 7), (3, "C", 25)):
        run = noisy(qrels, "r", noise, topics)
        if noise == 1:
            run = replace(run, score=np.round(run.score, 0))  # ties
        expected = scores_of(run, qrels, replace(MEASURED, depth=depth)).mean("nDCG")
        weights.append(training_ndcg(run, qrels, depth))
        assert weights[-1] == pytest.approx(expected, abs=1e-12)
    assert len(set(weights)) == 5


def test_rbc_is_ridge_regression() -> None:
    """Against the same problem as ordinary least squares with a row more for each penalized coefficient."""
    qrels = judgments()
    candidates = align_results([noisy(qrels, "a", 0.3), noisy(qrels, "b", 2, "AB")], depth=20)
    found = methods.rbc_fit(candidates, qrels, ridge=2.5)
    rating = pairs_of(candidates, np.arange(candidates.topic.size, dtype=np.float64))
    rows, gains = [], []
    for topic, docs in qrels.to_dict().items():
        for doc, grade in docs.items() if topic in "ABC" else ():  # D is answered by no run
            at = rating.get((topic, doc))
            ranks = candidates.rank[int(at)].tolist() if at is not None else [20, 20]
            rows.append([(20 - min(rank, 20)) / 20 for rank in ranks])
            gains.append(grade)
    assert any(sum(row) == 0 for row in rows)  # judged, not retrieved
    x, y = np.array(rows), np.array(gains, dtype=float)
    z = (x - x.mean(axis=0)) / x.std(axis=0)
    stacked = np.vstack([z, math.sqrt(2.5) * np.eye(2)])
    slopes = np.linalg.lstsq(stacked, np.concatenate([y - y.mean(), [0, 0]]), rcond=None)[0] / x.std(axis=0)
    assert found == pytest.approx([y.mean() - x.mean(axis=0) @ slopes, *slopes])
    assert found[1] > found[2] > 0  # the better run counts more
    assert methods.rbc(candidates, found) == pytest.approx(found[0] + candidates.ratings() @ found[1:])


def test_rbc_bears_runs_that_say_nothing_or_the_same() -> None:
    qrels = judgments()
    good = noisy(qrels, "a", 0.3)
    constant = Run.from_dict("c", {"Z": {"d1": 1.0}})  # no judged topic: all ratings 0
    alone = methods.rbc_fit(align_results([good]), qrels, 1.0)
    assert methods.rbc_fit(align_results([good, constant]), qrels, 1.0) == pytest.approx([*alone, 0])
    twice = methods.rbc_fit(align_results([good, good]), qrels, 1.0)
    assert twice[1] == pytest.approx(twice[2])
    stranger = align_results([constant])
    expected = "fusion: none of the training judgments' topics is answered by the training runs"
    assert message(lambda: methods.rbc_fit(stranger, qrels)) == expected


def test_the_order_of_judgments_does_not_matter() -> None:
    qrels = judgments()
    turned = {topic: dict(reversed(docs.items())) for topic, docs in reversed(qrels.to_dict().items())}
    other = Qrels.from_dict("q", turned)
    runs = [noisy(qrels, "a", 0.3), noisy(qrels, "b", 2)]
    assert (methods.rbc_fit(align_results(runs), qrels) == methods.rbc_fit(align_results(runs), other)).all()
    assert training_ndcg(runs[1], qrels) == training_ndcg(runs[1], other)


# The system


NOISE = {"good": 0.1, "poor": 5.0}


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """Two runs of two systems: on the topics to rank, and (in two files) on training topics."""
    qrels = judgments()
    out = {}
    for name, noise in NOISE.items():
        docs = ranked(name, T1="abcdef" if name == "good" else "fedcbaz", T2="xy")
        for suffix, run in (("", docs), ("AB", noisy(qrels, name, noise, "AB")), ("C", noisy(qrels, name, noise, "C"))):
            path = tmp_path / f"{name}{suffix}.run"
            write_run(run, path)
            if suffix:  # whatever training runs are called
                path.write_text(path.read_text().replace(f"\t{name}\n", "\ta/b\n"))
            out[f"{name}{suffix}"] = str(path)
    return out


def learning(files: Mapping[str, str], method: str, **how: object) -> Fusion:
    training = [[files["goodAB"], files["goodC"]], [files["poorAB"], files["poorC"]]]
    return Fusion([files["good"], files["poor"]], method, training_runs=training, name=method, **how)  # type: ignore[arg-type]


def test_files_are_fused(files: Mapping[str, str]) -> None:
    run = Fusion([files["good"], files["poor"]], k=5, depth=4, name="mine")(Request(TOPICS, None, WORK))
    assert run.name == "mine"
    assert len(run.sha256) == 64
    assert same(
        run,
        fuse(
            [ranked("a", T1="abcdef", T2="xy"), ranked("b", T1="fedcbaz", T2="xy")], partial(methods.rrf, k=5), "m", 4
        ),
    )


@pytest.mark.parametrize(
    ("method", "function"),
    [
        ("rrf", partial(methods.rrf, k=7)),
        ("ibc", partial(methods.ibc, seed=4)),
        ("wibc", partial(methods.wibc, weights=[1, 3], seed=4)),
        ("rank-biased-centroids", partial(methods.rank_biased_centroids, phi=0.6)),
        ("combsum", partial(methods.combsum, normalization="sum", missing="minimum")),
        ("combmnz", partial(methods.combmnz, normalization="sum", missing="minimum")),
        ("interpolation", partial(methods.interpolation, weights=[1, 3], normalization="sum", missing="minimum")),
    ],
)
def test_parameters_reach_their_method(files: Mapping[str, str], method: str, function: candidates.Score) -> None:
    given: dict[str, Any] = {
        "k": 7,
        "phi": 0.6,
        "normalization": "sum",
        "missing": "minimum",
        "weights": [1, 3],
        "seed": 4,
    }
    takes = methods.METHODS[method].takes
    how = Fusion([files["good"], files["poor"]], method, **{key: x for key, x in given.items() if key in takes})
    expected = fuse([ranked("a", T1="abcdef", T2="xy"), ranked("b", T1="fedcbaz", T2="xy")], function, "x")
    assert same(how(Request(TOPICS, None, WORK)), expected)


def test_every_configuration_builds_once_it_has_runs() -> None:
    names = [name for name in config.names("system") if name.startswith("fusion-") and name != "fusion-ranx"]
    seen = set()
    for name in names:
        mapping, where = config.load("system", name)
        if mapping["runs"] is None:
            assert message(lambda: load_system(name)) == f"{where}: key 'runs' is missing"  # noqa: B023
        system = build_system(mapping | {"runs": mapping["runs"] or ["a.run", "b.run"]}, where).system
        assert isinstance(system, Fusion)
        assert system.name == name
        seen.add(system.method)
    assert seen == set(methods.METHODS)


def test_a_pool_is_ranked_alone(files: Mapping[str, str]) -> None:
    pool = {"T1": frozenset("acz"), "T3": frozenset("q")}
    run = Fusion([files["good"], files["poor"]])(Request(TOPICS, None, WORK, pool=pool))
    # Ranks are those within the pool: a 1 and 2, c 2 and 1, z 3.
    assert run.to_dict() == {"T1": pytest.approx({"c": 1 / 61 + 1 / 62, "a": 1 / 61 + 1 / 62, "z": 1 / 63})}


def test_systems_rank_the_pool_alone(files: Mapping[str, str]) -> None:
    topics, answers = load_collection("mini-task1").topics(), load_corpus("mini-answers")
    pool = {topic.id: frozenset(["a1007", "a1088"]) for topic in topics}
    parts = [load_system(name)(Request(topics, answers, WORK, pool=pool)) for name in ("overlap", "shuffle")]
    fused = Fusion(["overlap", "shuffle"])(Request(topics, answers, WORK, pool=pool))
    assert same(fused, fuse(parts, methods.rrf, "x"))
    assert set().union(*fused.to_dict().values()) == {"a1007", "a1088"}


def test_weights_and_regressions_are_learned_from_training_runs(files: Mapping[str, str]) -> None:
    qrels = judgments()
    runs = [ranked("a", T1="abcdef", T2="xy"), ranked("b", T1="fedcbaz", T2="xy")]
    parts = [(noisy(qrels, name, noise, "AB"), noisy(qrels, name, noise, "C")) for name, noise in NOISE.items()]
    training = [Run.from_dict("x", {**one.to_dict(), **two.to_dict()}) for one, two in parts]
    weights = [training_ndcg(run, qrels) for run in training]
    assert weights[0] > weights[1] > 0
    found = learning(files, "wibc")(Request(TOPICS, None, WORK, qrels))
    assert same(found, fuse(runs, partial(methods.wibc, weights=weights), "x"))
    assert order(found, "T1") == "abcdefz"  # the heavier of two has the median
    found = learning(files, "interpolation")(Request(TOPICS, None, WORK, qrels))
    assert same(found, fuse(runs, partial(methods.interpolation, weights=weights), "x"))
    found = learning(files, "rbc", ridge=3.0)(Request(TOPICS, None, WORK, qrels))
    assert same(
        found, fuse(runs, partial(methods.rbc, coefficients=methods.rbc_fit(align_results(training), qrels, 3.0)), "x")
    )
    assert found.name == "rbc"


@pytest.mark.parametrize("method", ["wibc", "rbc", "interpolation"])
def test_judgments_of_ranked_topics_leave_a_mark(files: Mapping[str, str], method: str) -> None:
    topics = Topics((*TOPICS, Topic("C", "also judged"), Topic("B", "this one too")))
    system = learning(files, method)
    assert system(Request(topics, None, WORK, judgments())).name == f"{method}+test-judgments"
    assert system(Request(TOPICS, None, WORK, judgments())).name == method  # nothing shared, nothing to mark


def test_a_mark_is_passed_on(files: Mapping[str, str], tmp_path: Path) -> None:
    topics = Topics((*TOPICS, Topic("A", "judged")))
    marked = learning(files, "wibc")(Request(topics, None, WORK, judgments()))
    path = tmp_path / "marked.run"
    write_run(marked, path)
    assert Fusion([str(path), files["poor"]])(Request(topics, None, WORK)).name == "fusion+test-judgments"


def test_methods_that_do_not_learn_do_not_look_at_judgments(files: Mapping[str, str]) -> None:
    qrels = Qrels.from_dict("q", {"T1": {"a": 3.0}})
    for how in ({"method": "rrf"}, {"method": "wibc", "weights": [1, 2]}):
        system = Fusion([files["good"], files["poor"]], **how)
        assert same(system(Request(TOPICS, None, WORK, qrels)), system(Request(TOPICS, None, WORK)))
        assert system(Request(TOPICS, None, WORK, qrels)).name == "fusion"


def test_what_learning_lacks(files: Mapping[str, str]) -> None:
    runs = [files["good"], files["poor"]]
    nothing = Qrels.from_dict("q", {"A": {"d1": 0.0}})
    twice = Fusion(runs, "rbc", training_runs=[[files["goodAB"], files["goodAB"]], files["poorC"]])
    for system, training, said in (
        (learning(files, "rbc"), None, "system rbc: rbc needs training judgments"),
        (Fusion(runs, "rbc"), judgments(), "system fusion: rbc needs the key 'training_runs'"),
        (Fusion(runs, "wibc"), None, "system fusion: wibc needs training judgments (or the key 'weights')"),
        (learning(files, "wibc"), nothing, "system wibc: all training runs have an nDCG' of 0; give the key 'weights'"),
        (twice, judgments(), "key 'training_runs': two files of one run hold topic 'A'"),
    ):
        assert message(lambda: system(Request(TOPICS, None, WORK, training))) == said  # noqa: B023


def test_what_is_neither_file_nor_system(files: Mapping[str, str]) -> None:
    wrong = Fusion([files["good"], "overlp"])
    for call in (
        lambda: wrong(Request(TOPICS, None, WORK)),
        wrong.reads,
    ):  # the latter first, to find a run made before
        assert message(call) == (
            "system fusion: overlp: no such file, and no system of that name (did you mean 'overlap'?); "
            "the file of a run is runs/COLLECTION/overlp.run"
        )
    stranger = Fusion([files["good"], files["poor"]])
    with pytest.raises(FormatError, match="topic 'T2' is not among the collection's topics"):
        stranger(Request(Topics((Topic("T1", "one"),)), None, WORK))


@pytest.mark.slow
def test_a_system_fused_from_itself_is_refused(conf: Callable[[str, str, str], Path]) -> None:
    text = "_target_: harness.systems.fusion.system.Fusion\nruns: [overlap, {}]\n"
    conf("system", "inner", text.format("outer"))
    conf("system", "outer", text.format("inner"))
    assert message(lambda: load_system("outer")(Request(TOPICS, None, WORK))) == (
        "system inner: is made from itself (inner <- outer <- inner)"
    )
    conf("system", "fine", text.format("shuffle"))
    topics, answers = load_collection("mini-task1").topics(), load_corpus("mini-answers")
    inside = Fusion(["overlap", "fine"])(Request(topics, answers, WORK))
    parts = [load_system(name)(Request(topics, answers, WORK)) for name in ("overlap", "shuffle")]
    assert same(inside, fuse([parts[0], fuse(parts, methods.rrf, "y")], methods.rrf, "x"))
