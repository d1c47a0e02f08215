"""Structural search at scale: size, build and speed of the index of system `tree` on many formulas.

The formulas are the distinct operator trees of the corpora arqmath1-formulas and mse-pages, then as many copies of them
with other letters as are wanted: in a copy every letter is replaced by another one throughout, frequent letters mostly
by frequent ones, so that each copy has letters as the real formulas have them. Copies share all paths with wildcards,
which flatters the vocabulary and lengthens the lists; the distinct real formulas alone are measured too.

Queries are formulas of the collection drawn at random, each expected to find itself first. Every figure is of one
process with one thread, wall-clock and CPU seconds.

With `--pya0`, the engine of Approach0 (package `pya0`) and the system index the same LaTeX of mse-pages, copies made in
the same way on the LaTeX, from the text to the saved index, and answer the same queries in turn in one process.
"""

from __future__ import annotations

import importlib
import json
import random
import re
import statistics
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from bench.table import Clock, Ratio, compared, in_turn, machine, options, save, show
from harness.collections.corpora import load_corpus
from harness.collections.corpus import Document
from harness.data.topics import Formula
from harness.formulas.opt.read import read_latex
from harness.formulas.trees import forest
from harness.formulas.trees.forest import Forest
from harness.systems.structural import formulas
from harness.systems.structural.index import PathIndex, write_path_index
from harness.systems.structural.tree import FormulaQuery, Structural

ROOT = Path(__file__).resolve().parent.parent
CORPORA = ("arqmath1-formulas", "mse-pages")
SEED = 7
QUERIES = 200
FEW = 20  # queries answered with the whole index read
TOP = 10
FIRST = (TOP, 1000)
SYSTEM = Structural()
_LETTER = re.compile(r"V!\w")
_TOKEN = re.compile(r"\\(?:begin|end|text\w*|mathrm|operatorname)\s*\{[^{}]*\}|\\[A-Za-z]+|\\.|([A-Za-z])", re.DOTALL)


def real() -> Forest:
    """The distinct trees of both corpora."""
    return forest.pack(dict.fromkeys(chain.from_iterable(_trees(name) for name in CORPORA)))


def _trees(name: str) -> Forest:
    return formulas.read(load_corpus(name), "opt").trees


def copies(trees: Forest, wanted: int) -> Forest:
    """The trees, and copies with other letters until there are enough."""
    rng = np.random.default_rng(SEED)
    letters = np.array([n for n, name in enumerate(trees.label_names) if _LETTER.fullmatch(name)])
    often = np.bincount(trees.labels, minlength=len(trees.label_names))[letters]
    letters, often = letters[np.argsort(-often, kind="stable")], np.sort(often)[::-1]
    labels, sizes = [trees.labels], np.diff(trees.offsets)
    while sum(map(len, labels)) // len(trees.labels) * len(trees) < wanted:
        other = np.arange(len(trees.label_names), dtype=np.uint32)
        drawn = letters[np.argsort(-(np.log(often + 1) + rng.gumbel(size=len(often))), kind="stable")]
        other[letters] = drawn
        labels.append(other[trees.labels])
    times = len(labels)
    offsets = np.concatenate(([0], np.cumsum(np.tile(sizes, times))))[: wanted + 1]
    nodes = int(offsets[-1])
    kept = (np.concatenate(labels)[:nodes], np.tile(trees.parents, times)[:nodes], np.tile(trees.edges, times)[:nodes])
    return Forest(trees.label_names, trees.edge_names, offsets, *kept)


def timed(work: Callable[[Any], Any], items: list[Any]) -> tuple[list[Any], np.ndarray]:
    """What the work gives for each item, and its seconds: shape (items, 2), wall-clock and CPU."""
    out, spent = [], []
    for item in items:
        begin = Clock.now()
        out.append(work(item))
        spent.append(Clock.now().since(begin))
    return out, np.array(spent)


def scale(name: str, trees: Forest) -> Iterator[tuple[str, str]]:
    """Rows of the table for one set of formulas."""
    begin = Clock.now()
    with tempfile.TemporaryDirectory() as folder:
        write_path_index(trees, SYSTEM.height, Path(folder))
        wall, cpu = Clock.now().since(begin)
        forest_folder = Path(folder) / "trees"
        forest_folder.mkdir()
        forest.write(trees, forest_folder)
        sizes = [sum(f.stat().st_size for f in at.glob("*") if f.is_file()) for at in (Path(folder), forest_folder)]
        index = PathIndex.load(Path(folder), forest.load(forest_folder), SYSTEM.height)
        yield "formulas", name
        yield "trees; nodes of a tree", f"{len(trees):,}; {len(trees.labels) / len(trees):.1f}"
        yield "distinct paths; paths of all trees", f"{len(index.path):,}; {len(index.posting):,}"
        yield "build, s: wall; CPU", f"{wall:.0f}; {cpu:.0f}"
        yield "index, MB; trees, MB", f"{sizes[0] / 1e6:.0f}; {sizes[1] / 1e6:.0f}"
        rng = np.random.default_rng(SEED)
        wanted = np.sort(rng.choice(len(trees), QUERIES, replace=False))
        asked = [FormulaQuery(trees[int(number)], index) for number in wanted]
        yield from speed(index, wanted, asked, [trees[int(number)] for number in wanted])


def speed(
    index: PathIndex, wanted: np.ndarray, asked: list[FormulaQuery], trees: list[Any]
) -> Iterator[tuple[str, str]]:
    """Rows about queries."""
    timed(SYSTEM.search, asked[:FEW])  # what is on the disk comes into memory
    _, spent = timed(lambda tree: SYSTEM.search(FormulaQuery(tree, index), 1), trees)
    rates = len(trees) / spent.sum(axis=0)
    yield "candidate stage and best formula, queries a second: wall; CPU", f"{rates[0]:.0f}; {rates[1]:.0f}"
    found, spent = timed(lambda tree: SYSTEM.search(FormulaQuery(tree, index)), trees)
    medians, slow = np.median(spent, axis=0) * 1e3, np.percentile(spent, 95, axis=0) * 1e3
    yield "whole query, median ms: wall; CPU", f"{medians[0]:.1f}; {medians[1]:.1f}"
    yield "whole query, 95th percentile ms: wall; CPU", f"{slow[0]:.1f}; {slow[1]:.1f}"
    first = sum(
        bool((scores[numbers == number] == scores.max()).any())
        for number, (numbers, scores) in zip(wanted, found, strict=True)
    )
    yield "queries that find themselves with the best score", f"{first} of {len(asked)}"


# ---- side by side with pya0 ---------------------------------------------------------------------------------------


def latex(wanted: int) -> list[str]:
    """Distinct LaTeX of mse-pages, and copies with other letters."""
    found = list(dict.fromkeys(f.latex for doc in load_corpus("mse-pages") for f in doc.formulas if f.latex))
    often = Counter(letter for text in found for letter in _TOKEN.findall(text) if letter)
    letters = [letter for letter, _ in often.most_common()]
    rng = random.Random(SEED)
    out = list(found)
    while len(out) < wanted:
        drawn = sorted(letters, key=lambda letter: -(np.log(often[letter]) - np.log(-np.log(rng.random()))))
        out += _renamed(found, dict(zip(letters, drawn, strict=True)))
    return list(dict.fromkeys(out))[:wanted]


def _renamed(texts: list[str], other: dict[str, str]) -> list[str]:
    return [_TOKEN.sub(lambda match: other[match[1]] if match[1] else match[0], text) for text in texts]


Answer = Callable[[str, int], list[str]]  # LaTeX and a number of results -> the first formulas, as numbers


def side_harness(texts: list[str], folder: Path) -> Answer:
    """System tree."""
    documents = (Document(str(n), formulas=(Formula(str(n), text),)) for n, text in enumerate(texts))
    formulas.write(documents, "opt", folder)
    known = formulas.Formulas.load(folder)
    write_path_index(known.trees, SYSTEM.height, folder)
    index = PathIndex.load(folder, known.trees, SYSTEM.height)

    def answer(text: str, first: int) -> list[str]:
        trees, scores = SYSTEM.search(FormulaQuery(read_latex(text).tree, index), first)
        best = np.lexsort((trees, -scores))[:first]  # a tree has at least one formula
        begin, end = known.first[trees[best]], known.first[trees[best] + 1]
        found = [known.document[a:b] for a, b in zip(begin.tolist(), end.tolist(), strict=True)]
        return [str(number) for number in np.concatenate(found)[:first].tolist()] if found else []

    return answer


def side_pya0(texts: list[str], folder: Path) -> Answer:
    """Approach0's engine, as its manual uses it."""
    pya0 = importlib.import_module("pya0")
    at = str(folder / "pya0")
    index = pya0.index_open(at, option="w")
    writer = pya0.index_writer(index)
    for number, text in enumerate(texts):
        pya0.writer_add_doc(writer, content=f"[imath]{text}[/imath]", url=str(number))
    pya0.writer_flush(writer)
    pya0.writer_close(writer)
    pya0.index_close(index)
    index = pya0.index_open(at, option="r")

    def answer(text: str, first: int) -> list[str]:
        reply = json.loads(pya0.search(index, [{"str": text, "type": "tex"}], verbose=False, topk=first))
        return [str(hit["docid"] - 1) for hit in reply.get("hits", [])]  # numbers from 1, in the order of writing

    return answer


SIDES: Mapping[str, Callable[[list[str], Path], Answer]] = {"mathir-harness": side_harness, "pya0": side_pya0}


def side_by_side(wanted: int, folder: Path, ratios: list[Ratio]) -> Iterator[tuple[str, ...]]:
    """Rows of the table of sides, which answer the same queries in turn; adds their ratios."""
    texts = latex(wanted)
    size = f"{len(texts):,} formulas"
    yield (
        size,
        "index, CPU s",
        "size, MB",
        *(f"queries a CPU second, first {first:,}" for first in FIRST),
        "itself first",
        f"itself in {TOP}",
    )
    answers, built, sizes = {}, {}, {}
    for name, side in SIDES.items():
        own = folder / name
        own.mkdir()
        begin = Clock.now()
        answers[name] = side(texts, own)
        built[name] = Clock.now().since(begin)[1]
        sizes[name] = sum(file.stat().st_size for file in own.rglob("*") if file.is_file())
    ours, theirs = SIDES
    ratios.append(Ratio(f"index from LaTeX, {size}", built[ours], built[theirs], theirs))
    asked = [(str(number), texts[number]) for number in random.Random(SEED).sample(range(len(texts)), QUERIES)]
    rates: dict[str, list[str]] = {name: [] for name in SIDES}
    found: dict[str, list[list[str]]] = {}
    for first in FIRST:
        sides = {name: partial(_answered, answer, asked, first) for name, answer in answers.items()}
        for search in sides.values():
            search()  # what is on the disk comes into memory
        spent = in_turn(sides)
        found = found or {name: side_.result for name, side_ in spent.items()}
        goal = 2.0 if first == TOP else None
        ratios.append(compared(f"search, first {first:,}, {size}", spent[ours].cpu, spent[theirs].cpu, theirs, goal))
        for name, side_ in spent.items():
            rates[name].append(f"{QUERIES / statistics.median(side_.cpu):.0f}")
    for name in SIDES:
        first_ = sum(docs[:1] == [number] for (number, _), docs in zip(asked, found[name], strict=True))
        among = sum(number in docs for (number, _), docs in zip(asked, found[name], strict=True))
        index = f"{built[name]:.0f}" if built[name] >= 10 else f"{built[name]:.2g}"
        numbers = index, f"{sizes[name] / 1e6:.0f}", *rates[name]
        yield (name, *numbers, f"{first_} of {QUERIES}", f"{among} of {QUERIES}")


def _answered(answer: Answer, asked: Sequence[tuple[str, str]], first: int) -> list[list[str]]:
    return [answer(text, first) for _, text in asked]


def main() -> None:
    """Print Markdown tables."""
    parser = options(__doc__, ratios=True)
    parser.add_argument("--formulas", type=int, default=1_000_000)
    parser.add_argument("--pya0", type=int, nargs="+", default=[], metavar="FORMULAS", help="side by side on so many")
    arguments = parser.parse_args()
    if not arguments.pya0:
        trees = real()
        sides = [list(scale("real", trees)), list(scale("real and copies", copies(trees, arguments.formulas)))]
        show([(a[0], a[1], b[1]) for a, b in zip(*sides, strict=True)], markdown=True)
        return
    ratios: list[Ratio] = []
    for wanted in arguments.pya0:
        with tempfile.TemporaryDirectory() as folder:
            show(list(side_by_side(wanted, Path(folder), ratios)), markdown=True)
        print()
    lines = [(each.work, f"{each.ratio:.2f}") for each in ratios]
    show([("work", "pya0 / harness"), *lines], markdown=True)
    print(f"\n{machine(('pya0',))}")
    if arguments.json:
        save(arguments.json, ratios, ("pya0",))


if __name__ == "__main__":
    main()
