"""Variants of a bi-encoder beside the plain one: number formats, dimensions, several processes.

Encoded are the first posts of `mse-pages-judged` and topics of ARQMath-3 with all-MiniLM-L6-v2, each variant in turn in
one process. Reported are the least and the mean cosine with the plain vector of the same post (for cut vectors, of the
similarities of topics and posts the correlation), the share of the plain ranking's first 10 posts that stay there, and
the CPU time.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from importlib.metadata import PackageNotFoundError, version
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from bench.graph import processor
from harness.collections.corpora import load_corpus
from harness.collections.load import load_collection
from harness.systems.dense import encoder, texts
from harness.systems.dense.engines import Matrix, Settings

MODEL = "all-minilm-l6-v2"
CORPUS, COLLECTION = "mse-pages-judged", "arqmath-3-task1"
VARIANTS: dict[str, dict[str, Any]] = {
    "float32": {},
    "float16": {"precision": "float16"},
    "bfloat16": {"precision": "bfloat16"},
    "dimensions 256": {"dimensions": 256},
    "dimensions 128": {"dimensions": 128},
    "dimensions 64": {"dimensions": 64},
    "2 processes": {"devices": ("cpu", "cpu")},
}
FILE = Path(__file__).parent / "results" / "encoder-variants.json"


def seconds() -> float:
    """CPU seconds of this process and of those that ended."""
    return time.process_time() + resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime


def first(ranking: Matrix, k: int = 10) -> list[set[int]]:
    """The first posts of each topic by similarity."""
    return [set(np.argsort(-row, kind="stable")[:k].tolist()) for row in ranking]


def measured(name: str, posts: list[str], asked: list[str], read: Matrix, queries: Matrix) -> dict[str, Any]:
    """Vectors of a variant of posts and topics, beside the plain ones `read` and `queries`."""
    other = encoder.load(MODEL, Settings(**VARIANTS[name]))
    begin = seconds()
    vectors = other.encode(posts)
    took = seconds() - begin
    own = other.encode(asked, "query")
    shared = [len(a & b) / 10 for a, b in zip(first(queries @ read.T), first(own @ vectors.T), strict=True)]
    found: dict[str, Any] = {"seconds": took, "first 10": float(np.mean(shared)), "texts": len(posts)}
    found["correlation"] = float(np.corrcoef((queries @ read.T).ravel(), (own @ vectors.T).ravel())[0, 1])
    if vectors.shape == read.shape:
        cosines = (vectors * read).sum(1) / np.linalg.norm(vectors, axis=1) / np.linalg.norm(read, axis=1)
        found |= {"least": float(cosines.min()), "mean": float(cosines.mean())}
    return found


def of(package: str) -> str:
    """Name and version of a package."""
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        return ""


def written(rows: dict[str, Any]) -> str:
    """The page of the results."""
    lines = [
        "# Variants of encoders",
        "",
        f"`python -m bench.encoder_variants`, {MODEL}, posts of `{CORPUS}` and topics of `{COLLECTION}`, one thread,",
        f"{processor()}. Each variant is beside the plain vectors, which are computed in the same process (`float32`",
        "beside itself). *First 10* is the share of the plain ranking's first 10 posts that stay there. MiniLM was not",
        "trained for cut vectors: the rows of dimensions say what the key does, not what a Matryoshka model loses.",
        "CPU times are of a machine that other work shares.",
        "",
        "| variant | posts | least cosine | mean cosine | correlation of similarities | first 10 | CPU, s | versions |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name in (name for name in VARIANTS if name in rows):
        row = rows[name]
        cosines = " | ".join(f"{row[key]:.6f}" if key in row else "-" for key in ("least", "mean"))
        took = "-" if "devices" in VARIANTS[name] else f"{row['seconds']:.1f}"  # its processes are not counted
        last = f"{row['correlation']:.6f} | {row['first 10']:.3f} | {took} | {row['versions']}"
        lines.append(f"| {name} | {row['texts']:,} | {cosines} | {last} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure."""
    import torch

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--posts", type=int, default=1000, help="posts that are encoded (default: 1000)")
    parser.add_argument("--variants", nargs="*", default=list(VARIANTS))
    parser.add_argument("--add", action="store_true", help="keep the rows of other variants")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    documents = (texts.of_document(each, ["body"], "latex") for each in load_corpus(CORPUS))
    posts = list(islice((text for text in documents if text.strip()), asked.posts))
    topics = [texts.of_topic(topic, ("title", "body"), "latex") for topic in load_collection(COLLECTION).topics()]
    rows = json.loads(FILE.read_text(encoding="utf-8")) if asked.add and FILE.is_file() else {}
    plain = encoder.load(MODEL, Settings())
    read, queries = plain.encode(posts), plain.encode(topics, "query")
    for name in asked.variants:
        packages = ["torch", "sentence-transformers", "transformers"]
        rows[name] = {
            **measured(name, posts, topics, read, queries),
            "versions": ", ".join(filter(None, map(of, packages))),
        }
        print(name, rows[name], flush=True)
        FILE.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
        FILE.with_suffix(".md").write_text(written(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
