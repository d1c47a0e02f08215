"""AMR: sentences in Penman notation, MathAMR's published topics, and the parsers that make such sentences.

Inversions are undone as `penman` does it with its model of AMR: `(a :ARG0-of b)` is the edge (b, `:ARG0`, a), so that
`:ARG0-of` and the inverse `:ARG0*` are never two names of one thing; relations that merely end in -of (`:consist-of`)
stay. Constants (`:quant 5`, `:op1 "Euler"`) are nodes of their own. Notation: Goodman, "Penman" (ACL 2020, demos);
parsers: github.com/IBM/transition-amr-parser, github.com/bjascob/amrlib.
"""

from __future__ import annotations

import csv
import importlib
import inspect
import io
import logging
import re
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

from harness.errors import HarnessError, format_error, suggestion
from harness.io.console import say
from harness.io.files import read_bytes
from harness.systems.mathamr.graphs.dependency import sentences
from harness.systems.mathamr.graphs.graph import (
    FORMULA,
    OPT,
    TEXT,
    Edge,
    Failure,
    FormulaNodes,
    Graph,
    Sentence,
    is_inverse,
)
from harness.systems.mathamr.graphs.posts import LIMIT, chunks, merge

DOCUMENT_MODEL = "doc-sen-conll-amr-seed42"
UNDECODED = "Penman decode error"
_WEIGHTS = "expected a path with the model's weights, which are not part of the package"
_Node = tuple[str | None, Sequence[tuple[str, Any]]]  # variable, branches: role (`/` is the concept's), target
Loaded = Callable[[Sequence[str]], list[str]]

_ALIGNMENT = re.compile(r"~(?:[a-z]\.?)?\d+(?:,\d+)*$")
_PART = re.compile(r":snt\d+$", re.IGNORECASE)
_SYMBOL = re.compile(r"([A-Z])\d+")  # a variable of an operator tree in the published file; the letter is the kind


def read_sentence(text: str) -> Sentence:
    """Returns the graph of one AMR in Penman notation.

    Raises
    ------
    HarnessError
        What is wrong, in one line; also a variable that is defined twice, a node without one, a role without a target,
        or text behind the graph.
    """
    return _sentence(_parsed(text), _label)


def read_sentences(text: str) -> list[Sentence]:
    """The graphs of a text that may hold several, each beginning a line; errors are those of `read_sentence`."""
    return [read_sentence(block) for block in _blocks(text)]


def read_topics(path: Path) -> Iterator[tuple[str, Graph | Failure]]:
    """The graphs of MathAMR's published topics (`results/mathamr_topics.tsv`): id and Penman, tab-separated, quoted.

    Each operator tree stands there behind `:math` beside a constant `MATH`, which becomes the placeholder; kinds of its
    symbols are identified by their variables, so `(V1 / x)` is `V!x`. There are no layout trees and no formula ids.

    Raises
    ------
    FormatError
        The file cannot be read, is not UTF-8, or has other columns.
    """
    rows = csv.reader(io.StringIO(_text(path), newline=""), delimiter="\t")
    number = 0
    try:
        for number, row in enumerate(rows, 1):
            if len(row) != 2:
                raise format_error(path, rows.line_num, f"{len(row)} columns, expected 2 (id, graph)")
            try:
                yield row[0], _topic(_sentence(_parsed(row[1]), _typed))
            except HarnessError as error:
                yield row[0], Failure(f"{path}: graph {number} ({row[0]})", UNDECODED, str(error))
    except csv.Error as error:
        raise format_error(path, rows.line_num, f"not tab-separated: {error}") from None


def transition_amr(model: str = DOCUMENT_MODEL) -> Loaded:
    """IBM's transition parser: texts with a sentence a line -> Penman, several graphs of a text below each other.

    A model whose name has `doc` reads a text as a document; then there is one graph a text, with `:same-as` or shared
    nodes for what corefers.

    Parameters
    ----------
    model : one of the package's names, whose weights it keeps in torch's cache, or the path of a checkpoint.

    Raises
    ------
    HarnessError
        The package or the weights are missing.
    """
    module = _package("transition_amr_parser.parse", "transition-neural-parser")
    make = module.AMRParser.from_checkpoint if Path(model).exists() else module.AMRParser.from_pretrained
    parser = _weights(model, lambda: make(model))
    document = any("doc" in name for name in (Path(model).name, Path(model).parent.parent.name))

    def parse(texts: Sequence[str]) -> list[str]:
        tokens = [[parser.tokenize(line)[0] for line in text.splitlines() if line.strip()] for text in texts]
        if document:
            found = parser.parse_docs(tokens)[0]
            return [_checked(each) for each in found]
        flat = parser.parse_sentences([sentence for sentences in tokens for sentence in sentences])[0]
        return _grouped([len(sentences) for sentences in tokens], flat)

    return parse


def amrlib(model: str) -> Loaded:
    """Returns a parser of amrlib: texts with a sentence a line -> Penman, the graphs of a text below each other.

    Parameters
    ----------
    model : folder of a sentence-to-graph model.

    Raises
    ------
    HarnessError
        The package or the weights are missing.
    """
    module = _package("amrlib", "amrlib")

    if not Path(model).is_dir():
        raise HarnessError(f"AMR model {model!r}: {_WEIGHTS}; there is no such folder")
    parser = _weights(model, lambda: module.load_stog_model(model_dir=model))

    def parse(texts: Sequence[str]) -> list[str]:
        lines = [[line for line in text.splitlines() if line.strip()] for text in texts]
        flat = parser.parse_sents([line for part in lines for line in part], add_metadata=False)
        return _grouped([len(part) for part in lines], flat)

    return parse


@dataclass(frozen=True)
class AMRParser:
    """A parser for `build`: texts with placeholders -> the graphs of their chunks, by a parser of AMR.

    A text is split into sentences by spaCy and read in chunks; a chunk of which the parser makes nothing, or no valid
    Penman, is left out (MathAMR+ thesis, section 3.1). How many of the latter there are is said.

    Parameters
    ----------
    package : `transition-amr` or `amrlib`.
    model : see `transition_amr` and `amrlib`.
    limit : tokens of a chunk.
    """

    package: str = "transition-amr"
    model: str = DOCUMENT_MODEL
    limit: int = LIMIT

    def __call__(self, texts: Sequence[str]) -> list[list[Sentence] | Failure]:
        """Returns the graphs of each text, or a `Failure` if the Penman of none of its chunks can be read.

        Raises
        ------
        HarnessError
            A package or the weights are missing.
        """
        _penman()  # its lack is no fault of a chunk
        parse = loaded(self.package, self.model)
        runs = [list(chunks(found, self.limit)) for found in sentences(texts)]
        penman = iter(parse(["\n".join(run) for text in runs for run in text]))
        out: list[list[Sentence] | Failure] = []
        lost: list[str] = []  # why chunks are left out of graphs
        for text in runs:
            found, reasons = _decoded([next(penman) for _ in text])
            out.append(found if found or not reasons else Failure("", UNDECODED, reasons[0]))
            lost += reasons if found else ()
        if lost:
            say(f"{self.package}: {len(lost)} of {sum(map(len, runs))} chunks left out, {UNDECODED}; first: {lost[0]}")
        return out


def _decoded(written: Sequence[str]) -> tuple[list[Sentence], list[str]]:
    """The graphs of a text's chunks, one each (several of a chunk below one root), and why others cannot be read."""
    graphs: list[Sentence] = []
    reasons: list[str] = []
    for each in written:
        try:
            found = read_sentences(each)
            graphs += [merge(found)] if len(found) > 1 and len(written) > 1 else found
        except HarnessError as error:
            reasons.append(str(error))
    return graphs, reasons


@lru_cache(1)
def loaded(package: str, model: str) -> Loaded:
    """Returns the parser of a package with a model of it, which takes seconds to load."""
    loaders = {"transition-amr": transition_amr, "amrlib": amrlib}
    if package not in loaders:
        raise HarnessError(f"AMR parser {package!r} is unknown; {suggestion(package, loaders)}")
    return loaders[package](model)


def _package(module: str, package: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        lacking = f" ({error})" if error.name and not module.startswith(error.name) else ""
        raise HarnessError(f"{package} is not installed{lacking}: pip install 'mathir-harness[amr]'") from None


def _weights(model: str, load: Callable[[], Any]) -> Any:  # noqa: ANN401 - of a package without types
    try:
        return load()
    except Exception as error:  # whatever the package makes of weights that are missing or broken
        reason = " ".join(str(error).split())[:150] or type(error).__name__
        raise HarnessError(f"AMR model {model!r}: {_WEIGHTS}; it cannot be loaded: {reason}") from None


def _checked(graph: str | None) -> str:
    return graph or ""


def _grouped(sizes: Sequence[int], flat: Sequence[str | None]) -> list[str]:
    """Returns the graphs of each text below each other."""
    graphs = iter(flat)
    return ["\n\n".join(_checked(next(graphs)) for _ in range(size)) for size in sizes]


def _penman() -> ModuleType:
    """Returns the package; it would warn of much that is no fault here."""
    try:
        penman = importlib.import_module("penman")
    except ImportError:
        raise HarnessError("penman is not installed: pip install 'mathir-harness[graphs]'") from None
    logging.getLogger("penman").setLevel(logging.CRITICAL)
    return penman


def _parsed(text: str) -> _Node:
    """Returns the tree that Penman's brackets make: (variable, [(role, target), ...])."""
    penman = _penman()
    # Comments go: behind a graph the package takes them for the beginning of another one.
    given = ["" if line.lstrip().startswith("#") else line for line in text.splitlines()]
    number = 0

    def counted() -> Generator[str, None, None]:
        nonlocal number
        for line in given:
            number += 1
            yield line.rstrip()

    lines = counted()
    try:
        trees = list(penman.iterparse(lines))
    except penman.PenmanError as error:
        place = f" at line {error.lineno}, column {error.offset + 1}" if getattr(error, "lineno", None) else ""
        raise HarnessError(f"{getattr(error, 'message', None) or type(error).__name__}{place}") from None
    except RecursionError:
        raise HarnessError("brackets are nested too deeply") from None
    if len(trees) != 1:
        raise HarnessError(f"{len(trees)} graphs, expected one")
    # The package stops without a word at what begins no graph, and then has not asked for all lines and their end.
    if inspect.getgeneratorstate(lines) != inspect.GEN_CLOSED:
        raise HarnessError(f"text behind the graph at line {number}")
    top: _Node = trees[0].node
    return top


def _label(_: str, concept: str | None) -> str:
    """Returns a node's label, empty without a concept."""
    return _constant(concept or "")


def _typed(variable: str, concept: str | None) -> str:
    """Returns the same in the published topics, where a symbol may be empty (`W!`, `E!`)."""
    symbol = _SYMBOL.fullmatch(variable)
    return (f"{symbol[1]}!" if symbol else "") + _constant(concept or "")


def _constant(atom: str) -> str:
    """Returns a concept or constant without alignment and quotes."""
    atom = _ALIGNMENT.sub("", atom)
    if len(atom) > 1 and atom[0] == atom[-1] == '"':
        return atom[1:-1].replace('\\"', '"').replace("\\\\", "\\")
    return atom


def _variables(top: _Node) -> dict[str, str | None]:
    """Returns the concept of each variable, in the order in which they are written."""
    concepts: dict[str, str | None] = {}
    waiting = [top]
    while waiting:
        variable, branches = waiting.pop()
        if variable is None:
            raise HarnessError("a node without a variable, expected (variable / concept)")
        for role, target in branches:
            if target is None and role != "/":
                raise HarnessError(f"role {role!r} of node {variable!r} has no target")
        found = [target for role, target in branches if role == "/"]
        if variable in concepts and found and concepts[variable] is not None:
            raise HarnessError(f"variable {variable!r} is defined twice")
        if found or variable not in concepts:
            concepts[variable] = found[0] if found else None
        waiting.extend(target for _, target in reversed(branches) if isinstance(target, tuple))
    return concepts


def _sentence(top: _Node, label: Callable[[str, str | None], str]) -> Sentence:
    """Returns the graph of a tree; nodes in the order in which they are written, which is preorder."""
    concepts = _variables(top)
    number: dict[str, int] = {}
    labels: list[str] = []
    edges: list[tuple[int, str, int]] = []
    parts: list[dict[int, None]] = []  # ordered sets
    # What is to be written, the node it hangs on, the role there, the part it is in (-1: none).
    waiting: list[tuple[Any, int, str, int]] = [(top, -1, "", -1)]
    while waiting:
        target, above, role, part = waiting.pop()
        branches: Any = ()
        node = len(labels)
        if isinstance(target, tuple):
            name, branches = target
        else:
            name = _ALIGNMENT.sub("", str(target))
        if name in number:
            node = number[name]
        elif name in concepts:
            number[name] = node
            labels.append(label(name, concepts[name]))
        else:
            labels.append(_constant(str(target)))
        if _PART.match(role):
            parts.append({})
            part = len(parts) - 1
        if part >= 0:
            parts[part][node] = None
        if above >= 0:
            edges.append((node, role[:-3], above) if is_inverse(role) else (above, role, node))
        below = [(_ALIGNMENT.sub("", branch), to) for branch, to in branches if branch != "/"]
        if any(_PART.match(branch) for branch, _ in below):
            # A node above sentences belongs to none.
            if part >= 0:
                parts[part].pop(node)
            part = -1
        waiting.extend((to, node, branch, part) for branch, to in reversed(below))
    return Sentence(tuple(labels), tuple(dict.fromkeys(edges)), 0, tuple(tuple(part) for part in parts if part))


def _topic(sentence: Sentence) -> Graph:
    """Returns a published topic with its trees as trees: placeholders instead of `MATH`, spans, relations of trees."""
    labels = list(sentence.labels)
    below: list[list[tuple[str, int]]] = [[] for _ in labels]
    for source, relation, target in sentence.edges:
        below[source].append((relation, target))
    roots = [(source, target) for source, relation, target in sentence.edges if relation == ":math"]
    kinds, edges = bytearray(len(labels)), list[Edge]()
    formulas: list[FormulaNodes] = []
    parts = [list(part) for part in sentence.parts or (tuple(range(len(labels))),)]
    taken: set[int] = set()
    for source, root in sorted(roots, key=lambda pair: pair[1]):
        end, waiting = root, [root]
        while waiting:
            end = max(end, node := waiting.pop())
            kinds[node] = OPT
            waiting.extend(target for _, target in below[node])
        beside = [n for _, n in below[source] if labels[n] == "MATH" and n < root and n not in taken]
        if beside:
            place = beside[-1]
        else:
            place = len(labels)
            labels.append("")
            kinds.append(FORMULA)
            edges.append((source, ":math", place))
            next((part for part in parts if root in part), parts[0]).append(place)
        taken.add(place)
        labels[place], kinds[place] = f"FORMULA_{len(formulas)}", FORMULA
        edges.append((place, ":opt", root))
        formulas.append(FormulaNodes("", place, (root, end + 1), (0, 0)))
    for source, relation, target in sentence.edges:
        if kinds[source] == OPT:
            edges.append((source, ":opt_" + relation.removeprefix(":op"), target))
        elif relation != ":math":
            edges.append((source, relation, target))
    kept = tuple(tuple(node for node in part if kinds[node] in (TEXT, FORMULA)) for part in parts)
    return Graph(tuple(labels), bytes(kinds), tuple(edges), sentence.root, tuple(p for p in kept if p), tuple(formulas))


def _blocks(text: str) -> Iterator[str]:
    """Yields the texts of several graphs, which end at the next `(` in the first column, a comment or an empty line."""
    lines: list[str] = []
    for line in [*text.split("\n"), ""]:
        comment = line.startswith("#")
        if lines and (not line.strip() or line.startswith("(") or comment):
            yield "\n".join(lines)
            lines = []
        if line.strip() and not comment:
            lines.append(line)


def _text(path: Path) -> str:
    data = read_bytes(path)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise format_error(path, line, f"byte 0x{data[error.start]:02x} is not UTF-8 text") from None
