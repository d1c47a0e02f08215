"""What a team sees of a submission: the same values and lines by command, page and HTTP."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from harness.errors import counted_text
from harness.labs.folders import SUBMISSIONS
from harness.labs.lab import Lab
from harness.labs.standing import SMALL, SubmissionStanding
from harness.labs.submissions import Submission
from harness.labs.submit import Receipt
from harness.scoring.protocol import load_protocol

Rows = tuple[tuple[str, ...], ...]  # a table of text; the first row is the heading


@dataclass(frozen=True)
class Shown:
    """A scored submission as its team sees it.

    Attributes
    ----------
    title : name of the run, with the version from the second on.
    folder : of its files, relative to the lab.
    made, cap : number of submissions of the team so far, and the maximum; None for no limit.
    means : measure -> mean; None if no topic counts, or if it is not shown before the end.
    rank, runs : rank among the ranked runs and their number, for a run that is not ranked those that it would have as
        its team's primary run; None if they could not be computed.
    notes : remarks, one line each.
    scores, against : the means, and the comparisons with other runs; empty if there are none.
    ranked, tests, remark : lines below the tables, empty if there is nothing to say.
    by_category : mean on each category of topics beside the median of the other ranked runs, if the judgments are
        public and participants see scores per topic; else empty.
    category_notes : lines below it.
    """

    title: str
    team: str
    label: str
    version: int
    primary: bool
    folder: str
    made: int
    means: Mapping[str, float | None]
    notes: tuple[str, ...]
    scores: Rows
    ranked: str
    against: Rows
    tests: str
    remark: str
    cap: int | None = None
    rank: int | None = None
    runs: int | None = None
    by_category: Rows = ()
    category_notes: tuple[str, ...] = ()

    def headline(self, place: str) -> str:
        """Returns the first line; `place` is where the files are."""
        chosen = ", the team's primary run" if self.primary else ""
        number = f"submission {self.made}" + (f" of {self.cap}" if self.cap is not None else "")
        return f"{self.title}{chosen}: kept in {place} ({number})"


def team_receipt(lab: Lab, receipt: Receipt) -> Shown:
    """Returns what the team of a submission sees of it.

    Examples
    --------
    >>> from pathlib import Path
    >>> from harness.labs.lab import new_lab
    >>> from harness.labs.submit import Offer, submit_run
    >>> lab = new_lab(Path("labs/receipts"), {"title": "Receipts", "collection": "mini-task1"})
    >>> found = team_receipt(lab, submit_run(lab, Offer(Path("runs/mini/mini-task1/overlap.run"), "DPRL", "first")))
    >>> found.ranked, found.headline("the lab")
    ('rank 1 of 1 by nDCG′', "DPRL / first, the team's primary run: kept in the lab (submission 1)")
    """
    submission, standing = receipt.submission, receipt.standing
    label = load_protocol(lab.protocol).label
    told: dict[str, Any] = {"scores": (), "ranked": "", "against": (), "tests": ""}
    if standing is not None:
        heads, numbers = _counts(receipt)
        measures, named = lab.measures[:1] if lab.private else lab.measures, label(standing.measure)
        means = (lab.text(submission.means[measure], measure) for measure in measures)
        told = {
            "scores": (("run", *map(label, measures), *heads), (submission.title, *means, *numbers)),
            "ranked": _rank_text(submission, standing, named),
            "against": _comparison_rows(lab, standing, named),
            "tests": _tests_text(standing),
            "rank": standing.rank,
            "runs": standing.runs,
        }
    same = ("title", "team", "label", "version", "primary")
    return Shown(
        **{name: getattr(submission, name) for name in same},
        folder=f"{SUBMISSIONS}/{submission.folder}",
        made=receipt.made,
        means=shown_means_of(lab, submission),
        notes=receipt.notes,
        remark=_remark(lab, receipt),
        cap=lab.cap,
        by_category=_category_rows(lab, receipt, label(lab.measures[0])),
        category_notes=tuple(_category_notes(lab, receipt)),
        **told,
    )


def _counts(receipt: Receipt) -> Rows:
    """Returns the headings and the values of the columns on topics; with private judgments, how many are answered."""
    if not receipt.counted:
        return ("answered",), (str(receipt.submission.answered),)
    counted = dict.fromkeys(map(str, receipt.counted))  # one n if all measures count the same number of topics
    n = next(iter(counted)) if len(counted) == 1 else "/".join(map(str, receipt.counted))
    return ("n", "missing"), (n, str(receipt.missing))


def shown_means_of(lab: Lab, submission: Submission) -> dict[str, float | None]:
    """Returns the means of a submission as participants see them: measure -> mean, None if undefined."""
    means = ((measure, submission.means[measure]) for measure in lab.measures)
    return {measure: None if math.isnan(mean) else float(lab.text(mean, measure)) for measure, mean in means}


def _rank_text(submission: Submission, standing: SubmissionStanding, label: str) -> str:
    place = f"{standing.rank} of {standing.runs} by {label}"
    if standing.ranked:
        return f"rank {place}"
    if submission.kind == "post-hoc":
        return f"not ranked, since it is post-hoc; otherwise its rank would be {place}"
    return f"not ranked, since another run is the team's primary run; as the primary run its rank would be {place}"


def _comparison_rows(lab: Lab, standing: SubmissionStanding, named: str) -> Rows:
    if not standing.rows:
        return ()
    rows: list[tuple[str, ...]] = [("against", "it is", named, "difference", *(() if lab.private else ("p",)))]
    for row in standing.rows:
        p = "undefined"
        if row.p is not None:
            p = ("<.0001" if row.p < 0.0001 else f"{row.p:.4f}") + ("*" if row.significant else "")
        cells = (row.name, ", ".join(row.roles), lab.text(row.mean), f"{row.difference:+.{lab.decimals}f}")
        rows.append((*cells, *(() if lab.private else (p,))))
    return tuple(rows)


def _category_rows(lab: Lab, receipt: Receipt, named: str) -> Rows:
    if not receipt.categories:
        return ()
    measure, compared = lab.measures[0], receipt.compared > 0
    median = f"median of {counted_text(receipt.compared, 'other run')}"
    rows: list[tuple[str, ...]] = [("topics with", "n", named, *((median, "difference") if compared else ()))]
    for each in receipt.categories:
        beside = (lab.text(each.median, measure), _signed(lab, each.difference)) if compared else ()
        rows.append((f"{each.attribute}: {each.value}", str(each.topics), lab.text(each.mean, measure), *beside))
    return tuple(rows)


def _signed(lab: Lab, difference: float) -> str:
    return "n/a" if math.isnan(difference) else f"{difference:+.{lab.decimals}f}"


def _category_notes(lab: Lab, receipt: Receipt) -> Iterator[str]:
    """Yields where the run is strongest and weakest against the other runs, and which categories are small."""
    sized = [each for each in receipt.categories if each.topics >= SMALL and not math.isnan(each.difference)]
    if sized:
        best, worst = (chosen(sized, key=lambda each: each.difference) for chosen in (max, min))
        ends = {"strongest": best, **({"weakest": worst} if worst.difference < best.difference else {})}
        parts = [(f"{end} on {each.attribute}: {each.value}", each) for end, each in ends.items()]
        said = [f"{name} ({_signed(lab, each.difference)}, n = {each.topics})" for name, each in parts]
        yield f"relative to the median, {'; '.join(said)}; these differences are not tested"
    if small := sum(each.topics < SMALL for each in receipt.categories):
        having = counted_text(small, "category has", "categories have")
        yield f"{having} fewer than {SMALL} topics: such means say little"


def _tests_text(standing: SubmissionStanding) -> str:
    omitted = counted_text(standing.omitted, "earlier run is", "earlier runs are")
    more = f"; {omitted} not compared" if standing.omitted else ""
    return f"{standing.tests}{more}".removeprefix("; ") if standing.rows else ""


def _remark(lab: Lab, receipt: Receipt) -> str:
    """Returns what is shown of private judgments, and how much of the team's budget is spent."""
    if not receipt.protection or lab.feedback == "none":
        return receipt.protection
    # A refund does not take back the mean that was shown.
    return f"{receipt.protection} Budget spent: {receipt.made + receipt.refunded} of {lab.cap} submissions."
