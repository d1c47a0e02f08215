"""Stand-ins for a language model's answers, in the form that each prompt of the harness asks for.

A prompt is recognised by the words with which its file begins. Some answers are bad in the ways in which those of
models are: fenced, cut off, without a decision, with a proof. How often is `FAULTY`; the same request always gets the
same answer.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from harness.papers.saber.dollars import in_dollars
from harness.store import prompts

FAULTY = 0.03  # share of answers with one fault
FENCED = 0.1  # share of JSON answers between fences, of models that are not held to JSON
_WORDED = "fits this JSON Schema, and with nothing else:\n"  # `harness.store.llm.answers.worded`
_WORD = re.compile(r"[A-Za-z]{3,}")
_PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")  # of an identifier
_MOST_WORDS = 12
_ITEMS = 2  # of a list without a least length
_DEEPEST = 8


def chat_answer(seed: int, body: Mapping[str, Any]) -> str:
    """Returns what a model says to a chat: the content of its message.

    Parameters
    ----------
    body : of the request: `messages`, and `response_format` if it has one.
    """
    contents = [str(message["content"]) for message in body["messages"]]
    rng = _random(seed, body)
    name = _prompt(contents)
    schema = _schema(body)
    if schema is None and name in _TEXTS:
        return _TEXTS[name](_filled(name, contents), rng)
    if schema is None and _format(body) == "text":
        return _prose(_words(contents[-1]), rng)
    made = _VALUES.get(name, _generic)
    value = made(_filled(name, contents), schema or {"type": "object"}, rng)
    return _as_json(value, rng, _format(body) == "text")


def _random(seed: int, body: Mapping[str, Any]) -> random.Random:
    said = json.dumps([seed, body], sort_keys=True, ensure_ascii=True)
    return random.Random(hashlib.sha256(said.encode()).digest())


# ---- which prompt, and what it asks for -------------------------------------------------------------------------


@cache
def _openings() -> dict[str, str]:
    """Returns prompt -> the literal text with which its first block begins, the longest first."""
    found = {}
    for name in prompts.names():
        written = (prompts.FOLDER / f"{name}.jinja").read_text(encoding="utf-8")
        begin = re.search(r"\{% block \w+ %\}\s*", written)
        start = written[begin.end() :] if begin else written
        found[name] = re.split(r"\{[{%#]", start, maxsplit=1)[0].strip()
    return dict(sorted(found.items(), key=lambda pair: -len(pair[1])))


def _prompt(contents: Sequence[str]) -> str:
    """Returns the prompt that a conversation ends with; empty if it is none of the harness's."""
    for content in reversed(contents):
        for name, opening in _openings().items():
            if content.startswith(opening):
                return name
    return ""


def _filled(name: str, contents: Sequence[str]) -> str:
    """Returns the message that holds a prompt's values: its own if it has one block, else the next one."""
    opening = _openings().get(name, "")
    at = next((i for i in reversed(range(len(contents))) if opening and contents[i].startswith(opening)), None)
    if at is None:
        return contents[-1]
    last = at + 1 if name in ("informalise", "augment") else at
    return contents[min(last, len(contents) - 1)].split("\n\nAnswer with one JSON value that ", 1)[0]


def _format(body: Mapping[str, Any]) -> str:
    return str(body.get("response_format", {}).get("type", "text"))


def _schema(body: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Returns the schema of a request: of its format, else the one that its messages give in words."""
    form = body.get("response_format", {})
    found = form.get("json_schema", {}).get("schema", form.get("schema"))
    if found is None:
        said = [str(m["content"]) for m in body["messages"] if _WORDED in str(m["content"])]
        try:
            found = json.loads(said[-1].split(_WORDED, 1)[1]) if said else None
        except ValueError:
            found = None
    return found if isinstance(found, dict) else None


# ---- JSON -------------------------------------------------------------------------------------------------------


def _as_json(value: object, rng: random.Random, free: bool) -> str:
    """Writes an answer's value; `free`: the model is not held to JSON."""
    written = json.dumps(value, ensure_ascii=False)
    if free and rng.random() < FAULTY:
        return written[:-1]  # without the last bracket
    if free and rng.random() < FENCED:
        return f"```json\n{written}\n```"
    return written


def _informal(said: str, schema: Mapping[str, Any], rng: random.Random) -> object:
    named = re.search(r"The declaration `(.*?)`", said)
    parts = _PARTS.findall(named[1] if named else "") or ["statement"]
    words = [part.lower() for part in parts]
    about = _words(said.partition(":\n\n")[2])
    statement = f"Let $x$ be given. Then the {' '.join(words)} holds: {_some(about, rng)}, that is $x = x$."
    return {"name": " ".join(words).capitalize(), "statement": statement}


def _augmented(said: str, schema: Mapping[str, Any], rng: random.Random) -> object:
    query = said.removeprefix("Query:").removesuffix("Answer:").strip()
    words = [word.lower() for word in _words(query)][:_MOST_WORDS] or ["identity"]
    lean = f"theorem {'_'.join(words[:5])} (n : ℕ) (h : 0 < n) : n = n"
    if rng.random() < FENCED:
        lean += " := by\n  rfl"  # the prompt forbids a proof; models give one all the same
    name = " ".join(words[:5]).capitalize()
    return {"name": name, "statement": f"Let $n$ be a positive integer. Then {query}.", "lean": lean}


def _idea(said: str, schema: Mapping[str, Any], rng: random.Random) -> object:
    words = _words(said.partition("\nSolution:")[2]) or ["symmetry"]
    if rng.random() < 0.1:
        return {"noCoreIdea": True, "coreIdea": None, "supportingIdeas": []}
    supporting = [_some(words, rng, 3) for _ in range(rng.randint(0, 3))]
    core = f"Look at the {_some(words, rng, rng.randint(3, 10))}"
    return {"noCoreIdea": False, "coreIdea": core, "supportingIdeas": supporting}


def _tags(said: str, schema: Mapping[str, Any], rng: random.Random) -> object:
    """Rates titles: the one that shares most words with the problem is the best one, the others at random."""
    required = [str(title) for title in schema.get("required", ())]
    parents = [title for title in schema.get("properties", {}) if title not in required]
    text = {word.lower() for word in _words(said.partition("\nProblem:")[2])}
    shared = {title: len(text & {part.lower() for part in _PARTS.findall(title)}) for title in required}
    order = sorted(required, key=lambda title: (-shared[title], rng.random()))
    found: dict[str, float] = {title: round(rng.uniform(0.05, 0.95), 2) for title in required}
    own = bool(parents) and rng.random() < 0.4  # none of them fits better than the topic that they belong to
    if own:
        found = {title: round(value / 3, 2) for title, value in found.items()}
    elif order:
        found[order[0]] = 1.0
    if len(order) > 1:
        found[order[-1]] = 0.0
    return found | dict.fromkeys(parents, 1.0 if own else 0.3)


def _generic(said: str, schema: Mapping[str, Any], rng: random.Random) -> object:
    return _value(schema, _words(said), rng, 0)


def _value(schema: Mapping[str, Any], words: Sequence[str], rng: random.Random, depth: int) -> Any:  # noqa: ANN401
    """Returns a value that fits the plain part of JSON Schema: types, enumerations, bounds, required properties."""
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return rng.choice(list(schema["enum"]))
    kinds = schema.get("type", "object" if "properties" in schema else "string")
    kind = rng.choice(kinds) if isinstance(kinds, list) else kinds
    if kind == "object" and depth < _DEEPEST:
        parts = schema.get("properties", {})
        return {str(name): _value(parts.get(name, {}), words, rng, depth + 1) for name in schema.get("required", parts)}
    if kind == "array" and depth < _DEEPEST:
        count = max(int(schema.get("minItems", 0)), min(_ITEMS, int(schema.get("maxItems", _ITEMS))))
        return [_value(schema.get("items", {}), words, rng, depth + 1) for _ in range(count)]
    low, high = schema.get("minimum", 0), schema.get("maximum", 10)
    if kind == "integer":
        return rng.randint(int(low), max(int(low), int(high)))
    if kind == "number":
        return round(rng.uniform(low, high), 2)
    if kind == "boolean":
        return rng.random() < 0.5
    return None if kind == "null" else _some(words, rng)


_VALUES: Mapping[str, Callable[[str, Mapping[str, Any], random.Random], object]] = {
    "informalise": _informal,
    "augment": _augmented,
    "saber-idea": _idea,
    "saber-tags": _tags,
}

# ---- text -------------------------------------------------------------------------------------------------------


def _judged(said: str, rng: random.Random) -> str:
    """Prefers the candidate that shares more words with the target, at random if both share as many."""
    target, first, second = (set(_words(part)) for part in _candidates(said))
    ahead = len(target & first) - len(target & second)
    winner = rng.choice((1, 2)) if not ahead else 1 if ahead > 0 else 2
    if rng.random() < FAULTY:
        return "Both candidates are close to the target, and neither is closer."
    line = rf"$\boxed{{{winner}}}$"
    if "Answer with one line and nothing else" in said:
        return line
    return f"1. The target uses {_some(sorted(target), rng, 4)}.\n2. Candidate {winner} shares more.\n\n{line}"


def _candidates(said: str) -> tuple[str, str, str]:
    parts = re.split(r"^# (?:TARGET|CANDIDATE [12]|ANSWER)$", said, flags=re.MULTILINE)
    return (parts[1], parts[2], parts[3]) if len(parts) > 3 else (said, "", "")


def _judged_again(said: str, rng: random.Random) -> str:
    return "Neither." if rng.random() < FAULTY else rf"$\boxed{{{rng.choice((1, 2))}}}$"


def _delimited(said: str, rng: random.Random) -> str:
    text = said.rpartition("\nText:\n")[2]
    done, _ = in_dollars(text)
    if rng.random() < FAULTY:
        return f"Here is the text:\n\\boxed{{{done}}}"
    if rng.random() < FAULTY:
        done = done.replace("the", "a", 1)  # changes a word, which is forbidden
    return f"\\boxed{{{done}}}"


def _prose(words: Sequence[str], rng: random.Random) -> str:
    return f"Consider case {rng.randint(1, 999)}, which is about {_some(words, rng)}."


_TEXTS: Mapping[str, Callable[[str, random.Random], str]] = {
    "saber-judge": _judged,
    "saber-judge-again": _judged_again,
    "saber-delimiters": _delimited,
}


def _words(text: str) -> list[str]:
    return _WORD.findall(text)


def _some(words: Sequence[str], rng: random.Random, most: int = _MOST_WORDS) -> str:
    """Returns some words of a text, in its order; `statement` if it has none."""
    chosen = sorted(rng.sample(range(len(words)), min(most, len(words))))
    return " ".join(words[i] for i in chosen) or "statement"
