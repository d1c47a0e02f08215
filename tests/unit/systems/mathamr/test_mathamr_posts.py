"""Posts as text with placeholders, chunks, and graphs assembled from sentences and formulas."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.collections.corpus import Document
from harness.data.topics import Formula, Topic
from harness.systems.mathamr.graphs import posts
from harness.systems.mathamr.graphs.graph import FORMULA, OPT, SLT, TEXT, FormulaNodes, Sentence, check_graph, connected
from harness.systems.mathamr.graphs.posts import assemble, merge, post_text


def _formulas(*latex: str) -> list[Formula]:
    return [Formula(f"f{n}", each) for n, each in enumerate(latex)]


ALIGN = r"\begin{align}a&b\end{align}"


@pytest.mark.parametrize(
    ("text", "known", "expected", "ids", "latex"),
    [
        ("Let$x$be in ($y$),$$z$$.", "x y z", "Let FORMULA_0 be in ( FORMULA_1 ), FORMULA_2 .", "f0 f1 f2", "x"),
        ("Is $ a +\nb $ it?", "a+b", "Is FORMULA_0 it?", "f0", "a+b"),  # blanks do not matter
        (f"See {ALIGN}!", ALIGN, "See FORMULA_0 !", "f0", ALIGN),  # an environment keeps its begin and end
        ("Costs $5 and$ or $x$ or $y$", "x no y", "Costs FORMULA_0 or FORMULA_1 or FORMULA_2", " f0 f2", "5 and"),
        ("What is FORMULA_3 or formula_0 in $x$?", "x", "What is FORMULA 3 or formula 0 in FORMULA_0 ?", "f0", "x"),
        ("$x$", "", "FORMULA_0", "", "x"),
    ],
)
def test_placeholders_stand_between_blanks(text: str, known: str, expected: str, ids: str, latex: str) -> None:
    found = post_text(text, _formulas(*known.split()))
    assert (found.text, " ".join(f.id for f in found.formulas), found.formulas[0].latex) == (expected, ids, latex)
    assert found.unknown == ids.startswith(" ")  # without an id; a collection may name no formulas


def test_an_answer_has_the_last_formulas() -> None:
    document = Document("9", "On $x$", "So $x$ is $y$.", formulas=tuple(_formulas("x", "x", "y", "x", "y")))
    found = posts.read_post(posts.answer_post(document))
    assert [f.id for f in found.formulas] == ["f3", "f4"]
    asked = Document("9", "On $x$", "", (), document.formulas, {"question": "Is $x$ a $y$?"})
    found = posts.read_post(posts.question_of(asked))
    assert found.text == "On FORMULA_0 Is FORMULA_1 a FORMULA_2 ?"
    assert [f.id for f in found.formulas] == ["f0", "f1", "f2"]


def test_a_topic_is_title_and_text() -> None:
    topic = Topic("A.1", "Find $x$", "It is $x$", formulas=tuple(_formulas("x", "x")))
    found = posts.read_post(posts.question(topic))
    assert (found.text, [f.id for f in found.formulas]) == ("Find FORMULA_0 It is FORMULA_1", ["f0", "f1"])


_LETTERS = st.lists(st.sampled_from("abc"), max_size=8)


def _common_length(one: list[str], other: list[str]) -> int:
    """Length of a longest common subsequence, by definition over all subsets of the shorter one."""
    best = 0
    for mask in range(1 << len(one)):
        chosen = [letter for n, letter in enumerate(one) if mask >> n & 1]
        rest = iter(other)
        if all(letter in rest for letter in chosen):
            best = max(best, len(chosen))
    return best


@given(_LETTERS, _LETTERS, st.booleans())
def test_alignment_keeps_order_and_takes_as_many_as_it_can(here: list[str], known: list[str], at_end: bool) -> None:
    found = post_text(" and ".join(f"${each}$" for each in here), _formulas(*known), at_end)
    assert [f.latex for f in found.formulas] == here
    numbers = [int(f.id[1:]) for f in found.formulas if f.id]
    assert numbers == sorted(set(numbers))
    assert len(numbers) == _common_length(here, known)
    assert all(known[int(f.id[1:])] == f.latex for f in found.formulas if f.id)


@given(st.lists(st.integers(0, 7), max_size=20), st.integers(1, 10))
def test_chunks_keep_sentences_whole(lengths: list[int], limit: int) -> None:
    sentences = [" ".join(["w"] * n) for n in lengths]
    runs = list(posts.chunks(sentences, limit))
    assert [sentence for run in runs for sentence in run] == sentences
    counts = [sum(len(sentence.split()) for sentence in run) for run in runs]
    assert all(count <= limit or len(run) == 1 for count, run in zip(counts, runs, strict=True))
    # Two runs beside each other would not fit into one by their first sentence.
    for run, after in pairwise(runs):
        assert sum(len(s.split()) for s in [*run, after[0]]) > limit


ONE = Sentence(("go-02", "boy"), ((0, ":ARG0", 1),), 0)
TWO = Sentence(("hold", "FORMULA_0", "FORMULA_9"), ((1, ":x", 0), (1, ":y", 2)), 1)


def test_merging_makes_a_root() -> None:
    assert merge([ONE]) == Sentence(ONE.labels, ONE.edges, 0, ((0, 1),))
    assert merge([ONE, TWO]) == Sentence(
        ("multi-sentence", "go-02", "boy", "hold", "FORMULA_0", "FORMULA_9"),
        ((0, ":snt1", 1), (1, ":ARG0", 2), (0, ":snt2", 4), (4, ":x", 3), (4, ":y", 5)),
        0,
        ((1, 2), (4, 3, 5)),
    )
    with pytest.raises(ValueError, match="no sentence"):
        merge([])


def test_merging_keeps_what_sentences_share() -> None:
    document = Sentence(("document", "a", "b"), ((0, ":snt1", 1), (0, ":snt2", 2), (2, ":ARG0", 1)), 0, ((1,), (2, 1)))
    assert merge([document, ONE]).parts == ((2,), (3, 2), (4, 5))


def test_a_graph_by_hand() -> None:
    """x^2 + y: OPT U!plus(O!SUP(x, 2), y), SLT x -a- 2, x -n- + -n- y."""
    graph = check_graph(assemble([ONE, TWO], [Formula("f7", "x^2+y")]))
    assert graph.labels == (
        *("multi-sentence", "go-02", "boy", "hold", "FORMULA_0", "FORMULA_9"),
        *("U!plus", "O!SUP", "V!𝑥", "N!2", "V!𝑦"),
        *("V!x", "+", "V!y", "N!2"),
    )
    assert graph.kinds == bytes([TEXT] * 4 + [FORMULA, TEXT] + [OPT] * 5 + [SLT] * 4)
    assert graph.formulas == (FormulaNodes("f7", 4, (6, 11), (11, 15)),)
    assert set(graph.edges[5:]) == {
        (4, ":opt", 6),
        (6, ":opt_0", 7),
        (7, ":opt_0", 8),
        (7, ":opt_1", 9),
        (6, ":opt_0", 10),
        (4, ":slt", 11),
        (11, ":slt_n", 12),
        (12, ":slt_n", 13),
        (11, ":slt_a", 14),
    }
    assert graph.sentences == ((1, 2), (4, 3, 5))
    assert connected(graph)


def test_a_dropped_placeholder_hangs_on_the_root() -> None:
    graph = check_graph(assemble([ONE], _formulas("a", "b")))
    dropped = [(source, target) for source, relation, target in graph.edges if relation == ":math"]
    assert dropped == [(0, 2), (0, 3)]
    assert [graph.labels[target] for _, target in dropped] == ["FORMULA_0", "FORMULA_1"]
    assert [f.node for f in graph.formulas] == [2, 3]
    assert graph.sentences == ((0, 1),)
    assert connected(graph)


def test_a_repeated_placeholder_is_one_node() -> None:
    again = Sentence(("and", "formula_0", "FORMULA_0"), ((0, ":op1", 1), (0, ":op2", 2), (0, ":op1", 2)), 0)
    graph = check_graph(assemble([again], _formulas("a")))
    assert graph.labels[:2] == ("and", "FORMULA_0")
    assert graph.kinds.count(FORMULA) == 1
    assert graph.edges[:2] == ((0, ":op1", 1), (0, ":op2", 1))
    assert graph.sentences == ((0, 1),)


def test_formulas_that_cannot_be_read_have_no_trees() -> None:
    graph = check_graph(assemble([ONE], _formulas("", r"\frac{")))
    assert graph.formulas[0] == FormulaNodes("f0", 2, (0, 0), (0, 0))
