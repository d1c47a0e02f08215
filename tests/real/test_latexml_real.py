"""LaTeXML as it is installed here: against the official formulas, and with LaTeX that means harm."""

from __future__ import annotations

from pathlib import Path

import pytest
from case_tables import literals

from bench.formulas import official_pairs, truth
from harness.formulas.mathml.latexml import convert, missing, read_latexml
from harness.formulas.trees.tree import tangent_string

pytestmark = [
    pytest.mark.slow,
    pytest.mark.real,
    pytest.mark.skipif(bool(missing()), reason="LaTeXML is not installed: apt-get install latexml"),
]


def opt(latex: str) -> str:
    return tangent_string(read_latexml(convert([latex])[0], "opt").tree)


@pytest.mark.parametrize("kind", ["SLT", "OPT"])
def test_official_trees(mirror: Path, kind: str) -> None:
    pairs = [
        (pair.latex, tree) for pair in official_pairs(mirror, 2022)[:150] if (tree := truth(pair, kind)) is not None
    ]
    found = [read_latexml(markup, kind.lower()) for markup in convert([latex for latex, _ in pairs])]
    same = sum(reading.tree == tree for reading, (_, tree) in zip(found, pairs, strict=True))
    assert same >= 0.95 * len(pairs) > 100


@pytest.mark.parametrize("environment", ["align", "align*", "gather", "eqnarray"])
def test_every_line_of_an_alignment_is_kept(environment: str) -> None:
    (markup,) = convert([rf"\begin{{{environment}}} a=b \\ c=d \text{{ if $e$}} \end{{{environment}}}"])
    assert (
        tangent_string(read_latexml(markup, "opt").tree)
        == "[O!form-seq,0[U!eq,0[V!𝑎],1[V!𝑏]],1[U!eq,0[V!𝑐],1[U!times,0[V!𝑑],1[W!]]]]"
    )
    assert tangent_string(read_latexml(markup, "slt").tree) == "[M!2x1,w[V!a[=[V!b]],e[V!c[=[V!d[T!if[V!e]]]]]]]"
    assert markup.reason == ""


def test_a_bad_formula_harms_no_other() -> None:
    bad = ["x}", "{x", r"\begin{matrix} a", r"\end{document}", r"\foo", r"$", r"\def\x{y}", r"\let\frac\sqrt", "% a"]
    mixed = [each for latex in bad for each in (latex, r"\frac{x}{2}")]
    found = convert(mixed)
    assert {tangent_string(read_latexml(each, "opt").tree) for each in found[1::2]} == {"[O!divide,0[V!𝑥],1[N!2]]"}
    assert [each.reason for each in found[1::2]] == [""] * len(bad)
    assert found[mixed.index(r"\foo")].reason == "undefined"


@pytest.mark.slow
def test_endless_formulas_are_ended() -> None:
    latex = [r"\def\a{\a}\a", "x", r"\def\a{\a\a}\a", r"\loop\iftrue\repeat", "y"]
    found = convert(latex, seconds=5)
    assert [bool(each.reason) for each in found] == [True, False, True, True, False]
    assert tangent_string(read_latexml(found[4], "opt").tree) == "[V!𝑦]"


@pytest.mark.parametrize(("command",), literals("formulas/latexml_reading_commands"))
def test_files_are_not_read(tmp_path: Path, command: str) -> None:
    for name in ("s.tex", "s.sty", "s.sty.ltxml", "s.bbl"):
        (tmp_path / name).write_text("q+31415", encoding="utf-8")
    found = convert([command % (tmp_path / "s.tex"), command % (tmp_path / "s")])
    assert not any("31415" in each.presentation + each.content for each in found)


def test_files_are_not_written(tmp_path: Path) -> None:
    path = tmp_path / "out.tex"
    convert([rf"\immediate\openout5={path} \immediate\write5{{x}}\immediate\closeout5 x"])
    convert([rf"\begin{{filecontents}}{{{path}}}" + "\nx\n" + r"\end{filecontents}"])
    assert list(tmp_path.iterdir()) == []
