"""Compares the SABER builder with golden records of the authors' code: `python tests/tools/saber_golden.py FILE`.

FILE is JSON, or JSON compressed by xz, with two parts. `selection`: `problems` (each with `tags`, `idea`, and the
authors' `tags_kept` and `words`), `frequency` (node -> share of the tags), `pairs` (two positions, Best-Match Average,
Jaccard). `swiss`: tournaments with `rounds` (`order`: the candidates after the shuffle; `scores` before the round;
`results`: two candidates by name, and 1, 2 or 0 for the preferred one) and the final `scores`.

Prints how many records of each kind are equal; exits with 1 if one differs. Similarities are equal to nine decimals.
"""

from __future__ import annotations

import json
import lzma
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from harness.papers.saber.ontology import information, most_specific
from harness.papers.saber.pairs import Thresholds, features, idea_words, row_of_tiles
from harness.papers.saber.swiss import next_pairs

BLOCK = 512
ALL = Thresholds(1e-7, 1e-7)  # pairs below both have the similarity 0


class Equal(NamedTuple):
    """Number of equal records of one kind, of how many."""

    kind: str
    equal: int
    records: int


def read(path: Path) -> dict[str, Any]:
    """Reads the records of a file."""
    data = path.read_bytes()
    return dict(json.loads(lzma.decompress(data) if path.suffix == ".xz" else data))


def compare(records: Mapping[str, Any]) -> list[Equal]:
    """Counts the equal records of each kind."""
    return [*_selection(records["selection"]), *_swiss(records["swiss"])]


def _selection(found: Mapping[str, Any]) -> Iterator[Equal]:
    problems, pairs = found["problems"], found["pairs"]
    tags = [most_specific(each["tags"]) for each in problems]
    yield _equal("tags kept", [list(mine) == each["tags_kept"] for mine, each in zip(tags, problems, strict=True)])
    yield _equal("words of ideas", [sorted(idea_words(each["idea"])) == sorted(each["words"]) for each in problems])
    info = information(tags)
    nodes = info.frequency.keys() | found["frequency"].keys()
    mine = {node: info.frequency.get(node, 0) / info.tags for node in nodes}
    yield _equal("frequencies", [abs(mine[node] - found["frequency"].get(node, 0)) < 1e-12 for node in nodes])
    of_all = features(tags, [each["idea"] for each in problems], info)
    wanted = np.array([min(i, j) * len(problems) + max(i, j) for i, j, _, _ in pairs])
    values = np.array([[float(i == j)] * 2 for i, j, _, _ in pairs])
    for start in range(0, len(problems), BLOCK):
        row = row_of_tiles(of_all, start, BLOCK, ALL)
        keys = row.left.astype(np.int64) * len(problems) + row.right
        at = np.minimum(np.searchsorted(keys, wanted), max(len(keys) - 1, 0))
        hit = np.flatnonzero(keys[at] == wanted) if len(keys) else np.empty(0, np.int64)
        values[hit] = np.column_stack([row.bma, row.jaccard])[at[hit]]
    close = np.abs(values - np.array([[bma, jaccard] for _, _, bma, jaccard in pairs])) < 1e-9
    yield _equal("best-match averages", close[:, 0].tolist())
    yield _equal("Jaccard similarities", close[:, 1].tolist())


def _swiss(tournaments: list[Mapping[str, Any]]) -> Iterator[Equal]:
    scores_of_rounds, pairs_of_rounds, final = [], [], []
    for each in tournaments:
        names = each["rounds"][0]["order"]
        scores, met = dict.fromkeys(names, 0), {name: set[str]() for name in names}
        for played in each["rounds"]:
            scores_of_rounds.append(scores == played["scores"])
            mine = sorted(sorted(pair) for pair in next_pairs(played["order"], scores, met))
            pairs_of_rounds.append(mine == sorted([a, b] for a, b, _ in played["results"]))
            for a, b, preferred in played["results"]:
                met[a].add(b)
                met[b].add(a)
                if preferred:
                    scores[a if preferred == 1 else b] += 1
        final.append(scores == each["scores"])
    yield _equal("scores before a round", scores_of_rounds)
    yield _equal("pairs of a round", pairs_of_rounds)
    yield _equal("scores at the end", final)


def _equal(kind: str, which: list[bool]) -> Equal:
    return Equal(kind, sum(which), len(which))


def main() -> int:
    """Prints the counts."""
    if len(sys.argv) != 2:
        sys.stderr.write("usage: python tests/tools/saber_golden.py FILE\n")
        return 2
    counts = compare(read(Path(sys.argv[1])))
    for each in counts:
        sys.stdout.write(f"{each.kind}: {each.equal:,} of {each.records:,} equal\n")
    return int(any(each.equal < each.records for each in counts))


if __name__ == "__main__":
    sys.exit(main())
