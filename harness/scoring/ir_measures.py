"""Measures of the library ir_measures, computed on rankings prepared by a protocol.

The library gets the same input as our own measures: rankings after depth cut, de-duplication, tie breaking and removal
of unjudged documents. Topics and documents are renamed to numbers and results get distinct scores, so the library's own
rules for ties and names have no effect. Measures with a threshold `rel` get binary judgments, by `rel` if given, else
by the protocol's `relevant_from`. Other measures get the protocol's gains, which must be whole numbers, and respect the
protocol's choice of ideal ranking. Bounds for tied results are unknown for all of them.
"""

from __future__ import annotations

import ast
import importlib.util
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.data.columns import Floats
from harness.errors import HarnessError, suggestion
from harness.scoring.rankings import Judged, Measure, Ranked

Theirs = Any  # a measure or a provider of the library, which has no types
MISSING = "ir_measures is not installed (pip install 'mathir-harness[measures]')"
# Excludes pyndeval (needs judgments of subtopics), accuracy (divides by 0), and judged, ranx and trectools (measures of
# theirs are ours or another provider's).
PROVIDERS = ("pytrec_eval", "cwl_eval", "compat", "msmarco", "gdeval")
MOST = {"gdeval": 4}  # provider -> largest gain that it accepts
LARGEST_GAIN = 1000  # for other providers: trec_eval keeps a count for every gain up to the largest
MEANS = {"AP": "MAP", "RR": "MRR"}
UNKNOWN = "-"  # name of a document that is not retrieved
KINDS = {int: "a whole number", float: "a number", bool: "True or False"}
# Parameter -> smallest and largest valid value.
RANGES: Mapping[str, tuple[float, float]] = {
    "cutoff": (1, 999_999_999),
    "rel": (1, LARGEST_GAIN),
    "p": (0, 1),
    "recall": (0, 1),
    "beta": (0, LARGEST_GAIN),
    "T": (0, LARGEST_GAIN),
    "min_rel": (0, LARGEST_GAIN),
    "max_rel": (1, LARGEST_GAIN),
}


def missing() -> bool:
    """Returns whether the library is not installed."""
    return importlib.util.find_spec("ir_measures") is None


def names() -> set[str]:
    """Returns the names of the measures that the supported providers compute; empty if not installed."""
    return set() if missing() else {known.NAME for _, provider in _providers() for known in provider.SUPPORTED_MEASURES}


def _providers() -> Iterator[tuple[str, Theirs]]:
    import ir_measures

    return ((name, ir_measures.providers.registry[name]) for name in PROVIDERS)


def find(text: str) -> Measure | str:
    """Returns the measure named by `text`, a simpler spelling of it if there is one, or `text` itself if unknown.

    Raises
    ------
    HarnessError
        A parameter or value is invalid, or a provider of the measure is not installed.
    """
    match = re.fullmatch(r"([A-Za-z]\w{0,20})(?:\((.{0,100})\))?(?:@([0-9]{1,9}(?:\.[0-9]{1,9})?))?", text, re.ASCII)
    if match is None or missing():
        return text
    import ir_measures

    name, inside, cut = match.groups()
    registered = ir_measures.measures.registry.get(name)
    if registered is None:
        return text
    if name != registered.NAME or registered.params:
        raise HarnessError(f"measure {text!r} is unknown; did you mean {str(registered)!r}?")
    given = _parameters(text, inside or "")
    if cut is not None:
        if registered.AT_PARAM in given:
            raise HarnessError(f"measure {text!r}: says {registered.AT_PARAM!r} twice")
        given[registered.AT_PARAM] = float(cut) if "." in cut else int(cut)
    given = _checked(text, given, registered)
    k = given.get("cutoff")
    written = ",".join(f"{key}={value!r}" for key, value in given.items() if key != "cutoff")
    full = f"{name}({written})" if written else name
    spelling = full if k is None else f"{full}@{k}"
    if not written and spelling != text:
        return spelling
    binary = "rel" in registered.SUPPORTED_PARAMS  # judgments are 0 and 1 for a measure with a threshold
    threshold = given.pop("rel", None)
    measure = type(registered)(**given, **({"rel": 1} if binary else {}))
    return Measure(
        full,
        _Computed(spelling, measure, _provider(text, measure), binary),
        graded=not binary,
        primed=name != "Bpref",
        mean=MEANS.get(name, ""),
        relevant_from=threshold,
        k=k,
        double=_of_nine if name == "IPrec" else None,
    )


def _of_nine(ranked: Ranked, judged: Judged, k: int | None) -> Floats:
    raise HarnessError("measure IPrec: with parameters it is trec_eval 9's; under 'precision: double' use IPrec@0.1")


def _parameters(text: str, inside: str) -> dict[str, Any]:
    try:
        call = ast.parse(f"f({inside})", mode="eval").body
        if not isinstance(call, ast.Call) or call.args or any(key.arg is None for key in call.keywords):
            raise ValueError
        out = {str(key.arg): ast.literal_eval(key.value) for key in call.keywords}
        if len(out) < len(call.keywords):
            raise ValueError
        return out
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        raise HarnessError(f"measure {text!r}: expected parameters as in RBP(p=0.8,rel=2) or AP(rel=2)@10") from None


def _checked(text: str, given: Mapping[str, Any], registered: Theirs) -> dict[str, Any]:
    """Validates the parameters and returns them in the library's order."""
    known = registered.SUPPORTED_PARAMS
    name, _, cut = text.partition("@")
    for key in given:
        if key not in known:
            raise HarnessError(f"measure {text!r} has no parameter {key!r}; {suggestion(key, known)}")
    if "gains" in given:
        raise HarnessError(f"measure {text!r}: gains are the protocol's, not the measure's")
    out: dict[str, Any] = {}
    for key, info in known.items():
        if key not in given:
            if info.required:
                such = f"{key}={3 if info.dtype is int else 0.5}"
                such = such if "(" in text else "@".join(filter(None, (f"{name}({such})", cut)))
                what = f"a cut, such as {text}@10" if key == "cutoff" else f"{key!r}, such as {such}"
                what += "; iprec_at_recall names the eleven of trec_eval" if key == "recall" else ""
                raise HarnessError(f"measure {text!r} needs {what}")
            continue
        value = given[key]
        if info.dtype is float and type(value) is int:
            value = float(value)
        low, high = RANGES.get(key, (-math.inf, math.inf))
        number = type(value) in (int, float)
        if type(value) is not info.dtype or not info.validate(value) or (number and not low <= value <= high):
            wide = f" from {low:,} to {high:,}" if key in RANGES else ""
            expected = f"one of {', '.join(info.choices)}" if info.dtype is str else f"{KINDS[info.dtype]}{wide}"
            raise HarnessError(f"measure {text!r}: {key!r} is {given[key]!r}, expected {expected}")
        out[key] = value
    if round(out.get("recall", 0.0), 2) != out.get("recall", 0.0):
        raise HarnessError(
            f"measure {text!r}: 'recall' has more than two digits after the point, which trec_eval drops"
        )
    return out


def _provider(text: str, measure: Theirs) -> str:
    """Returns the name of the first installed provider that computes a measure."""
    lacking = []
    for name, provider in _providers():
        if provider.supports(measure):
            if provider.is_available():
                return name
            lacking.append(f"{name} ({provider.install_instructions()})")
    if lacking:
        raise HarnessError(f"measure {text!r}: ir_measures computes it by {' or '.join(lacking)}, which is not here")
    if measure.AT_PARAM == "cutoff" and "cutoff" in measure.SUPPORTED_PARAMS:
        uncut = {key: value for key, value in measure.params.items() if key != "cutoff"}
        other = type(measure)(**uncut) if "cutoff" in measure.params else measure @ 10
        if any(provider.supports(other) for _, provider in _providers()):
            what = "has no cut in ir_measures" if "cutoff" in measure.params else f"needs a cut, such as {text}@10"
            raise HarnessError(f"measure {text!r} {what}")
    if type(measure).__module__.endswith(".diversity"):
        raise HarnessError(f"measure {text!r}: needs judgments of subtopics, and judgments are of whole topics here")
    raise HarnessError(f"measure {text!r}: ir_measures computes it, if at all, by none of {', '.join(PROVIDERS)}")


@dataclass(frozen=True)
class _Computed:
    """Picklable function that computes a measure of the library.

    Attributes
    ----------
    name, measure : spelling of the measure, and the library's object.
    provider : name of the library's provider that computes it.
    binary : whether its judgments are 0 and 1.
    """

    name: str
    measure: Theirs
    provider: str
    binary: bool

    def __call__(self, ranked: Ranked, judged: Judged, k: int | None) -> Floats:  # the cut is part of the measure
        import ir_measures

        name, binary, most = self.name, self.binary, MOST.get(self.provider, LARGEST_GAIN)
        values = np.zeros(ranked.topics)
        if not ranked.topic.size:
            return values
        gains = ranked.gain if binary else np.concatenate((ranked.gain, judged.ideal.gain))
        if not binary and (wrong := gains[(gains != np.floor(gains)) | (gains > most) | (gains < 0)]).size:
            raise HarnessError(
                f"measure {name}: a gain is {wrong[0]:g}, "
                f"ir_measures ({self.provider}) takes whole numbers up to {most}"
            )
        qrels, run = _prepared(ranked, judged, binary)
        if self.measure.NAME == "infAP" and ranked.pooled is not None:
            for topic, rank in zip(ranked.topic[ranked.pooled], ranked.rank[ranked.pooled], strict=True):
                qrels[str(topic)] |= {str(rank): -1, UNKNOWN: 0}  # trec_eval crashes without a grade from 0
        try:
            for metric in ir_measures.providers.registry[self.provider].evaluator([self.measure], qrels).iter_calc(run):
                values[int(metric.query_id)] = metric.value
        except Exception as error:  # whatever the library and its providers raise
            raise HarnessError(f"measure {name}: ir_measures ({self.provider}) raises {error!r}") from error
        return values


def _prepared(
    ranked: Ranked, judged: Judged, binary: bool
) -> tuple[dict[str, dict[str, int]], dict[str, dict[str, float]]]:
    """Returns judgments and run in the library's format, for topics with results.

    Results are named by their ranks; judged documents that were not retrieved, by numbers below 0.
    """
    grades = ranked.relevant.astype(np.int64) if binary else ranked.gain.astype(np.int64)
    qrels: dict[str, dict[str, int]] = {}
    run: dict[str, dict[str, float]] = {}
    ends = np.flatnonzero(np.concatenate((ranked.topic[1:] != ranked.topic[:-1], [True]))) + 1
    for start, end in zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True):
        topic = int(ranked.topic[start])
        names = range(end - start)
        run[str(topic)] = {str(rank): float(end - start - rank) for rank in names}
        known = ranked.judged[start:end].tolist()
        rated = {str(rank): grade for rank, grade in zip(names, grades[start:end].tolist(), strict=True) if known[rank]}
        many, total = int(judged.relevant[topic]), int(judged.relevant[topic] + judged.nonrelevant[topic])
        ideal = [1] * many if binary else judged.ideal.gain[judged.ideal.topic == topic].astype(np.int64).tolist()
        left = list((Counter(ideal) - Counter(grade for grade in rated.values() if grade > 0)).elements())
        left += [0] * (total - len(rated) - len(left))
        qrels[str(topic)] = rated | {str(-number): grade for number, grade in enumerate(left, 1)}
    return qrels, run
