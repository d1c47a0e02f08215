"""A small world to damage: configurations, archives, a mirror, a store, runs; and commands that read them."""

from __future__ import annotations

import gzip
import hashlib
import json
import lzma
import random
from pathlib import Path

from archive_tools import tar
from backports import zstd

COMMIT = "0123456789abcdef0123456789abcdef01234567"
WORDS = ("sum", "limit", "integral", "prime", "graph", "proof", "series", "matrix", "group", "ring", "field", "angle")
TOPICS = ("T1", "T2", "T3")


def _checked(data: bytes) -> bytes:
    return zstd.compress(data, options={zstd.CompressionParameter.checksum_flag: 1})


def _source(files: dict[str, bytes]) -> str:
    listed = [
        f"  {path}: {{sha256: {hashlib.sha256(data).hexdigest()}, size: {len(data)}}}\n" for path, data in files.items()
    ]
    head = f"title: Theirs\nrepository: owner/name\ncommit: {COMMIT}\nlicence: CC0\nfiles:\n"
    return head + "".join(listed)


def _collection(name: str, qrels: str, judgments: int) -> str:
    return f"""\
# The judgments are packed.
name: {name}
title: "Mine: {name}"
licence: CC0
protocol: mine
editions:
  official:
    title: ours
    qrels: {qrels}
    topics: 3
    judgments: {judgments}
topics: {{reader: jsonl, file: ../../topics.jsonl.xz}}
notes: [made for damage]
corpus: mine
"""


def _formula(name: str) -> dict[str, str]:
    return {"id": f"f{name}", "latex": f"x_{{{name[1:]}}} + {int(name[1:]) % 3}"}


def build(root: Path) -> None:
    """Write the world into an empty folder; the store and the reused run are made by the commands themselves."""
    rng = random.Random(1)
    ids = [f"d{number}" for number in range(20)]
    runs = {
        tag: "".join(
            f"{topic} Q0 {doc} {rank} {30 - rank}.5 {tag}\n"
            for topic in TOPICS
            for rank, doc in enumerate(rng.sample(ids, 8), 1)
        ).encode()
        for tag in ("one", "two")
    }
    qrels = "".join(f"{topic} 0 {doc} {rng.randrange(3)}\n" for topic in TOPICS for doc in ids[:12]).encode()
    topics = "".join(
        json.dumps({"id": topic, "title": " ".join(rng.sample(WORDS, 3)), "formulas": [_formula(topic)]}) + "\n"
        for topic in TOPICS
    ).encode()
    corpus = "".join(
        json.dumps({"id": doc, "text": " ".join(rng.choices(WORDS, k=9)), "formulas": [_formula(doc)]}) + "\n"
        for doc in ids
    ).encode()
    theirs = {"judged.txt": qrels, "corpus.jsonl": corpus}
    kept = {f"name-{COMMIT}/{path}": data for path, data in theirs.items()}
    plain = {
        "conf/collection/mine.yaml": _collection("mine", "{file: ../../judged.txt.gz}", 36),
        "conf/collection/theirs.yaml": _collection("theirs", "{source: theirs, path: judged.txt}", 36),
        "conf/corpus/mine.yaml": "name: mine\ntitle: Mine\nlicence: CC0\nfile: {file: ../../corpus.jsonl.zst}\n"
        "fields: {id: id, text: body, formulas: formulas}\n",
        "conf/corpus/theirs.yaml": "name: theirs\ntitle: Theirs\nlicence: CC0\n"
        "file: {source: theirs, path: corpus.jsonl}\nfields: {id: id, text: [body, title]}\nkeep: [text]\n",
        "conf/protocol/mine.yaml": "name: mine\ntitle: Mine\nmeasures: [nDCG@5, AP, P@3]\n"
        "relevant_from: 1\ndepth: 100\n",
        "conf/system/mine.yaml": "title: Mine  # a copy of ours\nname: mine\n"
        "_target_: harness.systems.lexical.system.BM25\nk1: 0.9\n"
        "view: {name: latex, lower: true, stop: null, stem: null, formulas: null}\ndepth: 10\n",
        "conf/source/theirs.yaml": _source(theirs),
    }
    packed = {
        "one.run": runs["one"],
        "one.run.gz": gzip.compress(runs["one"], mtime=0),
        "two.run.xz": lzma.compress(runs["two"]),
        "two.run.zst": _checked(runs["two"]),
        "judged.txt.gz": gzip.compress(qrels, mtime=0),
        "topics.jsonl.xz": lzma.compress(topics),
        "corpus.jsonl.zst": _checked(corpus),
        f"mirror/github.com/owner/name/{COMMIT}.tar.xz": tar(kept),
    }
    for path, content in {**{path: text.encode() for path, text in plain.items()}, **packed}.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)
