r"""Reader of a formula's tokens into rows of items, with matching of brackets.

Groups and arguments are read recursively, at most `DEPTH` levels deep, with three calls for each level. Brackets need
no recursion: the items around an open bracket are put on a stack until the bracket is closed.

Tokenisation of LaTeX in linear time.

A token is a command (`\frac`), a number (`12.5`, `1\,000`), a run of primes, `:=`, three dots as `\ldots`, or one
character. A text command without nested braces is one token (`\text{if }`). White space and comments are dropped. A
percent sign in the last line begins no comment, because line breaks become spaces when LaTeX is in an HTML attribute. A
number is one token although TeX reads digits one by one; `first_digit` returns the part that an argument without braces
takes (`\frac12`, `x^10`).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from typing import TypeAlias

from harness.formulas.mathml.walk import DEEP, DEPTH
from harness.formulas.opt import tables
from harness.formulas.opt.brackets import UNMATCHED, fenced
from harness.formulas.opt.grammar import read_row
from harness.formulas.opt.tables import ABSENT, ITEMS, Item, Node, Role, Rows, error, leaf, listed
from harness.formulas.text.characters import normalise_latex, styled
from harness.formulas.trees.tree import ERROR

_TEXT_NAMES = "text mbox hbox textrm textbf textit textsf texttt textnormal textup"
TEXT = frozenset("\\" + name for name in _TEXT_NAMES.split())

_TOKEN = re.compile(
    rf"((?:{'|'.join(re.escape(name) for name in sorted(TEXT))})(?![A-Za-z])\s*+\{{(?:[^{{}}\\]|\\.)*+\}}"
    r"|\\(?:operatorname|hspace|vspace|tag)\*"
    r"|\\(?:[A-Za-z]++|.)"
    r"|[0-9]++(?:(?:\{,\}|\\,)[0-9]{3}(?![0-9]))*+(?:\.[0-9]++)?|\.[0-9]++|\.(?:\s*+\.){2}|'++|:=|[^\s%])"
    r"|\s++|%",
    re.DOTALL,
)
_COMMENT = re.compile(r"(\\.)|%[^\n]*+\n", re.DOTALL)


def tokens(latex: str) -> list[str]:
    """Returns the tokens of a formula without its delimiters (`$`, `\\[`), in order."""
    above, end, last = latex.rpartition("\n")
    if "%" in above:
        latex = _COMMENT.sub(r"\1", above + end) + last
    units: list[str] = _TOKEN.findall(normalise_latex(latex))
    return ["\\ldots" if unit[0] == "." and unit[-1] == "." and len(unit) > 1 else unit for unit in units if unit]


def is_text(token: str) -> bool:
    """Returns whether a token is a text command with its braces."""
    return token[-1] == "}" and len(token) > 1 and token[1].isalpha()


def is_number(token: str) -> bool:
    """Returns whether a token is a number."""
    return token[-1] in "0123456789" and token[0] in ".0123456789"


def number(token: str) -> str:
    """Returns a number without the separators of its digits."""
    return token.replace("{,}", "").replace("\\,", "") if len(token) > 5 else token


UNREADABLE = "a character that is not mathematical"
MISSING = "a missing argument"

_LONGEST = 50  # maximum items of an interval whose brackets face outward
_WIDE = 10.0  # width in points from which a space separates like a comma
_COMMA: Item = (Role.PUNCTUATION.value, leaf("V!,"))
_BLANK: Item = (Role.ATOM.value, leaf("W!"))  # empty braces
_TEXT: Item = (Role.ATOM.value, ABSENT)
_ENDS = frozenset(("}", "&", "\\\\", "\\cr", "\\crcr", "\\end", "\\tabularnewline", "\\of"))
_JOINED = {"O!ltU!eq": "O!leq", "O!gtU!eq": "O!geq", "O!ltO!lt": "O!much-less-than", "O!gtO!gt": "O!much-greater-than"}
_ANGLES = {"<": "\\langle", ">": "\\rangle", "/": "", "\\backslash": ""}
_NO_BASE = frozenset((Role.OPEN, Role.PUNCTUATION, Role.OVER))
_JOINING = frozenset((Role.RELATION, Role.META, Role.PUNCTUATION))
_BRACKETS = frozenset((Role.OPEN, Role.CLOSE))
_OF_ROWS = tables.SWITCHES | tables.OVERS.keys() | {"\\left", "\\right"}

Command: TypeAlias = "Callable[[TokenReader, str, Rows, int, str], None]"


class _FormulaRow:
    """A row that is being read.

    Attributes
    ----------
    items : items after the innermost open bracket.
    open : for each open bracket, the items around it, the bracket, and whether it follows `\\left`.
    style : the current alphabet.
    before : the role of the item before the row (-1: none).
    """

    __slots__ = ("before", "items", "open", "style")

    def __init__(self, style: str, before: int) -> None:
        self.items: Rows = []
        self.open: list[tuple[Rows, str, bool]] = []
        self.style = style
        self.before = before

    def role_before(self) -> int:
        """Returns the role of the item before the next one (-1: none)."""
        if self.items:
            return self.items[-1][0]
        return -1 if self.open else self.before

    def is_operand_last(self) -> bool:
        """Returns whether the last item is an operand."""
        return bool(self.items) and self.items[-1][0] <= Role.BAR

    def is_square_open(self) -> bool:
        """Returns whether the innermost open bracket is square, facing either way."""
        return bool(self.open) and self.open[-1][1] in ("[", "]")


class TokenReader:
    """The tokens of a formula, the position of the next one, and the first reason why a part could not be parsed."""

    __slots__ = ("at", "commands", "reason", "tokens")

    def __init__(self, tokens: list[str], commands: Mapping[str, Command]) -> None:
        self.tokens = tokens
        self.commands = commands
        self.at = 0
        self.reason = ""

    def formula(self, aligned: Callable[[TokenReader, list[Rows]], Node]) -> Node | None:
        """Parses all tokens; returns None for an empty formula. `aligned` joins several lines to one node."""
        if len(self.tokens) == 1 and self.tokens[0] in ITEMS:
            return ITEMS[self.tokens[0]][1]
        lines: list[Rows] = [[]]
        while True:
            lines[-1] += self.row("", 1)
            if self.at >= len(self.tokens):
                return aligned(self, lines) if any(lines) else None
            # The row ends before the formula.
            unit = self.tokens[self.at]
            self.at += 1
            if unit == "\\end":
                self.skip()
            if unit in ("}", "\\end", "\\of"):
                self.fault(UNMATCHED)
            elif unit != "&":
                lines.append([])

    def fault(self, reason: str) -> None:
        """Records why a part could not be parsed, unless there is a reason already."""
        self.reason = self.reason or reason

    def read(self, items: Rows) -> Node:
        """Parses a row of items to a node."""
        if len(items) == 1 and items[0][0] not in (Role.OVER, Role.FLOAT):
            return items[0][1]
        node, reason = read_row(items)
        self.reason = self.reason or reason
        return node

    # ---- rows ---------------------------------------------------------------------------------------------------

    def row(self, stop: str, depth: int, style: str = "", before: int = -1) -> Rows:
        """Reads the items up to `stop`, which is consumed, or up to the end of a cell, group or formula, which is not.

        `before` is the role of the item before them (-1: none).
        """
        tokens, end = self.tokens, len(self.tokens)
        row = _FormulaRow(style, before)
        while self.at < end:
            unit = tokens[self.at]
            if unit in _ENDS or (unit == stop and not row.open):
                break
            self.at += 1
            if (item := ITEMS.get(unit)) is not None:
                self._symbol(unit, item, row)
            elif unit in _OF_ROWS:
                self._change(unit, row)
            elif (command := self.commands.get(unit)) is not None:
                command(self, unit, row.items, depth, row.style)
            else:
                self._special(unit, row.items, depth, row.style)
        while row.open:
            self._unclosed(row)
        if self.at < end and tokens[self.at] == stop:
            self.at += 1
        elif stop:
            self.fault(UNMATCHED)
        return row.items

    def _symbol(self, unit: str, item: Item, row: _FormulaRow) -> None:
        """Adds a symbol to a row, depending on its role."""
        role, node = item
        items = row.items
        if role in _JOINING:
            _joined(items, item)
        elif role in _BRACKETS:
            if self._is_opening(unit, role, row):
                self._open(row, node[0][2:], False)
            else:
                self._close(row, node[0][2:], False)
        elif role == Role.POSTFIX and items and items[-1][0] <= Role.ARGUMENTS:
            before, operand = items[-1]
            twice = self.tokens[self.at - 2] == unit and operand[0] == node[0]
            items[-1] = (before, ("O!double-factorial", operand[1]) if twice else (node[0], [operand]))
        elif role == Role.ATOM and row.style:
            items.append(self._letters(unit, item, row.style))
        else:
            items.append(item)

    def _change(self, unit: str, row: _FormulaRow) -> None:
        """Applies a command that changes its row: stretched brackets, alphabets, infix fractions."""
        if unit == "\\left":
            self._open(row, self._delimiter(), True)
        elif unit == "\\right":
            close = self._delimiter()
            while row.open and not row.open[-1][2]:
                self._unclosed(row)
            self._close(row, close, True)
        elif unit in tables.SWITCHES:
            row.style = tables.STYLES[unit]
        else:
            row.items = [(Role.OVER.value, (tables.OVERS[unit], [self.read(row.items)]))]

    def _letters(self, unit: str, item: Item, style: str) -> Item:
        """Returns a letter in another alphabet; in most alphabets, the following letters join it to one name."""
        if unit.isascii() and unit.isalpha():
            names = [styled(unit, style)]
            while style in tables.WORDS and self.at < len(self.tokens) and self.tokens[self.at].isalnum():
                names += [styled(letter, style) for letter in self.tokens[self.at]]
                self.at += 1
            return (Role.ATOM.value, leaf("V!" + "".join(names)))
        label = item[1][0]
        # The Greek letter of a label that has it in italics.
        greek = unicodedata.normalize("NFKC", label[2:].removeprefix("italic-"))
        new = styled(greek, style) if label.startswith("V!") else greek
        return (Role.ATOM.value, leaf("V!" + new)) if new != greek else item

    # ---- brackets -----------------------------------------------------------------------------------------------

    def _is_opening(self, unit: str, role: int, row: _FormulaRow) -> bool:
        """Returns whether a bracket is an opening one. Square brackets may face outward, as in `]a, b[`."""
        if unit == "[":
            return not self._ends_interval(row)
        if unit == "]":
            return not row.is_square_open() and not row.is_operand_last()
        return role == Role.OPEN

    def _ends_interval(self, row: _FormulaRow) -> bool:
        """Returns whether `[` closes an interval: `[a, b[`."""
        if not row.is_square_open() or not row.is_operand_last():
            return False
        if len(row.items) > _LONGEST or not any(item[0] == Role.PUNCTUATION for item in row.items):
            return False
        if row.open[-1][1] == "]" or self.at == len(self.tokens) or self.tokens[self.at] in _ENDS:
            return True
        after = ITEMS.get(self.tokens[self.at])
        return after is not None and after[0] >= Role.ADD

    def _open(self, row: _FormulaRow, bracket: str, stretched: bool) -> None:
        """Puts the items before an opening bracket on the stack."""
        if len(row.open) >= DEPTH:
            self.fault(DEEP)
            row.items.append((Role.ATOM.value, error([])))
            return
        row.open.append((row.items, bracket, stretched))
        row.items = []

    def _unclosed(self, row: _FormulaRow) -> None:
        """Returns to the items around a bracket that is never closed, and appends the items after the bracket."""
        inside = row.items
        row.items, bracket, _ = row.open.pop()
        if bracket == ".":
            row.items += inside
            return
        self.fault(UNMATCHED)
        row.items.append((Role.FENCED.value, error([self.read(inside)] if inside else [])))

    def _close(self, row: _FormulaRow, close: str, stretched: bool) -> None:
        """Closes a bracket: returns to the items around it, and appends its content as one item."""
        if not row.open or row.open[-1][2] != stretched:
            self.fault(UNMATCHED)
            row.items.append((Role.ATOM.value, error([])))
            return
        inside = row.items
        row.items, bracket, _ = row.open.pop()
        if bracket == "." and close in ".|∥":
            row.items += inside
            if close != ".":
                row.items.append(ITEMS[close])
            return
        item, reason = fenced(bracket, inside, close, row.role_before())
        self.reason = self.reason or reason
        row.items.append(item)

    def _delimiter(self) -> str:
        r"""Returns the name of the bracket after `\left` or `\right`; "." for an invisible one."""
        if self.at >= len(self.tokens) or self.tokens[self.at] in _ENDS:
            self.fault(MISSING)
            return "."
        unit = self.tokens[self.at]
        self.at += 1
        unit = _ANGLES.get(unit, unit)
        item = ITEMS.get(unit)
        return item[1][0][2:] if item is not None and item[1][0].startswith("V!") else unit

    # ---- tokens other than symbols ---------------------------------------------------------------------------------

    def _special(self, unit: str, row: Rows, depth: int, style: str) -> None:
        """Adds the items for a token that is neither a symbol nor a command with arguments."""
        if unit in ("^", "_"):
            _script("O!SUP" if unit == "^" else "O!SUB", self.argument(depth, style), row)
        elif unit == "{":
            self._group(row, depth, style)
        elif unit[0] == "'":
            prime = leaf("V!" + "′" * len(unit))
            if self.at < len(self.tokens) and self.tokens[self.at] == "^":
                self.at += 1
                prime = listed([prime, self.argument(depth, style)])
            _script("O!SUP", prime, row)
        elif is_number(unit):
            digits = [unit]
            while self.at < len(self.tokens) and is_number(self.tokens[self.at]):
                digits.append(self.tokens[self.at])
                self.at += 1
            row.append((Role.NUMBER.value, leaf("N!" + number("".join(digits)))))
        elif unit in tables.SPACES:
            width = tables.SPACES[unit]
            while self.at < len(self.tokens) and self.tokens[self.at] in tables.SPACES:
                width += tables.SPACES[self.tokens[self.at]]
                self.at += 1
            if width >= _WIDE:
                separate(row)
        elif unit in tables.IGNORED:
            if self.tokens[self.at : self.at + 3 : 2] == ["{", "}"] and unit.lower().startswith("\\big"):
                # \big{(}
                self.tokens[self.at] = self.tokens[self.at + 2] = "\\relax"
        elif is_text(unit):
            row.append(_TEXT)
        elif unit[0] == "\\":
            self.fault(f"unknown command {unit[:20]}")
            row.append((Role.ATOM.value, leaf(ERROR + unit) if unit.isprintable() else error([])))
        elif unit.isprintable():
            row.append((Role.ATOM.value, leaf("V!" + unit)))
        else:
            self.fault(UNREADABLE)
            row.append((Role.ATOM.value, error([])))

    def _group(self, row: Rows, depth: int, style: str) -> None:
        """Adds the content of braces that are not an argument; the opening brace has been consumed."""
        if depth >= DEPTH:
            self.at -= 1
            self.skip()
            self.fault(DEEP)
            row.append((Role.ATOM.value, error([])))
            return
        items = self.row("}", depth + 1, style, row[-1][0] if row else -1)
        if items and items[0][0] == Role.OVER:
            row.append((Role.ATOM.value, self.read(items)))
        elif items or (self.at < len(self.tokens) and self.tokens[self.at] in ("^", "_")):
            # Braces are invisible; empty ones separate a script from the preceding item.
            row += items or [_BLANK]

    # ---- arguments of commands ----------------------------------------------------------------------------------

    def argument(self, depth: int, style: str = "") -> Node:
        """Parses an argument: a group, or the next token with its own arguments."""
        if self.at < len(self.tokens) and self.tokens[self.at] == "{" and depth < DEPTH:
            self.at += 1
            items = self.row("}", depth + 1, style)
        else:
            items = self.items(depth, style)
        return self.read(items) if items else ABSENT

    def items(self, depth: int, style: str = "") -> Rows:
        """Reads the items of an argument."""
        tokens = self.tokens
        while self.at < len(tokens) and (tokens[self.at] in tables.SPACES or tokens[self.at] in tables.IGNORED):
            self.at += 1
        if self.at >= len(tokens) or tokens[self.at] in _ENDS or tokens[self.at] in ("^", "_", "\\left", "\\right"):
            self.fault(MISSING)
            return []
        unit = tokens[self.at]
        if depth >= DEPTH:
            self.fault(DEEP)
            self.skip()
            return [(Role.ATOM.value, error([]))]
        self.at += 1
        if unit == "{":
            return self.row("}", depth + 1, style)
        if len(unit) > 1 and is_number(unit):
            # An argument without braces takes the first digit alone.
            self.at -= 1
            unit, tokens[self.at] = unit[0], unit[1:]
            return [(Role.NUMBER.value, leaf("N!" + unit))] if unit != "." else [ITEMS["."]]
        item = ITEMS.get(unit)
        if item is not None:
            return [self._letters(unit, item, style) if style and not item[0] else item]
        row: Rows = []
        if (command := self.commands.get(unit)) is not None:
            command(self, unit, row, depth + 1, style)
        elif is_number(unit):
            row.append((Role.NUMBER.value, leaf("N!" + number(unit))))
        else:
            self._special(unit, row, depth + 1, style)
        return row

    def optional(self, depth: int) -> Node | None:
        """Parses an argument in square brackets, if there is one."""
        if self.at >= len(self.tokens) or self.tokens[self.at] != "[" or depth >= DEPTH:
            return None
        self.at += 1
        return self.read(self.row("]", depth + 1))

    def skip(self) -> str:
        """Skips a token or a whole group; returns its content."""
        start = self.at
        depth = 0
        while self.at < len(self.tokens):
            unit = self.tokens[self.at]
            self.at += 1
            depth += (unit == "{") - (unit == "}")
            if depth <= 0:
                break
        return "".join(self.tokens[start : self.at]).strip("{}")

    def skip_optional(self) -> None:
        """Skips an argument in square brackets, if there is one."""
        if self.at < len(self.tokens) and self.tokens[self.at] == "[":
            while self.at < len(self.tokens) and self.tokens[self.at] not in ("]", "}"):
                self.at += 1
            if self.at < len(self.tokens) and self.tokens[self.at] == "]":
                self.at += 1


def separate(row: Rows) -> None:
    """Adds punctuation if the last item is an operand."""
    if row and (row[-1][0] <= Role.BAR or row[-1][0] == Role.MODIFIER):
        row.append(_COMMA)


def _joined(row: Rows, relation: Item) -> None:
    """Adds a relation or punctuation, merged with the previous item if they form one: `<=`, a comma after a space."""
    if row and row[-1] is _COMMA and relation[0] != Role.PUNCTUATION:
        row.pop()
    if row and row[-1][0] == relation[0] and not row[-1][1][1]:
        before = row[-1]
        if before is _COMMA:
            row.pop()
        else:
            label = _JOINED.get(before[1][0] + relation[1][0])
            if label is not None:
                row[-1] = (relation[0], leaf(label))
                return
    row.append(relation)


def _script(operator: str, script: Node, row: Rows) -> None:
    """Adds a script to the last item, or to the next one if the last item cannot have scripts."""
    if row and row[-1] is _BLANK:
        row.pop()
        row.append((Role.FLOAT.value, (operator, [script])))
    elif not row or row[-1][0] in _NO_BASE or row[-1][0] == Role.FLOAT:
        row.append((Role.FLOAT.value, (operator, [script])))
    else:
        role, base = row[-1]
        row[-1] = (role, (operator, [base, script]))
