"""What the tests of corpora share: faults as messages, small corpora, and formulas in markup."""

from __future__ import annotations

from pathlib import Path

from refusals import refusal

from harness.collections.corpora import corpus_reader as reader_of
from harness.collections.corpus import Corpus

message = refusal


def corpus(path: Path | tuple[Path, ...], reader: str = "jsonl", **fields: str) -> Corpus:
    return Corpus("c", "C", "CC0", path, tuple(fields.items()), reader=reader_of(reader))


def span(content: str, name: str = "1", visual: str = "") -> str:
    visual = f' visual_id="{visual}"' if visual else ""
    return f'<span class="math-container"{name and f" id={name}"}{visual}>{content}</span>'


def mathml(latex: str) -> str:
    return f'<math alttext="{latex}" display="inline"><semantics><mrow><mi>hidden</mi></mrow></semantics></math>'
