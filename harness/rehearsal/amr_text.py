"""Writes AMR in Penman notation for any sentence, in the form in which real parsers give it; needs no other module.

`harness.rehearsal.models` copies this file into the stand-ins of the parsers' packages, so it imports nothing of the
harness. Words become concepts and are joined at random: the graphs look like AMR (senses, arguments, inverse roles,
nodes with several parents, names, constants), and mean nothing.
"""

from __future__ import annotations

import hashlib
import random
import re

ONE_IN = 200  # graphs of which one is broken, and one is None
DEEPEST = 40  # levels of brackets
EMPTY = "(a / amr-empty)"

_FORMULA = re.compile(r"FORMULA_\d+", re.IGNORECASE)
_NUMBER = re.compile(r"\d[\d.,:/-]*$")
_RESERVED = re.compile(r"[\s:/()~#]")
_NEGATION = frozenset(("not", "n't", "no", "never", "cannot", "without"))
_UNKNOWN = frozenset(("what", "which", "how", "why", "who", "whether"))
_STOP = frozenset(
    (
        *("a", "an", "the", "of", "in", "on", "at", "for", "from", "with", "as"),
        *("is", "are", "was", "be", "do", "has", "and", "or"),
    )
)
_ROLES = (
    *(":ARG0", ":ARG1", ":ARG2", ":ARG0-of", ":ARG1-of", ":mod", ":poss", ":part-of", ":topic", ":location", ":time"),
    *(":manner", ":purpose", ":condition", ":domain-of", ":prep-in"),
)


class Node:
    """A node of a graph: concept or constant, its token's place, its edges (role, node) in the order of writing."""

    def __init__(self, concept: str, place: int = -1, constant: bool = False, formula: bool = False) -> None:
        self.concept, self.place, self.constant, self.formula = concept, place, constant, formula
        self.edges: list[tuple[str, Node]] = []
        self.depth = 0

    def add(self, role: str, node: Node) -> None:
        """Puts a node below this one."""
        node.depth = self.depth + 1
        self.edges.append((role, node))


def read(tokens: list[str], first: int, rng: random.Random) -> Node | None:
    """Returns the graph of a sentence, a tree with a few edges more; None if the sentence has no word.

    Parameters
    ----------
    first : place of its first token in the document.
    """
    nodes: list[Node] = []
    waiting: list[tuple[str, Node]] = []  # constants before a concept
    for place, token in enumerate(tokens, first):
        low = token.lower()
        if low in _NEGATION:
            waiting.append((":polarity", Node("-", place, constant=True)))
        elif _NUMBER.match(token):
            waiting.append((":quant", Node(_concept(token), place, constant=True)))
        elif low not in _STOP and any(sign.isalnum() for sign in token):
            nodes.append(_node(token, place, rng, named=bool(nodes)))
            for role, constant in dict(waiting).items():
                nodes[-1].add(role, constant)
            waiting = []
    root = next((node for node in nodes if not node.formula), nodes[0] if nodes else None)
    joined = [root] if root is not None else []
    for node in nodes:
        if node is not root:
            above = rng.choice([each for each in joined[-4:] if each.depth < DEEPEST] or joined[:1])
            above.add(rng.choice(_ROLES), node)
            if len(joined) > 2 and rng.random() < 0.15:
                node.edges.append((":ARG2", rng.choice(joined[:-1])))  # which has several parents then
            joined.append(node)
    return root


def _node(token: str, place: int, rng: random.Random, named: bool) -> Node:
    """Returns a word as a concept, verbs with a sense; capitals and some formulas are names of things."""
    formula = bool(_FORMULA.fullmatch(token))
    if (formula and rng.random() < 0.15) or (named and not formula and re.match(r"[A-Z][a-z]{2,}$", token)):
        entity, name = Node("thing", place, formula=formula), Node("name", place)
        entity.add(":name", name)
        name.add(":op1", Node(f'"{token}"', place, constant=True))
        return entity
    if formula:
        return Node(token, place, formula=True)
    low = token.lower()
    if low in _UNKNOWN:
        return Node("amr-unknown", place)
    verb = low.isascii() and low.isalpha() and (low.endswith(("e", "ed", "ing", "w")) and len(low) > 3)
    return Node(f"{low}-01" if verb else _concept(low), place)


def _concept(text: str) -> str:
    """Returns a word as Penman can hold it, quoted where it has a sign of the notation."""
    plain = text.replace('"', "").replace("\\", "") or "_"
    return f'"{plain}"' if _RESERVED.search(plain) or plain in ("-", "+") else plain


def document(sentences: list[list[str]], rng: random.Random) -> Node:
    """Returns the graph of a document: `document` above its sentences, `:same-as` between what corefers.

    A document of one sentence is that sentence's graph, as the transition parser gives it.
    """
    roots, known, first = [], dict[str, Node](), 0
    for tokens in sentences:
        root = read(tokens, first, rng) or Node("amr-empty")
        first += len(tokens)
        for node in _nodes(root):
            earlier = known.setdefault(node.concept, node)
            other = earlier is not node and node.depth and not node.constant and node.concept != "name"
            if other and rng.random() < 0.5:
                node.edges.append((":same-as", earlier))
        roots.append(root)
    if len(roots) == 1:
        return roots[0]
    top = Node("document")
    for number, root in enumerate(roots, 1):
        top.edges.append((f":snt{number}", root))
    return top


def _nodes(top: Node) -> list[Node]:
    """Returns the nodes of a graph in the order of writing, each once."""
    nodes, seen, waiting = [], set[int](), [top]
    while waiting:
        node = waiting.pop()
        if id(node) not in seen:
            seen.add(id(node))
            nodes.append(node)
            waiting.extend(each for _, each in reversed(node.edges))
    return nodes


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
