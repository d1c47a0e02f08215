"""A small paper over the mini collections, whose runs `harness reproduce make=true` makes, and systems that fail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from harness.papers.cells import HEADER

SCORED = {
    "protocol": "arqmath-task1",
    "measures": {"ndcg": "nDCG", "p10": "P@10"},
    "collections": {"c1": {"collection": "mini-task1", "edition": "official"}},
}
SINGLE = {"one: overlap": {"system": "overlap"}, "two: bm25": {"system": "bm25"}}
BOTH = {"both": {"system": "fusion-rrf", "set": {"k": 7}, "inputs": list(SINGLE)}}
HUB = {"hub": {"system": "hub-encoder"}}
ABSENT = {**HUB, "asked": {"system": "hand-encoder"}}
FAILS = {"fails": {"system": "failing"}, "with it": {"system": "fusion-rrf", "inputs": ["one: overlap", "fails"]}}
# A system that does what a file says, and fails if there is none.
FAILING = """
import os
import time
from pathlib import Path

from harness.systems.baselines import Overlap

class Failing(Overlap):
    def __call__(self, request):
        told = Path("told")
        what = told.read_text() if told.exists() else ""
        if what == "wait":
            Path("waits").write_text(f"{os.getpid()}\\n")
        while what == "wait" and told.exists():
            time.sleep(0.02)
        if what != "pass":
            raise ValueError("as told")
        return super().__call__(request)
"""
_FAILING = {"title": "F", "_target_": "failing.Failing", "name": "failing", "depth": 10}


def paper_files(rows: Mapping[str, object], values: Mapping[str, str] = {}, **more: object) -> dict[str, str]:
    """Returns the files of a paper `own`, by their paths: one table, one value of nDCG and P@10 for each row.

    `values`: row -> printed nDCG; 0.123 for the others. `more`: further keys of the configuration.
    """
    listed = {"corpus": "mini-answers", "collections": {"c1": "mini-task1"}, "tables": {"1": dict(rows)}}
    content = {"key": "own", "title": "O", "state": "blocked: nobody has its runs", "scored": SCORED}
    printed = [("1", row, "ndcg", values.get(row, "0.123"), "single") for row in rows]
    printed += [("1", row, "p10", "0.3", "single") for row in rows]
    return {
        "conf/paper/own.yaml": yaml.safe_dump({**content, "available": listed, **more}, sort_keys=False),
        "conf/paper/cells/own.csv": cells_file(printed),
        "conf/system/failing.yaml": yaml.safe_dump(_FAILING),
        "conf/system/hub-encoder.yaml": yaml.safe_dump(_encoder("nobody/nothing-to-find", "hub-encoder")),
        "conf/system/hand-encoder.yaml": yaml.safe_dump(_encoder("compubert", "hand-encoder")),
        "failing.py": FAILING,
    }


def _encoder(model: str, name: str) -> dict[str, object]:
    return {"title": "E", "defaults": ["bi-encoder-minilm", "_self_"], "model": model, "name": name}


def cells_file(cells: Sequence[tuple[str, str, str, str, str]], group: str = "") -> str:
    """Returns a file of cells: (table, row, metric, value, aggregate) of each."""
    lines = [",".join(HEADER)]
    lines += [
        f"own,{table},t,{row},{group},c1,task1,,{metric},{how},{value},,,0," for table, row, metric, value, how in cells
    ]
    return "\n".join(lines) + "\n"


def lay(root: Path, files: Mapping[str, str]) -> None:
    """Writes files below a folder."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
