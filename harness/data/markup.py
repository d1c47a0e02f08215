"""Posts in HTML as plain text and formulas."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from dataclasses import dataclass

from harness.data.topics import Formula
from harness.formulas.text.delimiters import Dollars, spans

_BLOCKS = frozenset({"p", "br", "li", "ul", "ol", "blockquote", "div", "pre", "tr", "h1", "h2", "h3", "h4", "hr"})
_DELIMITERS = (("$$", "$$"), ("$", "$"), ("\\(", "\\)"), ("\\[", "\\]"))
# Possessive and bounded, so that malicious markup cannot cause catastrophic backtracking.
_TAG = re.compile(
    r"""<(?P<close>/?)(?P<name>[a-zA-Z][^\s/>]*)(?P<rest>(?:[^>"']|"[^"]{0,65536}"|'[^']{0,65536}'){0,2048}+)>"""
    r"""|<(?P<close_>/?)(?P<name_>[a-zA-Z][^\s/>]*)(?P<rest_>[^>]*)>|<!--|<[!?][^>]*>"""
)
_ATTRIBUTE = re.compile(r"""([^\s=/"'>]+)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+)))?""")
_HIDDEN = {"script": "</script", "style": "</style"}  # element -> end of its content
_CONTINUED = re.compile(r"(?<!\\)((?:\\\\)*)%\s+")


@dataclass(frozen=True)
class Marked:
    """Text and formulas read from markup, and the number of formula spans that contained others."""

    text: str
    formulas: tuple[Formula, ...]
    nested: int


class _Span:
    """Open span of a formula, or an ordinary span that only needs to be matched with its end."""

    def __init__(self, attributes: Mapping[str, str], start: int) -> None:
        self.is_formula = "math-container" in attributes.get("class", "").split()
        self.attributes = attributes
        self.start = start  # index into the pieces of text
        self.inner: list[Formula] = []


class _Markup:
    """Parser of a post's text and formulas; tolerates broken markup."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.formulas: list[Formula] = []
        self.nested = 0
        self._spans: list[_Span] = []
        self._open: list[_Span] = []  # open formula spans

    def read(self, markup: str) -> None:
        at, last_tag, last_math = 0, markup.rfind(">") + 1, markup.rfind("</math")
        while tag := _TAG.search(markup, at, last_tag):
            self._data(markup[at : tag.start()])
            at = tag.end()
            name = (tag["name"] or tag["name_"] or "").lower()
            if tag[0] == "<!--" or (name in _HIDDEN and not tag["close"]):
                end = markup.find("-->" if not name else _HIDDEN[name], at)
                at = len(markup) if end < 0 else end + (3 if not name else 0)
            elif name == "span":
                self._span(tag)
            elif name == "math" and not tag["close"] and at <= last_math:
                self._mathml(_attributes(tag).get("alttext", ""))
                at = markup.find("</math", at)
            elif name in _BLOCKS:
                self.pieces.append(" ")
        self._data(markup[at:])
        while self._spans:
            self._close(self._spans.pop())

    def _data(self, data: str) -> None:
        if data:
            self.pieces.append(html.unescape(data) if "&" in data else data)

    def _span(self, tag: re.Match[str]) -> None:
        if not (tag["close"] or tag["close_"]):
            self._spans.append(span := _Span(_attributes(tag), len(self.pieces)))
            if span.is_formula:
                self._open.append(span)
        elif self._spans:
            self._close(self._spans.pop())

    def _mathml(self, latex: str) -> None:
        latex = unwrapped(latex)
        self.pieces.append(f"${latex}$" if latex else "")
        if not self._open:
            self.formulas.append(Formula("", latex))

    def _close(self, span: _Span) -> None:
        """Ends a span. A formula span without an id that contains others is a mistake, and is ignored."""
        if not span.is_formula:
            return
        self._open.pop()
        self.nested += bool(span.inner)
        if span.inner and not span.attributes.get("id"):
            found = span.inner
        else:
            latex = "".join(self.pieces[span.start :]).strip()
            for opening, closing in _DELIMITERS:
                if latex.startswith(opening):
                    latex = latex.removeprefix(opening).removesuffix(closing).strip()
                    break
            found = [Formula(span.attributes.get("id", ""), latex, span.attributes.get("visual_id", ""))]
        (self._open[-1].inner if self._open else self.formulas).extend(found)


def _attributes(tag: re.Match[str]) -> dict[str, str]:
    found = _ATTRIBUTE.findall(tag["rest"] or tag["rest_"] or "")
    return {name.lower(): html.unescape(double or single or bare) for name, double, single, bare in found}


def unwrapped(latex: str) -> str:
    """Returns LaTeX without the line breaks (`%` and a blank) that LaTeXML inserts in `alttext`."""
    if "%" not in latex:
        return latex.strip()

    def join(broken: re.Match[str]) -> str:
        before, after = latex[max(0, broken.start() - 40) : broken.start()], latex[broken.end() : broken.end() + 1]
        command = re.search(r"\\[a-zA-Z]+$", before)
        return broken[1] + (" " if command and after.isalpha() else "")

    return _CONTINUED.sub(join, latex).strip()


def formulas_in(text: str, dollars: Dollars = "pairs") -> tuple[str, ...]:
    """Returns the LaTeX of the formulas in a text, without delimiters; environments keep their begin and end.

    Parameters
    ----------
    dollars : rule for dollar signs, see `harness.formulas.text.delimiters`.
    """
    found = spans(text, dollars)
    return tuple((text[one.start : one.end] if one.kind == "environment" else one.latex).strip() for one in found)


def numbered(prefix: str, *texts: str, dollars: Dollars = "pairs") -> tuple[Formula, ...]:
    """Returns the formulas of texts, numbered consecutively; ids begin with the prefix.

    Examples
    --------
    >>> [(one.id, one.latex) for one in numbered("q_", "Solve $x=1$", "and $y$")]
    [('q_1', 'x=1'), ('q_2', 'y')]
    """
    found = (latex for text in texts for latex in formulas_in(text, dollars))
    return tuple(Formula(f"{prefix}{number}", latex) for number, latex in enumerate(found, 1))


def read_markup(markup: str) -> Marked:
    """Returns the text of HTML with formulas as LaTeX: spans of class `math-container`, MathML by its `alttext`.

    Of nested formula spans, the outer one is used if it has an id, else the inner ones.
    """
    reader = _Markup()
    reader.read(markup)
    return Marked(" ".join("".join(reader.pieces).split()), tuple(reader.formulas), reader.nested)


def plain(markup: str) -> tuple[str, tuple[Formula, ...]]:
    """Returns the text of HTML with formulas in place as LaTeX, and the formulas."""
    marked = read_markup(markup)
    return marked.text, marked.formulas
