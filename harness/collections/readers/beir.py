"""Reader of data sets in BEIR format: finds and reads the files of corpus, queries, judgments and exclusions.

In a folder (or a repository of the hub), each part is one file or a folder of files: JSON lines, a tab-separated table
with a header, or Parquet:

    corpus.jsonl         {"_id": "d1", "title": "", "text": "..."}         or corpus/*.parquet, corpus.tsv
    queries.jsonl        {"_id": "q1", "text": "..."}                      or queries/*.parquet, queries.tsv
    qrels/SPLIT.tsv      query-id, corpus-id, score                        or qrels/SPLIT.jsonl, qrels/SPLIT-*.parquet
    excluded_ids.jsonl   {"query-id": "q1", "excluded-ids": ["d7", "d9"]}  (MIRB; no set needs it)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from harness.collections.corpus import Corpus, CorpusReader, Document, Documents, Remarks, numbered_lines
from harness.data import topic_files
from harness.data.markup import numbered_formulas
from harness.data.records import TOPIC, Row, as_text, is_empty, json_lines, parquet_rows, text_of_columns, value
from harness.data.topics import Topic, Topics
from harness.data.trec import Qrels, read_qrels
from harness.errors import HarnessError, counted_text, format_error
from harness.formulas.text.delimiters import Dollars
from harness.io.files import sha256
from harness.io.names import check_id

Rows = Iterator[tuple[Path, int, Row]]  # file, line number (Parquet: row number) from 1, row
SPLIT = "test"  # default split
FORMS = (".jsonl", ".tsv", ".parquet")  # in order of preference, if a part has several
PARTS: Mapping[str, tuple[str, ...]] = {
    "corpus": ("corpus",),
    "queries": ("queries", "query"),
    "qrels": ("qrels",),
    "excluded": ("excluded_ids", "excluded-ids", "exclusions"),
}
_UNNAMED = ("default", "data")  # folders of judgments of data sets with a single unnamed configuration
_PACKED = (".gz", ".xz", ".zst")
_SHARD = re.compile(r"(.*?)-(\d{3,6})-of-(\d{3,6})")
ID = ("_id", "id")
TEXT = ("text", "content", "query")
EXCLUDED = ("excluded-ids", "excluded_ids")


@dataclass(frozen=True)
class BeirFiles:
    """The files of each part of a data set; `excluded` is empty if it has none."""

    corpus: tuple[Path, ...]
    queries: tuple[Path, ...]
    qrels: tuple[Path, ...]
    excluded: tuple[Path, ...] = ()


# ---- which files ------------------------------------------------------------------------------------------------


def find_beir_files(
    names: Iterable[str], where: str, split: str = SPLIT, subset: str = ""
) -> dict[str, tuple[str, ...]]:
    """Returns part -> its files, given the relative paths of all files of a data set.

    Parameters
    ----------
    where : name of the data set in messages.
    split : split of the judgments; a single file `qrels` is the split `test`.
    subset : subset of a repository with several data sets: files such as `SUBSET-corpus`, or in a folder `SUBSET`.

    Raises
    ------
    HarnessError
        A part, the split or a shard is missing, or there are several splits of documents or queries and none of them
        has the requested name.

    Examples
    --------
    >>> names = ["corpus.jsonl.gz", "queries.jsonl", "qrels/dev.tsv", "qrels/test.tsv", "README.md"]
    >>> find_beir_files(names, "scifact")["qrels"]
    ('qrels/test.tsv',)
    """
    candidates: dict[str, dict[tuple[str, str], list[str]]] = {part: {} for part in PARTS}
    there = set(names)
    for name in sorted(there):
        inner = _within(name, subset)
        if inner is None or not (form := _form(inner)) or (_unpacked(name) != name and _unpacked(name) in there):
            continue
        stem, ending = form
        shard = _SHARD.fullmatch(stem)
        group = shard[1] if shard else stem
        parts = PurePosixPath(inner).parts
        for part, called in PARTS.items():
            if len(parts) == 1 and group in called:
                candidates[part].setdefault((ending, ""), []).append(name)
            elif len(parts) == 2 and (parts[0] in called or (part == "qrels" and parts[0] in _UNNAMED)):
                candidates[part].setdefault((ending, group), []).append(name)
    of = f" of subset {subset!r}" if subset else ""
    out: dict[str, tuple[str, ...]] = {}
    for part, groups in candidates.items():
        if not groups and part == "excluded":
            out[part] = ()
            continue
        if not groups:
            expected = f"qrels/{split}.tsv" if part == "qrels" else f"{PARTS[part][0]}.jsonl"
            raise HarnessError(f"{where}: no {part}{of}; expected {expected}, or one of the other forms of BEIR's sets")
        group = _chosen_group(part, {group for _, group in groups}, split, where)
        ending = next(form for form in FORMS if (form, group) in groups)
        out[part] = tuple(groups[ending, group])
        _check_shards(out[part], where)
    return out


def _within(name: str, subset: str) -> str | None:
    """Returns a path relative to a subset; None if it is outside the subset."""
    if not subset:
        return name
    for before in (f"{subset}/", f"{subset}-"):
        if name.startswith(before):
            return name.removeprefix(before)
    return None


def _form(name: str) -> tuple[str, str] | None:
    """Returns a file's name without extensions, and the extension of its format; None for other formats."""
    plain = _unpacked(PurePosixPath(name).name)
    return next(((plain.removesuffix(form), form) for form in FORMS if plain.endswith(form)), None)


def _unpacked(name: str) -> str:
    """Returns a file's name without the extension of its compression."""
    return next((name.removesuffix(packed) for packed in _PACKED if name.endswith(packed)), name)


def _chosen_group(part: str, groups: set[str], split: str, where: str) -> str:
    if part == "qrels":
        wanted = [split] if split != SPLIT else [split, ""]  # a data set with one split need not name it
    else:
        wanted = ["", split, *PARTS[part], *(groups if len(groups) == 1 else ())]
    for group in wanted:
        if group in groups:
            return group
    there = ", ".join(sorted(group or SPLIT for group in groups))
    raise HarnessError(f"{where}: {part}: no split {split!r}; there are: {there}")


def _check_shards(names: Sequence[str], where: str) -> None:
    shards = [_SHARD.fullmatch((_form(name) or ("", ""))[0]) for name in names]
    many = {int(shard[3]) for shard in shards if shard}
    if many and (len(many) > 1 or len(names) != many.pop()):
        raise HarnessError(f"{where}: {len(names)} files such as {names[0]}, whose name says how many there should be")


def in_folder(folder: Path, where: str, split: str = SPLIT, subset: str = "") -> BeirFiles:
    """Returns the parts of a data set in a folder.

    Raises HarnessError as `find_beir_files`, or if the folder is missing.
    """
    if not folder.is_dir():
        raise HarnessError(f"{folder}: no such folder")
    below = [folder / subset] if subset and (folder / subset).is_dir() else [folder]
    entries = [path for base in below for path in (*base.iterdir(), *base.glob("*/*")) if path.is_file()]
    parts = find_beir_files((path.relative_to(folder).as_posix() for path in entries), where, split, subset)
    return BeirFiles(**{part: tuple(folder / name for name in names) for part, names in parts.items()})


# ---- contents ---------------------------------------------------------------------------------------------------


def rows(paths: Sequence[Path]) -> Rows:
    """Yields the rows of files in the formats of `FORMS`, file by file.

    Raises
    ------
    HarnessError
        A file is damaged or has another format; the message names the line.
    """
    for path in paths:
        form = _form(path.name)
        if form is None:
            raise format_error(path, 0, f"its name ends in none of {', '.join(FORMS)}")
        if form[1] == ".parquet":
            numbered = parquet_rows(path, path)
        else:
            numbered = json_lines(numbered_lines(path), path) if form[1] == ".jsonl" else _table_rows(path)
        for number, row in numbered:
            yield path, number, row


def _table_rows(path: Path) -> Iterator[tuple[int, Row]]:
    header: list[str] = []
    for number, line in numbered_lines(path):
        try:
            fields = line.decode("utf-8-sig" if number == 1 else "utf-8").split("\t")
        except UnicodeDecodeError:
            raise format_error(path, number, "not UTF-8 text") from None
        if not header:
            header = fields
        elif len(fields) != len(header):
            if line.strip():
                found_columns = counted_text(len(fields), "column")
                raise format_error(path, number, f"{found_columns}, expected {len(header)} as in the header")
        else:
            yield number, dict(zip(header, fields, strict=True))


def _read_documents(corpus: Corpus, _: Remarks) -> Documents:
    paths = corpus.paths
    empty = True
    for path, number, row in rows(paths):
        name, text = text_of_columns(row, ID, path, number), text_of_columns(row, TEXT, path, number)
        title = "" if is_empty(row.get("title")) else as_text(row["title"] or "", path, number)
        empty = False
        yield (
            (path, number),
            Document(name, title, text, (), numbered_formulas(f"{name}.", title, text, dollars=corpus.dollars)),
        )
    if empty:
        raise format_error(paths[0], 0, "holds no documents")


DOCUMENTS = CorpusReader("beir", _read_documents, version=2, dollars="pandoc")


def topics(files: BeirFiles, judged: Iterable[str], language: str = "eng", dollars: Dollars = "pandoc") -> Topics:
    """Returns the judged queries in file order; the file holds the queries of all splits.

    Raises
    ------
    HarnessError
        A row is damaged, an id is invalid or occurs twice, or a judged query is missing; the message names the line.
    """
    wanted, others = set(judged), False
    numbered = []
    for path, number, row in rows(files.queries):
        name = text_of_columns(row, ID + TOPIC, path, number)
        if name not in wanted:
            check_id(name, "query", path, number)
            others = True
            continue
        text = text_of_columns(row, TEXT, path, number)
        formulas = numbered_formulas(f"{name}.", text, dollars=dollars)
        numbered.append((number, Topic(name, text, "", (), formulas, language, dollars=dollars)))
    out = topic_files.unique(numbered, str(files.queries[0])) if numbered or not others else Topics(())
    if lacking := sorted(wanted - out.ids()):
        many = f"{len(lacking):,} such queries"
        raise format_error(files.qrels[0], 0, f"query {lacking[0]!r} is not in {files.queries[0].name} ({many})")
    return out


def qrels(files: BeirFiles, edition: str) -> Qrels:
    """Returns the judgments, of one file or of shards; see `harness.data.trec.parse_qrels`.

    Raises
    ------
    HarnessError
        A file has faults, or two shards judge one pair; the message names the line.
    """
    parts = [read_qrels(path, edition=edition) for path in files.qrels]
    if len(parts) == 1:
        return parts[0]
    judged: dict[tuple[str, bytes], tuple[Path, int]] = {}
    rows = []
    for path, part in zip(files.qrels, parts, strict=True):
        columns = zip(part.topic.tolist(), part.doc.tolist(), part.grade.tolist(), strict=True)
        for number, (at, doc, grade) in enumerate(columns, 1):
            topic = part.topics[at]
            before, row = judged.setdefault((topic, doc), (path, number))
            if before != path:
                said = f"judgment {number:,}, document {doc.decode()!r} of topic {topic!r}, is judgment {row:,} of"
                raise format_error(path, 0, f"{said} {before.name} already")
            rows.append((topic, doc.decode(), grade))
    return replace(Qrels.from_rows(edition, rows), sha256=sha256("\n".join(part.sha256 for part in parts).encode()))


def excluded(files: BeirFiles) -> dict[str, frozenset[str]]:
    """Returns topic -> ids of excluded documents.

    Raises
    ------
    HarnessError
        A row is damaged, or a query occurs twice; the message names the line.
    """
    out: dict[str, frozenset[str]] = {}
    for path, number, row in rows(files.excluded):
        name, docs = text_of_columns(row, TOPIC, path, number), value(row, EXCLUDED, path, number)
        if not isinstance(docs, list):
            raise format_error(path, number, f"column {EXCLUDED[0]!r} is {docs!r:.40}, expected a list of ids")
        if name in out:
            raise format_error(path, number, f"query {name!r} is on an earlier line already")
        out[name] = frozenset(as_text(doc, path, number) for doc in docs)
        for doc in (name, *out[name]):
            check_id(doc, "excluded", path, number)
    return out
