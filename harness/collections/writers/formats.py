"""Writers of an exported collection in the forms of BEIR, mteb and TREC.

- BEIR: `corpus.jsonl`, `queries.jsonl`, `qrels/test.tsv`, and MIRB's list of exclusions.
- mteb: the same without metadata, judgments as JSON lines, and a task class for mteb; `datasets` loads the folder.
- TREC: `documents.trec`, `topics.trec`, `topics.tsv`, `qrels.txt`, and keys of de-duplication.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from html import escape
from pathlib import Path

from harness.collections.readers.beir import SPLIT
from harness.collections.writers import contents
from harness.collections.writers.contents import Contents, Seen, body, json_line, write_lines
from harness.data.topics import Topic
from harness.errors import HarnessError
from harness.io.files import read_bytes, sha256, sha256_file, write_all

_TEMPLATE = Path(__file__).with_name("mteb_task.py.txt")
# What readers of topics in TREC's form take for the beginning of a field, wherever it stands.
_MARK = re.compile(r"</?(top|num|title|desc|narr|head|dom|smry|con|fac|nat|def|time)>", re.IGNORECASE)
_LABEL = re.compile(r"Topic:", re.IGNORECASE)
# ISO 15924 codes of the scripts of languages that are not written in Latin letters; the others are in `Latn`.
_SCRIPTS = {
    **dict.fromkeys(("ara", "arb", "ckb", "fas", "pes", "snd", "uig", "urd"), "Arab"),
    **dict.fromkeys(("bel", "bul", "kaz", "kir", "mkd", "mon", "rus", "srp", "tat", "tgk", "ukr"), "Cyrl"),
    **dict.fromkeys(("hin", "mar", "nep", "npi", "san"), "Deva"),
    **{"amh": "Ethi", "ben": "Beng", "cmn": "Hans", "ell": "Grek", "guj": "Gujr", "heb": "Hebr", "hye": "Armn"},
    **{"jpn": "Jpan", "kan": "Knda", "kat": "Geor", "khm": "Khmr", "kor": "Hang", "lao": "Laoo", "mal": "Mlym"},
    **{"mya": "Mymr", "pan": "Guru", "sin": "Sinh", "tam": "Taml", "tel": "Telu", "tha": "Thai", "zho": "Hans"},
}


def write_beir(data: Contents, folder: Path, *, metadata: bool = True) -> Seen:
    """Writes BEIR's files; returns what was written.

    Parameters
    ----------
    metadata : write tags, formulas and further columns as BEIR's `metadata`, and judgments as a table. Without it,
        files are as mteb reads them: the same columns on each line, and judgments as JSON lines.
    """
    seen = Seen()

    def documents() -> Iterator[str]:
        for document in data.documents(seen):
            row: dict[str, object] = {"_id": document.id, "title": document.title, "text": body(document)}
            if metadata and (more := contents.document_metadata(document)):
                row["metadata"] = more
            yield json_line(row)

    write_lines(folder / "corpus.jsonl", documents())
    queries = ({"_id": topic.id, "text": data.query(topic)} for topic in data.topics)
    about = ({"metadata": contents.topic_metadata(topic)} if metadata else {} for topic in data.topics)
    write_lines(folder / "queries.jsonl", (json_line(row | more) for row, more in zip(queries, about, strict=True)))
    judged = [(topic, doc, grade) for topic, docs in data.judgments(seen).items() for doc, grade in docs.items()]
    if data.qrels is not None and metadata:
        lines = ("\t".join(map(str, row)) + "\n" for row in judged)
        write_lines(folder / "qrels" / f"{SPLIT}.tsv", ["query-id\tcorpus-id\tscore\n", *lines])
    elif data.qrels is not None:
        rows = (dict(zip(("query-id", "corpus-id", "score"), row, strict=True)) for row in judged)
        write_lines(folder / "qrels" / f"{SPLIT}.jsonl", map(json_line, rows))
    _write_exclusions(data, folder)
    return seen


def _write_exclusions(data: Contents, folder: Path) -> None:
    if data.excluded is not None:
        rows = ({"query-id": name, "excluded-ids": sorted(docs)} for name, docs in sorted(data.excluded.items()))
        write_lines(folder / "excluded_ids.jsonl", map(json_line, rows))


def write_mteb(data: Contents, folder: Path) -> Seen:
    """Writes BEIR's files without metadata, and `task.py` with its data in `task.json`; returns what was written."""
    seen = write_beir(data, folder, metadata=False)
    lines = (f"{path.relative_to(folder).as_posix()} {sha256_file(path)}" for path in sorted(folder.rglob("*.jsonl")))
    task = {
        "name": task_name(data.collection.name),
        "description": data.collection.title,
        "revision": sha256("\n".join(lines).encode())[:40],
        "eval_langs": sorted(script_of(code) for code in {topic.language for topic in data.topics}),
        "main_score": "ndcg_at_10",
    }
    text = json.dumps(task, ensure_ascii=False, indent=1)
    write_all({folder / "task.json": f"{text}\n", folder / "task.py": read_bytes(_TEMPLATE)})
    return seen


def task_name(collection: str) -> str:
    """Returns the name of a collection as mteb's tasks are named.

    Examples
    --------
    >>> task_name("arqmath-3-task1"), task_name("mini-theorems")
    ('Arqmath3Task1', 'MiniTheorems')
    """
    return "".join(part[:1].upper() + part[1:] for part in re.split(r"[^A-Za-z0-9]+", collection))


def script_of(language: str) -> str:
    """Returns a language with its script, as mteb names it.

    Examples
    --------
    >>> script_of("eng"), script_of("pes")
    ('eng-Latn', 'pes-Arab')
    """
    return f"{language}-{_SCRIPTS.get(language, 'Latn')}"


def write_trec(data: Contents, folder: Path) -> Seen:
    """Writes TREC's files; judgments by key stay as they are, with `keys.tsv` beside them. Returns what was written.

    Raises
    ------
    HarnessError
        A topic has a text that the form cannot hold.
    """
    seen = Seen()
    write_lines(folder / "documents.trec", _document_elements(data, seen))
    write_lines(folder / "topics.trec", (_topic_element(topic) for topic in data.topics))
    write_lines(folder / "topics.tsv", (f"{topic.id}\t{_in_one_line(data.query(topic))}\n" for topic in data.topics))
    if data.qrels is not None:
        rows = (row for row in contents.judgment_rows(data.qrels) if row[1] in seen.judged)
        write_lines(folder / "qrels.txt", (f"{topic} 0 {name} {grade}\n" for topic, name, grade in rows))
    if data.keyed:
        write_lines(folder / "keys.tsv", ["id\tkey\n", *(f"{doc}\t{key}\n" for doc, key in seen.keys.items())])
    _write_exclusions(data, folder)
    return seen


def _document_elements(data: Contents, seen: Seen) -> Iterator[str]:
    for document in data.documents(seen):
        title = f"<TITLE>\n{escape(_in_one_line(document.title), quote=False)}\n</TITLE>\n" if document.title else ""
        text = escape(body(document), quote=False).replace("\r\n", "\n").replace("\r", "\n")
        yield f"<DOC>\n<DOCNO>{document.id}</DOCNO>\n{title}<TEXT>\n{text}\n</TEXT>\n</DOC>\n"


def _topic_element(topic: Topic) -> str:
    title, description = _in_one_line(topic.title), _in_one_line(topic.body)
    if not title:  # which the form requires
        title, description = description, ""
    if mark := _MARK.search(f"{title} {description}"):
        raise HarnessError(f"topic {topic.id!r}: its text has {mark[0]!r}, a mark of TREC's form; export it --as beir")
    label = "Topic: " if _LABEL.match(title) else ""
    return (
        f"<top>\n<num> Number: {topic.id}\n<title> {label}{title}\n<desc> Description: {description}\n"
        "<narr> Narrative:\n</top>\n\n"
    )


def _in_one_line(text: str) -> str:
    return " ".join(text.split())


FORMS: Mapping[str, Callable[[Contents, Path], Seen]] = {"beir": write_beir, "trec": write_trec, "mteb": write_mteb}
