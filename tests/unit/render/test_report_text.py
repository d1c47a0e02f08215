"""Markdown and LaTeX: what is written shows the text that was given, and nothing in it acts."""

from __future__ import annotations

import re
import string
import subprocess
from pathlib import Path
from typing import Any

import pytest
from case_tables import literals
from hypothesis import given
from hypothesis import strategies as st

from harness.render.figures import dot_interval
from harness.render.formats import escape_markdown as markdown_escape
from harness.render.formats import render_markdown
from harness.render.latex import escape_latex as latex_escape
from harness.render.latex import render_latex, render_table
from harness.render.model import MARKS, Cell, Column, Facts, Figure, Prose, Section, Table, visible
from harness.render.texchars import ACCENTS, LATIN, TEX
from harness.render.write import Report

HOSTILE = tuple(text for (text,) in literals("render/hostile_text"))


def report_of(text: str) -> Report:
    table = Table(
        "t",
        text,
        (Column(text), Column(text, text, "number"), Column("x", text)),
        (
            (Cell(text, 0.5, tuple(MARKS), text), Cell(text), Cell("1")),
            (Cell(text, marks=("best",)), Cell(text, note="n"), Cell(text)),
        ),
        notes=(text,),
    )
    drawing = Figure(
        "f", text, dot_interval([(text, 1, 0, 2, True)], text), Table("ft", text, (Column(text),), ((Cell(text),),))
    )
    return Report(
        text, text, (Section(text, (Prose((text,)), Facts(((text, text),)), table, drawing)), Section(text, (), 4))
    )


# Markdown


def parsed(source: str) -> list[Any]:
    """The tokens that a Markdown reader (the one that comes with rich) finds."""
    reader = pytest.importorskip("markdown_it").MarkdownIt("commonmark").enable(["table", "strikethrough"])
    return list(reader.parse(source))


def shown(source: str) -> tuple[str, set[str]]:
    """The text that a Markdown reader shows for a line, and the kinds of what it found besides."""
    tokens = parsed(source)
    inline = [child for token in tokens for child in token.children or []]
    kinds = {token.type for token in [*tokens, *inline]} - {
        "text",
        "text_special",
        "inline",
        "paragraph_open",
        "paragraph_close",
    }
    return "".join(child.content for child in inline), kinds


@pytest.mark.parametrize("text", HOSTILE)
def test_markdown_shows_hostile_text_as_it_is(text: str) -> None:
    assert shown("x " + markdown_escape(text)) == (
        ("x " + visible(text).strip()).rstrip(),
        {"code_inline"} if "http" in text else set(),
    )


@given(st.text(alphabet=string.printable + "é′\u202e"))
def test_markdown_shows_any_text_as_it_is(text: str) -> None:
    expected = re.sub(r"\x0b|\x0c", "", "x " + visible(text).strip()).rstrip()
    assert shown("x " + markdown_escape(text)) == (expected, set())


@pytest.mark.parametrize("text", HOSTILE)
def test_a_whole_markdown_report_has_only_the_elements_of_a_report(text: str) -> None:
    tokens = parsed(render_markdown(report_of(text)))
    kinds = {token.type for token in tokens} | {child.type for token in tokens for child in token.children or []}
    allowed = {
        "heading",
        "paragraph",
        "bullet_list",
        "list_item",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "strong",
    }
    leaves = {"inline", "text", "image", "text_special", "code_inline"}
    assert {kind.removesuffix("_open").removesuffix("_close") for kind in kinds} <= allowed | leaves
    rows = [token for token in tokens if token.type == "tr_open"]
    assert len(rows) == 5
    images = [child for token in tokens for child in token.children or [] if child.type == "image"]
    assert [image.attrs["src"] for image in images] == ["figures/f.svg"]


def test_markdown_tables_look_as_they_should() -> None:
    rows = ((Cell("psu|A", marks=("baseline",)), Cell("0.300", 0.3, ("best", "better"), "rounded")),)
    table = Table("t", "Means", (Column("Run"), Column("P@10", "ARQMath-1", "number")), rows, notes=("n = 77",))
    lines = render_markdown(Report("T", "H", (Section("S", (table,)),))).splitlines()
    assert lines[:5] == ["# T", "", "**H**", "", "## S"]
    assert lines[6:12] == [
        "**Table 1.** Means",
        "",
        "| Run | ARQMath-1 / P@10 |",
        "| :--- | ---: |",
        "| psu&#124;A † | **0.300** ▲ (a) |",
        "",
    ]
    assert "Marks: **bold** best; † baseline; ▲ better, significant after correction." in lines
    assert lines[-1] == "- (a) rounded"


def test_addresses_can_be_copied_from_markdown() -> None:
    """An address is a link only where a fact is nothing else; elsewhere it is code, without escapes."""
    address = "https://example.org/a_b?c=1"
    blocks = (Prose((f"See {address}, or http://evil/x|y.",)), Facts((("paper", address), ("code", f"at {address}"))))
    lines = render_markdown(Report("T", "H", (Section("S", blocks),))).splitlines()
    assert lines[6:] == [
        f"See `{address}`, or `http://evil/x`&#124;y.",
        "",
        f"- **paper:** <{address}>",
        f"- **code:** at `{address}`",
    ]


# LaTeX


def read_latex(source: str) -> str:
    """The text that LaTeX source of ours stands for, refusing any character that would act."""
    forms = {form: char for char, form in TEX.items() if char.isascii()} | {r"\allowbreak{}": "", "{}": ""}
    pattern = re.compile("|".join(re.escape(form) for form in sorted(forms, key=len, reverse=True)))
    parts, place = [], 0
    while place < len(source):
        found = pattern.match(source, place)
        if found:
            parts.append(forms[found[0]])
            place = found.end()
        else:
            assert source[place] not in '\\{}$&#^_~%"<>`', source[place:]
            parts.append(source[place])
            place += 1
    return "".join(parts)


def balanced(source: str) -> bool:
    depth = 0
    for brace in re.findall(r"[{}]", re.sub(r"\\[\\{}]", "", source)):
        depth += 1 if brace == "{" else -1
        if depth < 0:
            return False
    return depth == 0


@given(st.text(alphabet=st.characters(min_codepoint=1, max_codepoint=126)))
def test_latex_stands_for_the_text_that_was_given(text: str) -> None:
    assert read_latex(latex_escape(text)) == visible(text)


@given(st.text(st.sampled_from("aZ09 .:;/+()@-_,'~"), max_size=60))
def test_latex_of_names_and_numbers(text: str) -> None:
    # A space of no width is not literal, so that the text goes the longer way.
    code = latex_escape("\u200b")
    assert latex_escape(f"{text} \u200b") == f"{latex_escape(text)} {code}"


@given(st.text())
def test_latex_is_balanced_and_only_has_what_fonts_have(text: str) -> None:
    source = latex_escape(text)
    assert balanced(source)
    assert all(char in LATIN or " " <= char <= "~" for char in source)
    assert not re.search(r"--|''|,,|``|<<|>>", source.replace(r"\ensuremath{''}", "").replace(r"\ensuremath{'''}", ""))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Čeština, đ, ő", "Čeština, đ, ő"),
        (
            "nDCG′@10 – Δ × 2²",
            r"nDCG\ensuremath{'}@10 \textendash{} \ensuremath{\Delta} \ensuremath{\times} 2\textsuperscript{2}",
        ),
        ("ạ ế", r"\d{a} \'{\^{e}}"),
        (
            "α Β ο ς ϕ",
            r"\ensuremath{\alpha} \ensuremath{\mathrm{B}} \ensuremath{o} \ensuremath{\varsigma} \ensuremath{\phi}",
        ),
        ("𝑥 ﬁ", "x fi"),
        ("中文", "{[}U+4E2D U+6587{]}"),
        ("see مجموعه ترکیبی.", "see {[}Arabic, 12 characters: afc2{]}."),
        ("x" * 30, r"xxxxxxxx\allowbreak{}xxxxxxxx\allowbreak{}xxxxxxxx\allowbreak{}xxxxxx"),
        ("--flag, ,, ''", "-{}-flag, ,{}, '{}'"),
    ],
)
def test_characters_beyond_ascii_are_composed_or_named(text: str, expected: str) -> None:
    assert latex_escape(text) == expected


@pytest.mark.parametrize("text", HOSTILE)
def test_a_whole_latex_report_is_balanced_and_runs_no_foreign_command(text: str) -> None:
    source = render_latex(report_of(text))
    assert balanced(source)
    assert not re.search(r"\\(input|write|include|openin|catcode|def|csname)(?![A-Za-z])", source)
    assert source.count(r"\end{document}") == 1
    assert source.endswith("\\end{document}\n")
    begun = re.findall(r"\\begin\{([a-z*]+)\}", source)
    assert sorted(begun) == sorted(re.findall(r"\\end\{([a-z*]+)\}", source))


def test_tables_follow_the_habits_of_papers() -> None:
    columns = (Column("Run"), Column("ARQMath-1", "P@10", "number"), Column("ARQMath-2", "P@10", "number"))
    rows = (
        (Cell("psu_A", marks=("baseline",)), Cell("0.300", 0.3, ("best", "better"), "rounded"), Cell("-0.1", -0.1)),
        (Cell("[x]"), Cell("0.2", marks=("exact",)), Cell("n/a", marks=("missing",))),
    )
    source = render_latex(
        Report("T", "H", (Section("S", (Table("means", "Means", columns, rows, ("t-test, n = 77",)),)),))
    )
    caption = (
        r"\caption{Means. \textbf{bold}: best; $^{\dagger}$: baseline; $^{\blacktriangle}$: better, "
        r"significant after correction; "
        r"$^{\checkmark}$: equals the published value in all printed digits; $^{\varnothing}$: no value. "
        "t-test, n = 77.}"
    )
    expected = r"""\begin{inplace}{table}
CAPTION
\label{tab:means}
\par\nopagebreak
\fit{%
\begin{tabular}{lr<{\hspace{10pt}}r<{\hspace{5pt}}}
\toprule
 & \multicolumn{2}{c}{P@10} \\
\cmidrule(lr){2-3}
Run & ARQMath-1 & ARQMath-2 \\
\midrule
psu\_A$^{\dagger}$ & \textbf{0.300}\rlap{$^{\blacktriangle\mathrm{a}}$} & \ensuremath{-}0.1 \\
{[}x{]} & 0.2\rlap{$^{\checkmark}$} & n/a\rlap{$^{\varnothing}$} \\
\bottomrule
\end{tabular}}
\end{inplace}

{\footnotesize \textsuperscript{a}\,rounded\par}"""
    assert expected.replace("CAPTION", caption) in source


def test_a_table_for_a_paper_is_the_bare_tabular() -> None:
    columns = (Column("Run"), Column("ARQMath-1", "P@10", "number"), Column("ARQMath-2", "P@10", "number"))
    long = "a-very-long-name-of-a-run--with-two-hyphens-in-it"
    rows = (
        (Cell(long), Cell("0.300", 0.3, ("best",), "rounded"), Cell("-0.1", -0.1)),
        (Cell("[x]"), Cell("0.2", marks=("exact",)), Cell("n/a")),
    )
    expected = r"""% Needs \usepackage{booktabs}, \usepackage{array}, \usepackage{amssymb}.
% Around it:
% \caption{Means. \textbf{bold}: best; $^{\checkmark}$: equals the published value in all printed digits. n = 77.}
% \label{tab:means}
% Below it, with threeparttable:
% \begin{tablenotes}
%   \item[a] rounded
% \end{tablenotes}
\begin{tabular}{lr<{\hspace{5pt}}r}
\toprule
 & \multicolumn{2}{c}{P@10} \\
\cmidrule(lr){2-3}
Run & ARQMath-1 & ARQMath-2 \\
\midrule
a-very-long-name-of-a-run-{}-with-two-hyphens-in-it & \textbf{0.300}\rlap{$^{\mathrm{a}}$} & \ensuremath{-}0.1 \\
{[}x{]} & 0.2\rlap{$^{\checkmark}$} & n/a \\
\bottomrule
\end{tabular}
"""
    assert render_table(Table("means", "Means", columns, rows, ("n = 77",))) == expected


@pytest.mark.parametrize("text", HOSTILE)
def test_a_table_for_a_paper_is_whole_whatever_stands_in_it(text: str) -> None:
    table = Table("t", text, (Column(text, text), Column("b")), ((Cell(text, note=text), Cell("x" * 90)),), (text,))
    source = render_table(table)
    code = [line for line in source.splitlines() if not line.startswith("%")]
    assert code[0].startswith(r"\begin{tabular}")
    assert code[-1] == r"\end{tabular}"
    assert balanced("\n".join(code))
    assert "x" * 90 in source
    assert not re.search(r"\\(allowbreak|resizebox|small|documentclass|usepackage)", "\n".join(code))


def wide_table(rows: int, columns: int) -> Report:
    heads = (Column("Run"), *(Column(f"topic A.{index}", kind="number") for index in range(columns)))
    body = tuple(
        (Cell(f"run {row}"), *(Cell(f"{row}.{column:03}") for column in range(columns))) for row in range(rows)
    )
    return Report("T", "H", (Section("S", (Table("w", "Wide", heads, body),)),))


def test_long_and_wide_tables_are_cut_into_parts_without_losing_a_cell() -> None:
    assert render_latex(wide_table(5, 4)).count(r"\begin{tabular}") == 1
    for rows, most in ((5, 5), (60, 12)):
        source = render_latex(wide_table(rows, 40))
        tables = source.split(r"\begin{tabular}")[1:]
        assert 1 < len(tables) <= most
        assert source.count(r"\caption{") == 1
        heads = {len(re.findall(r"topic A\.", each)) for each in tables}
        assert 2 * min(heads) > max(heads), "parts have about as many columns each, never a single one"
        for row in range(rows):
            for column in range(40):
                assert source.count(f" {row}.{column:03} ") == 1


def test_two_names_without_glyphs_stay_two() -> None:
    one, other = map(latex_escape, ("فريق البحث", "فريق العلوم"))
    assert one != other


@pytest.mark.slow
def test_a_table_for_a_paper_names_every_package_that_it_needs(tmp_path: Path, pdflatex: str) -> None:
    """Characters whose tables ask for the same packages go through pdflatex with just these."""
    groups: dict[str, list[str]] = {}
    for char in sorted({*TEX, *LATIN, *ACCENTS}):
        first = render_table(Table("t", "c", (Column("a"),), ((Cell(f"x{char}y"),),))).partition("\n")[0]
        groups.setdefault(first, []).append(char)
    for mark in MARKS:
        first = render_table(Table("t", "c", (Column("a"),), ((Cell("x", marks=(mark,)),),))).partition("\n")[0]
        groups.setdefault(first, [])
    assert 3 <= len(groups) <= 8
    for number, (first, chars) in enumerate(groups.items()):
        marks = [
            m for m in MARKS if first in render_table(Table("t", "c", (Column("a"),), ((Cell("x", marks=(m,)),),)))
        ]
        rows = (*((Cell(f"x{char}y"),) for char in chars), *((Cell("x", marks=(mark,)),) for mark in marks))
        (tmp_path / "table.tex").write_text(render_table(Table("t", "c", (Column("a"),), rows)), encoding="utf-8")
        packages = "\n".join(re.findall(r"\\usepackage(?:\[\w+\])?\{\w+\}", first))
        body = f"\\documentclass{{article}}\n{packages}\n\\begin{{document}}\\input{{table}}\\end{{document}}\n"
        (tmp_path / f"{number}.tex").write_text(body, encoding="utf-8")
        command = [pdflatex, "-no-shell-escape", "-interaction=nonstopmode", "-halt-on-error", f"{number}.tex"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=300, check=False)
        said = done.stdout.decode("utf-8", "replace")
        assert done.returncode == 0, (first, said[-1500:])
        assert "Missing character" not in (tmp_path / f"{number}.log").read_text("latin-1"), first
