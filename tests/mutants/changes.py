"""Single changes of a module's syntax tree that a test should notice."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

_SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.And: ast.Or,
    ast.Or: ast.And,
}
_UNREAD = ("annotation", "returns", "decorator_list", "type_params")


@dataclass(frozen=True)
class Change:
    """A place in a module and what is changed there: its line, a text for people, and the module's text after it."""

    line: int
    says: str
    text: str


def places(source: str) -> list[tuple[int, int]]:
    """Lists the changes of a module by number (node, variant): the same list for the same source.

    Annotations, decorators, docstrings, errors' messages and statements outside functions are left alone.
    """
    return [(at, variant) for at, node in enumerate(_nodes(ast.parse(source))) for variant in range(_variants(node))]


def change(source: str, at: int, variant: int) -> Change:
    """Makes one of the changes that `places` lists."""
    tree = ast.parse(source)
    node = next(node for number, node in enumerate(_nodes(tree)) if number == at)
    line = getattr(node, "lineno", 0)
    says = _apply(node, variant)
    return Change(line, says, ast.unparse(ast.fix_missing_locations(tree)) + "\n")


def _nodes(tree: ast.AST, inside: bool = False) -> Iterator[ast.AST]:
    """Yields the nodes inside functions, parents first."""
    for name, value in ast.iter_fields(tree):
        if name in _UNREAD or (isinstance(tree, ast.Raise) and name == "exc"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or isinstance(child, ast.JoinedStr):
                continue
            if inside:
                yield child
            yield from _nodes(child, inside or isinstance(child, ast.FunctionDef))


def _variants(node: ast.AST) -> int:
    """Counts the changes that are possible at a node."""
    match node:
        case ast.Compare(ops=operators):
            return sum(type(operator) in _SWAPPED for operator in operators)
        case ast.BinOp(op=operator) | ast.BoolOp(op=operator) | ast.AugAssign(op=operator):
            return int(type(operator) in _SWAPPED)
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            return 1
        case ast.Constant(value=bool() | int() | float()):
            return 1
        case ast.If() | ast.IfExp() | ast.While() | ast.comprehension(ifs=[_, *_]):
            return 1
        case ast.Return(value=ast.expr()) | ast.Raise() | ast.Continue() | ast.Break():
            return 1
        case ast.Expr(value=ast.Call() | ast.Yield()):
            return 1
    return 0


def _apply(node: ast.AST, variant: int) -> str:
    """Changes a node in place and says what was done."""
    before = ast.unparse(node)
    match node:
        case ast.Compare():
            at = [n for n, operator in enumerate(node.ops) if type(operator) in _SWAPPED][variant]
            node.ops[at] = _SWAPPED[type(node.ops[at])]()  # type: ignore[call-overload]
        case ast.BinOp() | ast.BoolOp() | ast.AugAssign():
            node.op = _SWAPPED[type(node.op)]()  # type: ignore[assignment]
        case ast.UnaryOp():
            node.op = ast.UAdd() if isinstance(node.op, ast.USub) else node.op
            if isinstance(node.op, ast.Not):
                node.operand = ast.UnaryOp(ast.Not(), node.operand)
        case ast.Constant(value=bool()):
            node.value = not node.value
        case ast.Constant():
            node.value = node.value + 1  # type: ignore[operator]
        case ast.If() | ast.IfExp() | ast.While():
            node.test = ast.UnaryOp(ast.Not(), node.test)
        case ast.comprehension():
            node.ifs = []
        case ast.Return():
            node.value = ast.Constant(None)
        case _:  # a statement that does something: nothing
            node.__class__ = ast.Pass
            node.__dict__ = {"lineno": node.lineno, "col_offset": node.col_offset}  # type: ignore[attr-defined]
            return f"{before.splitlines()[0]} -> pass"
    return f"{before.splitlines()[0]} -> {ast.unparse(node).splitlines()[0]}"
