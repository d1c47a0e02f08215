"""Measures: functions of rankings (as arrays) that return a value per topic.

Our measures agree with trec_eval where it has them; Judged@k is the share of judged documents among the first k
results. `register` adds measures; names that neither we nor an installed package define are looked up in ir_measures.
`harness.scoring.spellings` has the names that trec_eval gives to measures.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np

from harness.data.columns import Floats, Index
from harness.errors import HarnessError, gather, refuse, suggestion
from harness.io import extensions
from harness.scoring import spellings
from harness.scoring.rankings import Judged, Measure, Ranked


def discounts(n: int) -> Floats:
    """Returns 1 / log2(rank + 1) for ranks 1 to n (Jaervelin and Kekaelaeinen 2002, as in trec_eval)."""
    out: Floats = 1.0 / np.log2(np.arange(n) + 2.0)
    return out


def _divide(a: Floats, b: Floats | Index) -> Floats:
    """Returns a / b, and 0 where b is 0: a topic without relevant documents scores 0; a protocol may leave it out."""
    out: Floats = np.zeros(a.shape)
    np.divide(a, b, out=out, where=np.asarray(b) > 0)
    return out


def _dcg(ranked: Ranked, k: int | None) -> Floats:
    return ranked.total(ranked.gain * discounts(int(ranked.rank.max(initial=0)) + 1)[ranked.rank], k)


def ideal_dcg(judged: Judged, k: int | None) -> Floats:
    """Returns the DCG of the best possible ranking, shape (topics,)."""
    return _dcg(judged.ideal, k)


def ndcg(ranked: Ranked, judged: Judged, k: int | None) -> Floats:
    """Returns the DCG divided by the DCG of the ideal ranking."""
    return _divide(_dcg(ranked, k), ideal_dcg(judged, k))


def average_precision(ranked: Ranked, judged: Judged, k: int | None) -> Floats:
    """Returns average precision: the mean precision at the ranks of all relevant documents, 0 for those not found."""
    flags = ranked.relevant & (ranked.rank < k) if k is not None else ranked.relevant
    precision = np.where(flags, ranked.relevant_so_far / (ranked.rank + 1.0), 0.0)
    return _divide(ranked.total(precision), judged.relevant)


def relevant_retrieved(ranked: Ranked, judged: Judged, k: int | None) -> Floats:
    """Returns the number of relevant documents retrieved."""
    return ranked.total(ranked.relevant, k)


def retrieved(ranked: Ranked, judged: Judged, k: int | None) -> Floats:
    """Returns the number of results."""
    return ranked.total(np.ones(ranked.rank.size), k)


def relevant_judged(ranked: Ranked, judged: Judged, k: int | None) -> Floats:
    """Returns the number of relevant documents in the judgments, whatever the run retrieved."""
    return judged.relevant.astype(np.float64)


def topic_count(ranked: Ranked, judged: Judged, k: int | None) -> Floats:
    """Returns 1 for each topic of the judgments."""
    return np.ones(ranked.topics)


def log_average_precision(ranked: Ranked, judged: Judged, k: int | None) -> Floats:
    """Returns the natural logarithm of average precision, or of 0.00001 if that is larger, as trec_eval's gm_map."""
    out: Floats = np.log(np.maximum(average_precision(ranked, judged, k), 1e-5))
    return out


def precision(ranked: Ranked, judged: Judged, k: int | None) -> Floats:
    """Returns precision at k: relevant documents among the first k, over k, also when fewer than k were found."""
    relevant = relevant_retrieved(ranked, judged, k)
    return relevant / k if k is not None else _divide(relevant, retrieved(ranked, judged, None))


def recall(ranked: Ranked, judged: Judged, k: int | None) -> Floats:
    """Returns recall at k: relevant documents among the first k, over all relevant documents."""
    return _divide(relevant_retrieved(ranked, judged, k), judged.relevant)


def r_precision(ranked: Ranked, judged: Judged, k: int | None) -> Floats:
    """Returns precision at R, the number of relevant documents of the topic; 0 without any."""
    head = ranked.rank < judged.relevant[ranked.topic]
    return _divide(ranked.total(ranked.relevant & head), judged.relevant)


def success(ranked: Ranked, judged: Judged, k: int | None) -> Floats:
    """Returns 1 if a relevant document is among the first k results, else 0."""
    return np.minimum(relevant_retrieved(ranked, judged, k), 1.0)


@dataclass(frozen=True)
class InterpolatedPrecision:
    """Function for the highest precision at any rank from the one at which a share of recall is reached; 0 if not.

    Attributes
    ----------
    recall : from 0 to 1.
    rounds : whether recall x R, of R relevant documents, is rounded to the nearest whole number, as in trec_eval 10;
        else 0.9 is added and the fraction is dropped, as in trec_eval 9.
    """

    recall: float
    rounds: bool = False

    def __call__(self, ranked: Ranked, judged: Judged, k: int | None) -> Floats:
        """Returns the values of all topics."""
        share = self.recall * judged.relevant
        needed = np.where(share - np.floor(share) < 0.5, np.floor(share), np.ceil(share))
        if not self.rounds:
            needed = np.floor(share + 0.9)
        counts = ranked.relevant & (ranked.relevant_so_far >= needed[ranked.topic])
        out = np.zeros(ranked.topics)
        np.maximum.at(out, ranked.topic[counts], ranked.relevant_so_far[counts] / (ranked.rank[counts] + 1.0))
        return out


def reciprocal_rank(ranked: Ranked, judged: Judged, k: int | None) -> Floats:
    """Returns 1 over the rank of the first relevant document; 0 if there is none."""
    out = np.zeros(ranked.topics)
    relevant = ranked.relevant & (ranked.rank < k) if k is not None else ranked.relevant
    np.maximum.at(out, ranked.topic[relevant], 1.0 / (ranked.rank[relevant] + 1.0))
    return out


def bpref(ranked: Ranked, judged: Judged, k: int | None) -> Floats:
    """Returns binary preference as trec_eval computes it (Buckley and Voorhees 2004).

    Mean over all relevant documents of 1 - min(n, R) / min(N, R) for those found, with n the judged
    non-relevant documents above, R all relevant, N all judged non-relevant ones. Unjudged documents
    do not count. The MathAMR+ thesis prints R only as the denominator (its Figure 2.3).
    """
    relevant = ranked.relevant & (ranked.rank < k) if k is not None else ranked.relevant
    above = ranked.judged_so_far[relevant] - ranked.relevant_so_far[relevant]
    topic = ranked.topic[relevant]
    most = judged.relevant[topic]
    bound = np.minimum(judged.nonrelevant[topic], most)
    preferred = np.where(above > 0, 1.0 - np.minimum(above, most) / np.maximum(bound, 1), 1.0)
    return _divide(np.bincount(topic, preferred, ranked.topics).astype(np.float64), judged.relevant)


def judged_share(ranked: Ranked, judged: Judged, k: int | None) -> Floats:
    """Returns the share of the first k results (of all, if fewer were found) that were judged; NaN without results.

    Taken before unjudged documents are removed.
    """
    results = ranked.total(np.ones(ranked.rank.size), k)
    share = _divide(ranked.total(ranked.judged, k), results)
    return np.where(results > 0, share, np.nan)


_share = partial(Measure, tie_bounds=True, sensitivity=1.0, highest=1.0)  # values from 0 to 1
_count = partial(Measure, aggregate="sum", needs_relevant=False)
MEASURES: dict[str, Measure] = {
    measure.name: measure
    for measure in (
        _share("nDCG", ndcg, graded=True, names=("ndcg", "ndcg_cut"), mteb="ndcg"),
        _share("AP", average_precision, mean="MAP", names=("ap", "map", "map_cut"), mteb="map"),
        _share("P", precision, needs_cut=True, names=("p", "precision"), mteb="precision"),
        _share("R", recall, needs_cut=True, names=("r", "recall"), mteb="recall"),
        _share("RR", reciprocal_rank, mean="MRR", names=("rr", "mrr", "recip_rank"), mteb="mrr"),
        _share("Bpref", bpref, primed=False, names=("bpref",)),
        _share("Rprec", r_precision, takes_cut=False, names=("rprec",)),
        _share("Success", success, needs_cut=True, names=("success",), mteb="hit_rate"),
        Measure("GMAP", log_average_precision, aggregate="geometric", tie_bounds=True, names=("gmap", "gm_map")),
        Measure(
            "Judged",
            judged_share,
            needs_cut=True,
            needs_relevant=False,
            primed=False,
            diagnostic=True,
            names=("judged",),
        ),
        _count(
            "RelRet", relevant_retrieved, primed=False, tie_bounds=True, names=("relret", "num_rel_ret", "numrelret")
        ),
        _count("NumRet", retrieved, diagnostic=True, names=("num_ret",)),
        _count("NumRel", relevant_judged, takes_cut=False, primed=False, diagnostic=True, names=("num_rel",)),
        _count("NumQ", topic_count, takes_cut=False, primed=False, diagnostic=True, names=("num_q",)),
    )
}
spellings.NAMES.update((other, measure.name) for measure in MEASURES.values() for other in measure.names)
# Distributions that compute measures of ir_measures; their versions are part of a score's provenance.
_OF_LIBRARY = ("ir-measures", "pytrec-eval-terrier", "cwl-eval")
_OF_GRADES = {"NumRet": "RelRet", "NumRel": "NumRel"}  # with rel=N: the count of documents with a grade of N or more


def register(measure: Measure) -> None:
    """Registers a measure by its name, for this process.

    An installed package declares a module or function that registers measures as an entry point of the group
    `mathir_harness.measures`; it is imported when an unknown measure is requested.

    Parameters
    ----------
    measure : the measure, without a cut.

    Raises
    ------
    HarnessError
        The name has characters other than letters, digits and `_`, or is already taken by another measure.

    Examples
    --------
    Expected reciprocal rank of a user whom a document satisfies with probability gain / 4:

    >>> import numpy as np
    >>> from harness.scoring.measures import MEASURES, Measure, register
    >>> def err(ranked, judged, k):
    ...     values, going_on = np.zeros(ranked.topics), np.ones(ranked.topics)
    ...     head = ranked.head(k)
    ...     for topic, rank, gain in zip(ranked.topic[head], ranked.rank[head], ranked.gain[head]):
    ...         values[topic] += going_on[topic] * gain / 4 / (rank + 1)
    ...         going_on[topic] *= 1 - gain / 4
    ...     return values
    >>> register(Measure("MyERR", err, graded=True, tie_bounds=True))
    >>> from harness.data.trec import Qrels, Run
    >>> from harness.scoring.protocol import Protocol
    >>> from harness.scoring.scorer import score_run
    >>> run = Run.from_dict("mine", {"t": {"a": 3.0, "b": 2.0, "c": 1.0}})
    >>> qrels = Qrels.from_dict("all", {"t": {"a": 2, "b": 0, "c": 4}})
    >>> score_run(run, qrels, Protocol("plain", ("MyERR@10", "MyERR@2"))).values.round(4).tolist()
    [[0.6667, 0.5]]
    >>> del MEASURES["MyERR"]
    """
    if not re.fullmatch("[A-Za-z][A-Za-z0-9_]*", measure.name) or measure.k is not None:
        raise HarnessError(f"measure {str(measure)!r}: expected a name of letters, digits and '_', without a cut")
    known = MEASURES.get(measure.name)
    if known is not None and _origin(known) != _origin(measure):  # one cell of a notebook may run twice
        raise HarnessError(f"measure {measure.name!r} is that of {_origin(known)}; choose another name")
    MEASURES[measure.name] = measure
    spellings.NAMES.update(dict.fromkeys(measure.names, measure.name))


def _origin(measure: Measure) -> str:
    function = measure.function
    return f"{function.__module__}.{getattr(function, '__qualname__', type(function).__qualname__)}"


@cache
def _register_all(entries: tuple[extensions.Extension, ...]) -> None:
    """Registers the measures of installed packages, once."""
    for entry in entries:
        hook = extensions.load(entry.value, str(entry))
        if callable(hook):
            with extensions.guarded(str(entry)):
                hook()


def parse_measure(text: str) -> Measure:
    """Returns the measure named by a text, such as `nDCG@10`, or `RBP(p=0.9)` of ir_measures.

    Names in trec_eval and in papers are accepted too: `ndcg_cut_10`, `P.5`, `MAP`, `NDCG@10`. A prime is ignored,
    because the protocol decides whether unjudged documents count. Names of several measures, such as `P.5,10` and
    `official`, are for `parse_measures`.

    Names are looked up in our measures, then in installed packages, then in ir_measures (see
    `harness.scoring.ir_measures`); our names with parameters, such as `AP(rel=2)`, are measures of ir_measures.

    Raises
    ------
    HarnessError
        The name is unknown, the cut is not a positive whole number or begins with 0 (each measure has one spelling), a
        required cut is missing, the text names several measures or one of trec_eval's that we lack, or ir_measures
        does not accept the parameters or cannot compute the measure.
    """
    if not isinstance(text, str):
        raise HarnessError(f"measure {text!r}: expected text such as nDCG@10")
    given, several = text, _expanded(text)
    if len(several) != 1:
        raise HarnessError(f"measure {text!r} names several measures, expected one of {', '.join(several)}")
    text = several[0]
    match = re.fullmatch(r"([A-Za-z][A-Za-z0-9_]*)(?:@([0-9]{1,9}))?", text)
    if match is not None and match[1] not in MEASURES:
        _register_all(extensions.extensions("measures"))
    if match is not None and match[1] in MEASURES:
        return _with_cut(MEASURES[match[1]], text, match[2])
    if found_here := _with_parameter(text):
        return found_here
    from harness.scoring import ir_measures as library

    name = re.split("[@(]", text)[0]
    if name not in MEASURES or "(" in text:
        in_library = library.find(text)
        if isinstance(in_library, Measure):
            return in_library
        if in_library != text:  # another spelling of one of our measures
            return parse_measure(in_library)
    if other := spellings.instead(given):
        raise HarnessError(f"measure {given!r} of trec_eval is not computed; {other}")
    stem = re.split("[@_(]", text)[0]
    said = suggestion(stem, {*MEASURES, *library.names()})
    if not said.startswith("did you mean"):  # ir_measures has too many to list
        said = suggestion(stem, MEASURES)
    cut = re.search("@[0-9]{1,9}$", text)
    if cut and said.startswith("did you mean") and said.count("'") == 2:
        said = said.replace("'?", f"{cut[0]}'?")
    missing = f"{' ' if said.endswith('?') else '; '}{library.MISSING}" if library.missing() else ""
    raise HarnessError(f"measure {given!r} is unknown; {said}{missing}")


def _expanded(text: str) -> tuple[str, ...]:
    """Returns the measures that a text names in trec_eval's way; names that are registered here stay as they are."""
    ours = not isinstance(text, str) or ("," not in text and re.split("[@(]", text)[0] in MEASURES)
    return (text,) if ours else spellings.expand(text)


def _with_parameter(text: str) -> Measure | None:
    """Returns our measure with a parameter, such as `IPrec@0.1` or `NumRel(rel=2)`; None for other texts."""
    if match := re.fullmatch(r"(NumRet|NumRel)\(rel=([1-9][0-9]{0,3})\)", text.replace(" ", "")):
        return replace(MEASURES[_OF_GRADES[match[1]]], name=match[0], relevant_from=float(match[2]))
    if match := re.fullmatch(r"IPrec(?:@|\(recall=)([01](?:\.[0-9]{1,2})?)(\))?", text.replace(" ", "")):
        recall = float(match[1])
        if recall <= 1 and (match[2] is None) == ("@" in text):
            name, function = f"IPrec(recall={recall})", InterpolatedPrecision(recall)
            double = InterpolatedPrecision(recall, rounds=True)
            return Measure(name, function, double=double, tie_bounds=True, sensitivity=1.0)
    return None


def _with_cut(measure: Measure, text: str, cut: str | None) -> Measure:
    if cut is None:
        if measure.needs_cut:
            raise HarnessError(f"measure {text!r} needs a cut, such as {measure.name}@10")
        return measure
    if not measure.takes_cut:
        raise HarnessError(f"measure {text!r}: {measure.name} has no cut")
    if not int(cut):
        raise HarnessError(f"measure {text!r}: the cut must be 1 or more")
    if cut.startswith("0"):
        raise HarnessError(f"measure {text!r}: the cut begins with 0, expected {measure.name}@{int(cut)}")
    return replace(measure, k=int(cut))


def parse_measures(texts: Iterable[str]) -> tuple[Measure, ...]:
    """Returns several measures; raises HarnessError with all faults, as `parse_measure` does or if one is named twice.

    A text may name several measures in trec_eval's way: `P.5,10`, `success`, `official`.
    """
    out: dict[str, Measure] = {}
    faults: list[str] = []
    for given in texts:
        several = _expanded(given)
        for text in several if len(several) > 1 else (given,):
            with gather(faults):
                measure = parse_measure(text)
                if str(measure) in out:
                    raise HarnessError(f"measure {text!r} is named twice")
                out[str(measure)] = measure
    refuse(faults)
    return tuple(out.values())


def without_diagnostics(names: Iterable[str]) -> list[str]:
    """Returns the measures of effectiveness, without diagnostics such as Judged@k; for tests and best results."""
    return [name for name in names if not parse_measure(name).diagnostic]


def without_private(names: Iterable[str]) -> list[str]:
    """Returns the measures that may be shown where judgments are private."""
    return [name for name in names if not parse_measure(name).private]


def distributions(names: Iterable[str]) -> tuple[str, ...]:
    """Returns the distributions that compute measures of ir_measures, if any of the names is one; else none."""
    theirs = any(parse_measure(name).function.__module__ == "harness.scoring.ir_measures" for name in names)
    return _OF_LIBRARY if theirs else ()


def unbounded(names: Iterable[str]) -> list[str]:
    """Returns the measures without known bounds over the orders of tied results."""
    return [name for name in without_diagnostics(names) if not parse_measure(name).tie_bounds]


def shown_decimals(text: str, most: int) -> int:
    """Returns how many decimals an aggregate of a single run is shown with: none for a sum of counts."""
    return 0 if parse_measure(text).aggregate == "sum" else most


def label(text: str, *, prime: bool) -> str:
    """Returns the name of a measure's mean in papers: `AP` -> `MAP`, primed if unjudged documents are removed."""
    measure = parse_measure(text)
    mark = "\u2032" if prime and measure.primed else ""
    name = re.split("[@(]", str(measure))[0]
    return f"{measure.mean or name}{mark}{str(measure).removeprefix(name)}"
