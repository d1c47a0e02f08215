"""The page of a run: where it comes from, its scores, topics, what differs from the best, and how to recompute it."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from harness.errors import counted_text
from harness.labs.folders import SUBMISSIONS
from harness.labs.leaderboard_report import clustered_sentence, higher_unranked
from harness.labs.names import utc
from harness.labs.site.lab_page import Columns, decimal, lab_page, listing, neighbours
from harness.labs.site.lab_view import FieldRun, LabView, StoredFile, submission_key
from harness.labs.site.metadata import flat
from harness.labs.submissions import RUN, Submission
from harness.render.charts import profile
from harness.render.latex import escape_unbroken as escape
from harness.render.model import Cell, Column, Facts, Figure, Prose, Records, Table, number_cell
from harness.render.pages import Badge, Badges, Block, Code, Folded, Head, Item, Link, Listing, PageSection, Rich
from harness.render.site_html import SitePage, json_document, json_number
from harness.scoring.comparison import PairDifference

MOST_TOPICS = 5  # topics listed where a run is best, and where it is worst
MOST_DIFFERENT = 40  # settings listed that differ from the best run
_RANKINGS = "SHA-256 of the rankings"


def run_page(field: LabView, at: int) -> SitePage:
    """Returns the page of the run at a place of the leaderboard."""
    run = field.runs[at]
    standing, board = run.standing, field.board
    label = field.label(field.main)
    value = standing.mean(field.main).value
    shown = "n/a" if value is None else f"{value:.{board.decimals}f}"
    where = f"rank {standing.rank} of {field.ranked}" if standing.rank is not None else "not ranked"
    group = f", group {standing.group}" if standing.group else ""
    parts = [
        PageSection("", (Badges(tuple(_badges_of(field, run))), Facts(tuple(_run_facts(run, field.names.until))))),
        PageSection("Scores", tuple(_score_blocks(field, at))),
        PageSection("Topics", tuple(_topics(field, at))) if field.topics_shown else None,
        PageSection(f"Difference from {field.best}", tuple(_differences(field, at))) if len(field.runs) > 1 else None,
        PageSection("Recompute", tuple(_command_blocks(field, run))),
        PageSection("Files", (_files_listing(run),)),
        _metadata_section(run),
        PageSection("Citation", (Code("BibTeX", bibtex(field, run)),)),
    ]
    page = lab_page(
        field,
        run.path.removeprefix(f"{field.base}/"),
        run.label,
        f"{label} {shown}, {where}{group}.",
        parts,
        "index.html",
        steps=neighbours(lambda n: Link(field.runs[n].name, field.runs[n].path), len(field.runs), at),
        kicker=f"Run of {run.team}",
    )
    return SitePage(page, _run_json(field, at), _records(field, at))


def _badges_of(field: LabView, run: FieldRun) -> Iterator[Badge]:
    if run.verified:
        yield Badge("checksums verified", "all stored files are those that were submitted", "good")
    else:
        yield Badge("files changed", "some stored files are missing or differ from their checksums", "warn")
    yield Badge("recomputed", "scored again when this page was made, with the same scores", "good")
    if run.reproduced:
        yield Badge("reproducible", "the harness made the run again, with the same results", "good")
    if run.submission.kind == "post-hoc":
        yield Badge("post-hoc", "submitted after the deadline, and not ranked", "warn")
    if run.standing.baseline:
        yield Badge("baseline", "the run that others are compared with")
    elif run.standing.rank is not None:
        yield Badge("primary", "the run by which its team is ranked")
    for resource in run.resources:
        yield Badge(resource, "as its metadata says")


def _run_facts(run: FieldRun, until: str) -> list[tuple[str, str]]:
    each = run.submission
    version = f"{each.version}, which replaces version {each.version - 1}" if each.version > 1 else ""
    facts = [
        ("team", run.team),
        ("kind", each.kind),
        ("version", version),
        ("submitted", utc(each.submitted)),
        ("description", run.description),
        ("code", run.code),
        ("external data", run.external_data),
        (f"not shown until {until}", ", ".join(run.withheld)),
        *_checksums(run),
        *((name, f"{value:,.6g}") for name, value in run.costs.items()),
    ]
    return [(name, value) for name, value in facts if value]


def _checksums(run: FieldRun) -> list[tuple[str, str]]:
    """Returns the checksum of the rankings, which equal runs share, and that of the stored file if there is one."""
    files = {file.name: file.sha256 for file in run.files}
    stored = [(f"SHA-256 of {RUN}", f"{files[RUN]} (the file as stored, with the label as its tag)")]
    return [(_RANKINGS, run.submission.sha256), *(stored if RUN in files else [])]


def _score_blocks(field: LabView, at: int) -> Iterator[Block]:
    run, board = field.runs[at], field.board
    exact = not board.private
    columns = (
        Column("measure"),
        Column("mean", kind="number"),
        *((Column("95% interval", parts=("low", "high")), Column("topics", kind="number")) if exact else ()),
        Column("rank", kind="number"),
        *((Column("highest of the ranked runs", kind="number"),) if field.ranked else ()),
    )
    rows = []
    for mean in run.standing.means:
        others = [v for each in field.runs[: field.ranked] if (v := each.standing.mean(mean.measure).value) is not None]
        value = math.nan if mean.value is None else mean.value
        rank = 1 + sum(other > value for other in others)
        spread = Cell("")
        if mean.low is not None and mean.high is not None:
            span = f"{mean.low:.{board.decimals}f} to {mean.high:.{board.decimals}f}"
            spread = Cell(span, values=(mean.low, mean.high))
        cells = [Cell(field.label(mean.measure)), number_cell(value, board.decimals)]
        cells += [spread, Cell(str(mean.n or 0), mean.n)] if exact else []
        ranked = run.standing.rank is not None and not math.isnan(value)
        cells += [Cell(str(rank), rank) if ranked else Cell("–")]
        cells += [number_cell(max(others, default=math.nan), board.decimals)] if field.ranked else []
        rows.append(tuple(cells))
    low, high = run.standing.rank_low, run.standing.rank_high
    notes = [f"{counted_text(field.ranked, 'ranked run')}."]
    if board.clusters:
        notes.append(clustered_sentence(board.clusters))
    for measure in board.measures:
        if higher := higher_unranked(board, measure):
            means = ", ".join(f"{each.name} {each.mean(measure).value:.{board.decimals}f}" for each in higher[:3])
            more = f" and {len(higher) - 3} more" if len(higher) > 3 else ""
            notes.append(f"Higher in {field.label(measure)}, but not ranked: {means}{more}.")
    if low is not None and high is not None:
        span = f"{low}" if low == high else f"{low} to {high}"
        notes.append(
            f"The {board.confidence * 100:g}% bootstrap interval of its rank by {field.label(field.main)} is {span}."
        )
    if run.standing.missing:
        notes.append(f"It does not answer {run.standing.missing} of {board.topics} topics.")
    yield Table("scores", "Means over topics", columns, tuple(rows), tuple(notes))


def _topics(field: LabView, at: int) -> Iterator[Block]:
    """Yields the run's scores among the quartiles, and the topics where it is best and worst."""
    run, label = field.runs[at], field.label(field.main)
    values, quartiles = field.values(field.main)[:, at], field.quartiles
    order = sorted(range(len(field.topics)), key=lambda n: (-_sort_value(quartiles[n, 1]), field.topics[n]))
    low, middle, high = (column.tolist() for column in quartiles.T)
    rows = [(field.topics[n], float(values[n]), low[n], middle[n], high[n]) for n in order]
    caption = f"{label} on each topic, with the quartiles of the {field.ranked} ranked runs"
    if field.ranked:
        yield Figure("profile", caption, profile(rows, label, run.name))
    distance = values - quartiles[:, 1]
    counted = [n for n in range(len(field.topics)) if not math.isnan(distance[n])]
    best = sorted(counted, key=lambda n: (-distance[n], n))[:MOST_TOPICS]
    worst = sorted(counted, key=lambda n: (distance[n], n))[:MOST_TOPICS]
    above = [n for n in best if distance[n] > 0]
    below = [n for n in worst if distance[n] < 0]
    if above:
        yield _topic_listing(field, at, "best", f"Topics where it is furthest above the median {label}", above)
    if below:
        yield _topic_listing(field, at, "worst", f"Topics where it is furthest below the median {label}", below)
    everything = _topic_listing(field, at, "all", f"{label} on all topics", order, search=True)
    yield Folded(f"All {len(order)} topics", (everything,))


def _sort_value(value: float) -> float:
    return -1.0 if math.isnan(value) else float(value)


def _topic_listing(
    field: LabView, at: int, name: str, caption: str, topics: list[int], *, search: bool = False
) -> Listing:
    values, quartiles = field.values(field.main)[:, at], field.quartiles
    columns: Columns[int] = (
        ("topic", lambda n: Item(field.topics[n], link=field.topic_paths[field.topics[n]])),
        ("title", lambda n: Item(field.title_of(field.topics[n]), maths=True)),
        (Head("this run", "number"), lambda n: decimal(values[n])),
        (Head("lower quartile", "number"), lambda n: decimal(quartiles[n, 0])),
        (Head("median", "number"), lambda n: decimal(quartiles[n, 1])),
        (Head("upper quartile", "number"), lambda n: decimal(quartiles[n, 2])),
        (Head("difference from the median", "number"), lambda n: decimal(values[n] - quartiles[n, 1], signed=True)),
    )
    return listing(f"topics-{name}", caption, columns, topics, search=search)


def _differences(field: LabView, at: int) -> Iterator[Block]:
    """Yields the difference from the best ranked run (for it, from the next one), its test, and other settings."""
    run = field.runs[at]
    other = field.runs[0] if at else field.runs[1]
    label, decimals = field.label(field.main), field.board.decimals
    mine, theirs = (each.standing.mean(field.main).value for each in (run, other))
    if mine is None or theirs is None:
        return
    what = field.best if at else "the next ranked run" if field.ranked > 1 else "the next run, which is not ranked"
    said = f"{label} is {mine:.{decimals}f}; that of {what}, "
    difference = f", is {theirs:.{decimals}f}: a difference of {mine - theirs:+.{decimals}f}".replace("-", "−")
    row = field.against_best.get(run.name if at else other.name)
    if row is not None:
        sign = 1 if at else -1
        low, high = sorted((sign * row.ci_low, sign * row.ci_high))
        interval = f"95% interval {low:+.4f} to {high:+.4f}; ".replace(" -", " −") if row.p is not None else ""
        difference += f" ({interval}{_tested(field, row)})"
    yield Rich((said, Link(other.name, other.path), f"{difference}."))
    if field.topics_shown:
        address = f"{field.base}/pairs.html#a={run.key}&b={other.key}"
        yield Rich((Link("Compare the two runs topic by topic", address), "."))
    differs = different(run.metadata, other.metadata)
    if differs:
        columns = (Column("setting"), Column("this run"), Column(what))
        rows = tuple(tuple(map(Cell, each)) for each in differs[:MOST_DIFFERENT])
        notes = (f"{len(differs) - MOST_DIFFERENT} more settings differ.",) if len(differs) > MOST_DIFFERENT else ()
        yield Table("settings", "Settings that differ in the metadata of the two runs", columns, rows, notes)
    elif not run.metadata or not other.metadata:
        yield Prose(("Without metadata of both runs, their settings cannot be compared.",))


def _tested(field: LabView, row: PairDifference) -> str:
    """Returns the result of a test in words: corrected in the leaderboard's family, and no claim outside it."""
    if row.p is None:
        return "the paired t-test is undefined, since the differences do not vary"
    test = field.verdicts.get(frozenset((row.a, row.b)))
    raw = f"paired t-test p {_p_text(row.p)}"
    if test is None or test.p is None:
        return f"{raw}, not corrected: outside the leaderboard's family of tests"
    said = "significant" if test.significant else "not significant"
    return f"{raw}, {field.corrected_for} {_p_text(test.p)}: {said} at {field.board.alpha:g}"


def _p_text(value: float) -> str:
    return "< 0.0001" if value < 0.0001 else f"{value:.4f}"


def different(mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Returns (setting, value, other value) for settings that differ; none if either run has no metadata.

    Examples
    --------
    >>> different({"method": {"k1": 1.2, "b": 0.75}}, {"method": {"k1": 0.9, "b": 0.75}})
    [('method / k1', '1.2', '0.9')]
    """
    one, other = flat(mine), flat(theirs)
    if not one or not other:
        return []
    names = dict.fromkeys([*one, *other])
    return [(name, one.get(name, "–"), other.get(name, "–")) for name in names if one.get(name) != other.get(name)]


def commands(field: LabView, submission: Submission) -> tuple[str, str]:
    """Returns the commands that verify the files of a submission, and that score its run, in the lab's folder."""
    lab = field.lab
    folder = f"{SUBMISSIONS}/{submission.folder}"
    score = ["harness", "score", f"{folder}/run.txt", "--collection", lab.collection, "--edition", lab.edition]
    score += ["--protocol", lab.protocol, "--measures", ",".join(lab.measures)]
    score += ["--corpus", lab.corpus] if lab.corpus else []
    return f"(cd {shlex.quote(folder)} && sha256sum -c SHA256SUMS)", shlex.join(score)


def _command_blocks(field: LabView, run: FieldRun) -> Iterator[Block]:
    verify, score = commands(field, run.submission)
    if field.lab.private:
        yield Prose(("The judgments are private: only the organisers can score the run.",))
    yield Code("In the lab's folder, verify the files:", verify)
    yield Code("Score the run:", score)
    yield Code("Verify all files and score all runs of the lab again:", "harness lab check .")
    implementation = run.metadata.get("implementation")
    executable = implementation.get("executable") if isinstance(implementation, Mapping) else None
    made = executable.get("cmd") if isinstance(executable, Mapping) else None
    if isinstance(made, str) and made.strip():
        yield Code("The command that made the run, as its metadata says:", made[:2_000])


def _files_listing(run: FieldRun) -> Listing:
    folder = f"{SUBMISSIONS}/{run.submission.folder}"
    columns: Columns[StoredFile] = (
        ("file in the lab's folder", lambda file: Item(f"{folder}/{file.name}")),
        (Head("bytes", "number"), lambda file: Item(f"{file.size:,}", float(file.size))),
        ("SHA-256", lambda file: Item(file.sha256)),
    )
    return listing("files", "Files of the submission", columns, run.files)


def _metadata_section(run: FieldRun) -> PageSection | None:
    entries = flat(run.metadata)
    if not entries:
        return None
    return PageSection("Metadata", (Folded("ir_metadata, as the team sent it", (Facts(tuple(entries.items())),)),))


def bibtex(field: LabView, run: FieldRun) -> str:
    """Returns a BibTeX entry for a run."""
    each, lab = run.submission, field.lab
    key = "".join(char for char in run.key.replace("/", "-") if char.isalnum() or char in "-_.")
    title = f"{escape(run.label)}: a run of {escape(lab.title)}"
    note = f"Submitted {each.submitted}; version {each.version}; SHA-256 of the rankings {each.sha256[:16]}"
    lines = [f"title = {{{{{title}}}}}", f"author = {{{{{escape(run.team)}}}}}", f"year = {{{each.submitted[:4]}}}"]
    lines.append(f"note = {{{note}}}")
    if lab.address:
        lines.append(f"url = {{{lab.address.rstrip('/')}/{run.path.removeprefix(f'{field.base}/')}}}")
    return f"@misc{{{key},\n  " + ",\n  ".join(lines) + "\n}"


def _run_json(field: LabView, at: int) -> dict[str, Any]:
    run, each = field.runs[at], field.runs[at].submission
    verify, score = commands(field, each)
    measures = field.board.measures if field.topics_shown else ()
    columns = {measure: map(json_number, field.values(measure)[:, at]) for measure in measures}
    values = {measure: dict(zip(field.topics, column, strict=True)) for measure, column in columns.items()}
    return json_document(
        "site-run",
        {
            "run": run.name,
            **{key: getattr(run, key) for key in ("team", "label")},
            "number": each.version,
            "kind": each.kind,
            "primary": run.standing.rank is not None,
            "baseline": run.standing.baseline,
            "submitted": each.submitted,
            **{key: getattr(run, key) for key in ("description", "code", "external_data")},
            "sha256": each.sha256,
            **{key: getattr(run.standing, key) for key in ("rank", "group")},
            "means": {
                mean.measure: {key: getattr(mean, key) for key in ("value", "low", "high", "n")}
                for mean in run.standing.means
            },
            "values": values,
            "resources": list(run.resources),
            "costs": dict(run.costs),
            "files": [{"name": file.name, "sha256": file.sha256, "bytes": file.size} for file in run.files],
            **{key: getattr(run, key) for key in ("verified", "reproduced")},
            "commands": [verify, score],
            "metadata": flat(run.metadata),
        },
    )


def _records(field: LabView, at: int) -> Records:
    """Returns the values per topic, or only the means if these are all that may be shown."""
    run = field.runs[at]
    if not field.topics_shown:
        rows: list[tuple[str | float | None, ...]] = [
            (run.name, mean.measure, mean.value) for mean in run.standing.means
        ]
        return Records(("run", "measure", "mean"), tuple(rows))
    medians = {measure: _medians(field, measure) for measure in field.board.measures}
    rows = [
        (run.name, topic, measure, json_number(field.values(measure)[n, at]), json_number(medians[measure][n]))
        for measure in field.board.measures
        for n, topic in enumerate(field.topics)
    ]
    return Records(("run", "topic", "measure", "value", "median"), tuple(rows))


def _medians(field: LabView, measure: str) -> Any:  # noqa: ANN401
    values = field.values(measure)[:, : field.ranked]
    out = np.full(len(values), math.nan)
    counted = ~np.isnan(values).all(axis=1)
    if counted.any():
        out[counted] = np.nanmedian(values[counted], axis=1)
    return out


def former_page(field: LabView, submission: Submission) -> SitePage:
    """Returns the page of a withdrawn, disqualified or replaced submission, so that links to it stay."""
    current, team = field.current(submission), field.names.team(submission.team)
    if submission.disqualified:
        state = "This run was disqualified by the organisers."
        state += " Its team has appealed." if submission.appeal else ""
    elif submission.withdrawn:
        state = "This run was withdrawn by its team."
    else:
        state = "This run was replaced by a later version."
    facts = [("team", team), ("version", str(submission.version)), ("kind", submission.kind)]
    facts += [("submitted", utc(submission.submitted)), (_RANKINGS, submission.sha256)]
    blocks: list[Block] = [Facts(tuple(facts))]
    if current is not None:
        blocks.append(Rich(("The current version is ", Link(current.name, current.path), ".")))
    path, parts = f"runs/{submission_key(submission)}.html", [PageSection("", tuple(blocks))]
    kicker = f"Former run of {team}"
    return SitePage(lab_page(field, path, submission.label, state, parts, "index.html", kicker=kicker))
