"""Remarks on judgments and scores: grades of an unusual kind, and runs of which nothing is judged."""

from __future__ import annotations

import numpy as np

from harness.data.trec import Run
from harness.errors import counted_text
from harness.scoring.measures import parse_measure
from harness.scoring.scorer import Scorer
from harness.scoring.scores import Scores


def grade_remarks(scorer: Scorer) -> list[str]:
    """Returns how grades below 0, and those that are not whole numbers, are taken by a scorer's measures."""
    grade, protocol = scorer.qrels.grade, scorer.protocol
    out = []
    if below := int(np.count_nonzero(grade < 0)):
        several = counted_text(
            below, "judgment has a grade below 0 and counts", "judgments have a grade below 0 and count"
        )
        out.append(f"{several} as not judged, as in trec_eval")
    broken = grade[(grade != np.floor(grade)) & (grade > 0)]
    binary = [protocol.label(name) for name in scorer.measures if _has_threshold(name)]
    if broken.size and binary:
        out.append(
            f"grades are not whole numbers, such as {broken[0]:g}; relevant from {protocol.relevant_from:g} in "
            f"{', '.join(binary)} (key relevant_from of protocol {protocol.name})"
        )
    return out


def _has_threshold(name: str) -> bool:
    measure = parse_measure(name)
    return not measure.graded and not measure.diagnostic and measure.relevant_from is None


def not_judged(scorer: Scorer, run: Run, scores: Scores) -> str:
    """Returns the remark that none of a run's documents is judged for any topic; empty if one is."""
    # Other measures are not 0 if nothing is judged.
    columns = [not (m := parse_measure(name)).diagnostic and m.aggregate != "geometric" for name in scores.measures]
    if not scores.counts.get("results without judgment") or np.nan_to_num(scores.values[:, columns]).any():
        return ""
    docs = {doc.decode() for doc in run.doc.tolist()}
    if not {scorer.key(doc).encode() for doc in docs}.isdisjoint(scorer.qrels.judged().doc.tolist()):
        return ""
    return f"none of its {len(docs):,} documents is judged, such as {min(docs)!r}; is it a run on {scorer.collection}?"
