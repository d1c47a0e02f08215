"""Pair similarity: the same pairs and values as one pair at a time, whatever the tiles; resumed; thresholds."""

from __future__ import annotations

import math
import random
from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis_tools import examples
from refusals import refuses

from harness.papers.saber import pairs as under_test
from harness.papers.saber import select as chosen
from harness.papers.saber.ontology import information
from harness.papers.saber.pairs import KIND, STOP_WORDS, PairSettings, Thresholds, find_pairs, row_of_tiles, thresholds
from harness.papers.saber.select import Candidate, SelectSettings, Target, domains_of, select
from harness.store.artefacts import store_root

WORDS = (
    *("symmetry", "parity", "induction", "invariant", "modulus", "recurrence", "substitution"),
    *("area", "angle", "bound", "count", "double", "factor"),
)
LIMITS = Thresholds(0.6, 0.2)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))


def corpus(count: int) -> tuple[list[list[str]], list[str]]:
    rng = random.Random(0)
    tags, ideas = [], []
    for _ in range(count):
        mine = set()
        for _ in range(rng.choice((0, 1, 2, 3, 3, 4))):
            path = [rng.choice("ABC"), rng.choice("pqr"), rng.choice("xyz")][: rng.randint(1, 3)]
            mine |= {"/".join(path[: i + 1]) for i in range(len(path))}
        tags.append(sorted(mine))
        ideas.append(" ".join(["Use the", *rng.sample(WORDS, rng.choice((0, 2, 3, 4)))]) if rng.random() < 0.9 else "")
    return tags, ideas


def made(count: int) -> under_test.Features:
    tags, ideas = corpus(count)
    return under_test.features(tags, ideas, information(tags))


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def high(value: float, limit: float) -> bool:
    """The authors store similarities in half precision, and NumPy compares them with a threshold in the same."""
    return bool(np.float16(value) >= np.float16(limit))


def naive(count: int, limits: Thresholds) -> dict[tuple[int, int], tuple[float, float]]:
    """The double loop."""
    tags, ideas = corpus(count)
    info = information(tags)
    bags = [under_test.idea_words(idea) for idea in ideas]
    out = {}
    for i in range(count):
        for j in range(i + 1, count):
            bma = info.best_match(tags[i], tags[j])
            union = bags[i] | bags[j]
            jaccard = len(bags[i] & bags[j]) / len(union) if union else 1.0
            if high(bma, limits.bma) or high(jaccard, limits.jaccard):
                out[i, j] = (bma, jaccard)
    return out


@pytest.mark.slow
@pytest.mark.parametrize("block", [1, 7, 64, 500])
def test_tiles_give_the_pairs_and_values_of_the_double_loop(block: int) -> None:
    count = 30 if block == 1 else 100
    expected = naive(count, LIMITS)
    assert len(expected) > count
    mine = made(count)
    found = [row_of_tiles(mine, start, block, LIMITS) for start in range(0, count, block)]
    got: dict[tuple[int, int], tuple[float, float]] = {}
    for part in found:
        order = list(zip(part.left.tolist(), part.right.tolist(), strict=True))
        values = list(zip(part.bma.tolist(), part.jaccard.tolist(), strict=True))
        assert order == sorted(order)
        kinds = [high(bma, LIMITS.bma) + 2 * high(jaccard, LIMITS.jaccard) for bma, jaccard in values]
        assert part.kinds(LIMITS).tolist() == kinds
        assert 0 not in kinds
        got |= dict(zip(order, values, strict=True))
    assert got == expected
    assert sum(len(part.left) for part in found) == len(got)


def test_files_are_the_same_for_any_number_of_threads(tmp_path: Path) -> None:
    mine, contents = made(90), []
    for threads in (1, 3):
        out = tmp_path / str(threads)
        out.mkdir()
        counts = find_pairs(mine, PairSettings(block=16, threads=threads), out, LIMITS)
        contents.append(files(out))
        kinds = np.concatenate([kind for _, _, kind in under_test.read_pairs(out)])
        assert counts == {name: int((kinds == i).sum()) for i, name in enumerate(("topic", "summary", "both"), 1)}
    assert contents[0] == contents[1]


def test_what_was_stopped_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine, settings = made(90), PairSettings(block=16, threads=1)
    whole = tmp_path / "whole"
    whole.mkdir()
    find_pairs(made(90), settings, whole, LIMITS)
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "second"))
    begun: list[int] = []

    def stops(features: under_test.Features, start: int, block: int, limits: Thresholds) -> under_test.SimilarPairs:
        begun.append(start)
        if len(begun) == 4:
            raise KeyboardInterrupt
        return row_of_tiles(features, start, block, limits)

    monkeypatch.setattr(under_test, "row_of_tiles", stops)
    out = tmp_path / "out"
    out.mkdir()
    with pytest.raises(KeyboardInterrupt):
        find_pairs(mine, settings, out, LIMITS)
    assert len([path for path in (store_root() / KIND).iterdir() if not path.name.startswith(".")]) == 3
    find_pairs(mine, settings, out, LIMITS)
    assert begun == [0, 16, 32, 48, 48, 64, 80]
    assert files(out) == files(whole)


@given(st.floats(1e-7, 1.0), st.floats(0.0, 1.0))
@settings(max_examples=examples(100), deadline=None)
def test_the_least_high_value_is_the_first_that_rounds_to_the_threshold(limit: float, value: float) -> None:
    least = Thresholds(limit, limit).least().bma
    assert (value >= least) == high(value, limit)
    assert high(least, limit)
    assert not high(math.nextafter(least, 0.0), limit)


def test_ideas_without_words_are_equal() -> None:
    """Two core ideas of stop words alone have the Jaccard similarity 1 in the authors' code."""
    tags, ideas = [["A"], ["B"], ["C"]], ["So, let us find it.", "Therefore show that.", "Symmetry of roots."]
    found = row_of_tiles(under_test.features(tags, ideas, information(tags)), 0, 2, Thresholds(0.5, 0.5))
    assert list(zip(found.left.tolist(), found.right.tolist(), found.jaccard.tolist(), strict=True)) == [(0, 1, 1.0)]


def test_stop_words_are_those_of_scikit_learn_and_of_mathematics() -> None:
    text = pytest.importorskip("sklearn.feature_extraction.text")
    assert len(STOP_WORDS) == 337
    assert text.ENGLISH_STOP_WORDS < STOP_WORDS
    assert {"theorem", "lemma", "let", "equation", "solve"} <= STOP_WORDS - text.ENGLISH_STOP_WORDS


def test_thresholds_are_quantiles_of_all_pairs_or_given() -> None:
    """Of rank ceil(q n^2) among all n^2 similarities in half precision: pairs twice, each problem with itself once."""
    mine = made(60)
    pairs = naive(60, Thresholds(0.0, 0.0))
    found = thresholds(mine, PairSettings(quantile=0.9))
    for place, value in enumerate(found):
        halves = [float(np.float16(each[place])) for each in pairs.values()]
        itself = [1.0 if place or len(tags) else 0.0 for tags in mine.tags]
        assert value == sorted([*halves, *halves, *itself])[math.ceil(0.9 * 60 * 60) - 1]
    assert thresholds(mine, PairSettings(bma=0.5, jaccard=0.25)) == (0.5, 0.25)
    assert thresholds(mine, PairSettings(bma=0.5, quantile=0.9)) == (0.5, found.jaccard)
    part = PairSettings(quantile=0.9, sample=20)
    assert thresholds(mine, part) == thresholds(mine, part)
    none = PairSettings(quantile=0.0)
    refuses("the quantile 0 of the similarities 'bma' is 0", lambda: thresholds(mine, none))
    refuses("1 problem, expected at least", lambda: thresholds(made(1), PairSettings()))


# ---- selection --------------------------------------------------------------------------------------------------


def selected(count: int, settings: SelectSettings) -> tuple[list[Target], dict[str, int], dict[tuple[int, int], int]]:
    mine = made(count)
    rows = [row_of_tiles(mine, start, 32, LIMITS) for start in range(0, count, 32)]
    parts = [(row.left, row.right, row.kinds(LIMITS)) for row in rows]
    domains = [("ABC"[i % 3],) if i % 5 else () for i in range(count)]
    targets, counts = select([f"p{i}" for i in range(count)], domains, lambda: parts, settings)
    kinds = {(int(i), int(j)): int(k) for left, right, kind in parts for i, j, k in zip(left, right, kind, strict=True)}
    return targets, counts, kinds


TOPS = {"A": ("A",), "B": ("B",), "C": ("C",)}


def test_targets_have_candidates_of_each_signal_and_fill_their_quotas() -> None:
    settings = SelectSettings({"A": 2, "B": 3, "C": 4}, each=3, domains=TOPS)
    targets, counts, kinds = selected(150, settings)
    assert Counter(target.domain for target in targets) == {"A": 2, "B": 3, "C": 4}
    assert counts["targets"] == settings.targets == len({target.id for target in targets}) == 9
    for target in targets:
        row = int(target.id[1:])
        assert target.domain == "ABC"[row % 3]
        assert row % 5
        assert [each.source for each in target.candidates] == ["topic"] * 3 + ["summary"] * 3 + ["both"] * 3
        assert len({each.id for each in target.candidates} - {target.id}) == 9
        for each in target.candidates:
            pair = tuple(sorted((row, int(each.id[1:]))))
            assert kinds[pair] == {"topic": 1, "summary": 2, "both": 3}[each.source]  # type: ignore[index]
    assert selected(150, settings)[0] == targets
    assert selected(150, SelectSettings(settings.quotas, each=3, seed=1, domains=TOPS))[0] != targets


def test_a_group_of_domains_has_the_targets_with_just_these_domains() -> None:
    mine = made(90)
    row = row_of_tiles(mine, 0, 90, LIMITS)
    parts = [(row.left, row.right, row.kinds(LIMITS))]
    domains = [[("A",), ("B", "A"), ("A", "B", "C"), ()][i % 4] for i in range(90)]
    settings = SelectSettings({"A": 2, "A; B": 3}, each=1, domains=TOPS)
    targets, counts = select([f"p{i}" for i in range(90)], domains, lambda: parts, settings)
    assert Counter(target.domains for target in targets) == {("A",): 2, ("B", "A"): 3}
    assert counts["eligible problems of A; B"] >= 3
    assert counts["of other groups"] > 0


def test_too_few_targets_are_one_line_that_says_how_many_there_are() -> None:
    said = (
        r"select: too few problems with 20 candidates of each signal: A \d+ of 90, C \d+ of 9; without a quota: B \d+"
    )
    refuses(said, lambda: selected(150, SelectSettings({"A": 90, "C": 9}, each=20, domains=TOPS)))


def test_wrong_quotas() -> None:
    for quotas, said in (
        ({"A; D": 1}, "key 'quotas': domain 'D' is unknown"),
        ({"A": 1, "": 2}, "key 'quotas': domain '' is unknown"),
        ({"A;B": 1, "B; A": 2}, "key 'quotas': the group 'A;B' occurs twice"),
    ):
        refuses(said, partial(SelectSettings, quotas, domains=TOPS))


def test_domains_by_the_relevance_of_topics() -> None:
    tags = {"NumberTheory": 0.2, "NumberTheory/Parity": 0.9, "DiscreteMathematics": 1.0, "Topology": 1.0}
    assert domains_of(tags) == ("Number Theory", "Combinatorics")
    assert domains_of({}) == ()


def test_targets_are_read_as_they_were_written(tmp_path: Path) -> None:
    targets = [Target("a", "Algebra", (Candidate("b", "both"), Candidate("c", "topic")), ("Algebra", "Geometry"))]
    chosen.write_targets(tmp_path / "t.jsonl", targets)
    assert chosen.read_targets(tmp_path / "t.jsonl") == targets
    text = (tmp_path / "t.jsonl").read_text()
    (tmp_path / "t.jsonl").write_text(text.replace("both", "booth"))
    said = r"t\.jsonl:1: source 'booth' is unknown; did you mean 'both'"
    refuses(said, lambda: chosen.read_targets(tmp_path / "t.jsonl"))
