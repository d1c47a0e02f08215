"""MathML read into trees, by hand-made cases, and markup that is broken or hostile."""

from __future__ import annotations

import pytest
from case_tables import table
from formula_tools import check, mutated

from harness.formulas.mathml.read import read_content, read_presentation
from harness.formulas.trees.tree import ParseCounts, count, tangent_string


def layout(inner: str) -> str:
    reading = read_presentation(f"<math>{inner}</math>")
    assert reading.reason == ""
    check(reading.tree)
    return tangent_string(reading.tree)


def operators(inner: str) -> str:
    reading = read_content(f'<math xmlns="http://www.w3.org/1998/Math/MathML">{inner}</math>')
    assert reading.reason == ""
    check(reading.tree)
    return tangent_string(reading.tree)


X, Y, TWO = "<mi>x</mi>", "<mi>y</mi>", "<mn>2</mn>"
SUM = f"<mrow>{X}<mo>+</mo>{Y}</mrow>"


@pytest.mark.parametrize(
    ("markup", "tree"),
    [(f"<mrow>{TWO}<mo>\u2062</mo><mspace/><mtext> </mtext>{X}</mrow>", "[N!2[V!x]]"), *table("formulas/presentation")],
)
def test_presentation(markup: str, tree: str) -> None:
    assert layout(markup) == tree


A, B, ONE = "<ci>a</ci>", "<ci>b</ci>", '<cn type="integer">1</cn>'


@pytest.mark.parametrize(("markup", "tree"), table("formulas/content"))
def test_content(markup: str, tree: str) -> None:
    assert operators(markup) == tree


def test_many_commuting_arguments_are_halved() -> None:
    assert operators(f"<apply><plus/>{A * 62}</apply>").count("U!plus") == 1
    halved = operators(f"<apply><plus/>{A * 63}</apply>")
    assert halved.startswith("[U!plus,0[U!plus,0[V!a]")
    assert halved.count("V!a") == 63
    assert halved.count("U!plus") == 3


FAULTS = [
    ("", "the markup cannot be read"),
    ("x", "the markup cannot be read"),
    ("<math><mi>x</math>", "the markup cannot be read"),
    ("<math><mi>x</mi>", "the markup cannot be read"),
    ("<math><!-- x", "the markup cannot be read"),
    ('<!DOCTYPE math [<!ENTITY a "b">]><math><mi>&a;</mi></math>', "a document type or entity is declared"),
    ("<math>" + "<mrow>" * 200 + "</mrow>" * 200 + "</math>", "deeper than 200 levels"),
    ("<math><mrow/></math>", "no formula"),
]


@pytest.mark.parametrize(("markup", "reason"), FAULTS)
def test_what_cannot_be_read_is_an_error_with_its_reason(markup: str, reason: str) -> None:
    reading = read_presentation(markup)
    assert (tangent_string(reading.tree), reading.reason) == ("[E!]", reason)


def test_faults_in_part_of_a_formula_keep_the_rest() -> None:
    reading = read_presentation(f"<math><mrow>{X}<video>{Y}</video></mrow></math>")
    assert (tangent_string(reading.tree), reading.reason) == ("[V!x[E!,w[V!y]]]", "unknown element video")
    reading = read_presentation(f"<math><mrow>{X}<merror><mtext>\\gt</mtext></merror></mrow></math>")
    assert (tangent_string(reading.tree), reading.reason) == ("[V!x[E!]]", "marked as an error by its source")
    reading = read_content(f"<math><apply><plus/>{A}<video>x</video></apply></math>")
    assert (tangent_string(reading.tree), reading.reason) == ("[U!plus,0[V!a],1[E!]]", "unknown element video")
    assert read_content(f"<math>{A}{B}</math>").reason == "more than one formula"
    assert read_content("<math></math>").reason == "no formula"
    assert read_content("<math><apply></apply></math>").reason == "an application of nothing"


@pytest.mark.parametrize(("markup", "reason"), table("formulas/content_faults"))
def test_content_that_is_not_understood_says_why(markup: str, reason: str) -> None:
    assert read_content(f"<math>{markup}</math>").reason == reason


def test_entities_of_html_are_characters_and_no_others_are_known() -> None:
    assert layout("<mi>&alpha;&nosuchthing;</mi>") == "[V!α&nosuchthing;]"


def test_references_cannot_grow_without_bound() -> None:
    markup = f"<list>{A}{B}</list>"
    for _ in range(60):
        markup = f"<apply><and/>{markup}<list><share/><share/></list></apply>"
    reading = read_content(f"<math>{markup}</math>")
    assert (tangent_string(reading.tree), reading.reason) == ("[E!]", "references that repeat themselves")


def test_counts_name_every_failure() -> None:
    readings = [read_presentation(markup) for markup, _ in FAULTS] + [read_presentation(f"<math>{X}</math>")] * 3
    assert count(readings) == ParseCounts(
        3,
        {
            "the markup cannot be read": 5,
            "a document type or entity is declared": 1,
            "deeper than 200 levels": 1,
            "no formula": 1,
        },
    )


_PIECES = """
    <mi>x</mi> <mrow> </mrow> <msup> </msup> <mo>(</mo> <mo>)</mo> <mo>,</mo> < > & <apply> </apply> <plus/> <ci>a</ci>
    <share/> <math> </math> <mtr> </mtr> <mtable> </mtable> <none/> <mprescripts/> <mmultiscripts> </mmultiscripts> "
    <!-- --> <root/>
"""
PIECES = _PIECES.split()


def test_broken_markup_never_raises() -> None:
    whole = f"<math><mrow>{SUM}<msup><mo>(</mo>{X}<mo>)</mo></msup></mrow><apply><root/>{A}</apply></math>"
    for markup in mutated([whole], PIECES, 1_500, seed=1):
        for reading in (read_presentation(markup), read_content(markup), read_presentation(f"<math>{markup}</math>")):
            check(reading.tree)


@pytest.mark.slow
def test_large_input_is_read() -> None:
    big = f"<math><mrow>{X * 50_000}</mrow></math>"
    assert len(read_presentation(big).tree) == 50_000
    for piece in ("<!--", '<a b="', "<mi", "<", "&amp", "<mrow>", "</mrow>", "<mi a='"):
        assert read_presentation("<math>" + piece * 50_000).reason
