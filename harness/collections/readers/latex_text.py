r"""Converts LaTeX sources to plain text with formulas: removes comments and text markup, and expands macros.

Within formulas, only macros, labels and blanks are changed. References (`\ref`, `\cite`) are removed: the printed page
shows a number there, and the label would reveal the relevant document.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from functools import partial

Macros = Mapping[str, str]
Expand = Callable[[str], str]

_VERBATIM = re.compile(r"(\\begin\{verbatim\})(.*?)(\\end\{verbatim\})", re.DOTALL)
_COMMENT = re.compile(r"(?<!\\)((?:\\\\)*)%.*")
_DEFINITION = re.compile(r"^\\def\\([A-Za-z]+)\{(.*)\}\s*$", re.MULTILINE)
_OPERATOR = re.compile(r"\\mathop\{\\mathrm\{([A-Za-z]+)\}\}(?:\\nolimits)?")
_KNOWN = ("lim",)  # macros that LaTeX itself defines with the same meaning
# Environments that are formulas. Formulas within \text{} in $$ are not found, which is rare and harmless.
_DISPLAYED = "equation|align|eqnarray|gather|multline"
_FORMULA = re.compile(
    rf"\$\$(?P<display>.*?)\$\$|\$(?P<inline>(?:[^$\\]|\\.)+)\$|\\\[(?P<square>.*?)\\\]|\\\((?P<round>.*?)\\\)"
    rf"|\\begin\{{(?P<name>(?:{_DISPLAYED})\*?)\}}(?P<inner>.*?)\\end\{{(?P=name)\}}",
    re.DOTALL,
)
_LABEL = re.compile(r"\\label\{[^{}]*\}")
_REFERENCE = re.compile(r"~?\(\\(?:eq)?ref\{[^{}]*\}\)|~?\\(?:eqref|ref|pageref|cite)(?:\[[^\]]*\])?\{[^{}]*\}")
_BLANKS = re.compile(r"\s+")
_MARKS = {"'": "\u0301", "`": "\u0300", "^": "\u0302", '"': "\u0308", "~": "\u0303", "=": "\u0304", ".": "\u0307"}
_LETTER_MARKS = {"v": "\u030c", "c": "\u0327", "H": "\u030b", "u": "\u0306", "k": "\u0328", "r": "\u030a"}
_ACCENT = re.compile(
    r"""\\(?:(['`^"~=.])\s*|([vcHukr])(?:\s+|(?=\{)))"""  # the mark
    r"""(?:\{\s*\\?([A-Za-z])\s*\}|\\([ij])(?![A-Za-z])|([A-Za-z]))"""  # the letter
)
_SIGNS = {"S": "§", "ss": "ß", "o": "ø", "O": "Ø", "l": "ł", "L": "Ł", "ae": "æ", "AE": "Æ", "aa": "å", "AA": "Å",
          "ldots": "...", "dots": "...", "i": "i", "j": "j"}  # fmt: skip
_SIGN = re.compile(r"\\(" + "|".join(sorted(_SIGNS, key=len, reverse=True)) + r")(?![A-Za-z])(?:\{\}|[ \t])?")
_LINK = re.compile(r"\\(?:href|hyperref)(?:\[[^\]]*\])?\{[^{}]*\}(?=\{)|\\url\{[^{}]*\}")
_FOOTNOTE = re.compile(r"\\footnote\s*\{((?:[^{}]|\{[^{}]*\})*)\}")
_ENVIRONMENT = re.compile(r"\\(?:begin|end)\{[^{}]*\}|\\item\s*(?:\[[^\]]*\])?|\\\\(?:\[[^\]]*\])?")
_COMMAND = re.compile(r"\\[A-Za-z]+\*?|\\[ ,;:!/@-]")
_ESCAPED = re.compile(r"\\([&%#_$])")
_SPACE_BEFORE = re.compile(r" +(?=[,.;:)])")
_HELD = re.compile("\x00([0-9]+)\x00")


def without_comments(text: str) -> str:
    r"""Returns the text without comments and `verbatim` content; line numbers are preserved.

    Examples
    --------
    >>> without_comments("a 100\\% % note\nb")
    'a 100\\% \nb'
    """
    if "verbatim" in text:
        text = _VERBATIM.sub(lambda match: match[1] + "\n" * match[2].count("\n") + match[3], text)
    return _COMMENT.sub(r"\1", text)


def definitions(preamble: str) -> dict[str, str]:
    r"""Returns macro -> definition, for macros without arguments that a preamble defines by `\def`.

    Operators defined with `\mathop` are rewritten as the equivalent `\operatorname`, which formula parsers know.

    Examples
    --------
    >>> definitions("\\def\\Spec{\\mathop{\\mathrm{Spec}}}\n\\def\\QCoh{\\mathit{QCoh}}")
    {'Spec': '\\operatorname{Spec}', 'QCoh': '\\mathit{QCoh}'}
    """
    macros = _DEFINITION.findall(without_comments(preamble))
    return {name: _OPERATOR.sub(r"\\operatorname{\1}", body) for name, body in macros if name not in _KNOWN}


def expander(macros: Macros) -> Expand:
    r"""Returns a function that expands macros, adding braces if the macro is a sub- or superscript.

    Examples
    --------
    >>> expander({"etale": "{\\acute{e}tale}", "Ob": "\\operatorname{Ob}"})("X_\\etale, A^\\Ob, \\Ob(C)")
    'X_{\\acute{e}tale}, A^{\\operatorname{Ob}}, \\operatorname{Ob}(C)'
    """
    if not macros:
        return str
    names = "|".join(sorted(macros, key=len, reverse=True))
    pattern = re.compile(rf"([_^]?)\\({names})(?![A-Za-z])")

    def meant(match: re.Match[str]) -> str:
        body = macros[match[2]]
        return f"{match[1]}{{{body}}}" if match[1] and not body.startswith("{") else match[1] + body

    return lambda text: pattern.sub(meant, text)


def latex_to_text(source: str, expand: Expand = str) -> str:
    r"""Converts a passage without comments to one line of text, with formulas in dollars.

    Examples
    --------
    >>> first = "Let $X$ be {\\it nice}, see\nLemma \\ref{lemma-a}.\n"
    >>> latex_to_text(first + "\\begin{itemize}\n\\item \\'etale\n\\end{itemize}")
    'Let $X$ be nice, see Lemma. étale'
    """
    held: list[str] = []
    text = _FORMULA.sub(partial(_hold_formula, held), expand(source))
    text = _REFERENCE.sub("", _LABEL.sub("", text))
    text = _FOOTNOTE.sub(r" (\1)", text)
    text = _ACCENT.sub(_accented_letter, _ESCAPED.sub(r"\1", _LINK.sub("", text)))
    text = _COMMAND.sub(" ", _SIGN.sub(lambda match: _SIGNS[match[1]], _ENVIRONMENT.sub(" ", text)))
    text = text.replace("~", " ").replace("``", '"').replace("''", '"').replace("{", "").replace("}", "")
    text = _SPACE_BEFORE.sub("", _BLANKS.sub(" ", text)).strip()
    return _HELD.sub(lambda match: held[int(match[1])], text)


def _hold_formula(held: list[str], match: re.Match[str]) -> str:
    """Cleans a formula and adds it to `held`; returns its placeholder for processing the prose."""
    inner = next(match[name] for name in ("display", "inline", "square", "round", "inner") if match[name] is not None)
    inner = _BLANKS.sub(" ", _REFERENCE.sub("", _LABEL.sub("", inner))).strip()
    if not inner:
        return " "
    name = match["name"]
    if name and not name.startswith("equation"):
        inner = f"\\begin{{{name}}} {inner} \\end{{{name}}}"
    sign = "$" if match["inline"] is not None or match["round"] is not None else "$$"
    held.append(f"{sign}{inner}{sign}")
    return f"\x00{len(held) - 1}\x00"


def _accented_letter(match: re.Match[str]) -> str:
    mark = _MARKS.get(match[1] or "") or _LETTER_MARKS[match[2]]
    return unicodedata.normalize("NFC", (match[3] or match[4] or match[5]) + mark)
