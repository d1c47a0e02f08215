"""Augments queries: a language model writes each as a theorem, in prose and in Lean.

Source: Gao et al., "A Semantic Search Engine for Mathlib4" (2024), section 3.3. The prompt is our own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from harness.data.topics import Topic
from harness.io.files import sha256
from harness.store import prompts
from harness.store.llm import Ask, Client
from harness.systems.theorems.informalise import SCHEMA as _PROSE
from harness.systems.theorems.informalise import Informal, keep

KIND = "augmented-queries"
PROMPT = "augment"
SCHEMA = {
    **_PROSE,
    "properties": {**_PROSE["properties"], "lean": {"type": "string", "minLength": 1}},  # type: ignore[dict-item]
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
    answers = client.ask([Ask(prompts.messages(PROMPT, query=text), SCHEMA) for text in texts.values()])
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
        keep(KIND, PROMPT, client, about, rows, failed)
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
