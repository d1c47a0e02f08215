"""Disturb the commands at random moments; each must give what it gives undisturbed, or say what is wrong.

Every command runs twice undisturbed. In a case it is disturbed, then the same command is said again without a fault,
and `harness store gc` once:

- the disturbed command was killed, or gave the same results, or ended with exit code 2 and one clear line;
- the second command has exit code 0 and all files are the same as undisturbed, but for times and durations;
- nothing that was finished is lost or made again: artifacts, fetched files, runs, submissions;
- no other file or folder is left, in the cache, among runs, reports and submissions, and among temporary files.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from .disturb import ENDS, FAULTS, Bench, WrongError
from .world import COMMANDS, World

WRONG = "WRONG"
Counts = dict[tuple[str, str], Counter[str]]


def table(counts: Counts) -> str:
    """The counts as Markdown."""
    ends = [end for end in (*ENDS, WRONG) if end == WRONG or any(end in found for found in counts.values())]
    rows = [["fault", "command", "cases", *ends]]
    rows += [
        [fault, name, str(found.total()), *(str(found[end] or "") if end != WRONG else str(found[end]) for end in ends)]
        for (fault, name), found in counts.items()
    ]
    total = sum(counts.values(), Counter[str]())
    rows.append(["all", "", str(total.total()), *(str(total[end]) for end in ends)])
    rows.insert(1, ["---", "---", *["---:"] * (len(ends) + 1)])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def main() -> int:
    """Run the cases; 1 if any of them ended badly."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__.partition("\n")[0])
    parser.add_argument("--cases", type=int, default=200, help="of kills")
    parser.add_argument("--others", type=int, default=30, help="of each other fault")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--faults", default=",".join(FAULTS), help=f"of {', '.join(FAULTS)}")
    parser.add_argument("--commands", default=",".join(COMMANDS), help=f"of {', '.join(COMMANDS)}")
    parser.add_argument("--only", type=int, help="the number of a case: it alone, and its folder is kept")
    parser.add_argument("--once", action="store_true", help="run each command only once undisturbed")
    chosen = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="faults-"))
    counts: Counts = {}
    begin = time.monotonic()
    try:
        world = World(root)
        names = chosen.commands.split(",")
        world.build(any("{models}" in word for name in names for word in COMMANDS[name].words))
        bench = Bench(world, 1 if chosen.once else 2)
        for fault in chosen.faults.split(","):
            cases = chosen.cases if fault == "kill" else chosen.others
            from machine_faults import unmountable  # which `.world` finds

            if fault in ("disk", "read-only") and (why := unmountable()):
                _print(f"{fault}: skipped: {why}")
                continue
            # All cases of a command together, so that its undisturbed run is made when it is needed.
            for number in sorted(range(cases), key=lambda number: (number % len(names), number)):
                name = names[number % len(names)]
                if chosen.only not in (None, number):
                    continue
                try:
                    end = FAULTS[fault](bench, name, random.Random(f"{chosen.seed} {fault} {number}"))
                except WrongError as error:
                    end = WRONG
                    _print(f"{fault} {number}: {name}: {error}")
                counts.setdefault((fault, name), Counter())[end] += 1
    except KeyboardInterrupt:
        _print("stopped: the table counts the cases until now")
    finally:
        if chosen.only is None:
            shutil.rmtree(root, ignore_errors=True)
        else:
            _print(str(root))
    _print(f"\n{table(counts)}")
    bad = sum(found[WRONG] for found in counts.values())
    total = sum(found.total() for found in counts.values())
    _print(f"{bad} of {total} cases ended badly, {time.monotonic() - begin:.0f} s")
    return 1 if bad else 0


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
