"""Bars of a row: which are absolute values or norms, and where the condition after a single bar ends."""

from __future__ import annotations

from harness.formulas.opt.tables import ABSENT, Item, Node, Role, Rows, leaf, unscripted

_NESTED = 3  # maximum nesting of bars
_SEPARATORS = frozenset((Role.RELATION, Role.META, Role.PUNCTUATION))
_COMMA: Item = (Role.PUNCTUATION.value, leaf("V!,"))


def is_connective(node: Node) -> bool:
    """Returns whether a node is `∧` or `∨`."""
    return not node[1] and node[0] in ("U!and", "U!or")


def matching_bars(items: Rows) -> dict[int, int]:
    """Returns, for each opening bar, the position of its closing bar.

    A bar opens where an operand is missing. Any other bar closes the last open one; if none is open, it opens if more
    bars follow. Pairs of bars do not span punctuation or relations; if the first one follows an operand, as in
    `a|b ∧ b|c`, they do not span `∧`, `∨` or text either.
    """
    pairs: dict[int, int] = {}
    open_: list[int] = []
    left = sum(item[0] == Role.BAR for item in items)
    after = doubtful = False  # after an operand; whether the first open bar is
    for place, (role, node) in enumerate(items):
        if role != Role.BAR:
            after = role < Role.BAR
            if role in _SEPARATORS or (doubtful and (is_connective(node) or node is ABSENT)):
                open_.clear()
            continue
        left -= 1
        base, scripts = unscripted(node)
        if after and open_ and items[open_[-1]][1][0] == base[0]:
            pairs[open_.pop()] = place
        elif not after or (left and not scripts and base[0] != "V!∣"):
            doubtful = doubtful if open_ else after and items[place - 1][1] is not ABSENT
            open_.append(place)
            after = False
        if len(open_) > _NESTED:
            open_.clear()
    return pairs


def divided(items: Rows) -> tuple[Rows, dict[int, int], set[int]]:
    """Divides a row at the text between conditions: `d|a and d|b` are two.

    Returns the row with a comma for such text, its pairs of bars, and the positions of `∧` and `∨` that end a
    condition because another bar follows.
    """
    if not any(item[0] == Role.BAR for item in items):
        return items, {}, set()
    bars = matching_bars(items)
    paired = {*bars, *bars.values()}
    single = [place for place, item in enumerate(items) if item[0] == Role.BAR and place not in paired]
    ends: set[int] = set()
    if len(single) > 1:
        items = list(items)
        follows = False  # a single bar, before the next separator
        for place in range(single[-1], single[0], -1):
            role, node = items[place]
            if role in _SEPARATORS:
                follows = False
            elif role == Role.BAR:
                follows = follows or place not in paired
            elif follows and is_connective(node):
                ends.add(place)
            elif follows and node is ABSENT:
                items[place] = _COMMA
    return items, bars, ends
