"""Conversion of LaTeX to trees by LaTeXML, the program that made the official formulas of ARQMath.

Requires Perl and LaTeXML (`apt-get install latexml`). One process converts a batch of formulas: it loads LaTeXML once
and converts formulas in forked copies of itself, so that no formula can affect another. A formula that exceeds the time
limit is stopped without affecting the others. LaTeX is untrusted: commands that read, write or load files are disabled,
LaTeXML may open only its own package definitions, and memory is limited. Results are kept in the cache folder.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate
from pathlib import Path

from harness.errors import HarnessError
from harness.formulas.mathml.read import read_content, read_presentation
from harness.formulas.trees.tree import ERROR, ParsedFormula, failed
from harness.io import staging_names
from harness.io.console import progress
from harness.io.files import cache_root, sha256

INSTALL = "apt-get install latexml"
PRELOAD = ("LaTeX.pool", "article.cls", "amsmath.sty", "amssymb.sty")
# Commands that access files or load packages; they could reach even files that LaTeXML may open.
REFUSED = (
    *("input", "@input", "@@input", "@iinput", "ltx@input", "InputIfFileExists", "IfFileExists", "include", "@include"),
    *("openin", "openout", "read", "write", "usepackage", "RequirePackage", "documentclass", "LoadClass", "special"),
    *("includegraphics", "bibliography", "lx@bibliography", "verbatiminput", "lstinputlisting"),
)
SECONDS = 10  # for one formula
BATCH = 100  # formulas for one process
START = 120  # seconds for loading LaTeXML, even on a busy machine
_MEMORY = 2 << 30  # bytes of address space for one process
_DEPTH = 200  # maximum nesting of braces and \left
_LENGTH = 100_000  # maximum characters of a formula
_READERS = {"slt": read_presentation, "opt": read_content}
# Characters of newer versions of LaTeXML -> those of the official formulas: minus, double bar.
_SIGNS = str.maketrans({"\u2212": "-", "\u2016": "\u2225"})
_SHARE = re.compile(r"<m:share\b[^>]*/>")  # the official formulas do not repeat the middle of `a = b = c`
# Environments for use within a formula; LaTeXML treats one at the beginning of a formula as a display of its own.
_WITHIN = re.compile(r"\A\s*\\begin\s*\{(?:aligned|alignedat|gathered)\}")
# Failures that may be temporary; such formulas are not cached and converted again the next time.
_PASSING = frozenset(("timeout", "crash"))
_DRIVER = Path(__file__).with_name("latexml.pl")


@dataclass(frozen=True, slots=True)
class Markup:
    """LaTeXML's output for a formula.

    Attributes
    ----------
    presentation, content : Presentation and Content MathML, one `math` element each; "" if there is none. The lines of
        an alignment become rows of a table in the former, and a sequence of formulas in the latter.
    reason : LaTeXML's first error; "" if there was none.
    """

    presentation: str
    content: str
    reason: str = ""


def missing() -> list[str]:
    """Returns what is missing to run LaTeXML, as `what: command`; empty if nothing is."""
    try:
        version()
    except HarnessError as error:
        return [str(error)]
    return []


def version() -> str:
    """Returns LaTeXML's version, such as 0.8.7. Raises HarnessError if it is not installed."""
    installed_version = _version(shutil.which("perl"), os.environ.get("PERL5LIB"))
    if not installed_version:
        raise HarnessError(f"LaTeXML is not installed: {INSTALL}")
    return installed_version


@cache
def _version(perl: str | None, library: str | None) -> str:
    if perl is None:
        return ""
    command = [perl, "-MLaTeXML", "-e", "print $LaTeXML::VERSION"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=START, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def convert(latex: Sequence[str], *, seconds: int = SECONDS, workers: int = 1) -> list[Markup]:
    """Converts formulas with LaTeXML, in order, or takes them from the cache.

    Parameters
    ----------
    latex : formulas without delimiters.
    seconds : time limit for one formula.
    workers : number of parallel processes.

    Raises
    ------
    HarnessError
        LaTeXML is not installed or does not start, or the cache cannot be used.
    """
    prefix = f"{version()} {sha256(_DRIVER.read_bytes())} {PRELOAD} {REFUSED}"
    clean = {each: _WITHIN.sub(r"\\relax\g<0>", each.encode("utf-8", "replace").decode()) for each in latex}
    keys = {each: sha256(f"{prefix}\n{text}".encode()) for each, text in clean.items()}
    out = {each: Markup("", "", reason) for each in clean if (reason := _refused(each))}
    path = cache_root() / "latexml" / "formulas.sqlite"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(path, timeout=START)) as database:
            database.execute("CREATE TABLE IF NOT EXISTS formulas (key TEXT PRIMARY KEY, markup TEXT NOT NULL)")
            for each in clean.keys() - out.keys():
                row = database.execute("SELECT markup FROM formulas WHERE key = ?", (keys[each],)).fetchone()
                if row is not None:
                    out[each] = Markup(*json.loads(row[0]))
            left = [each for each in clean if each not in out]
            with progress("LaTeXML, formulas", len(left)) as bar:
                for batch, markups in _batches(left, clean, seconds, workers):
                    out |= zip(batch, markups, strict=True)
                    rows = [
                        (keys[each], json.dumps([markup.presentation, markup.content, markup.reason]))
                        for each, markup in zip(batch, markups, strict=True)
                        if markup.reason not in _PASSING
                    ]
                    with database:
                        database.executemany("INSERT OR REPLACE INTO formulas VALUES (?, ?)", rows)
                    bar.add(len(batch))
    except (sqlite3.Error, OSError, ValueError, TypeError) as error:
        raise HarnessError(
            f"{path}: cannot be used: {error}; it can be deleted, then formulas are converted again"
        ) from None
    return [out[each] for each in latex]


def read_latexml(markup: Markup, kind: str) -> ParsedFormula:
    """Parses LaTeXML's output to a tree of one kind (`slt`, `opt`), with the characters of the official formulas.

    The reason of a failure is LaTeXML's error, or that LaTeXML could not parse a part (a node `E!`), which it does not
    report as an error.
    """
    why = f"LaTeXML: {markup.reason}" if markup.reason else ""
    text = markup.presentation.translate(_SIGNS) if kind == "slt" else _SHARE.sub("", markup.content)
    if not text:
        return failed(why or "LaTeXML: nothing")
    reading = _READERS[kind](text)
    if not why and not reading.reason and any(label.startswith(ERROR) for label in reading.tree.labels):
        why = "LaTeXML: not parsed"
    return replace(reading, reason=why) if why else reading


def latexml_reader(latex: Iterable[str], kind: str, *, workers: int = 1) -> Callable[[str], ParsedFormula]:
    """Converts formulas in batches; returns a function that gives the tree of one kind for each of them."""
    distinct = list(dict.fromkeys(latex))
    markups = dict(zip(distinct, convert(distinct, workers=workers), strict=True))
    return lambda each: read_latexml(markups[each], kind)


def _refused(latex: str) -> str:
    """Returns the reason why a formula is not passed to LaTeXML; empty if it is passed."""
    if not latex.strip():
        return "no formula"
    if len(latex) > _LENGTH:
        return f"longer than {_LENGTH:,} characters"
    deepest = max(accumulate((each == "{") - (each == "}") for each in latex))
    return f"deeper than {_DEPTH}" if deepest + latex.count("\\left") > _DEPTH else ""


def _batches(
    left: Sequence[str], clean: dict[str, str], seconds: int, workers: int
) -> Iterator[tuple[Sequence[str], list[Markup]]]:
    """Converts formulas in parallel; yields each batch and its markup, in order."""
    size = max(1, min(BATCH, -(-len(left) // workers)))
    batches = [left[at : at + size] for at in range(0, len(left), size)]
    with ThreadPoolExecutor(workers) as pool:
        yield from zip(
            batches, pool.map(lambda batch: _batch([clean[each] for each in batch], seconds), batches), strict=True
        )


def _batch(latex: Sequence[str], seconds: int) -> list[Markup]:
    """Converts a batch; formulas that a crashed process did not convert are passed to new processes, in halves."""
    done, why = _process(latex, seconds)
    left = latex[len(done) :]
    if not left:
        return done
    if len(latex) == 1:
        return [Markup("", "", why)]
    if not done and len(left) > 1:
        half = len(left) // 2
        return _batch(left[:half], seconds) + _batch(left[half:], seconds)
    # Retry the formula at which the process ended alone, so that it cannot stop the others.
    return done + _batch(left[:1], seconds) + (_batch(left[1:], seconds) if len(left) > 1 else [])


def _process(latex: Sequence[str], seconds: int) -> tuple[list[Markup], str]:
    """Converts formulas in one process until it ends; returns their markup and why it ended (`timeout`, `crash`)."""
    work = {"preload": PRELOAD, "refused": REFUSED, "seconds": seconds, "latex": list(latex)}
    with staging_names.folder("latexml") as folder:
        process = subprocess.Popen(
            ["perl", str(_DRIVER)],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ | {"LC_ALL": "C.UTF-8"},
            start_new_session=True,
        )
        with process:
            try:
                _limit(process.pid)
                output, errors = process.communicate(json.dumps(work).encode(), START + seconds * len(latex))
                why = "crash"
            except subprocess.TimeoutExpired as late:
                _end(process)
                output, errors, why = late.output or b"", b"", "timeout"
            except BaseException:
                _end(process)
                raise
    lines = output.decode("utf-8", "replace").splitlines()
    if why == "crash" and "ready" not in lines[:1]:
        last = errors.decode("utf-8", "replace").strip().splitlines()[-1:] or [f"ended with {process.returncode}"]
        raise HarnessError(f"LaTeXML does not start: {last[0][:200]}; install it with: {INSTALL}")
    return _parsed(lines[1:], len(latex)), why


def _limit(process: int) -> None:
    """Limits the memory of a process and its children, if the operating system supports it."""
    if sys.platform == "linux":
        import resource

        with suppress(ProcessLookupError, PermissionError):  # the process has ended already
            resource.prlimit(process, resource.RLIMIT_AS, (_MEMORY, _MEMORY))


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kills a process and its children."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _parsed(lines: Iterable[str], most: int) -> list[Markup]:
    """Parses the markup that a process printed, up to the first invalid line."""
    out: list[Markup] = []
    with suppress(ValueError, TypeError):
        for line in lines:
            number, parts = json.loads(line)
            if number != len(out) or number >= most or not all(isinstance(part, str) for part in parts):
                break
            out.append(Markup(*parts))
    return out
