"""Single changes of a module's syntax tree that a test should notice."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

_PAIRS = (
    *((ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.Eq, ast.NotEq), (ast.Is, ast.IsNot), (ast.In, ast.NotIn)),
    *((ast.Add, ast.Sub), (ast.Mult, ast.Div), (ast.And, ast.Or)),
)
_SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    **{one: other for pair in _PAIRS for one, other in (pair, pair[::-1])},
    ast.FloorDiv: ast.Mult,
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
    return [
        (at, variant) for at, node in enumerate(_nodes(ast.parse(source))) for variant in range(len(_changes(node)))
    ]


def change(source: str, at: int, variant: int) -> Change:
    """Makes one of the changes that `places` lists."""
    tree = ast.parse(source)
    node = next(node for number, node in enumerate(_nodes(tree)) if number == at)
    line, before = getattr(node, "lineno", 0), ast.unparse(node)
    _changes(node)[variant]()
    says = f"{before.splitlines()[0]} -> {ast.unparse(node).splitlines()[0]}"
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


def _changes(node: ast.AST) -> list[Callable[[], None]]:
    """Lists the changes that are possible at a node; each is made in place."""
    match node:
        case ast.Compare(ops=ops):
            swaps = ((at, _SWAPPED.get(type(operator))) for at, operator in enumerate(ops))
            return [partial(ops.__setitem__, at, swapped()) for at, swapped in swaps if swapped]
        case ast.BinOp(op=operator) | ast.BoolOp(op=operator) | ast.AugAssign(op=operator):
            swapped = _SWAPPED.get(type(operator))
            return [partial(setattr, node, "op", swapped())] if swapped else []
        case ast.UnaryOp(op=ast.USub()):
            return [partial(setattr, node, "op", ast.UAdd())]
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return [partial(setattr, node, "operand", ast.UnaryOp(ast.Not(), operand))]
        case ast.Constant(value=bool() | int() | float() as value):
            return [partial(setattr, node, "value", not value if isinstance(value, bool) else value + 1)]
        case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
            return [partial(setattr, node, "test", ast.UnaryOp(ast.Not(), test))]
        case ast.comprehension(ifs=[_, *_]):
            return [partial(setattr, node, "ifs", [])]
        case ast.Return(value=ast.expr()):
            return [partial(setattr, node, "value", ast.Constant(None))]
        case ast.Raise() | ast.Continue() | ast.Break() | ast.Expr(value=ast.Call() | ast.Yield()):
            return [partial(_drop, node)]
    return []


def _drop(node: ast.AST) -> None:
    """Makes a statement that does something do nothing."""
    node.__class__ = ast.Pass
    node.__dict__ = {"lineno": node.lineno, "col_offset": node.col_offset}  # type: ignore[attr-defined]
