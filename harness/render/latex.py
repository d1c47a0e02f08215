"""Renders a report as a LaTeX document for pdflatex, with tables in the style of papers."""

from __future__ import annotations

import functools
import math
import re
import sys
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import replace

from harness.render.model import (
    MARKS,
    ON_THE_PAGE,
    Block,
    Cell,
    Column,
    Content,
    Explorer,
    Facts,
    Figure,
    Prose,
    Table,
    visible,
)
from harness.render.table_parts import footnotes, header_groups, marks_used, numeral, symbols
from harness.render.texchars import ACCENTS, LATIN, TEX, spelled

Write = Callable[[str], str]

# Widths are in characters of the document's font size; a line has about 80, a page about 44 lines.
_LINE = 80
_PAGE = 40
_MOST = 150
_LONG_TEXT = 40
_LONG_WORD = 25
# Texts that stand for themselves, such as numbers and names of runs.
_LITERAL = re.compile(r"(?:[A-Za-z0-9 .:;/+()@]|-(?!-)){0,24}")

_PREAMBLE = r"""\documentclass[11pt]{article}
% So that letters of the PDF can be copied and searched, ligatures too:
\IfFileExists{cmap.sty}{\usepackage{cmap}}{}
\usepackage[T1]{fontenc}
\usepackage[utf8]{inputenc}
\IfFileExists{lmodern.sty}{\usepackage{lmodern}}{}
\usepackage[a4paper,margin=25mm]{geometry}
% The tables need these:
\usepackage{amsmath,amssymb,array,booktabs,graphicx}
\setlength{\belowcaptionskip}{6pt}
\setlength{\emergencystretch}{3em}
\makeatletter
% A table or a figure that stays where it is and may break between its parts; the argument is what its caption counts.
% A page does not end below a caption, unless the caption is long.
\newenvironment{inplace}[1]{\par\addvspace{\bigskipamount}\newcommand{\@captype}{#1}\centering
  \let\plaincaption\@makecaption
  \renewcommand{\@makecaption}[2]{\setbox\@tempboxa\vbox{\plaincaption{##1}{##2}}%
    \ifdim\ht\@tempboxa<.12\textheight\box\@tempboxa\else\unvbox\@tempboxa\fi}}%
  {\par\addvspace{\bigskipamount}}
\makeatother
% Content that is scaled down if it is wider than the line or higher than the page.
\newsavebox{\fitbox}
\newcommand{\fit}[1]{\sbox{\fitbox}{#1}%
  \ifdim\wd\fitbox>\linewidth\sbox{\fitbox}{\resizebox{\linewidth}{!}{\usebox{\fitbox}}}\fi
  \ifdim\dimexpr\ht\fitbox+\dp\fitbox\relax>.85\textheight
    \sbox{\fitbox}{\resizebox*{!}{.85\textheight}{\usebox{\fitbox}}}\fi
  \usebox{\fitbox}}
"""
_HEADINGS = {2: "section", 3: "subsection", 4: "subsubsection"}
_SYMBOLS = {
    "baseline": r"\dagger",
    "better": r"\blacktriangle",
    "worse": r"\blacktriangledown",
    "nominally-better": r"\vartriangle",
    "nominally-worse": r"\triangledown",
    "lowest": r"\downarrow",
    "chosen": r"\ddagger",
    "exact": r"\checkmark",
    "close": r"\approx",
    "within": r"\in",
    "differs": r"\neq",
    "needs": r"\oplus",
    "not-implemented": r"\ominus",
    "blocked": r"\oslash",
    "missing": r"\varnothing",
}


# Packages that a table may need in its document -> pattern of the commands that need them.
_PACKAGES = {
    "{booktabs}": r"\\toprule",
    "{array}": r"[<>]\{",
    "{amssymb}": r"\\(?:mathbb|varnothing|checkmark|nexists|nmid|therefore|because|bigstar|Box|black[a-z]+"
    r"|vartriangle|triangledown)\b",
    "[T1]{fontenc}": r"[^\x00-\x7f]|\\(?:textquotedbl|quotedblbase|quotesinglbase|guil[a-z]+|k|d)\b",
}


def render_latex(report: Content) -> str:
    """Renders a report as a LaTeX document that pdflatex compiles and whose tables can be copied into a paper.

    The best value is bold; other marks are superscripts, explained in the caption together with the table's notes.
    """
    labels = report.labels()
    parts = [
        _PREAMBLE,
        f"\\title{{{escape_latex(report.title)}}}\n\\author{{}}\n\\date{{}}\n\\begin{{document}}\n\\maketitle",
    ]
    if report.headline:
        parts.append(f"\\begin{{abstract}}\n{escape_latex(report.headline)}\n\\end{{abstract}}")
    for section in report.sections:
        parts.append(f"\\{_HEADINGS[section.level]}{{{escape_latex(section.title)}}}")
        for block in section.blocks:
            parts += _render_block(block, labels)
    return "\n\n".join([*parts, "\\end{document}\n"])


def render_table(table: Table) -> str:
    """Renders a table for `\\input` into a paper: the bare tabular, with packages, caption and notes as comments.

    The table has its natural width, is neither scaled nor split, and words are not broken.
    """
    letters = footnotes(table)
    shares = _prose_shares(table).items()
    prose = {index: share for index, share in shares if any(" " in row[index].text for row in table.rows)}
    body = _tabular(table, letters, prose, escape_unbroken)
    needed = [package for package, commands in _PACKAGES.items() if re.search(commands, body)]
    lines = ["Needs " + ", ".join(f"\\usepackage{package}" for package in needed) + ".", "Around it:"]
    lines += [f"\\caption{{{_caption(table, escape_unbroken)}}}", f"\\label{{tab:{table.id}}}"]
    if letters:
        notes = [f"  \\item[{letter}] {escape_unbroken(note)}" for note, letter in letters.items()]
        lines += ["Below it, with threeparttable:", r"\begin{tablenotes}", *notes, r"\end{tablenotes}"]
    return "".join(f"% {line}\n" for line in lines) + body + "\n"


def escape_latex(text: str) -> str:
    """Escapes plain text for LaTeX; no character acts as a command, and none is lost silently.

    Up to three characters without a glyph in pdflatex become their codes, a longer passage its script and length.
    """
    return _escaped(text, _LONG_WORD)


def escape_unbroken(text: str) -> str:
    """Escapes plain text as `escape_latex`, without breaks in long words: for what others copy, such as BibTeX."""
    return _escaped(text, sys.maxsize)


def _escaped(text: str, longest: int) -> str:
    if _LITERAL.fullmatch(text):
        return text
    shown = spelled(unicodedata.normalize("NFC", visible(text)), lambda char: _char(char) is not None)
    return " ".join(_breakable_word(word, longest) for word in shown.split(" "))


def _breakable_word(word: str, longest: int) -> str:
    parts: list[str] = []
    for index, char in enumerate(word):
        # Checksums and paths must be breakable; doubled, these characters would form a ligature.
        if index and index % 8 == 0 and len(word) >= longest:
            parts.append(r"\allowbreak{}")
        elif char in "-'," and index and word[index - 1] == char:
            parts.append("{}")
        parts.append(_char(char) or "")
    return "".join(parts)


@functools.cache
def _char(char: str) -> str | None:
    """Returns one character in LaTeX, or None if pdflatex has no glyph for it."""
    if char in TEX:
        return TEX[char]
    if " " <= char <= "~" or char in LATIN:
        return char
    if char.isspace():
        return " "
    split = unicodedata.normalize("NFD", char)
    if split[0].isascii() and split[0].isalpha() and all(mark in ACCENTS for mark in split[1:]):
        return functools.reduce(lambda form, mark: f"{ACCENTS[mark]}{{{form}}}", split[1:], split[0])
    plain = unicodedata.normalize("NFKD", char)
    if plain != char and plain.isascii() and plain.isalnum():
        return plain
    return None


def _render_block(block: Block, labels: dict[str, str]) -> list[str]:
    match block:
        case Prose(paragraphs):
            return [escape_latex(paragraph) for paragraph in paragraphs]
        case Facts(items):
            lines = [f"\\item[{{{escape_latex(name)}}}] {escape_latex(value)}" for name, value in items]
            return ["\n".join([r"{\raggedright\begin{description}", *lines, r"\end{description}}"])] if lines else []
        case Table():
            return [_render_table(block)]
        case Explorer():
            return [_render_table(table) for table in block.tables] or [escape_latex(ON_THE_PAGE)]
        case Figure():
            return [_figure(block, labels[block.id])]


def _figure(figure: Figure, label: str) -> str:
    """Renders a figure, and its numbers below it; the drawing is a separate file, named where it is missing."""
    drawing = f"figures/{figure.id}.pdf"
    missing = f"The drawing of this figure is figures/{figure.id}.svg; for {drawing}, write the report also as pdf."
    lines = [
        r"\begin{inplace}{figure}",
        f"\\IfFileExists{{{drawing}}}{{\\fit{{\\includegraphics[width=\\linewidth]{{{drawing}}}}}}}"
        f"{{\\fbox{{\\parbox{{.8\\linewidth}}{{\\centering {escape_latex(missing)}}}}}}}",
        f"\\par\\nopagebreak\\caption{{{_ended_sentence(escape_latex(figure.caption))}}}",
        f"\\label{{fig:{figure.id}}}",
        r"\end{inplace}",
    ]
    if figure.table is not None:
        caption = f"\\parbox{{\\linewidth}}{{Numbers of {label}. {_caption(figure.table, escape_latex)}}}"
        lines += ["", r"\begin{inplace}{table}", caption, _tabulars(figure.table), r"\end{inplace}"]
        lines += _render_footnotes(figure.table)
    return "\n".join(lines)


def _render_table(table: Table) -> str:
    caption = f"\\caption{{{_caption(table, escape_latex)}}}"
    if table.label:  # LaTeX would number it
        caption = f"\\parbox{{\\linewidth}}{{{escape_latex(table.label)}. {_caption(table, escape_latex)}}}"
    head = [r"\begin{inplace}{table}", caption, f"\\label{{tab:{table.id}}}"]
    return "\n".join([*head, _tabulars(table), r"\end{inplace}", *_render_footnotes(table)])


def _caption(table: Table, write: Write) -> str:
    """Returns the caption, the legend of the marks used, and the notes, as sentences."""
    legend = [f"{_mark_symbol(name)}: {MARKS[name].meaning}" for name in marks_used(table)]
    sentences = [write(table.caption), "; ".join(legend), *(write(note) for note in table.notes)]
    return " ".join(_ended_sentence(sentence) for sentence in sentences if sentence)


def _ended_sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _mark_symbol(mark: str) -> str:
    return f"$^{{{_SYMBOLS[mark]}}}$" if mark in _SYMBOLS else r"\textbf{bold}"


def _render_footnotes(table: Table) -> list[str]:
    notes = [f"\\textsuperscript{{{letter}}}\\,{escape_latex(note)}" for note, letter in footnotes(table).items()]
    return [f"\n{{\\footnotesize {'; '.join(notes)}\\par}}"] if notes else []


def _tabulars(table: Table) -> str:
    """Renders the table in parts that fit the page, first by columns and then by rows; each is scaled if necessary."""
    parts = []
    letters = footnotes(table)
    for columns, part in enumerate(_parts(table)):
        for rows, some in enumerate(_pages(part)):
            said = "more rows" if rows else "more columns" if columns else ""
            above = f"\\par\\medskip{{\\small ({said})}}" if said else ""
            parts.append(
                f"{above}\\par\\nopagebreak\n\\fit{{%\n{_tabular(some, letters, _prose_shares(part), escape_latex)}}}"
            )
    return "\n".join(parts)


def _pages(table: Table) -> list[Table]:
    """Splits a table between rows, so that no part is higher than a page."""
    widths, prose = _widths(table), _prose_shares(table)
    most = _PAGE * max(1.0, sum(widths) / _LINE)  # a wide table is scaled down
    groups: list[list[tuple[Cell, ...]]] = [[]]
    used = 0
    for row in table.rows:
        lines = max([1, *(math.ceil(1.2 * len(visible(row[at].text)) / widths[at]) for at in prose)])
        if groups[-1] and used + lines > most:
            groups.append([])
            used = 0
        groups[-1].append(row)
        used += lines
    return [replace(table, rows=tuple(rows)) for rows in groups]


def _tabular(table: Table, letters: dict[str, str], prose: Mapping[int, float], write: Write) -> str:
    """Returns a table's `tabular` environment with its head and rows."""
    head = f"\\begin{{tabular}}{{{_column_spec(table, prose)}}}\n\\toprule\n{_render_heads(table, write)}\n\\midrule"
    return "\n".join([head, *_render_rows(table, letters, write), r"\bottomrule", r"\end{tabular}"])


def _parts(table: Table) -> list[Table]:
    """Splits a table between columns, in parts of about the same width, if it is too wide to read.

    Each part repeats the row headers.
    """
    widths, first = _widths(table), table.row_headers
    room = max(_MOST - sum(widths[:first]), _LINE)
    many = math.ceil(sum(widths[first:]) / room)
    if many <= 1:
        return [table]
    share = sum(widths[first:]) / many
    groups: list[list[int]] = [[] for _ in range(many)]
    used = 0.0
    for index in range(first, len(widths)):
        # By the middle of the column, so that the last part is not what is left over.
        groups[min(many - 1, int((used + widths[index] / 2) / share))].append(index)
        used += widths[index]
    kept = [[*range(first), *group] for group in groups if group]
    return [
        replace(
            table,
            columns=tuple(table.columns[index] for index in chosen),
            rows=tuple(tuple(row[index] for index in chosen) for row in table.rows),
        )
        for chosen in kept
    ]


def _longest_cell(table: Table, index: int) -> int:
    cells = (len(visible(row[index].text)) for row in table.rows)
    return max(len(visible(table.columns[index].title)), max(cells, default=0))


def _prose_shares(table: Table) -> dict[int, float]:
    """Returns the text columns that are set as paragraphs: index -> share of the line's width.

    They share what the others leave, at least half a line, by the square roots of their mean lengths; none gets less
    than its longest unbreakable word, or more than its longest text.
    """
    longest = [_longest_cell(table, index) for index in range(len(table.columns))]
    prose = [at for at, column in enumerate(table.columns) if column.kind == "text" and longest[at] > _LONG_TEXT]
    left = max(_LINE / 2, _LINE - sum(size + 2 for at, size in enumerate(longest) if at not in prose))
    texts = {at: [visible(row[at].text) for row in table.rows] for at in prose}
    weights = {at: math.sqrt(sum(map(len, of)) / max(1, len(of))) + 1 for at, of in texts.items()}
    words = {
        at: [len(word) for text in of for word in text.split() if len(word) < _LONG_WORD] for at, of in texts.items()
    }
    return {
        at: round(min(longest[at] + 2, max(left * weights[at] / sum(weights.values()), *words[at], 8)) / _LINE, 2)
        for at in prose
    }


def _widths(table: Table) -> list[float]:
    """Returns the width of each column, in characters."""
    prose = _prose_shares(table)
    return [
        prose[index] * _LINE if index in prose else _longest_cell(table, index) + 2 + 0.7 * _room(table, index)
        for index in range(len(table.columns))
    ]


def _room(table: Table, index: int) -> int:
    """Returns the most superscripts in a cell of a number column; this space aligns the digits."""
    if table.columns[index].kind == "text":
        return 0
    return max((len(symbols(row[index])) + bool(row[index].note) for row in table.rows), default=0)


def _column_spec(table: Table, prose: Mapping[int, float]) -> str:
    spec = []
    for index, column in enumerate(table.columns):
        room = _room(table, index)
        if index in prose:
            spec.append(f">{{\\raggedright\\arraybackslash}}p{{{prose[index]}\\textwidth}}")
        elif column.kind == "text":
            spec.append("l")
        else:
            spec.append(f"r<{{\\hspace{{{5 * room}pt}}}}" if room else "r")
    return "".join(spec)


def _render_heads(table: Table, write: Write) -> str:
    titles = " & ".join(write(column.title) for column in table.columns) + r" \\"
    if not any(column.group for column in table.columns):
        return titles
    spans, rules, start = [], [], 1
    for group, span in header_groups(table):
        spans.append(f"\\multicolumn{{{span}}}{{c}}{{{write(group)}}}" if group else "")
        if group:
            rules.append(f"\\cmidrule(lr){{{start}-{start + span - 1}}}")
        start += span
    return f"{' & '.join(spans)} \\\\\n{' '.join(rules)}\n{titles}"


def _render_rows(table: Table, letters: dict[str, str], write: Write) -> list[str]:
    columns = table.columns
    return [
        " & ".join(_cell(cell, column, letters, write) for cell, column in zip(row, columns, strict=True)) + r" \\"
        for row in table.rows
    ] or [f"\\multicolumn{{{len(columns)}}}{{l}}{{no rows}} \\\\"]


def _cell(cell: Cell, column: Column, letters: dict[str, str], write: Write) -> str:
    """Returns a cell as LaTeX, with its marks and the letter of its note."""
    is_number = column.kind == "number"
    text = write(numeral(cell, column))
    if "best" in cell.marks:
        text = f"\\textbf{{{text}}}"
    raised = " ".join(_SYMBOLS[name] for name in symbols(cell))
    if cell.note:
        raised += f"\\mathrm{{{letters[cell.note]}}}"
    if not raised:
        return text
    return f"{text}\\rlap{{$^{{{raised}}}$}}" if is_number else f"{text}$^{{{raised}}}$"
