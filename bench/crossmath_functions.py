"""CrossMath's two translation functions: what they leave untranslated, and what that means for NLLB against mBART.

Three tables, none of which needs a translator:

1. text that each function leaves untranslated, by language, over all 298 topics;
2. the authors' archived runs with NLLB and mBART (edition and protocol of the paper's tables, three years pooled), on
   topics whose title and body mBART's function translates and on those where it leaves one of them with words as it
   is. Paired t-tests, Bonferroni over the whole table;
3. with `--before CHECKOUT`: topics for which that version of this project asks a translator for the same texts.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from scipy import stats

from harness.collections.load import load_collection
from harness.data.topics import Topic, Topics
from harness.papers.paper import load_paper
from harness.papers.reproduce import Reproduction, reproduce
from harness.reports.parts import shown_p
from harness.systems.crosslingual.authors import NAMES, SCRIPTS, Script, has_words, leaves, mask, untranslated

MEASURE = "nDCG@10"
PREFIX = "crossmath-"
LANGUAGES = ("eng", "hrv", "ces-paper", "ces", "pes", "spa", "hin", "npi")
ARCHIVED = {"hrv": "hrv", "ces": "ces-paper", "fas": "pes", "spa": "spa"}  # group of the paper -> collection
RETRIEVERS = {"bi": "bi-encoder", "cross": "cross-encoder"}
# What a version asks of a translator; runs in the checkout it is about, so it uses what all versions have.
ASKS = """
import json, sys
from harness.collections.load import load_collection
from harness.systems.crosslingual.pipeline import translate
class Stub:
    name, whole, languages = "stub", False, {}
    def __init__(self, script): self.script, self.asked = script, []
    def missing(self): return []
    def notes(self): return ()
    def identity(self, source="", target=""): return {}
    def translate(self, texts, source, target): self.asked += texts; return [f"<{text}>" for text in texts]
found = {}
for name in sys.argv[1:]:
    for topic in load_collection(name).topics():
        for script in ("nllb", "mbart"):
            fields = []
            for text in (topic.title, topic.body):
                stub = Stub(script)
                (passage,) = translate([text], stub, topic.language, "eng", pipeline="authors")
                fields.append([[asked for asked in stub.asked if asked], passage.restored, bool(text.strip())])
            found[f"{name} {script} {topic.id}"] = fields
json.dump(found, sys.stdout)
"""


def topics_of(language: str) -> Topics:
    """The topics of a collection by the end of its name."""
    return load_collection(f"{PREFIX}{language}").topics()


def loses_words(topic: Topic, script: Script) -> bool:
    """Whether the function leaves the title or the body as it is although it holds a word."""
    return any(leaves(text, script) and has_words(mask(text).text) for text in (topic.title, topic.body))


def left() -> Iterable[Sequence[object]]:
    """Language, function, units, left, by reason, with words, titles and bodies left with words."""
    for language in LANGUAGES:
        topics = topics_of(language)
        for script in SCRIPTS:
            found = untranslated([text for topic in topics for text in (topic.title, topic.body)], script)
            fields = [sum(leaves(getattr(t, field), script) for t in topics) for field in ("title", "body")]
            lost = sum(loses_words(topic, script) for topic in topics)
            yield (
                language, NAMES[script], found.units, found.left, f"{found.left / found.units:.3f}", found.words,
                *fields, lost,
            )  # fmt: skip


def against(found: Reproduction) -> Iterable[Sequence[object]]:
    """Language, retriever, topics, n, means of both translators, difference, interval, p, corrected p."""
    rows = []
    for group, language in ARCHIVED.items():
        hit = {topic.id for topic in topics_of(language) if loses_words(topic, "mbart")}
        for key, retriever in RETRIEVERS.items():
            pairs: dict[str, tuple[float, float]] = {}
            for collection in found.scorers:
                one, other = (found.scores[collection, f"{group}-{name}-{key}"] for name in ("NLLB", "mBART"))
                values = dict(zip(other.topics, other.column(MEASURE).tolist(), strict=True))
                for topic, value in zip(one.topics, one.column(MEASURE).tolist(), strict=True):
                    if topic in values and not math.isnan(value) and not math.isnan(values[topic]):
                        pairs[topic] = (value, values[topic])
            for name, chosen in (
                ("both fields translated", [pair for topic, pair in pairs.items() if topic not in hit]),
                ("a field left as it is", [pair for topic, pair in pairs.items() if topic in hit]),
            ):
                nllb, mbart = np.array(chosen).T
                test = stats.ttest_rel(nllb, mbart)
                low, high = test.confidence_interval()
                interval = f"{low:+.4f} to {high:+.4f}"
                rows.append((group, retriever, name, len(chosen), nllb.mean(), mbart.mean(), interval, test.pvalue))
    for *labels, n, one, other, interval, p in rows:
        corrected = min(1.0, p * len(rows))
        yield (
            *labels,
            n,
            f"{one:.4f}",
            f"{other:.4f}",
            f"{one - other:+.4f}",
            interval,
            shown_p(p).text,
            shown_p(corrected).text,
        )


def asked(checkout: Path) -> dict[str, list[tuple[list[str], str, bool]]]:
    """What the version in a folder does with title and body, by collection, function and topic.

    Each is what it asks of a translator, blank texts left out; the text it returns; and whether there was a text.
    """
    names = [f"{PREFIX}{language}" for language in LANGUAGES]
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    made = subprocess.run(
        [sys.executable, "-c", ASKS, *names], env=environment, cwd=checkout, check=True, capture_output=True
    )
    out: dict[str, list[tuple[list[str], str, bool]]] = json.loads(made.stdout)
    return out


def changed(before: Path) -> Iterable[Sequence[object]]:
    """Language, function, topics, those with equal texts asked and equal queries, bodies never asked before and now."""
    old, new = asked(before), asked(Path(__file__).parents[1])
    for language in LANGUAGES:
        for script in SCRIPTS:
            begin = f"{PREFIX}{language} {script} "
            keys = [key for key in new if key.startswith(begin)]
            equal = [
                sum([field[part] for field in old[key]] == [field[part] for field in new[key]] for key in keys)
                for part in (0, 1)
            ]
            never = [sum(found[key][1][2] and not found[key][1][0] for key in keys) for found in (old, new)]
            yield language, NAMES[script], len(keys), *equal, *never


def table(header: str, rows: Iterable[Sequence[object]]) -> None:
    """Prints a Markdown table; names of columns stand between commas."""
    columns = header.split(", ")
    print("|", " | ".join(columns), "|")
    print("|", " | ".join("---" for _ in columns), "|")
    for row in rows:
        print("|", " | ".join(f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row), "|")
    print()


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", type=Path, help="a checkout of an earlier version")
    before = parser.parse_args().before
    table(
        "language, function for, units, left, share, with words, titles left, bodies left, "
        "topics with a field of words left",
        left(),
    )
    table(
        "language, retriever, mBART's function, n, NLLB, mBART, difference, 95% interval, p, Bonferroni",
        against(reproduce(load_paper("crossmath"))),
    )
    if before:
        table(
            "language, function for, topics, equal texts asked, equal queries, bodies never asked before, now",
            changed(before.resolve()),
        )


if __name__ == "__main__":
    main()
