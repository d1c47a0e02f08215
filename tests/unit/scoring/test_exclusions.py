"""Exclusions: scores are those of runs and judgments from which the excluded pairs were removed by hand."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
import pytrec_eval
from refusals import refusal
from scoring_tools import PLAIN

from harness.data.trec import Qrels, Run
from harness.errors import HarnessError
from harness.scoring import pools
from harness.scoring.compare import compare
from harness.scoring.protocol import RULES, Exclusions, Protocol, Rule, exclusion_rules, load_protocol
from harness.scoring.scorer import Scorer
from harness.scoring.scores import scores_from_json, scores_to_json

Rankings = dict[str, dict[str, float]]
MEASURES = {"AP": "map", "RR": "recip_rank", "nDCG@10": "ndcg_cut_10", "P@5": "P_5", "R@10": "recall_10"}


def naive(pairs: Rankings, given: Exclusions) -> Rankings:
    """topic -> document -> value without what is excluded, by the definition and nothing else."""
    kept: Rankings = {}
    for topic, docs in pairs.items():
        for doc, value in docs.items():
            of_topic = given.places if given.topic_places is None else given.topic_places
            late = doc in given.places and topic in of_topic and given.places[doc] >= of_topic[topic]
            out = (
                ("own" in given.rules and doc == topic)
                or ("listed" in given.rules and doc in given.listed.get(topic, ()))
                or ("later" in given.rules and late)
            )
            if not out:
                kept.setdefault(topic, {})[doc] = value
    return kept


def random_case(rng: random.Random) -> tuple[Rankings, Rankings, Exclusions]:
    """A run, judgments and exclusions; ids of one, eight and more bytes, some topics are documents."""
    docs = [f"{'d' * rng.randint(1, 20)}{n}" for n in range(rng.randint(3, 30))]
    topics = rng.sample(docs, min(3, len(docs))) + [f"t{n}" for n in range(3)]
    run = {t: {d: float(rng.randint(0, 6)) for d in rng.sample(docs, rng.randint(1, len(docs)))} for t in topics}
    judged = {t: {d: float(rng.randint(0, 2)) for d in rng.sample(docs, rng.randint(1, len(docs)))} for t in topics}
    run[topics[0]]["no-such-document"] = 9.0
    chosen = tuple(rule for rule in RULES if rng.random() < 0.6) or ("own",)
    listed = {t: frozenset([*rng.sample(docs, rng.randint(0, 3)), "unknown"]) for t in [*topics[1:], "unknown-topic"]}
    places = {doc: float(rng.randint(0, 20)) for doc in docs}
    of_topics = None if rng.random() < 0.3 else {t: float(rng.randint(0, 25)) for t in topics}
    return run, judged, Exclusions(chosen, listed, places, of_topics)


@pytest.mark.slow
def test_scores_are_those_of_trec_eval_on_what_is_not_excluded() -> None:
    rng = random.Random(16)
    seen = 0
    for _ in range(150):
        run, judged, given = random_case(rng)
        protocol = replace(PLAIN, depth=None, topics="answered", exclude=given.rules)
        kept, left = naive(run, given), naive(judged, given)
        if not left or not set(kept) & set(left):
            with pytest.raises(HarnessError):
                Scorer(Qrels.from_dict("e", judged), protocol, exclusions=given)(Run.from_dict("r", run))
            continue
        scorer = Scorer(Qrels.from_dict("e", judged), protocol, measures=list(MEASURES), exclusions=given)
        scores = scorer(Run.from_dict("r", run))
        assert scorer.qrels.to_dict() == left
        whole = {topic: {doc: int(grade) for doc, grade in docs.items()} for topic, docs in left.items()}
        wanted = pytrec_eval.RelevanceEvaluator(whole, set(MEASURES.values())).evaluate(kept)
        for measure, theirs in MEASURES.items():
            found = dict(zip(scores.topics, scores.column(measure).tolist(), strict=True))
            assert {topic: value for topic, value in found.items() if not math.isnan(value)} == pytest.approx(
                {topic: values[theirs] for topic, values in wanted.items()}, abs=1e-6
            )
        assert scores.counts["results excluded"] == sum(map(len, run.values())) - sum(map(len, kept.values()))
        assert scores.counts["judgments excluded"] == sum(map(len, judged.values())) - sum(map(len, left.values()))
        assert scores.counts["topics without judgments left"] == len(judged) - len(left)
        seen += 1
    assert seen > 100


def test_producers_and_scorers_are_told_the_same_of_every_pair() -> None:
    rng = random.Random(7)
    for _ in range(60):
        run, _, given = random_case(rng)
        asked = Run.from_dict("r", run)
        out = given.out(asked.topics, asked.topic, asked.doc)
        for number, topic in enumerate(asked.topics):
            mine = asked.topic == number
            docs = asked.doc[mine]
            assert given.among(docs)(topic).tolist() == out[mine].tolist()


def judgments(**docs: Mapping[str, float]) -> Qrels:
    return Qrels.from_dict("e", docs)


@pytest.mark.parametrize(
    ("exclude", "value", "counts"),
    [
        ((), 1 / 2, None),  # b, c, a; of a and c, which are relevant, c is second
        (("own",), 1.0, (1, 0)),  # c, a
        (("listed",), 1 / 2, (1, 1)),  # b, a; c is not judged any more
        (("later",), 1.0, (2, 1)),  # a
        (("own", "listed"), 1.0, (2, 1)),  # a
    ],
)
def test_excluded_documents_take_no_rank_and_are_not_missed(
    exclude: tuple[Rule, ...], value: float, counts: tuple[int, int] | None
) -> None:
    run = Run.from_dict("r", {"b": {"b": 3.0, "c": 2.0, "a": 1.0}})
    given = Exclusions(exclude, {"b": frozenset({"c", "no such id"})}, {"a": 0, "b": 1, "c": 2})
    how = replace(PLAIN, measures=("RR",), exclude=exclude)
    scores = Scorer(judgments(b={"a": 1, "c": 1}), how, exclusions=given)(run)
    assert scores.mean("RR") == value
    found = scores.counts.get("results excluded"), scores.counts.get("judgments excluded")
    assert found == (counts or (None, None))
    assert scores.counts["results"] == 3


def test_the_depth_is_of_what_is_left() -> None:
    run = Run.from_dict("r", {"t": {"x": 3.0, "y": 2.0, "z": 1.0}})
    given = Exclusions(("listed",), {"t": frozenset({"x", "y"})})
    scorer = Scorer(judgments(t={"z": 1}), replace(PLAIN, depth=1, exclude=("listed",)), exclusions=given)
    assert scorer(run).mean("RR") == 1.0
    assert scorer.rankings(run)["t"].docs == ("z",)


def test_the_bounds_of_ties_are_of_what_is_left() -> None:
    run = Run.from_dict("r", {"t": {"t": 1.0, "a": 1.0, "b": 1.0}})
    scorer = Scorer(judgments(t={"a": 1}), replace(PLAIN, measures=("RR",), exclude=("own",)))
    assert [scores.mean("RR") for scores in scorer.tie_bounds(run)] == [1 / 2, 1.0]


def test_documents_without_a_place_are_neither_earlier_nor_later_and_are_counted() -> None:
    given = Exclusions(("later",), places={"a": 0, "t": 1})
    scorer = Scorer(judgments(t={"a": 1}), replace(PLAIN, exclude=("later",)), exclusions=given)
    scores = scorer(Run.from_dict("r", {"t": {"unknown": 2.0, "a": 1.0}}))
    assert (scores.mean("RR"), scores.counts["results without a place in the order"]) == (1 / 2, 1)
    for judged, fault in (
        (judgments(u={"a": 1}), "topic 'u' has no place in the order (1 such topic)"),
        (judgments(t={"b": 1, "a": 0}), "judged document 'b' has no place in the order (1 such judgment)"),
    ):
        assert refusal(given.check, judged) == fault


def test_excluded_documents_are_not_pooled() -> None:
    run = Run.from_dict("r", {"t": {"x": 3.0, "y": 2.0, "z": 1.0}})
    given = Exclusions(("listed",), {"t": frozenset({"x"})})
    how = replace(PLAIN, exclude=("listed",))
    assert pools.first_results(run, how, None, 1, given) == ({"t": ("y",)}, 0)


def test_a_part_of_the_judgments_and_other_judgments_are_excluded_from_alike() -> None:
    how = replace(PLAIN, exclude=("own",))
    whole = Scorer(judgments(a={"a": 1, "b": 1, "c": 1}), how)
    assert whole.on(whole.qrels).qrels is whole.qrels
    assert whole.on(judgments(a={"a": 1, "b": 1})).qrels.to_dict() == {"a": {"b": 1}}
    assert whole.on_part(judgments(a={"a": 1, "b": 1}))(Run.from_dict("r", {"a": {"a": 2.0, "b": 1.0}})).mean("RR") == 1


def test_runs_scored_with_other_exclusions_never_share_a_table() -> None:
    judged = judgments(t={"a": 1, "b": 1}, u={"a": 1})
    made = Run.from_dict("r", {"t": {"a": 2.0, "b": 1.0}, "u": {"a": 1.0}})
    how = replace(PLAIN, exclude=("listed",))
    one, same, other = (
        Scorer(judged, how, exclusions=Exclusions(("listed",), {"t": frozenset({doc})}, {"not read": 1}))
        for doc in ("a", "a", "unknown")
    )
    plain = Scorer(judged, PLAIN)(made)
    first = one(made)
    assert compare([first, replace(same(made), run="s")]).rows
    for others, fault in ((other(made), "qrels_sha256 is"), (plain, "qrels_sha256 is")):
        with pytest.raises(HarnessError, match=f"runs r and s cannot be compared: {fault}"):
            compare([first, replace(others, run="s")])
    own = Scorer(judged, replace(PLAIN, exclude=("own",)))(made)  # nothing is out, and yet it is another protocol
    assert own.values.tolist() == plain.values.tolist()
    with pytest.raises(HarnessError, match="cannot be compared"):
        compare([own, replace(plain, run="s")])


def test_scores_say_what_was_excluded_and_older_files_say_nothing() -> None:
    scores = Scorer(judgments(t={"a": 1, "t": 1}), replace(PLAIN, exclude=("own",)))(
        Run.from_dict("r", {"t": {"t": 2.0, "a": 1.0}})
    )
    data = scores_to_json(scores)
    assert data["protocol"]["exclude"] == ("own",)
    assert scores_from_json(data).protocol == scores.protocol
    del data["protocol"]["exclude"]
    assert scores_from_json(data).protocol.exclude == ()


@pytest.mark.parametrize(
    ("value", "wanted"), [(None, ()), ("own", ("own",)), (["later", "own", "own"], ("own", "later")), ([], ())]
)
def test_a_protocol_names_rules_once_and_in_one_order(value: object, wanted: tuple[str, ...]) -> None:
    assert exclusion_rules("exclude", value) == wanted


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"exclude": "all"}, "p.yaml: key 'exclude' is 'all', expected own, listed, later, or a list of them"),
        ({"exclude": ["own", 3]}, "p.yaml: key 'exclude' is 3, expected own, listed, later, or a list of them"),
        (
            {"exclude": {"own": 1}},
            "p.yaml: key 'exclude' is {'own': 1}, expected own, listed, later, or a list of them",
        ),
        (
            {"exclude": "own", "deduplicate": True},
            "p.yaml: keys 'exclude' and 'deduplicate: true' exclude each other: "
            "what runs name and what is judged differ",
        ),
    ],
)
def test_a_protocol_that_excludes_what_cannot_be(changes: dict[str, object], fault: str) -> None:
    assert refusal(Protocol.from_config, {"name": "p", "measures": ["AP"], **changes}, "p.yaml") == fault


def test_rules_that_need_to_be_told_more_say_so() -> None:
    how = replace(load_protocol("trec_eval"), exclude=("later",))
    with pytest.raises(HarnessError, match="excludes later, and nothing says which documents these are"):
        Scorer(judgments(t={"a": 1}), how)
    with pytest.raises(HarnessError, match="excludes all documents that are judged"):
        Scorer(judgments(t={"t": 1}), replace(how, exclude=("own",)))


def test_memory_of_a_large_order_is_of_documents_not_of_pairs() -> None:
    import tracemalloc

    count = 20_000
    docs = np.array([f"{n:06d}".encode() for n in range(count)])
    places = {doc.decode(): float(n) for n, doc in enumerate(docs.tolist())}
    given = Exclusions(("own", "later"), places=places)
    tracemalloc.start()
    out = given.among(docs)
    total = sum(int(np.count_nonzero(out(f"{topic:06d}"))) for topic in range(0, count, 50))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert total == sum(count - topic for topic in range(0, count, 50))
    assert peak < 40 * 2**20  # 400 topics times all documents as lists of ids were several hundred MiB
