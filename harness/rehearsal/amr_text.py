"""Writes AMR in Penman notation for any sentence, in the form in which real parsers give it; needs no other module.

`harness.rehearsal.parsers` copies this file into the stand-ins of the parsers' packages, so it imports nothing of the
harness. Verbs, nouns and adjectives are guessed from lists and endings: the graphs look like AMR (senses, arguments,
inverse roles, nodes with several parents, names, constants), and mean nothing.
"""

from __future__ import annotations

import hashlib
import random
import re

ONE_IN = 200  # graphs of which one is broken, and one is None
DEEPEST = 40  # levels of brackets
EMPTY = "(a / amr-empty)"

PLACEHOLDER = re.compile(r"FORMULA_\d+", re.IGNORECASE)
_NUMBER = re.compile(r"\d[\d.,:/-]*$")
_NAMED = re.compile(r"[A-Z][a-z]{2,}$")
_RESERVED = re.compile(r"[\s:/()~#]")
_KINDS = ("person", "thing", "theory", "university")
_MORE_ROLES = (":location", ":manner", ":time", ":topic", ":instrument", ":extent", ":ARG3", ":ARG4", ":prep-in")
_NOUN_ROLES = (":poss", ":part-of", ":consist-of", ":topic", ":location", ":mod", ":domain-of", ":example-of")
_NEGATION = frozenset(("not", "n't", "no", "never", "cannot", "without"))
_LINKS = {"if": ":condition", "when": ":time", "because": ":ARG1-of", "since": ":ARG1-of", "although": ":concession"}
_LINKS |= {"to": ":purpose", "by": ":manner", "so": ":purpose", "unless": ":condition", "where": ":location"}
_UNKNOWN = frozenset(("what", "which", "how", "why", "who", "whether"))
_PRONOUNS = {"i": "i", "me": "i", "my": "i", "you": "you", "your": "you", "we": "we", "us": "we", "our": "we"}
_PRONOUNS |= {"it": "it", "its": "it", "they": "they", "them": "they", "he": "he", "she": "she", "this": "this"}
_STOP = frozenset(
    "a an the of in on at for from with as is are was were be been being am do does did has had and or but than then "  # noqa: SIM905
    "there here these those that such into onto over under up out any some all each every both very just only also too "
    "about between".split()
)
_SENSES = {"have": "have-03", "can": "possible-01", "could": "possible-01", "may": "possible-01", "must": "obligate-01"}
_SENSES |= {"should": "recommend-01", "let": "let-01", "get": "get-01", "take": "take-01", "give": "give-01"}
_SENSES |= {"equal": "equal-01", "equation": "equate-01", "solution": "solve-01", "proof": "prove-01"}
_SENSES |= {"think": "think-01", "thought": "think-01", "know": "know-01", "find": "find-01", "found": "find-01"}
_SENSES |= {"show": "show-01", "shown": "show-01", "mean": "mean-01", "means": "mean-01", "want": "want-01"}
_SENSES |= {"try": "try-01", "tried": "try-01", "use": "use-01", "say": "say-01", "see": "see-01", "hold": "hold-09"}
_SENSES |= {"holds": "hold-09", "prove": "prove-01", "compute": "compute-01", "evaluate": "evaluate-01"}
_SENSES |= {"consider": "consider-02", "suppose": "suppose-01", "assume": "assume-02", "define": "define-01"}
_SENSES |= {"converge": "converge-01", "exist": "exist-01", "exists": "exist-01", "follow": "follow-02"}
_SENSES |= {"follows": "follow-02", "need": "need-01", "understand": "understand-01", "help": "help-01"}
_ENDINGS = ("ous", "ful", "ible", "able", "ive", "ic", "ical", "al", "less")
_THINGS = frozenset(("integral", "interval", "derivative", "logic", "table", "real", "variable", "total", "topic"))


class Node:
    """A node of a graph: concept or constant, its token's place, its edges (role, node) in the order of writing."""

    def __init__(self, concept: str, place: int = -1, constant: bool = False) -> None:
        self.concept, self.place, self.constant = concept, place, constant
        self.edges: list[tuple[str, Node]] = []
        self.depth = 0

    def add(self, role: str, node: Node) -> None:
        """Puts a node below this one."""
        node.depth = self.depth + 1
        self.edges.append((role, node))

    def refer(self, role: str, node: Node) -> None:
        """Adds an edge to a node that is below another one."""
        self.edges.append((role, node))

    def has(self, role: str) -> bool:
        """Returns whether there is an edge of a role."""
        return any(each == role for each, _ in self.edges)


class _Clauses:
    """A sentence while it is read from left to right: its root, the last verb and noun, and what waits for a head."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.root: Node | None = None
        self.verb: Node | None = None
        self.noun: Node | None = None
        self.subject: Node | None = None
        self.waiting: list[Node] = []  # nouns before the first verb
        self.mods: list[Node] = []
        self.quantity: Node | None = None
        self.negation: Node | None = None
        self.link = ""

    def noun_of(self, node: Node) -> None:
        """Places a noun, with what waits for one."""
        rng, above = self.rng, self.noun
        if self.verb is None:
            self.waiting.append(node)
        elif above is not None and above.depth < DEEPEST and rng.random() < 0.25:
            above.add(rng.choice(_NOUN_ROLES), node)
        else:
            free = [role for role in (":ARG1", ":ARG2") if not self.verb.has(role)]
            self.verb.add(free[0] if free else rng.choice(_MORE_ROLES), node)
        if self.quantity is not None:
            node.add(":quant", self.quantity)
            self.quantity = None
        for each in self.mods:
            node.add(":mod", each)
        self.mods = []
        self.noun = node

    def verb_of(self, node: Node) -> None:
        """Places a verb: the first one is the root, with the nouns before it as its arguments."""
        if self.negation is not None:
            node.add(":polarity", self.negation)
            self.negation = None
        if self.root is None or self.verb is None:
            self.root = node
            if self.waiting:
                self.subject = _joined(self.waiting)
                node.add(":ARG0", self.subject)
                self.waiting = []
        elif self.verb.depth >= DEEPEST:
            self.root.add(":rel", node)  # the role with which the transition parser joins what is detached
        else:
            self._below(node)
        self.verb, self.link = node, ""

    def _below(self, node: Node) -> None:
        rng = self.rng
        if self.verb is None:
            return
        if self.link:
            self.verb.add(self.link, node)
        elif self.noun is not None and self.noun.depth < DEEPEST and rng.random() < 0.4:
            self.noun.add(rng.choice((":ARG1-of", ":ARG0-of", ":ARG2-of")), node)
            return
        else:
            self.verb.add(":purpose" if self.verb.has(":ARG1") else ":ARG1", node)
        if self.subject is not None and rng.random() < 0.7:
            node.refer(":ARG0", self.subject)

    def done(self) -> Node | None:
        """Returns the root, with what still waits below it; None for a sentence of which nothing is left."""
        root = self.root or (_joined(self.waiting) if self.waiting else None)
        if root is None:
            left = [*self.mods, *([self.quantity] if self.quantity else [])]
            root = left[0] if left and not left[0].constant else None
            self.mods = [each for each in self.mods if each is not root]
        if root is not None:
            for each in self.mods:
                root.add(":mod", each)
            for role, constant in ((":quant", self.quantity), (":polarity", self.negation)):
                if constant is not None and not root.has(role):
                    root.add(role, constant)
        return root


def _joined(nodes: list[Node]) -> Node:
    """Returns nouns as one node."""
    if len(nodes) == 1:
        return nodes[0]
    both = Node("and")
    for number, each in enumerate(nodes, 1):
        both.add(f":op{number}", each)
    return both


def read(tokens: list[str], first: int, rng: random.Random) -> Node | None:
    """Returns the graph of a sentence; None if it has no word.

    Parameters
    ----------
    first : place of its first token in the document.
    """
    found = _Clauses(rng)
    name: Node | None = None  # the name that a capital before this token began
    for at, token in enumerate(tokens):
        place, low = first + at, token.lower()
        named = at > 0 and bool(_NAMED.match(token)) and low not in _STOP
        if named and name is not None:
            name.add(f":op{len(name.edges) + 1}", Node(f'"{token}"', place, constant=True))
            continue
        name = None
        if PLACEHOLDER.fullmatch(token):
            found.noun_of(_formula(token, place, rng))
        elif low in _NEGATION:
            found.negation = Node("-", place, constant=True)
        elif _NUMBER.match(token):
            found.quantity = Node(_concept(token), place, constant=True)
        elif low in _UNKNOWN:
            found.noun_of(Node("amr-unknown", place))
        elif low in _PRONOUNS:
            found.noun_of(Node(_PRONOUNS[low], place))
        elif low in _LINKS:
            found.link = _LINKS[low]
        elif low in _STOP or not any(sign.isalnum() for sign in token):
            continue
        elif named:
            entity, name = Node(rng.choice(_KINDS), place), Node("name", place)
            name.add(":op1", Node(f'"{token}"', place, constant=True))
            found.noun_of(entity)
            entity.add(":name", name)
        elif sense := _verb(low):
            found.verb_of(Node(sense, place))
        elif low.endswith(_ENDINGS) and low not in _THINGS and len(low) > 4:
            found.mods.append(Node(_concept(low), place))
        else:
            found.noun_of(Node(_concept(_singular(low)), place))
    return found.done()


def _formula(token: str, place: int, rng: random.Random) -> Node:
    """Returns a placeholder: mostly a concept; sometimes a name, as parsers take words in capitals for one."""
    if rng.random() < 0.85:
        return Node(token, place)
    entity, name = Node("thing", place), Node("name", place)
    entity.add(":name", name)
    name.add(":op1", Node(f'"{token}"', place, constant=True))
    return entity


def _verb(low: str) -> str:
    """Returns the sense of a word that is a verb; empty for others."""
    if low in _SENSES:
        return _SENSES[low]
    for ending, least in (("ing", 6), ("ed", 5), ("ify", 5), ("ize", 5), ("izes", 6)):
        if low.endswith(ending) and len(low) >= least and low.isascii() and low.isalpha():
            stem = low.removesuffix("s") if ending in ("ify", "ize", "izes") else low.removesuffix(ending)
            return f"{stem}-0{1 + len(low) % 2}"
    return ""


def _singular(low: str) -> str:
    return low[:-1] if len(low) > 3 and low.endswith("s") and not low.endswith(("ss", "us", "is")) else low


def _concept(text: str) -> str:
    """Returns a word as Penman can hold it, quoted where it has a sign of the notation."""
    plain = text.replace('"', "").replace("\\", "") or "_"
    return f'"{plain}"' if _RESERVED.search(plain) or plain in ("-", "+") else plain


# ---- documents --------------------------------------------------------------------------------------------------


def document(sentences: list[list[str]], rng: random.Random) -> Node:
    """Returns the graph of a document: `document` above its sentences, `:same-as` between what corefers.

    A document of one sentence is that sentence's graph, as the transition parser gives it.
    """
    roots, known, first = [], dict[str, Node](), 0
    for tokens in sentences:
        root = read(tokens, first, rng) or Node("amr-empty")
        first += len(tokens)
        mentioned = [node for node in _nodes(root) if not node.constant and node.concept not in ("and", "name")]
        for node in mentioned:
            earlier = known.get(node.concept)
            refers = node.concept in ("it", "they", "this") and known and rng.random() < 0.5
            if earlier is not None and node.depth and rng.random() < 0.5:
                node.refer(":same-as", earlier)
            elif refers:
                node.refer(":same-as", known[rng.choice(sorted(known))])
        for node in mentioned:
            if not node.concept[-1].isdigit() and node.concept not in ("it", "they", "this", "amr-unknown"):
                known.setdefault(node.concept, node)
        roots.append(root)
    if len(roots) == 1:
        return roots[0]
    top = Node("document")
    for number, root in enumerate(roots, 1):
        top.edges.append((f":snt{number}", root))
    return top


def _nodes(top: Node) -> list[Node]:
    """Returns the nodes of a graph in the order of writing, each once."""
    found, seen, waiting = [], set[int](), [top]
    while waiting:
        node = waiting.pop()
        if id(node) not in seen:
            seen.add(id(node))
            found.append(node)
            waiting.extend(each for _, each in reversed(node.edges))
    return found


def written(top: Node, indent: int = 4, aligned: bool = True) -> str:
    """Writes a graph as Penman.

    Parameters
    ----------
    aligned : with the place of each node's token behind its concept, as `~3`.
    """
    names: dict[int, str] = {}
    taken: dict[str, int] = {}
    for node in sorted((each for each in _nodes(top) if not each.constant), key=lambda each: each.concept):
        letter = next((sign for sign in node.concept if "a" <= sign <= "z"), "a")
        taken[letter] = taken.get(letter, 0) + 1
        names[id(node)] = letter if taken[letter] == 1 else f"{letter}{taken[letter]}"
    done: set[int] = set()

    def write(node: Node, level: int) -> str:
        mark = f"~{node.place}" if aligned and node.place >= 0 else ""
        if node.constant:
            return node.concept + mark
        if id(node) in done:
            return names[id(node)]
        done.add(id(node))
        pad = "\n" + " " * (indent * (level + 1))
        below = "".join(f"{pad}{role} {write(each, level + 1)}" for role, each in node.edges)
        return f"({names[id(node)]} / {node.concept}{mark}{below})"

    return write(top, 0)


# ---- what parsers give ------------------------------------------------------------------------------------------


def penman(seed: int, sentences: list[list[str]], indent: int = 4, aligned: bool = True) -> str | None:
    """Returns what a parser gives for a text: Penman without comments; for few texts None, or Penman that is broken.

    The same seed and text always give the same.
    """
    said = f"{seed}\0" + "\0".join(" ".join(tokens) for tokens in sentences)
    digest = hashlib.sha256(said.encode("utf-8", "surrogatepass")).digest()
    fate = int.from_bytes(digest[:8], "big") % ONE_IN
    if fate == 1:
        return None
    rng = random.Random(digest)
    text = written(document(sentences, rng), indent, aligned)
    return broken(text, rng) if fate == 0 else text


def broken(text: str, rng: random.Random) -> str:
    """Spoils Penman in one of the ways in which parsers do."""
    ways = (
        text[:-1],  # a bracket too few
        text[:-1] + "\n    :op1 )",  # a role without a target
        text[:-1] + f"\n    :mod ({text[1 : text.index(' ')]} / thing))",  # a variable that is defined twice
        text + ")",
        "()",  # of SPRING, for what it cannot decode
    )
    return rng.choice(ways)
