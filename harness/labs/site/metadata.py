"""Resources and costs of a run, read from its ir_metadata, which its team wrote: claims, not measurements of ours."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

RESOURCES = ("neural", "lexical", "formula", "fusion", "external data")
# Words in the names and methods of `method`, and folders of the harness's own systems in `_target_`.
_WORDS = {
    "neural": r"dense|neural|bert\w*|colbert\w*|transformer\w*|encoder\w*|embedding\w*|llm|gpt\w*|splade|mpnet|minilm",
    "lexical": r"lexical|bm25\w*|tf-?idf\w*|lucene|anserini|terrier|dirichlet|jelinek|query likelihood|qld|unigram",
    "formula": r"formulas?|structural|mathamr|tangent\w*|approach0|slt|opt|operator trees?|layout trees?|mathml",
    "fusion": r"fusion|fused|rrf|reciprocal rank|interpolat\w*|ensemble\w*|combsum|combmnz|ibc|wibc|rbc",
}
_PATTERNS = {name: re.compile(rf"(?<![a-z0-9])(?:{words})(?![a-z0-9])") for name, words in _WORDS.items()}
_QUANTITY = re.compile(r"\s*([0-9][0-9,_]*(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?)\s*([a-zµμ]*)\s*", re.IGNORECASE)
_SECONDS = {"s": 1.0, "sec": 1.0, "second": 1.0, "seconds": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "μs": 1e-6}
_SECONDS |= {"min": 60.0, "h": 3600.0, "": 1.0}
_KWH = {"kwh": 1.0, "wh": 1e-3, "mwh": 1e3, "j": 1 / 3.6e6, "kj": 1 / 3.6e3, "mj": 1 / 3.6, "": 1.0}
_NUMBER = {"": 1.0, "k": 1e3, "m": 1e6, "b": 1e9, "million": 1e6, "billion": 1e9}


@dataclass(frozen=True)
class Cost:
    """A kind of cost: its name with unit, and the keys of metadata that may hold it, with their units."""

    name: str
    keys: tuple[str, ...]
    units: Mapping[str, float]
    decimals: int = 3


COSTS = (
    Cost("latency (s per topic)", ("latency", "latency per query", "query latency", "mean latency"), _SECONDS, 3),
    Cost("parameters (millions)", ("parameters", "number of parameters", "model parameters"), _NUMBER, 1),
    Cost("energy (kWh)", ("energy", "energy consumption", "energy consumed"), _KWH, 4),
)


def resources(metadata: Mapping[str, Any], external_data: str = "") -> tuple[str, ...]:
    """Returns which of `RESOURCES` a run uses, as far as its metadata tells.

    Parameters
    ----------
    external_data : what the team said about data used besides the collection.

    Examples
    --------
    >>> resources({"method": {"retrieval": [{"name": "ours", "method": "BM25 and a bi-encoder, RRF"}]}}, "Wikipedia")
    ('neural', 'lexical', 'fusion', 'external data')
    """
    texts = [each[:500].lower() for _, each in _nodes(metadata.get("method")) if isinstance(each, str)]
    texts = [text.replace("_", " ").replace(".", " ") for text in texts]
    used = {name for name, pattern in _PATTERNS.items() if any(pattern.search(text) for text in texts)}
    data = metadata.get("data")
    if external_data or (isinstance(data, Mapping) and data.get("external data")):
        used.add("external data")
    return tuple(name for name in RESOURCES if name in used)


def costs(metadata: Mapping[str, Any]) -> dict[str, float]:
    """Returns name of a cost -> value, from `resources`, `platform` and `method`; a mapping counts by its key `mean`.

    Examples
    --------
    >>> costs({"resources": {"latency": {"mean": "250 ms"}, "parameters": 110000000}})
    {'latency (s per topic)': 0.25, 'parameters (millions)': 110.0}
    """
    pairs: dict[str, object] = {}
    for part in ("method", "platform", "resources"):
        found = reversed([(keys[-1], value) for keys, value in _nodes(metadata.get(part)) if keys])  # the first counts
        pairs |= {key.lower().replace("_", " "): value for key, value in found}
    out = {}
    for cost in COSTS:
        for key in cost.keys:
            value = _number(pairs.get(key), cost.units)
            if value is not None:
                out[cost.name] = value / 1e6 if cost.units is _NUMBER else value
                break
    return out


def _number(value: object, units: Mapping[str, float]) -> float | None:
    """Returns a quantity in its base unit; None if it is not a positive number with a known unit."""
    if isinstance(value, Mapping):
        value = value.get("mean", value.get("total"))
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    match = _QUANTITY.fullmatch(str(value))
    if match is None or match[2].lower() not in units:
        return None
    number = float(match[1].replace(",", "").replace("_", "")) * units[match[2].lower()]
    return number if 0 < number < 1e18 else None


def _nodes(value: object, most: int = 50_000) -> Iterator[tuple[tuple[str, ...], object]]:
    """Yields keys and value of nested values in order, at most `most`; not recursive, since metadata may be deep."""
    waiting: list[tuple[tuple[str, ...], object]] = [((), value)]
    while waiting and most:
        most -= 1
        keys, each = waiting.pop()
        yield keys, each
        inner: Iterable[tuple[object, object]] = ()
        if isinstance(each, Mapping):
            inner = each.items()
        elif isinstance(each, list | tuple):
            inner = enumerate(each, 1)
        waiting.extend(((*keys, str(key)), part) for key, part in reversed(list(inner)))


def flat(value: object, most: int = 400, longest: int = 300) -> dict[str, str]:
    """Returns path of keys -> value of nested metadata, at most `most` of them, each shortened.

    Examples
    --------
    >>> flat({"method": {"retrieval": [{"name": "bm25", "k1": 1.2}]}})
    {'method / retrieval / 1 / name': 'bm25', 'method / retrieval / 1 / k1': '1.2'}
    """
    leaves = ((keys, str(each)) for keys, each in _nodes(value) if not isinstance(each, Mapping | list | tuple | None))
    shown = ((" / ".join(keys), text if len(text) <= longest else f"{text[:longest]}…") for keys, text in leaves)
    return dict(islice(shown, most))
