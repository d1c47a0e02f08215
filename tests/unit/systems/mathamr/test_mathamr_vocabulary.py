"""Node types and relations of MathAMR+: what becomes of a label, what is kept, and files that are none."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest
from case_tables import literals
from hypothesis import given
from hypothesis import strategies as st
from mathamr_tools import POST, graphs, text_graph
from refusals import refusal, refuses

from harness.systems.mathamr.encoder import vocabulary as v
from harness.systems.mathamr.encoder.vocabulary import NodeVocabulary, normalise, number_class
from harness.systems.mathamr.graphs.graph import FORMULA, OPT, SLT, TEXT, Graph


@pytest.mark.parametrize(("label", "kind", "expected"), literals("systems/mathamr_labels"))
def test_a_label_becomes_its_type(label: str, kind: int, expected: str) -> None:
    assert normalise(label, kind) == expected


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["7", "-7", "+7", "−7", "1,234,567", "N!0", "N!10000", "٣"], v.UNKNUM_INT),
        (["3.14", ".5", "5.", "-0.5", "1e9", "2.5E-3", "1.5x10^3", "6 × 10^-2", "1,000.5", "N!2.0"], v.UNKNUM_DEC),
        (["3/4", "-3/4", "3 / 4", "1⁄2", "N!22/7"], v.UNKNUM_RAT),
        (
            [*("", ".", "-", "x", "e9", "1e", "2x", "V!2", "N!", "N!x", "3/x", "3//4", "1,23", "1.2.3", "solve-01")],
            None,
        ),
    ],
)
def test_numbers_are_told_by_their_kind(names: list[str], expected: int | None) -> None:
    assert [number_class(name) for name in names] == [expected] * len(names)


def test_very_long_labels_have_types_like_others() -> None:
    digits = "1" * 200_000  # patterns that go back and forth would not come to an end here
    assert number_class(digits) == v.UNKNUM_INT
    assert number_class(digits + "x") is None
    assert number_class("1" + ",111" * 50_000) == v.UNKNUM_INT
    assert number_class("1" + ",111" * 50_000 + "x") is None
    assert number_class("1." * 100_000) is None
    assert normalise(digits + "-x", TEXT) == digits + "-x"


def test_numbers_are_kept_from_five_on_and_fall_back_to_their_kind() -> None:
    training = [text_graph(("5",) * 5 + ("6",) * 4 + ("0.5",) * 4 + ("3/4",) * 4 + ("word",))]
    training.append(text_graph(("N!5",) * 4 + ("N!6",) * 5, OPT))
    vocabulary = NodeVocabulary.learn(training)
    assert set(vocabulary.nodes) == {*v.SPECIALS, "5", "N!6", "word"}
    named = [vocabulary.nodes[vocabulary.node(label, TEXT)] for label in ("5", "6", "0.5", "3/4", "77", "8.25")]
    assert named == ["5", "[UNKNUM_INT]", "[UNKNUM_DEC]", "[UNKNUM_RAT]", "[UNKNUM_INT]", "[UNKNUM_DEC]"]
    assert [vocabulary.node(label, OPT) for label in ("N!5", "N!6", "V!q")] == [
        v.UNKNUM_INT,
        vocabulary.nodes.index("N!6"),
        v.UNK,
    ]
    one = NodeVocabulary.learn(training, least_number=1)
    assert {"6", "0.5", "3/4", "N!5"} <= set(one.nodes)


def test_the_rarest_beyond_the_size_are_unknown_and_ties_go_by_name() -> None:
    training = [text_graph(("b", "c", "c", "a", "d", "7", "7", "7", "7", "7"))]
    vocabulary = NodeVocabulary.learn(training, size=9)
    assert vocabulary.nodes == (*v.SPECIALS, "7", "c", "a")
    assert [vocabulary.node(label, TEXT) for label in "7cabd"] == [6, 7, 8, v.UNK, v.UNK]
    assert NodeVocabulary.learn(training, size=6).nodes == v.SPECIALS
    assert NodeVocabulary.learn(training, size=6).node("7", TEXT) == v.UNKNUM_INT  # cut off, but a number still


def test_relations_by_frequency_then_name_with_the_virtual_ones_last() -> None:
    vocabulary = NodeVocabulary.learn([POST])
    assert vocabulary.relations == (
        *(":ARG1", ":opt_0", ":slt_n", ":frequency", ":math", ":opt", ":slt", ":snt1", ":snt2"),
        *v.VIRTUAL,
    )
    assert vocabulary.count == 13
    assert {name: vocabulary.relation_numbers.get(name) for name in (":ARG1", ":auxiliary_vn", ":unseen")} == {
        ":ARG1": 0, ":auxiliary_vn": 12, ":unseen": None
    }  # fmt: skip


def test_placeholders_share_one_type_and_specials_are_met_by_themselves_only() -> None:
    vocabulary = NodeVocabulary.learn([POST, text_graph(("see http://a.b", "MASK", "UNK"))])
    assert vocabulary.node("FORMULA_0", FORMULA) == vocabulary.node("FORMULA_999", FORMULA) >= len(v.SPECIALS)
    assert vocabulary.node("www.x", TEXT) == v.URL
    assert v.MASK not in {vocabulary.node("MASK", kind) for kind in (TEXT, OPT, SLT)}
    assert vocabulary.node("UNK", TEXT) != v.UNK
    assert vocabulary.nodes[:6] == v.SPECIALS
    assert not {*v.SPECIALS} & {*vocabulary.nodes[6:]}


@given(st.lists(graphs(), min_size=1, max_size=4), st.integers(6, 20))
def test_what_is_learnt_does_not_depend_on_the_order(training: list[Graph], size: int) -> None:
    vocabulary = NodeVocabulary.learn(training, size=size)
    assert vocabulary == NodeVocabulary.learn(reversed(training), size=size)
    assert vocabulary.digest == NodeVocabulary.learn(reversed(training), size=size).digest
    numbers = [number for graph in training for number in vocabulary.node_numbers(graph.labels, graph.kinds)]
    assert all(0 <= number < len(vocabulary.nodes) <= size for number in numbers)
    assert v.MASK not in numbers
    assert all(relation in vocabulary.relation_numbers for graph in training for _, relation, _ in graph.edges)


def test_saved_and_loaded_is_the_same(tmp_path: Path) -> None:
    vocabulary = NodeVocabulary.learn([POST, text_graph(("naïveté", "𝔸", "\ud800"))], size=400)
    vocabulary.save(tmp_path / "v.json")
    loaded = NodeVocabulary.load(tmp_path / "v.json")
    assert (loaded, loaded.digest) == (vocabulary, vocabulary.digest)
    vocabulary.node("remembered", TEXT)
    assert pickle.loads(pickle.dumps(vocabulary)) == vocabulary  # noqa: S301
    written = (tmp_path / "v.json").read_bytes()
    loaded.save(tmp_path / "v.json")
    assert (tmp_path / "v.json").read_bytes() == written


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"format": "something"}, "its format is not"),
        ({"nodes": 5}, "not iterable"),
        ({"nodes": "abc"}, "do not fit"),
        ({"relations": []}, "do not fit"),
        ({"relations": None}, "not iterable"),
        ({"size": 5}, "not between"),
        ({"size": v.MOST + 1}, "not between"),
        ({"size": "6"}, "not supported"),
    ],
)
def test_a_file_that_is_no_vocabulary_is_told_in_one_line(
    tmp_path: Path, change: dict[str, object], reason: str
) -> None:
    path = tmp_path / "v.json"
    NodeVocabulary.learn([POST], size=100).save(path)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    line = refusal(lambda: NodeVocabulary.load(path))
    assert line.startswith(f"{path}: ")
    assert reason in line


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"7", b"\xff\xfe\x00", b"[" * 100_000])
def test_broken_json_is_told_in_one_line(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "v.json"
    path.write_bytes(data)
    refuses(f"^{path}.*not a vocabulary", lambda: NodeVocabulary.load(path))


def test_what_cannot_be_learnt_from(tmp_path: Path) -> None:
    virtual = Graph(("a", "b"), bytes(2), ((0, ":virtual_document", 1),), 0, ((0, 1),), ())
    for training, size, reason in (([], 100, "no graphs"), ([POST], 5, "not between"), ([virtual], 100, "kept for")):
        refuses(reason, lambda: NodeVocabulary.learn(training, size=size))  # noqa: B023
    refuses("no such file", lambda: NodeVocabulary.load(tmp_path / "none.json"))
