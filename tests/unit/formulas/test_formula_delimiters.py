"""Where formulas stand: each rule by hand, and a slow scanner that follows the rules literally as the reference."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.formulas.text.delimiters import Span, lone_dollars, spans, split_formulas

PIECES = [
    *("$", "$$", r"\$", r"\(", r"\)", r"\[", r"\]", r"\\", "\\", "{", "}", r"\{", "x", "y ", "\n", "5", "*"),
    *(r"\begin{a}", r"\end{a}", r"\begin{a*}", r"\end{a*}", r"\begin{b}", r"\end{b}", r"\begin{ab", r"\begin{}"),
    *(r"\text{", r"\mbox {", r"\textbf{", r"\tag*{", r"\texttt", r"\frac{"),
]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=30).map("".join)


def cut(text: str) -> list[tuple[str, str]]:
    """Kind and LaTeX of each formula."""
    return [(span.kind, span.latex) for span in spans(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("no formula {here}", []),
        ("a $x$ b", [("inline", "x")]),
        ("$$x$$", [("display", "x")]),
        (r"\(x\) and \[y\]", [("round", "x"), ("square", "y")]),
        (r"\begin{align*}x&=y\\z\end{align*}!", [("environment", r"x&=y\\z")]),
        ("$x\ny$", [("inline", "x\ny")]),
        # What stands within a formula begins none; the leftmost one wins.
        (r"$a \(b$ c\)", [("inline", r"a \(b")]),
        (r"\(a $b\) c$", [("round", "a $b")]),
        (r"$$\begin{a}x$$\end{a}", [("display", r"\begin{a}x")]),
        (r"\begin{a}x $y$\end{a}", [("environment", "x $y$")]),
        # Dollars next to each other.
        ("$x$$y$", [("inline", "x"), ("inline", "y")]),
        ("$x$$$y$$", [("inline", "x"), ("display", "y")]),
        ("$$x$ y$$", [("display", "x$ y")]),
        ("$$$x$$", [("display", "$x")]),
        # Escaped.
        (r"\$5 and $6", []),
        (r"$\$5$", [("inline", r"\$5")]),
        (r"\$$x$", [("inline", "x")]),
        (r"$a \\$ b", [("inline", r"a \\")]),  # a line break, then the end
        (r"\\(a\\)", []),
        (r"\\\(a\\\)", [("round", r"a\\")]),
        (r"\\begin{a}x\end{a}", []),
        (r"\[ a \\[2pt] b \]", [("square", r" a \\[2pt] b ")]),
        ("$x\\", []),
        # Not closed: text, and the search goes on after it.
        (r"\( a $x$", [("inline", "x")]),
        (r"\[ a \(x\)", [("round", "x")]),
        (r"\begin{a} $x$", [("inline", "x")]),
        (r"\begin{a}x\end{b} $y$", [("inline", "y")]),
        (r"\begin{a}x\end{a*}", []),
        ("$$x$ y", []),
        ("$$x and $y$", [("inline", "y")]),
        (r"\) \] \end{a} $", []),
        # Nested environments, of one name and of others.
        (r"\begin{a}1\begin{a}2\end{a}3\end{a}4\end{a}", [("environment", r"1\begin{a}2\end{a}3")]),
        (r"\begin{a}\begin{b}x\end{b}\end{a}", [("environment", r"\begin{b}x\end{b}")]),
        (r"\begin{a}1\begin{a}2\end{a}", [("environment", "2")]),
        # Text within a formula.
        (r"$x \text{ if $n$ is odd}$ or", [("inline", r"x \text{ if $n$ is odd}")]),
        (r"$$x \mbox{ if $n$ {or $m$}}$$", [("display", r"x \mbox{ if $n$ {or $m$}}")]),
        (r"\(x \text{ if \(n\) is odd}\)", [("round", r"x \text{ if \(n\) is odd}")]),
        (r"$\text{a \textbf{b $c$}}$", [("inline", r"\text{a \textbf{b $c$}}")]),
        (r"in \text{prose $x$}", [("inline", "x")]),
        # A dollar without its pair in there, braces that are no text's, braces that are not closed.
        (r"$\text{cost $5}$", [("inline", r"\text{cost ")]),
        (r"$x_{a$ b}$", [("inline", "x_{a")]),
        (r"$\frac{$x$}$", [("inline", r"\frac{"), ("inline", "}")]),
        (r"$\text{if x$ or $y$", [("inline", r"\text{if x"), ("inline", "y")]),
        (r"$\text{if x$ or $y$ and $z$ }", [("inline", r"\text{if x"), ("inline", "y"), ("inline", "z")]),
        # Nothing between.
        (r"\(\) \[\] $$", []),
        ("$$$$", []),
        ("$$$$ and $x$", [("inline", "x")]),
        ("$ $", [("inline", " ")]),
        (r"\begin{a}\end{a}", []),
    ],
)
def test_formulas_by_hand(text: str, expected: list[tuple[str, str]]) -> None:
    assert cut(text) == expected


def test_a_span_says_where() -> None:
    text = r"a $$x$$, \begin{ab}y\end{ab}."
    assert spans(text) == [Span(2, 7, "display", "x"), Span(9, 28, "environment", "y")]
    assert [text[span.start : span.end] for span in spans(text)] == ["$$x$$", r"\begin{ab}y\end{ab}"]


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
    assert spans(text) == slowly(text)


@given(st.lists(st.sampled_from([*PIECES, *"$$$$", " ", " ", "5", "\r\n", "\n\n", "\r"]), max_size=30).map("".join))
def test_the_same_as_pandocs_rule_read_literally(text: str) -> None:
    found = spans(text, "pandoc")
    assert found == slowly(text, pandoc=True)
    assert sum(span.kind in ("inline", "display") for span in found) + lone_dollars(text, "pandoc") <= text.count("$")


@pytest.mark.parametrize(
    ("text", "formulas", "lone"),
    [
        ("A ticket costs $5 and the payoff is $10 today.", [], 2),
        ("US$5 to US$10", [], 2),
        (r"Price \$5 and \$10", [], 0),
        ("$5-$10", [], 2),
        ("$20,000 and $30,000", [], 2),
        ("$x$5", [], 2),
        ("costs $5.", [], 1),
        ("$ 5 $", [], 2),
        ("$x $ and $ y$", [], 4),
        ("$x$", ["x"], 0),
        ("($x$), $y$.", ["x", "y"], 0),
        ("$20 for $x$ and $y$, or $30", ["x", "y"], 2),
        ("$a\nb$", ["a\nb"], 0),
        # No formula in dollars goes over a blank line, whatever ends the lines.
        ("The stake is $5.\n\nLet $X$ be", ["X"], 1),
        ("The stake is $5.\r\n \t\r\nLet$ $X$", ["X"], 2),
        ("$a\r\rb$ $a\r\nb$", ["a\r\nb"], 2),
        ("$$a\n\nb$$ $x$", ["x"], 4),
        ("$$ a\nb $$", [" a\nb "], 0),
        # The next dollar closes a formula, or nothing does.
        ("$x $y$", ["y"], 1),
        ("$$x$", ["x"], 1),
        ("$$ $5", [], 3),
        # Other delimiters need no rule.
        (r"$5 \( 6 \) or \[7\]8, $9", [" 6 ", "7"], 2),
        (r"$x \text{ if $n$ is odd}$, $5", [r"x \text{ if $n$ is odd}"], 1),
    ],
)
def test_amounts_of_money_are_text_by_pandocs_rule(text: str, formulas: list[str], lone: int) -> None:
    """Each value is that of pandoc 3 (`-f markdown_strict+tex_math_dollars`), where it knows the delimiters."""
    assert [span.latex for span in spans(text, "pandoc")] == formulas
    assert lone_dollars(text, "pandoc") == lone


@given(TEXTS | st.text())
def test_spans_are_in_order_and_hold_their_latex(text: str) -> None:
    found = spans(text)
    edges = [edge for span in found for edge in (span.start, span.end)]
    assert edges == sorted(edges)
    assert all(0 <= span.start < span.end <= len(text) for span in found)
    opened = {"inline": "$", "display": "$$", "round": r"\(", "square": r"\["}
    for start, end, kind, latex in found:
        before, after = opened.get(kind, r"\begin{"), {"round": r"\)", "square": r"\]"}.get(kind, opened.get(kind, "}"))
        assert text.startswith(before, start) and text.endswith(after, start, end)
        assert latex in text[start:end]
        assert kind == "environment" or text[start:end] == before + latex + after


@given(TEXTS)
def test_prose_and_formulas_are_the_text(text: str) -> None:
    parts = list(split_formulas(text))
    assert parts[-1][1] == ""
    assert [latex for _, latex in parts[:-1]] == [span.latex for span in spans(text)]
    assert all(latex for _, latex in parts[:-1])
    assert all(text.startswith(prose, 0 if not i else spans(text)[i - 1].end) for i, (prose, _) in enumerate(parts))


# ---- texts on which a search from every delimiter would take minutes


@pytest.mark.parametrize(
    "unit",
    [
        *(r"\( ", r"\[ ", r"\begin{a} ", r"\begin{", r"\begin{a", r"\text{", r"\text  ", r"\\", r"\) ", r"\end{a} "),
        *("{", "}", r"\( \begin{a} \[ ", r"\text{\( ", r"\text{\( }\[ \begin{a} "),
    ],
)
def test_nothing_is_closed_in_a_long_text(unit: str) -> None:
    text = unit * (200_000 // len(unit))
    assert spans(text) == []
    assert spans(f"{text}$x$") == [Span(len(text), len(text) + 3, "inline", "x")]


@pytest.mark.parametrize("name", ["a", "align*"])
def test_deeply_nested_environments_are_one_formula(name: str) -> None:
    depth = 10_000
    text = rf"\begin{{{name}}}" * depth + "x" + rf"\end{{{name}}}" * depth
    (span,) = spans(f"a {text} b")
    assert (span.start, span.end, span.kind) == (2, 2 + len(text), "environment")
    # One end too few: the outermost is text.
    (span,) = spans(rf"\begin{{{name}}}" + text)
    assert span.start == len(rf"\begin{{{name}}}")


@pytest.mark.slow
def test_long_runs_of_dollars_and_nested_texts() -> None:
    assert spans("$" * 200_000) == []
    assert len(spans("$x" * 100_000)) == 50_000
    assert len(spans("$$x" * 50_001)) == 25_000
    nested = r"\text{" * 30_000 + "$y$" + "}" * 30_000
    assert cut(f"${nested}$") == [("inline", nested)]
    assert cut(rf"\( {nested} $z$") == [("inline", "y"), ("inline", "z")]
