"""Many trees packed in a few arrays: 7 bytes for a node and 8 bytes for a tree, to hold millions of formulas."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.errors import HarnessError, format_error
from harness.formulas.trees.tree import Tree, tangent_string
from harness.io.arrays import ArrayFile, mapped, ranges, release
from harness.io.files import write_atomic

WIDEST = 1 << 16  # nodes of a tree
EDGES = 1 << 8  # distinct edges of a forest
NAMES = "names.json"
_CHECKED = 1 << 20  # nodes checked at a time
_ARRAYS = {"offsets": np.int64, "labels": np.uint32, "parents": np.uint16, "edges": np.uint8}


@dataclass(frozen=True)
class Forest:
    """Packed trees, accessed by number.

    Attributes
    ----------
    label_names, edge_names : names of the numbers in `labels` and `edges`, in order of first use.
    offsets : (trees + 1,) int64; the nodes of tree i are `offsets[i]` to `offsets[i + 1] - 1`.
    labels : (nodes,) uint32, number of the label.
    parents : (nodes,) uint16, number of the parent within its tree; 0 for a root.
    edges : (nodes,) uint8, number of the edge from the parent.
    """

    label_names: tuple[str, ...]
    edge_names: tuple[str, ...]
    offsets: NDArray[np.int64]
    labels: NDArray[np.uint32]
    parents: NDArray[np.uint16]
    edges: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, number: int) -> Tree:
        if not 0 <= number < len(self):
            raise IndexError(f"tree {number} of {len(self)}")
        nodes = slice(int(self.offsets[number]), int(self.offsets[number + 1]))
        labels = tuple([self.label_names[i] for i in self.labels[nodes].tolist()])
        edges = tuple([self.edge_names[i] for i in self.edges[nodes].tolist()])
        return Tree(labels, (-1, *self.parents[nodes].tolist()[1:]), edges)

    def __iter__(self) -> Iterator[Tree]:
        return (self[number] for number in range(len(self)))

    @property
    def size(self) -> int:
        """Bytes of the arrays, without the names."""
        return sum(each.nbytes for each in (self.offsets, self.labels, self.parents, self.edges))


def pack(trees: Iterable[Tree]) -> Forest:
    """Packs trees, in order.

    Raises
    ------
    HarnessError
        A tree has more than 65,536 nodes, or the trees have more than 256 distinct edges.
    """
    columns = [array(kind) for kind in "qIHB"]
    names = _packed(trees, columns)
    return Forest(*names, *map(np.array, columns, _ARRAYS.values()))


def write(trees: Iterable[Tree], folder: Path) -> int:
    """Packs trees and writes them to an empty folder one by one; returns their number.

    Raises
    ------
    HarnessError
        See `pack`.
    """
    with ExitStack() as files:
        columns = [files.enter_context(ArrayFile(folder / f"{name}.npy", kind)) for name, kind in _ARRAYS.items()]
        labels, edges = _packed(trees, columns)
    write_atomic(folder / NAMES, json.dumps({"labels": labels, "edges": edges}))
    return len(columns[0]) - 1


def _packed(trees: Iterable[Tree], columns: Sequence[Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Appends trees to columns, in memory or in files; returns the names of labels and of edges."""
    offsets, labels, parents, edges = columns
    label_numbers: dict[str, int] = {}
    edge_numbers: dict[str, int] = {}
    offsets.extend((0,))
    for number, tree in enumerate(trees):
        if len(tree) > WIDEST:
            raise HarnessError(f"tree {number}: {len(tree):,} nodes, at most {WIDEST:,} can be stored: {_start(tree)}")
        labels.extend([label_numbers.setdefault(label, len(label_numbers)) for label in tree.labels])
        parents.extend((0, *tree.parents[1:]))
        codes = [edge_numbers.setdefault(edge, len(edge_numbers)) for edge in tree.edges]
        if len(edge_numbers) > EDGES:
            raise HarnessError(f"tree {number}: more than {EDGES} distinct edges, the last {list(edge_numbers)[-1]!r}")
        edges.extend(codes)
        offsets.extend((len(labels),))
    return tuple(label_numbers), tuple(edge_numbers)


def _start(tree: Tree) -> str:
    """Returns the first nodes of a tree as Tangent's string, for a message."""
    return tangent_string(Tree(tree.labels[:5], tree.parents[:5], tree.edges[:5])) + " ..."


def load(folder: Path) -> Forest:
    """Loads a forest that `write` wrote; the arrays are memory-mapped.

    Raises
    ------
    FormatError
        A file is missing, has another format, or is inconsistent with the others.
    """
    arrays: dict[str, Any] = {}
    for name, kind in _ARRAYS.items():
        path = folder / f"{name}.npy"
        try:
            arrays[name] = mapped(path)
        except (OSError, ValueError, EOFError) as error:
            raise format_error(path, 0, f"no array of a forest: {error}") from None
        if arrays[name].dtype != kind or arrays[name].ndim != 1:
            raise format_error(path, 0, f"expected one dimension of {np.dtype(kind)}")
    try:
        names = json.loads((folder / NAMES).read_text(encoding="utf-8"))
        label_names, edge_names = tuple(names["labels"]), tuple(names["edges"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise format_error(folder / NAMES, 0, f"no names of a forest: {error}") from None
    _check_arrays(folder, len(label_names), len(edge_names), arrays)
    return Forest(label_names, edge_names, **arrays)


def _check_arrays(folder: Path, labels: int, edges: int, arrays: dict[str, Any]) -> None:
    offsets, nodes = arrays["offsets"], len(arrays["labels"])
    if not len(offsets) or offsets[0] != 0 or offsets[-1] != nodes or (offsets[1:] <= offsets[:-1]).any():
        raise format_error(folder / "offsets.npy", 0, f"expected rising numbers from 0 to {nodes}")
    below = {"labels": f" below {labels}", "edges": f" below {edges}", "parents": ""}
    for name, limit in below.items():
        if len(arrays[name]) != nodes:
            raise format_error(folder / f"{name}.npy", 0, f"expected {nodes} numbers{limit}")
    for first, last in ranges(offsets, _CHECKED):
        some = slice(int(offsets[first]), int(offsets[last]))
        for name, number in (("labels", labels), ("edges", edges)):
            if int(arrays[name][some].max()) >= number:
                raise format_error(folder / f"{name}.npy", 0, f"expected {nodes} numbers below {number}")
        size = np.diff(offsets[first : last + 1])
        place = np.arange(some.stop - some.start) - np.repeat(np.cumsum(size) - size, size)
        if (arrays["parents"][some] >= np.maximum(place, 1)).any():
            raise format_error(folder / "parents.npy", 0, "expected numbers of earlier nodes of the same tree")
    release(*arrays.values())
