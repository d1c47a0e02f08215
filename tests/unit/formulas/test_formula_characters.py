"""Normalised LaTeX: characters beyond ASCII, dots and entities, for both parsers."""

from __future__ import annotations

import pytest
from tables import table

from harness.formulas.opt import read as operators
from harness.formulas.slt import read as layout
from harness.formulas.text.characters import OPERATORS, VARIABLES, normalise_latex

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


@pytest.mark.parametrize(
    ("latex", "wanted"),
    table("formulas/normalised"),
)
def test_normalised(latex: str, wanted: str) -> None:
    assert normalise_latex(latex) == wanted
    assert normalise_latex(wanted) == wanted
