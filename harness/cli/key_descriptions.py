"""Meanings of keys: comments of a YAML file, and documented parameters of a class, read without importing it."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

from harness.errors import one_of
from harness.io import config

_ABOVE = Path(__file__).parents[2]  # the folder of the package
_SECTION = re.compile(r"^(Attributes|Parameters)\n-+\n(.*?)(?=^\w[\w ]*\n-+\n|\Z)", re.MULTILINE | re.DOTALL)
_SEE = re.compile(r"(?:see|as in) `(harness\.[\w.]+)`")  # a meaning that another class or function gives
_CONSTANT = re.compile(r"one of `([A-Z][A-Z_]*)`")  # which the module of the class has
_ENTRY = re.compile(r"^(\w+(?:, \w+)*) : (.*(?:\n[ \t]+.*)*)", re.MULTILINE)


@dataclass(frozen=True)
class Setting:
    """A parameter of a class: its default as written in the code, and its documentation."""

    default: str = ""
    says: str = ""


def comments(group: str, name: str, inside: Sequence[str] = ()) -> dict[str, str]:
    """Returns the comments behind the keys of a configuration and its bases; see `file_comments`.

    Examples
    --------
    >>> comments("system", "bm25")["max_share"]
    'words in a larger share of the documents are ignored'
    """
    paths = config.files(group, name)
    by_key = {key: comment for path in paths for key, comment in file_comments(path, inside).items()}
    own = file_comments(paths[-1], ("variants", name, *inside)) if paths[-1].stem != name else {}
    return by_key | own


def file_comments(path: Path, inside: Sequence[str] = ()) -> dict[str, str]:
    """Returns the comments behind the keys of a YAML file.

    Parameters
    ----------
    inside : keys that lead to a mapping within the file; by default the keys at the top.
    """
    text = path.read_text(encoding="utf-8")
    node, lines = yaml.compose(text, yaml.CSafeLoader), text.splitlines()
    for name in inside:
        pairs = node.value if isinstance(node, yaml.MappingNode) else ()
        node = next((value for key, value in pairs if key.value == name), None)
    by_key = {}
    for key, value in node.value if isinstance(node, yaml.MappingNode) else ():
        last = value if value.end_mark.line == key.start_mark.line else key
        behind = lines[key.start_mark.line][last.end_mark.column :].lstrip(" :")
        if behind.startswith("#"):
            by_key[str(key.value)] = behind.lstrip("# ")
    return by_key


@cache
def settings_of(target: str) -> dict[str, Setting]:
    """Returns the parameters of a class or function of the harness, those of its bases first.

    The code is parsed, not imported: torch alone would take seconds.

    Examples
    --------
    >>> settings_of("harness.systems.baselines.Shuffle")["depth"].default
    '1000'
    """
    module, _, name = target.rpartition(".")
    tree = _tree(module)
    if tree is None:
        return {}
    settings = _settings(tree, module, name)
    return {key: Setting(each.default, _listed(each.says, tree)) for key, each in settings.items()}


def _settings(tree: ast.Module, module: str, name: str) -> dict[str, Setting]:
    node = next((each for each in tree.body if getattr(each, "name", "") == name), None)
    if isinstance(node, ast.FunctionDef):
        return _documented(_arguments(node.args), node)
    if not isinstance(node, ast.ClassDef):
        return {}
    inherited: dict[str, Setting] = {}
    for base in node.bases:
        inherited |= settings_of(_full_name(base, tree, module))
    maker = next((each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"), None)
    if maker is not None:
        return _documented(_arguments(maker.args), node, maker)
    own = {
        each.target.id: _default(each.value)
        for each in node.body
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
        if not each.target.id.startswith("_") and "ClassVar" not in ast.unparse(each.annotation)
    }
    return inherited | _documented(own, node)


@cache
def _tree(module: str) -> ast.Module | None:
    if not module.startswith("harness."):
        return None
    path = _ABOVE / Path(*module.split("."))
    files = [path.with_suffix(".py"), path / "__init__.py"]
    file = next((each for each in files if each.is_file()), None)
    return None if file is None else ast.parse(file.read_bytes())


def _full_name(base: ast.expr, tree: ast.Module, module: str) -> str:
    """Returns the dotted name of a base class: imported from another module of the harness, or defined in the file."""
    name = ast.unparse(base).partition("[")[0]
    first, _, rest = name.partition(".")
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                if first == (alias.asname or alias.name):
                    return ".".join(filter(None, (node.module, alias.name, rest)))
    return f"{module}.{name}"


def _default(value: ast.expr | None) -> str:
    """Returns the default of a field as code: `{}` for `field(default_factory=dict)`."""
    if isinstance(value, ast.Call) and ast.unparse(value.func) == "field":
        given = {each.arg: each.value for each in value.keywords}
        if "default_factory" in given:
            made = ast.unparse(given["default_factory"])
            return {"dict": "{}", "list": "[]", "tuple": "()"}.get(made, f"{made}()")
        value = given.get("default")
    return "" if value is None else ast.unparse(value)


def _arguments(arguments: ast.arguments) -> dict[str, str]:
    plain = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(plain) - len(arguments.defaults)) + list(arguments.defaults)
    pairs = [*zip(plain, defaults, strict=True), *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)]
    return {each.arg: ast.unparse(value) if value else "" for each, value in pairs if each.arg != "self"}


def _documented(parameters: dict[str, str], *nodes: ast.ClassDef | ast.FunctionDef) -> dict[str, Setting]:
    says: dict[str, str] = {}
    for node in nodes:
        for section in _SECTION.finditer(ast.get_docstring(node) or ""):
            for names, text in _ENTRY.findall(section[2]):
                says |= dict.fromkeys(names.split(", "), " ".join(text.split()).removesuffix("."))
    return {name: Setting(default, _resolved(name, says.get(name, ""))) for name, default in parameters.items()}


def _listed(text: str, tree: ast.Module) -> str:
    """Returns a meaning with the values themselves in place of the name of a constant that has them.

    Examples
    --------
    >>> _listed("one of `WAYS`; fast", ast.parse("WAYS = ('a', 'b', 'c')"))
    '`a`, `b` or `c`; fast'
    """

    def values(constant: re.Match[str]) -> str:
        for each in tree.body:
            targets = each.targets if isinstance(each, ast.Assign) else [getattr(each, "target", None)]
            if constant[1] in {getattr(target, "id", None) for target in targets}:
                value = getattr(each, "value", None)
                held = value.keys if isinstance(value, ast.Dict) else getattr(value, "elts", [])
                names = [
                    f"`{one.value}`" for one in held if isinstance(one, ast.Constant) and isinstance(one.value, str)
                ]
                if names and len(names) == len(held):
                    return one_of(names)
        return constant[0]

    return _CONSTANT.sub(values, text)


def _resolved(name: str, text: str) -> str:
    """Returns the meaning of a parameter, from the class or function that it refers to if that has the parameter."""
    other = _SEE.fullmatch(text)
    setting = settings_of(other[1]).get(name) if other else None
    return setting.says if setting and setting.says else text
