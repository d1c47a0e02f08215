"""The report of leaderboards: ranks with intervals, groups, judged results and ties."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from harness.errors import counted_text
from harness.labs.board import (
    CORRECTIONS,
    BoardColumn,
    Detectable,
    Judgments,
    Leaderboard,
    LeaderboardRow,
    Mean,
    Span,
    leaderboard_to_json,
    shown_columns,
)
from harness.render import figures
from harness.render.model import Block, Cell, Column, Figure, Prose, Records, Section, Table, number_cell
from harness.render.write import Report
from harness.reports.parts import protocol_text, provenance_section, undefined_sentence
from harness.scoring.measures import shown_decimals
from harness.store.provenance import Provenance

POOLING = (
    "Judged@k is the share of a run's first k results that were judged; the rest is the most by which P@k could rise "
    "if all of them were relevant (the residual of Moffat and Zobel, TOIS 2008)."
)
EXPECTED = (
    "The expected bias estimates the relevant part of the residual: (1 - Judged@k) times the precision of the judged "
    "results, as if unjudged results were relevant as often as judged ones. It tends to be too high, since pools "
    "contain documents that many systems rank high."
)
FEW = 10  # topics, or clusters of topics, below which intervals cover too little: bench/results/coverage.md
MOST_INCOMPLETE = 5  # incomplete runs that are named
PRIMED = (
    "This is the bias of P@k without removal, with the precision of the first k judged results. This protocol removes "
    "unjudged results before scoring: such scores are not lowered by unjudged results, but tend to favour runs outside "
    "the pool (Sakai, CIKM 2008)."
)


def leaderboard_report(
    boards: Sequence[Leaderboard], provenance: Provenance, *, title: str = "", remarks: Sequence[str] = ()
) -> Report:
    """Builds a report with a table for each leaderboard; runs of different editions or protocols never share one.

    Parameters
    ----------
    title : default: the collections' names.
    remarks : what a reader of the numbers must know, a sentence each.
    """
    sections: list[Section] = []
    for number, board in enumerate(boards, 1):
        end = "" if len(boards) == 1 else f"-{number}"
        level = 2 if len(boards) == 1 else 3
        if len(boards) > 1:
            sections.append(Section(conditions_text(board), (Prose((f"{leaderboard_headline(board)}.",)),)))
        sections += [
            _standings_section(board, end, level),
            Section("Interpretation", (Prose(reading(board)),), level),
            *_judgments_section(board, end, level),
            *_ties_section(board, end, level),
            _data_and_protocol_section(board, remarks, level),
        ]
    sections.append(provenance_section(provenance))
    name = ", ".join(dict.fromkeys(board.collection for board in boards))
    parts = f"{len(boards)} leaderboards, one for each edition and protocol"
    parts = leaderboard_headline(boards[0]) if len(boards) == 1 else parts
    rows = tuple(row for board in boards for row in board.rows())
    return Report(
        title or f"Leaderboard of {name}",
        parts,
        tuple(sections),
        data={"leaderboards": [leaderboard_to_json(board) for board in boards]},
        records={"leaderboard": Records(boards[0].columns(), rows)},
    )


def conditions_text(board: Leaderboard) -> str:
    """Returns collection, edition and protocol in words."""
    return f"{board.collection}, edition {board.edition}, protocol {board.protocol.name}"


def leaderboard_headline(board: Leaderboard) -> str:
    """Returns the main result in one line: the best ranked run, what the tests say of it, and a higher unranked one."""
    where = f"{board.collection} (edition {board.edition}, {board.topics} topics, protocol {board.protocol.name})"
    if not board.ranked:
        runs = counted_text(len(board.others), "run")
        return f"{runs} on {where}, {'not' if len(board.others) == 1 else 'none of them'} ranked"
    best, runs = board.ranked[0], counted_text(len(board.ranked), "run")
    value = best.mean(board.main).value
    shown = "n/a" if value is None else f"{value:.{board.decimals}f}"
    of_ranked = "" if value is None or not (higher := higher_unranked(board, board.main)) else " of the ranked runs"
    said = f"{runs} on {where}: best {board.protocol.label(board.main)}{of_ranked} {shown} by {best.name}"
    if board.grouping != "none":
        said += f", which {_of_the_best(board)}"
    if of_ranked:
        top = f"{higher[0].mean(board.main).value or 0.0:.{board.decimals}f}"
        name, number = higher[0].name, len(higher)
        above = f"{name} is higher, {top}" if number == 1 else f"{number:,} runs are higher, up to {top} by {name}"
        said += f"; {above}, but not ranked"
    return said


def _of_the_best(board: Leaderboard) -> str:
    """Returns what the tests of the best ranked run with all others say."""
    best = board.ranked[0].name
    undefined = len({run for pair in board.undefined if best in pair for run in pair} - {best})
    alike = len(like_the_best(board)) - 1
    apart = len(board.ranked) - 1 - alike - undefined
    said = []
    if alike:
        said.append(f"does not differ significantly from {counted_text(alike, 'other')}")
    elif apart:
        said.append(f"differs significantly from {'all others' if not undefined else counted_text(apart, 'other')}")
    if undefined:
        said.append(f"has no defined test against {counted_text(undefined, 'other')}")
    return " and ".join(said)


def higher_unranked(board: Leaderboard, measure: str) -> tuple[LeaderboardRow, ...]:
    """Returns the runs that are not ranked and have a higher mean than every ranked run, the highest first."""
    known = [value for each in board.ranked if (value := each.mean(measure).value) is not None]
    if not known:
        return ()
    means = [(each, each.mean(measure).value) for each in board.others]
    above = [(each, value) for each, value in means if value is not None and value > max(known)]
    return tuple(each for each, _ in sorted(above, key=lambda pair: (-pair[1], pair[0].name)))


def _letters(group: str) -> list[str]:
    """Returns the letters of a group: `ab1c` is a, b1 and c."""
    out: list[str] = []
    for char in group:
        if char.isdigit() and out:
            out[-1] += char
        else:
            out.append(char)
    return out


def like_the_best(board: Leaderboard) -> set[str]:
    """Returns the best run and those that do not differ significantly from it by a defined test; none without tests."""
    letters = set(_letters(board.ranked[0].group)) if board.ranked else set()
    undefined = {run for pair in board.undefined if board.ranked[0].name in pair for run in pair}
    alike = {each.name for each in board.ranked if not letters.isdisjoint(_letters(each.group))}
    return alike - undefined | {each.name for each in board.ranked[:1] if letters}


def incomplete(board: Leaderboard) -> tuple[str, ...]:
    """Returns a sentence for each ranked run that does not answer all topics; none where judgments are private."""
    rows = [each for each in board.ranked if each.missing]
    if board.protocol.topics == "all":
        effect = "unanswered topics count 0"
    else:
        effect = "its means cover only these and are not comparable with those of runs that answer more"
    few = ((each.name, board.topics - (each.missing or 0)) for each in rows[:MOST_INCOMPLETE])
    said = [f"{name} answers {answered} of {board.topics} topics; {effect}." for name, answered in few]
    if more := len(rows) - len(said):
        said.append(
            f"{more} more run{'s do' if more > 1 else ' does'} not answer all topics: see the column 'topics missing'."
        )
    return tuple(said)


def reading(board: Leaderboard) -> tuple[str, ...]:
    """Returns how to read ranks, groups and intervals, a sentence or two each."""
    label, percent = board.protocol.label(board.main), f"{board.confidence * 100:g}%"
    how = CORRECTIONS[board.correction]
    family = f"two-sided paired t-tests of {label}, alpha {board.alpha:g}, {how} over a family of {board.family:,} "
    number = math.comb(len(board.ranked), 2)
    family += f"test{'s' if board.family > 1 else ''}: all pairs of ranked runs"
    family += " and further declared tests" if board.family > number else ""
    near = ", or their test is undefined" if board.undefined else ""
    groups = {
        "letters": f"Runs that share a letter do not differ significantly{near}: {family}.",
        "best": f"Runs with an a do not differ significantly from the best{near}: {family}, of which only those "
        "with the best run are made (there are too many runs for letters).",
    }.get(board.grouping, f"Nothing was tested: {board.why}.")
    sentences = [f"Runs are ranked by {label}; equal means share a rank.", groups]
    sentences += [undefined_sentence(board.undefined)] if board.undefined else []
    sentences += [f"{clustered_sentence(board.clusters)}"] if board.clusters else []
    drawn = f"topics, those of one {board.clusters} together" if board.clusters else "topics"
    units = f"groups of topics ({board.clusters})" if board.clusters else "topics"
    ranks = (
        f"The interval of a rank is a {percent} interval from {board.resamples:,} bootstrap resamples of the {drawn} "
        f"(seed {board.seed}); each resample ranks all runs, and the percentiles are expanded for the number of "
        f"{units}."
    )
    intervals = [
        *([ranks] if board.ranked else []),
        f"Means have {percent} t intervals over topics. Since runs share the topics, overlapping intervals "
        "do not imply that two runs do not differ.",
    ]
    n = board.detectable.n_low if board.detectable is not None else None if board.clusters else board.topics
    if n is None or n < FEW:  # without tests, the number of groups is unknown
        here = "" if n is None else f", here {n}," if board.clusters else f" (here {n})"
        intervals.append(f"Intervals from fewer than {FEW} {units}{here} may cover less than {percent}.")
    sentences += [] if board.private else intervals
    if board.detectable is not None:
        sentences.append(_detectable(board, board.detectable))
    if board.floor:
        sentences.append(
            f"The random floor is the mean over {board.floor_seeds} random orders of each topic's judged documents. "
            "These contain all judged documents, unlike any search: a mean below the floor is normal for runs with "
            "few judged documents, above all by a measure without a cutoff."
        )
    return tuple(sentences)


def clustered_sentence(cluster: str) -> str:
    """Returns how means and tests treat topics that share a value of the attribute."""
    return (
        f"Means, differences, intervals and tests are of the mean over topics. Topics that share their {cluster} are "
        f"dependent, which cluster-robust errors allow for (CR2); the n of a test counts values of {cluster}."
    )


def _detectable(board: Leaderboard, least: Detectable) -> str:
    """Returns the smallest difference that the tests detect, with the number of topics of the tests."""
    label = board.protocol.label(board.main)
    corrected = board.correction != "none" and board.family > 1
    level = f"{board.alpha:g} / {board.family:,}" if corrected else f"{board.alpha:g}"
    n = [board.topics] if least.n_low is None or least.n_high is None else sorted({least.n_low, least.n_high})
    units = f"groups of topics ({board.clusters})" if board.clusters else "topics"
    power = f"with a power of 0.8 at alpha {level}"
    of_tests = f"the {' to '.join(map(str, n))} {units} of the tests"
    if least.low is None or least.median is None or least.high is None:
        return f"In {label}, {of_tests} detect no difference {power}, however large."
    span = f" (median over the pairs tested, from {least.low:.3f} to {least.high:.3f})"
    spread = span if least.low < least.high else ""
    said = f"The smallest difference in {label} that {of_tests} can detect {power}: {least.median:.3f}{spread}"
    if least.undetectable:
        said += f"; {least.undetectable:,} of {least.tests:,} tests detect none, however large"
    return f"{said}."


def _mean_cell(mean: Mean, board: Leaderboard, marks: tuple[str, ...] = ()) -> Cell:
    """Returns a mean with half the width of its interval, if intervals are shown."""
    digits = shown_decimals(mean.measure, board.decimals)
    if mean.value is None or board.private:
        return number_cell(math.nan if mean.value is None else mean.value, digits, marks)
    if mean.low is None or mean.high is None:
        return Cell(f"{mean.value:.{digits}f}", mean.value, marks, values=(mean.value, math.nan, math.nan))
    half = (mean.high - mean.low) / 2
    shown = f"{mean.value:.{digits}f} ± {half:.{digits}f}"
    return Cell(shown, mean.value, marks, values=(mean.value, mean.low, mean.high))


def _count_cell(value: int | None) -> Cell:
    return Cell("") if value is None else Cell(f"{value:,}", value)


def _table(board: Leaderboard, standings: Sequence[LeaderboardRow], name: str, caption: str, *, ranked: bool) -> Table:
    """Returns the table of runs with their means; ranked runs with rank, group and the rank's interval."""
    kinds = any(run.kind for run in standings)
    shown = (each for each in shown_columns(board, "report", board.measures) if ranked or not each.ranked)
    columns = [each for each in shown if each.name != "kind" or kinds]
    best = {}
    for measure in board.measures:
        values = [value for each in standings if (value := each.mean(measure).value) is not None]
        best[measure] = max(values) if len(values) > 1 and ranked else math.nan

    def cell(value: object) -> Cell:
        match value:
            case Mean():
                marks = ("best",) if value.value is not None and value.value == best[value.measure] else ()
                return _mean_cell(value, board, marks)
            case Span():
                return _span_cell(value.low, value.high)
            case str():
                return Cell(value)
            case float():
                return number_cell(value)
        return _count_cell(value if isinstance(value, int) else None)

    def heading(column: BoardColumn) -> Column:
        match column.value(standings[0]):
            case Mean():
                label = column.name
                return Column(label, "", "number", () if board.private else (label, f"{label} low", f"{label} high"))
            case Span():
                word = column.name.removesuffix(" interval")
                return Column(column.name, parts=(f"{word} low", f"{word} high"))
        return Column(column.name, kind="text" if column.name in ("kind", "group") else "number")

    marked = ((each, ("baseline",) if each.baseline else ()) for each in standings)
    rows = [(Cell(each.name, marks=marks), *(cell(column.value(each)) for column in columns)) for each, marks in marked]
    if board.floor and (ranked or not board.ranked):
        there = {board.protocol.label(mean.measure): mean for mean in board.floor}
        floor = (_mean_cell(there[each.name], board) if each.name in there else Cell("") for each in columns)
        rows.append((Cell("random floor"), *floor))
    notes = (f"{conditions_text(board)}.",)
    return Table(name, caption, (Column("run"), *map(heading, columns)), tuple(rows), notes)


def _span_cell(low: int | None, high: int | None) -> Cell:
    if low is None or high is None:
        return Cell("")
    return Cell(f"{low}" if low == high else f"{low} to {high}", values=(low, high))


def _standings_section(board: Leaderboard, end: str, level: int) -> Section:
    label = board.protocol.label(board.main)
    caption = f"Runs ranked by {label}"
    said = (*([board.privacy] if board.privacy else []), *incomplete(board))
    blocks: list[Block] = [Prose(said)] if said else []
    if board.ranked:
        blocks.append(_table(board, board.ranked, f"leaderboard{end}", caption, ranked=True))
    if board.ranked and not board.private:  # without intervals it repeats the table
        blocks.append(leaderboard_means_figure(board, end))
    if board.others:
        other = "Other runs, neither ranked nor tested" if board.ranked else "Runs, neither ranked nor tested"
        blocks.append(_table(board, board.others, f"others{end}", other, ranked=False))
    return Section("Ranks", tuple(blocks), level)


def leaderboard_means_figure(board: Leaderboard, end: str = "") -> Figure:
    """Draws the means of the main measure with their intervals, best first."""
    label = board.protocol.label(board.main)
    drawn, alike = [], like_the_best(board)
    for each in board.ranked[: figures.MOST_ROWS]:
        mean = each.mean(board.main)
        value, low, high = (math.nan if bound is None else bound for bound in (mean.value, mean.low, mean.high))
        drawn.append((each.name, value, low, high, each.name in alike))
    said = "; diamonds: not significantly different from the best" if board.grouping != "none" else ""
    some = f", the first {figures.MOST_ROWS}" if len(board.ranked) > figures.MOST_ROWS else ""
    axis = label if board.private else f"{label}, {board.confidence * 100:g}% interval"
    svg = figures.dot_interval(drawn, axis, decimals=min(board.decimals, 3))
    return Figure(f"means{end}", f"{label} of the runs{some}{said}", svg)


def _judgments_section(board: Leaderboard, end: str, level: int) -> list[Section]:
    """Returns the share of judged results of each run."""
    shares = [(each, each.judgments) for each in (*board.ranked, *board.others) if each.judgments is not None]
    if not shares:
        return []
    k, depth = shares[0][1].k, shares[0][1].depth
    estimated = any(judged.expected is not None for _, judged in shares)
    parts: list[tuple[str, Callable[[Judgments], float | None]]] = [
        (f"Judged@{k}", lambda each: each.judged),
        (f"unjudged@{k}", lambda each: 1 - each.judged),
    ]
    parts += [(f"expected bias of P@{k}", lambda each: each.expected)] if estimated else []
    parts += [(f"Judged@{depth}", lambda each: each.covered)] if depth is not None else []
    columns = [Column("run"), *(Column(name, kind="number") for name, _ in parts)]
    rows = []
    for each, judged in shares:
        values = (math.nan if (found := value(judged)) is None else found for _, value in parts)
        rows.append((Cell(each.name), *(number_cell(found, 3) for found in values)))
    said = [POOLING]
    said += [EXPECTED] if estimated else []
    said += [PRIMED] if board.protocol.prime else []
    said += [f"Judged@{depth} is the judged share of the whole run."] if depth is not None else []
    table = Table(f"judged{end}", "Judged share of the runs", tuple(columns), tuple(rows))
    return [Section("Judged results", (Prose(tuple(said)), table), level)]


def _ties_section(board: Leaderboard, end: str, level: int) -> list[Section]:
    """Returns the range of means over the orders of tied results."""
    if board.private:
        return []
    label = board.protocol.label(board.main)
    tied = [(each, each.ties) for each in board.ranked if each.ties is not None and each.ties.tied]
    rule = " ".join(word for word in board.protocol.in_words()[: 2 if board.protocol.deduplicate else 1])
    if not tied:
        return [Section("Ties", (Prose((f"No run has tied results. {rule}",)),), level)]
    rows = []
    for each, ties in tied:
        known = ties.low is not None and ties.high is not None
        ends = dict.fromkeys(f"{end:.4f}" for end in (ties.low, ties.high) if end is not None)
        span = " to ".join(ends) if known else "not known"
        values = (ties.low or 0.0, ties.high or 0.0) if known else ()
        ranks = _span_cell(ties.best, ties.worst) if ties.best is not None else Cell("not known")
        rows.append((Cell(each.name), _count_cell(each.rank), _count_cell(ties.tied), Cell(span, values=values), ranks))
    columns = (
        Column("run"),
        Column("rank", kind="number"),
        Column("tied results", kind="number"),
        Column(label, parts=(f"{label} low", f"{label} high")),
        Column("ranks", parts=("rank low", "rank high")),
    )
    note = "Ranks: the best and the worst over all orders of all runs' tied results."
    caption = f"{label} and rank over all orders of tied results"
    table = Table(f"ties{end}", caption, columns, tuple(rows), (note,))
    return [Section("Ties", (Prose((rule,)), table), level)]


def _data_and_protocol_section(board: Leaderboard, remarks: Sequence[str], level: int) -> Section:
    judged = f"SHA-256 of the judgments: {board.qrels_sha256[:12]}." if board.qrels_sha256 else ""
    head = f"Collection {board.collection}, edition {board.edition}: {board.topics} topics. {judged}".strip()
    return Section("Data and protocol", (Prose((head, *remarks)), protocol_text(board.protocol)), level)
