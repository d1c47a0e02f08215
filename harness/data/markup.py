"""Posts in HTML as plain text and formulas."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from html.entities import html5

from harness.data.topics import Formula
from harness.formulas.text.delimiters import Dollars, formula_spans

_BLOCKS = frozenset(
    {"p", "br", "li", "ul", "ol", "dl", "dt", "dd", "blockquote", "div", "pre", "center", "hr", "header", "footer"}
    | {"section", "table", "caption", "tr", "td", "th", "h1", "h2", "h3", "h4", "h5", "h6"}
)
_ELEMENTS = _BLOCKS | {
    "a", "abbr", "b", "big", "body", "cite", "code", "col", "colgroup", "del", "dfn", "em", "font", "head", "html", "i",
    "iframe", "img", "input", "ins", "kbd", "link", "math", "meta", "q", "s", "samp", "script", "small", "span",
    "strike", "strong", "style", "sub", "sup", "tbody", "tfoot", "thead", "title", "tt", "u", "var",
}  # fmt: skip
_DELIMITERS = (("$$", "$$"), ("$", "$"), ("\\(", "\\)"), ("\\[", "\\]"))
# Possessive and bounded, so that malicious markup cannot cause catastrophic backtracking.
_TAG = re.compile(
    r"""<(?P<opens>[a-zA-Z][a-zA-Z0-9]*)(?=[\s/>])"""
    r"""(?:(?P<rest>(?:[^<>"']|"[^"]{0,65536}"|'[^']{0,65536}'){0,2048}+)>|(?P<rest_>[^<>]*)>)"""
    r"""|</(?P<closes>[a-zA-Z][^\s/>]*)[^<>]*>|<!--|<!\[CDATA\[|<[!?][^<>]*>"""
    r"""|<\ (?P<parted>span)="">"""  # `</span>` that a parser of HTML made part of a tag: `$x<y$</span>`
)
# A formula as LaTeXML writes it, up to its MathML, which is not read. Others are read tag by tag, with the same result.
_FORMULA = re.compile(
    r"""<span class="math-container" id="([^"<>&]*)" visual_id="([^"<>&]*)"><math alttext="([^"<>]*)\""""
    r"""(?:\s+(?!alttext)[\w:]+="[^"<>]*")*+>"""
)
_ATTRIBUTE = re.compile(r"""([^\s=/"'>]+)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+)))?""")
_HIDDEN = {"script": "</script", "style": "</style"}  # element -> end of its content
_PLAIN = _ELEMENTS - {"span", "math", *_HIDDEN}
_WITHIN = re.compile(
    r"""<(?P<close>/?)(?P<name>[a-zA-Z][a-zA-Z0-9]*)"""
    r"""(?:\s+[\w:-]+=(?:"[^"<>]{0,2048}"|'[^'<>]{0,2048}'|[^\s"'<>]+)){0,16}+\s*+/?>|<\?xml\b[^<>]*>"""
)
_QUOTED = (("<!--", "-->", ""), ("<![CDATA[", "]]>", r"\1"))  # beginning, end and what remains of comments and CDATA
_CONTINUED = re.compile(r"(?<!\\)((?:\\\\)*)%\s+")
_REFERENCE = re.compile(r"&(?P<one>#\d{1,7}|#[xX][\da-fA-F]{1,6}|[a-zA-Z][a-zA-Z0-9]{1,31});")
# References that remain in LaTeX. Shorter names than these may be the contents of a cell: `1&xi;`.
_NAME = r"(?:[lg]t|[lgn]e|[a-zA-Z][a-zA-Z0-9]{2,31}|#\d{1,7}|#[xX][\da-fA-F]{1,6})"
_CELL = r"(?:\$?\\displaystyle ?)?"  # LaTeXML takes the `&` for the end of a cell, and begins the next one
_REMAINING = re.compile(
    r"(?:&|(?=\\displaystyle ?(?:amp|[lg]t);))"
    rf"(?:(?:{_CELL}(?:amp|AMP|#0?38|#[xX]0?26);)++(?:{_CELL}(?P<after>{_NAME});)?"
    rf"|{_CELL}(?P<one>{_NAME});|(?P<bare>[lg]t)(?!\s*(?:&|\\\\|\\end|\Z)))"
)


@dataclass(frozen=True)
class Marked:
    """Text and formulas read from markup.

    Attributes
    ----------
    nested : number of formula spans that contain others.
    unended : number of formula spans that are never closed.
    truncated : number of formulas that begin with a delimiter and do not end with it.
    repaired : number of formulas that `repair_entities` changed.
    """

    text: str
    formulas: tuple[Formula, ...] = ()
    nested: int = 0
    unended: int = 0
    truncated: int = 0
    repaired: int = 0

    def remarks(self) -> Counter[str]:
        """Returns the numbers of formulas and of irregular ones by their names in the remarks of a reader."""
        return Counter(
            {
                "formulas": len(self.formulas),
                "formulas without LaTeX": sum(not formula.latex for formula in self.formulas),
                "formulas with repaired entities": self.repaired,
                "formulas without their closing delimiter": self.truncated,
                "formula spans around others": self.nested,
                "formula spans without an end": self.unended,
            }
        )


class _Span:
    """Open span of a formula, or an ordinary span that only needs to be matched with its end."""

    def __init__(self, attributes: Mapping[str, str], start: int) -> None:
        self.is_formula = "math-container" in attributes.get("class", "").lower().split()
        self.attributes = attributes
        self.start = start  # index into the pieces of text
        self.stop: int | None = None  # index of the first formula span in it
        self.inner: list[Formula] = []
        self.mathml: str | None = None
        self.repaired = False


class _Markup:
    """Parser of a post's text and formulas; tolerates broken markup."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.formulas: list[Formula] = []
        self.nested = self.unended = self.truncated = self.repaired = 0
        self._spans: list[_Span] = []
        self._open: list[_Span] = []  # open formula spans

    def read(self, markup: str) -> None:
        at = look = 0
        last_tag, last_math = markup.rfind(">") + 1, markup.rfind("</math")
        last_quoted = {begin: markup.rfind(end) for begin, end, _ in _QUOTED}
        while tag := _TAG.search(markup, look, last_tag):
            opens, _, _, closes, parted = tag.groups()
            name = (opens or closes or parted or "").lower()
            if self._open:  # `$x<y$` is mathematics, not a tag; other tags are looked for by `_add_text`
                is_markup = name in ("span", "math")
            elif name:
                is_markup = name in _ELEMENTS if opens else not parted
            else:
                is_markup = tag.end() <= last_quoted.get(tag[0], tag.end())
            if not is_markup:
                look = tag.start() + 1
                continue
            if at < tag.start():
                self._add_text(markup[at : tag.start()])
            if name in _PLAIN:
                if name in _BLOCKS:
                    self.pieces.append(" ")
                at = look = tag.end()
                continue
            whole = _FORMULA.match(markup, tag.start()) if name == "span" and not self._open else None
            end = markup.find("</math", whole.end()) if whole else -1
            if whole and markup.startswith("</math></span>", end):
                latex = self._repaired(unwrapped(_without_entities(whole[3])))
                self.pieces.append(f"${latex or ' '}$")
                self.formulas.append(Formula(whole[1], latex, whole[2]))
                at = look = end + len("</math></span>")
                continue
            at = look = self._tag(markup, tag, name, last_math)
        self._add_text(markup[at:])
        while self._spans:
            self._close(self._spans.pop(), ended=False)

    def _tag(self, markup: str, tag: re.Match[str], name: str, last_math: int) -> int:
        """Reads a tag; returns where what it governs ends."""
        at = tag.end()
        for begin, closing, _ in _QUOTED:
            if tag[0] == begin:
                end = markup.index(closing, at)
                self.pieces.append(markup[at:end] if begin != "<!--" else "")
                return end + len(closing)
        if name in _HIDDEN and tag["opens"]:
            end = markup.find(_HIDDEN[name], at)
            return len(markup) if end < 0 else end
        if name == "span":
            self._open_or_close_span(tag)
        elif name == "math" and tag["opens"] and at <= last_math:
            self._add_mathml(_attributes(tag).get("alttext", ""))
            return markup.find("</math", at)
        return at

    def _add_text(self, data: str) -> None:
        """Appends text; in a formula span, without the elements in it and with what remains of entities repaired."""
        if not self._open:
            self.pieces.append(_without_entities(data))
            return
        decoded = _REFERENCE.sub(_character, _without_elements(data) if "<" in data else data)
        self.pieces.append(self._repaired(decoded))

    def _repaired(self, latex: str) -> str:
        repaired = repair_entities(latex)
        if repaired != latex and self._open:
            self._open[-1].repaired = True
        elif repaired != latex:
            self.repaired += 1
        return repaired

    def _open_or_close_span(self, tag: re.Match[str]) -> None:
        if tag["opens"]:
            self._spans.append(span := _Span(_attributes(tag), len(self.pieces)))
            if span.is_formula:
                if self._open and self._open[-1].stop is None:
                    self._open[-1].stop = span.start
                self._open.append(span)
        elif self._spans:
            self._close(self._spans.pop())

    def _add_mathml(self, latex: str) -> None:
        latex = self._repaired(unwrapped(latex))
        self.pieces.append(f"${latex or ' '}$")
        if self._open:
            self._open[-1].mathml = latex
        else:
            self.formulas.append(Formula("", latex))

    def _close(self, span: _Span, ended: bool = True) -> None:
        """Ends a span. A formula span without an id that contains others is a mistake, and is ignored.

        A formula span without an end has the text before the next one.
        """
        if not span.is_formula:
            return
        self._open.pop()
        self.nested += bool(span.inner)
        self.unended += not ended
        self.repaired += span.repaired
        if span.inner and ended and not span.attributes.get("id"):
            inner = span.inner
        else:
            if ended:
                self.pieces[span.start :] = ["".join(self.pieces[span.start :])]  # joined once if spans are nested
            content = trimmed("".join(self.pieces[span.start : None if ended else span.stop]))
            if not ended and (delimited := formula_spans(content)) and not delimited[0].start:
                content = content[: delimited[0].end]
            latex, closed = (span.mathml, True) if content == f"${span.mathml}$" else _undelimited(content)
            self.truncated += not closed
            if not closed:  # or else the next dollar of the text would end this formula
                self.pieces.insert(len(self.pieces) if ended or span.stop is None else span.stop, _missing(content))
            inner = [] if ended else span.inner
            inner.insert(0, Formula(span.attributes.get("id", ""), latex or "", span.attributes.get("visual_id", "")))
        if self._open and not self._open[-1].inner:
            self._open[-1].inner = inner  # not copied, so that the time is linear in the depth
        else:
            (self._open[-1].inner if self._open else self.formulas).extend(inner)


def _attributes(tag: re.Match[str]) -> dict[str, str]:
    attributes = _ATTRIBUTE.findall(tag["rest"] or tag["rest_"] or "")
    return {name.lower(): _without_entities(double or single or bare) for name, double, single, bare in attributes}


def _without_entities(text: str) -> str:
    try:
        return html.unescape(text) if "&" in text else text
    except ValueError:  # a number of thousands of digits
        return text


def _without_elements(text: str) -> str:
    """Returns the text of a formula span without elements: `<br>`, and tags of elements that end in the span."""
    for begin, end, remains in _QUOTED:
        last = text.rfind(end)
        if last > 0:
            inside = re.compile(f"{re.escape(begin)}(.*?){re.escape(end)}", re.DOTALL)
            text = inside.sub(remains, text[: last + len(end)]) + text[last + len(end) :]
    ends = Counter(tag["name"].lower() for tag in _WITHIN.finditer(text) if tag["close"])

    def text_of(tag: re.Match[str]) -> str:
        name = (tag["name"] or "").lower()
        if tag["close"]:
            ends[name] -= 1
        elif name and name != "br" and (name not in _ELEMENTS or ends[name] < 1):
            return tag[0]
        return " " if name in _BLOCKS else ""

    return _WITHIN.sub(text_of, text)


def _undelimited(latex: str) -> tuple[str, bool]:
    """Returns LaTeX without its delimiters, and whether it ends with the delimiter with which it begins."""
    for opening, closing in _DELIMITERS:
        if latex.startswith(opening):
            inside = latex.removeprefix(opening)
            before = inside.removesuffix(closing)
            closed = not inside or (before != inside and not _ends_in_escape(before))
            return trimmed(before if closed else inside), closed
    return latex, True


def _missing(latex: str) -> str:
    """Returns what LaTeX lacks to end with the delimiter with which it begins."""
    closing = next(closing for opening, closing in _DELIMITERS if latex.startswith(opening))
    if _ends_in_escape(latex):
        return f" {closing}"
    half = closing == "$$" and latex[2:].endswith("$") and not _ends_in_escape(latex[:-1])
    return "$" if half else closing


def _ends_in_escape(latex: str) -> bool:
    return (len(latex) - len(latex.rstrip("\\"))) % 2 == 1


def trimmed(latex: str) -> str:
    r"""Returns LaTeX without the blanks around it, except for the blank of a control space at its end.

    Examples
    --------
    >>> trimmed(" x\\ ")
    'x\\ '
    """
    bare = latex.strip()
    return f"{bare} " if _ends_in_escape(bare) and latex.rstrip() != latex else bare


def repair_entities(latex: str) -> str:
    r"""Replaces entities in LaTeX, which remain where a page or post was escaped several times.

    `&lt` and `&gt` may lack their semicolon, unless they fill a cell. LaTeXML reads the `&` as the end of a cell, so
    that an entity may be in two: `&\displaystyle amp;`. Other uses of `&` remain.

    Examples
    --------
    >>> repair_entities(r"a&lt;b &amp;amp;gt; 0&\displaystyle amp;=c & d")
    'a<b > 0&=c & d'
    """
    if "&" not in latex and ";" not in latex:
        return latex
    while (plain := _REMAINING.sub(_character, latex)) != latex:  # what was escaped may be an entity with what follows
        latex = plain
    return latex


def _character(match: re.Match[str]) -> str:
    """Returns the character of a reference, or the reference if there is none of its name."""
    groups = match.groupdict()
    name = groups["one"] or groups.get("after") or groups.get("bare")
    one = html.unescape(f"&{name};") if name and name.startswith("#") else html5.get(f"{name or 'amp'};")
    if one is None:
        return match[0] if groups["one"] else f"&{name};"
    return one + ("$" if "$" in match[0] else "")


def unwrapped(latex: str) -> str:
    """Returns LaTeX without the line breaks (`%` and a blank) that LaTeXML inserts in `alttext`."""
    if "%" not in latex:
        return trimmed(latex)

    def join(broken: re.Match[str]) -> str:
        before, after = latex[max(0, broken.start() - 40) : broken.start()], latex[broken.end() : broken.end() + 1]
        command = re.search(r"\\[a-zA-Z]+$", before)
        return broken[1] + (" " if command and after.isalpha() else "")

    return trimmed(_CONTINUED.sub(join, latex))


def formulas_in(text: str, dollars: Dollars = "pairs") -> tuple[str, ...]:
    """Returns the LaTeX of the formulas in a text, without delimiters; environments keep their begin and end.

    Parameters
    ----------
    dollars : rule for dollar signs, see `harness.formulas.text.delimiters`.
    """
    spans = formula_spans(text, dollars)
    return tuple(trimmed(text[one.start : one.end] if one.kind == "environment" else one.latex) for one in spans)


def numbered_formulas(prefix: str, *texts: str, dollars: Dollars = "pairs") -> tuple[Formula, ...]:
    """Returns the formulas of texts, numbered consecutively; ids begin with the prefix.

    Examples
    --------
    >>> [(one.id, one.latex) for one in numbered_formulas("q_", "Solve $x=1$", "and $y$")]
    [('q_1', 'x=1'), ('q_2', 'y')]
    """
    formulas = (latex for text in texts for latex in formulas_in(text, dollars))
    return tuple(Formula(f"{prefix}{number}", latex) for number, latex in enumerate(formulas, 1))


def read_markup(markup: str) -> Marked:
    """Returns the text of HTML with formulas as LaTeX: spans of class `math-container`, MathML by its `alttext`.

    Of nested formula spans, the outer one is used if it has an id, else the inner ones.
    """
    reader = _Markup()
    reader.read(markup)
    text = " ".join("".join(reader.pieces).split())
    counts = (reader.nested, reader.unended, reader.truncated, reader.repaired)
    return Marked(text, tuple(reader.formulas), *counts)


def plain(markup: str) -> tuple[str, tuple[Formula, ...]]:
    """Returns the text of HTML with formulas in place as LaTeX, and the formulas."""
    marked = read_markup(markup)
    return marked.text, marked.formulas
