"""The operator trees of Approach0's engine (package `pya0`) in Tangent's labels, as far as they can be compared.

The engine reads LaTeX into trees of its own: a script is a node around its base, a minus is the sign of a node, and the
kind of brackets, accents, text and all but one operator of a chain of relations are not kept. Here each node that has a
counterpart in LaTeXML's trees gets that; symbols get the label that our own parser gives to their command. What the
engine does not keep cannot be got back. Written with a view on formulas of 2022.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import cache
from multiprocessing import get_context
from typing import Any

from harness.errors import HarnessError
from harness.formulas.opt.read import read_latex
from harness.formulas.trees.reading import ERROR, Reading, failed
from harness.formulas.trees.tree import Nested, build, place

Node = tuple[int, int, str, str, tuple[int, int], list[Any]]  # number, sign, kind, symbol, characters, children
_FACES = {"normal": "", "blackboard-bold": r"\mathbb", "calligraphy": r"\mathcal", "fraktur": r"\mathfrak"}
_NAMED = {"equal": "=", "lt": "<", "gt": ">", "minus": "-", "plus": "+", "comma": ",", "ast": "*"}
_RELATIONS = frozenset(("GTLS", "INNI", "ARROW", "SUBSET", "CAPCUP", "CIRC", "PERP", "MODULAR"))
_FUNCTIONS = frozenset(("TRIGONOMETRIC", "LOG", "NAME_FUN", "MAXMIN", "INFSUP"))
_BIG = frozenset(("SUM", "INT", "PROD", "LIM", "BCAPCUP"))
_PRIME = "V!\u2032"
_RELATED = frozenset(("U!eq", "U!neq", "U!and", "O!lt", "O!gt", "O!leq", "O!geq", "O!in"))
_LIKE = {"FRAC": "O!divide", "FACT": "O!factorial", "BINOM": "O!binomial", "FLOOR": "F!floor"}


def parsed(latex: Sequence[str], times: int = 3) -> tuple[float, list[tuple[str, Node | None]]]:
    """CPU seconds, the least of some times, and each formula's status and tree; in a process of its own.

    Raises
    ------
    HarnessError
        The engine, which is native code, broke off.
    """
    try:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            return pool.submit(_parsed, list(latex), times).result()
    except BrokenProcessPool:
        raise HarnessError("pya0 broke off at one of the formulas") from None


def _parsed(latex: list[str], times: int) -> tuple[float, list[tuple[str, Node | None]]]:
    engine = importlib.import_module("pya0")
    best, found = float("inf"), []
    for _ in range(times):
        start = time.process_time()
        found = [engine.parse(each) for each in latex]
        best = min(best, time.process_time() - start)
    return best, found


def read(status: str, node: Node | None) -> Reading:
    """The tree in Tangent's labels, with the engine's fault as reason."""
    if status != "OK" or node is None:
        return failed(f"pya0: {status.partition(',')[0].strip()}")
    return Reading(build(_nested(node)))


def _nested(node: Node) -> Nested:
    _, sign, kind, name, _, below = node
    made = _made(kind, name, below)
    return _of("O!minus", made) if sign < 0 else made


def _made(kind: str, name: str, below: list[Node]) -> Nested:
    if not below:
        if (kind, name) == ("NAME_FUN", "ast"):  # text of any kind
            return "W!", []
        return (ERROR, []) if kind == "NIL" else _symbol(name)
    if kind in _BIG or kind == "SUBSUP" or any(each[2] == "BASE" for each in below):
        return _scripted(below)
    if kind == "ADD":
        return _sum(below)
    if kind == "TIMES":
        return _product(below)
    if kind in ("FLOAT", "TAB_ROW", "SEP"):
        return _listed(kind, name, below)
    parts = [_nested(each) for each in below]
    if kind in _RELATIONS:
        label = _operator(name)
        if len(parts) <= 2:
            return _of(label, *[("W!", [])] * (2 - len(parts)), *parts)
        return _of("U!and", _of(label, *parts[:2]), *[_of(label, part) for part in parts[2:]])
    if kind == "ROOT":
        return _of("O!root", parts[0], parts[1] if len(parts) > 1 else ("N!2", []))
    if kind in _LIKE:
        return _of(_LIKE[kind], *parts)
    if kind in ("FORALL", "EXISTS"):
        return _of(f"O!{kind.lower()}", *parts)
    if kind == "GROUP" and parts[0][0] == "M!L-2":
        return "O!interval(O-O)", parts[0][1]  # the most frequent brackets
    return parts[0] if len(parts) == 1 else _of(ERROR, *parts)  # brackets and the like


def _of(label: str, *parts: Nested) -> Nested:
    return label, [(place(number), part) for number, part in enumerate(parts)]


def _scripted(below: list[Node]) -> Nested:
    """A base with its subscript and superscripts, in LaTeXML's order."""
    out = next((_nested(each[5][0]) for each in below if each[2] == "BASE" and each[5]), (ERROR, []))
    for kind, label in (("SUBSCRIPT", "O!SUB"), ("SUPSCRIPT", "O!SUP")):
        scripts = [_nested(each[5][0]) for each in below if each[2] == kind and each[5]]
        primes = sum(script[0] == _PRIME for script in scripts)
        if primes > 1:  # one symbol of several primes
            scripts = [("V!" + primes * _PRIME[2:], []), *[script for script in scripts if script[0] != _PRIME]]
        for script in scripts:
            out = _of(label, out, script)
    return out


def _sum(below: list[Node]) -> Nested:
    groups: list[Nested] = []
    for each in below:
        sign, part = each[1], _made(each[2], each[3], each[5])
        if sign > 0:
            groups.append(part)
        elif groups:
            groups = [_of("O!minus", _joined("U!plus", groups), part)]
        else:
            groups = [_of("O!minus", part)]
    # A sign before the formula is kept as a sum of one.
    return _of("U!plus", *groups) if len(below) == 1 and below[0][1] > 0 else _joined("U!plus", groups)


def _joined(label: str, parts: list[Nested]) -> Nested:
    return parts[0] if len(parts) == 1 else _of(label, *parts)


def _product(below: list[Node]) -> Nested:
    if len(below) > 2 and _bar(below[0]) and _bar(below[-1]) and not any(map(_bar, below[1:-1])):
        return _of("O!norm" if "Vert" in str(below[0]) else "F!abs", _product(below[1:-1]))
    middle = [number for number, each in enumerate(below) if "'mid'" in str(each[5]) and _bar(each)]
    if len(middle) == 1 and 0 < middle[0] < len(below) - 1:
        return _of("O!conditional", _product(below[: middle[0]]), _product(below[middle[0] + 1 :]))
    out: list[Nested] = []
    for number, each in enumerate(below):
        head, rest = _inmost(each), below[number + 1 :]
        if rest and head in _BIG | _FUNCTIONS:
            taken = rest if head in _BIG else rest[:1]
            out.append(_applied(_nested(each), taken, head in _BIG))
            return _joined("U!times", out + [_nested(part) for part in rest[len(taken) :]])
        out.append(_nested(each))
    return _joined("U!times", out)


def _applied(head: Nested, arguments: list[Node], big: bool) -> Nested:
    label, below = head
    if big or arguments[0][2] != "GROUP" or arguments[0][5][0][2] != "SEP":
        parts = [_product(arguments) if len(arguments) > 1 else _nested(arguments[0])]
    else:
        parts = [part for _, part in _nested(arguments[0])[1]]
    if below:
        return _of(f"+!{below[0][1][0]}", head, *parts)
    if label == "O!int":
        parts += [("W!", []), ("W!", [])]
    return _of("F!" + label[2:] if label.startswith("V!") else label, *parts)


def _listed(kind: str, name: str, below: list[Node]) -> Nested:
    if kind == "FLOAT":
        return "N!" + ".".join(part[3].strip("`'") for part in below), []
    if kind == "TAB_ROW":
        rows = [_of("M!R!", *[_nested(cell) for cell in row[5]]) for row in below]
        return _of(f"M!M-{len(rows)}x{max(len(row[5]) for row in below)}", *rows)
    if name == "colon":
        return _of("F!:", *[_nested(each) for each in below])
    waiting, parts = list(below), []
    while waiting:  # they are nested to the right
        each = waiting.pop(0)
        if each[2:4] == (kind, name):
            waiting = list(each[5]) + waiting
        else:
            parts.append(_nested(each))
    related = all(each[0].partition("-")[0] in _RELATED for each in parts)
    return _of("O!form-seq" if related or name != "comma" else f"M!L-{len(parts)}", *parts)


def _bar(node: Node) -> bool:
    return _inmost(node) == "VERT"


def _inmost(node: Node) -> str:
    """The kind of a node without scripts, or of the base of one with them."""
    while node[2] == "SUBSUP":
        base = [each for each in node[5] if each[2] == "BASE" and each[5]]
        if not base:
            break
        node = base[0][5][0]
    return node[2]


@cache
def _symbol(name: str) -> Nested:
    face, quote, text = name.partition("`")
    latex = f"{_FACES.get(face, '')}{{{text[:-1]}}}" if quote else _NAMED.get(name, f"\\{name}")
    label = read_latex(latex).tree.labels[0]
    return f"V!{name}" if label.startswith(ERROR) else label, []


@cache
def _operator(name: str) -> str:
    return read_latex(f"a{_NAMED.get(name, chr(92) + name)} b").tree.labels[0]
