"""Translates topics once and keeps them as an artifact; finished batches survive an interruption.

Other retrievers, and other editions of the collection, reuse the translations.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.data.topics import Topic
from harness.io.console import progress, say
from harness.io.files import sha256, write_atomic
from harness.store import artefacts, code
from harness.systems.crosslingual import pipeline, scripts
from harness.systems.crosslingual.translators import Passage, Translator

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
    title: Passage
    body: Passage

    def total(self, count: str) -> int:
        """Returns the sum of a count, such as `lost`, over title and body."""
        return int(getattr(self.title, count)) + int(getattr(self.body, count))


def translated(
    topics: Iterable[Topic],
    translator: Translator,
    target: str,
    workspace: Path,
    *,
    masking: str | None,
    how: str = "ours",
) -> dict[str, TranslatedTopic]:
    """Returns the topics in the target language by id; translates those that are not in the store.

    `ours` leaves topics in the target language unchanged; CrossMath's authors translated English topics as well.

    Parameters
    ----------
    masking : prefix of the placeholders that replace formulas; None leaves formulas in the text.
    how : the pipeline: see `pipeline.translate`.
    workspace : folder for unfinished batches.

    Raises
    ------
    HarnessError
        The errors of `Translator.translate`; finished batches are kept.
    """
    script = pipeline.script_of(how, translator)
    how = f"authors-{script}" if script else how  # two names of the same function share artifacts
    of_language: dict[str, list[Topic]] = {}
    for topic in topics:
        of_language.setdefault(topic.language, []).append(topic)
    out: dict[str, TranslatedTopic] = {}
    for language, group in of_language.items():
        if strange := scripts.suspicious(group):
            named = scripts.name_of(language)
            say(f"{len(strange)} topics are said to be in {named}, and are in another script, such as {strange[0]}")
        if language == target and script is None:
            out |= {topic.id: controlled(topic, (topic.title, topic.body)) for topic in group}
            continue
        out |= _of_language(group, translator, language, target, workspace, masking, how)
    return out


def of_control(topics: Iterable[Topic], control: Control) -> dict[str, TranslatedTopic]:
    """Returns topics with title and body replaced by a control."""
    return {topic.id: controlled(topic, control.texts(topic)) for topic in topics}


def controlled(topic: Topic, texts: tuple[str, str]) -> TranslatedTopic:
    """Returns a topic with title and body replaced, and counts how many of its formulas are kept."""
    title, body = (_compared(*pair) for pair in zip((topic.title, topic.body), texts, strict=True))
    return TranslatedTopic(topic.id, title, body)


def _compared(original: str, restored: str) -> Passage:
    return Passage(original, original, restored, restored, **pipeline.counts(pipeline.compared(original, restored)))


def _of_language(
    topics: Sequence[Topic],
    translator: Translator,
    source: str,
    target: str,
    workspace: Path,
    masking: str | None,
    how: str,
) -> dict[str, TranslatedTopic]:
    texts: list[_Texts] = [(topic.id, topic.title, topic.body) for topic in topics]
    spec = {
        "translator": {"name": translator.name, **translator.identity(source, target)},
        "source": source,
        "target": target,
        "masking": masking,
        "pipeline": how,
        "topics": sha256(repr(texts).encode("utf-8", "surrogatepass")),
        "code": code.of(__name__, type(translator).__module__),
    }
    waiting = workspace / f"{KIND}-{artefacts.key(spec)[:16]}"

    def translate(part: Sequence[_Texts]) -> list[TranslatedTopic]:
        both = [text for _, title, body in part for text in (title, body)]
        found = pipeline.translate(both, translator, source, target, masking=masking, pipeline=how)
        return [TranslatedTopic(part[i][0], *found[2 * i : 2 * i + 2]) for i in range(len(part))]

    def make(folder: Path) -> None:
        waiting.mkdir(parents=True, exist_ok=True)
        size, lines = BATCH[translator.whole], []
        with progress(f"translating topics ({source})", len(texts)) as told:
            for begin in range(0, len(texts), size):
                part = texts[begin : begin + size]
                lines += _batch(waiting / f"batch-{begin:06d}.json", part, translate)
                told.add(len(part))
        (folder / _FILE).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    folder = artefacts.get_or_build(KIND, spec, make)
    shutil.rmtree(waiting, ignore_errors=True)  # safe to delete, because the artifact is complete
    rows = (json.loads(line) for line in (folder / _FILE).read_text(encoding="utf-8").splitlines())
    return {row["id"]: TranslatedTopic(row["id"], Passage(**row["title"]), Passage(**row["body"])) for row in rows}


def _batch(
    path: Path, part: Sequence[_Texts], translate: Callable[[Sequence[_Texts]], Sequence[TranslatedTopic]]
) -> list[str]:
    """Returns the lines of a batch, from its file if it is intact and of the same texts."""
    digest = sha256(repr(part).encode("utf-8", "surrogatepass"))
    if path.is_file():
        try:
            kept: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            if kept["texts"] == digest and kept["sha256"] == sha256("\n".join(kept["lines"]).encode()):
                return [str(line) for line in kept["lines"]]
        except (OSError, ValueError, KeyError, TypeError):
            pass
        say(f"{path}: damaged; translating its topics again")
    lines = [json.dumps(asdict(topic)) for topic in translate(part)]
    write_atomic(path, json.dumps({"texts": digest, "sha256": sha256("\n".join(lines).encode()), "lines": lines}))
    return lines
