"""What a paper's tables lack and take, as tables of a report and of `harness show`."""

from __future__ import annotations

from collections.abc import Sequence

from harness.collections.corpora import load_corpus
from harness.collections.corpus import Corpus
from harness.errors import counted_text
from harness.papers.estimate import GroupEstimate, order, united
from harness.papers.rates import SPREAD, UNKNOWN, Range, amount, data, prices, size_text
from harness.papers.rows import Available, State
from harness.render.model import Cell, Column, Prose, Section, Table

NOTES = (
    f"Hours: from the lowest measurement divided by {SPREAD:g} to the highest times {SPREAD:g}, as texts, models and "
    "machine differ from those measured.",
    "Encoders of another size: extrapolated by layers x width². Several cores: the hours of one, divided.",
    "Not known: no measurement or count of it has an origin; nothing is guessed.",
    "What several tables need is in the total of each, and is obtained, made and paid once.",
)


def cost_section(groups: Sequence[GroupEstimate], key: str, cores: int = 1) -> Section:
    """Returns a section with the totals, what to obtain, the work with the origin of each rate, calls and order."""
    tables = (_totals_table(groups, cores), _resources_table(groups), _work_table(groups), _calls_table(groups))
    steps = tuple(f"{number}. {line}" for number, line in enumerate(order(groups, key), 1))
    shown = tuple(table for table in tables if table.rows)
    paid = prices()
    money = f"Dollars: known hours of one core at {paid.cpu}, and calls; an hour of a GPU is {paid.gpu}, times unknown."
    return Section("Cost of the missing numbers", (Prose((*NOTES, money)), *shown, Prose(("Order:", *steps))))


def _whole_range(bounds: Range | None) -> str:
    """Returns a range of counts with all digits."""
    if bounds is None:
        return UNKNOWN
    low, high = f"{bounds.low:,.0f}", f"{bounds.high:,.0f}"
    return high if low == high else f"{low} to {high}"


def _totals_table(groups: Sequence[GroupEstimate], cores: int) -> Table:
    rows = []
    for each in (*groups, *([united(groups)] if len(groups) > 1 else [])):
        memory = None if each.memory is None else Range(each.memory, each.memory)
        price = amount(each.price) if each.calls else "none"
        cells = [
            ", ".join(each.group.tables),
            f"{len(each.group.runs)}, by {counted_text(len(each.group.systems), 'system')}",
            amount(each.hours),
            *([amount(each.hours.times(1 / cores))] if cores > 1 else []),
            UNKNOWN,
            size_text(each.disk),
            f"at least {size_text(memory)}" if memory else UNKNOWN,
            price,
            amount(each.dollars),
            ", ".join(each.unknown) or "nothing",
            ", ".join(each.unsized) or "nothing",
        ]
        rows.append(tuple(map(Cell, cells)))
    here = [f"hours, {cores} cores"] if cores > 1 else []
    hours_of = ("hours, 1 core", *here, "hours, 1 GPU")
    unknown = ("time not known", "size not known")
    names = ("tables", "runs", *hours_of, "disk", "memory", "calls, dollars", "dollars", *unknown)
    return Table("cost-totals", "What each table takes", tuple(map(Column, names)), tuple(rows))


def _resources_table(groups: Sequence[GroupEstimate]) -> Table:
    users: dict[str, list[str]] = {}
    needed = {}
    for each in groups:
        for item in each.needed:
            needed[item.name] = item
            users.setdefault(item.name, []).extend(each.group.tables)
    rows = tuple(
        tuple(map(Cell, (item.name, item.where, item.licence, size_text(item.megabytes), ", ".join(users[name]))))
        for name, item in needed.items()
    )
    columns = tuple(map(Column, ("resource", "where, or command", "licence", "size", "tables")))
    corpora = dict.fromkeys(name for each in groups for name in each.group.corpora)
    known = [(name, data().corpora[name]) for name in corpora if name in data().corpora]
    notes = tuple(f"Counts of {name}: {counts.origin}." for name, counts in known)
    return Table("cost-resources", "What to obtain", columns, rows, notes)


def _work_table(groups: Sequence[GroupEstimate]) -> Table:
    lines: dict[tuple[str, ...], list[str]] = {}
    for each in groups:
        for step in each.steps:
            title = f"{step.title}{f' ({step.times} times)' if step.times > 1 else ''}"
            line = (title, amount(step.hours), step.gpu, f"{_whole_range(step.count)} {step.unit}", step.origin)
            lines.setdefault(line, []).extend(each.group.tables)
    rows = tuple(tuple(map(Cell, (title, *rest, ", ".join(tables)))) for (title, *rest), tables in lines.items())
    columns = tuple(map(Column, ("work", "hours, 1 core", "hours, 1 GPU", "count", "origin of the rate", "tables")))
    return Table("cost-work", "Work, and the origin of each rate", columns, rows, collapsed=True)


def _calls_table(groups: Sequence[GroupEstimate]) -> Table:
    lines: dict[tuple[str, ...], list[str]] = {}
    for each in groups:
        for call in each.calls:
            tokens = (amount(call.tokens_in), amount(call.tokens_out), amount(call.price), amount(call.hours))
            line = (call.endpoint, call.what, f"{call.calls:,}", *tokens, call.origin)
            lines.setdefault(line, []).extend(each.group.tables)
    rows = tuple(tuple(map(Cell, (*line, ", ".join(tables)))) for line, tables in lines.items())
    names = ("model", "for", "calls", "tokens in", "tokens out", "dollars", "hours at least", "origin", "tables")
    columns = tuple(map(Column, names))
    return Table("cost-calls", "Calls of language models and services", columns, rows, row_headers=2)


_TOO_FEW = "none: fewer than two of the fused runs can be made"


def available_section(available: Available) -> Section:
    """Returns a line for each row of the paper's tables, then the commands of the available rows."""
    full = load_corpus(available.corpus)
    states = [row.state() for row in available.rows]
    shown: tuple[State, ...] = ("runs", "in part", "needs", "not implemented", "blocked")
    counts = tuple(states.count(state) for state in shown)
    text: tuple[str, ...] = (
        f"Of {len(states)} rows, {counts[0]} can be run once their documents are available, {counts[1]} in part; "
        f"{counts[2]} need a resource, {counts[3]} are not implemented and {counts[4]} are blocked.",
        f"Full collection: {_corpus_text(full)}.",
    )
    if available.here:
        small = load_corpus(available.here.corpus)
        text = (*text, f"Small replacement: {_corpus_text(small)}. It does not give the paper's numbers.")
    return Section("Available rows", (Prose(text), _rows_table(available), _commands_table(available)))


def _corpus_text(corpus: Corpus) -> str:
    notes = "".join(f"; {note}" for note in corpus.notes)
    return f"corpus {corpus.name} ({corpus.title}{notes}): {corpus.state()}"


def _rows_table(available: Available) -> Table:
    rows = []
    for row in available.rows:
        state = "yes" if row.state() == "runs" else row.state()
        words = (row.system or "none", state, available.why(row) or "nothing")
        rows.append((Cell(row.table), Cell(row.label, note=row.note), *map(Cell, words)))
    columns = tuple(map(Column, ("table", "row", "system", "runs", "missing for the full collection")))
    note = (
        "Yes: the system is implemented. In part: the fusion is implemented, but some of its runs must come from "
        "elsewhere. Needs: implemented, but a resource is missing. Not implemented: could be implemented. Blocked: a "
        "required resource is not available anywhere."
    )
    return Table("available", "Rows of the paper's tables", columns, tuple(rows), (note,), row_headers=2)


def _commands_table(available: Available) -> Table:
    instead = [f"on {available.here.corpus}"] if available.here else []
    made = [(row, full) for row in available.rows if (full := available.full(row))]
    rows = tuple(
        tuple(map(Cell, (row.table, row.label, full, *(available.small(row) or _TOO_FEW for _ in instead))))
        for row, full in made
    )
    columns = tuple(map(Column, ("table", "row", "on the full collection", *instead)))
    notes = (
        "Commands for the last collection with published numbers; for others change collection= and the files. Files "
        "in capitals are runs that must come from elsewhere.",
        "A fine-tuned model leaves out the judgments of the collection that it is run on: change the keys "
        "system.training.leave_out and system.training.collections together with collection=.",
        "A rule that learns is trained on the preceding collection, from the runs that the same commands make on it.",
    )
    return Table("commands", "Commands of the runs", columns, rows, notes, row_headers=2, collapsed=True)
