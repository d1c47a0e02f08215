"""Text views: each rule by hand, and what must hold of any text."""

from __future__ import annotations

import json
import string
import unicodedata
from collections.abc import Iterable

import pytest
from case_tables import table
from hypothesis import given
from hypothesis import strategies as st
from lexical_tools import message
from refusals import refuses

from harness.store import code
from harness.systems.lexical import text
from harness.systems.lexical.text import VIEWS, configured, latex_tokens, view, words


def shout(latex: str) -> Iterable[str]:
    """Tokens of a formula, as another module would make them."""
    return [f"!{latex.upper()}", "!"]


# ---- words


@pytest.mark.parametrize(("prose", "expected"), [("می\u200cشود", "می\u200cشود"), *table("systems/words")])
def test_words_of_prose(prose: str, expected: str) -> None:
    assert view("text")(prose) == view("latex")(prose) == expected.split()


def test_folding_is_a_choice() -> None:
    source = "Poincaré ﬁnite 𝔽"
    assert view("text", fold=False)(source) == ["poincaré", "ﬁnite", "𝔽"]
    assert view("latex", stem="porter")("Poincaré Poincare") == ["poincar", "poincar"]
    # Endings that another language's stemmer knows have accents.
    assert view("text", stem="czech")("řešení") == view("text", stem="czech", fold=False)("řešení")
    assert view("text", stem="czech", fold=True)("řešení") != view("text", stem="czech")("řešení")
    assert configured({"name": "text", "fold": None})("é") == configured({"name": "text", "fold": True})("é") == ["e"]


def test_operators_of_prose_are_the_tokens_of_formulas() -> None:
    assert view("latex")("If x ≤ y → ∞ in a 3×3 matrix, 5−10") == view("latex")(
        r"If x $\leq$ y $\to\infty$ in a 3$\times$3 matrix, 5-10"
    )
    assert view("text")("x ≤ y") == ["x", "y"]


@pytest.mark.parametrize("mapping", [{"name": "text"}, {"name": "latex"}])
def test_amounts_of_money_are_words_where_the_corpus_says_so(mapping: dict[str, object]) -> None:
    source = "costs $5 or $10"
    assert configured(mapping, "pandoc")(source) == ["costs", "5", "or", "10"]
    assert configured({**mapping, "dollars": "pandoc"})(source) == configured(mapping, "pandoc")(source)
    assert configured({**mapping, "dollars": "pairs"}, "pandoc")(source) == configured(mapping)(source)
    assert "or" in configured({"name": "text", "formulas": f"{__name__}.shout"}, "pandoc")(source)


def test_case_is_kept_if_asked() -> None:
    assert view("text", lower=False)("Let Abel's $X$ be") == ["Let", "Abel", "be"]


def test_stop_words_go_first_then_words_are_stemmed() -> None:
    assert view("text", stop="english", stem="porter")("The running dogs are THEIR theirs") == ["run", "dog"]
    # `does` is a stop word, its stem `doe` is none; `being` is one, although `bee` is not.
    assert view("text", stem="porter")("does being") == ["doe", "be"]
    assert view("text", stop="english")("does being bee") == ["bee"]
    assert view("text", stem="czech")("matice maticemi") == view("text", stem="czech")("matici maticích")


# ---- LaTeX


@pytest.mark.parametrize(("latex", "expected"), table("systems/latex_tokens"))
def test_tokens_of_a_formula(latex: str, expected: str) -> None:
    assert latex_tokens(latex) == expected.split()


@pytest.mark.parametrize(("characters", "commands"), table("systems/characters"))
def test_unicode_is_read_as_the_commands(characters: str, commands: str) -> None:
    assert latex_tokens(characters) == latex_tokens(commands)


def test_formulas_stand_where_they_stand_in_the_text() -> None:
    source = r"If $x^2$ is Even, \[\text{Then } y\]"
    assert view("latex")(source) == ["if", "$x", "$2", "^2", "is", "even", "then", "$y"]
    assert view("text")(source) == ["if", "is", "even"]
    assert view("latex", stop="english", stem="porter")(source) == ["$x", "$2", "^2", "even", "$y"]


def test_further_tokens_of_formulas_are_taken_as_they_are() -> None:
    source = "The $ab$ runs"
    assert view("text", stem="porter", formulas=shout)(source) == ["the", "!AB", "!", "run"]
    assert view("latex", formulas=shout)(source) == ["the", "$a", "$b", "!AB", "!", "runs"]
    mapping = {"name": "text", "formulas": f"{__name__}.shout"}
    assert configured(mapping)(source) == ["the", "!AB", "!", "runs"]
    assert text.version(mapping) == [code.of(text.__name__), code.of(__name__)]
    assert text.version({"name": "text", "formulas": None}) == text.version({"name": "text"})
    assert text.version({"name": "text"}) == [code.of(text.__name__)]
    # Nobody could tell whether tokens are still right whose code cannot be found.
    assert text.version({"name": "text", "formulas": "string.capwords"}) is None


# ---- declarations


@pytest.mark.parametrize(("source", "expected"), table("systems/declarations"))
def test_names_of_declarations(source: str, expected: str) -> None:
    assert view("declarations")(source) == expected.split()


def test_options_of_declarations() -> None:
    whole = view("declarations", whole=True)
    assert whole("IsOpen.image open") == ["is", "open", "image", "=IsOpen.image", "=IsOpen", "open"]
    short = view("declarations", abbreviations=True)
    # Prose meets the name, whichever form it has.
    assert short("commutative multiplication") == short("mul_comm")[::-1]
    assert view("declarations")("commutative") == ["commutative"]
    assert view("declarations", emphasis=True)("**Cauchy** a") == ["cauchy", "cauchy", "a"]
    # They are options of this view alone.
    for name in ("text", "latex", "msm"):
        assert view(name, whole=True, abbreviations=True, emphasis=True)("**commutative** x_y") == view(name)(
            "**commutative** x_y"
        )


# ---- msm and whitespace


def test_the_preprocessing_of_msm() -> None:
    assert view("msm")("Let $x^2$, foo_bar! A-b") == ["let", "x", "2", "foo", "bar", "a", "b"]
    assert view("msm", lower=False, stem="english")("Running, 'dogs'") == ["Run", "dog"]
    # Only ASCII punctuation is any.
    assert view("msm")("“a” b…") == ["“a”", "b…"]


def test_whitespace_takes_tokens_as_they_are() -> None:
    assert view("whitespace", lower=False)(" $X  \\frac\tb\u00a0C\n") == ["$X", "\\frac", "b", "C"]
    assert view("whitespace")("$X") == ["$x"]


# ---- any text

CHARACTERS = st.characters(codec="utf-8")
PIECES = ["$", "$$", "\\(", "\\)", "\\[", "\\begin{a}", "\\end{a}", "\\text{a}", "\\frac"]
PIECES += ["^", "_", "{", "}", " ", "x", "12", "Ab", "**", "'s", "."]
ANY = st.text(CHARACTERS, max_size=60) | st.lists(st.sampled_from(PIECES), max_size=20).map("".join)
OPTIONS = st.fixed_dictionaries(
    {"name": st.sampled_from(VIEWS)},
    optional={
        "lower": st.booleans(),
        "stop": st.sampled_from([None, "english"]),
        "stem": st.sampled_from([None, "porter"]),
        "whole": st.booleans(),
        "abbreviations": st.booleans(),
        "emphasis": st.booleans(),
        "fold": st.none() | st.booleans(),
        "dollars": st.sampled_from([None, "pairs", "pandoc"]),
    },
)


@given(OPTIONS, ANY)
def test_tokens_are_never_empty_and_hold_no_blanks(options: dict[str, object], source: str) -> None:
    """So that they can be joined by blanks, as it is done for Anserini, and taken apart again."""
    tokens = configured(options)(source)
    assert " ".join(tokens).split() == tokens
    assert configured(options)(source) == tokens


@given(st.sampled_from(["msm", "whitespace"]), st.booleans(), ANY)
def test_splitting_again_changes_nothing(name: str, lower: bool, source: str) -> None:
    tokenise = view(name, lower=lower)
    assert tokenise(" ".join(tokenise(source))) == tokenise(source)


@given(ANY)
def test_composed_and_decomposed_characters_are_the_same(source: str) -> None:
    composed, apart = (unicodedata.normalize(form, source) for form in ("NFC", "NFD"))
    assert words(composed) == words(apart)


DIGITS = st.text("0123456789", min_size=1, max_size=6)


@given(st.sampled_from([("\\frac", 2), ("\\sqrt", 1), ("x^", 1), ("x_", 1), ("\\tbinom", 2), ("\\pi", 0)]), DIGITS)
def test_arguments_without_braces_are_single_digits(command: tuple[str, int], digits: str) -> None:
    """The same as with braces, which LaTeX sets in the same way."""
    name, wanted = command
    braced = "".join(f"{{{digit}}}" for digit in digits[:wanted]) + digits[wanted:]
    assert latex_tokens(name + digits) == latex_tokens(name + braced)
    assert latex_tokens(f"{{{name}{digits}}}7") == [*latex_tokens(name + digits), "$7"]


@given(st.lists(st.text(string.ascii_lowercase, min_size=2, max_size=6), min_size=2, max_size=5))
def test_a_name_is_its_parts_however_they_are_joined(parts: list[str]) -> None:
    for name in (".".join(parts), "_".join(parts), "".join(part.title() for part in parts)):
        assert view("declarations")(name) == parts
        assert view("declarations", whole=True)(name)[: len(parts) + 1] == [*parts, f"={name}"]


# ---- faults


@pytest.mark.parametrize(("mapping", "expected"), table("systems/views"))
def test_faults_of_a_configuration(mapping: str, expected: str) -> None:
    assert message(lambda: configured(json.loads(mapping))).startswith(expected)


def test_a_function_of_formulas_returns_a_list() -> None:
    """A text would count as a token for each of its characters."""
    right = "expected a list of tokens"
    found = message(lambda: view("latex", formulas=str.lower)("a $x$ b"))
    assert found == f"key 'view.formulas': str.lower returns 'x', {right}"
    found = message(lambda: view("text", formulas=len)("a $x$ b"))  # type: ignore[arg-type]
    assert found == f"key 'view.formulas': len returns 1, {right}"
    found = message(lambda: view("text", formulas=str.encode)("a $x$ b"))  # type: ignore[arg-type]
    assert found == f"key 'view.formulas': str.encode returns b'x', {right}"


def test_a_stemmer_that_is_no_text_is_one_line() -> None:
    refuses(r"^key 'view\.stem' is True, expected text$", lambda: view("text", stem=True))  # type: ignore[arg-type]
    refuses(r"^stemmer '2' is unknown; known: arabic, ", lambda: view("text", stem=2))  # type: ignore[arg-type]
