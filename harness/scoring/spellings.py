"""Names of measures in trec_eval and in papers."""

from __future__ import annotations

import re
from collections.abc import Iterable

# Other names of measures, in lower case -> ours; a cut follows after `_`, `.` or `@`. Our measures say theirs of
# themselves (`Measure.names`); these are of ir_measures.
NAMES = {
    "infap": "infAP",
    "iprec_at_recall": "IPrec",
    "iprec": "IPrec",
    "set_p": "SetP",
    "set_recall": "SetR",
    "set_map": "SetAP",
    "set_f": "SetF",
    "setf": "SetF",
    "set_relative_p": "SetP(relative=True)",
}
_RANKS = ("5", "10", "15", "20", "30", "100", "200", "500", "1000")
_RECALLS = tuple(f"{tenths / 10:.1f}" for tenths in range(11))
# Names that stand for measures at trec_eval's own cuts, if none follows; `P`, also a name of ours, needs a cut.
_CUTS = {
    "map_cut": _RANKS,
    "ndcg_cut": _RANKS,
    "recall": _RANKS,
    "success": ("1", "5", "10"),
    "iprec_at_recall": _RECALLS,
}
_OFFICIAL = (
    *("NumQ", "NumRet", "NumRel", "RelRet", "AP", "GMAP", "Rprec", "Bpref", "RR"),
    *(f"IPrec@{recall}" for recall in _RECALLS),
    *(f"P@{rank}" for rank in _RANKS),
)
# Names in trec_eval 9 and 10 for what is not computed -> what to use.
_INSTEAD = {
    "11pt_avg": "use AP, or iprec_at_recall for its eleven parts",
    "3pt_avg": "use AP",
    "all_trec": "parts of it are not computed; use official, nDCG, infAP, success, recall, map_cut and ndcg_cut",
    "binG": "use nDCG",
    "G": "use nDCG",
    "gm_bpref": "use Bpref or GMAP",
    "map_avgjg": "use AP",
    "ndcg": "gains are those of the protocol, its key gains",
    "ndcg_rel": "use nDCG",
    "num_nonrel_judged_ret": "use Judged@k, the share of judged results",
    "P_avgjg": "use P@k",
    "rbp": "use RBP(p=0.8)",
    "rbp_resid": "use RBP(p=0.8), and Judged@k for what is not judged",
    "relative_P": "use P@k and R@k",
    "relstring": "use --per-topic, or the pages of topics in a report",
    "Rndcg": "use nDCG",
    "Rprec_mult": "use Rprec",
    "Rprec_mult_avgjg": "use Rprec",
    "runid": "use the column of runs",
    "set": "its utility is not computed; use num_q, num_ret, num_rel, num_rel_ret, set_P, set_recall, set_map, "
    "set_relative_P and set_F",
    "unj": "use Judged@k, which is 1 less the share of unjudged results",
    "utility": "use SetP",
    "yaap": "use AP",
}
_PARAMETERS = {"IPrec": "recall", "SetF": "beta"}  # what follows in place of a cut; trec_eval's `x` of set_F is beta
_WITH_CUT = re.compile("([A-Za-z0-9][A-Za-z0-9_]*?)[@._]([0-9]{1,9}|[0-9]?\\.[0-9]{1,9})")
_CUT = re.compile("[0-9]{1,9}|[0-9]?\\.[0-9]{1,9}")


def our_spelling(text: str) -> str:
    """Converts a measure name of trec_eval or of a paper to our spelling; other texts are returned unchanged.

    Examples
    --------
    >>> [our_spelling(text) for text in ("ndcg_cut_10", "MAP\u2032", "iprec_at_recall_0.10", "set_F.5", "ERR@20")]
    ['nDCG@10', 'AP', 'IPrec(recall=0.1)', 'SetF(beta=5.0)', 'ERR@20']
    """
    plain = text.replace("\u2032", "").replace("'", "") if "(" not in text else text
    match = _WITH_CUT.fullmatch(plain)
    name, cut = (match[1], match[2]) if match and plain.lower() not in NAMES else (plain, "")
    ours = NAMES.get(name.lower())
    if ours is None or (cut and ")" in ours):
        return text
    if ours in _PARAMETERS:
        return f"{ours}({_PARAMETERS[ours]}={float(cut)})" if cut else ours
    return f"{ours}@{cut}" if cut else ours


def expand(text: str) -> tuple[str, ...]:
    """Returns the measures that a text names in trec_eval's way, in our spelling; other texts are returned unchanged.

    Examples
    --------
    >>> expand("P.5,10"), expand("success"), expand("map"), expand("RBP(p=0.8,rel=1)")
    (('P@5', 'P@10'), ('Success@1', 'Success@5', 'Success@10'), ('AP',), ('RBP(p=0.8,rel=1)',))
    """
    if "(" in text:
        return (text,)
    if text == "official":
        return _OFFICIAL
    first, *cuts = text.split(",")
    match = _WITH_CUT.fullmatch(first)
    if cuts and match and all(map(_CUT.fullmatch, cuts)):
        return tuple(our_spelling(f"{match[1]}@{cut}") for cut in (match[2], *cuts))
    if text in _CUTS:
        return tuple(our_spelling(f"{text}@{cut}") for cut in _CUTS[text])
    return (our_spelling(text),)


def instead(text: str) -> str:
    """Returns what to use for a measure of trec_eval that is not computed; empty for other texts."""
    stem = re.sub("[@._][-0-9.,=]*$", "", text)
    if re.match("(all_)?prefs|qrels_jg", stem):
        return "judgments are grades here, not preferences; use Bpref"
    return _INSTEAD.get(stem, "")


def measure_names(given: Iterable[str]) -> tuple[str, ...]:
    """Returns the names of a list, or of a text as `split_measures` does."""
    return split_measures(given) or (given,) if isinstance(given, str) else tuple(given)


def split_measures(text: str) -> tuple[str, ...]:
    """Splits `nDCG@10, RBP(p=0.8,rel=1) P.5,10` into names, at blanks and at commas not followed by a cut.

    Commas and blanks within parentheses do not separate.
    """
    return tuple(part for part in re.split(r"(?:\s|,(?!\.?[0-9]+(?:\.[0-9]+)?(?:[,\s]|$)))(?![^()]*\))", text) if part)
