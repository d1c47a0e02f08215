"""Searches theorems that a language model has informalised, with augmented queries, using any system.

Source: Gao et al., "A Semantic Search Engine for Mathlib4" (2024), sections 3.1 to 3.3: declarations are informalised,
queries are augmented to the same form, and any text retriever compares both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, Literal

from harness.collections.corpus import Corpus, CorpusReader, Document, Documents, Remarks
from harness.data.markup import numbered_formulas
from harness.data.topics import Topic, Topics
from harness.data.trec import Run
from harness.errors import DryRunError, HarnessError, suggestion
from harness.io import checks
from harness.io.console import log_line
from harness.io.files import sha256
from harness.sources import catalogue
from harness.store import cost, prompts
from harness.store.llm import Client, Endpoint, load_endpoint
from harness.store.llm.answer_cache import answers_digest
from harness.systems.base import MARK, Request
from harness.systems.build import BuiltSystem
from harness.systems.rerank import another, reads_of
from harness.systems.theorems import informalise
from harness.systems.theorems.informalise import Augmented, DeclarationColumns, Informal, asked, augmented, informal


@dataclass(frozen=True)
class Pipeline(checks.Checked):
    """System that searches a view of the declarations, optionally with queries augmented to the same view.

    The searching system gets each document as one text, its `body`, and each query as one text, its `title`: in Lean
    (`formal`), in prose (`informal`, "name: statement"), or both, in the paper's format
    `{formal} \\n {name}:{statement}`. Documents keep their columns, and get the columns `formal` and `informal`.

    Parameters
    ----------
    system : the searching system: the name of a system in `conf/system/`, or the configuration of one. Its key `calls`,
        if any, gets `mode`, `budget` and `cache` from this system, for embedding models behind an endpoint.
    view : `formal`, `informal` or `formal+informal`.
    augment : whether queries are augmented; otherwise they are unchanged.
    llm : the model, one of `conf/llm/`, that informalises declarations.
    augment_llm : the model that augments queries; by default the same.
    mode : `live` requests answers that are not cached; `replay` takes all answers from `cache`, and fails if one is
        missing; `dry` estimates tokens and cost, without searching.
    cache : folder or file NAME.jsonl of cached answers: `{file: PATH}` (relative to the current folder) or, for one of
        the harness itself, `{embedded: PATH}`. By default the folder in the user's cache.
    budget : maximum cost of each model, in the unit of its prices.
    kinds : kinds of declarations that are searched; empty for all.
    columns : columns with the parts of a declaration: see `harness.systems.theorems.informalise.DeclarationColumns`.
    definitions : maximum number of definitions shown to the model with a declaration.
    query : topic fields (title, body) that form the query.
    name : name of the run.

    Raises
    ------
    HarnessError
        A key is wrong; the message names it.
    """

    work: ClassVar[str] = "parts"  # see `harness.papers.work`

    system: str | Mapping[str, Any]
    llm: str
    view: Literal["formal", "informal", "formal+informal"] = "formal+informal"
    augment: bool = True
    augment_llm: str | None = None
    mode: Literal["live", "replay", "dry"] = "replay"
    cache: Mapping[str, str] | None = None
    budget: checks.Number | None = None
    kinds: Sequence[str] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    definitions: checks.Natural = 8
    query: Sequence[str] = ("title", "body")
    name: str = "theorem-pipeline"

    nested: ClassVar[Mapping[str, type]] = {"columns": DeclarationColumns}

    def __post_init__(self) -> None:
        super().__post_init__()
        for key, value in (("kinds", self.kinds), ("query", self.query)):
            if isinstance(value, str) or not all(isinstance(one, str) for one in value):
                raise HarnessError(f"key {key!r} is {value!r}, expected a list of texts")
        for name in self.query:
            checks.choice("query", name, ("title", "body"))
        self._endpoints, self._columns, self._answer_folder, self._system  # noqa: B018  (accessed to validate them early)

    def reads(self) -> dict[str, Any]:
        """Returns the models, prompts, the checksum of a configured cache, and the inputs of the searching system."""
        models = {
            what: {
                "model": one.model,
                "parameters": dict(one.parameters),
                "schemas": one.schemas,
                "repairs": one.repairs,
            }
            for what, one in self._used.items()
        }
        asked = {name: prompts.digest(name) for name in (informalise.INFORMALISE, informalise.AUGMENT)}
        kept = {} if self._answer_folder is None else {"answers": answers_digest(self._answer_folder)}
        return {"models": models, "prompts": asked, **kept, "searcher": reads_of(self.system, self._system)}

    def trains_without(self) -> frozenset[str] | None:
        """Returns `trains_without` of the searching system."""
        return self._system.trains_without()

    def notes(self) -> tuple[str, ...]:
        """Returns which models wrote statements and queries, and the notes of the searching system."""
        said = {"informal": "Statements in prose are those of", "augment": "Queries are augmented by"}
        own = (f"{said[what]} {one.model}, by a prompt of this harness." for what, one in self._used.items())
        return (*own, *self._system.notes())

    def __call__(self, request: Request) -> Run:
        """Calls the models and runs the searching system.

        Raises
        ------
        HarnessError
            Answers are missing in replay mode, or a client or the searching system fails. A dry run always ends with
            an error that reports the estimates.
        """
        corpus = request.corpus_for(self.name)
        clients = {what: self._client(one) for what, one in self._used.items()}
        prose: dict[str, Informal] = {}
        written: dict[str, Augmented] = {}
        with cost.phase("language model"):
            if "informal" in clients:
                client, shown = clients["informal"], self.definitions
                prose = informal(corpus, client, columns=self._columns, kinds=self.kinds, definitions=shown)
            if "augment" in clients:
                written = augmented(request.topics, clients["augment"], query=self.query)
        self._note_calls(clients)
        viewed = self._corpus(corpus, prose)
        asked = Topics(tuple(self._query_topic(topic, written.get(topic.id)) for topic in request.topics))
        if self.mode == "dry":
            self._end_of_dry_run(clients, replace(request, topics=asked, corpus=viewed))
        if self.augment and (left := len(asked) - len(written)):
            log_line(f"{self.name}: {left} queries are not augmented, and stay as they are")
        run = self._system(replace(request, topics=asked, corpus=viewed))
        return replace(run, name=self.name + MARK * run.name.endswith(MARK))

    def _note_calls(self, clients: Mapping[str, Client]) -> None:
        for what, client in clients.items():
            spent = client.spent
            told = {"model": client.endpoint.model, "mode": self.mode, "calls": spent.calls, "tokens": spent.tokens}
            cost.note(f"{self.name}: {what}", {**told, "cost": spent.cost, "failed": spent.failed})
            if spent.failed:
                log_line(f"{self.name}: {spent.failed} answers of {client.endpoint.model} ({what}) count as failed")

    def _end_of_dry_run(self, clients: Mapping[str, Client], request: Request) -> None:
        made = {what: list(client.estimates.values()) for what, client in clients.items()}
        said = [f"{what} {each}" for what, estimates in made.items() for each in estimates]
        count = getattr(self._system.system, "dry", None)
        if vectors := count(request) if count else "":
            unwritten = any(each.asks for estimates in made.values() for each in estimates)
            said.append(f"{vectors}{', more when all texts are written' if unwritten else ''}")
        total = "; ".join(said) or "no model is asked"
        raise DryRunError(f"system {self.name}: dry run, nothing is searched: {total}; run it with system.mode=live")

    def _client(self, endpoint: Endpoint) -> Client:
        fill = "the same command with system.mode=live asks for them"
        return Client(endpoint, self.mode, self.budget, self._answer_folder, fill)

    # ---- documents and queries ----------------------------------------------------------------------------------

    def _corpus(self, corpus: Corpus, prose: Mapping[str, Informal]) -> Corpus:
        """Returns the corpus with the view as the text of each document."""
        made = sha256(repr([self.view, sorted(self.kinds), *sorted(prose.items())]).encode("utf-8", "surrogatepass"))
        read = partial(_read, corpus, self._columns, self.view, frozenset(self.kinds), prose)
        # The name includes the inputs of the texts, so that vectors and indexes of other texts are not reused.
        stamp = f"{corpus.reader.name} {corpus.reader.stamp()} {made}"
        return replace(corpus, reader=CorpusReader(stamp, read, unique=corpus.reader.unique))

    def _query_topic(self, topic: Topic, addition: Augmented | None) -> Topic:
        """Returns the topic as the retriever sees it: its text, or the model's version of it."""
        text = asked(topic, self.query)
        if addition is not None:
            text = viewed(self.view, addition.formal, addition.informal)
            return replace(topic, title=text, body="", tags=(), formulas=numbered_formulas("q_", text))
        return replace(topic, title=text, body="", tags=())

    @cached_property
    def _used(self) -> dict[str, Endpoint]:
        """Task (`informal`, `augment`) -> endpoint of its model."""
        first, second = self._endpoints
        endpoints = {"informal": first} if self.view != "formal" else {}
        return endpoints | ({"augment": second} if self.augment else {})

    @cached_property
    def _endpoints(self) -> tuple[Endpoint, Endpoint]:
        first = load_endpoint(self.llm)
        return first, load_endpoint(self.augment_llm) if self.augment_llm else first

    @cached_property
    def _answer_folder(self) -> Path | None:
        """The configured folder of answers, or None."""
        if self.cache is None:
            return None
        folder = catalogue.resource(self.cache, "key 'cache'")
        if not isinstance(folder, Path):
            raise HarnessError(f"key 'cache' is {self.cache!r}, expected {{file: FOLDER}} or {{embedded: FOLDER}}")
        return folder

    @cached_property
    def _columns(self) -> DeclarationColumns:
        return checks.typed(DeclarationColumns, self.columns, "key 'columns'")

    @cached_property
    def _system(self) -> BuiltSystem:
        if isinstance(self.system, Mapping) and "calls" in self.system:
            folder = None if self._answer_folder is None else str(self._answer_folder)
            given = {"mode": self.mode, "budget": self.budget, "cache": folder}
            return another("system", {**self.system, "calls": given})
        return another("system", self.system)


def viewed(view: str, formal: str, prose: Informal | None) -> str:
    """Returns the text of a declaration or augmented query in a view; parts without prose are omitted.

    >>> viewed("formal+informal", "theorem a : 1 = 1", Informal("One", "It is itself."))
    'theorem a : 1 = 1 \\n One:It is itself.'
    >>> viewed("informal", "theorem a : 1 = 1", Informal("One", "It is itself."))
    'One: It is itself.'
    """
    if view == "formal":
        return formal
    if view == "informal":
        return "" if prose is None else prose.text
    return formal if prose is None else f"{formal} \n {prose.name}:{prose.statement}"


def _read(
    corpus: Corpus,
    columns: DeclarationColumns,
    view: str,
    kinds: frozenset[str],
    prose: Mapping[str, Informal],
    _: Corpus,
    remarks: Remarks,
) -> Documents:
    """Yields the documents of a corpus with a view as their text."""
    others, any_document = set[str](), False
    for place, document in corpus.reader.read(corpus, remarks):
        if kinds and (kind := columns.of(document, "kind")) not in kinds:
            remarks["of other kinds (left out)"] += 1
            others.add(kind)
            continue
        any_document = True
        yield place, _viewed_document(document, columns, view, prose.get(document.id))
    if others and not any_document:
        wanted = sorted(kinds)[0]
        raise HarnessError(f"key 'kinds': no document is of kind {wanted!r}; {suggestion(wanted, others)}")


def _viewed_document(document: Document, columns: DeclarationColumns, view: str, prose: Informal | None) -> Document:
    formal = columns.of(document, "statement")
    text = viewed(view, formal, prose)
    more = {"formal": formal, "informal": "" if prose is None else prose.text}
    return replace(document, title="", body=text, columns={**document.columns, **more})
