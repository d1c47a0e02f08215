r"""Parses the sources of the Stacks project: chapters in LaTeX, their order in a `Makefile`, and a file of tags.

Tags are permanent: `0A1B,limits-lemma-affine` assigns 0A1B to the lemma `\label{lemma-affine}` of the chapter `limits`.
In a chapter, `\ref{lemma-affine}` refers to the chapter's own label, `\ref{schemes-lemma-x}` to another chapter's.

Converts LaTeX sources to plain text with formulas: removes comments and text markup, and expands macros.

Within formulas, only macros, labels and blanks are changed. References (`\ref`, `\cite`) are removed: the printed page
shows a number there, and the label would reveal the relevant document.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import NamedTuple

from harness.errors import format_error
from harness.io.files import decoded, read_bytes

Macros = Mapping[str, str]
Expand = Callable[[str], str]

_VERBATIM = re.compile(r"(\\begin\{verbatim\})(.*?)(\\end\{verbatim\})", re.DOTALL)
_COMMENT = re.compile(r"(?<!\\)((?:\\\\)*)%.*")
_DEFINITION = re.compile(r"^\\def\\([A-Za-z]+)\{(.*)\}\s*$", re.MULTILINE)
_OPERATOR = re.compile(r"\\mathop\{\\mathrm\{([A-Za-z]+)\}\}(?:\\nolimits)?")
_KNOWN = ("lim",)  # macros that LaTeX itself defines with the same meaning
# Environments that are formulas. Formulas within \text{} in $$ are not found, which is rare and harmless.
_DISPLAYED = "equation|align|eqnarray|gather|multline"
_FORMULA = re.compile(
    rf"\$\$(?P<display>.*?)\$\$|\$(?P<inline>(?:[^$\\]|\\.)+)\$|\\\[(?P<square>.*?)\\\]|\\\((?P<round>.*?)\\\)"
    rf"|\\begin\{{(?P<name>(?:{_DISPLAYED})\*?)\}}(?P<inner>.*?)\\end\{{(?P=name)\}}",
    re.DOTALL,
)
_LABEL = re.compile(r"\\label\{[^{}]*\}")
_REFERENCE = re.compile(r"~?\(\\(?:eq)?ref\{[^{}]*\}\)|~?\\(?:eqref|ref|pageref|cite)(?:\[[^\]]*\])?\{[^{}]*\}")
_BLANKS = re.compile(r"\s+")
_MARKS = {"'": "\u0301", "`": "\u0300", "^": "\u0302", '"': "\u0308", "~": "\u0303", "=": "\u0304", ".": "\u0307"}
_LETTER_MARKS = {"v": "\u030c", "c": "\u0327", "H": "\u030b", "u": "\u0306", "k": "\u0328", "r": "\u030a"}
_ACCENT = re.compile(
    r"""\\(?:(['`^"~=.])\s*|([vcHukr])(?:\s+|(?=\{)))"""  # the mark
    r"""(?:\{\s*\\?([A-Za-z])\s*\}|\\([ij])(?![A-Za-z])|([A-Za-z]))"""  # the letter
)
_SIGNS = {"S": "§", "ss": "ß", "o": "ø", "O": "Ø", "l": "ł", "L": "Ł", "ae": "æ", "AE": "Æ", "aa": "å", "AA": "Å",
          "ldots": "...", "dots": "...", "i": "i", "j": "j"}  # fmt: skip
_SIGN = re.compile(r"\\(" + "|".join(sorted(_SIGNS, key=len, reverse=True)) + r")(?![A-Za-z])(?:\{\}|[ \t])?")
_LINK = re.compile(r"\\(?:href|hyperref)(?:\[[^\]]*\])?\{[^{}]*\}(?=\{)|\\url\{[^{}]*\}")
_FOOTNOTE = re.compile(r"\\footnote\s*\{((?:[^{}]|\{[^{}]*\})*)\}")
_ENVIRONMENT = re.compile(r"\\(?:begin|end)\{[^{}]*\}|\\item\s*(?:\[[^\]]*\])?|\\\\(?:\[[^\]]*\])?")
_COMMAND = re.compile(r"\\[A-Za-z]+\*?|\\[ ,;:!/@-]")
_ESCAPED = re.compile(r"\\([&%#_$])")
_SPACE_BEFORE = re.compile(r" +(?=[,.;:)])")
_HELD = re.compile("\x00([0-9]+)\x00")


def without_comments(text: str) -> str:
    r"""Returns the text without comments and `verbatim` content; line numbers are preserved.

    Examples
    --------
    >>> without_comments("a 100\\% % note\nb")
    'a 100\\% \nb'
    """
    if "verbatim" in text:
        text = _VERBATIM.sub(lambda match: match[1] + "\n" * match[2].count("\n") + match[3], text)
    return _COMMENT.sub(r"\1", text)


def definitions(preamble: str) -> dict[str, str]:
    r"""Returns macro -> definition, for macros without arguments that a preamble defines by `\def`.

    Operators defined with `\mathop` are rewritten as the equivalent `\operatorname`, which formula parsers know.

    Examples
    --------
    >>> definitions("\\def\\Spec{\\mathop{\\mathrm{Spec}}}\n\\def\\QCoh{\\mathit{QCoh}}")
    {'Spec': '\\operatorname{Spec}', 'QCoh': '\\mathit{QCoh}'}
    """
    macros = _DEFINITION.findall(without_comments(preamble))
    return {name: _OPERATOR.sub(r"\\operatorname{\1}", body) for name, body in macros if name not in _KNOWN}


def expander(macros: Macros) -> Expand:
    r"""Returns a function that expands macros, adding braces if the macro is a sub- or superscript.

    Examples
    --------
    >>> expander({"etale": "{\\acute{e}tale}", "Ob": "\\operatorname{Ob}"})("X_\\etale, A^\\Ob, \\Ob(C)")
    'X_{\\acute{e}tale}, A^{\\operatorname{Ob}}, \\operatorname{Ob}(C)'
    """
    if not macros:
        return str
    names = "|".join(sorted(macros, key=len, reverse=True))
    pattern = re.compile(rf"([_^]?)\\({names})(?![A-Za-z])")

    def meant(match: re.Match[str]) -> str:
        body = macros[match[2]]
        return f"{match[1]}{{{body}}}" if match[1] and not body.startswith("{") else match[1] + body

    return lambda text: pattern.sub(meant, text)


def latex_to_text(source: str, expand: Expand = str) -> str:
    r"""Converts a passage without comments to one line of text, with formulas in dollars.

    Examples
    --------
    >>> first = "Let $X$ be {\\it nice}, see\nLemma \\ref{lemma-a}.\n"
    >>> latex_to_text(first + "\\begin{itemize}\n\\item \\'etale\n\\end{itemize}")
    'Let $X$ be nice, see Lemma. étale'
    """
    held: list[str] = []
    text = _FORMULA.sub(partial(_hold_formula, held), expand(source))
    text = _REFERENCE.sub("", _LABEL.sub("", text))
    text = _FOOTNOTE.sub(r" (\1)", text)
    text = _ACCENT.sub(_accented_letter, _ESCAPED.sub(r"\1", _LINK.sub("", text)))
    text = _COMMAND.sub(" ", _SIGN.sub(lambda match: _SIGNS[match[1]], _ENVIRONMENT.sub(" ", text)))
    text = text.replace("~", " ").replace("``", '"').replace("''", '"').replace("{", "").replace("}", "")
    text = _SPACE_BEFORE.sub("", _BLANKS.sub(" ", text)).strip()
    return _HELD.sub(lambda match: held[int(match[1])], text)


def _hold_formula(held: list[str], match: re.Match[str]) -> str:
    """Cleans a formula and adds it to `held`; returns its placeholder for processing the prose."""
    inner = next(match[name] for name in ("display", "inline", "square", "round", "inner") if match[name] is not None)
    inner = _BLANKS.sub(" ", _REFERENCE.sub("", _LABEL.sub("", inner))).strip()
    if not inner:
        return " "
    name = match["name"]
    if name and not name.startswith("equation"):
        inner = f"\\begin{{{name}}} {inner} \\end{{{name}}}"
    sign = "$" if match["inline"] is not None or match["round"] is not None else "$$"
    held.append(f"{sign}{inner}{sign}")
    return f"\x00{len(held) - 1}\x00"


def _accented_letter(match: re.Match[str]) -> str:
    mark = _MARKS.get(match[1] or "") or _LETTER_MARKS[match[2]]
    return unicodedata.normalize("NFC", (match[3] or match[4] or match[5]) + mark)


KINDS = (
    "lemma", "proposition", "theorem", "definition", "example", "remark", "remarks", "situation", "exercise",
)  # fmt: skip
ASIDES = ("slogan", "history", "reference")
PROOF = "proof"
MAKEFILE, PREAMBLE, TAGS = "Makefile", "preamble.tex", "tags/tags"

_ORDER = re.compile(r"^LIJST\s*=((?:[^\n]*\\\n)*[^\n]*)", re.MULTILINE)
_EVENT = re.compile(r"\\(begin|end|label|ref|eqref|section|title)\s*\{((?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*)\}")
_OPTION = re.compile(r"\s*\[((?:[^\[\]{}]|\{(?:[^{}]|\{[^{}]*\})*\}|\[[^\[\]]*\])*)\]")
_TAG = re.compile(r"[0-9A-Z]{4}")


class BookReference(NamedTuple):
    """Reference: its label as written, and its line."""

    label: str
    line: int


@dataclass(frozen=True)
class BookPassage:
    """Passage of a chapter: LaTeX without comments and asides, and its references in order."""

    source: str
    references: tuple[BookReference, ...]


@dataclass(frozen=True)
class Statement:
    """Tagged statement of a chapter: a lemma, definition, remark ...

    Attributes
    ----------
    label : label in its chapter; `labels` has all labels within the statement, its own first.
    title : optional argument of the environment, such as `Nakayama's lemma`; LaTeX.
    proofs : proofs between this statement and the next one.
    asides : slogan, history and references, if any; LaTeX.
    """

    tag: str
    kind: str
    chapter: str
    section: str
    label: str
    labels: tuple[str, ...]
    line: int
    title: str
    text: BookPassage
    proofs: tuple[BookPassage, ...]
    asides: Mapping[str, str]


@dataclass(frozen=True)
class Book:
    """All tagged statements in book order.

    Attributes
    ----------
    chapters : name of chapter -> title (LaTeX), in book order.
    remarks : counts of irregularities.
    """

    statements: tuple[Statement, ...]
    chapters: Mapping[str, str]
    expand: Expand
    remarks: Mapping[str, int]
    _labels: Mapping[tuple[str, str], str]  # (chapter, label), for all labels -> tag of the statement, or ""
    _full: Mapping[str, tuple[str, str]]  # CHAPTER-LABEL -> chapter and label

    def cited(self, chapter: str, passage: BookPassage) -> tuple[str, ...]:
        """Returns the distinct tags of statements that a passage refers to; labels within a statement count for it."""
        tags = (self._tag(chapter, reference.label) for reference in passage.references)
        return tuple(dict.fromkeys(tag for tag in tags if tag))

    def _tag(self, chapter: str, label: str) -> str | None:
        """Returns the tag of the statement that contains a label, or ""; None for an unknown label."""
        own = (chapter, label)
        return self._labels.get(own if own in self._labels else self._full.get(label, own))

    def plain(self, source: str) -> str:
        """Returns LaTeX as text with formulas in dollars, macros expanded."""
        return latex_to_text(source, self.expand)


def read_book(folder: Path) -> Book:
    """Reads the book in a folder: `Makefile`, `preamble.tex`, `tags/tags` and the chapters; cached until files change.

    Raises
    ------
    FormatError
        A file cannot be read or is not UTF-8, the order or a tag is malformed, or environments of a chapter are not
        properly nested; the message names the line.
    """
    chapters = [folder / f"{name}.tex" for name in _chapter_order(folder / MAKEFILE)]
    files = (folder / MAKEFILE, folder / PREAMBLE, folder / TAGS, *chapters)
    return _read_book(folder, tuple(_time_and_size(path) for path in files))


def _time_and_size(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except OSError as error:
        raise format_error(path, 0, f"cannot be read: {error.strerror or error}") from None
    return status.st_size, status.st_mtime_ns


@lru_cache(maxsize=1)
def _read_book(folder: Path, _: object) -> Book:
    order = _chapter_order(folder / MAKEFILE)
    tags = _tags(folder / TAGS)
    expand = expander(definitions(_text(folder / PREAMBLE)))
    remarks: Counter[str] = Counter()
    statements: list[Statement] = []
    tagged: set[str] = set()
    labels: dict[tuple[str, str], str] = {}
    full: dict[str, tuple[str, str]] = {}
    titles: dict[str, str] = {}
    for name in order:
        chapter = _Chapter(folder / f"{name}.tex")
        titles[name] = chapter.title
        remarks["proofs before any statement (left out)"] += chapter.stray
        made = [located.statement(name, tags) for located in chapter.found]
        remarks["statements without a tag (left out)"] += sum(not one.tag for one in made)
        remarks["statements with the tag of an earlier one (left out)"] += _left_out(made, tagged)
        statements += (one for one in made if one.tag)
        for label, at in chapter.labels:
            remarks["labels that occur twice in a chapter (the first counts)"] += (name, label) in labels
            labels.setdefault((name, label), made[at].tag if at >= 0 else "")
            full.setdefault(f"{name}-{label}", (name, label))
    book = Book(tuple(statements), titles, expand, {}, labels, full)
    for one in statements:
        for passage in (one.text, *one.proofs):
            remarks["references"] += len(passage.references)
            remarks["references to nowhere"] += sum(
                book._tag(one.chapter, reference.label) is None for reference in passage.references
            )
    return Book(tuple(statements), titles, expand, dict(remarks), labels, full)


def _left_out(made: list[Statement], tagged: set[str]) -> int:
    """Clears the tags of statements whose tag is already in `tagged` and returns their number; adds all other tags."""
    count = 0
    for at, one in enumerate(made):
        if one.tag in tagged:
            made[at] = replace(one, tag="")
            count += 1
        elif one.tag:
            tagged.add(one.tag)
    return count


def _text(path: Path) -> str:
    data = read_bytes(path).replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if (at := data.find(b"\0")) >= 0:
        decoded(data[:at], path)
        raise format_error(path, data.count(b"\n", 0, at) + 1, "byte 0x00 is not UTF-8 text")
    return decoded(data, path)


def _chapter_order(path: Path) -> tuple[str, ...]:
    """Returns the names of the chapters in the order of the Makefile."""
    match = _ORDER.search(_text(path))
    names = match[1].replace("\\\n", " ").split() if match else []
    if not names:
        raise format_error(path, 0, "no list of chapters, expected a line such as 'LIJST = introduction conventions'")
    if len(set(names)) < len(names):
        raise format_error(path, 0, f"LIJST names chapter {Counter(names).most_common(1)[0][0]!r} twice")
    return tuple(names)


def _tags(path: Path) -> dict[str, str]:
    """Returns CHAPTER-LABEL -> tag."""
    out: dict[str, str] = {}
    seen: set[str] = set()
    for number, line in enumerate(_text(path).split("\n"), 1):
        if not line.strip() or line.startswith("#"):
            continue
        tag, _, label = line.strip().partition(",")
        if not _TAG.fullmatch(tag) or not label:
            raise format_error(
                path, number, f"{line.strip()!r:.60} is not a tag, expected such as '0A1B,limits-lemma-x'"
            )
        if tag in seen:
            raise format_error(path, number, f"tag {tag} is on an earlier line already")
        seen.add(tag)
        out.setdefault(label, tag)
    return out


# ---- a chapter --------------------------------------------------------------------------------------------------


@dataclass
class _Open:
    """Open environment: its start, its line, and the start of its content."""

    name: str
    line: int
    start: int
    inner: int


@dataclass
class _Found:
    """Statement or proof that is being read."""

    kind: str
    line: int
    section: str
    title: str
    labels: list[str] = field(default_factory=list)
    references: list[BookReference] = field(default_factory=list)
    cut: list[tuple[int, int]] = field(default_factory=list)  # spans of asides
    asides: dict[str, str] = field(default_factory=dict)
    text: BookPassage = BookPassage("", ())
    proofs: list[BookPassage] = field(default_factory=list)

    def statement(self, chapter: str, tags: Mapping[str, str]) -> Statement:
        """Returns the statement; its tag is "" if it has no label or the label has no tag."""
        label = self.labels[0] if self.labels else ""
        about = (tags.get(f"{chapter}-{label}", ""), self.kind, chapter, self.section, label, tuple(self.labels))
        return Statement(*about, self.line, self.title, self.text, tuple(self.proofs), self.asides)


class _Chapter:
    """Parser of a chapter."""

    def __init__(self, path: Path) -> None:
        self.title = ""
        self.found: list[_Found] = []
        self.labels: list[tuple[str, int]] = []  # label, index of the containing statement or -1
        self.stray = 0  # proofs before any statement
        self._path = path
        self._text = without_comments(_text(path))
        self._ends = [newline.start() for newline in re.finditer("\n", self._text)]
        self._stack: list[_Open] = []
        self._section = ""
        self._now: _Found | None = None  # the open statement or proof
        for event in _EVENT.finditer(self._text):
            self._handle_event(event[1], event[2], event)
        if self._stack:
            last = self._stack[-1]
            raise format_error(path, last.line, f"\\begin{{{last.name}}} is not closed before the end of the chapter")

    def _handle_event(self, what: str, value: str, event: re.Match[str]) -> None:
        """Handles a command of the chapter's text."""
        if what == "begin":
            self._begin_environment(value, event)
        elif what == "end":
            self._end_environment(value, event)
        elif what == "label":
            self._add_label(value)
        elif what == "section":
            self._section = value
        elif what == "title":
            self.title = value
        elif self._now is not None and not any(one.name in ASIDES for one in self._stack):
            self._now.references.append(BookReference(value, self._line_of(event)))

    def _line_of(self, event: re.Match[str]) -> int:
        return bisect_right(self._ends, event.start() - 1) + 1

    def _begin_environment(self, name: str, event: re.Match[str]) -> None:
        opened = _Open(name, self._line_of(event), event.start(), event.end())
        self._stack.append(opened)
        if name not in KINDS and name != PROOF:
            return
        if self._now is not None:
            reason = f"\\begin{{{name}}} stands within the {self._now.kind} that begins in line {self._now.line}"
            raise format_error(self._path, opened.line, reason)
        option = _OPTION.match(self._text, event.end())
        if option:
            opened.inner = option.end()
        self._now = _Found(name, opened.line, self._section, option[1] if option else "")

    def _end_environment(self, name: str, event: re.Match[str]) -> None:
        if not self._stack or self._stack[-1].name != name:
            reason = f"\\end{{{name}}} closes nothing"
            if self._stack:
                last = self._stack[-1]
                reason = f"\\end{{{name}}} where \\end{{{last.name}}} should be, for \\begin of line {last.line}"
            raise format_error(self._path, self._line_of(event), reason)
        opened, now = self._stack.pop(), self._now
        if now is not None and name in ASIDES:
            now.cut.append((opened.start, event.end()))
            now.asides[name] = f"{now.asides.get(name, '')} {self._text[opened.inner : event.start()]}".strip()
        elif now is not None and name == now.kind:
            self._now = None
            now.text = BookPassage(self._without(opened.inner, event.start(), now.cut), tuple(now.references))
            if name != PROOF:
                self.found.append(now)
            elif self.found:
                self.found[-1].proofs.append(now.text)
            else:
                self.stray += 1

    def _without(self, start: int, end: int, spans: Sequence[tuple[int, int]]) -> str:
        """Returns a part of the text without some spans."""
        parts = []
        for left, right in spans:
            parts.append(self._text[start:left])
            start = right
        return "".join((*parts, self._text[start:end]))

    def _add_label(self, name: str) -> None:
        now = None if self._now is None or self._now.kind == PROOF else self._now
        self.labels.append((name, -1 if now is None else len(self.found)))
        if now is not None:
            now.labels.append(name)
