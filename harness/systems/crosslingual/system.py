"""Cross-lingual retrieval: translates topics into the language of the documents, then runs any system of the harness.

Source: Gore et al., "CrossMath: Towards Cross-lingual Math Information Retrieval" (ICTIR 2024), section 3.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, is_dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

from harness.data.markup import numbered_formulas
from harness.data.topics import Topic, Topics
from harness.data.trec import Run
from harness.errors import HarnessError, suggestion
from harness.formulas.text.masking import PREFIX, mask_formulas
from harness.io import checks
from harness.store import cost
from harness.systems.base import MARK, Request
from harness.systems.build import BuiltSystem
from harness.systems.crosslingual import pipeline, translations
from harness.systems.crosslingual.authors import NAMES, Script
from harness.systems.crosslingual.controls import Control, FormulasOnly, Human, Identity
from harness.systems.crosslingual.translations import TranslatedTopic
from harness.systems.crosslingual.translators import Translator
from harness.systems.rerank import MadeOfSystems, another, reads_of

COUNTS = (
    *("formulas", "kept", "repaired", "lost", "duplicated", "moved", "altered", "invented", "appended", "sentences"),
    "untranslated",
)
_KINDS = "apertium.Apertium controls.FormulasOnly controls.Human controls.Identity seq2seq.MBart seq2seq.Nllb"


@dataclass(frozen=True)
class CrossLingual(MadeOfSystems):
    """System for topics in another language than the documents.

    Only title and body are translated and searched. Tags are dropped, for the controls as well: CrossMath's tags are
    English in all languages, so they would give the retriever information that was not translated.

    Parameters
    ----------
    translator : the configuration of a translator or of a control: its class (`_target_`) and the keys of that class.
    system : the retriever: the name of a system in `conf/system/`, or the configuration of one.
    masking : prefix of the placeholders that replace formulas during translation; None: no masking.
    pipeline : `ours`, or `authors`: the code of CrossMath's authors for this translator; `authors-nllb` and
        `authors-mbart` apply one of their two functions to any translator.
    target : language of the documents, as ISO 639-3 code.
    name : name of the run.

    Raises
    ------
    HarnessError
        A key is wrong; the message names it.
    """

    work: ClassVar[str] = "translation"  # see `harness.papers.work`

    translator: Mapping[str, Any]
    system: str | Mapping[str, Any]
    masking: str | None = None
    pipeline: str = "ours"
    target: str = "eng"
    name: str = "cross-lingual"

    def __post_init__(self) -> None:
        checks.choice("pipeline", self.pipeline, pipeline.PIPELINES)
        if self.masking is not None:
            if not isinstance(self.masking, str):
                expected = f"expected capital letters such as {PREFIX}, or null"
                raise HarnessError(f"key 'masking' is {self.masking!r}, {expected}")
            mask_formulas("", self.masking)
        self.script, self._retriever  # noqa: B018  (accessed to validate them early)

    @cached_property
    def made(self) -> Translator | Control:
        """The translator or control."""
        return built(self.translator)

    @cached_property
    def script(self) -> Script | None:
        """The translation function of CrossMath's authors; None for `ours` and for controls."""
        return pipeline.script_of(self.pipeline, self.made) if isinstance(self.made, Translator) else None

    def reads(self) -> dict[str, Any]:
        """Returns the inputs of the translator and of the retriever."""
        # Under separate keys, because the retriever may itself be cross-lingual.
        return {"translator": dict(self.made.identity()), "retriever": reads_of(self.system, self._retriever)}

    def notes(self) -> tuple[str, ...]:
        """Returns how topics are translated, and the notes of translator and retriever."""
        more = self.made.notes() if isinstance(self.made, Translator) else ()
        return (self._method(), *more, *super().notes())

    def _systems(self) -> list[BuiltSystem]:
        return [self._retriever]

    def _method(self) -> str:
        """Returns a sentence about the translation method."""
        match self.made:
            case Human():
                return "The topics are a person's, in the language of the documents."
            case Identity():
                return "The topics are not translated."
            case FormulasOnly():
                return "Only the formulas of the topics are searched for, no word."
            case Control():
                return f"The topics are those of {self.made.name}."
        how = "as they are" if self.masking is None else f"masked ({self.masking})"
        whose = f", by the function that CrossMath's authors wrote for {NAMES[self.script]}" if self.script else ""
        return f"Topics are translated by {self.made.name}, their formulas {how}{whose}."

    def translated(self, topics: Iterable[Topic]) -> dict[str, TranslatedTopic]:
        """Returns translated topics by id; translates those that are not in the store.

        Raises
        ------
        HarnessError
            The errors of the translator.
        """
        made = self.made
        if isinstance(made, Control):
            return translations.of_control(topics, made)
        return translations.translated(topics, made, self.target, masking=self.masking, how=self.pipeline)

    def __call__(self, request: Request) -> Run:
        """Translates the topics and runs the retriever on them.

        Raises
        ------
        HarnessError
            The errors of translator and retriever.
        """
        with cost.phase("translation"):
            texts = self.translated(request.topics)
        totals = {count: sum(topic.total(count) for topic in texts.values()) for count in COUNTS}
        cost.note(f"{self.name}: translation", {"topics": len(texts), **totals})
        topics = Topics(tuple(self._translated_topic(topic, texts[topic.id]) for topic in request.topics))
        run = self._retriever(replace(request, topics=topics))
        return replace(run, name=self.name + MARK * run.name.endswith(MARK))

    def _translated_topic(self, topic: Topic, texts: TranslatedTopic) -> Topic:
        language = topic.language if isinstance(self.made, Identity) else self.target
        title, body, formulas = texts.title.restored, texts.body.restored, topic.formulas
        # A topic with a query formula of its own keeps it; otherwise its formulas are those of the translated text.
        asked = [formula.latex for formula in formulas]
        own = numbered_formulas("q_", topic.title, topic.body, dollars=topic.dollars)
        if not asked or asked == [formula.latex for formula in own]:
            formulas = numbered_formulas("q_", title, body, dollars=topic.dollars)
        # Tags are in the documents' language even for foreign topics; the query is title and body (section 4).
        return replace(topic, title=title, body=body, tags=(), formulas=formulas, language=language)

    @cached_property
    def _retriever(self) -> BuiltSystem:
        return another("system", self.system)


def built(mapping: object) -> Translator | Control:
    """Builds the translator or control described by the key `translator` of a configuration.

    Raises
    ------
    HarnessError
        The class does not exist or is neither a translator nor a control, or its keys are wrong.

    Examples
    --------
    >>> built({"_target_": "harness.systems.crosslingual.controls.Identity"}).name
    'identity'
    """
    where = "key 'translator'"
    if not isinstance(mapping, Mapping) or not isinstance(mapping.get("_target_"), str):
        raise HarnessError(f"{where} is {mapping!r}, expected the class of a translator (_target_) and its keys")
    module, _, name = mapping["_target_"].rpartition(".")
    try:
        kind = getattr(importlib.import_module(module), name, None) if module else None
    except (ImportError, TypeError, ValueError) as error:
        raise HarnessError(f"{where}: {mapping['_target_']} cannot be loaded: {error}") from None
    if not isinstance(kind, type) or not is_dataclass(kind):
        known = suggestion(mapping["_target_"], [f"{__package__}.{name}" for name in _KINDS.split()])
        raise HarnessError(f"{where}: key '_target_': {mapping['_target_']} is not a class of a translator; {known}")
    made: object = checks.typed(kind, {key: value for key, value in mapping.items() if key != "_target_"}, where)
    if not isinstance(made, Translator | Control):
        raise HarnessError(f"{where}: key '_target_': {mapping['_target_']} is neither a translator nor a control")
    return made
