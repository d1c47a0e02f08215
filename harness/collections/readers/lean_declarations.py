"""The declarations of one Lean 4 source: found by the keywords of commands, without elaborating anything.

What only Lean itself knows is not guessed: instances without a name have none here, names that attributes such as
`simps` and `ext` make are not there, and notation is not resolved.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from harness.collections.readers import lean_text
from harness.collections.readers.lean_heads import (
    COMMANDS,
    MODIFIERS,
    ONCE,
    PLAIN,
    PROVED,
    SHOWN,
    TYPES,
    Additive,
    Before,
    about,
    attributes,
)
from harness.collections.readers.lean_scopes import Binder, Scope, after_binders, binders_in, mentioned, written
from harness.collections.readers.lean_text import (
    ATTRIBUTES,
    DOC,
    NAME,
    OPENING,
    STRING,
    Token,
    closing,
    joined,
    plain,
)


@dataclass(frozen=True)
class Declaration:
    """One declaration as its file has it.

    Attributes
    ----------
    name : full, with its namespace.
    kind : its keyword; `field` of a structure, `constructor` of an inductive type, `alias`.
    line : of its keyword or, of fields and constructors, of its name.
    signature : kind, full name, variables and binders, type.
    names : identifiers of the signature as they stand, but for variables.
    namespace, opens, aliases : where the identifiers are looked up; see `Scope`.
    parent : the type that a field or constructor belongs to.
    """

    name: str
    kind: str
    line: int
    signature: str
    doc: str = ""
    names: tuple[str, ...] = ()
    namespace: str = ""
    opens: tuple[str, ...] = ()
    aliases: tuple[tuple[str, str], ...] = ()
    parent: str = ""
    private: bool = False
    deprecated: bool = False
    additive: Additive | None = None


def declarations(source: str, path: object) -> tuple[list[Declaration], Counter[str]]:
    """Returns the declarations of a source in their order, and what is left out, counted.

    Raises
    ------
    FormatError
        A comment or a string has no end; with its line.

    Examples
    --------
    >>> source = "namespace A\\nvariable {n : Nat}\\n/-- Trivial. -/\\ntheorem b : n = n := rfl\\nend A"
    >>> found, _ = declarations(source, "A.lean")
    >>> found[0].name, found[0].signature, found[0].doc
    ('A.b', 'theorem A.b {n : Nat} : n = n', 'Trivial.')
    """
    reading = _Reading(lean_text.tokens(source, path))
    reading.read()
    return reading.found, reading.left


class _Reading:
    """One pass over the tokens of a file."""

    def __init__(self, stream: Sequence[Token]) -> None:
        self.stream = stream
        self.found: list[Declaration] = []
        self.left: Counter[str] = Counter()
        self.scope = Scope()
        self.once: Scope | None = None  # of the next command alone
        self.outer: list[tuple[str, Scope]] = []  # label of each open scope, and what holds after its end

    # ---- commands -----------------------------------------------------------------------------------------------

    def read(self) -> None:
        at, forced = 0, False
        while at < len(self.stream):
            word = self._keyword(at, forced)
            if word < 0:
                if forced:  # `open A in` before a term or a tactic
                    self.once = None
                at, forced = at + 1, False
                continue
            end = self._next(word + 1)
            before = self._before(at, word)
            stop = self._command(before, word, end)
            forced = stop < end  # `open A in` on the line of what it is for
            at = stop

    def _keyword(self, at: int, forced: bool = False) -> int:
        """Returns the index of the keyword of the command that begins at `at`; -1 if none does."""
        first = self.stream[at]
        if not forced and (first.column < 0 or (first.column > 0 and first.depth > 0)):
            return -1
        while at < len(self.stream):
            token = self.stream[at]
            if token.text == ATTRIBUTES:
                at = closing(self.stream, at) + 1
            elif token.kind == DOC or (token.kind == NAME and token.text in MODIFIERS):
                at += 1
            else:
                if token.text == "#" and at + 1 < len(self.stream) and self.stream[at + 1].kind == NAME:
                    return at  # `#check`, and whatever a library adds
                return at if token.kind == NAME and token.text in COMMANDS else -1
        return -1

    def _next(self, begin: int) -> int:
        """Returns where the next command begins."""
        for at in range(begin, len(self.stream)):
            token = self.stream[at]
            if token.column >= 0 and self._keyword(at) >= 0:
                return at
        return len(self.stream)

    def _before(self, at: int, word: int) -> Before:
        found = Before()
        while at < word:
            token = self.stream[at]
            if token.text == ATTRIBUTES:
                last = closing(self.stream, at)
                found.attributes += tuple(attributes(self.stream[at + 1 : last]))
                at = last
            elif token.kind == DOC:
                found.doc = lean_text.doc_text(token.text)
            else:
                found.modifiers += (token.text,)
            at += 1
        return found

    def _command(self, before: Before, at: int, end: int) -> int:
        """Reads one command; the index of what comes after it."""
        word = self.stream[at].text
        if word == "attribute":
            self._attribute(self.once or self.scope, at, end)
        if word in ONCE:
            stop = self._in(at, end)
            changed = self._changed(self.once or self.scope, word, at + 1, stop)
            if stop < end:
                self.once = changed
                return stop + 1
            self.scope, self.once = changed, None
            return end
        here, self.once = self.once or self.scope, None
        match word:
            case "namespace" | "section":
                label = self.stream[at + 1] if at + 1 < end else None
                named = label.text if label is not None and label.kind == NAME and label.column < 0 else ""
                self._open(word, named)
            case "mutual":
                self.outer.append(("", self.scope))
            case "end":
                label = self.stream[at + 1] if at + 1 < end else None
                self._close(label.text if label is not None and label.kind == NAME and label.column < 0 else "")
            case "alias":
                self._alias(before, here, at, end)
            case "add_decl_doc":
                self._document(before.doc, here, at, end)
            case "example":
                self.left["examples"] += 1
            case _ if word in TYPES or word in PLAIN:
                self._declaration(before, here, at, end)
        return end

    def _in(self, at: int, end: int) -> int:
        """Returns where `in` stands in a command; `end` if it has none."""
        depth = self.stream[at].depth
        inside = (n for n in range(at + 1, end) if self.stream[n].text == "in" and self.stream[n].depth <= depth)
        return next(inside, end)

    def _open(self, word: str, label: str) -> None:
        for part in lean_text.NAME_OF_PART.findall(label) or [""]:
            self.outer.append((part, self.scope))
            if word == "namespace":
                self.scope = replace(self.scope, namespace=joined(self.scope.namespace, part))

    def _close(self, label: str) -> None:
        for part in reversed(lean_text.NAME_OF_PART.findall(label) or [""]):
            if not self.outer:
                self.left["`end` that closes nothing"] += 1
                return
            opened, self.scope = self.outer.pop()
            if part not in ("", opened):
                self.left["`end` of another name than what it closes"] += 1

    def _changed(self, scope: Scope, word: str, begin: int, end: int) -> Scope:
        """Returns the scope after a command that changes it."""
        inside = self.stream[begin:end]
        names = [token.text for token in inside if token.kind == NAME]
        if word == "variable":
            return scope.with_binders(binders_in(self.stream, begin, end))
        if word == "include":
            return replace(scope, included=scope.included | set(names))
        if word == "omit":
            types = [binder.type for binder in binders_in(self.stream, begin, end) if binder.bracket == "["]
            level = self.stream[begin].depth if begin < end else 0
            names = [token.text for token in inside if token.kind == NAME and token.depth == level]
            return replace(scope, omitted=scope.omitted | {*names, *types})
        if word == "open" and names[:1] != ["scoped"]:
            return self._opened(scope, inside)
        return scope

    @staticmethod
    def _opened(scope: Scope, inside: Sequence[Token]) -> Scope:
        """`open A B`, `open A (b c)`, `open A renaming b → c`; names that `hiding` takes out are found all the same."""
        level = inside[0].depth if inside else 0
        outside = [token.text for token in inside if token.kind == NAME and token.depth == level]
        listed = [token.text for token in inside if token.kind == NAME and token.depth > level]
        if not outside:
            return scope
        if listed:
            pairs = tuple((name, f"{outside[-1]}.{name}") for name in listed)
            return replace(scope, aliases=scope.aliases + pairs)
        if "renaming" in outside:
            space, old_new = outside[0], outside[2:]
            pairs = tuple((new, f"{space}.{old}") for old, new in zip(old_new[::2], old_new[1::2], strict=False))
            return replace(scope, aliases=scope.aliases + pairs, opens=(*scope.opens, space))
        if "hiding" in outside:
            outside = outside[: outside.index("hiding")]
        return replace(scope, opens=(*scope.opens, *outside))

    # ---- declarations -------------------------------------------------------------------------------------------

    def _declaration(self, before: Before, scope: Scope, word: int, end: int) -> None:
        stream, kind, at = self.stream, self.stream[word].text, word + 1
        if kind == "class" and at < end and stream[at].text in ("inductive", "abbrev"):
            kind, at = f"class {stream[at].text}", at + 1
        if kind == "irreducible_def":
            kind = "def"
        if kind == "instance" and at + 1 < end and stream[at].text == "(" and stream[at + 1].text == "priority":
            at = closing(stream, at) + 1
        if at >= end or stream[at].kind != NAME:
            self.left["instances without a name" if kind == "instance" else f"{kind} without a name"] += 1
            return
        own = joined(scope.namespace, stream[at].text)
        begin = self._after_universes(at + 1, end)
        cases = kind in ("inductive", "coinductive", "class inductive")
        stop = self._signature_end(begin, end, cases=cases)
        shown = [name for name in before.modifiers if name in SHOWN]
        head = " ".join((*shown, kind, own))
        inside = after_binders(stream, begin, stop)
        bound = binders_in(stream, begin, inside)
        said = mentioned(stream[begin:stop])
        used = said if kind in PROVED else mentioned(stream[begin:end])
        if kind in ("structure", "class"):  # a field may be called like a variable
            fields = {token.text for at in self._field_starts(stop, end) for token in self._field_names(at, end)}
            used = [*said, *(name for name in mentioned(stream[stop:end]) if name not in fields)]
        taken = scope.taken(used, [binder.name for binder in bound])
        signature = _spaced(head, written(taken), plain(stream[begin:stop]))
        names = _names(said, taken, bound, [name for binder in taken for name in sorted(binder.mentions)])
        place = (scope.namespace, scope.opens, scope.aliases)
        made = Declaration(own, kind, stream[word].line, signature, before.doc, names, *place, "", *about(before))
        self.found.append(made)
        header = _spaced(written(taken), plain(stream[begin:inside]))
        if kind in ("structure", "class"):
            self._fields(made, header, (*taken, *bound), stop, end)
        elif cases:
            self._constructors(made, header, (*taken, *bound), stop, end)

    def _after_universes(self, at: int, end: int) -> int:
        """Returns the index after `.{u, v}`."""
        if at + 1 < end and self.stream[at].text == "." and self.stream[at + 1].text == "{":
            return closing(self.stream, at + 1) + 1
        return at

    def _signature_end(self, begin: int, end: int, *, cases: bool = False) -> int:
        """Returns where the value, the cases or the fields of a declaration begin; with `cases` any bar begins one."""
        stream, locals_ = self.stream, 0
        level = stream[begin].depth if begin < end else 0
        for at in range(begin, end):
            token = stream[at]
            if token.depth != level or token.kind == STRING:
                continue
            if token.text in ("let", "have", "letI", "haveI"):
                locals_ += 1
            elif token.text == ":=":
                if not locals_:
                    return at
                locals_ -= 1
            elif token.text in ("where", "deriving") or (token.text == "|" and (cases or self._case(at, end))):
                return at
        return end

    def _case(self, at: int, end: int) -> bool:
        """Returns whether a bar begins a case, as no absolute value does: whichever comes first, `=>` or `:=`."""
        level, functions = self.stream[at].depth, 0
        for token in self.stream[at + 1 : end]:
            if token.depth != level:
                continue
            if token.text in ("fun", "λ"):
                functions += 1
            elif token.text in ("=>", "↦"):
                if not functions:
                    return True
                functions -= 1
            elif token.text == ":=":
                return False
        return self.stream[at].column >= 0 and at + 1 < end and self.stream[at + 1].kind == NAME

    # ---- parts of types -----------------------------------------------------------------------------------------

    def _fields(self, of: Declaration, header: str, outer: Sequence[Binder], begin: int, end: int) -> None:
        """The fields of a structure, with their doc strings."""
        doc, starts = "", self._field_starts(begin, end)
        for here, there in zip(starts, [*starts[1:], end], strict=False):
            at = self._skipped(here, there)
            docs = [token for token in self.stream[here:at] if token.kind == DOC]
            doc = lean_text.doc_text(docs[-1].text) if docs else doc
            if at < there:  # else it stands on a line before its field
                private = any(token.text == "private" for token in self.stream[here:at])
                self._field(replace(of, private=of.private or private), header, outer, doc, at, there)
                doc = ""

    def _field_starts(self, begin: int, end: int) -> list[int]:
        """Where fields begin, or the doc strings and attributes before them: all in the column of the first one."""
        stream, at = self.stream, begin + 1
        named = self._skipped(at, end)
        if "".join(token.text for token in stream[named + 1 : min(named + 3, end)]) == "::":  # the constructor's name
            at = named + 3
        first = next((n for n in range(at, end) if stream[n].column >= 0), None)
        if first is None:
            return [at] if at < end else []
        level, column = stream[first].depth, stream[first].column
        below = [n for n in range(first, end) if stream[n].column == column and stream[n].depth == level]
        return [at] * (at < first) + below

    def _field_names(self, at: int, end: int) -> list[Token]:
        """Returns the names of the field that begins at `at`."""
        at, names = self._skipped(at, end), []
        at += at < end and self.stream[at].text in OPENING
        while at < end and self.stream[at].kind == NAME:
            names.append(self.stream[at])
            at += 1
        return names

    def _skipped(self, at: int, end: int) -> int:
        """Returns the index after doc strings, attributes and modifiers."""
        while at < end:
            token = self.stream[at]
            if token.text == ATTRIBUTES:
                at = closing(self.stream, at) + 1
            elif token.kind == DOC or (token.kind == NAME and token.text in MODIFIERS):
                at += 1
            else:
                break
        return min(at, end)

    def _field(self, of: Declaration, header: str, outer: Sequence[Binder], doc: str, at: int, end: int) -> None:
        stream = self.stream
        if at >= end or stream[at].text in ("deriving", "extends"):
            return
        if stream[at].text in OPENING:  # `(a b : T) (c : T)`; instances without a name have none
            last = closing(stream, at)
            if stream[at].text != "[" or any(token.text == ":" for token in stream[at:last]):
                self._field(of, header, outer, doc, at + 1, last)
            if last + 1 < end:
                self._field(of, header, outer, "", last + 1, end)
            return
        names = self._field_names(at, end)
        at += len(names)
        if at < end and stream[at].text == ":=":  # another default of a field that the parent has
            return
        stop = self._signature_end(at, end)
        for name in names:
            self._part(of, "field", name, header, outer, doc, at, stop)

    def _constructors(self, of: Declaration, header: str, outer: Sequence[Binder], begin: int, end: int) -> None:
        """The constructors of an inductive type: `| name binders : type`, with their doc strings."""
        stream = self.stream
        level = stream[begin].depth if begin < end else 0
        bars: list[tuple[int, int]] = []
        for at in range(begin, end):
            after = self._skipped(at + 1, end)
            if stream[at].text == "|" and stream[at].depth == level and after < end and stream[after].kind == NAME:
                typed = bars and any(token.text == ":" and token.depth == level for token in stream[bars[-1][1] : at])
                if stream[at].column >= 0 or not typed:
                    bars.append((at, after))
        for number, (at, name_at) in enumerate(bars):
            there = bars[number + 1][0] if number + 1 < len(bars) else end
            docs = [token for token in stream[at:name_at] if token.kind == DOC]
            if at > begin and stream[at - 1].kind == DOC:
                docs.insert(0, stream[at - 1])
            doc = lean_text.doc_text(docs[-1].text) if docs else ""
            stop = next((n for n in range(name_at, there) if stream[n].text == "deriving"), there)
            self._part(of, "constructor", stream[name_at], header, outer, doc, name_at + 1, stop)

    def _part(
        self,
        of: Declaration,
        kind: str,
        name: Token,
        header: str,
        outer: Sequence[Binder],
        doc: str,
        at: int,
        stop: int,
    ) -> None:
        stream = self.stream
        bound = binders_in(stream, at, after_binders(stream, at, stop))
        full = joined(of.name, name.text)
        signature = _spaced(f"{kind} {full}", header, plain(stream[at:stop]))
        names = (of.name, *(n for n in _names(mentioned(stream[at:stop]), outer, bound, ()) if n != of.name))
        place = (of.name, of.opens, of.aliases)
        self.found.append(
            Declaration(full, kind, name.line, signature, doc, names, *place, parent=of.name, private=of.private)
        )

    # ---- others -------------------------------------------------------------------------------------------------

    def _alias(self, before: Before, scope: Scope, at: int, end: int) -> None:
        """`alias a := b` and `alias ⟨a, b⟩ := c`."""
        stream = self.stream
        sign = next((n for n in range(at, end) if stream[n].text == ":="), end)
        new = [token for token in stream[at + 1 : sign] if token.kind == NAME and token.text != "_"]
        old = [token.text for token in stream[sign:end] if token.kind == NAME][:1]
        place = (scope.namespace, scope.opens, scope.aliases)
        for token in new:
            full = joined(scope.namespace, token.text)
            what = (f"alias {full} := {' '.join(old)}", before.doc, tuple(old), *place, "", *about(before))
            self.found.append(Declaration(full, "alias", token.line, *what))

    def _attribute(self, scope: Scope, at: int, end: int) -> None:
        """`attribute [to_additive b] a`: of what the file has declared, or of a name from elsewhere (counted)."""
        stream = self.stream
        if at + 1 >= end or stream[at + 1].text != "[":
            return
        last = closing(stream, at + 1)
        additive = about(Before(attributes=tuple(attributes(stream[at + 2 : last]))))[2]
        if additive is None or not additive.made:
            return
        for token in stream[last + 1 : self._in(last, end)]:
            number = self._number(token.text, scope) if token.kind == NAME else None
            if number is not None:
                self.found[number] = replace(self.found[number], additive=additive)
            elif token.kind == NAME:
                self.left["`to_additive` of what is declared elsewhere"] += 1

    def _number(self, name: str, scope: Scope) -> int | None:
        """Returns the last declaration of the file that a name means."""
        wanted = {joined(scope.namespace, name), name}
        return next((n for n in range(len(self.found) - 1, -1, -1) if self.found[n].name in wanted), None)

    def _document(self, doc: str, scope: Scope, at: int, end: int) -> None:
        """`add_decl_doc`: of what the file has declared, or of a name that is made elsewhere (counted)."""
        named = [token.text for token in self.stream[at + 1 : end] if token.kind == NAME][:1]
        for name in named:
            if (number := self._number(name, scope)) is not None:
                one = self.found[number]
                self.found[number] = replace(one, doc=one.doc or doc)
                return
        self.left["doc strings of what is declared elsewhere"] += 1


def _names(
    said: Sequence[str], taken: Sequence[Binder], bound: Sequence[Binder], more: Sequence[str]
) -> tuple[str, ...]:
    """Returns the identifiers that may name something else: neither variables nor their fields, each once."""
    variables = {binder.name for binder in (*taken, *bound)}
    every = dict.fromkeys((*said, *more))
    return tuple(name for name in every if name.partition(".")[0] not in variables and len(name) > 1)


def _spaced(*parts: str) -> str:
    """Parts of a signature with one blank between them."""
    return " ".join(part for part in parts if part)
