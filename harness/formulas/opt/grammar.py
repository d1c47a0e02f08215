"""Parser of one row of items as an expression, after LaTeXML's grammar of mathematics.

From lowest to highest precedence: formulas separated by punctuation or joined by relations between formulas (`:`, iff);
chains of relations; expressions (sums of terms); terms (products of factors, explicit or implicit); factors. Brackets
are parsed elsewhere, and a row contains each as one item. Except for bars, a row is therefore flat and is parsed once
from left to right. A function or sum takes the factors that follow it, by a stack of open products without recursion.
Names of roles are those of `Role`; `taker` is a function without brackets after it, a sum, an integral, a differential.

    formulas   = formula {PUNCTUATION formula} | formula {META formula}
    formula    = listed {RELATION expression}
    listed     = expression {PUNCTUATION expression}
    expression = [ADD] term {ADD term} {MODIFIER | MODIFY expression}
    term       = factor {[MULTIPLY] factor} [BAR listed]
    factor     = FUNCTION ARGUMENTS | taker {[MULTIPLY] factor} | BAR formulas BAR | FLOAT {FLOAT} [item] | item

As in LaTeXML, later relations of a chain have only their right side, operators keep their scripts, adjacent equal
operators are merged into one with all arguments, and `a/bc` is `(a/b)c`.
"""

from __future__ import annotations

from harness.formulas.opt import tables
from harness.formulas.opt.bars import divided
from harness.formulas.opt.tables import Node, Role, Rows, apply, error, leaf, listed, relations, scripted, sequence

_TIMES = leaf("U!" + "times")  # a separate object, to distinguish invisible products from dots and crosses
_CONDITIONAL = leaf("O!" + "conditional")
_DIFFERENTIALS = ("V!𝑑", "V!d")
UNREAD = "a part that does not fit"


def without_end(items: Rows) -> Rows:
    """Removes trailing punctuation."""
    end = len(items)
    while end and items[end - 1][0] in (Role.PUNCTUATION, Role.PERIOD):
        end -= 1
    return items if end == len(items) else items[:end]


def read_row(items: Rows) -> tuple[Node, str]:
    """Parses a row; returns its node, and why a part of it could not be parsed ("" if all was parsed)."""
    if items and items[0][0] == Role.OVER:
        label, above = items[0][1]
        below, reason = read_row(items[1:])
        return (label, [*above, below]), reason
    items = without_end(items) if len(items) > 1 else items
    if not items:
        return tables.ABSENT, ""
    if len(items) == 1:
        only = items[0][1]
        # As in LaTeXML, a script without a base is applied to nothing.
        return (only if items[0][0] != Role.FLOAT else apply(only[1][0], [])), ""
    node = (row := Grammar(items)).anything()
    if row.at == row.end and node is not None:
        return node, row.reason
    parts = [] if node is None else [node]
    while row.at < row.end:
        node = row.anything()
        if node is None:
            node = items[row.at][1]
            row.at += 1
        parts.append(node)
    return error(parts), row.reason or UNREAD


class Grammar:
    """A parser of one row: its position, and why a part of the row could not be parsed."""

    __slots__ = ("at", "barred", "bars", "end", "ends", "items", "reason")

    def __init__(self, items: Rows) -> None:
        self.items, self.bars, self.ends = divided(items)
        self.at = 0
        self.end = len(items)
        self.reason = ""
        self.barred = False  # within a condition: no further bar

    # ---- formulas -----------------------------------------------------------------------------------------------

    def anything(self) -> Node | None:
        """Parses any row: formulas, a formula without its left side, or only operators."""
        if self.at >= self.end:
            return None
        role, operator = self.items[self.at]
        start = self.at
        if role == Role.RELATION:
            self.at += 1
            right = self._expression()
            if right is not None:
                return self._formulas(self._more_relations([tables.ABSENT, operator, right]))
        elif role in (Role.META, Role.MODIFY):
            self.at += 1
            right = self._formula() if role == Role.META else self._expression()
            if right is not None:
                return apply(operator, [tables.ABSENT, right])
        elif role == Role.MODIFIER:
            self.at += 1
            return operator
        else:
            node = self._formula()
            if node is not None:
                return self._formulas(node)
        self.at = start
        return self._operators()

    def _operators(self) -> Node | None:
        """Parses a row of operators, or an operator with only a right side."""
        operands: list[Node] = []
        while self.at < self.end:
            role, node = self.items[self.at]
            if not Role.ADD <= role <= Role.META and role not in (Role.MODIFY, Role.PRIME):
                break
            operands.append(node)
            self.at += 1
            if self.at < self.end - 1 and self.items[self.at][0] == Role.PUNCTUATION:
                self.at += 1
        if len(operands) == 1 and self.at < self.end:
            right = self._expression()
            if operands[0][0] == "V!′":
                return operands[0] if right is None else listed([operands[0], right])
            return apply(operands[0], [tables.ABSENT, right]) if right is not None else operands[0]
        if operands and all(node[0].strip("′") == "V!" for node in operands):
            return leaf("V!" + "".join(node[0][2:] for node in operands))
        return listed(operands) if operands else None

    def _formulas(self, first: Node) -> Node:
        """Parses the formulas that follow a first one after punctuation, or after relations between formulas."""
        formulas = [first]
        items = self.items
        while self.at < self.end and items[self.at][0] in (Role.PUNCTUATION, Role.PERIOD):
            self.at += 1
            node = self._formula()
            if node is None:
                self.at -= 1
                break
            formulas.append(node)
        if len(formulas) > 1:
            return sequence(formulas)
        while self.at < self.end and items[self.at][0] == Role.META:
            operator = items[self.at][1]
            self.at += 1
            if self.at == self.end:
                formulas += [operator, tables.ABSENT]
                break
            node = self._formula()
            if node is None:
                self.at -= 1
                break
            formulas += [operator, node]
        return relations(formulas)

    def _formula(self) -> Node | None:
        """Parses an expression, expressions separated by commas, or relations between them."""
        first = self._expression()
        if first is None or self.at == self.end:
            return first
        role = self.items[self.at][0]
        if role == Role.PUNCTUATION:
            left = listed(self._behind_commas([first]))
            return relations(self._relation_parts([left]))
        if role == Role.RELATION:
            parts = self._relation_parts([first], only=True)
            return self._more_relations(parts) if len(parts) > 1 else first
        return first

    def expressions(self) -> list[Node]:
        """Parses expressions separated by punctuation."""
        first = self._expression()
        return [] if first is None else self._behind_commas([first])

    def _behind_commas(self, nodes: list[Node]) -> list[Node]:
        while nodes and self.at < self.end and self.items[self.at][0] == Role.PUNCTUATION:
            self.at += 1
            node = self._expression()
            if node is None:
                self.at -= 1
                break
            nodes.append(node)
        return nodes

    def _relation_parts(self, parts: list[Node], only: bool = False) -> list[Node]:
        """Adds relations and their right sides to `parts`; with `only`, just the next one."""
        while self.at < self.end and self.items[self.at][0] == Role.RELATION:
            relation = self.items[self.at][1]
            self.at += 1
            if self.at == self.end:
                return [*parts, relation, tables.ABSENT]
            right = self._expression()
            if right is None:
                if self.items[self.at][0] != Role.RELATION:
                    self.at -= 1
                    break
                # a < > b
                self.reason = self.reason or UNREAD
                right = tables.ABSENT
            parts += [relation, right]
            if only:
                break
        return parts

    def _more_relations(self, parts: list[Node]) -> Node:
        """Parses the continuation of `a = b`: further relations, or after commas further right sides.

        The last right side may begin a formula of its own: `a = b, c, d = e`.
        """
        done: list[Node] = []
        items = self.items
        while self.at < self.end and items[self.at][0] == Role.PUNCTUATION:
            right = self._behind_commas([parts[2]])
            if len(right) == 1:
                break
            if self.at < self.end and items[self.at][0] == Role.RELATION:
                after = self._relation_parts([right[-1]], only=True)
                if len(after) > 1:
                    done.append(relations([parts[0], parts[1], listed(right[:-1])]))
                    parts = after
                    continue
            parts = [parts[0], parts[1], listed(right)]
            break
        else:
            parts = self._relation_parts(parts)
        node = relations(parts)
        for formula in reversed(done):
            node = ("O!form-seq", [formula, node])
        return node

    # ---- expressions --------------------------------------------------------------------------------------------

    def _expression(self) -> Node | None:
        """Parses a sum of terms with its modifiers."""
        items, end = self.items, self.end
        if self.at >= end:
            return None
        role, operator = items[self.at]
        sum_: Node | None
        if role == Role.ADD:
            self.at += 1
            term = self._term()
            if term is None:
                self.at -= 1
                return self._lone_operator()
            sum_ = apply(operator, [term])
        else:
            sum_ = self._term()
            if sum_ is None:
                return self._lone_operator()
        label = ""  # label of the sum while it can take further terms
        while self.at < end and items[self.at][0] == Role.ADD and not (self.barred and self.at in self.ends):
            operator = items[self.at][1]
            self.at += 1
            term = self._term()
            if term is None:
                # a+ : from above
                if label:
                    terms = list(sum_[1])
                    terms[-1] = ("O!limit-from", [terms[-1], operator])
                    sum_ = (sum_[0], terms)
                else:
                    sum_ = ("O!limit-from", [sum_, operator])
                break
            if label == operator[0]:
                sum_[1].append(term)  # type: ignore[attr-defined]
            else:
                sum_ = apply(operator, [sum_, term])
                label = "" if operator[1] else operator[0]
        while self.at < end and items[self.at][0] in (Role.MODIFIER, Role.MODIFY):
            role, operator = items[self.at]
            self.at += 1
            if role == Role.MODIFIER:
                sum_ = ("O!annotated", [sum_, operator])
                continue
            modulus = self._expression()
            if modulus is None:
                self.at -= 1
                break
            sum_ = apply(operator, [sum_, modulus])
        return sum_

    def _lone_operator(self) -> Node | None:
        """Parses an operator that stands alone between punctuation: `(G, +)`."""
        role, node = self.items[self.at]
        if Role.ADD <= role <= Role.META and (
            self.at + 1 == self.end or self.items[self.at + 1][0] in (Role.PUNCTUATION, Role.META)
        ):
            self.at += 1
            return node
        return None

    # ---- terms --------------------------------------------------------------------------------------------------

    def _term(self) -> Node | None:
        """Parses a product of factors. Functions, sums and integrals in it take the factors that follow them."""
        items = self.items
        product = _Product(-1, None, None)  # the innermost open product
        while self.at < self.end:
            role, node = items[self.at]
            if self._begins(self.at, product.taker):
                self.at += 1
                if role in tables.TAKERS and not self._is_called(role):
                    product = _Product(role, node, product)
                    continue
                product.multiply(self._factor(role, node, product.taker))
                if product.taker == Role.DIFFERENTIAL:  # takes one factor
                    product = product.closed()
            elif role == Role.MULTIPLY and product.may_continue() and self._begins(self.at + 1, product.taker):
                product.operator = node
                self.at += 1
            elif product.around is not None:
                product = product.closed()
            elif role != Role.BAR or product.node is None or self.barred:
                break
            else:
                whole, more = self._at_bar(product.node)
                product.replace(whole)
                if not more:
                    break
        while product.around is not None:
            product = product.closed()
        return product.node

    def _begins(self, place: int, taker: int) -> bool:
        """Returns whether a factor begins here that `taker` can take (-1: the term itself)."""
        if place >= self.end:
            return False
        role = self.items[place][0]
        return role in tables.TAKES[taker] and (role != Role.BAR or place in self.bars)

    def _is_called(self, role: int) -> bool:
        """Returns whether an item is a function with argument brackets after it."""
        return role <= Role.OPERATOR and self.at < self.end and self.items[self.at][0] == Role.ARGUMENTS

    def _factor(self, role: int, node: Node, taker: int) -> Node:
        """Parses a factor whose first item has been consumed, as one that `taker` takes."""
        if role in tables.TAKERS:
            return self._called(node)
        if role == Role.BAR:
            return self._between_bars(self.at - 1)
        if role == Role.FLOAT:
            return self._before_base(node)
        if role == Role.NUMBER and node[0][2:].isdigit() and self._is_fraction(self.at):
            self.at += 1
            return ("U!plus", [node, self.items[self.at - 1][1]])  # a mixed number
        if taker == Role.INTEGRAL and node[0] in _DIFFERENTIALS and self.at < self.end:
            role, variable = self.items[self.at]
            if role == Role.ATOM:
                self.at += 1
                return ("F!d", [variable])
        return node

    def _is_fraction(self, place: int) -> bool:
        """Returns whether an item is a fraction of numbers."""
        if place >= self.end or self.items[place][0] != Role.ATOM:
            return False
        label, parts = self.items[place][1]
        return label == "O!divide" and len(parts) == 2 and all(part[0].startswith("N!") for part in parts)

    def _called(self, function: Node) -> Node:
        """Parses a function with its argument brackets; scripts of the brackets apply to the value."""
        value = self.items[self.at][1]
        self.at += 1
        outer: list[tuple[str, list[Node]]] = []
        while value[0]:  # brackets with scripts
            outer.append((value[0], list(value[1][1:])))
            value = value[1][0]
        value = apply(function, list(value[1]))
        for label, others in reversed(outer):
            value = (label, [value, *others])
        return value

    def _before_base(self, script: Node) -> Node:
        """Parses a script before its base."""
        scripts = [script]
        while self.at < self.end and self.items[self.at][0] == Role.FLOAT:
            scripts.append(self.items[self.at][1])
            self.at += 1
        base = tables.ABSENT
        if self.at < self.end and self.items[self.at][0] <= Role.FENCED:
            base = self.items[self.at][1]
            self.at += 1
        return scripted(base, [(name, arguments[0]) for name, arguments in reversed(scripts)])

    def _between_bars(self, place: int) -> Node:
        """Parses an absolute value, or between double bars a norm."""
        bars = self.bars
        close = bars[place]
        base, scripts = tables.unscripted(self.items[close][1])
        norm = base[0] == "V!∥"
        start, end = place + 1, close
        if not norm and bars.get(start) == close - 1 and close - start > 2:
            norm, start, end = True, start + 1, close - 1
        self.at = close + 1
        inside, reason = read_row(self.items[start:end])
        self.reason = self.reason or reason
        return scripted(("O!norm" if norm else "F!abs", [inside]), scripts)

    def _at_bar(self, product: Node) -> tuple[Node, bool]:
        """Parses a bar after a product: an evaluation at its subscript, or else a condition.

        Also returns whether factors may follow.
        """
        _, scripts = tables.unscripted(self.items[self.at][1])
        self.at += 1
        if scripts:
            places = [script for name, script in sorted(scripts, key=lambda pair: pair[0])]
            return ("O!evaluated-at", [product, *places]), True
        self.barred = True
        first = self._expression()
        condition = [] if first is None else [first]
        after = self.at
        condition = self._behind_commas(condition)
        if len(condition) > 1 and self._at_a_bar():
            # a | b, c | d
            del condition[1:]
            self.at = after
        self.barred = False
        if not condition:
            self.at -= 1
            return product, False
        return apply(_CONDITIONAL, [product, listed(condition)]), self._at_a_bar()

    def _at_a_bar(self) -> bool:
        return self.at < self.end and self.items[self.at][0] == Role.BAR


class _Product:
    """An open product: the factors so far of a term, or of the argument of a function.

    Attributes
    ----------
    taker : role of the function that takes the product (-1: none, it is the term itself).
    function : the function that takes the product.
    around : the enclosing product, of which the function with its argument is a factor.
    node : the product of the factors so far; None before the first.
    operator : operator before the next factor.
    """

    __slots__ = ("around", "function", "last", "node", "operator", "taker")

    def __init__(self, taker: int, function: Node | None, around: _Product | None) -> None:
        self.taker = taker
        self.function = function
        self.around = around
        self.node: Node | None = None
        self.operator = _TIMES
        self.last: Node | None = None  # the operator of `node` while it can take further factors

    def may_continue(self) -> bool:
        """Returns whether an operator may follow: there is a factor, and no operator after it."""
        return self.node is not None and self.operator is _TIMES

    def multiply(self, factor: Node) -> None:
        """Adds a factor."""
        operator = self.operator
        if self.node is None:
            self.node = factor
        elif self.last is operator:
            self.node[1].append(factor)  # type: ignore[attr-defined]
        else:
            self.node = apply(operator, [self.node, factor])
            self.last = None if operator[1] else operator
        self.operator = _TIMES

    def replace(self, node: Node) -> None:
        """Replaces all factors so far by one node."""
        self.node, self.last = node, None

    def closed(self) -> _Product:
        """Closes this product: adds the function with its argument to the enclosing product, which is returned.

        An enclosing differential takes only this one factor and is closed as well.
        """
        product = self
        while product.around is not None and product.function is not None:
            function, taken, product = product.function, product.node, product.around
            product.multiply(function if taken is None else apply(function, [taken]))
            if product.taker != Role.DIFFERENTIAL:
                break
        return product
