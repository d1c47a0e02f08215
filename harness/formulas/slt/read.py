"""Our own parser from LaTeX to symbol layout trees (SLT), which follows LaTeXML and Tangent-S.

The parser makes one pass over the tokens with a stack of open groups, in linear time and without recursion. Groups can
be nested `DEPTH` levels deep. It never raises an exception: parts that it does not understand become nodes `E!`, and
the result has the reason.

Known differences from LaTeXML: characters such as `≤` are equal to their commands (LaTeXML makes variables of them),
accents and degree signs included (see `harness.formulas.text.characters`);
bars, brackets and differentials are matched even where LaTeXML gives up the formula, as in `P(|X| \\ge 1)`; scripts of
`\\max` are at its side, as in text style.
"""

from __future__ import annotations

import re

from harness.formulas.mathml.walk import DEEP, DEPTH, Fault
from harness.formulas.slt import commands, groups, rows
from harness.formulas.slt.groups import Frame
from harness.formulas.slt.rows import BLANK, Row, Symbol
from harness.formulas.trees.tree import ERROR, ParsedFormula, failed

EMPTY = "no formula"
MISSING = "a missing argument"
UNMATCHED = "braces, brackets or environments that do not match"
_FEW = 64  # maximum brackets that are examined
_NESTED_TEXT = 3  # maximum nesting of formulas in text in formulas

_DIGITS = frozenset("0123456789")
_COLUMN = re.compile(r"\{[^{}]*\}|[lcr]")
_ANGLES = {"<": "⟨", ">": "⟩"}
_ESCAPED = re.compile(r"\\([^A-Za-z])|\\[A-Za-z]+\s*|[{}]|%[^\n]*\n?")


def read_latex(latex: str) -> ParsedFormula:
    """Parses LaTeX without delimiters to a symbol layout tree; never raises an exception."""
    reader = _Reader(latex, 0)
    try:
        row = reader.run()
    except Fault as fault:
        return failed(str(fault))
    return ParsedFormula(rows.tree(row), reader.reason) if row else failed(reader.reason or EMPTY)


class _Reader:
    def __init__(self, latex: str, nested: int) -> None:
        self.tokens = commands.FormulaTokens(latex)
        self.nested = nested
        self.reason = ""
        self.stack = [Frame("top", "")]

    def run(self) -> Row:
        tokens, stack = self.tokens, self.stack
        pieces = tokens.all
        while tokens.at < len(pieces):
            piece = pieces[tokens.at]
            tokens.at += 1
            first = piece[0]
            if first in "%~$" or first.isspace():
                continue
            if first in _DIGITS or (first == "." and piece[1:2] not in ("", ".")):
                self._add_number(piece)
            elif first == "\\" and len(piece) > 1:
                self._read_command(piece)
            elif first == "{":
                self._brace()
            elif first == "}":
                self._close("{")
            elif first in "^_":
                self._fill()
                self._push_frame(Frame(first, stack[-1].font, need=1))
            elif first == "'":
                self._add_primes(len(piece))
            elif first == "&":
                self._cell(piece)
            elif first.isalpha() and first.isascii():
                self._add_letter(piece)
            elif first == "]" and self._closes_option():
                self._close("[")
            else:
                self._character(piece)
        self._fill()
        if tokens.unclosed:
            self._note_fault(UNMATCHED)
        while len(stack) > 1:
            self._note_fault(UNMATCHED)
            self._abandon()
        return groups.row_of(stack[0])

    def _note_fault(self, reason: str) -> None:
        self.reason = self.reason or reason

    # ---- groups ------------------------------------------------------------------------------------------------

    def _push_frame(self, frame: Frame) -> None:
        if len(self.stack) > DEPTH:
            raise Fault(DEEP)
        self.stack.append(frame)

    def _open_frame(self, kind: str, name: str = "") -> None:
        self._push_frame(Frame(kind, self.stack[-1].font, name))

    def _brace(self) -> None:
        """Opens a group in braces; a group of a single bracket, as in `\\big{(}`, is read as the bracket."""
        tokens = self.tokens
        if not self.stack[-1].need and tokens.all[tokens.at + 1 : tokens.at + 2] == ["}"]:
            piece = tokens.all[tokens.at]
            name = commands.label(piece) or ""
            if name in groups.OPENING or name in groups.PAIRS or name in groups.BARS:
                tokens.at += 2
                self._character(piece)
                return
        self._open_frame("{")

    def _fill(self) -> None:
        """Gives empty arguments to commands whose arguments are missing."""
        while self.stack[-1].need:
            self._deliver([])

    def _close(self, kind: str, name: str = "") -> None:
        """Ends the innermost group of a kind, together with open groups inside it."""
        self._fill()
        stack = self.stack
        if stack[-1].kind != kind and not any(frame.kind == kind for frame in stack):
            self._note_fault(UNMATCHED)
            return
        while stack[-1].kind != kind:
            self._note_fault(UNMATCHED)
            self._abandon()
        frame = stack.pop()
        if name != frame.name and kind == "env":
            self._note_fault(UNMATCHED)
        if kind == "[":
            stack[-1].option = groups.row_of(frame)
        elif kind == "{" and not stack[-1].need and frame.infix is None and not frame.name:
            groups.splice(stack[-1], frame)
        else:
            self._deliver(groups.environment(frame) if frame.is_table() else groups.row_of(frame))

    def _abandon(self) -> None:
        """Ends the innermost group prematurely; enclosing commands continue to wait for arguments."""
        frame = self.stack.pop()
        if frame.is_table():
            self._deliver(groups.environment(frame))
        elif frame.kind == "left":
            self._deliver([*([Symbol(frame.name)] if frame.name else []), *groups.row_of(frame)])
        else:
            self._deliver(groups.row_of(frame))
        self._fill()

    def _closes_option(self) -> bool:
        frame = self.stack[-1]
        return frame.kind == "[" and not any(character == "[" for _, character in frame.fences[-_FEW:])

    def _deliver(self, row: Row) -> None:
        """Passes a complete part to the enclosing group, or to the command that waits for it."""
        while True:
            frame = self.stack[-1]
            if not frame.need:
                groups.append(frame, row)
                return
            frame.items.append(row)
            if len(frame.items) < frame.need:
                return
            self.stack.pop()
            if frame.kind != "args":
                self._add_script(frame.kind, row)
                return
            row = groups.built(frame)
            if frame.name in ("\\overbrace", "\\underbrace") and not self.stack[-1].need:
                groups.append(self.stack[-1], row)
                self.stack[-1].brace = len(self.stack[-1].items) - 1
                return

    # ---- scripts -----------------------------------------------------------------------------------------------

    def _base(self) -> Frame:
        """Returns the group whose last part is the base of the next script."""
        frame = self.stack[-1]
        if not frame.items:
            frame.items.append([])
        groups.close_evaluation(frame)
        if frame.below is None and frame.above is None:
            groups.based(frame)
        return frame

    def _add_script(self, kind: str, row: Row) -> None:
        frame = self._base()
        if kind == "_":
            if frame.below is not None and frame.carried:
                frame.below += row
                return
            if frame.below is not None:
                groups.settle(frame)
            frame.below = row
        elif frame.above is not None and (frame.carried or frame.primes):
            frame.above += row
            frame.primes = False
        else:
            if frame.above is not None:
                groups.settle(frame)
            frame.above = row

    def _add_primes(self, number: int) -> None:
        self._fill()
        frame = self._base()
        if frame.above is None:
            frame.above = []
        frame.above.append(Symbol("′" * number))
        frame.primes = True

    # ---- characters --------------------------------------------------------------------------------------------

    def _add_number(self, piece: str) -> None:
        frame = self.stack[-1]
        if frame.need and len(piece) > 1:
            piece = self.tokens.split_digit(piece)
            if piece == ".":
                self._character(piece)
                return
        font = frame.font
        text = "".join([commands.styled(digit, font) for digit in piece]) if font else piece
        if not groups.lengthen(frame, text):
            more = "" if frame.need else self.tokens.more_digits()
            self._deliver([Symbol("N!" + text + more)])

    def _add_letter(self, piece: str) -> None:
        frame = self.stack[-1]
        font = frame.font
        text = commands.styled(piece, font) if font else piece
        if font not in commands.MERGED:
            self._deliver([Symbol("V!" + text)])
        elif not groups.lengthen(frame, text):
            kind = groups.Upright if font == "rm" else groups.OperatorName if font == "op" else Symbol
            self._deliver([kind("V!" + text)])
            if not frame.need:
                frame.word = len(frame.items) - 1

    def _character(self, piece: str) -> None:
        """Handles a character other than a letter or digit, or its command."""
        if piece == "...":
            self._deliver([Symbol("V!…")])
            return
        if piece == "?" and not self.tokens.peek():
            # In the ARQMath trees, LaTeXML was configured to treat a question mark as a query variable.
            self._deliver([Symbol("V!qvar_$")])
            return
        name = piece if piece == "||" else commands.label(piece)
        if name is None:
            self._note_fault(f"unknown command {piece[:20]}")
            self._deliver([Symbol(ERROR)])
            return
        frame = self.stack[-1]
        if frame.need or rows.is_operator(name) is False:
            self._deliver([commands.symbol(name, frame.font)])
        elif name in groups.OPENING:
            groups.mark(frame, name)
        elif name in groups.PAIRS:
            groups.bracket(frame, name)
        elif name in groups.BARS:
            groups.bar(frame, name, piece[1:2] if piece[2:] in ("vert", "Vert") else "", self.tokens)
        elif not groups.join(frame, name):
            groups.separate(frame, name)
            groups.append(frame, [Symbol(name)])
            frame.integral = frame.integral or name in commands.INTEGRALS

    # ---- commands ----------------------------------------------------------------------------------------------

    def _read_command(self, piece: str) -> None:
        if piece in commands.NOTHING:
            self.stack[-1].word = -1
            if piece in ("\\\\", "\\cr", "\\crcr", "\\newline"):
                self._cell(piece)
            elif piece in ("\\quad", "\\qquad"):
                groups.separate(self.stack[-1])
            return
        frame = self.stack[-1]
        if piece in commands.ARGUMENTS:
            self._push_frame(Frame("args", frame.font, piece, commands.ARGUMENTS[piece]))
            if piece in commands.OPTIONAL and self.tokens.take("["):
                self._open_frame("[")
        elif piece in commands.FONTS:
            self._push_frame(Frame("args", commands.FONTS[piece], piece, 1))
        elif piece in commands.TEXTS:
            self._read_text(commands.TEXTS[piece])
        elif piece in commands.SWITCHES:
            frame.font = commands.SWITCHES[piece]
        elif piece in ("\\left", "\\right"):
            self._read_delimiter(piece)
        elif piece in ("\\begin", "\\end"):
            self._read_environment(piece)
        elif piece in commands.INFIX:
            self._fill()
            frame = self.stack[-1]
            if frame.infix is None:
                frame.infix = (commands.INFIX[piece], groups.settled(frame))
                frame.clear()
        elif piece in commands.DROPPED:
            self.tokens.skip_argument()
        elif piece in commands.TABLES:
            if self.tokens.take("{"):
                self._open_frame("{", commands.TABLES[piece])
            else:
                self._note_fault(MISSING)
        elif piece == "\\genfrac":
            self._fraction()
        elif piece in commands.VARIED:
            edge, sign = commands.VARIED[piece]
            self._deliver([Symbol("V!lim", {edge: [Symbol(sign)]})])
        elif piece == "\\limits":
            # Scripts of the previous part are set over and under it, even where they would not be by default.
            if frame.items and not frame.need:
                groups.settle(frame)
                frame.brace = len(frame.items) - 1
        elif piece == "\\root":
            self._open_frame("root")
        elif piece == "\\of":
            self._fill()
            if self.stack[-1].kind == "root":
                option = groups.row_of(self.stack.pop())
                self._push_frame(Frame("args", self.stack[-1].font, "\\sqrt", 1))
                self.stack[-1].option = option
        else:
            self._character(piece)

    def _read_text(self, font: str) -> None:
        """Reads the argument of a text command: words in a font, and formulas between dollars."""
        raw = self.tokens.raw()
        row: Row = []
        for number, part in enumerate(re.split(r"(?<!\\)\$", raw)):
            if number % 2 and self.nested < _NESTED_TEXT:
                reader = _Reader(part, self.nested + 1)
                row += reader.run()
                self._note_fault(reader.reason)
            else:
                text = (
                    _ESCAPED.sub(r"\1", part.replace("~", " ")).replace("``", "“").replace("''", "”").replace("'", "’")
                )
                text = "".join([commands.styled(character, font) for character in text]) if font else text
                leaf = rows.leaf("T!", text)
                row += [leaf] if leaf.label != BLANK else []
        groups.separate(self.stack[-1])
        self._deliver(row or [Symbol(BLANK)])

    def _fraction(self) -> None:
        """Handles `\\genfrac`: brackets, thickness of the line, style, numerator and denominator."""
        brackets = [commands.label(raw) if (raw := self.tokens.raw().strip()) else "" for _ in range(2)]
        self.tokens.skip_argument()
        self.tokens.skip_argument()
        self._push_frame(Frame("args", self.stack[-1].font, "\\genfrac", 2))
        self.stack[-1].option = [Symbol(name or "") for name in brackets]

    def _read_delimiter(self, piece: str) -> None:
        next_ = self.tokens.peek()
        self.tokens.at += bool(next_)
        name = "" if next_ in (".", "") else _ANGLES.get(next_) or commands.label(next_)
        if name is None:
            self._note_fault(f"unknown command {next_[:20]}")
            name = ERROR
        if piece == "\\left":
            self._open_frame("left", name)
            return
        self._fill()
        if self.stack[-1].kind != "left":
            self._note_fault(UNMATCHED)
            self._deliver([Symbol(name or BLANK)])
            return
        frame = self.stack.pop()
        parts = groups.settled(frame) if frame.infix is None else [groups.row_of(frame)]
        self._deliver(groups.fence(frame.name, parts, name))

    def _read_environment(self, piece: str) -> None:
        name = self.tokens.raw().strip()
        if piece == "\\end":
            self._close("env", name)
            return
        self.tokens.skip_option()
        columns = self.tokens.raw() if name in commands.COLUMNS else ""
        self._open_frame("env", name)
        if name == "array":
            self.stack[-1].columns = len(_COLUMN.findall(columns))

    def _cell(self, piece: str) -> None:
        """Ends a cell (`&`) or a row of cells."""
        self._fill()
        while self.stack[-1].kind == "left" and any(frame.is_table() for frame in self.stack):
            self._note_fault(UNMATCHED)
            self._abandon()
        frame = self.stack[-1]
        if frame.is_table():
            frame.cells.append(groups.row_of(frame))
            frame.clear()
            frame.infix = None
            if piece != "&":
                frame.rows.append(frame.cells)
                frame.cells = []
                self.tokens.skip_option()
        elif piece == "&":
            self._deliver([Symbol("V!&")])
