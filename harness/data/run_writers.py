"""Writers of run and judgment files, and conversion of runs to and from JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from harness.data.layouts import FORMATS
from harness.data.trec import Qrels, Run, run_from_columns
from harness.errors import HarnessError, suggestion
from harness.io.files import write_atomic

SCHEMA = "mathir-harness/run"
VERSION = 1


def write_run(run: Run, path: Path, *, format: str = "trec") -> None:
    """Writes a run to a file; see `run_text`. Raises HarnessError also if the file cannot be written."""
    write_atomic(path, run_text(run, format=format))


def run_text(run: Run, *, format: str = "trec") -> str:
    """Returns a run in TREC (or ARQMath) format: topics in their order, scores descending, ranks from 1.

    Equal scores keep their order in `run`; scores are written with enough digits to be read back unchanged. Blanks in
    the run's name become `_` in the tag.

    Raises
    ------
    HarnessError
        The format needs a context that the run lacks.
    """
    if format not in FORMATS:
        raise HarnessError(f"format {format!r} is unknown; {suggestion(format, FORMATS)}")
    if format == "arqmath-task2" and run.context is None:
        raise HarnessError(f"run {run.name}: arqmath-task2 needs the post of each formula, and the run has none")
    order, rank = np.lexsort((-run.score, run.topic)), run.rank()
    posts = run.context[order].tolist() if run.context is not None else [b""] * len(run)
    columns = zip(
        run.topic[order].tolist(),
        run.doc[order].tolist(),
        posts,
        rank[order].tolist(),
        run.score[order].tolist(),
        strict=True,
    )
    tag = "_".join(run.name.split())  # a column has no blanks
    names = run.topics
    if format == "trec":
        lines = [f"{names[t]}\tQ0\t{d.decode()}\t{r}\t{s!r}\t{tag}\n" for t, d, _, r, s in columns]
    elif format == "arqmath-task1":
        lines = [f"{names[t]}\t{d.decode()}\t{r}\t{s!r}\t{tag}\n" for t, d, _, r, s in columns]
    else:
        lines = [f"{names[t]}\t{d.decode()}\t{p.decode()}\t{r}\t{s!r}\t{tag}\n" for t, d, p, r, s in columns]
    return "".join(lines)


def write_qrels(qrels: Qrels, path: Path, *, rounded: bool = False) -> None:
    """Writes judgments in TREC format, which supports only whole grades.

    Parameters
    ----------
    rounded : round real grades to whole ones, halves up; the file does not record the loss.

    Raises
    ------
    HarnessError
        A grade is not a whole number and `rounded` is false, or the file cannot be written.
    """
    grades = np.floor(qrels.grade + 0.5) if rounded else qrels.grade
    if (broken := grades != np.floor(grades)).any():
        row = int(broken.argmax())
        where = f"document {qrels.doc[row].decode()!r} of topic {qrels.topics[qrels.topic[row]]!r}"
        raise HarnessError(
            f"{path}: {where} has grade {grades[row]:g}, and TREC files hold whole numbers; --round rounds them"
        )
    columns = zip(qrels.topic.tolist(), qrels.doc.tolist(), grades.tolist(), strict=True)
    write_atomic(path, "".join(f"{qrels.topics[t]}\t0\t{d.decode()}\t{int(g)}\n" for t, d, g in columns))


def run_to_json(run: Run) -> dict[str, Any]:
    """Returns a run as plain JSON values, in file order. Schema: `harness/data/schemas/run.json`."""
    return {
        "schema": SCHEMA,
        "version": VERSION,
        "name": run.name,
        "sha256": run.sha256,
        "topic": [run.topics[t] for t in run.topic.tolist()],
        "doc": [d.decode() for d in run.doc.tolist()],
        "score": run.score.tolist(),
        "context": None if run.context is None else [c.decode() for c in run.context.tolist()],
    }


def run_from_json(data: Mapping[str, Any]) -> Run:
    """Reads the result of `run_to_json`, validated like a run file.

    Raises
    ------
    HarnessError
        The schema or version is unknown, columns have unequal lengths, or `parse_run` refuses the content.
    """
    if not isinstance(data, Mapping):
        raise HarnessError(f"run: is a {type(data).__name__}, expected an object")
    if data.get("schema") != SCHEMA or data.get("version") != VERSION:
        given_schema = f"{data.get('schema')!r} version {data.get('version')!r}"
        raise HarnessError(f"run: schema is {given_schema}, expected {SCHEMA!r} version {VERSION}")
    try:
        name, context = str(data["name"]), data["context"]
        run = run_from_columns(name, data["topic"], data["doc"], data["score"], context)
        return replace(run, sha256=str(data["sha256"]))
    except (KeyError, TypeError, ValueError) as error:
        raise HarnessError(f"run: damaged, {type(error).__name__}: {error}") from None
