"""Memory and speed of streaming the posts of ARQMath, on generated files of 25,000 to 200,000 posts.

A post is some 1,200 characters of HTML with five formulas; one in three is a question. Each file is read in a process
of its own, whose peak of resident memory is what the system says, less that of a process that imports the same
and reads nothing. Prints one table; `--markdown` for bench/results, `--posts N` for another largest size.
"""

from __future__ import annotations

import argparse
import platform
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from html import escape
from pathlib import Path
from xml.sax.saxutils import quoteattr

from harness.collections.corpora import reader
from harness.collections.corpus import Corpus
from harness.collections.readers.arqmath import rows

ROOT = Path(__file__).resolve().parent.parent
STEMS = ("algebra", "ring", "limit", "group", "field", "prime", "series", "matrix", "sum", "proof")
WORDS = [stem + end for stem in STEMS for end in ("", "s", "ic")]
FORMULAS = [r"x^2+1", r"\int_0^1 f(x)\,dx", r"\sum_{n=1}^\infty \frac{1}{n^2}", r"a < b", r"\alpha", r"n \to \infty"]
READ = """
import sys, time
from pathlib import Path
from bench.posts import corpus
start = time.process_time()
count = sum(1 for _ in corpus(Path(sys.argv[1]))) if len(sys.argv) > 1 else 0
spent = time.process_time() - start
status = Path("/proc/self/status").read_text()  # not getrusage: its maximum is inherited from the parent
peak = next(int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmHWM"))
print(count, spent, peak)
"""


def corpus(path: Path) -> Corpus:
    """A file of posts as a corpus."""
    return Corpus("posts", "Generated posts", "CC0", path, reader=reader("arqmath-posts"))


def text(rng: random.Random, words: int, formula: Iterator[int]) -> str:
    """HTML with a formula every thirty words."""
    out = []
    for at in range(words):
        out.append(rng.choice(WORDS))
        if at % 30 == 15:
            latex = escape(rng.choice(FORMULAS), quote=False)
            out.append(f'<span class="math-container" id="{next(formula)}">${latex}$</span>')
    return "<p>" + " ".join(out) + "</p>\n"


def write(path: Path, posts: int, seed: int = 0) -> None:
    """A file of `posts` posts in the organisers' form."""
    rng = random.Random(seed)
    formula = iter(range(1, 1 << 40))
    questions: list[int] = []
    with path.open("w", encoding="utf-8") as stream:
        stream.write('<?xml version="1.0" encoding="utf-8"?>\n<posts>\n')
        for post in range(1, posts + 1):
            body = quoteattr(text(rng, rng.randint(60, 240), formula))
            if not questions or rng.random() < 1 / 3:
                title = quoteattr(" ".join(rng.choices(WORDS, k=10)))
                kind = f'PostTypeId="1" Title={title} Tags="&lt;calculus&gt;&lt;limits&gt;"'
                questions.append(post)
            else:
                kind = f'PostTypeId="2" ParentId="{rng.choice(questions[-1000:])}"'
            stream.write(f'  <row Id="{post}" {kind} CreationDate="2015-01-01" Score="1" Body={body} />\n')
        stream.write("</posts>\n")


def measure(path: Path | None) -> tuple[int, float, float]:
    """Documents, CPU seconds and peak memory in MiB of a process that streams a file (or nothing)."""
    arguments = [str(path)] if path else []
    done = subprocess.run(
        [sys.executable, "-c", READ, *arguments], cwd=ROOT, capture_output=True, text=True, check=True
    )
    count, spent, peak = done.stdout.split()
    return int(count), float(spent), float(peak)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--markdown", action="store_true", help="print a Markdown table")
    parser.add_argument("--posts", type=int, default=200_000, help="posts of the largest file")
    arguments = parser.parse_args()
    base = measure(None)[2]
    table = [("posts", "answers", "file, MB", "CPU seconds", "posts/s", "peak memory, MiB", "above import, MiB")]
    with tempfile.TemporaryDirectory() as folder:
        for posts in (arguments.posts // 8, arguments.posts // 4, arguments.posts // 2, arguments.posts):
            path = Path(folder) / "Posts.xml"
            write(path, posts)
            assert sum(1 for _ in rows(path)) == posts
            count, spent, peak = measure(path)
            size = path.stat().st_size / 1e6
            shown = (f"{posts / spent:,.0f}", f"{peak:.1f}", f"{peak - base:.1f}")
            table.append((f"{posts:,}", f"{count:,}", f"{size:.0f}", f"{spent:.1f}", *shown))
    if arguments.markdown:
        print("| " + " | ".join(table[0]) + " |\n|" + "---|" * len(table[0]))
        for row in table[1:]:
            print("| " + " | ".join(row) + " |")
    else:
        for row in table:
            print("  ".join(field.rjust(17) for field in row))
    print(f"\none core; Python {platform.python_version()}, {platform.machine()}")


if __name__ == "__main__":
    main()
