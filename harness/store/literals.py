"""What the text of a module names in its strings: files, folders, modules and environment variables."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

_SEPARATORS = re.compile(r"[/\\]")
_WORDS = re.compile(r"[\w-]+")
_TOKENS = re.compile(r"[^\s'\"`,;|<>()=:/\\]+")  # of a text such as a command line
_LISTS = frozenset({"glob", "iglob", "rglob", "iterdir", "listdir", "scandir"})
_MAGIC = re.compile(r"[*?\[]")
_LONGEST = 4096  # characters of a path
_MAY_SEE = re.compile(r"glob|iterdir|listdir|scandir|walk|environ|getenv")


@dataclass(frozen=True)
class Literals:
    """Names in the strings of a module, without its docstrings and the names of files that it opens to write.

    Attributes
    ----------
    names : parts of paths: `data` and `table.tsv` of `data/table.tsv`; and of longer texts, words with a suffix.
    words : all words, which may be names of modules.
    paths : whole strings that may be paths or patterns.
    variables : environment variables that are read by name.
    lists : lines that list files.
    unseen : lines that read the environment in a way that does not tell which variable.
    """

    names: frozenset[str] = frozenset()
    words: frozenset[str] = frozenset()
    paths: frozenset[str] = frozenset()
    variables: frozenset[str] = frozenset()
    lists: tuple[int, ...] = ()
    unseen: tuple[int, ...] = ()

    @property
    def patterns(self) -> frozenset[str]:
        """Patterns of files that name a part of them, such as `*.tsv`."""
        return frozenset(path for path in self.paths if _MAGIC.search(path) and _WORDS.search(path))


def literals(text: str) -> Literals:
    """Returns what the strings of a module's text name; nothing for invalid Python.

    Examples
    --------
    >>> found = literals('''import os
    ... def table(scale=os.getenv("SCALE")):
    ...     "Reads notes.txt, if there is out."
    ...     return open("data/table.tsv")''')
    >>> sorted(found.names), sorted(found.variables)
    (['SCALE', 'data', 'table.tsv'], ['SCALE'])
    """
    try:
        nodes = list(ast.walk(ast.parse(text)))
    except (SyntaxError, ValueError, RecursionError):
        return Literals()
    skipped = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}  # docstrings
    skipped |= {id(inner) for node in nodes if isinstance(node, ast.Call) for inner in _written(node)}
    texts = (node for node in nodes if isinstance(node, ast.Constant) and id(node) not in skipped)
    strings = {node.value for node in texts if isinstance(node.value, str)}
    paths = {each for each in strings if 0 < len(each) < _LONGEST and "\n" not in each and "\0" not in each}
    names = {part for path in paths for part in _SEPARATORS.split(path)} - {"", ".", ".."}
    names |= {token for each in strings for token in _TOKENS.findall(each) if "." in token}
    words = {word for each in strings for word in _WORDS.findall(each)}
    variables: set[str] = set()
    unseen: tuple[int, ...] = ()
    lists: tuple[int, ...] = ()
    if _MAY_SEE.search(text):
        variables, unseen = _environment(nodes)
        lists = tuple(sorted(node.lineno for node in nodes if isinstance(node, ast.Call) and _is_listing(node)))
    return Literals(frozenset(names), frozenset(words), frozenset(paths), frozenset(variables), lists, unseen)


def _written(call: ast.Call) -> Iterator[ast.AST]:
    """Yields the parts of a call that name a file to be written, such as a log."""
    match call:
        case ast.Call(func=ast.Name("open"), args=[name, ast.Constant(str(mode)), *_]) if set(mode) & set("wax"):
            yield from ast.walk(name)
        case ast.Call(func=ast.Attribute(value=name, attr="open"), args=[ast.Constant(str(mode)), *_]) if set(
            mode
        ) & set("wax"):
            yield from ast.walk(name)
        case ast.Call(func=ast.Attribute(value=name, attr="write_text" | "write_bytes")):
            yield from ast.walk(name)


def _is_listing(call: ast.Call) -> bool:
    """Returns whether a call lists files, by the name of its function; `walk` is also that of many trees."""
    match call.func:
        case ast.Attribute(value=ast.Name("os"), attr="walk" | "fwalk"):
            return True
        case ast.Attribute(value=ast.Call(func=ast.Name("Path")), attr="walk"):
            return True
        case ast.Attribute(attr=name) | ast.Name(name):
            return name in _LISTS
    return False


def _environment(nodes: list[ast.AST]) -> tuple[set[str], tuple[int, ...]]:
    """Returns the variables that a module reads, and the lines that do not tell which one they read."""
    constants = {
        target.id: node.value
        for node in nodes
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    read, unseen = set[str](), set[int]()
    clear: set[int] = set()  # `environ` whose use is clear
    for node in nodes:
        for environ, name in _uses(node):
            clear.add(id(environ))
            match constants.get(name.id, name) if isinstance(name, ast.Name) else name:
                case None:
                    pass
                case ast.Constant(str(known)):
                    read.add(known)
                case _:
                    unseen.add(environ.lineno)
    rest = (node for node in nodes if isinstance(node, ast.expr) and _is_environ(node) and id(node) not in clear)
    unseen |= {node.lineno for node in rest}
    return read, tuple(sorted(unseen))


def _uses(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr | None]]:
    """Yields each clear use of the environment, and the name that it reads: None if it only sets a variable."""
    match node:
        case ast.Subscript(value=environ, slice=name) if _is_environ(environ):
            yield environ, name if isinstance(node.ctx, ast.Load) else None
        case ast.Call(func=ast.Attribute(value=environ, attr="get" | "pop"), args=[name, *_]) if _is_environ(environ):
            yield environ, name
        case ast.Call(func=ast.Attribute(value=environ, attr="update" | "setdefault")) if _is_environ(environ):
            yield environ, None
        case ast.Call(func=ast.Attribute(attr="getenv") | ast.Name("getenv") as function, args=[name, *_]):
            yield function, name
        case ast.Compare(left=name, ops=[ast.In() | ast.NotIn()], comparators=[environ]) if _is_environ(environ):
            yield environ, name


def _is_environ(node: ast.expr) -> bool:
    match node:
        case ast.Attribute(value=ast.Name("os"), attr="environ" | "environb") | ast.Name("environ"):
            return True
    return False
