"""Contents of brackets: arguments, sets, intervals, lists, products, or a row in parentheses."""

from __future__ import annotations

from harness.formulas.opt.bars import matching_bars
from harness.formulas.opt.grammar import Grammar, read_row, without_end
from harness.formulas.opt.tables import ABSENT, Item, Node, Role, Rows, error, leaf

UNMATCHED = "braces, brackets or environments that do not match"

_FENCES = {"{}": "M!S-1", "||": "F!abs", "∥∥": "O!norm", "⌊⌋": "F!floor", "⌈⌉": "F!ceiling"}
_PAIRS = {
    **dict.fromkeys(("(,)", "],["), "O!interval(O-O)"),
    **dict.fromkeys(("(,]", "],]"), "O!interval(O-C)"),
    **dict.fromkeys(("[,)", "[,["), "O!interval(C-O)"),
    "[,]": "O!interval(C-C)",
}
_FUNCTIONS = frozenset((Role.FUNCTION, Role.TRIGONOMETRIC, Role.OPERATOR))


def fenced(bracket: str, row: Rows, close: str, before: int) -> tuple[Item, str]:
    """Parses a row in brackets after an item of role `before` (-1: none); returns the item and reasons of failures."""
    if before in _FUNCTIONS:
        arguments, reason = _arguments(row)
        return (Role.ARGUMENTS.value, ("", arguments)), reason
    fences = bracket + close
    if not row:
        return (Role.FENCED.value, leaf("M!L-0")), ""
    if fences == "{." and len(row) == 1:
        table = row[0][1][1][0] if row[0][1][0] == "O!matrix" else row[0][1]
        if table[0].startswith("M!M-"):
            return (Role.ATOM.value, ("O!cases", [cell for line in table[1] for cell in line[1]])), ""
    if close == ".":
        return (Role.FENCED.value, error([read_row(row)[0]])), UNMATCHED
    made = None
    if bracket == "{" and len(row) > 1:
        made = _conditional_set(row)
    elif fences == "⟨⟩":
        made = _inner_product(row)
    node, reason = made or _collected(bracket, row, close)
    # (> 0) and (mod n) modify the preceding expression.
    modifies = fences == "()" and before >= 0 and len(row) > 1 and row[0][0] in (Role.RELATION, Role.MODIFY)
    return (Role.MODIFIER.value if modifies else Role.FENCED.value, node), reason


def _collected(bracket: str, row: Rows, close: str) -> tuple[Node, str]:
    """Returns a set, interval, vector or list of elements separated by commas; a single element stands for itself."""
    elements, reason = _elements(row)
    if len(elements) == 1:
        fences = bracket + close
        if fences == "()":
            return elements[0], reason
        if fences == "||" and elements[0][0].startswith("M!M-"):
            return ("F!det", elements), reason
        # Tangent-S drops the first character of the names of other brackets, for `[` that of its escape `&lsqb;`.
        other = "M!D-" + ("lsqb;" if bracket == "[" else "") + close
        return (_FENCES.get(fences, other), elements), reason
    kind = bracket + next(item[1][0][2:] for item in row if item[0] == Role.PUNCTUATION) + close
    if kind == "{,}":
        return (f"M!S-{len(elements)}", elements), reason
    if len(elements) == 2:
        return (_PAIRS.get(kind, "M!L-2"), elements), reason
    return (f"M!{'V' if kind == '(,)' else 'L'}-{len(elements)}", elements), reason


def _elements(items: Rows) -> tuple[list[Node], str]:
    """Returns the elements separated by commas; a row with relations is one element."""
    items = without_end(items)
    if len(items) > 1 and any(item[0] == Role.PUNCTUATION for item in items):
        row = Grammar(items)
        elements = row.expressions()
        if row.at == row.end and elements:
            return elements, row.reason
    node, reason = read_row(items)
    return [node], reason


def _arguments(items: Rows) -> tuple[list[Node], str]:
    """Returns the arguments of a function: the parts of its brackets separated by punctuation."""
    arguments: list[Node] = []
    fault = ""
    start = 0
    for place, item in enumerate([*without_end(items), (Role.PUNCTUATION.value, ABSENT)]):
        if item[0] == Role.PUNCTUATION:
            node, reason = read_row(items[start:place])
            arguments.append(node)
            fault = fault or reason
            start = place + 1
    return arguments, fault


def _conditional_set(items: Rows) -> tuple[Node, str] | None:
    """Parses a set builder, with a condition after the first bar or colon; returns None if there is neither."""
    pairs = matching_bars(items)
    # The pair of `x|f(x)|n` holds a condition, that of `2|x|` does not.
    paired = {
        place
        for begin, end in pairs.items()
        if begin == 0 or items[begin - 1][0] >= Role.BAR or end + 1 == len(items) or items[end + 1][0] >= Role.BAR
        for place in (begin, end)
    }
    for place, item in enumerate(items):
        if (item[0] == Role.META and item[1][0] == "V!:") or (item[0] == Role.BAR and place not in paired):
            if place == 0 or place == len(items) - 1:
                return None
            left, reason = read_row(items[:place])
            right, other = read_row(items[place + 1 :])
            return ("O!conditional-set", [left, right]), reason or other
    return None


def _inner_product(row: Rows) -> tuple[Node, str] | None:
    """Parses the inner products `<a|b>` and `<a|H|b>`; returns None for anything else in angle brackets."""
    parts: list[Rows] = [[]]
    for item in row:
        if item[0] == Role.BAR:
            parts.append([])
        else:
            parts[-1].append(item)
    if len(parts) not in (2, 3) or not all(parts):
        return None
    parsed = [read_row(part) for part in parts]
    label = "O!inner-product" if len(parts) == 2 else "O!quantum-operator-product"
    return (label, [node for node, _ in parsed]), next((reason for _, reason in parsed if reason), "")
