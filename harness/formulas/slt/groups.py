"""Groups of a formula during reading: parts with scripts, matching of brackets and bars, and matrices.

Three results of LaTeXML's parsing affect the layout and are reproduced here: which brackets and bars match, which
expression a bar such as `|_{x=0}` evaluates, and which `d` after an integral is a differential.
"""

from __future__ import annotations

import unicodedata
from itertools import pairwise

from harness.formulas.slt import commands, rows
from harness.formulas.slt.rows import BLANK, Row, Symbol

PAIRS = {")": "(", "]": "[", "}": "{", "⟩": "⟨", "⌋": "⌊", "⌉": "⌈"}
OPENING = frozenset(PAIRS.values())
BARS = frozenset(("|", "∥", "||"))
_POSTFIX = frozenset(("!", "!!", "′", "%", *PAIRS))
_RELATIONS = frozenset("=<>≤≥≠≡≈≅≃⊂⊆⊃⊇⇔∝⩽⩾≪≫∈∉∼∣→⟶↦⟹⇒,;:.")
# What no pair of bars encloses whose first one follows an operand.
_SEPARATING = (_RELATIONS - {"∣", "."}) | frozenset("∧∨←↔⇐⟵⟷⟸⟺⟼↪↩⊊⊋⊑⊒∋≺≻⪯⪰≍≐≔∴∵⊢⊨")
_BETWEEN = _RELATIONS | OPENING | frozenset("+-±∓")
_DISPLAYS = frozenset(("align", "alignat", "gather", "eqnarray", "multline", "flalign"))
_COLUMNS = 64  # maximum declared columns that are filled up
_LONGEST = 100  # maximum characters of a joined name
_FEW = 64  # maximum parts between two brackets of different kinds


class Upright(Symbol):
    """A name in upright letters, which remains `d` as a differential."""

    __slots__ = ()


class OperatorName(Symbol):
    """A name by `\\operatorname`, which is never a differential."""

    __slots__ = ()


class Frame:
    """An open group, or a command that waits for arguments.

    Attributes
    ----------
    kind : `{`, `[`, `left`, `env`, `root` or `top` for groups, `args` for commands, `^` and `_` for scripts.
    name : name of the command or environment, or the character after `\\left`.
    need : number of arguments of the command; 0 for a group.
    items : parts of a group so far, each a base for scripts; or arguments of a command.
    option : argument in square brackets.
    below, above : scripts of the last part, None if there are none; primes: whether `above` is only primes; carried:
        whether they come from the last part of a nested group, so that further scripts join them.
    fences : index and character of brackets that are still open, and of bars that may be.
    word, brace, floating : index of the part that further letters extend, that is an over- or underbrace, that is
        scripts without a base.
    integral : whether the group contains an integral, or follows one in the enclosing group.
    infix : brackets and numerator of `\\over` and similar commands.
    cells, rows : cells of the current row of a matrix so far, and its previous rows.
    columns : number of columns that an array declares.
    """

    __slots__ = (
        *("above", "below", "brace", "carried", "cells", "columns", "fences", "floating", "font", "infix", "integral"),
        *("items", "kind", "name", "need", "option", "primes", "rows", "word"),
    )

    def __init__(self, kind: str, font: str, name: str = "", need: int = 0) -> None:
        self.kind = kind
        self.font = font
        self.name = name
        self.need = need
        self.option: Row | None = None
        self.infix: tuple[str, list[Row]] | None = None
        self.integral = False
        self.cells: list[Row] = []
        self.rows: list[list[Row]] = []
        self.columns = 0
        self.clear()

    def is_table(self) -> bool:
        """Returns whether the group has rows of cells."""
        return self.kind == "env" or (self.kind == "{" and bool(self.name))

    def clear(self) -> None:
        """Begins a new cell."""
        self.items: list[Row] = []
        self.fences: list[tuple[int, str]] = []
        self.below: Row | None = None
        self.above: Row | None = None
        self.primes = self.carried = False
        self.word = self.brace = self.floating = -1


# ---- parts and scripts ------------------------------------------------------------------------------------------


def append(frame: Frame, row: Row) -> None:
    """Adds a part to a group; preceding scripts without a base become its prescripts."""
    settle(frame)
    frame.carried = False
    items = frame.items
    if frame.floating == len(items) - 1 >= 0 and row and row[0].label not in _BETWEEN:
        scripts = items.pop()[0].below or {}
        row = rows.hung(row, [("d", scripts.get("b")), ("c", scripts.get("a"))])
        frame.floating = -1
    items.append(row)


def settle(frame: Frame) -> None:
    """Attaches the scripts read so far to the last part."""
    below, above = frame.below, frame.above
    if below is None and above is None:
        return
    last = len(frame.items) - 1
    base = frame.items[last]
    if frame.brace == last:
        frame.items[last] = rows.hung(base, [("u", below), ("o", above)])
    else:
        frame.items[last] = rows.scripted(base, below, above)
    if not base:
        frame.floating = last
    frame.below = frame.above = None
    frame.primes = frame.carried = False
    frame.word = -1


def based(frame: Frame) -> None:
    """Makes a base for the next script: `n!` is one base, a closing bracket without an opening one is none."""
    items = frame.items
    if len(items[-1]) != 1 or items[-1][0].below:
        return
    label = items[-1][0].label
    if label in PAIRS:
        items.append([Symbol(BLANK)])
    elif label in ("!", "!!") and len(items) > 1 and _is_operand(items[-2]):
        items[-2:] = [items[-2] + items[-1]]


def splice(frame: Frame, group: Frame) -> None:
    """Moves the parts of a group to the enclosing group, as LaTeXML ignores braces within a row.

    Scripts that follow attach to the last part, and open brackets of the group may still be closed.
    """
    settle(frame)
    begin = len(frame.items)
    if not group.items:
        append(frame, [])
        return
    if begin and frame.floating == begin - 1:
        append(frame, group.items[0])
        frame.items += group.items[1:]
        begin -= 1
    else:
        frame.items += group.items
    frame.fences += [(begin + number, name) for number, name in group.fences]
    frame.integral = frame.integral or group.integral
    frame.below, frame.above, frame.primes = group.below, group.above, group.primes
    frame.carried = True
    last = len(group.items) - 1
    frame.brace = len(frame.items) - 1 if group.brace == last else -1
    frame.floating = len(frame.items) - 1 if group.floating == last else -1


def settled(frame: Frame) -> list[Row]:
    """Ends a group and returns its parts."""
    settle(frame)
    if frame.integral:
        _differentials(frame.items, within=True)
    return frame.items


def flat(parts: list[Row]) -> Row:
    """Returns the symbols of the parts in one row."""
    return [symbol for part in parts if not rows.ignored(part) for symbol in part]


def row_of(frame: Frame) -> Row:
    """Ends a group and returns its row."""
    row = flat(settled(frame))
    if frame.infix is None:
        return row
    brackets, above = frame.infix
    fraction = _fraction_symbol(flat(above), row)
    return fence(brackets[0], [[fraction]], brackets[1]) if brackets else [fraction]


def _fraction_symbol(above: Row, below: Row) -> Symbol:
    return Symbol("O!divide", {edge: row for edge, row in (("o", above), ("u", below)) if row})


def join(frame: Frame, name: str) -> bool:
    """Joins a character with the previous part if they form one symbol (`:=`, `!!`, primes); returns whether it did."""
    if not frame.items or frame.below is not None or frame.above is not None:
        return False
    last = frame.items[-1]
    if len(last) != 1 or last[0].below:
        return False
    label = last[0].label
    if name == "′" and label[:1] == "′" and len(label) < _LONGEST:
        whole: str | None = label + name
    else:
        whole = commands.LIGATURES.get((label, name))
    if whole:
        frame.items[-1] = [Symbol(whole)]
    return whole is not None


def _differentials(parts: list[Row], within: bool) -> None:
    """Marks each `d` before a variable after an integral as a differential, unless it is in a function's argument.

    The integrand ends at a sum or relation.
    """
    argument = False
    for part, after in pairwise(parts):
        label = part[0].label if part else ""
        if label in commands.INTEGRALS:
            within, argument = True, False
        elif label in _RELATIONS or label in ("+", "-"):
            within = False
        elif label in commands.FUNCTIONS:
            argument = argument or not (after and after[0].label.startswith("M!"))
        elif label in commands.SUMS:
            argument = True
        elif label == "V!d" and within and not argument and _is_differential(part, after):
            part[0].label = "d" if isinstance(part[0], Upright) else "𝑑"


def lengthen(frame: Frame, text: str) -> bool:
    """Appends letters or digits to the previous name if it has no scripts yet; returns whether it did."""
    open_ = frame.word == len(frame.items) - 1 >= 0 and frame.below is None and frame.above is None
    if open_ and len(frame.items[-1][0].label) < _LONGEST:
        frame.items[-1][0].label += text
        return True
    return False


def _is_differential(part: Row, after: Row) -> bool:
    plain = len(part) == 1 and not part[0].below and not isinstance(part[0], OperatorName)
    return plain and bool(after) and after[0].label.startswith("V!")


# ---- brackets and bars ------------------------------------------------------------------------------------------


def mark(frame: Frame, name: str) -> None:
    """Records an opening bracket, or a bar that may be one."""
    append(frame, [Symbol(name)])
    frame.fences.append((len(frame.items) - 1, name))


def bracket(frame: Frame, name: str) -> None:
    """Handles a closing bracket and joins it with its opening one."""
    settle(frame)
    fences = frame.fences
    wanted = PAIRS[name]
    while fences and fences[-1][1] in BARS:
        fences.pop()
    if fences and fences[-1][1] != wanted and not _interval(frame, name):
        # Brackets that are still open in between remain single symbols.
        deeper = len(fences) - 1
        while deeper >= 0 and len(fences) - deeper < _FEW and fences[deeper][1] != wanted:
            deeper -= 1
        if deeper >= 0 and fences[deeper][1] == wanted:
            del fences[deeper + 1 :]
    if fences and (fences[-1][1] == wanted or _interval(frame, name)):
        _close_fence(frame, name)
    else:
        append(frame, [Symbol(name)])


def _interval(frame: Frame, name: str) -> bool:
    """Returns whether `[a,b)` or `(a,b]` ends here."""
    begin, opening = frame.fences[-1]
    if {opening, PAIRS[name]} != {"(", "["} or len(frame.items) - begin > _FEW:
        return False
    return sum(len(part) == 1 and part[0].label == "," for part in frame.items[begin:]) == 1


def _close_fence(frame: Frame, name: str) -> None:
    begin, opening = frame.fences.pop()
    parts = frame.items[begin + 1 :]
    del frame.items[begin:]
    frame.word = frame.brace = frame.floating = -1
    frame.items.append(fence(opening, parts, name))


def bar(frame: Frame, name: str, side: str, tokens: commands.FormulaTokens) -> None:
    """Handles a bar, which closes an open one if it follows an operand; `side` is `l` or `r` if the command says so.

    Three bars of which the first closes one, as in `|a|||b||`, are one and two.
    """
    settle(frame)
    operand = bool(frame.items) and _is_operand(frame.items[-1])
    top = frame.fences[-1][1] if frame.fences else ""
    if name == "|" and top == "||" and operand:
        # The two bars of `||x| - |y||` open one after the other.
        at, _ = frame.fences.pop()
        frame.items[at : at + 1] = [[Symbol(name)], [Symbol(name)]]
        frame.fences += [(at, name), (at + 1, name)]
        _close_fence(frame, name)
    elif name == "||" and top == "|" and operand:
        _close_fence(frame, "|")
        bar(frame, "||" if tokens.take("|") else "|", "", tokens)
    elif top == name and side != "l" and (operand or side == "r" or frame.fences[-1][0] == len(frame.items) - 2):
        _close_fence(frame, name)
    else:
        mark(frame, name)


def separate(frame: Frame, name: str = ",") -> None:
    """Ends the search for partners of bars that follow an operand: those of `r|a, s|b` are no absolute value."""
    items, fences = frame.items, frame.fences
    if name in _SEPARATING:
        while fences and fences[-1][1] in BARS and (at := fences[-1][0]) and _is_operand(items[at - 1]):
            fences.pop()


def _is_operand(part: Row) -> bool:
    return len(part) > 1 or (bool(part) and (not rows.is_operator(part[0].label) or part[0].label in _POSTFIX))


def fence(opening: str, parts: list[Row], closing: str) -> Row:
    """Encloses parts in brackets or bars, "" for none; brackets that Tangent-S treats as fences make a matrix."""
    if any(part and part[0].label in commands.INTEGRALS for part in parts):
        _differentials(parts, within=False)
    parts = [part for part in parts if not rows.ignored(part)]
    if opening == "{" and closing == "}":
        parts = _builder(parts)
    ends = [[Symbol(name)] if name else [] for name in (opening, closing)]
    return rows.fenced([part for part in (ends[0], *parts, ends[1]) if part])


def _builder(parts: list[Row]) -> list[Row]:
    """Joins the parts after the bar or colon of a set builder to one, so that their commas separate nothing."""
    for number, part in enumerate(parts):
        if len(part) == 1 and part[0].label in ("|", "∣", ":") and 0 < number < len(parts) - 1:
            return [flat(parts[:number]), part, flat(parts[number + 1 :])]
        if len(part) == 1 and part[0].label == ",":
            break
    return parts


def close_evaluation(frame: Frame) -> None:
    """Makes a bar with scripts the closing bar of an evaluation: of the factors since the last operator."""
    last = len(frame.items) - 1
    if last < 1 or frame.below is not None or frame.above is not None or frame.fences[-1:] != [(last, "|")]:
        return
    begin = last
    while begin > 0 and not (len(frame.items[begin - 1]) == 1 and frame.items[begin - 1][0].label in _BETWEEN):
        begin -= 1
    if begin < last:
        frame.fences.pop()
        frame.items[begin:] = [flat(frame.items[begin:])]


# ---- commands and environments ----------------------------------------------------------------------------------


def environment(frame: Frame) -> Row:
    """Ends an environment; returns its matrix, or its rows in sequence if it is not a matrix."""
    last = row_of(frame)
    if last or frame.cells or not frame.rows:
        frame.rows.append([*frame.cells, last])
    brackets = commands.FENCES.get(frame.name.removesuffix("*"))
    if brackets is None:
        return flat([cell for row in frame.rows for cell in row])
    # LaTeXML gives each case a condition, and each row of an array all declared columns.
    columns = 2 if brackets in ("{", "}") else min(frame.columns, _COLUMNS)
    frame.rows = [row + [[]] * (columns - len(row)) for row in frame.rows]
    if not brackets and len(frame.rows) == len(frame.rows[0]) == 1 and frame.name.removesuffix("*") in _DISPLAYS:
        return frame.rows[0][0]
    table = rows.matrix(frame.rows)
    if brackets == "{":
        return [Symbol("{"), table]
    if brackets == "}":
        return [table, Symbol("}")]
    table.label = f"M!{brackets}{table.label[2:]}"
    return [table]


def built(frame: Frame) -> Row:
    """Returns the row of a command with its arguments."""
    name, arguments = frame.name, frame.items
    last = arguments[-1]
    filled = [argument or [Symbol(BLANK)] for argument in arguments[:2]]
    if name in ("\\frac", "\\dfrac", "\\tfrac", "\\cfrac"):
        return [_fraction_symbol(*filled)]
    if name == "\\genfrac" and frame.option:
        return fence(frame.option[0].label, [[_fraction_symbol(*filled)]], frame.option[1].label)
    if name == "\\sideset":
        before, after = (side[0].below or {} if side else {} for side in arguments[:2])
        sides = [("d", before.get("b")), ("c", before.get("a")), ("b", after.get("b")), ("a", after.get("a"))]
        return rows.hung(last, sides)
    if name in ("\\binom", "\\dbinom", "\\tbinom"):
        return fence("(", [[_fraction_symbol(*filled)]], ")")
    if name == "\\sqrt":
        return [Symbol("O!root", {edge: row for edge, row in (("w", filled[0]), ("c", frame.option)) if row})]
    if name in commands.ACCENTS:
        return rows.hung(last, [("o", [Symbol(commands.ACCENTS[name])])])
    if name in commands.UNDER:
        return rows.hung(last, [("u", [Symbol(commands.UNDER[name])])])
    if name in ("\\overset", "\\stackrel"):
        return rows.hung(last, [("o", filled[0])])
    if name == "\\underset":
        return rows.hung(last, [("u", filled[0])])
    if name in commands.ARROWS:
        return rows.hung([Symbol(commands.ARROWS[name])], [("o", last or [Symbol(BLANK)]), ("u", frame.option)])
    if name in ("\\boxed", "\\fbox"):
        return [Symbol("box", {"w": last} if last else None)]
    if name in ("\\phantom", "\\hphantom", "\\vphantom"):
        return [Symbol(BLANK)]
    if name in ("\\pmod", "\\pod"):
        return fence("(", [[Symbol("mod")], last] if name == "\\pmod" else [last], ")")
    if name == "\\not":
        return _negate_last(last)
    if name == "\\mathop" and len(last) == 1 and last[0].label.startswith("V!") and len(last[0].label) > 3:
        return [Symbol(last[0].label[2:], last[0].below)]
    return last


def _negate_last(row: Row) -> Row:
    if row:
        label = row[-1].label + "\u0338"
        row[-1].label = label if label[0] in "∼∣" else unicodedata.normalize("NFC", label)
    return row
