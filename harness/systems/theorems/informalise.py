"""Texts by a language model: declarations in prose, given the definitions that they refer to, and augmented queries.

An augmented query is written as a theorem, in prose and in Lean.
Source: Gao et al., "A Semantic Search Engine for Mathlib4" (2024), sections 3.1 and 3.3. The prompts are our own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from harness.collections.corpus import Corpus, Document
from harness.data.topics import Topic
from harness.errors import HarnessError, suggestion
from harness.io.files import sha256
from harness.store import artefacts, prompts, provenance
from harness.store.llm import Answer, Ask, Client
from harness.systems.theorems.declarations import referenced

INFORMALISE = "informalise"  # name of the prompt
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "minLength": 1}, "statement": {"type": "string", "minLength": 1}},
    "required": ["name", "statement"],
    "additionalProperties": False,
}
PROVED = ("theorem", "lemma")
_BATCH = 4096  # requests in memory at one time
_KEYWORDS = "abbrev|axiom|class|def|inductive|instance|irreducible_def|lemma|opaque|structure|theorem"
# A declaration's name behind its keyword; a universe (`.{u}`) is not part of it.
_NAMED = re.compile(
    rf"(?:\S+\s+)*?(?:{_KEYWORDS})\s+(?:inductive\s+)?(?P<name>(?:«[^»]*»|[^\s(){{}}\[\]:⦃.]|\.(?!\{{))+)"
)


@dataclass(frozen=True)
class Informal:
    """A declaration in prose.

    Examples
    --------
    >>> Informal("Zorn's Lemma", "Every chain has a bound.").text
    "Zorn's Lemma: Every chain has a bound."
    """

    name: str
    statement: str

    @property
    def text(self) -> str:
        """Name and statement, joined by a colon."""
        return f"{self.name}: {self.statement}"


def with_full_name(statement: str, name: str) -> str:
    """Returns a Lean statement with a declaration's full name in place of its name within a namespace.

    >>> with_full_name("protected theorem map_one : f 1 = 1", "RingEquiv.map_one")
    'protected theorem RingEquiv.map_one : f 1 = 1'
    >>> with_full_name("lemma _root_.Nat.le_of_lt.{u} (h : a < b) : a ≤ b", "Nat.le_of_lt")
    'lemma Nat.le_of_lt.{u} (h : a < b) : a ≤ b'
    >>> with_full_name("instance : Add Nat", "instAddNat")
    'instance : Add Nat'
    """
    match = _NAMED.match(statement)
    written = match["name"].removeprefix("_root_.") if match is not None else ""
    if match is None or not f".{name}".endswith(f".{written}"):
        return statement
    return f"{statement[: match.start('name')]}{name}{statement[match.end('name') :]}"


@dataclass(frozen=True)
class DeclarationColumns:
    """Columns of a corpus that hold the parts of a declaration.

    Attributes
    ----------
    references : ids of the declarations that a statement refers to, separated by blanks; if a corpus has no such
        column, identifiers in the statement are resolved from the declaration's namespace outwards.
    """

    statement: str = "signature"
    doc: str = "doc"
    kind: str = "kind"
    references: str = "references"

    def of(self, document: Document, part: str) -> str:
        """Returns a part of a declaration, or "" if it is missing; a statement has the declaration's full name.

        Raises
        ------
        HarnessError
            The statement is missing, because the corpus has no such column.
        """
        name = str(getattr(self, part))
        if part == "statement" and name not in document.columns:
            known = suggestion(name, document.columns)
            raise HarnessError(f"key 'columns.statement': document {document.id} has no column {name!r}; {known}")
        text = document.columns.get(name, "")
        return with_full_name(text, document.id) if part == "statement" else text


@dataclass(frozen=True)
class _Definition:
    statement: str
    doc: str


def informal(
    corpus: Corpus,
    client: Client,
    *,
    columns: DeclarationColumns | None = None,
    kinds: Sequence[str] = (),
    definitions: int = 8,
) -> dict[str, Informal]:
    """Returns the declarations of a corpus in prose, by id; declarations on which the model fails are left out.

    The results are also kept in the store, under the hash of the answers, with their provenance.

    Parameters
    ----------
    kinds : kinds of declarations to informalise; empty for all.
    definitions : maximum number of definitions in a request. Theorems that a statement refers to are not included.

    Raises
    ------
    HarnessError
        The corpus lacks the statements, or `Client.ask` raises it.
    """
    where = columns or DeclarationColumns()
    informal_of: dict[str, Informal] = {}
    failed: dict[str, str] = {}
    waiting = asks(corpus, where, kinds, definitions)
    while batch := list(islice(waiting, _BATCH)):
        answers = client.ask([ask for _, ask in batch])
        for (name, _), answer in zip(batch, answers, strict=True):
            if answer.failed:
                failed[name] = answer.failed
            else:
                informal_of[name] = Informal(*_parts(answer, "name", "statement"))
    if client.mode != "dry":
        about = {
            "corpus": corpus.identity(),
            "columns": asdict(where),
            "kinds": list(kinds),
            "definitions": definitions,
        }
        keep(
            "informal-statements",
            INFORMALISE,
            client,
            about,
            {name: asdict(one) for name, one in informal_of.items()},
            failed,
        )
    return informal_of


def asks(
    corpus: Corpus, columns: DeclarationColumns, kinds: Sequence[str] = (), most: int = 8
) -> Iterator[tuple[str, Ask]]:
    """Yields the id and the request of each declaration. Reads the corpus twice."""
    row: dict[str, int] = {}
    known: dict[str, _Definition] = {}
    for document in corpus:
        row[document.id] = len(row)
        if columns.of(document, "kind") not in PROVED:
            known[document.id] = _Definition(columns.of(document, "statement"), columns.of(document, "doc"))
    ids = list(row)
    for number, document in enumerate(corpus):
        kind, statement = columns.of(document, "kind"), columns.of(document, "statement")
        if not statement.strip() or (kinds and kind not in kinds):
            continue
        listed = document.columns.get(columns.references)
        if listed is None:
            names = [ids[other] for other in referenced(number, document.id, statement, row)]
        else:
            names = listed.split()
        shown = [known[name] for name in names if name in known][:most]
        values = {"name": document.id, "kind": kind or "declaration", "statement": statement, "definitions": shown}
        said = prompts.messages(INFORMALISE, doc=columns.of(document, "doc"), **values)
        yield document.id, Ask(said, SCHEMA)


def keep(
    kind: str,
    prompt: str,
    client: Client,
    about: Mapping[str, Any],
    texts: Mapping[str, Mapping[str, str]],
    failed: Mapping[str, str],
) -> Path:
    """Writes texts from a model's answers to the store, under the hash of their inputs and content; returns the folder.

    The artifact's specification has the model with its parameters, the checksum of the prompt, and `about`.
    """
    lines = [json.dumps({"id": name, **fields}, ensure_ascii=False) for name, fields in texts.items()]
    lines += [json.dumps({"id": name, "failed": why}, ensure_ascii=False) for name, why in failed.items()]
    content = "".join(f"{line}\n" for line in lines).encode()
    endpoint = client.endpoint
    spec = {
        "model": endpoint.model,
        "parameters": dict(endpoint.parameters),
        "prompt": {"name": prompt, "sha256": prompts.digest(prompt)},
        "about": about,
        "content": sha256(content),
    }

    def write(folder: Path) -> None:
        (folder / "texts.jsonl").write_bytes(content)
        made = asdict(provenance.provenance({}, libraries=()))
        counts = {"made": len(texts), "failed": len(failed), "spent": asdict(client.spent), "mode": client.mode}
        (folder / "provenance.json").write_text(json.dumps({**made, **counts}, indent=1, default=dict))

    return artefacts.get_or_build(kind, spec, write)


def _parts(answer: Answer, *keys: str) -> Iterable[str]:
    """Returns some fields of an answer's value, each on one line."""
    return (" ".join(str(answer.value[key]).split()) for key in keys)


AUGMENT = "augment"  # name of the prompt
QUERY_SCHEMA = {
    **SCHEMA,
    "properties": {**SCHEMA["properties"], "lean": {"type": "string", "minLength": 1}},  # type: ignore[dict-item]
    "required": ["name", "statement", "lean"],
}


@dataclass(frozen=True)
class Augmented:
    """A query written as a theorem, in Lean and in prose."""

    formal: str
    informal: Informal


def augmented(
    topics: Iterable[Topic], client: Client, *, query: Sequence[str] = ("title", "body")
) -> dict[str, Augmented]:
    """Returns the augmented queries by topic id; queries on which the model fails are left out.

    The results are also kept in the store, with their provenance. A proof after the Lean statement is removed.

    Parameters
    ----------
    query : topic fields (title, body) that are joined by a blank to form the query; empty queries are skipped.

    Raises
    ------
    HarnessError
        The errors of `Client.ask`.
    """
    texts = {topic.id: asked(topic, query) for topic in topics}
    texts = {name: text for name, text in texts.items() if text}
    answers = client.ask([Ask(prompts.messages(AUGMENT, query=text), QUERY_SCHEMA) for text in texts.values()])
    queries: dict[str, Augmented] = {}
    failed: dict[str, str] = {}
    for name, answer in zip(texts, answers, strict=True):
        if answer.failed:
            failed[name] = answer.failed
            continue
        title, statement, lean = (" ".join(str(answer.value[key]).split()) for key in ("name", "statement", "lean"))
        queries[name] = Augmented(statement_of(lean), Informal(title, statement))
    if client.mode != "dry":
        rows = {name: {"lean": one.formal, **asdict(one.informal)} for name, one in queries.items()}
        about = {"queries": sha256(repr(list(texts.items())).encode("utf-8", "surrogatepass"))}
        keep("augmented-queries", AUGMENT, client, about, rows, failed)
    return queries


def asked(topic: Topic, query: Sequence[str]) -> str:
    """Returns the query text of a topic: its fields `query`, joined by blanks."""
    return " ".join(text for name in query if (text := str(getattr(topic, name)).strip()))


def statement_of(lean: str) -> str:
    """Returns a Lean statement without a following proof, and without Markdown code fences.

    >>> statement_of("```lean theorem a (n : Nat := 0) : n = n := by rfl ```")
    'theorem a (n : Nat := 0) : n = n'
    """
    text = lean.strip().removeprefix("```lean").strip("`").strip()
    depth = 0
    for at, sign in enumerate(text):
        depth += (sign in "([{⟨") - (sign in ")]}⟩")
        if depth <= 0 and text.startswith(":=", at):
            return text[:at].strip()
    return text
