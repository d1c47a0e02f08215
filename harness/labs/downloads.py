"""Files that a lab offers to participants: topics, documents and rules, each with its checksum.

They are written anew from what the harness has read, so that no file holds more than the topics or documents in it, and
with configurations by which `harness run` reads them.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

from harness.collections.collection import Collection
from harness.collections.corpora import JudgedBy, load_corpus
from harness.collections.corpus import IRDS, Corpus
from harness.collections.load import load_collection
from harness.collections.writers.contents import contents, document_metadata, json_line, topic_metadata
from harness.errors import HarnessError, counted_text, gather, os_errors
from harness.io import config, staging_names
from harness.io.files import data_root, read_bytes, write_atomic
from harness.labs.lab import Lab
from harness.labs.names import zoned
from harness.labs.settings import DownloadKind as Kind
from harness.render.pages import file_stem
from harness.scoring.protocol import load_protocol

VERSION = 1  # of the written files
_RECORD = "downloads.json"
_SIMPLE = re.compile(r"[^\W_][\w.+-]*")
# What a participant takes from a server: nothing else is written, and nowhere else.
NAMES = re.compile(rf"rules\.md|conf/(collection|corpus|protocol)/({_SIMPLE.pattern})\.(yaml|jsonl)")
_EDITION = {"title", "private", "qrels"}
_KEYS = {  # of the configurations that a lab offers
    "collection": {"name", "title", "licence", "protocol", "editions", "topics", "corpus", "cluster", "link"},
    "corpus": {"name", "title", "licence", "file", "fields", "keep", "ids_are_keys", "has_keys", "dollars"},
}
_FIELDS = ("id", "title", "body", "tags", "formulas")


@dataclass(frozen=True)
class Download:
    """A file to download.

    Attributes
    ----------
    name : path relative to the participant's folder, such as `conf/corpus/club.jsonl`.
    kind : what it is, or what it is the configuration of.
    bytes, sha256 : its size and checksum.
    """

    name: str
    kind: Kind
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Downloads:
    """The files that a lab offers, and the names by which `harness run` knows its data.

    Attributes
    ----------
    corpus : empty if the collection names none.
    ours : whether collection and corpus are part of the harness, which then needs no configuration of the lab.
    ready : whether the files were written for the lab's present settings.
    """

    collection: str
    corpus: str
    ours: bool
    files: tuple[Download, ...]
    ready: bool = True


def permitted(lab: Lab) -> tuple[Kind, ...]:
    """Returns what a lab's settings allow to be downloaded: its key `downloads`, by default what tells nothing new.

    With private judgments these are the rules alone; without pages of topics on its site, not its topics.
    """
    if lab.downloads is not None:
        return lab.downloads
    if lab.private:
        return ("rules",)
    return ("topics", "documents", "rules") if lab.topic_pages else ("documents", "rules")


def offered(lab: Lab, folder: Path) -> Downloads:
    """Returns the files in a folder that a lab's present settings allow; none if they were written for other settings.

    Raises
    ------
    HarnessError
        The collection's configuration cannot be read.
    """
    record = _record(folder)
    files: tuple[Download, ...] = ()
    ready = record.get("of") == _settings(lab)
    if ready:
        files = tuple(Download(**each) for each in record["files"] if each["kind"] in permitted(lab))
    corpus = _corpus_name(lab)
    ours = _is_ours("collection", lab.collection) and (not corpus or _is_ours("corpus", corpus))
    names = (lab.collection, corpus) if ours else (_stem(lab.collection), _stem(corpus))
    return Downloads(*names, ours, files, ready or not permitted(lab))


def write_downloads(lab: Lab, folder: Path) -> list[str]:
    """Writes the files that a lab offers into a folder, each named by its SHA-256; documents are streamed.

    Returns
    -------
    lines on what is not offered for a fault of the data, or since it would reveal private judgments; for organisers.

    Raises
    ------
    HarnessError
        The folder cannot be written, or the collection is unknown.
    """
    faults: list[str] = []
    collection, wanted = load_collection(lab.collection), permitted(lab)
    before = _record(folder)
    files: list[Download] = []
    made_of = ""
    with os_errors(folder, "written"):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if "documents" in wanted:
            with gather(faults):
                if (corpus := _corpus(lab, collection)) is not None:
                    made_of = _documents_identity(lab, corpus)
                    same = before["files"] if before.get("documents_of") == made_of else []
                    kept = [Download(**each) for each in same if each["kind"] == "documents"]
                    there = kept and all((folder / each.sha256).is_file() for each in kept)
                    files += kept if there else list(_document_files(folder, lab, corpus))
        if "topics" in wanted:
            with gather(faults):
                files += list(_topic_files(folder, lab, collection, with_corpus=bool(files)))
        if "rules" in wanted:
            files.append(_write(folder, "rules.md", "rules", [rules_text(lab)]))
        files.sort(key=lambda each: each.name)
        record = {"of": _settings(lab), "documents_of": made_of, "files": [asdict(each) for each in files]}
        write_atomic(folder / _RECORD, json.dumps(record))
        wanted_names = {each.sha256 for each in files} | {_RECORD}
        for path in folder.iterdir():
            if path.name not in wanted_names and not path.name.startswith("."):
                path.unlink()
    return faults


def _record(folder: Path) -> dict[str, Any]:
    """Returns what was written into a folder, and by which settings; empty without a record."""
    try:
        return dict(json.loads((folder / _RECORD).read_text("utf-8")))
    except (OSError, ValueError):
        return {}


def _settings(lab: Lab) -> list[object]:
    """Returns the settings by which files were written; those for others are not offered."""
    return [VERSION, lab.collection, lab.edition, _corpus_name(lab), lab.protocol, lab.private]


def _corpus_name(lab: Lab) -> str:
    return lab.corpus or load_collection(lab.collection).corpus


def _stem(name: str) -> str:
    """Returns the name of a collection or corpus in names of files: as it is, unless it is odd for a file."""
    return name if not name or _SIMPLE.fullmatch(name) else file_stem(name)


def _is_ours(group: str, name: str) -> bool:
    """Returns whether every installation of the harness knows a configuration."""
    return name.startswith(IRDS) or config.names(group)[name].is_relative_to(data_root() / "conf")


def _corpus(lab: Lab, collection: Collection) -> Corpus | None:
    """Returns the corpus whose documents are offered; None if they are the harness's to fetch, or there is none."""
    name = lab.corpus or collection.corpus
    if not name:
        if "documents" in (lab.downloads or ()):
            raise HarnessError(f"documents: collection {collection.name} names no corpus; set key 'corpus' of lab.yaml")
        return None
    corpus = load_corpus(name)
    sources = corpus.sources if isinstance(corpus.sources, tuple) else (corpus.sources,)
    if lab.downloads is None and not (type(corpus) is Corpus and all(isinstance(each, Path) for each in sources)):
        return None
    if lab.private and isinstance(corpus.part, JudgedBy):
        raise HarnessError(f"documents: corpus {name} consists of judged documents, and the judgments are private")
    # Raises if the corpus holds the documents that a private edition judges.
    contents(collection, corpus, lab.edition, judgments=False)
    return corpus


def _topic_files(folder: Path, lab: Lab, collection: Collection, *, with_corpus: bool) -> Iterator[Download]:
    """Yields the topics, and the configuration that reads them."""
    source, name = collection.topic_file, _stem(lab.collection)
    if lab.downloads is None and not (source is not None and isinstance(source.file, Path)):
        return
    if source is None and lab.private:
        raise HarnessError("topics: are known from the judgments alone, and these are private")
    topics = collection.topics()
    rows = ({"id": topic.id, **topic_metadata(topic)} for topic in topics)
    yield _write(folder, f"conf/collection/{name}.topics.jsonl", "topics", map(json_line, rows))
    if _is_ours("collection", lab.collection):
        return
    if not _is_ours("protocol", lab.protocol):
        protocol = config.read("protocol", lab.protocol)[0]
        yield _write(folder, f"conf/protocol/{lab.protocol}.yaml", "topics", [_yaml(protocol)])
    kept_back = {"title": "the lab's judgments, which are with its organisers", "private": True}
    corpus = _corpus_name(lab)
    known = bool(corpus) and (with_corpus or _is_ours("corpus", corpus))
    dollars = {topic.dollars for topic in topics} - {"pairs"}
    settings = {
        "name": name,
        "title": collection.title,
        "licence": collection.licence,
        "protocol": lab.protocol,
        "editions": {lab.edition: {**kept_back, "qrels": {"file": f"{name}.qrels"}}},
        "topics": {"reader": "jsonl", "file": f"{name}.topics.jsonl", **({"dollars": min(dollars)} if dollars else {})},
        **({"corpus": _stem(corpus)} if known else {}),
        **{key: value for key in ("cluster", "link") if (value := getattr(collection, key))},
    }
    yield _write(folder, f"conf/collection/{name}.yaml", "topics", [_yaml(settings)])


def _documents_identity(lab: Lab, corpus: Corpus) -> str:
    """Returns what the written documents depend on; those of the same identity are not written again."""
    about = (corpus.title, corpus.licence, corpus.ids_are_keys, corpus.has_keys, corpus.dollars)
    return json.dumps([VERSION, corpus.identity(), about, _is_ours("corpus", _corpus_name(lab))])


def _document_files(folder: Path, lab: Lab, corpus: Corpus) -> Iterator[Download]:
    """Yields the documents, and the configuration that reads them."""
    name = _stem(_corpus_name(lab))
    columns: set[str] = set()

    def lines() -> Iterator[str]:
        for document in corpus:
            if taken := document.columns.keys() & set(_FIELDS):
                reason = f"keeps a column {min(taken)!r}, which is the name of a field of documents"
                raise HarnessError(f"documents: corpus {corpus.name} {reason}")
            columns.update(document.columns)
            row = {"id": document.id, "title": document.title, "body": document.body, "tags": [], "formulas": []}
            more = document_metadata(document)
            yield json_line({**row, **more.pop("columns", {}), **more})

    yield _write(folder, f"conf/corpus/{name}.jsonl", "documents", lines())
    if _is_ours("corpus", _corpus_name(lab)):
        return
    settings = {
        "name": name,
        "title": corpus.title,
        "licence": corpus.licence,
        "file": {"file": f"{name}.jsonl"},
        "fields": {field: field for field in _FIELDS},
        **({"keep": sorted(columns)} if columns else {}),
        **{key: True for key in ("ids_are_keys", "has_keys") if getattr(corpus, key)},
        "dollars": corpus.dollars,
    }
    yield _write(folder, f"conf/corpus/{name}.yaml", "documents", [_yaml(settings)])


def _yaml(settings: Mapping[str, Any]) -> str:
    return str(yaml.safe_dump(dict(settings), sort_keys=False, allow_unicode=True))


def check_configuration(name: str, path: Path) -> None:
    """Checks that a downloaded file, if it is a configuration, reads files of this download alone, and runs no code.

    Raises
    ------
    HarnessError
        It has other keys than the configurations that `write_downloads` writes, or they name other files or readers.
    """
    match = NAMES.fullmatch(name)
    if match is None or match[3] != "yaml" or match[1] == "protocol":  # a protocol names no file
        return
    given = config.parse(read_bytes(path, most=1 << 20), name)
    stem, wrong = match[2], sorted(map(str, given.keys() - _KEYS[match[1]]))
    if match[1] == "corpus":
        right = {"file": given.get("file") == {"file": f"{stem}.jsonl"}}
    else:
        topics, editions = (each if isinstance(each, dict) else {} for each in map(given.get, ("topics", "editions")))
        read = {"reader": "jsonl", "file": f"{stem}.topics.jsonl"}
        right = {
            "topics": {key: value for key, value in topics.items() if key != "dollars"} == read,
            "editions": bool(editions) and all(_reads_nothing_else(part, stem) for part in editions.values()),
        }
    wrong += [key for key, holds in right.items() if not holds]
    if wrong:
        reason = "names another file or reader than those of the download, or is unknown"
        raise HarnessError(f"{name}: key {wrong[0]!r} {reason}; nothing was written")


def _reads_nothing_else(edition: object, stem: str) -> bool:
    if not isinstance(edition, dict) or not edition.keys() <= _EDITION:
        return False
    return bool(edition.get("qrels") == {"file": f"{stem}.qrels"})


def _write(folder: Path, name: str, kind: Kind, lines: Iterable[str]) -> Download:
    """Writes a file under its SHA-256, as its lines come."""
    digest, size = hashlib.sha256(), 0
    with staging_names.opened(folder / "file") as (path, stream):
        for line in lines:
            data = line.encode()
            digest.update(data)
            size += stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())
        path.replace(folder / digest.hexdigest())
    return Download(name, kind, size, digest.hexdigest())


def rule_lines(lab: Lab) -> Iterator[str]:
    """Yields the rules of a lab, a sentence or two each."""
    yield from lab.rules
    if lab.cap is not None:
        yield f"Each team may submit {counted_text(lab.cap, 'run')}, withdrawn ones included."
    if lab.cap_per_day is not None:
        yield f"Each team may submit {counted_text(lab.cap_per_day, 'run')} per day (UTC)."
    if lab.invalid_cap is not None:
        yield f"Each team may send {counted_text(lab.invalid_cap, 'invalid file')}."
    if lab.results is not None:
        yield f"A run has at most {lab.results:,} results per topic."
    if lab.least_results > 1:
        yield f"A run has at least {lab.least_results:,} results for each topic that it answers."
    if lab.private:
        yield "A run must answer at least half of the topics."
    if lab.held_out:
        yield "Means are over the public half of the topics; the others decide the final ranking."
    if lab.pseudonyms_until is not None:
        yield f"Teams may have pseudonyms until {lab.pseudonyms_until:%Y-%m-%d %H:%M %Z}."
    yield "A team is ranked by its primary run: its first one, until it chooses another."
    yield "The same rankings may be submitted only once. A label that is submitted again gets a new version."


def rules_text(lab: Lab) -> str:
    """Returns the rules as a text file (Markdown), with what a participant must know of the lab."""
    label = load_protocol(lab.protocol).label
    deadline = "none" if lab.deadline is None else f"{zoned(lab.deadline)}; later runs are post-hoc"
    facts = {
        "collection": f"{lab.collection}, edition {lab.edition}",
        "protocol": lab.protocol,
        "measures": f"{', '.join(map(label, lab.measures))}; the first one ranks",
        "deadline": deadline,
        "a submission must state": ", ".join(name.replace("_", " ") for name in lab.require),
        "contact": lab.contact,
    }
    parts = [f"# {lab.title}", *([lab.about] if lab.about else [])]
    parts.append("\n".join(f"- {name}: {value}" for name, value in facts.items() if value))
    parts += ["## Rules", "\n".join(f"- {line}" for line in rule_lines(lab))]
    return "\n\n".join(parts) + "\n"
