"""Canonical form of stored runs and scores: equal content gives equal bytes."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np

from harness.data.run_writers import run_text
from harness.data.trec import Run
from harness.io.files import sha256
from harness.scoring.scores import Scores, scores_to_json

_NO_TAG = "-"


def normal(run: Run, name: str) -> tuple[Run, str]:
    """Converts a run to its canonical form; returns it and its text without a tag, whose SHA-256 it gets.

    Topics are sorted; results are ordered by score, equal scores as in the file. Files that differ only in tags, ranks,
    layout or compression have the same canonical text.

    Examples
    --------
    >>> one = Run.from_dict("mine", {"A.2": {"d1": 1.0}, "A.1": {"d1": 1.0, "d2": 2.0}})
    >>> run, text = normal(one, "DPRL / first")
    >>> print(tagged(text, "DPRL-first").replace(chr(9), " "), end="")
    A.1 Q0 d2 1 2.0 DPRL-first
    A.1 Q0 d1 2 1.0 DPRL-first
    A.2 Q0 d1 1 1.0 DPRL-first
    """
    topics = tuple(sorted(run.topics))
    index = {topic: at for at, topic in enumerate(topics)}
    topic = np.array([index[each] for each in run.topics], dtype=np.int32)[run.topic]
    order = np.lexsort((-run.score, topic))
    context = None if run.context is None else run.context[order]
    out = Run(name, topics, topic[order], run.doc[order], run.score[order], context)
    text = run_text(replace(out, name=_NO_TAG), format="trec" if context is None else "arqmath-task2")
    return replace(out, sha256=sha256(text.encode())), text


def tagged(text: str, tag: str) -> str:
    """Puts the tag on every line of a run's canonical text."""
    return text.replace(f"\t{_NO_TAG}\n", f"\t{tag}\n")


def untagged(data: bytes, tag: str) -> bytes | None:
    """Returns the canonical text of a run's bytes without the tag; None if some line has another tag.

    Examples
    --------
    >>> untagged(tagged("A.1\\tQ0\\td1\\t1\\t1.0\\t-\\n", "DPRL-first").encode(), "DPRL-first")
    b'A.1\\tQ0\\td1\\t1\\t1.0\\t-\\n'
    """
    mark, own = f"\t{_NO_TAG}\n".encode(), f"\t{tag}\n".encode()
    text = data.replace(own, mark)
    return text if text.replace(mark, own) == data else None


def kept_scores(scores: Scores) -> str:
    """Serialises scores as they are stored."""
    return json.dumps(scores_to_json(scores), allow_nan=False) + "\n"
