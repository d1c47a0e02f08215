"""The map from the rows of a paper's tables to user-supplied run files."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from typing import Any, Literal

import yaml

from harness.errors import HarnessError, gather, refuse, suggestion
from harness.io import config
from harness.io.checks import Words, typed
from harness.io.files import read_bytes, write_atomic
from harness.papers import rows
from harness.papers.cells import PublishedCell
from harness.papers.paper import Paper
from harness.store import sidecar
from harness.systems.crosslingual.languages import NLLB
from harness.systems.crosslingual.scripts import NAMES, tag

MAP = "map.yaml"
_MOST_FILES = 10_000  # limit for a folder without a map
_MOST_BYTES = 1 << 22
_ENDINGS = frozenset({".run", ".txt", ".tsv", ".csv", ".res", ".trec", ".out", ".dat", ".gz", ".xz", ".zst"})
_SEEDS = re.compile(r"mean_(\d+)_seeds")


@dataclass(frozen=True)
class PaperRow:
    """A row of a paper's table whose numbers are computed from runs.

    Attributes
    ----------
    name : name of its run; rows that print the numbers of one run share it.
    collections : the paper's name of each collection with numbers in this row -> the key in `Scored.collections`.
    seeds : number of runs that its numbers are means over.
    names : other names of its run: in the archive, and of the system that makes it.
    """

    table: str
    label: str
    name: str
    collections: Mapping[str, str]
    seeds: int = 1
    names: tuple[str, ...] = ()

    def runs(self) -> tuple[str, ...]:
        """Returns the names of its runs: one, or one per seed."""
        return (self.name,) if self.seeds == 1 else tuple(f"{self.name}-{n}" for n in range(1, self.seeds + 1))


@dataclass(frozen=True)
class RunLocation:
    """Files of a row's run on a collection (a key in `Scored.collections`); `where` names the entry in messages."""

    row: PaperRow
    collection: str
    files: tuple[Path, ...]
    where: str
    origin: Literal["brought", "made here"] = "brought"


@dataclass(frozen=True)
class KeyColumns:
    """File of documents and de-duplication keys, for collections of formulas without their own.

    Attributes
    ----------
    file : its path.
    id_column, key_column : columns of document ids and of keys.
    """

    file: str
    id_column: Words
    key_column: Words


@dataclass(frozen=True)
class ArchiveMap:
    """Content of `map.yaml`.

    Attributes
    ----------
    tables : table -> row -> collection -> file, or a list of files, one per seed.
    paper : name in `conf/paper/`.
    keys : file of keys, for collections of formulas without their own.
    """

    tables: Mapping[str, Mapping[str, Mapping[str, Any]]]
    paper: Words = ""
    keys: KeyColumns | None = None


def row_labels(paper: Paper) -> dict[tuple[str, str, str], str]:
    """Returns (table, group, system) -> label for each row of a paper; see `rows.labels`."""
    by_table: dict[str, dict[tuple[str, str], None]] = {}
    for cell in paper.cells:
        by_table.setdefault(cell.table, {})[cell.group, cell.system] = None
    return {(table, *row): label for table, match in by_table.items() for row, label in rows.labels(match).items()}


def paper_rows(paper: Paper) -> dict[tuple[str, str], PaperRow]:
    """Returns (table, label) -> row for rows computed from runs and rows that only the paper's text mentions.

    Examples
    --------
    >>> from harness.papers.paper import load_paper
    >>> found = paper_rows(load_paper("crossmath"))
    >>> found["1", "Bi-encoder"].name, found["1", "Bi-encoder"].collections["arqmath-2"]
    ('eng-NLLB-bi', 'arqmath-2')
    """
    scored, labels = paper.scored, row_labels(paper)
    if scored is None:
        return {}
    collections: dict[tuple[str, str], dict[str, str]] = {}
    first: dict[tuple[str, str], PublishedCell] = {}
    seeds: dict[tuple[str, str], int] = {}
    for cell in paper.cells:
        if place := scored.place(cell):
            at = (cell.table, labels[cell.table, cell.group, cell.system])
            collections.setdefault(at, {})[cell.collection] = place
            first.setdefault(at, cell)
            if match := _SEEDS.fullmatch(cell.aggregate):
                seeds[at] = int(match[1])
    run, names = {at: at for at in collections}, {at: (at[1],) for at in collections}
    ours = {judged.collection: place for place, judged in scored.collections.items()}
    listed = {(row.table, row.label): row for row in (paper.available.rows if paper.available is not None else ())}
    for at, row in listed.items():
        places = [ours[name] for name in row.collections if name in ours]
        collections.setdefault(at, {place.partition("/")[0]: place for place in places})
        run[at] = row.run
        names[at] = (row.label, row.short, *((row.run_name,) if row.system else ()))
    same = [[(each.table, labels[each.table, each.group, each.system]) for each in pair] for pair in paper.same_run]
    for at, there in same * len(same):  # the row of one run may stand for that of a third
        if at not in listed and at in run and there in run:  # a row with a command of its own keeps its run
            run[at] = run[there]
    named = _named(set(run.values()), {each.name for each in paper.runs})
    archived = {(each.group, each.system): each.name for each in paper.runs}
    called = {at: archived.get((first[at].group, first[at].system), "") if at in first else "" for at in run}
    return {
        at: PaperRow(*at, called[at] or named[run[at]], collections[at], seeds.get(at, 1), (*names[at], called[at]))
        for at in run
    }


def _named(places: Iterable[tuple[str, str]], used: Iterable[str]) -> dict[tuple[str, str], str]:
    """Returns (table, label) -> a name that is valid for files; includes the table if several tables share a label."""

    def plain(text: str) -> str:
        return re.sub(r"[^\w.+]+", "-", text).strip("-.+")[:100] or "row"

    places, taken = sorted(places), set(used)
    shared = Counter(plain(label) for _, label in places)
    names_of = {}
    for table, label in places:
        long = plain(f"{table} {label}")
        options = chain([plain(label)] if shared[plain(label)] == 1 else [], [long], (f"{long}-{n}" for n in count(2)))
        names_of[table, label] = next(name for name in options if name not in taken)
        taken.add(names_of[table, label])
    return names_of


def read_map(paper: Paper, path: Path, faults: list[str]) -> tuple[tuple[RunLocation, ...], KeyColumns | None]:
    """Reads the valid entries of a map file.

    Parameters
    ----------
    faults : receives a line for each unknown table, row or collection, missing file, and run with two files.

    Raises
    ------
    HarnessError
        The keys of the map itself are unknown, missing or wrong.
    """
    mapping, where = config.parse(read_bytes(path, most=_MOST_BYTES), str(path)), str(path)
    archive_map = typed(ArchiveMap, mapping, where)
    numbers = {str(table) for table in mapping["tables"] if isinstance(table, float)}  # YAML reads 4.10 as 4.1
    faults += [f"{where}: tables: {table} is read as a number; put it in quotes" for table in numbers]
    if archive_map.paper and archive_map.paper != paper.key:
        faults.append(f"{where}: key 'paper' is {archive_map.paper!r}, expected {paper.key!r}")
    known = paper_rows(paper)
    by_table: dict[str, dict[str, PaperRow]] = {}
    for (table, label), each in known.items():
        by_table.setdefault(table, {})[label] = each
    entries: list[RunLocation] = []
    for table, of_table in archive_map.tables.items():
        if table in numbers:
            continue
        if table not in by_table:
            printed = any(cell.table == table for cell in paper.cells)
            why = "has no number computed from runs" if printed else "is unknown"
            faults.append(f"{where}: tables: table {table!r} {why}; {suggestion(table, by_table)}")
            continue
        for label, of_row in of_table.items():
            at = f"{where}: tables: {table}: {label}"
            if (row := by_table[table].get(label)) is None:
                known_rows = suggestion(label, by_table[table])
                faults.append(f"{where}: tables: {table}: row {label!r} is unknown; {known_rows}")
                continue
            for name, files in of_row.items():
                if name not in row.collections:
                    faults.append(f"{at}: collection {name!r} is unknown; {suggestion(name, row.collections)}")
                    continue
                with gather(faults):
                    paths = _paths(files, row, path.parent, f"{at}: {name}")
                    entries.append(RunLocation(row, row.collections[name], paths, f"{at}: {name}"))
    keys = archive_map.keys
    if keys is not None:
        file = _resolved(path.parent, keys.file)
        keys = KeyColumns(str(file), keys.id_column, keys.key_column)
        if not _is_file(file):
            faults.append(f"{where}: keys: {file}: no such file")
    first: dict[tuple[str, str], RunLocation] = {}
    for entry in entries:
        before = first.setdefault((entry.row.name, entry.collection), entry)
        if before.files != entry.files:
            same = f"row {before.row.label!r} of table {before.row.table}"
            faults.append(f"{entry.where}: prints the numbers of the same run as {same}, which has another file")
    return tuple(first.values()), keys


def _paths(files: object, row: PaperRow, folder: Path, where: str) -> tuple[Path, ...]:
    """Resolves the files of an entry; raises HarnessError if they are wrong or missing."""
    given = files if isinstance(files, list) else [files]
    listed = [name for name in given if isinstance(name, str) and name]
    if not listed or len(listed) < len(given):
        raise HarnessError(f"{where}: found {files!r}, expected a run file, or a list of run files, one per seed")
    if len(listed) > 1 and row.seeds == 1:
        raise HarnessError(f"{where}: {len(listed)} files, but the row's numbers come from one run")
    if len(listed) > row.seeds:
        raise HarnessError(f"{where}: {len(listed)} files, but the row's numbers are means over {row.seeds} seeds")
    paths = tuple(_resolved(folder, name) for name in listed)
    if len({os.path.realpath(path) if _is_file(path) else str(path) for path in paths}) < len(paths):
        raise HarnessError(f"{where}: one file is listed twice; expected a different run for each seed")
    missing = [path for path in paths if not _is_file(path)]
    known = [file.relative_to(folder).as_posix() for file in run_files(folder)] if missing else []
    others = [suggestion(path.name, known) if known else "the folder has no other run" for path in missing]
    refuse([f"{where}: {path}: no such file; {other}" for path, other in zip(missing, others, strict=True)])
    return paths


def _resolved(folder: Path, name: str) -> Path:
    """Resolves a file name in a map: relative to the map, or in a user's home."""
    try:
        return folder / Path(name).expanduser()
    except RuntimeError:  # `~name` of an unknown user
        return folder / name


def _is_file(path: Path) -> bool:
    return os.path.isfile(path)  # noqa: PTH113  (Path.is_file raises for names that are too long)


def run_files(folder: Path) -> list[Path]:
    """Lists the files in a folder and its subfolders that may be runs; skips hidden files, metadata files and maps.

    Raises
    ------
    HarnessError
        There are more than 10,000 such files.
    """
    paths: list[Path] = []
    for path in folder.rglob("*"):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if not hidden and path.is_file() and path.suffix in _ENDINGS | {""} and not path.name.endswith(sidecar.ENDING):
            paths.append(path)
        if len(paths) > _MOST_FILES:
            raise HarnessError(f"{folder}: more than {_MOST_FILES:,} files; give a folder that contains only runs")
    return sorted(paths)


def fitting(paper: Paper, folder: Path) -> tuple[dict[Path, tuple[PaperRow, str]], list[Path]]:
    """Matches files by name to one row and one collection, in any spelling; returns matches and other files.

    `arqmath-3/msm-2-tf-idf.run`, `TF-IDF-auto-both-A_arqmath-3.tsv`, names of the archive's files and names given by
    `harness run` match unless two rows share them. The name of a run in a topic language may combine language,
    translator, model and collection in any order: `Croatian_NLLB-Bi-encoder_arqmath-1.tsv`.

    Raises
    ------
    HarnessError
        Two files match the same run; one line per such run.
    """
    scored, known = paper.scored, list(paper_rows(paper).values())
    if scored is None:
        return {}, run_files(folder)
    first = {row.name: row for row in reversed(known)}  # run -> first of the rows that print its numbers
    names: dict[str, set[tuple[str, str]]] = {}
    parted: list[tuple[tuple[str, str], list[frozenset[str]]]] = []
    for row in known:
        for collection, place in row.collections.items():
            judged = scored.collections[place]
            called = {collection, place, judged.collection, judged.suffix} - {""}
            for each in called:
                for name in {row.name, *row.names, f"{row.table} {row.label}"} - {""}:
                    for words in (f"{each} {name}", f"{name} {each}"):
                        names.setdefault(_plain(words), set()).add((row.name, place))
            of_collection = frozenset(map(_joined, called))
            parted += [((row.name, place), [of_collection, *parts]) for parts in _parts(paper, row)]
    for run in paper.runs:
        if run.name in first:
            last = Path(run.file.path).parts[-2:]
            names.setdefault(_plain(_without_endings(Path(*last))), set()).add((run.name, run.collection))
    files: dict[tuple[str, str], list[Path]] = {}
    everything = run_files(folder)
    for path in everything:
        inside = Path(_without_endings(path.relative_to(folder)))
        tried = (_plain(" ".join(inside.parts[-2:])), _plain(inside.name))
        rows_at = next((names[words] for words in tried if words in names), set())
        for words in () if rows_at else tried:
            rows_at = rows_at or {at for at, parts in parted if _made_of(words.split("-"), parts)}
        if len(rows_at) == 1:
            files.setdefault(next(iter(rows_at)), []).append(path)
    faults = []
    for (name, place), paths in files.items():
        if len(paths) > 1:
            same = " and ".join(str(path.relative_to(folder)) for path in paths)
            said = f"{folder}: {same} match the same run, {first[name].label!r} ({name}) on {place}"
            faults.append(f"{said}; keep one, or write {folder / MAP}")
    refuse(faults)
    fits = {paths[0]: (first[at[0]], at[1]) for at, paths in files.items()}
    return fits, [path for path in everything if path not in fits]


def _parts(paper: Paper, row: PaperRow) -> Iterator[list[frozenset[str]]]:
    """Yields the parts of a run's name, each with all its spellings: topic language, translator, model.

    Only for papers whose archive groups runs by topic language. The parts come from the row's label and from the
    archive's name (`hrv-NLLB-bi`).
    """
    language = next((run.group for run in paper.runs if run.name == row.name and run.group in NAMES), None)
    if language is None:
        return
    codes = {code for code, name in NAMES.items() if name == NAMES[language]}
    spoken = frozenset({NAMES[language].casefold(), *codes, *(_joined(NLLB[code]) for code in codes), *map(tag, codes)})
    for parts in (row.label.split("+"), row.name.split("-")[1:]):
        plain = [_joined(part).removesuffix("encoder") for part in parts]
        yield [spoken, *(frozenset({part, f"{part}encoder"}) for part in plain)]


def _made_of(words: Sequence[str], parts: Sequence[frozenset[str]]) -> bool:
    """Returns whether the words are exactly the parts in any order; a part may span several words.

    >>> _made_of(["bi", "encoder", "nllb"], [frozenset({"nllb"}), frozenset({"bi", "biencoder"})])
    True
    """
    if not words or not parts:
        return not words and not parts
    return any(
        "".join(words[:end]) in part and _made_of(words[end:], [*parts[:n], *parts[n + 1 :]])
        for end in range(1, len(words) + 1)
        for n, part in enumerate(parts)
    )


def recognised(paper: Paper) -> str:
    """Describes the file names that are recognised, with examples from the paper.

    Examples
    --------
    >>> from harness.papers.paper import load_paper
    >>> recognised(load_paper("mathlib4"))
    'recognised names have a row and a collection, such as mathlib4/Moogle.run'
    """
    known = list(paper_rows(paper).values())
    first = f"{next(iter(known[0].collections))}/{known[0].name}.run"
    text = f"recognised names have a row and a collection, such as {first}"
    parted = (row for row in known if len(next(_parts(paper, row), ())) > 2)
    if (row := next(parted, None)) is None:
        return text
    group = next(run.group for run in paper.runs if run.name == row.name)
    model = row.label.replace(" + ", "-")
    example = f"{NAMES[group]}_{model}_{next(iter(row.collections))}.tsv"
    return f"{text}, or language (name or ISO code), translator, model and collection in any order: {example}"


def _without_endings(path: Path) -> str:
    while path.suffix in _ENDINGS:
        path = path.with_suffix("")
    return path.as_posix()


def _plain(words: str) -> str:
    """Returns the words in lower case, separated by single dashes."""
    return re.sub(r"[\W_]+", "-", words.casefold()).strip("-")


def _joined(words: str) -> str:
    """Returns the words in lower case without separators: `Bi-encoder` becomes `biencoder`."""
    return _plain(words).replace("-", "")


def write_map(paper: Paper, folder: Path) -> tuple[Path, int, list[Path]]:
    """Writes the map of a folder from its file names; returns its path, the number of matched files, and the others.

    Raises
    ------
    HarnessError
        No file matches a row, two files match one run, or the map cannot be written.
    """
    fits, rest = fitting(paper, folder)
    known = paper_rows(paper)
    if not fits:
        row = next(iter(known.values()))
        fault = f"none of {len(rest)} files is named after" if rest else "no run file is named after"
        raise HarnessError(
            f"{folder}: no {MAP}; {fault} a row of paper {paper.key}; {recognised(paper)}; rename the files, or write "
            f"{folder / MAP}: tables: {{{row.table!r}: {{{row.label!r}: {{{next(iter(row.collections))}: FILE}}}}}}"
        )
    tables: dict[str, dict[str, dict[str, str]]] = {}
    for path, (row, place) in fits.items():
        collection = next(name for name, key in row.collections.items() if key == place)
        tables.setdefault(row.table, {}).setdefault(row.label, {})[collection] = path.relative_to(folder).as_posix()
    head = [
        "# table -> row -> collection -> run file, relative to this file; a list of files, one per seed, if the",
        "# number is a mean over seeds. Generated from file names: please check it; it is never overwritten.",
        *(f"# no matching row: {path.relative_to(folder).as_posix()!r}" for path in rest),
    ]
    ordered: dict[str, dict[str, dict[str, str]]] = {}
    for table, label in known:
        if label in tables.get(table, ()):
            ordered.setdefault(table, {})[label] = tables[table][label]
    body = yaml.safe_dump({"paper": paper.key, "tables": ordered}, sort_keys=False, allow_unicode=True, width=1000)
    write_atomic(folder / MAP, "\n".join(head) + "\n" + body)
    return folder / MAP, len(fits), rest
