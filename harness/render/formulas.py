"""Finds formulas in untrusted text, converts them to MathML, and checks the result element by element."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from harness.render.model import visible

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

NAMESPACE = "http://www.w3.org/1998/Math/MathML"
LONGEST = 5_000  # characters of LaTeX
DEEPEST = 200  # nested braces, environments and `\left`
_DEEPEST_TREE = 300  # nested elements; writers of XML and JSON are recursive
ELEMENTS = (
    *("math", "mrow", "mi", "mn", "mo", "mtext", "mspace", "ms"),
    *("msub", "msup", "msubsup", "munder", "mover", "munderover", "mmultiscripts", "mprescripts", "none"),
    *("mfrac", "msqrt", "mroot", "mtable", "mtr", "mtd", "mstyle", "mpadded", "mphantom", "menclose"),
)
# No colours: they could hide text, or make it unreadable in one of light and dark mode.
_CHOICES = {
    "stretchy": ("false", "true"),
    "displaystyle": ("false", "true"),
    "scriptlevel": ("0", "1", "2"),
    "movablelimits": ("false", "true"),
    "accent": ("true",),
    "mathvariant": ("normal",),
    "columnalign": ("left", "right"),
    "notation": ("box", "updiagonalstrike", "downdiagonalstrike", "horizontalstrike"),
    "linethickness": ("0",),
}
_LENGTHS = ("width", "height", "depth", "minsize", "maxsize", "lspace", "rspace")
ATTRIBUTES = (*_CHOICES, *_LENGTHS)
# Up to 99em; negative lengths below 1em (as `\!`), since longer ones could cover the text before them.
_LENGTH = re.compile(r"(?:[0-9]{1,2}(?:\.[0-9]+)?|-0?\.[0-9]+)(?:em|ex)|0")

_ENVIRONMENTS = ("equation", "align", "gather", "multline", "eqnarray", "alignat", "flalign")
_BRACKETS = {"\\(": ("\\)", False), "\\[": ("\\]", True)}
_OPENING = re.compile(rf"\\begin\{{({'|'.join(_ENVIRONMENTS)})(\*?)\}}|\\[(\[]|\\.|\$\$?", re.DOTALL)
_TOKEN = re.compile(r"\\.|[{}]|\$", re.DOTALL)
_NESTING = re.compile(r"\\(?:[{}\\])|(\{|\\begin\b|\\left\b)|(\}|\\end\b|\\right\b)")
# Commands that are not shown; colours are dropped here since the converter ends a table at one.
_NO_PART = re.compile(
    r"\\(?:label|ref|eqref)\{[^{}]*\}|\\(?:text)?color\s*+(?:\[[A-Za-z]*\]\s*+)?\{[^{}]*\}|\\(?:nonumber|notag|newline)(?![A-Za-z])"
)
_ENVIRONMENT = re.compile(r"\\(begin|end)\s*+\{([A-Za-z]+)\*?\}")
_OPTION = re.compile(r"\s*+\[[tcblr]\]")
# The end of a row with a star or the height of the space after it, which the converter shows.
_ROW = re.compile(r"(?<!\\)((?:\\\\)+)\*?(?:\s*+\[\s*+-?[\d.]+\s*+[a-z]{2}\s*+\])?")
_COLUMNS = re.compile(r"\s*+\{((?:[^{}]|\{[^{}]*+\})*+)\}")
_NO_COLUMN = re.compile(r"[@!<>*]\{[^{}]*\}|\{[^{}]*\}|[^lcr|]")
_BRACES, _SPLIT, _CENTRED = (
    ("{", "}"),
    (r"\begin{split}", r"\end{split}"),
    (r"\begin{displaylines}", r"\end{displaylines}"),
)
_ARRAY = (r"\begin{array}", r"\end{array}")
# Environments that the converter lacks, numbers or draws without brackets, and what stands for them.
_REPLACED = {
    **dict.fromkeys(("align", "aligned", "alignat", "alignedat", "flalign", "xalignat", "xxalignat"), _SPLIT),
    **dict.fromkeys(("gather", "gathered", "multline", "multlined"), _CENTRED),
    **dict.fromkeys(("equation", "displaymath", "math", "dmath"), _BRACES),
    **dict.fromkeys(("array", "darray", "tabular", "subarray", "eqnarray", "IEEEeqnarray"), _ARRAY),
    **dict.fromkeys(("cases", "dcases"), (r"\begin{cases}", r"\end{cases}")),
    **dict.fromkeys(("rcases", "drcases"), (r"\left.\begin{matrix}", r"\end{matrix}\right\}")),
    **{
        f"{kind}matrix": (rf"\begin{{{kind}matrix}}", rf"\end{{{kind}matrix}}")
        for kind in ("", "p", "b", "B", "v", "V")
    },
    **{
        f"{kind}smallmatrix": (rf"\left{left}\begin{{smallmatrix}}", rf"\end{{smallmatrix}}\right{right}")
        for kind, left, right in (("p", "(", ")"), ("b", "[", "]"), ("v", "|", "|"))
    },
}
_WITH_COLUMNS = (
    "alignat",
    "alignedat",
    "xalignat",
    "xxalignat",
    "array",
    "darray",
    "tabular",
    "subarray",
    "IEEEeqnarray",
)
_WITH_OPTION = ("aligned", "alignedat", "gathered", "multlined", "array", "darray", "tabular")
_BRACKET = r"\s*+(?:\{(\\?[^{}\\A-Za-z\s]|\\[{}])?\}|(\\?[^{}\\A-Za-z\s]|\\[{}]))"
_GENERAL_FRACTION = re.compile(rf"\\genfrac{_BRACKET}{_BRACKET}\s*+\{{([^{{}}]*)\}}\s*+\{{([0-3]?)\}}")
_NO_LINE = re.compile(r"0*\.?0*\s*[a-z]*")
_SCRIPTS = ("msub", "msup", "msubsup", "munder", "mover", "munderover")
_BARS = ("|", "\u2016")
_CLOSING = (")", "]", "}")
_FUNCTION = re.compile(r"[A-Za-z][a-z]+", re.ASCII)
_THIN = "0.167em"
_AS_IT_IS = re.compile(r"[ !#-%'-;=?-~\u00a0-\ud7ff]*")  # attributes without characters that XML escapes or forbids
_PLAIN = re.compile(r"(?:[ -%'-~\u00a0-\ud7ff]|&#x[0-9A-Fa-f]{2,5};)*+")  # texts of characters, some by their codes
_CODE = re.compile(r"&#x([0-9A-Fa-f]{2,5});")
_ROWS = ("math", "mrow", "mtd", "mstyle", "mpadded", "msqrt", "menclose", "mphantom")
_LIMITS = re.compile(r"(\\(?:lim|max|min|sup|inf|limsup|liminf|gcd|det|Pr))(?=\s*_)")


@dataclass(frozen=True)
class RenderedFormula:
    """LaTeX without its delimiters, and whether it is displayed on its own line."""

    latex: str
    display: bool = False


def segments(text: str) -> tuple[str | RenderedFormula, ...]:
    r"""Splits a text into strings and formulas in `$...$`, `$$...$$`, `\(...\)`, `\[...\]` or an environment.

    As in MathJax, a dollar sign within braces (`\text{if $x$}`) does not end a formula. An opening without a closing
    delimiter is text, and so is a dollar sign whose partner is followed by a digit (`$5 or $6`).
    """
    out: list[str | RenderedFormula] = []
    at = 0
    for start, end, formula in located(text):
        out += [text[at:start], formula]
        at = end
    return tuple(part for part in (*out, text[at:]) if part)


def located(text: str) -> list[tuple[int, int, RenderedFormula]]:
    """Returns (start, end, formula) for each formula of a text; the span includes delimiters."""
    out: list[tuple[int, int, RenderedFormula]] = []
    absent: set[str] = set()  # closing delimiters missing from the rest of the text, which are searched only once
    at = 0
    while match := _OPENING.search(text, at):
        at = match.end()
        formula, end = _formula(text, match, absent)
        if formula is not None:
            out.append((match.start(), end, formula))
            at = end
    return out


def _formula(text: str, opening: re.Match[str], absent: set[str]) -> tuple[RenderedFormula | None, int]:
    """Returns the formula after an opening delimiter and its end; None if it is not closed."""
    begin = opening.end()
    if opening[1]:
        closing = f"\\end{{{opening[1]}{opening[2]}}}"
        end = _find_or_note(text, closing, begin, absent)
        whole = text[opening.start() : end + len(closing)]
        return (RenderedFormula(whole, True), end + len(closing)) if end >= 0 else (None, begin)
    if opening[0] in _BRACKETS:
        closing, display = _BRACKETS[opening[0]]
        end = _find_or_note(text, closing, begin, absent)
    elif opening[0] in ("$", "$$"):
        closing, display = opening[0], opening[0] == "$$"
        end = -1 if closing in absent else _closing_dollar(text, closing, begin, absent)
        if end >= 0 and text[end + len(closing) : end + len(closing) + 1].isdigit() and not display:
            return None, begin
    else:
        return None, begin
    latex = text[begin:end].strip()
    return (RenderedFormula(latex, display), end + len(closing)) if end >= 0 and latex else (None, begin)


def _find_or_note(text: str, closing: str, begin: int, absent: set[str]) -> int:
    end = -1 if closing in absent else text.find(closing, begin)
    if end < 0:
        absent.add(closing)
    return end


def _closing_dollar(text: str, closing: str, begin: int, absent: set[str]) -> int:
    """Returns the position of the closing dollar signs: the first outside braces, else the first, else -1."""
    depth, first = 0, -1
    for token in _TOKEN.finditer(text, begin):
        if token[0] == "$" and text.startswith(closing, token.start()):
            first = token.start() if first < 0 else first
            if depth <= 0 or "{" in absent:
                return token.start()
        elif token[0] in ("{", "}"):
            depth += 1 if token[0] == "{" else -1
    # Unclosed braces are searched only once.
    absent.add("{" if first >= 0 else closing)
    return first


def to_mathml(latex: str, display: bool = False) -> Element | None:
    """Converts LaTeX to a MathML element (without namespace) with only `ELEMENTS` and `ATTRIBUTES`.

    Returns None if the formula is too long or too deep, or if the converter fails or returns ill-formed XML or other
    elements. Drops other attributes, including colours.
    """
    from latex2mathml.converter import convert_to_element

    openings = latex.count("{") + latex.count("\\")  # nothing is nested deeper
    if len(latex) > LONGEST or (openings > DEEPEST and _nesting_depth(latex) > DEEPEST):
        return None
    try:
        source = _convertible(_ROW.sub(r"\1 ", _NO_PART.sub(" ", visible(latex))), display)
        limits = _LIMITS.sub(r"\1\\limits", source) if display else source
        element = _read_as_xml(convert_to_element(limits, display="block" if display else "inline"))
    except Exception:
        # The converter may fail in any way on arbitrary LaTeX; the page then shows the LaTeX itself.
        return None
    if element is None or not _clean(element):
        return None
    element.attrib = {}
    return element


def _convertible(latex: str, display: bool) -> str:
    """Replaces environments and fractions that the converter does not know by others that look the same."""
    out: list[str] = []
    at = 0
    for match in _ENVIRONMENT.finditer(latex):
        kind, name = match[1], match[2]
        if name not in _REPLACED or match.start() < at:
            continue
        out.append(latex[at : match.start()])
        at = match.end()
        begin, end = _REPLACED[name]
        out.append(begin if kind == "begin" else end)
        if kind == "end":
            continue
        if (name in _WITH_OPTION or name.endswith("matrix")) and (option := _OPTION.match(latex, at)):
            at = option.end()
        columns = _COLUMNS.match(latex, at) if name in _WITH_COLUMNS else None
        at = columns.end() if columns else at
        if begin in (_SPLIT[0], _CENTRED[0]):
            out.append("{}")  # the converter takes a bracket at the beginning for an option
        if begin == _ARRAY[0]:
            named = _NO_COLUMN.sub("", columns[1].lower().replace("p", "l")) if columns else "rcl"
            out.append(f"{{{named or 'c'}}}")
    return _GENERAL_FRACTION.sub(lambda match: _fraction(match, display), "".join((*out, latex[at:])))


def _fraction(match: re.Match[str], display: bool) -> str:
    """Writes the brackets, thickness and style of a general fraction as the converter reads them."""
    left, right = match[1] or match[2] or ".", match[3] or match[4] or "."
    line = "0" if match[5] and _NO_LINE.fullmatch(match[5]) else "1pt"
    return rf"\genfrac{left}{right}{{{line}}}{{{match[6] or int(not display)}}}"


def _read_as_xml(made: Element) -> Element | None:
    """Returns a tree of the converter as it reads in XML; None if it has a comment or an instruction.

    The converter's texts are XML: `&#x02032;` is a prime. Nearly all are letters or single characters by their code,
    which are read here; a tree with any other text is written and parsed.
    """
    from xml.etree import ElementTree
    from xml.sax.saxutils import unescape

    elements, texts = list(made.iter()), []
    for element in elements:
        text, attributes = _as_read(element.text or ""), element.items()
        if text is None or element.tail:
            break
        if attributes and not all(_AS_IT_IS.fullmatch(value) for _, value in attributes):
            break
        texts.append(text)
    else:
        for element, text in zip(elements, texts, strict=True):
            element.text = text
        return made
    text = unescape(ElementTree.tostring(made, encoding="unicode"))
    if "<!" in text or "<?" in text:
        return None
    return ElementTree.fromstring(text)  # noqa: S314 - without a document type there are no entities


@lru_cache(maxsize=2_000)
def _as_read(text: str) -> str | None:
    """Returns a text of the converter as XML reads it; None for texts that need a parser."""
    codes = [int(code, 16) for code in _CODE.findall(text)]
    # XML may refuse other codes.
    if not _PLAIN.fullmatch(text) or not all(0x20 <= code < 0xD800 or 0x10000 <= code < 0x20000 for code in codes):
        return None
    return _CODE.sub(lambda match: chr(int(match[1], 16)), text)


def _nesting_depth(latex: str) -> int:
    deepest = depth = 0
    for match in _NESTING.finditer(latex):
        depth += bool(match[1]) - bool(match[2])
        deepest = max(deepest, depth)
    return deepest


def _clean(root: Element) -> bool:
    """Checks and simplifies a tree in place; returns whether it is valid. Not recursive, since formulas are deep."""
    count = 0
    for element in root.iter():
        count += 1
        if element.tag not in ELEMENTS:
            element.tag = element.tag.removeprefix(f"{{{NAMESPACE}}}") if isinstance(element.tag, str) else ""
            if element.tag not in ELEMENTS:
                return False
        if element.text:
            element.text = visible(_styled(element.text, element.get("mathvariant", "")))
        element.tail = None
        if attributes := element.items():
            element.attrib = {name: value for name, value in attributes if _is_allowed(name, value)}
    for element in root.iter():
        for index, child in enumerate(element):
            if child.tag == "mrow":
                element[index] = _unwrapped(child)
        if element.tag in _ROWS:
            _space(element)
    level, depth = [root], 0
    while level and count > _DEEPEST_TREE:
        level, depth = [child for element in level for child in element], depth + 1
    return depth <= _DEEPEST_TREE


def _unwrapped(element: Element) -> Element:
    """Returns the element, or its only child if it is a row of one."""
    while element.tag == "mrow" and len(element) == 1 and not element.attrib:
        element = element[0]
    return element


def _space(row: Element) -> None:
    """Sets the space around bars and function names as in TeX; the converter leaves it to the browser's guess."""
    for index, child in enumerate(row):
        core = child
        while core.tag in _SCRIPTS and len(core):
            core = core[0]
        text = core.text or ""
        if core.tag == "mo" and text in _BARS:
            core.attrib |= {"lspace": "0", "rspace": "0"}
        elif len(text) > 1 and core.tag in ("mi", "mo") and _FUNCTION.fullmatch(text):
            before = index > 0 and (row[index - 1].tag != "mo" or row[index - 1].text in _CLOSING)
            after = index + 1 < len(row) and row[index + 1].tag != "mo"
            core.tag = "mo"
            core.attrib = {"lspace": _THIN if before else "0", "rspace": _THIN if after else "0"}


def _is_allowed(name: str, value: str) -> bool:
    return value in _CHOICES.get(name, ()) or (name in _LENGTHS and _LENGTH.fullmatch(value) is not None)


_STYLES = {
    "bold": "MATHEMATICAL BOLD",
    "bold-italic": "MATHEMATICAL BOLD ITALIC",
    "double-struck": "MATHEMATICAL DOUBLE-STRUCK",
    "script": "MATHEMATICAL SCRIPT",
    "fraktur": "MATHEMATICAL FRAKTUR",
    "sans-serif": "MATHEMATICAL SANS-SERIF",
    "monospace": "MATHEMATICAL MONOSPACE",
}
# Letters that were in Unicode before the mathematical alphabets were added.
_OLD_STYLES = {"double-struck": "DOUBLE-STRUCK", "script": "SCRIPT", "fraktur": "BLACK-LETTER"}


def _styled(text: str, variant: str) -> str:
    """Converts letters to a mathematical alphabet, since browsers no longer support `mathvariant`."""
    return "".join(_styled_letter(letter, variant) for letter in text) if variant in _STYLES else text


@lru_cache(maxsize=2_000)
def _styled_letter(letter: str, variant: str) -> str:
    name = unicodedata.name(letter, "")
    kind = re.fullmatch(r"(?:LATIN|GREEK|DIGIT) ?(CAPITAL|SMALL)?(?: LETTER)? ?([A-Z]+)", name)
    if kind is None:
        return letter
    digit = name.startswith("DIGIT")
    tail = f"DIGIT {kind[2]}" if digit else f"{kind[1]} {kind[2]}"
    lookup: Callable[[str], str] = unicodedata.lookup
    for style in (_STYLES[variant], _OLD_STYLES.get(variant, _STYLES[variant])):
        try:
            return lookup(f"{style} {tail}")
        except KeyError:
            continue
    return letter
