"""Numba or C for the kernels: the candidate stage of the formula search in both, and the time until it can be used.

Both sides find the candidates of the same queries in the index of generated trees; results are compared. Numba's side
is the loop of `candidates.c` written for numba. Times of the first call are of a new process each: without a cache,
with the cache that numba has written, and with the library in C. Needs numba.
"""

from __future__ import annotations

import argparse
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.formulas.trees import forest
from harness.formulas.trees.tree import Nested, build
from harness.systems.structural.index import OFTEN, RANGE, Index, Terms, write
from harness.systems.structural.tree import Query

Array = npt.NDArray[Any]
TREES, QUERIES, LIMIT, BUDGET, ROUNDS = 100_000, 200, 1000, 150_000, 5


def jitted(cache: bool) -> Callable[..., int]:
    """The candidate stage for numba, without pruning of blocks that are left out whole."""
    import numba

    @numba.njit(cache=cache, boundscheck=False)
    def search(
        ranges: Array,
        sizes: Array,
        postings: Array,
        block: Array,
        block_end: Array,
        at: Array,
        value: Array,
        count: Array,
        weight: Array,
        asked: Array,
        least: float,
        limit: int,
        found: Array,
        dice: Array,
        total: Array,
    ) -> int:
        left = np.zeros(len(value) + 1)
        for i in range(len(value) - 1, -1, -1):
            left[i] = left[i + 1] + value[i] * count[i]
        seen = np.zeros(total.size, np.bool_)
        each = np.zeros(OFTEN + 1)
        length, threshold = 0, -1.0
        for number in range((len(weight) + total.size - 1) // total.size):
            some = False
            for i in range(len(value)):
                if block[i] == block_end[i] or ranges[block[i]] != number:
                    continue
                begin = at[i]
                at[i] += sizes[block[i]] + 1
                block[i] += 1
                closed = left[i] * (1 + 1e-6) < threshold * (asked + least)
                if closed and not some:
                    continue
                for n in range(OFTEN + 1):
                    each[n] = value[i] * min(n, count[i])
                if closed:
                    for n in range(begin, at[i]):
                        tree = postings[n] >> 4
                        if total[tree] > 0:
                            total[tree] += each[postings[n] & 15]
                else:
                    some = True
                    for n in range(begin, at[i]):
                        tree = postings[n] >> 4
                        total[tree] += each[postings[n] & 15]
                        seen[tree] = True
            last = (number + 1) * total.size >= len(weight)
            if not some and not last:
                continue
            first = number * total.size
            for tree in range(min(total.size, len(weight) - first)):
                if not seen[tree]:
                    continue
                its = total[tree] / np.float64(np.float32(asked) + weight[first + tree])
                total[tree] = 0
                seen[tree] = False
                if its > threshold:
                    found[length] = first + tree
                    dice[length] = its
                    length += 1
            if length > limit and (length >= 2 * limit or last):
                threshold = np.sort(dice[:length])[length - limit]
                equal = limit - (dice[:length] > threshold).sum()
                kept = 0
                for i in range(length):
                    if dice[i] < threshold:
                        continue
                    if dice[i] == threshold:
                        equal -= 1
                        if equal < 0:
                            continue
                    found[kept] = found[i]
                    dice[kept] = dice[i]
                    kept += 1
                length = kept
        return length

    return search


def trees(number: int) -> forest.Forest:
    """Random operator trees."""
    rng = random.Random(7)

    def nested(size: int) -> Nested:
        parts: list[tuple[str, Nested]] = []
        left = size - 1
        while left > 0:
            part = rng.randint(1, left)
            parts.append((str(len(parts)), nested(part)))
            left -= part
        label = f"V!{rng.choice('abcdefghxyz')}" if not parts else rng.choice(("U!plus", "U!times", "O!minus", "O!SUP"))
        return label, parts

    return forest.pack(build(nested(rng.randint(3, 40))) for _ in range(number))


def numba_side(index: Index, cache: bool) -> Callable[[Terms], Array]:
    """A function from a query's terms to its candidates."""
    search = jitted(cache)
    total, least = np.zeros(RANGE), float(index.weight.min())

    def candidates(terms: Terms) -> Array:
        known = np.flatnonzero(terms.place >= 0)
        often = index.often(terms.place[known])
        order = np.lexsort((known, often))
        asked = known[order[: max(1, int(np.searchsorted(np.cumsum(often[order]), BUDGET, "right")))]]
        place = terms.place[asked]
        begins = [np.where(place > 0, ends[place - 1], 0) for ends in (index.blocks, index.end)]
        room = min(len(index.trees), 2 * LIMIT + RANGE)
        found, dice = np.empty(room, np.int64), np.empty(room)
        number = search(
            *(index.range, index.size, index.posting, begins[0], index.blocks[place], begins[1]),
            *(terms.value[asked], terms.count[asked], index.weight, terms.weight, least, LIMIT, found, dice, total),
        )
        return found[:number]

    return candidates


def first_call(side: str, folder: Path) -> float:
    """Seconds of CPU time that the first search takes in a new process, beyond reading the index."""
    command = [sys.executable, "-m", "bench.kernels", "--first", side, "--folder", str(folder)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def load(folder: Path) -> tuple[Index, list[Terms]]:
    """The index, and the terms of the queries."""
    index = Index.load(folder, forest.load(folder / "trees"), 2)
    drawn = np.random.default_rng(1).choice(len(index.trees), QUERIES, replace=False)
    asked = [Query(index.trees[int(number)], index).terms for number in drawn]
    # Numba's side does not read the table of larger numbers.
    return index, [replace(terms, count=np.minimum(terms.count, OFTEN)) for terms in asked]


def main() -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.first:
        index, asked = load(arguments.folder)
        begin = time.process_time()
        if arguments.first == "C":
            index.candidates(asked[0], LIMIT, BUDGET)
        else:
            numba_side(index, arguments.first == "numba with cache")(asked[0])
        print(time.process_time() - begin)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made = trees(TREES)
        write(made, 2, folder)
        (folder / "trees").mkdir()
        forest.save(made, folder / "trees")
        index, asked = load(folder)
        by_numba = numba_side(index, True)
        sides = {"C": lambda terms: index.candidates(terms, LIMIT, BUDGET), "numba with cache": by_numba}
        assert all(sides["C"](terms).tolist() == by_numba(terms).tolist() for terms in asked)
        spent: dict[str, list[float]] = {side: [] for side in sides}
        for _ in range(ROUNDS):
            for side, search in sides.items():
                begin = time.process_time()
                for terms in asked:
                    search(terms)
                spent[side].append(time.process_time() - begin)
        print("| side | queries a second of CPU time | first search in a new process, CPU s |\n|---|---|---|")
        for side in ("C", "numba with cache", "numba without cache"):
            rate = f"{QUERIES / statistics.median(spent[side]):.0f}" if side in spent else ""
            print(f"| {side} | {rate} | {statistics.median(first_call(side, folder) for _ in range(3)):.3f} |")


if __name__ == "__main__":
    main()
