"""Where formulas stand, by hand and against a slow scanner that reads the rules literally; characters as commands."""

from __future__ import annotations

import re

import pytest
from case_tables import table
from hypothesis import given
from hypothesis import strategies as st

from harness.formulas.opt import read as operators
from harness.formulas.slt import read as layout
from harness.formulas.text.characters import OPERATORS, VARIABLES, normalise_latex
from harness.formulas.text.delimiters import Span, formula_spans, lone_dollars, split_formulas

PIECES = [
    *("$", "$$", r"\$", r"\(", r"\)", r"\[", r"\]", r"\\", "\\", "{", "}", r"\{", "x", "y ", "\n", "5", "*"),
    *(r"\begin{a}", r"\end{a}", r"\begin{a*}", r"\end{a*}", r"\begin{b}", r"\end{b}", r"\begin{ab", r"\begin{}"),
    *(r"\text{", r"\mbox {", r"\textbf{", r"\tag*{", r"\texttt", r"\frac{"),
]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=30).map("".join)


def cut(text: str) -> list[tuple[str, str]]:
    """Kind and LaTeX of each formula."""
    return [(span.kind, span.latex) for span in formula_spans(text)]


@pytest.mark.parametrize("row", [("$x\ny$", "inline", "x\ny"), *table("formulas/delimiters")])
def test_formulas_by_hand(row: tuple[str, ...]) -> None:
    text, *expected = row
    assert [part for formula in cut(text) for part in formula] == expected


def test_a_span_says_where() -> None:
    text = r"a $$x$$, \begin{ab}y\end{ab}."
    assert formula_spans(text) == [Span(2, 7, "display", "x"), Span(9, 28, "environment", "y")]
    assert [text[span.start : span.end] for span in formula_spans(text)] == ["$$x$$", r"\begin{ab}y\end{ab}"]


# ---- reference: the rules read literally, sign by sign, each search from its beginning

_TEXT = re.compile(r"\\(?:text[a-z]*|[mhf]box|tag\*?)\s*\{")
_NAMED = re.compile(r"\\(begin|end)\{([A-Za-z]+\*?)\}")


def step(text: str, at: int) -> str:
    """The sign at a place: a delimiter or command for text whole, a backslash with what follows it, a character."""
    named = _NAMED.match(text, at) or _TEXT.match(text, at)
    if named:
        return named[0]
    return text[at : at + 2] if text[at] == "\\" else text[at]


def after_braces(text: str, at: int) -> int:
    """Where the braces of the command for text here end, if all is paired in them; else where the command ends."""
    within = start = at + len(step(text, at))
    depth = 1
    signs: list[str] = []
    while at < len(text) and within < len(text):
        sign = step(text, within)
        within += len(sign)
        depth += (sign[-1] == "{" and (len(sign) == 1 or _TEXT.match(sign) is not None)) - (sign == "}")
        if not depth:
            paired = all(signs.count(rf"\{a}") == signs.count(rf"\{b}") for a, b in ("()", "[]"))
            return within if paired and signs.count("$") % 2 == 0 else start
        signs.append(sign)
    return start


def closing(text: str, at: int, close: str) -> int:
    while at < len(text):
        sign = step(text, at)
        if sign == close[:2] or (close == "$$" and text.startswith("$$", at)):
            return at
        at = after_braces(text, at) if _TEXT.match(text, at) else at + len(sign)
    return -1


def ending(text: str, at: int, name: str) -> int:
    depth = 1
    while at < len(text):
        sign = step(text, at)
        depth += (sign == rf"\begin{{{name}}}") - (sign == rf"\end{{{name}}}")
        if not depth:
            return at
        at += len(sign)
    return -1


def money(latex: str, after: str, sign: str) -> bool:
    """Whether pandoc's rule refuses a formula in dollars."""
    if any(not line.strip() for line in re.split(r"\r\n|\r|\n", latex)[1:-1]):
        return True
    return sign == "$" and (latex != latex.strip() or not latex or after.isdecimal())


def slowly(text: str, pandoc: bool = False) -> list[Span]:
    found, at = [], 0
    while at < len(text):
        sign = step(text, at)
        if sign == "$" and text.startswith("$$", at):
            sign, kind, close = "$$", "display", "$$"
        else:
            kind, close = {"$": ("inline", "$"), r"\(": ("round", r"\)"), r"\[": ("square", r"\]")}.get(sign, ("", ""))
        named = _NAMED.fullmatch(sign)
        start = at + len(sign)
        stop = closing(text, start, close) if kind else -1
        if named and named[1] == "begin":
            kind, close, stop = "environment", rf"\end{{{named[2]}}}", ending(text, start, named[2])
        after = text[stop + len(close) : stop + len(close) + 1]
        if stop < 0 or (pandoc and sign[0] == "$" and money(text[start:stop], after, sign)):
            at += 1 if pandoc and sign[0] == "$" else len(sign)
            continue
        if stop > start:
            found.append(Span(at, stop + len(close), kind, text[start:stop]))  # type: ignore[arg-type]
        at = stop + len(close)
    return found


@given(TEXTS)
def test_the_same_as_the_rules_read_literally(text: str) -> None:
    assert formula_spans(text) == slowly(text)


@given(st.lists(st.sampled_from([*PIECES, *"$$$$", " ", " ", "5", "\r\n", "\n\n", "\r"]), max_size=30).map("".join))
def test_the_same_as_pandocs_rule_read_literally(text: str) -> None:
    found = formula_spans(text, "pandoc")
    assert found == slowly(text, pandoc=True)
    assert sum(span.kind in ("inline", "display") for span in found) + lone_dollars(text, "pandoc") <= text.count("$")


# No formula in dollars goes over a blank line, whatever ends the lines.
LINES = [
    ("$a\nb$", "0", "a\nb"),
    ("The stake is $5.\n\nLet $X$ be", "1", "X"),
    ("The stake is $5.\r\n \t\r\nLet$ $X$", "2", "X"),
    ("$a\r\rb$ $a\r\nb$", "2", "a\r\nb"),
    ("$$a\n\nb$$ $x$", "4", "x"),
    ("$$ a\nb $$", "0", " a\nb "),
]


@pytest.mark.parametrize("row", [*table("formulas/money"), *LINES])
def test_amounts_of_money_are_text_by_pandocs_rule(row: tuple[str, ...]) -> None:
    """Each value is that of pandoc 3 (`-f markdown_strict+tex_math_dollars`), where it knows the delimiters."""
    text, lone, *formulas = row
    assert [span.latex for span in formula_spans(text, "pandoc")] == formulas
    assert lone_dollars(text, "pandoc") == int(lone)


@given(TEXTS)
def test_prose_and_formulas_are_the_text(text: str) -> None:
    parts = list(split_formulas(text))
    assert parts[-1][1] == ""
    assert [latex for _, latex in parts[:-1]] == [span.latex for span in formula_spans(text)]
    assert all(latex for _, latex in parts[:-1])
    assert all(
        text.startswith(prose, 0 if not i else formula_spans(text)[i - 1].end) for i, (prose, _) in enumerate(parts)
    )


# ---- characters as their commands


PARSERS = (operators.read_latex, layout.read_latex)


@pytest.mark.parametrize(("typed", "latex"), table("formulas/characters"))
def test_characters_are_read_as_their_commands(typed: str, latex: str) -> None:
    for parse in PARSERS:
        assert parse(typed) == parse(latex)
        assert parse(typed).reason == ""


def test_all_characters_of_the_table_are_read_as_their_first_command() -> None:
    first = {text: command for command, text in reversed((VARIABLES | OPERATORS).items()) if len(text) == 1}
    characters = {character: command for character, command in first.items() if not character.isascii()}
    assert len(characters) > 200
    for parse in PARSERS:
        differ = [char for char, command in characters.items() if parse(f"a {char} b") != parse(rf"a {command} b")]
        assert set(differ) <= {"⊥", "′", "√", "°"}  # the relation, not the constant; a script; `\\sqrt`; `^\\circ`
        assert [char for char in characters if parse(f"a {char} b").reason.startswith("unknown")] == []


@pytest.mark.parametrize(("latex", "wanted"), table("formulas/normalised"))
def test_normalised(latex: str, wanted: str) -> None:
    assert normalise_latex(latex) == wanted
    assert normalise_latex(wanted) == wanted
