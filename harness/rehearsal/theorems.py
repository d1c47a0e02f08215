"""Stand-ins for the Mathlib4 paper: declarations in the form of `mathlib-decls`, and its benchmark of 50 queries."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterator
from pathlib import Path

from harness.io.files import write_atomic
from harness.papers.mathlib4.readers import FORMS, GROUPS

KINDS = {"theorem": 58, "lemma": 20, "def": 14, "instance": 5, "class": 1, "structure": 1, "abbrev": 1}  # per cent
_NAMESPACES = ("Nat", "Int", "Finset", "Set", "Real", "Polynomial", "Group", "Ring", "Matrix", "Filter")
_NOUNS = ("add", "mul", "sub", "card", "sum", "prod", "map", "comap", "inter", "union", "order", "degree", "deriv")
_ENDS = ("comm", "assoc", "zero", "one", "le", "lt", "eq", "iff", "inj", "surj", "mono", "self", "left", "right")
_SYMBOLS = ("+", "*", "-", "≤", "<", "=", "∣", "∩", "∪", "→", "↔")


def declarations(count: int, seed: int) -> Iterator[dict[str, object]]:
    """Yields declarations: keys name, kind, module, line, signature, and of one in three doc."""
    rng = random.Random(f"declarations:{seed}")
    before: list[str] = ["Nat"]
    for number in range(count):
        namespace, kind = rng.choice(_NAMESPACES), rng.choices([*KINDS], [*KINDS.values()])[0]
        stem = f"{rng.choice(_NOUNS)}_{rng.choice(_NOUNS)}_{rng.choice(_ENDS)}"
        name = f"{namespace}.{stem}_{number}"
        left, right = rng.choice(_SYMBOLS), rng.choice(_SYMBOLS)
        said = f"(a b c : {namespace}) (h : {rng.choice(before)} a) : a {left} b {right} c"
        row: dict[str, object] = {
            "name": name,
            "kind": kind,
            "module": f"Mathlib.{namespace}.Basic",
            "line": 10 + number,
            "signature": f"{kind} {stem}_{number} {said}",
        }
        if rng.random() < 0.33:
            row["doc"] = f"The {stem.replace('_', ' ')} law of `{namespace}`: $a {left} b$ and $c$."
        before = [*before[-20:], name]
        yield row


def benchmark(count: int, seed: int) -> list[dict[str, object]]:
    """Returns the groups of the benchmark, with labels for declarations of the same count and seed."""
    rng = random.Random(f"benchmark:{seed}")
    proved = [row for row in declarations(count, seed) if row["kind"] in ("theorem", "lemma")]
    forms = [form for form, number in FORMS.items() for _ in range(number)]
    natural, others = forms[:GROUPS], forms[GROUPS:]
    groups: list[dict[str, object]] = []
    for number in range(GROUPS):
        labelled = rng.sample(proved, min(8, len(proved)))
        words = str(labelled[0]["name"]).partition(".")[2].replace("_", " ")
        asked = {
            "natural description": f"If a, b and c are given, then {words}.",
            "latex formula": "If $a \\leq b$ and $b \\leq c$, then $a \\leq c$",
            "theorem name": f"The {words} theorem",
            "lean 4 term": str(labelled[0]["signature"]).partition(" : ")[2],
        }
        mine = [natural[number], *others[number::GROUPS]]
        groups.append(
            {
                "group": str(number + 1),
                "queries": [{"form": form, "query": asked[form]} for form in mine],
                "theorems": {str(row["name"]): label for row, label in zip(labelled, (2, 1, 1, 1, 0, 0, 0, 0))},  # noqa: B905
            }
        )
    return groups


def write(folder: Path, count: int, seed: int) -> tuple[Path, Path]:
    """Writes the declarations and the benchmark; returns their files. The same arguments give the same bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    declared, asked = folder / "mathlib-decls-2025-09-10.jsonl.gz", folder / "benchmark.json"
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in declarations(count, seed))
    write_atomic(declared, gzip.compress(lines.encode(), 6, mtime=0))
    write_atomic(asked, json.dumps(benchmark(count, seed), ensure_ascii=False, indent=1) + "\n")
    return declared, asked
