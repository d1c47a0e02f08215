"""CPU seconds to start: `import harness` and `harness --help` in fresh processes, the least of five.

Fails if `import harness` or `harness --help` loads scipy.stats, pandas or matplotlib, or if `harness --help` needs
half a CPU second. Prints one table; `--markdown` for bench/results.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys

REPEATS = 5
LIMIT = 0.5  # CPU seconds for `harness --help`
HEAVY = ("scipy.stats", "pandas", "matplotlib")
HELP = "import sys; sys.argv = ['harness', '--help']; from harness.cli.program import main; main()"
STARTS = {
    "python alone": "pass",
    "import harness": "import harness",
    "harness --help": HELP,
}


def cpu_seconds(code: str) -> float:
    """User and system time of one fresh interpreter that runs `code`, without its children."""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, code
    return usage.ru_utime + usage.ru_stime


def loaded(code: str) -> list[str]:
    """The heavy modules that `code` leaves loaded."""
    after = f"print(*(name for name in {HEAVY} if name in sys.modules), file=sys.stderr)"
    program = f"import atexit, sys; atexit.register(lambda: {after}); {code}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return done.stderr.split()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--markdown", action="store_true", help="print a Markdown table")
    markdown = parser.parse_args().markdown
    seconds = {name: min(cpu_seconds(code) for _ in range(REPEATS)) for name, code in STARTS.items()}
    heavy = {name: loaded(code) for name, code in STARTS.items()}
    rows = [("start", "CPU seconds", "heavy modules")]
    rows += [(name, f"{seconds[name]:.3f}", " ".join(heavy[name]) or "none") for name in STARTS]
    if markdown:
        print("| " + " | ".join(rows[0]) + " |\n|---|---|---|")
        for row in rows[1:]:
            print("| " + " | ".join(row) + " |")
    else:
        for first, second, third in rows:
            print(f"{first:<16}{second:>12}  {third}")
    print(f"\nthe least of {REPEATS}; Python {platform.python_version()}, {platform.machine()}")
    assert not any(heavy.values()), heavy
    assert seconds["harness --help"] < LIMIT, seconds


if __name__ == "__main__":
    main()
