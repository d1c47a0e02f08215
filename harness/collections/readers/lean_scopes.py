"""Scope of a Lean declaration: its namespace, opened namespaces, and available variables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from harness.collections.readers.lean_text import NAME, OPENING, Token, closing, tokens_text

_CLOSERS = dict(zip("([{⦃", ")]}⦄", strict=True))


@dataclass(frozen=True)
class Binder:
    """Binder of one variable, or of one unnamed instance.

    Attributes
    ----------
    bracket : `(`, `{`, `⦃` or `[`.
    name : empty for an unnamed instance.
    type : type as written; may be empty.
    mentions : the names in its type, and their first components (`R` of `R.one`).
    """

    bracket: str
    name: str
    type: str
    mentions: frozenset[str]


@dataclass(frozen=True)
class Scope:
    """Scope set by the commands before a declaration.

    Attributes
    ----------
    namespace : dotted name; empty at the top level.
    opens : opened namespaces, in order.
    aliases : single opened names: (c, A.b) for `A.b -> c`.
    binders : binders of `variable`, in order.
    included, omitted : names of variables (types of unnamed instances) that are always or never included.
    """

    namespace: str = ""
    opens: tuple[str, ...] = ()
    aliases: tuple[tuple[str, str], ...] = ()
    binders: tuple[Binder, ...] = ()
    included: frozenset[str] = frozenset()
    omitted: frozenset[str] = frozenset()

    def with_binders(self, additions: Iterable[Binder]) -> Scope:
        """Returns the scope after `variable`; a binder without a type changes the bracket of an existing variable."""
        binders = list(self.binders)
        for new in additions:
            known = [n for n, old in enumerate(binders) if old.name and old.name == new.name]
            if new.name and not new.type and known:
                binders[known[-1]] = replace(binders[known[-1]], bracket=new.bracket)
            else:
                binders.append(new)
        return replace(self, binders=tuple(binders))

    def taken(self, used: Iterable[str], own: Iterable[str] = ()) -> tuple[Binder, ...]:
        """Returns the variables that Lean includes in a declaration, in order.

        These are the variables that it names, those named in their types, and instances that depend only on these.

        Parameters
        ----------
        used : names in the declaration.
        own : names bound by the declaration itself.
        """
        shadowed = set(own)
        latest = {binder.name: n for n, binder in enumerate(self.binders) if binder.name}
        wanted = {name for name in used if name not in shadowed} | self.included
        taken: set[int] = set()
        while True:
            more = {number for name in wanted if (number := latest.get(name)) is not None} - taken
            for number, binder in enumerate(self.binders):
                if binder.bracket != "[" or number in taken or binder.type in self.omitted:
                    continue
                needs = {latest[name] for name in binder.mentions if name in latest}
                if needs and needs <= taken | more:
                    more.add(number)
            more = {number for number in more if self.binders[number].name not in self.omitted or number in taken}
            if not more:
                return tuple(self.binders[number] for number in sorted(taken))
            taken |= more
            for number in more:
                wanted |= self.binders[number].mentions


def mentioned(stream: Iterable[Token]) -> list[str]:
    """Returns the distinct names in tokens, in order.

    A name `x.y` also gives `x`, because `x` may be a variable.
    """
    names: dict[str, None] = {}
    for token in stream:
        if token.kind == NAME:
            names[token.text] = None
            head, dot, _ = token.text.partition(".")
            if dot:
                names[head] = None
    return list(names)


def binders_in(stream: Sequence[Token], begin: int, end: int) -> list[Binder]:
    """Returns the binders of consecutive brackets starting at `begin`."""
    binders: list[Binder] = []
    at = begin
    while at < end and stream[at].text in OPENING and stream[at].text != "⟨":
        last = closing(stream, at)
        binders += _binders_of_bracket(stream[at].text, stream[at + 1 : last])
        at = last + 1
    return binders


def after_binders(stream: Sequence[Token], begin: int, end: int) -> int:
    """Returns the index after consecutive brackets of binders."""
    at = begin
    while at < end and stream[at].text in OPENING and stream[at].text != "⟨":
        at = closing(stream, at) + 1
    return min(at, end)


def _binders_of_bracket(bracket: str, inside: Sequence[Token]) -> list[Binder]:
    if bracket == "{" and inside and inside[0].text == "{":  # `{{x : T}}` is `⦃x : T⦄`
        return _binders_of_bracket("⦃", inside[1:-1])
    level = inside[0].depth if inside else 0
    colon = next((n for n, token in enumerate(inside) if token.text == ":" and token.depth == level), None)
    names = [token.text for token in (inside if colon is None else inside[:colon]) if token.kind == NAME]
    if bracket == "[" and colon is None:
        return [Binder(bracket, "", tokens_text(inside), frozenset(mentioned(inside)))]
    kind = () if colon is None else inside[colon + 1 :]
    return [Binder(bracket, name, tokens_text(kind), frozenset(mentioned(kind))) for name in names]


def lean_binders(binders: Sequence[Binder]) -> str:
    """Writes binders in Lean syntax; adjacent binders of the same type share a bracket.

    >>> kind = frozenset({"Nat"})
    >>> lean_binders([Binder("{", "x", "Nat", kind), Binder("{", "y", "Nat", kind), Binder("[", "", "Foo x", kind)])
    '{x y : Nat} [Foo x]'
    """
    groups: list[tuple[str, list[str], str]] = []
    for binder in binders:
        alike = groups and groups[-1][0] == binder.bracket and groups[-1][2] == binder.type and binder.name
        if alike and groups[-1][1] and binder.bracket != "[":
            groups[-1][1].append(binder.name)
        else:
            groups.append((binder.bracket, [binder.name] if binder.name else [], binder.type))
    out = []
    for bracket, names, kind in groups:
        out.append(bracket + " ".join(names) + (" : " if names and kind else "") + kind + _CLOSERS[bracket])
    return " ".join(out)
