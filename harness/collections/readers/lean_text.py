"""Tokeniser of Lean 4 sources, which recognises comments and strings.

Comments nest, `/--` begins a doc string, a prime belongs to the preceding name, and any other `'` starts a character
literal or is part of a symbol such as `⁻¹'`.

Head of a Lean command: keyword, modifiers, doc string and attributes.

Scope of a Lean declaration: its namespace, opened namespaces, and available variables.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from harness.errors import format_error

NAME, FIELD, DOC, STRING, SYMBOL = "name", "field", "doc", "string", "symbol"
OPENING, CLOSING = "([{⟨⦃", ")]}⟩⦄"
ATTRIBUTES = "@["

# Letters of names as in Lean's lexer; λ, Π, Σ and superscripts are not letters.
_LETTER = (
    "A-Za-z_\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u017f\u0391-\u039f\u03a1\u03a2\u03a4-\u03a9\u03b1-\u03ba\u03bc-\u03fb"
    "\u1f00-\u1ffe\u2100-\u214f\U0001d49c-\U0001d59f"
)
_REST = rf"{_LETTER}0-9'!?\u2080-\u2089\u2090-\u209c\u1d62-\u1d6a\u2c7c"
_PART = rf"(?:«[^»\n]*»|[{_LETTER}][{_REST}]*+)"
_TOKEN = re.compile(
    rf"""(?P<blank>[\ \t\r\f]++)
    |(?P<line>\n)
    |(?P<comment>--[^\n]*+)
    |(?P<block>/-)
    |(?P<string>"(?:[^"\\]++|\\.)*+"|r"[^"]*"|r(?P<hash>\#++)".*?"(?P=hash))
    |(?P<open>"|r\#*+")
    |(?P<name>{_PART}(?:\.{_PART})*+)
    |(?P<field>(?:\.\.+)|\.{_PART}(?:\.{_PART})*+)
    |(?P<quoted>`+{_PART}(?:\.{_PART})*+)
    |(?P<prime>''|(?<![\s(\[{{⟨,;|=<])'(?!\\?"'))
    |(?P<character>'(?:\\(?:x[0-9a-fA-F]{{2}}|u[0-9a-fA-F]{{4}}|.)|[^\\'\n])')
    |(?P<number>[0-9]++)
    |(?P<symbol>@\[|:=|=>|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_ENDS = re.compile("/-|-/")
NAME_OF_PART = re.compile(_PART)


class Token(NamedTuple):
    """One token.

    Attributes
    ----------
    kind : `name` (with dots), `field` (`.foo`, of a term or of the expected type), `doc`, `string` (or a character),
        `symbol`.
    start, end : span in the source.
    line : line number from 1.
    column : column from 0 for the first token of a line; -1 for others.
    depth : number of enclosing brackets; a bracket does not enclose itself.
    """

    kind: str
    text: str
    start: int
    end: int
    line: int
    column: int
    depth: int


def tokens(source: str, path: object) -> list[Token]:
    """Returns the tokens of a source, including doc strings but no other comments.

    Raises
    ------
    FormatError
        A comment or a string is not terminated; the message names the line where it begins.

    Examples
    --------
    >>> [token.text for token in tokens("/- a /- b -/ c -/ x' := '\\\\n' -- d", "A.lean")]
    ["x'", ':=', "'\\\\n'"]
    """
    out: list[Token] = []
    at, line, begin, fresh, depth, size = 0, 1, 0, True, 0, len(source)
    match = _TOKEN.match
    while at < size:
        matched = match(source, at)
        kind = matched.lastgroup if matched is not None else None
        if matched is None or kind is None:  # every character is at least a symbol
            raise format_error(path, line, f"unexpected character {source[at]!r}")
        end = matched.end()
        if kind == "line":
            line, begin, fresh = line + 1, end, True
        elif kind == "block":
            end = _block(source, at, line, path)
            text = source[at:end]
            if text.startswith("/--") and text != "/--/":
                out.append(Token(DOC, text, at, end, line, at - begin if fresh else -1, depth))
                fresh = False
            if breaks := text.count("\n"):
                line, begin, fresh = line + breaks, at + text.rindex("\n") + 1, True
        elif kind == "open":
            raise format_error(path, line, 'the string that begins here has no end (")')
        elif kind not in ("blank", "comment"):
            text = matched.group()
            column = at - begin if fresh else -1
            if text[-1] in OPENING and kind == "symbol":
                out.append(Token(SYMBOL, text, at, end, line, column, depth))
                depth += 1
            elif text in CLOSING and kind == "symbol":
                depth = max(depth - 1, 0)
                out.append(Token(SYMBOL, text, at, end, line, column, depth))
            else:
                out.append(Token(_KINDS.get(kind, SYMBOL), text, at, end, line, column, depth))
            fresh = False
            if kind == "name" and text[-1] == "!" and source.startswith('"', end):
                at, end = end, _interpolated(source, end, line, path)
                text, kind = source[at:end], "string"
                out.append(Token(STRING, text, at, end, line, -1, depth))
            if kind == "string" and (breaks := text.count("\n")):
                line, begin = line + breaks, at + text.rindex("\n") + 1
        at = end
    return out


_KINDS = {"name": NAME, "field": FIELD, "string": STRING, "character": STRING, "hash": STRING}


def _block(source: str, at: int, line: int, path: object) -> int:
    """Returns the end of the comment that begins at `at`."""
    depth, here = 1, at + (3 if source.startswith("/--/", at) else 2)
    if here == at + 3:
        return at + 4
    while depth:
        delimiter = _ENDS.search(source, here)
        if delimiter is None:
            raise format_error(path, line, "the comment that begins here has no end (-/)")
        depth += 1 if delimiter.group() == "/-" else -1
        here = delimiter.end()
    return here


def _interpolated(source: str, at: int, line: int, path: object) -> int:
    """Returns the end of the string `s!"..."` that begins at `at`; code between its braces may contain strings."""
    here, braces = at + 1, [0]  # number of open braces in each open string
    while braces and here < len(source):
        if not braces[-1]:
            sign = source[here]
            here += 2 if sign == "\\" else 1
            if sign == '"':
                braces.pop()
            elif sign == "{":
                braces[-1] = 1
            continue
        matched = _TOKEN.match(source, here)
        if matched is None or matched.lastgroup == "open":
            break
        text, begin, here = matched.group(), here, matched.end()
        braces[-1] += (text == "{") - (text == "}")
        if matched.lastgroup == "block":
            here = _block(source, begin, line + source.count("\n", at, begin), path)
        elif text[-1] == "!" and source.startswith('"', here):
            braces.append(0)
            here += 1
    if braces:
        raise format_error(path, line, 'the string that begins here has no end (")')
    return here


def closing(stream: Sequence[Token], at: int) -> int:
    """Returns the index of the closing bracket for the one at `at`; the last index if it is not closed."""
    depth = stream[at].depth
    for index in range(at + 1, len(stream)):
        token = stream[index]
        if token.depth <= depth and token.text in CLOSING:
            return index
    return len(stream) - 1


def tokens_text(stream: Iterable[Token]) -> str:
    """Returns the text of tokens; blanks and comments between tokens become one blank.

    >>> tokens_text(tokens("(x :  Nat) -- why\\n  : x = x", "A.lean"))
    '(x : Nat) : x = x'
    """
    pieces: list[str] = []
    last = None
    for token in stream:
        if token.kind == DOC:
            continue
        if last is not None and token.start > last:
            pieces.append(" ")
        pieces.append(token.text)
        last = token.end
    return "".join(pieces)


def doc_text(text: str) -> str:
    """Returns the text of a doc string without its delimiters.

    >>> doc_text("/-- One line. -/")
    'One line.'
    """
    return text.removeprefix("/--").removesuffix("-/").strip()


def join_name_parts(*parts: str) -> str:
    """Joins the non-empty parts of a name with dots; `_root_` discards all parts before it.

    >>> join_name_parts("A", "", "B.c"), join_name_parts("A", "_root_.b")
    ('A.B.c', 'b')
    """
    whole = ".".join(part for part in parts if part)
    return whole.rpartition("_root_.")[2]


_MODIFIERS = "private protected noncomputable unsafe partial nonrec public meta local scoped"
MODIFIERS = _MODIFIERS.split()
SHOWN = ("noncomputable", "unsafe", "partial")  # modifiers that documentation shows
TYPES = ("structure", "class", "inductive", "coinductive")  # `to_additive` maps these to existing names
PROVED = ("theorem", "lemma")  # variables used only in their proofs are not included
PLAIN = ("theorem", "lemma", "def", "abbrev", "instance", "opaque", "axiom", "irreducible_def")
ONCE = ("open", "variable", "include", "omit", "set_option", "attribute")  # `... in` applies to the next command
_OTHERS = """
    add_decl_doc alias assert_exists assert_not_exists builtin_initialize compile_inductive declare_aesop_rule_sets
    declare_config_elab declare_simp_like_tactic declare_syntax_cat deriving elab elab_rules end example export
    import infix infixl infixr initialize initialize_simps_projections library_note macro macro_rules module mutual
    namespace notation notation3 postfix prefix proof_wanted recall register_simp_attr run_cmd run_meta section
    simproc simproc_decl syntax unif_hint universe universes unseal suppress_compilation binder_predicate dsimproc
    dsimproc_decl grind_pattern run_elab
"""
COMMANDS = frozenset((*TYPES, *PLAIN, *ONCE, *_OTHERS.split()))


@dataclass(frozen=True)
class Additive:
    """Arguments of `to_additive` for a declaration.

    Attributes
    ----------
    target : given name; empty: to be derived.
    doc : given doc string.
    made : whether the attribute generates the declaration, instead of naming an existing one.
    """

    target: str = ""
    doc: str = ""
    made: bool = True


@dataclass
class Before:
    """Doc string, attributes and modifiers before a keyword."""

    doc: str = ""
    modifiers: tuple[str, ...] = ()
    attributes: tuple[tuple[Token, ...], ...] = ()


def attributes(inside: Sequence[Token]) -> Iterator[tuple[Token, ...]]:
    """Splits the content of attribute brackets at commas."""
    level, one = (inside[0].depth if inside else 0), list[Token]()
    for token in inside:
        if token.text == "," and token.depth == level:
            yield tuple(one)
            one = []
        else:
            one.append(token)
    if one:
        yield tuple(one)


def declaration_modifiers(before: Before) -> tuple[bool, bool, Additive | None]:
    """Returns whether a declaration is private and whether it is deprecated, and its arguments of `to_additive`."""
    deprecated = any(attribute[0].text == "deprecated" for attribute in before.attributes if attribute)
    additive = None
    for attribute in before.attributes:
        if attribute and attribute[0].text.rstrip("?!") == "to_additive":
            level = attribute[0].depth
            rest = [token for token in attribute[1:] if token.depth == level]
            names = [token.text for token in rest if token.kind == NAME]
            strings = [token.text for token in rest if token.kind == STRING]
            docs = [doc_text(token.text) for token in rest if token.kind == DOC]
            made = not {"existing", "self"} & set(names[:1])
            target = names[0] if made and names else names[1] if len(names) > 1 else ""
            additive = Additive(target, docs[0] if docs else strings[0].strip('"') if strings else "", made)
            if names[:1] == ["self"]:
                additive = None
    return "private" in before.modifiers, deprecated, additive


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
