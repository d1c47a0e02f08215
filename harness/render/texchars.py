"""LaTeX for characters beyond ASCII letters, with the T1 encoding and amssymb."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Callable, Mapping
from types import MappingProxyType

# Letters that T1 fonts have and `inputenc` knows; all others are composed or written as commands.
LATIN = frozenset(
    "ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÐÑÒÓÔÕÖØÙÚÛÜÝÞßàáâãäåæçèéêëìíîïðñòóôõöøùúûüýþÿĂăĄąĆćČčĎďĐđĘęĚěĞğİıĹĺĽľŁłŃńŇňŐőŒœŔŕŘřŚśŞşŠšŢţŤťŮůŰűŸŹźŻżŽž"
)

_TEXT = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "#": r"\#",
    "$": r"\$",
    "%": r"\%",
    "&": r"\&",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "`": r"\textasciigrave{}",
    '"': r"\textquotedbl{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    # After the end of a row or a rule, LaTeX would read these as options.
    "[": "{[}",
    "]": "{]}",
    "*": "{*}",
    "\u00a0": "~",
    "\u2009": r"\,",
    "\u202f": r"\,",
    "\u2002": r"\enspace{}",
    "\u2003": r"\quad{}",
    "\u2010": "-",
    "\u2011": "-",
    "–": r"\textendash{}",
    "—": r"\textemdash{}",
    "…": r"\ldots{}",
    "‘": r"\textquoteleft{}",
    "’": r"\textquoteright{}",
    "“": r"\textquotedblleft{}",
    "”": r"\textquotedblright{}",
    "‚": r"\quotesinglbase{}",
    "„": r"\quotedblbase{}",
    "«": r"\guillemotleft{}",
    "»": r"\guillemotright{}",
    "‹": r"\guilsinglleft{}",
    "›": r"\guilsinglright{}",
    "•": r"\textbullet{}",
    "†": r"\textdagger{}",
    "‡": r"\textdaggerdbl{}",
    "§": r"\S{}",
    "¶": r"\P{}",
    "©": r"\textcopyright{}",
    "®": r"\textregistered{}",
    "™": r"\texttrademark{}",
    "°": r"\textdegree{}",
    "€": r"\texteuro{}",
    "£": r"\pounds{}",
    "¥": r"\textyen{}",
    "¡": r"\textexclamdown{}",
    "¿": r"\textquestiondown{}",
    "ª": r"\textordfeminine{}",
    "º": r"\textordmasculine{}",
    "ħ": r"\ensuremath{\hbar}",
    # Joiners and direction marks are invisible.
    "\u00ad": r"\-",
    "\u200c": "",
    "\u200d": "",
    "\u200e": "",
    "\u200f": "",
    "\u061c": "",
}

_MATH = {
    "×": r"\times",
    "÷": r"\div",
    "±": r"\pm",
    "∓": r"\mp",
    "·": r"\cdot",
    "⋅": r"\cdot",
    "−": "-",
    "′": "'",
    "″": "''",
    "‴": "'''",
    "¬": r"\neg",
    "µ": r"\mu",
    "≤": r"\leq",
    "≥": r"\geq",
    "≠": r"\neq",
    "≈": r"\approx",
    "≡": r"\equiv",
    "≅": r"\cong",
    "≪": r"\ll",
    "≫": r"\gg",
    "∼": r"\sim",
    "≃": r"\simeq",
    "∝": r"\propto",
    "∞": r"\infty",
    "∑": r"\sum",
    "∏": r"\prod",
    "∫": r"\int",
    "∂": r"\partial",
    "∇": r"\nabla",
    "∆": r"\Delta",
    "√": r"\surd",
    "∈": r"\in",
    "∉": r"\notin",
    "∋": r"\ni",
    "⊂": r"\subset",
    "⊆": r"\subseteq",
    "⊃": r"\supset",
    "⊇": r"\supseteq",
    "∪": r"\cup",
    "∩": r"\cap",
    "∖": r"\setminus",
    "∅": r"\varnothing",
    "∀": r"\forall",
    "∃": r"\exists",
    "∄": r"\nexists",
    "∧": r"\wedge",
    "∨": r"\vee",
    "⊢": r"\vdash",
    "⊨": r"\models",
    "⊤": r"\top",
    "⊥": r"\bot",
    "∥": r"\parallel",
    "∣": r"\mid",
    "∤": r"\nmid",
    "∠": r"\angle",
    "△": r"\triangle",
    "∴": r"\therefore",
    "∵": r"\because",
    "→": r"\to",
    "←": r"\leftarrow",
    "↔": r"\leftrightarrow",
    "↑": r"\uparrow",
    "↓": r"\downarrow",
    "⇒": r"\Rightarrow",
    "⇐": r"\Leftarrow",
    "⇔": r"\Leftrightarrow",
    "⟶": r"\longrightarrow",
    "⟹": r"\Longrightarrow",
    "⟺": r"\Longleftrightarrow",
    "↦": r"\mapsto",
    "↪": r"\hookrightarrow",
    "∘": r"\circ",
    "◦": r"\circ",
    "∙": r"\bullet",
    "⊕": r"\oplus",
    "⊗": r"\otimes",
    "⊘": r"\oslash",
    "⟨": r"\langle",
    "⟩": r"\rangle",
    "⌊": r"\lfloor",
    "⌋": r"\rfloor",
    "⌈": r"\lceil",
    "⌉": r"\rceil",
    "…": r"\ldots",
    "⋯": r"\cdots",
    "⋮": r"\vdots",
    "⋱": r"\ddots",
    "ℓ": r"\ell",
    "ℕ": r"\mathbb{N}",
    "ℤ": r"\mathbb{Z}",
    "ℚ": r"\mathbb{Q}",
    "ℝ": r"\mathbb{R}",
    "ℂ": r"\mathbb{C}",
    "ℙ": r"\mathbb{P}",
    "ℵ": r"\aleph",
    "ℜ": r"\Re",
    "ℑ": r"\Im",
    "✓": r"\checkmark",
    "✔": r"\checkmark",
    "✗": r"\times",
    "★": r"\bigstar",
    "□": r"\Box",
    "∎": r"\blacksquare",
    "■": r"\blacksquare",
    "▲": r"\blacktriangle",
    "▼": r"\blacktriangledown",
    "ϕ": r"\phi",
    "ϵ": r"\epsilon",
    "ϑ": r"\vartheta",
    "ϱ": r"\varrho",
    "ς": r"\varsigma",
    "φ": r"\varphi",
    "ε": r"\varepsilon",
}

# Combining marks: commands that take the letter.
ACCENTS = {
    "\u0300": r"\`",
    "\u0301": r"\'",
    "\u0302": r"\^",
    "\u0303": r"\~",
    "\u0304": r"\=",
    "\u0306": r"\u",
    "\u0307": r"\.",
    "\u0308": r"\"",
    "\u030a": r"\r",
    "\u030b": r"\H",
    "\u030c": r"\v",
    "\u0323": r"\d",
    "\u0327": r"\c",
    "\u0328": r"\k",
    "\u0331": r"\b",
}

_NO_COMMAND = {"alpha": "A", "beta": "B", "epsilon": "E", "zeta": "Z", "eta": "H", "iota": "I", "kappa": "K", "mu": "M"}
_NO_COMMAND |= {"nu": "N", "omicron": "O", "rho": "P", "tau": "T", "chi": "X"}


def _greek() -> dict[str, str]:
    """Returns LaTeX for Greek letters: commands; capitals that look Latin, and omicron, become Latin letters."""
    forms = {}
    for code in (*range(0x391, 0x3AA), *range(0x3B1, 0x3CA)):
        name = unicodedata.name(chr(code), "").rsplit(" ", 1)[-1].lower().replace("lamda", "lambda")
        if not name:
            continue
        capital = code < 0x3B0
        if capital:
            forms[chr(code)] = rf"\mathrm{{{_NO_COMMAND[name]}}}" if name in _NO_COMMAND else f"\\{name.capitalize()}"
        else:
            forms[chr(code)] = "o" if name == "omicron" else f"\\{name}"
    return forms


def _scripts() -> dict[str, str]:
    """Returns LaTeX for superscript and subscript digits, signs and letters."""
    forms = {}
    for code in (0xB2, 0xB3, 0xB9, *range(0x2070, 0x209D)):
        kind, _, plain = unicodedata.decomposition(chr(code)).partition(" ")
        base = chr(int(plain, 16)) if kind in {"<super>", "<sub>"} else ""
        base = "-" if base == "\u2212" else base
        if base.isascii() and base:
            forms[chr(code)] = f"\\text{'superscript' if kind == '<super>' else 'subscript'}{{{base}}}"
    return forms


TEX: Mapping[str, str] = MappingProxyType(
    {
        **{char: rf"\ensuremath{{{form}}}" for char, form in (_greek() | _MATH).items()},
        **_scripts(),
        **{mark: f"{command}{{}}" for mark, command in ACCENTS.items()},
        **_TEXT,
    }
)


def spelled(text: str, known: Callable[[str], bool]) -> str:
    """Replaces characters that a font lacks by their codes, or a longer passage by script, length and hash."""
    kinds = "".join(" " if char == " " else "." if known(char) else "?" for char in text)
    parts, start = [], 0
    for found in re.finditer(r"\?(?: *\?)*", kinds):
        parts += [text[start : found.start()], _codes(text[found.start() : found.end()].replace(" ", ""))]
        start = found.end()
    return "".join([*parts, text[start:]])


def _codes(chars: str) -> str:
    if len(chars) <= 3:
        return f"[{' '.join(f'U+{ord(char):04X}' for char in chars)}]"
    script = f"{unicodedata.name(chars[0]).partition(' ')[0].capitalize()}, " if chars[0].isalpha() else ""
    digest = hashlib.sha256(chars.encode("utf-8", "surrogatepass")).hexdigest()[:4]  # tells two names apart
    return f"[{script}{len(chars)} characters: {digest}]"
