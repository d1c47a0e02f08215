"""Head of a Lean command: keyword, modifiers, doc string and attributes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.collections.readers.lean_text import DOC, NAME, STRING, Token, doc_text

MODIFIERS = (
    "private",
    "protected",
    "noncomputable",
    "unsafe",
    "partial",
    "nonrec",
    "public",
    "meta",
    "local",
    "scoped",
)
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
