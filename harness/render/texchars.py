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


def _pairs(table: str) -> dict[str, str]:
    """Reads a table of characters, each followed by its LaTeX."""
    words = table.split()
    return dict(zip(words[::2], words[1::2], strict=True))


_TEXT = {
    **_pairs(r"""
    \ \textbackslash{}   { \{   } \}   # \#   $ \$   % \%   & \&   _ \_   ^ \textasciicircum{}
    ~ \textasciitilde{}   ` \textasciigrave{}   < \textless{}   > \textgreater{}   – \textendash{}
    — \textemdash{}   … \ldots{}   ‘ \textquoteleft{}   ’ \textquoteright{}   “ \textquotedblleft{}
    ” \textquotedblright{}   ‚ \quotesinglbase{}   „ \quotedblbase{}   « \guillemotleft{}
    » \guillemotright{}   ‹ \guilsinglleft{}   › \guilsinglright{}   • \textbullet{}   † \textdagger{}
    ‡ \textdaggerdbl{}   § \S{}   ¶ \P{}   © \textcopyright{}   ® \textregistered{}   ™ \texttrademark{}
    ° \textdegree{}   € \texteuro{}   £ \pounds{}   ¥ \textyen{}   ¡ \textexclamdown{}
    ¿ \textquestiondown{}   ª \textordfeminine{}   º \textordmasculine{}   ħ \ensuremath{\hbar}
    """),
    '"': r"\textquotedbl{}",
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
    # Joiners and direction marks are invisible.
    "\u00ad": r"\-",
    "\u200c": "",
    "\u200d": "",
    "\u200e": "",
    "\u200f": "",
    "\u061c": "",
}

_MATH = _pairs(r"""
    × \times   ÷ \div   ± \pm   ∓ \mp   · \cdot   ⋅ \cdot   − -   ′ '   ″ ''   ‴ '''   ¬ \neg   µ \mu
    ≤ \leq   ≥ \geq   ≠ \neq   ≈ \approx   ≡ \equiv   ≅ \cong   ≪ \ll   ≫ \gg   ∼ \sim   ≃ \simeq
    ∝ \propto   ∞ \infty   ∑ \sum   ∏ \prod   ∫ \int   ∂ \partial   ∇ \nabla   ∆ \Delta   √ \surd
    ∈ \in   ∉ \notin   ∋ \ni   ⊂ \subset   ⊆ \subseteq   ⊃ \supset   ⊇ \supseteq   ∪ \cup   ∩ \cap
    ∖ \setminus   ∅ \varnothing   ∀ \forall   ∃ \exists   ∄ \nexists   ∧ \wedge   ∨ \vee   ⊢ \vdash
    ⊨ \models   ⊤ \top   ⊥ \bot   ∥ \parallel   ∣ \mid   ∤ \nmid   ∠ \angle   △ \triangle   ∴ \therefore
    ∵ \because   → \to   ← \leftarrow   ↔ \leftrightarrow   ↑ \uparrow   ↓ \downarrow   ⇒ \Rightarrow
    ⇐ \Leftarrow   ⇔ \Leftrightarrow   ⟶ \longrightarrow   ⟹ \Longrightarrow   ⟺ \Longleftrightarrow
    ↦ \mapsto   ↪ \hookrightarrow   ∘ \circ   ◦ \circ   ∙ \bullet   ⊕ \oplus   ⊗ \otimes   ⊘ \oslash
    ⟨ \langle   ⟩ \rangle   ⌊ \lfloor   ⌋ \rfloor   ⌈ \lceil   ⌉ \rceil   … \ldots   ⋯ \cdots   ⋮ \vdots
    ⋱ \ddots   ℓ \ell   ℕ \mathbb{N}   ℤ \mathbb{Z}   ℚ \mathbb{Q}   ℝ \mathbb{R}   ℂ \mathbb{C}
    ℙ \mathbb{P}   ℵ \aleph   ℜ \Re   ℑ \Im   ✓ \checkmark   ✔ \checkmark   ✗ \times   ★ \bigstar
    □ \Box   ∎ \blacksquare   ■ \blacksquare   ▲ \blacktriangle   ▼ \blacktriangledown   ϕ \phi
    ϵ \epsilon   ϑ \vartheta   ϱ \varrho   ς \varsigma   φ \varphi   ε \varepsilon
""")

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
    for gap in re.finditer(r"\?(?: *\?)*", kinds):
        parts += [text[start : gap.start()], _code_points(text[gap.start() : gap.end()].replace(" ", ""))]
        start = gap.end()
    return "".join([*parts, text[start:]])


def _code_points(chars: str) -> str:
    if len(chars) <= 3:
        return f"[{' '.join(f'U+{ord(char):04X}' for char in chars)}]"
    script = f"{unicodedata.name(chars[0]).partition(' ')[0].capitalize()}, " if chars[0].isalpha() else ""
    digest = hashlib.sha256(chars.encode("utf-8", "surrogatepass")).hexdigest()[:4]  # tells two names apart
    return f"[{script}{len(chars)} characters: {digest}]"
