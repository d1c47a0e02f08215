"""The names that Mathlib's attribute `to_additive` makes: those that it is given, and those that it derives.

A derived name is the multiplicative one with its words replaced. Mathlib's own table grows; a name that is derived
here may differ from Mathlib's in rare words, so that readers of numbers are told how many names are derived.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from harness.collections.readers.lean_text import joined

# Words of names, in lower case, and what stands for them: the vocabulary that Mathlib's documentation of the attribute
# gives. Keys of several words come before their parts.
_WORDS = {
    "one": "zero", "mul": "add", "smul": "vadd", "inv": "neg", "div": "sub", "prod": "sum", "pow": "nsmul",
    "npow": "nsmul", "zpow": "zsmul", "hmul": "hAdd", "hsmul": "hVAdd", "hdiv": "hSub", "hpow": "hSMul",
    "finprod": "finsum", "tprod": "tsum", "monoid": "addMonoid", "submonoid": "addSubmonoid", "group": "addGroup",
    "subgroup": "addSubgroup", "semigroup": "addSemigroup", "subsemigroup": "addSubsemigroup", "magma": "addMagma",
    "units": "addUnits", "unit": "addUnit", "cyclic": "addCyclic", "commute": "addCommute",
    "semiconj": "addSemiconj", "rootable": "divisible", "zpowers": "zmultiples", "powers": "multiples",
    "multipliable": "summable", "square": "even", "haar": "addHaar", "quotient": "quotient", "torsor": "addTorsor",
    "character": "addCharacter", "irreducible": "addIrreducible",
}  # fmt: skip
_JOINED = {  # words that follow one another, in lower case and without "_", after the words were replaced
    ("zero", "le"): "nonneg", ("zero", "lt"): "pos", ("le", "zero"): "nonpos", ("lt", "zero"): "neg",
    ("comm", "addmonoid"): "addCommMonoid", ("comm", "addgroup"): "addCommGroup",
    ("comm", "addsemigroup"): "addCommSemigroup", ("add", "support"): "support", ("add", "indicator"): "indicator",
    ("cancel", "addmonoid"): "addCancelMonoid", ("left", "cancel", "addmonoid"): "addLeftCancelMonoid",
    ("ordered", "addcommgroup"): "orderedAddCommGroup", ("add", "tsupport"): "tsupport",
}  # fmt: skip
_LONGEST = max(map(len, _JOINED))
_PIECE = re.compile(r"_+|[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[^A-Za-z_]+")


def derived(name: str) -> str:
    """Returns the additive name of a word of a name.

    >>> [derived(name) for name in ("mul_comm", "MulHom", "prod_inv_distrib", "CommMonoid", "one_le_mul")]
    ['add_comm', 'AddHom', 'sum_neg_distrib', 'AddCommMonoid', 'nonneg_add']
    """
    pieces = [_cased(_WORDS[piece.lower()], piece) if piece.lower() in _WORDS else piece for piece in split(name)]
    out: list[str] = []
    at = 0
    while at < len(pieces):
        for length in range(_LONGEST, 1, -1):
            found = _run(pieces, at, length)
            if found is not None:
                whole, at = found
                out.append(whole)
                break
        else:
            out.append(pieces[at])
            at += 1
    return "".join(out)


def split(name: str) -> list[str]:
    """Returns the words of a name, and what stands between them.

    >>> split("mul_le_oneClass'")
    ['mul', '_', 'le', '_', 'one', 'Class', "'"]
    """
    return _PIECE.findall(name)


def _run(pieces: list[str], at: int, length: int) -> tuple[str, int] | None:
    """Returns what stands for so many words from `at` on, and where they end; None if nothing does."""
    words, here = [at], at + 1
    while len(words) < length:
        if here < len(pieces) and pieces[here] == "_":
            here += 1
        if here >= len(pieces) or pieces[here].startswith("_"):
            return None
        words.append(here)
        here += 1
    whole = _JOINED.get(tuple(pieces[n].lower() for n in words))
    return None if whole is None else (_cased(whole, pieces[at]), here)


def _cased(new: str, old: str) -> str:
    """Returns the new word with the first letter as in the old one."""
    return (new[0].upper() if old[0].isupper() else new[0].lower()) + new[1:]


def targets(asked: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Returns the additive names of declarations.

    A name that is given replaces as many parts at the end as it has; namespaces that are themselves translated are
    replaced first.

    Parameters
    ----------
    asked : full name and the name given (empty: derive it).

    Examples
    --------
    >>> targets([("MulHom", "AddHom"), ("MulHom.map_mul", ""), ("Finset.prod_comm", ""), ("A.b", "c")])
    {'A.b': 'A.c', 'Finset.prod_comm': 'Finset.sum_comm', 'MulHom': 'AddHom', 'MulHom.map_mul': 'AddHom.map_add'}
    """
    found: dict[str, str] = {}
    for name, given in sorted(asked, key=lambda pair: (pair[0].count("."), pair)):
        parts = name.split(".")
        space = _mapped(parts[:-1], found).split(".") if parts[:-1] else []
        if given.startswith("_root_."):
            found[name] = joined(given)
        else:
            kept = space[: len(space) - given.count(".")] if given else space
            found[name] = joined(".".join(kept), given or derived(parts[-1]))
    return dict(sorted(found.items()))


def _mapped(parts: list[str], found: Mapping[str, str]) -> str:
    """Returns a namespace with its longest translated beginning replaced."""
    for length in range(len(parts), 0, -1):
        if (new := found.get(".".join(parts[:length]))) is not None:
            return joined(new, *parts[length:])
    return ".".join(parts)
