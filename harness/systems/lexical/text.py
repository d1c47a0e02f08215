"""Text views: named tokenisers with fixed rules, text in, tokens out.

A lexical system matches documents and queries by equal tokens, so the view determines what it can find. The same text
gives the same tokens on every machine. Tokens contain no spaces.

======================  ==============================================================================================
view                    tokens
======================  ==============================================================================================
`text`                  words in lower case, without accents; formulas (`$...$`, `\\(...\\)`, `\\[...\\]`, environments)
                        and signs excluded, but `C++` and `C#` are words
`latex`                 the same words, and the formulas' LaTeX in tokens that equal no word; Unicode operators of
                        formulas and prose as the command of LaTeX (`≤` as `\\le`)
`declarations`          names of a proof library split at dots, underscores and case; words; Unicode operators; LaTeX
                        commands as the character that Lean writes for them
`msm`                   ASCII punctuation becomes blanks, then split at blanks (MIRMU and MSM at ARQMath 2022, 3.2-3.3)
`whitespace`            split at blanks, nothing else: text whose tokens were made elsewhere
======================  ==============================================================================================
"""

from __future__ import annotations

import importlib.util
import inspect
import re
import string
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Annotated, Any, cast

from harness.errors import HarnessError, suggestion
from harness.formulas.text.characters import normalise_latex
from harness.formulas.text.delimiters import DOLLARS, Dollars, split_formulas
from harness.io import checks
from harness.store import code
from harness.systems.lexical.symbols import (
    ABBREVIATIONS,
    ALPHABETS,
    ARGUMENTS,
    ENGLISH,
    LAYOUT,
    SAME,
    UNICODE,
    without_accents,
)

VIEWS = ("text", "latex", "declarations", "msm", "whitespace")
STOP_LISTS: Mapping[str, frozenset[str]] = {"english": ENGLISH}
_REMEMBERED = 1 << 18  # size of the caches of normalised words and split identifiers

Tokenise = Callable[[str], list[str]]
Tokenisers = Callable[[Dollars], Tokenise]
FormulaTokens = Callable[[str], Iterable[str]]
_Normalise = Callable[[str], str]


@dataclass(frozen=True)
class Tokeniser:
    """A tokeniser that takes a text apart into units, and each unit into tokens, whatever surrounds it.

    Attributes
    ----------
    units : text -> its units.
    taken : unit -> its tokens.
    blanks : text -> a text whose parts between blanks are the units; None where they are found otherwise.
    """

    units: Callable[[str], list[str]]
    taken: Callable[[str], tuple[str, ...]]
    blanks: Callable[[str], str] | None = None

    def __call__(self, text: str) -> list[str]:
        """Returns the tokens of a text."""
        return [token for unit in self.units(text) for token in self.taken(unit)]


# A letter or a combining mark; Python's `\w` does not match the combining marks of Arabic and Devanagari.
_LETTER = r"[^\W\d_]|[\u0300-\u036f\u064b-\u065f\u0670\u0900-\u0903\u093a-\u094f\u0951-\u0957\u0962\u0963]"
# Names of languages such as C++ and C# are words, also before the number of a version.
_WORD = re.compile(rf"\b[A-Za-z](?:\+\+|#)(?![^\W\d]|[_+#])|(?:{_LETTER})+(?:['’\u200c](?:{_LETTER})+)*|\d+(?:\.\d+)?")
_ACCENTS = re.compile("(?<=[A-Za-z])[\u0300-\u036f]+")
# Arrows and operators, without those that prose uses as a hyphen or a slash.
_OPERATORS = re.compile("([¬±×÷←-⇿∀-∑∓∔∖-⋿⟀-⟿⤀-⫿]+)")
# Scripts, fractions and numbers in circles, which compatibility would join to the digits before them: `10²`, `5½`.
_APART = re.compile("[⁰¹²³⁴-ⁿ]+|[₀-₎]+|[¼-¾⅐-⅟↉①-⓿]")
_POSSESSIVE = re.compile(r"['’]s$", re.IGNORECASE)
_PUNCTUATION = str.maketrans(dict.fromkeys(string.punctuation, " "))


def words(text: str, fold: bool = False) -> list[str]:
    """Splits a text into words and numbers; keeps case and inner apostrophes, drops a final `'s`.

    `fold` replaces compatibility characters (`ﬁ`, `𝔽`, full width) by the usual ones, and Latin letters with accents by
    letters without.

    Examples
    --------
    >>> words("Hölder's ﬁelds in C++", fold=True)
    ['Holder', 'fields', 'in', 'C++']
    """
    if not text.isascii():
        text = (
            unicodedata.normalize("NFKC", _APART.sub(r" \g<0> ", text)) if fold else unicodedata.normalize("NFC", text)
        )
        text = _ACCENTS.sub("", text.translate(without_accents())) if fold else text
    found = _WORD.findall(text)
    if "'" not in text and "’" not in text:
        return found
    return [_POSSESSIVE.sub("", word).replace("’", "'") for word in found]


# ---- LaTeX ------------------------------------------------------------------------------------------------------

_ARGUMENT = r"\s*\{(?:[^{}\\]|\\.|\{(?:[^{}\\]|\\.|\{[^{}]*+\})*+\})*+\}"
_LENGTH = r"\s*[-+]?\s*(?:\d+(?:[.,]\d*)?|[.,]\d+)\s*(?:pt|pc|in|bp|cm|mm|dd|cc|sp|ex|em|mu|fill?)\b"
_TEXT_IN_LATEX = re.compile(
    r"\\(?:text(?:normal|[a-z]{0,2})|[mhf]box|operatorname|mathrm|mathsf|mathtt)\*?(?![A-Za-z])"
    rf"(?P<argument>{_ARGUMENT})",
    re.DOTALL,
)
# What sets no sign: names of environments with the form of their columns, labels, lengths, colours, hidden boxes.
_UNSEEN = re.compile(
    rf"\\begin\s*\{{(?:array|tabular|subarray|(?:align|aligned|xalign)at)\*?\}}\s*(?:\[[^\]]*\])?{_ARGUMENT}"
    r"|\\(?:begin|end)\s*\{[^{}]*\}(?:\s*\[[tcblr]\])?"
    rf"|\\\\\*?\s*\[(?:{_LENGTH}|\s*-?\\[A-Za-z]+)\s*\]"
    rf"|\\(?:[mhv]?(?:kern|skip)|raise|lower)(?![A-Za-z]){_LENGTH}(?:\s*(?:plus|minus){_LENGTH})*"
    rf"|\\(?:[hvm]space|label|(?:eq|page)?ref|cite|tag|require|cline|hdotsfor|[hv]?phantom)\*?(?![A-Za-z]){_ARGUMENT}"
    r"|\\tag\*?\s*\d"
    rf"|\\(?:setlength|renewcommand\s*\{{\\arraystretch\}})(?![A-Za-z]){_ARGUMENT}(?:{_LENGTH}|{_ARGUMENT})?"
    rf"|\\(?:rule|fcolorbox)\s*(?:\[[^\]]*\])?{_ARGUMENT}{_ARGUMENT}"
    rf"|\\(?:(?:text|page)?color(?:box)?|href|class|style|cssId|raisebox)(?![A-Za-z])\s*(?:\[[^\]]*\])?{_ARGUMENT}"
    r"|\\bbox\s*\[[^\]]*\]",
    re.DOTALL,
)
# A general fraction with its brackets, thickness and style.
_GENERAL = re.compile(r"\\genfrac(?:\s*(?:\{\\?[^{}\\]?\}|\\[{}]|[^{}\\\s])){2}\s*\{([^{}]*)\}\s*\{[0-3]?\}")
_NO_LINE = re.compile(r"\s*0")
_MACRO = re.compile(r"\\[A-Za-z]+")
_SETS_TEXT = re.compile(r"\\(?:text|math)[a-z]*|\\(?:emph|[mhf]box|operatorname|bf|em|it|rm|sc|sf|sl|tt)(?![A-Za-z])")
_INDEX = re.compile(r"\\sqrt\s*\[([^\[\]]*)\]")
_UNSET = LAYOUT | {"{", "}"}
_LATEX_TOKEN = re.compile(r"\\(?:[A-Za-z]+|\S)|\d+(?:\.\d+)?|\S")


def latex_tokens(latex: str, prose: Tokenise = words) -> list[str]:
    """Returns the tokens of one formula, which differ from all words of prose.

    Commands are tokens themselves (`\\frac`), with synonyms and Unicode characters merged (`≤`, `\\leq` and `\\le`).
    Letters, numbers and operators are prefixed with a dollar sign (`$x`, `$2`, `$+`) and keep their case. A script or
    an argument without braces is one sign, as in LaTeX: `\\frac12` has the numbers 1 and 2. The first token of a script
    is repeated with the sign of the script (`^2`, `_n`). Braces, layout commands, names of environments, labels,
    references, lengths, colours and phantoms are excluded. Words within the formula (`\\text{if}`,
    `\\operatorname{Spec}`) are tokenised by `prose` and come first.

    Examples
    --------
    >>> latex_tokens(r"\\begin{pmatrix} \\tfrac12 & x^10 \\\\[2pt] \\end{pmatrix} \\hspace{3cm} a ≤ b")
    ['\\\\frac', '$1', '$2', '$x', '$1', '^1', '$0', '$a', '\\\\le', '$b']
    """
    if not latex.isascii():
        latex = normalise_latex(latex)
    tokens: list[str] = []

    def take(match: re.Match[str]) -> str:
        for said, inner in split_formulas(match["argument"].strip()[1:-1]):
            tokens.extend(prose(_MACRO.sub(" ", said)))
            signs = (macro for macro in _MACRO.findall(said) if not _SETS_TEXT.match(macro))
            tokens.extend(latex_tokens(" ".join(signs)))
            tokens.extend(latex_tokens(inner, prose) if inner else ())
        return " "

    if "\\" in latex:
        latex = _GENERAL.sub(lambda command: r"\binom " if _NO_LINE.match(command[1]) else r"\frac ", latex)
        latex = _INDEX.sub(r"{\1}\\sqrt ", _UNSEEN.sub(" ", _TEXT_IN_LATEX.sub(take, latex)))
    script = ""
    for unit in _signs(latex):
        if unit == "^" or unit == "_":  # noqa: PLR1714  (twice as fast as a test of membership)
            script = unit
        elif unit not in _UNSET:
            name = SAME.get(unit, unit)
            tokens.append(name if name[0] == "\\" else f"${name}")
            if script:
                tokens.append(script + name)
            script = ""
    return tokens


def _signs(latex: str) -> list[str]:
    """Returns commands, characters and numbers; of digits that are an argument without braces, one at a time."""
    units: list[str] = []
    outer: list[int] = []  # arguments that the commands before each open brace still want
    wanted, at, last = 0, 0, -1
    while at != last:
        last = at
        for match in _LATEX_TOKEN.finditer(latex, at):
            unit = match[0]
            if unit == "{":
                outer.append(max(wanted - 1, 0))
                wanted = 0
            elif unit == "}":
                wanted = outer.pop() if outer else 0
            elif unit == "^" or unit == "_":  # noqa: PLR1714
                wanted += 1
            elif wanted and len(unit) > 1 and unit[0].isdigit():
                units.append(unit[0])
                wanted, at = wanted - 1, match.start() + 1
                break
            else:
                wanted = max(wanted - 1, 0) + ARGUMENTS.get(unit, 0)
            units.append(unit)
    return units


# ---- declarations -----------------------------------------------------------------------------------------------

_ALPHABET = re.compile(r"\\(mathbb|Bbb|mathcal|mathscr)\s*(?:\{\s*([A-Za-z1])\s*\}|([A-Za-z1]))")
_COMMAND = re.compile(r"\\([A-Za-z]+|\|)")
_ASCII = {"<->": "↔", "<=": "≤", ">=": "≥", "!=": "≠", "->": "→", "=>": "→", "|->": "↦", ":=": " ", "||": "‖"}
_ASCII_OPERATOR = re.compile("|".join(re.escape(sign) for sign in sorted(_ASCII, key=len, reverse=True)))
_HYPHEN = re.compile(r"(?<=[^\W\d_])-(?=[^\W\d_])")
_EMPHASIS = re.compile(r"\*\*(.+?)\*\*", re.DOTALL)
# An identifier: parts joined by dots; subscripts and primes belong to it.
_PART = r"[^\W\d][\w'’!?]*"
_UNIT = re.compile(rf"{_PART}(?:\.{_PART})*|\d+(?:\.\d+)?|[^\s\w]")
_CAMEL = re.compile(r"[A-Z]+(?![a-z])|[A-Z][a-z]+|[a-z]+|\d+|[^\WA-Za-z\d_]+")
_SUBSCRIPTS = dict.fromkeys(map(ord, "₀₁₂₃₄₅₆₇₈₉ₐₑₕᵢⱼₖₗₘₙₒₚᵣₛₜᵤᵥₓ"))
_SILENT = (frozenset(string.punctuation) - frozenset("*+-/<=>^|")) | frozenset("“”‘’…–—·«»")


def to_unicode(text: str) -> str:
    """Replaces LaTeX commands by the characters used in Lean (`\\le` -> `≤`, `\\mathbb{R}` -> `ℝ`).

    Other commands lose their backslash: `\\operatorname{Spec}` becomes `Spec`, `\\ker` becomes `ker`.
    """
    if "\\" not in text:
        return text
    text = _TEXT_IN_LATEX.sub(r" \1 ", text)
    text = _ALPHABET.sub(lambda m: ALPHABETS[m[1]].get(m[2] or m[3], m[2] or m[3]), text)
    return _COMMAND.sub(lambda m: " " if m[0] in LAYOUT else f" {UNICODE.get(m[1], m[1])} ", text)


@lru_cache(_REMEMBERED)
def identifier_tokens(name: str) -> tuple[str, ...]:
    """Splits an identifier into lower-case parts without accents and subscripts: `IsOpen.image` -> is open image."""
    plain = "".join(c for c in unicodedata.normalize("NFD", name) if not unicodedata.combining(c))
    return tuple(part.lower() for part in _CAMEL.findall(plain.translate(_SUBSCRIPTS)))


def identifiers(text: str) -> list[str]:
    """Returns the identifiers in Lean code, in order; a dotted name is one identifier."""
    return [unit for unit in _UNIT.findall(text) if unit[0].isalpha()]


def whole_tokens(name: str) -> list[str]:
    """Returns an identifier as one token, and so each of its dotted parts that consists of several words; keeps case.

    The tokens begin with an equals sign to differ from words: `IsOpen.image` -> `=IsOpen.image`, `=IsOpen`.
    """
    parts = name.split(".")
    compound = [part for part in parts if len(identifier_tokens(part)) > 1]
    return [f"={part}" for part in ([name, *compound] if len(parts) > 1 else compound)]


def _declarations(text: str, emphasis: bool) -> list[str]:
    """Returns the identifiers, numbers and signs of a text; those between double asterisks twice if `emphasis`."""
    units: list[str] = []
    if "**" in text:
        for passage in _EMPHASIS.findall(text) if emphasis else ():
            units += _declarations(passage, False)
        text = text.replace("**", " ")
    text = _ASCII_OPERATOR.sub(lambda m: f" {_ASCII[m[0]]} ", _HYPHEN.sub(" ", to_unicode(text)))
    units += _UNIT.findall(text)
    return units


def _taken(normal: _Normalise, whole: bool) -> Callable[[str], tuple[str, ...]]:
    """Returns a function that maps one identifier, number or sign to its tokens."""

    @lru_cache(_REMEMBERED)
    def taken(unit: str) -> tuple[str, ...]:
        if unit in _SILENT:
            return ()
        parts = identifier_tokens(unit) or (unit,)
        tokens = [token for part in parts if (token := normal(part))]
        return tuple(tokens + whole_tokens(unit) if whole and len(parts) > 1 else tokens)

    return taken


# ---- views ------------------------------------------------------------------------------------------------------


@cache
def _stemmer(name: str) -> Callable[[str], str]:
    """Returns a Snowball stemmer by name, in its pure Python version, which is the same on every machine."""
    package = importlib.util.find_spec("snowballstemmer")  # its import, of all languages, waits for the first word
    places = (package and package.submodule_search_locations) or ()
    known = [path.name.removesuffix("_stemmer.py") for place in places for path in Path(place).glob("*_stemmer.py")]
    if name not in known:
        raise HarnessError(f"stemmer {name!r} is unknown; {suggestion(name, known)}")

    @cache
    def stemmer() -> Callable[[str], str]:
        import snowballstemmer

        module = importlib.import_module(f"{snowballstemmer.__name__}.{name}_stemmer")
        made = getattr(module, "".join(part.title() for part in name.split("_")) + "Stemmer")()
        return cast("Callable[[str], str]", made.stemWord)

    @lru_cache(_REMEMBERED)
    def stem(word: str) -> str:
        return stemmer()(word)

    return stem


def _normaliser(lower: bool, stop: str | None, stem: str | None, abbreviations: bool) -> _Normalise:
    """Returns a function that maps a word to its normal form, "" if the word is excluded."""
    left_out = STOP_LISTS[checks.choice("stop", stop, STOP_LISTS)] if stop is not None else frozenset()
    cut = _stemmer(checks.text("view.stem", stem)) if stem is not None else str
    short = {cut(long): cut(form) for long, form in ABBREVIATIONS.items()} if abbreviations else {}

    @lru_cache(_REMEMBERED)
    def normal(word: str) -> str:
        if word.lower() in left_out:
            return ""
        form = cut(word.lower() if lower else word)
        return short.get(form, form)

    return normal


def view(
    name: str = "latex",
    *,
    lower: bool = True,
    stop: str | None = None,
    stem: str | None = None,
    whole: bool = False,
    abbreviations: bool = False,
    emphasis: bool = False,
    formulas: FormulaTokens | None = None,
    dollars: Dollars | None = None,
    fold: bool | None = None,
) -> Tokenise:
    """Returns a tokeniser.

    Parameters
    ----------
    name : `text`, `latex`, `declarations`, `msm` or `whitespace`.
    lower : convert words to lower case; formulas keep their case.
    stop : stop list, `english`, or null; applied before stemming, regardless of case.
    stem : Snowball stemmer, such as `porter`, `english`, `czech`; applied last, to words only.
    whole : in the view `declarations`, add each identifier of several parts as one token.
    abbreviations : in the view `declarations`, shorten words as in names of Mathlib, so that `commutative` matches
        `add_comm`.
    emphasis : in the view `declarations`, count text between double asterisks twice, because documentation marks
        theorem names so.
    formulas : in the views `text` and `latex`, a function of one argument, the LaTeX of a formula without dollars, that
        returns additional tokens, such as paths of the formula's tree; they are used unchanged.
    dollars : in the views `text` and `latex`, which dollar signs enclose formulas: `pairs` (any two), `pandoc` (not
        those of amounts of money), or null: as the corpus and the topics say.
    fold : in the views `text` and `latex`, replace compatibility characters (`ﬁ`, `𝔽`, full width) by the usual ones,
        and Latin letters with accents (`Poincaré`) by those without, before stemming. Null: true, but false with a
        stemmer of another language than English, whose endings may have accents.

    Raises
    ------
    HarnessError
        The view, stop list or stemmer is unknown.
    """
    checks.choice("view.name", name, VIEWS)
    rule = "pairs" if dollars is None else cast(Dollars, checks.choice("view.dollars", dollars, DOLLARS))
    normal = _normaliser(lower, stop, stem, abbreviations and name == "declarations")
    if name == "declarations":
        return Tokeniser(lambda text: _declarations(text, emphasis), _taken(normal, whole))
    if name in ("msm", "whitespace"):
        blanks: Callable[[str], str] = (lambda text: text.translate(_PUNCTUATION)) if name == "msm" else str
        return Tokeniser(lambda text: blanks(text).split(), _each(normal), blanks)
    folds = stem in (None, "porter", "english") if fold is None else fold
    if name == "text" and formulas is None:
        return Tokeniser(
            lambda text: [word for before, _ in split_formulas(text, rule) for word in words(before, folds)],
            _each(normal),
        )

    def prose(text: str) -> list[str]:
        return [token for word in words(text, folds) if (token := normal(word))]

    def prose_and_signs(text: str) -> list[str]:
        if name == "text" or text.isascii():
            return prose(text)
        parts = enumerate(_OPERATORS.split(text))
        return [token for n, part in parts for token in (latex_tokens(part) if n % 2 else prose(part))]

    def tokens(text: str) -> list[str]:
        out: list[str] = []
        for before, latex in split_formulas(text, rule):
            out += prose_and_signs(before)
            if latex and name == "latex":
                out += latex_tokens(latex, prose)
            if latex and formulas is not None:
                out += _checked_tokens(formulas, formulas(latex))
        return out

    return tokens


def _checked_tokens(function: FormulaTokens, tokens: Iterable[str]) -> Iterable[str]:
    """Returns the tokens that a function of formulas gave; raises HarnessError unless they are a list of texts."""
    units = [] if isinstance(tokens, str) or not isinstance(tokens, Iterable) else list(tokens)
    if isinstance(tokens, str) or not isinstance(tokens, Iterable) or not all(isinstance(each, str) for each in units):
        name = getattr(function, "__qualname__", repr(function))
        raise HarnessError(f"key 'view.formulas': {name} returns {tokens!r:.40}, expected a list of tokens")
    return units


def _each(normal: _Normalise) -> Callable[[str], tuple[str, ...]]:
    """Returns a function that maps a word to itself in normal form, or to nothing if it is excluded."""

    @lru_cache(_REMEMBERED)
    def taken(word: str) -> tuple[str, ...]:
        return (token,) if (token := normal(word)) else ()

    return taken


_SWITCHES = ("lower", "whole", "abbreviations", "emphasis", "fold")
_OPTIONS = ("name", "lower", "stop", "stem", "whole", "abbreviations", "emphasis", "formulas", "dollars", "fold")


def configured(mapping: Mapping[str, Any], dollars: Dollars = "pairs") -> Tokenise:
    """Returns a tokeniser from its configuration: the parameters of `view`, with `formulas` as a dotted name.

    `dollars` is the rule of the corpus or topic, for views that state none.

    Raises
    ------
    HarnessError
        A key is unknown or has an invalid value.
    """
    if not isinstance(mapping, Mapping):
        raise HarnessError(f"key 'view' is {mapping!r}, expected keys and values such as {{name: latex}}")
    options = dict(mapping)
    for key, value in options.items():
        checks.choice("view", key, _OPTIONS)
        if key in _SWITCHES and not isinstance(value, bool) and (key, value) != ("fold", None):
            raise HarnessError(f"key 'view.{key}' is {value!r}, expected true or false")
    if options.get("formulas") is not None:
        options["formulas"] = _import_formula_tokens(str(options["formulas"]))
    options["dollars"] = options.get("dollars") or dollars
    return view(**options)


def _check_options(key: str, value: Mapping[str, Any]) -> None:
    configured(value)


Options = Annotated[Mapping[str, Any], _check_options]  # of a view


def tokenisers(mapping: Mapping[str, Any]) -> Tokenisers:
    """Returns a function that maps the rule for dollar signs of a corpus or topic to the tokeniser of a view."""
    return cache(partial(configured, mapping))


def version(mapping: Mapping[str, Any]) -> list[str] | None:
    """Returns the fingerprint of the code that makes a view's tokens, for words and for formulas.

    Returns None if the code for formulas cannot be found, because stored tokens could then be outdated.
    """
    if mapping.get("formulas") is None:
        return [code.of(__name__)]
    module = str(mapping["formulas"]).rpartition(".")[0]
    return [code.of(__name__), code.of(module)] if code.known(module) else None


def _import_formula_tokens(name: str) -> FormulaTokens:
    """Imports the function that splits a formula into tokens, by its dotted name."""
    module, _, attribute = name.rpartition(".")
    try:
        function = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError):
        raise HarnessError(f"key 'view.formulas' is {name!r}, expected the dotted name of a function") from None
    if not callable(function):
        raise HarnessError(f"key 'view.formulas': {name} is not a function")
    with suppress(ValueError):  # a function in C may have no signature
        takes = inspect.signature(function)
        try:
            takes.bind("x^2")
        except TypeError:
            raise HarnessError(
                f"key 'view.formulas': {name} takes {takes}, expected a function of one argument, a formula's LaTeX"
            ) from None
    tokeniser: FormulaTokens = function
    return tokeniser
