"""What verifying the store costs: seconds of the checks, and of the run that they are part of, in one process.

    python bench/store.py [--markdown]

Each system is run twice: the first run fills the store, the second reads it. `checks` are the seconds that the second
run spends in `store.damage` with nothing verified before; `code` those for the digest of all code behind it. The files
are in the system's cache, which is the dearest case: the less reading costs, the more checking shows. Fails if the
checks are 3 % of a run or more. The last table has the speeds of checksums in memory.
"""

from __future__ import annotations

import argparse
import hashlib
import tempfile
import time
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import xxhash

from harness.experiments.produce import make
from harness.experiments.task import corpus_ids, task
from harness.store import artefacts, code
from harness.systems.build import load_system

RUNS = (
    ("bm25", "arqmath-1-task1", "mse-pages"),
    ("structural", "arqmath-1-task2", "mse-formulas"),
)
LIMIT = 0.03
REPEATS = 3


def timed(call: Callable[[], Any]) -> float:
    """Seconds of a call."""
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def measured(system: str, collection_name: str, corpus_name: str, folder: Path) -> tuple[str, float, float, float, int]:
    """System, seconds of a run that finds all in the store, of its checks, of its digest; bytes that are checked."""
    bed = task(collection_name, corpus_name)
    spent = [0.0]
    read: dict[Path, int] = {}
    damage = artefacts.damage

    def checked(folder: Path, kind: str, name: str = "") -> str:
        begin = time.perf_counter()
        found = damage(folder, kind, name)
        spent[0] += time.perf_counter() - begin
        read[folder] = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        return found

    def run() -> None:
        assert bed.corpus is not None
        corpus_ids(bed.corpus)
        make(system, bed, runs=folder, reuse=False)

    run()
    artefacts.damage = checked
    best = (float("inf"), 0.0, 0.0)
    try:
        for _ in range(REPEATS):
            spent[0] = 0.0
            artefacts.VERIFIED.clear()
            code.forget()
            seconds = timed(run)
            code.forget()
            best = min(best, (seconds, spent[0], timed(lambda: code.of(load_system(system).module))))
    finally:
        artefacts.damage = damage
    return system, *best, sum(read.values())


def speeds() -> list[tuple[str, float]]:
    """GB a second of checksums, over 256 MiB in memory."""
    data = bytes(range(256)) * (1 << 20)
    kinds: dict[str, Callable[[bytes], Any]] = {
        "XXH3, 128 bits": xxhash.xxh3_128_digest,
        "CRC-32 (zlib)": zlib.crc32,
        "SHA-256": lambda block: hashlib.sha256(block).digest(),
        "BLAKE2b": lambda block: hashlib.blake2b(block).digest(),
    }
    return [(name, len(data) / 1e9 / min(timed(partial(f, data)) for _ in range(3))) for name, f in kinds.items()]


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--markdown", action="store_true", help="print Markdown tables")
    line = "| {} |" if parser.parse_args().markdown else "{}"
    with tempfile.TemporaryDirectory() as folder:
        rows = [measured(*entry, Path(folder)) for entry in RUNS]
    print(line.format(" | ".join(("system", "run, s", "checks, s", "share of the run", "MiB checked", "code, s"))))
    print(line.format(" | ".join(["---"] * 6)))
    for system, seconds, checks, digest, size in rows:
        cells = (
            system,
            f"{seconds:.2f}",
            f"{checks:.4f}",
            f"{checks / seconds:.2%}",
            f"{size / 2**20:.1f}",
            f"{digest:.3f}",
        )
        print(line.format(" | ".join(cells)))
    print()
    print(line.format("checksum | GB/s"))
    print(line.format("--- | ---"))
    for name, speed in speeds():
        print(line.format(f"{name} | {speed:.1f}"))
    assert all(checks < LIMIT * seconds for _, seconds, checks, _, _ in rows), rows


if __name__ == "__main__":
    main()
