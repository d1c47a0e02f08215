"""Translates topics once and keeps them as an artifact; finished batches survive an interruption (see `store.shards`).

Other retrievers, and other editions of the collection, reuse the translations.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, is_dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.data.topics import Topic
from harness.errors import counted_text
from harness.formulas.text.delimiters import Dollars
from harness.io.console import log_line
from harness.io.files import sha256
from harness.store import code, shards
from harness.systems.crosslingual import pipeline, scripts
from harness.systems.crosslingual.translators import TranslatedText, Translator

if TYPE_CHECKING:  # not imported at run time, so that code that reads collections is not an input of translations
    from harness.systems.crosslingual.controls import Control

KIND = "translation"
BATCH = {True: 64, False: 8}  # topics per batch, for translators of whole texts (True) and of sentences (False)
_FILE = "topics.jsonl"
_Texts = tuple[str, str, str]  # id, title, body


@dataclass(frozen=True)
class TranslatedTopic:
    """Translation of a topic's title and body."""

    id: str
    title: TranslatedText
    body: TranslatedText

    def total(self, count: str) -> int:
        """Returns the sum of a count, such as `lost`, over title and body."""
        return int(getattr(self.title, count)) + int(getattr(self.body, count))


def translated(
    topics: Iterable[Topic], translator: Translator, target: str, *, masking: str | None, how: str = "ours"
) -> dict[str, TranslatedTopic]:
    """Returns the topics in the target language by id; translates those that are not in the store.

    `ours` leaves topics in the target language unchanged; CrossMath's authors translated English topics as well.

    Parameters
    ----------
    masking : prefix of the placeholders that replace formulas; None leaves formulas in the text.
    how : the pipeline: see `pipeline.translate_texts`.

    Raises
    ------
    HarnessError
        The errors of `Translator.translate`; finished batches are kept.
    """
    script = pipeline.script_of(how, translator)
    how = f"authors-{script}" if script else how  # two names of the same function share artifacts
    alike: dict[tuple[str, Dollars], list[Topic]] = {}
    for topic in topics:
        alike.setdefault((topic.language, topic.dollars), []).append(topic)
    out: dict[str, TranslatedTopic] = {}
    for (language, dollars), group in alike.items():
        if strange := scripts.suspicious(group):
            named = scripts.name_of(language)
            several = counted_text(len(strange), "topic is", "topics are")
            log_line(f"{several} said to be in {named}, but in another script, such as {strange[0]}")
        if language == target and script is None:
            out |= {topic.id: controlled(topic, (topic.title, topic.body)) for topic in group}
            continue
        out |= _alike(group, _Translate(translator, language, target, masking, how, dollars))
    return out


def of_control(topics: Iterable[Topic], control: Control) -> dict[str, TranslatedTopic]:
    """Returns topics with title and body replaced by a control."""
    return {topic.id: controlled(topic, control.texts(topic)) for topic in topics}


def controlled(topic: Topic, texts: tuple[str, str]) -> TranslatedTopic:
    """Returns a topic with title and body replaced, and counts how many of its formulas are kept."""
    both = []
    for original, restored in zip((topic.title, topic.body), texts, strict=True):
        counts = pipeline.counts(pipeline.compared(original, restored, topic.dollars))
        both.append(TranslatedText(original, original, restored, restored, **counts))
    return TranslatedTopic(topic.id, *both)


def _alike(topics: Sequence[Topic], work: _Translate) -> dict[str, TranslatedTopic]:
    """Translates topics of one language and one rule for dollar signs."""
    translator, source, target = work.translator, work.source, work.target
    texts: list[_Texts] = [(topic.id, topic.title, topic.body) for topic in topics]
    spec = {
        "translator": {"name": translator.name, **translator.identity(source, target)},
        "source": source,
        "target": target,
        "masking": work.masking,
        "pipeline": work.how,
        **({"dollars": work.dollars} if work.dollars != "pairs" else {}),
        "topics": sha256(repr(texts).encode("utf-8", "surrogatepass")),
        "code": code.of(__name__, type(translator).__module__),
    }
    task = partial(shards.ShardTask, work=work)

    def join(folder: Path, of: str) -> list[Path]:
        groups = shards.parts(texts, BATCH[translator.whole])
        files = shards.mapped(task(of), groups, f"translating topics ({source})", total=len(texts))
        (folder / _FILE).write_bytes(b"".join(file.read_bytes() for file in files))
        return files

    folder = shards.joined(KIND, spec, join)
    rows = (json.loads(line) for line in (folder / _FILE).read_text(encoding="utf-8").splitlines())
    return {
        row["id"]: TranslatedTopic(row["id"], TranslatedText(**row["title"]), TranslatedText(**row["body"]))
        for row in rows
    }


@dataclass(frozen=True)
class _Translate:
    """Content of a shard: one line per topic."""

    translator: Translator
    source: str
    target: str
    masking: str | None
    how: str
    dollars: Dollars = "pairs"

    def __call__(self, part: Sequence[_Texts]) -> bytes:
        """Translates the topics of a shard; returns a line of JSON for each."""
        both = [text for _, title, body in part for text in (title, body)]
        how: Any = {"masking": self.masking, "pipeline": self.how, "dollars": self.dollars}
        translations = pipeline.translate_texts(both, self.translator, self.source, self.target, **how)
        topics = (TranslatedTopic(name, *translations[2 * i : 2 * i + 2]) for i, (name, _, _) in enumerate(part))
        return "".join(f"{json.dumps(asdict(topic))}\n" for topic in topics).encode()

    def __reduce__(self) -> tuple[object, ...]:
        """Leaves a loaded model behind."""
        whole: Any = self.translator
        fresh = replace(whole) if is_dataclass(whole) and not isinstance(whole, type) else whole
        return _Translate, (fresh, self.source, self.target, self.masking, self.how, self.dollars)
