"""Renders a report as a LaTeX document for pdflatex, with tables in the style of papers."""

from __future__ import annotations

import functools
import re
import sys
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import replace

from harness.render.model import (
    MARKS,
    ON_THE_PAGE,
    Block,
    Cell,
    Content,
    Explorer,
    Facts,
    Figure,
    Table,
    Text,
    footnotes,
    header_groups,
    marks_used,
    spelled,
    symbols,
    visible,
)
from harness.render.texchars import ACCENTS, LATIN, TEX

Write = Callable[[str], str]

# Widths are in characters of the document's font size; a line has about 80.
_LINE = 80
_MOST = 170
_LONG_TEXT = 40
_LONG_TABLE = 36
_LONG_WORD = 25
# Texts that stand for themselves, such as numbers and names of runs.
_LITERAL = re.compile(r"(?:[A-Za-z0-9 .:;/+()@]|-(?!-)){0,24}")

_PREAMBLE = r"""\documentclass[11pt]{article}
\usepackage[T1]{fontenc}
\usepackage[utf8]{inputenc}
\IfFileExists{lmodern.sty}{\usepackage{lmodern}}{}
\usepackage[a4paper,margin=25mm]{geometry}
% The tables need these:
\usepackage{amsmath,amssymb,array,booktabs,graphicx,longtable}
\IfFileExists{placeins.sty}{\usepackage[section]{placeins}}{}
% A report may have more tables in a row than LaTeX expects of a paper.
\extrafloats{1000}
\maxdeadcycles=1000
\setlength{\LTcapwidth}{\textwidth}
\setlength{\belowcaptionskip}{6pt}
\setlength{\emergencystretch}{3em}
"""
_HEADINGS = {2: "section", 3: "subsection", 4: "subsubsection"}
_SYMBOLS = {
    "baseline": r"\dagger",
    "better": r"\blacktriangle",
    "worse": r"\blacktriangledown",
    "nominally-better": r"\vartriangle",
    "nominally-worse": r"\triangledown",
    "chosen": r"\ddagger",
    "exact": r"\checkmark",
    "close": r"\approx",
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
        f"\\title{{{escape(report.title)}}}\n\\author{{}}\n\\date{{}}\n\\begin{{document}}\n\\maketitle",
    ]
    if report.headline:
        parts.append(f"\\begin{{abstract}}\n{escape(report.headline)}\n\\end{{abstract}}")
    for section in report.sections:
        parts.append(f"\\{_HEADINGS[section.level]}{{{escape(section.title)}}}")
        for block in section.blocks:
            parts += _block(block, labels)
    return "\n\n".join([*parts, "\\end{document}\n"])


def render_table(table: Table) -> str:
    """Renders a table for `\\input` into a paper: the bare tabular, with packages, caption and notes as comments.

    The table has its natural width, is neither scaled nor split, and words are not broken.
    """
    letters = footnotes(table)
    prose = [index for index in _prose(table) if any(" " in row[index].text for row in table.rows)]
    body = _tabular(table, letters, prose, _unbroken)
    needed = [package for package, commands in _PACKAGES.items() if re.search(commands, body)]
    lines = ["Needs " + ", ".join(f"\\usepackage{package}" for package in needed) + ".", "Around it:"]
    lines += [f"\\caption{{{_caption(table, _unbroken)}}}", f"\\label{{tab:{table.id}}}"]
    if letters:
        notes = [f"  \\item[{letter}] {_unbroken(note)}" for note, letter in letters.items()]
        lines += ["Below it, with threeparttable:", r"\begin{tablenotes}", *notes, r"\end{tablenotes}"]
    return "".join(f"% {line}\n" for line in lines) + body + "\n"


def escape(text: str) -> str:
    """Escapes plain text for LaTeX; no character acts as a command, and none is lost silently.

    Up to three characters without a glyph in pdflatex become their codes, a longer passage its script and length.
    """
    return _escaped(text, _LONG_WORD)


def _unbroken(text: str) -> str:
    """Escapes plain text as `escape`, without allowing breaks in long words."""
    return _escaped(text, sys.maxsize)


def _escaped(text: str, longest: int) -> str:
    if _LITERAL.fullmatch(text):
        return text
    shown = spelled(unicodedata.normalize("NFC", visible(text)), lambda char: _char(char) is not None)
    return " ".join(_word(word, longest) for word in shown.split(" "))


def _word(word: str, longest: int) -> str:
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


def _block(block: Block, labels: dict[str, str]) -> list[str]:
    match block:
        case Text(paragraphs):
            return [escape(paragraph) for paragraph in paragraphs]
        case Facts(items):
            lines = [f"\\item[{{{escape(name)}}}] {escape(value)}" for name, value in items]
            return ["\n".join([r"{\raggedright\begin{description}", *lines, r"\end{description}}"])] if lines else []
        case Table():
            return [_table(block)]
        case Explorer():
            return [_table(table) for table in block.tables] or [escape(ON_THE_PAGE)]
        case Figure():
            return [_figure(block, labels[block.id])]


def _figure(figure: Figure, label: str) -> str:
    """Renders a figure and its numbers; the drawing is a separate file, included if it exists."""
    table = figure.table
    drawing = f"figures/{figure.id}.pdf"
    source = ""
    lines = [r"\begin{figure}[!htbp]", r"\centering"]
    lines.append(f"\\IfFileExists{{{drawing}}}{{\\includegraphics[width=\\linewidth]{{{drawing}}}}}{{}}")
    after = ""
    if table is not None and len(table.rows) <= _LONG_TABLE:
        lines += [r"\par\medskip", _tabulars(table), _footnotes(table)]
        source = f" The numbers: {_caption(table, escape)}"
    elif table is not None:
        after = "\n\n" + _longtables(table, f"\\caption*{{Numbers of {label}. {_caption(table, escape)}}}")
    lines += [
        f"\\caption{{{_sentence(escape(figure.caption))}{source}}}",
        f"\\label{{fig:{figure.id}}}",
        r"\end{figure}",
    ]
    return "\n".join(line for line in lines if line) + after


def _table(table: Table) -> str:
    label = f"\\label{{tab:{table.id}}}"
    if len(table.rows) > _LONG_TABLE:
        return _longtables(table, f"\\caption{{{_caption(table, escape)}}}{label}")
    head = [r"\begin{table}[!htbp]", r"\centering", f"\\caption{{{_caption(table, escape)}}}", label]
    return "\n".join(line for line in [*head, _tabulars(table), _footnotes(table), r"\end{table}"] if line)


def _caption(table: Table, write: Write) -> str:
    """Returns the caption, the legend of the marks used, and the notes, as sentences."""
    legend = [f"{_symbol(name)}: {MARKS[name].meaning}" for name in marks_used(table)]
    sentences = [write(table.caption), "; ".join(legend), *(write(note) for note in table.notes)]
    return " ".join(_sentence(sentence) for sentence in sentences if sentence)


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _symbol(mark: str) -> str:
    return f"$^{{{_SYMBOLS[mark]}}}$" if mark in _SYMBOLS else r"\textbf{bold}"


def _footnotes(table: Table) -> str:
    notes = [f"\\textsuperscript{{{letter}}}\\,{escape(note)}" for note, letter in footnotes(table).items()]
    return (
        f"\\par\\medskip\n\\begin{{minipage}}{{\\linewidth}}\\footnotesize\n{'; '.join(notes)}\n\\end{{minipage}}"
        if notes
        else ""
    )


def _tabulars(table: Table) -> str:
    """Renders the table in parts that fit the page; a part that is too wide is scaled down."""
    parts = []
    letters = footnotes(table)
    for part in _parts(table):
        body = _tabular(part, letters, _prose(part), escape)
        width = sum(_widths(part))
        if width > _LINE * 1.15:
            body = f"\\resizebox{{\\textwidth}}{{!}}{{%\n{body}}}"
        elif width > _LINE:
            body = f"{{\\small\n{body}}}"
        parts.append(body)
    return "\n\\par\\bigskip\n".join(parts)


def _tabular(table: Table, letters: dict[str, str], prose: Sequence[int], write: Write) -> str:
    head = f"\\begin{{tabular}}{{{_spec(table, prose)}}}\n\\toprule\n{_heads(table, write)}\n\\midrule"
    return "\n".join([head, *_rows(table, letters, write), r"\bottomrule", r"\end{tabular}"])


def _longtables(table: Table, caption: str) -> str:
    """Renders a table over several pages, in parts that fit the page's width, with a font size for each part."""
    parts = []
    letters = footnotes(table)
    for index, part in enumerate(_parts(table)):
        sizes = ((1.0, "normalsize"), (1.12, "small"), (1.3, "footnotesize"), (1.6, "scriptsize"))
        width = sum(_widths(part)) / _LINE
        size = next((name for limit, name in sizes if width <= limit), "tiny")
        heads = f"\\toprule\n{_heads(part, escape)}\n\\midrule"
        columns = len(part.columns)
        above = caption if index == 0 else r"\caption*{More columns of the same table.}"
        parts.append(
            f"{{\\{size}\\setlength{{\\tabcolsep}}{{{6 if size == 'normalsize' else 3}pt}}\n"
            f"\\begin{{longtable}}{{{_spec(part, _prose(part))}}}\n{above} \\\\\n"
            f"{heads}\n\\endfirsthead\n{heads}\n\\endhead\n"
            f"\\midrule\n\\multicolumn{{{columns}}}{{r}}{{continued on the next page}} \\\\\n\\endfoot\n"
            "\\bottomrule\n\\endlastfoot\n" + "\n".join(_rows(part, letters, escape)) + "\n\\end{longtable}}"
        )
    return "\n\n".join([*parts, *filter(None, [_footnotes(table)])])


def _parts(table: Table) -> list[Table]:
    """Splits a table between columns if it is too wide to read; each part repeats the row headers."""
    widths = _widths(table)
    fixed = list(range(table.row_headers))
    groups: list[list[int]] = [[]]
    room = _MOST - sum(widths[: table.row_headers])
    used = 0.0
    for index in range(table.row_headers, len(table.columns)):
        if groups[-1] and used + widths[index] > room:
            groups.append([])
            used = 0.0
        groups[-1].append(index)
        used += widths[index]
    if len(groups) == 1:
        return [table]
    kept = [[*fixed, *group] for group in groups]
    return [
        replace(
            table,
            columns=tuple(table.columns[index] for index in chosen),
            rows=tuple(tuple(row[index] for index in chosen) for row in table.rows),
        )
        for chosen in kept
    ]


def _longest(table: Table, index: int) -> int:
    cells = (len(visible(row[index].text)) for row in table.rows)
    return max(len(visible(table.columns[index].title)), max(cells, default=0))


def _prose(table: Table) -> list[int]:
    """Returns the indices of text columns that are set as paragraphs."""
    return [
        index
        for index, column in enumerate(table.columns)
        if column.kind == "text" and _longest(table, index) > _LONG_TEXT
    ]


def _prose_share(table: Table) -> float:
    """Returns the share of the line's width for each column of prose."""
    prose = _prose(table)
    others = sum(_longest(table, index) + 2 for index in range(len(table.columns)) if index not in prose)
    return round(min(0.6, max(0.2, (1 - others / _LINE) / max(1, len(prose)))), 2)


def _widths(table: Table) -> list[float]:
    prose, share = _prose(table), _prose_share(table)
    return [
        share * _LINE if index in prose else _longest(table, index) + 2 + 0.7 * _room(table, index)
        for index in range(len(table.columns))
    ]


def _room(table: Table, index: int) -> int:
    """Returns the most superscripts in a cell of a number column; this space aligns the digits."""
    if table.columns[index].kind == "text":
        return 0
    return max((len(symbols(row[index])) + bool(row[index].note) for row in table.rows), default=0)


def _spec(table: Table, prose: Sequence[int]) -> str:
    spec, share = [], _prose_share(table)
    for index, column in enumerate(table.columns):
        room = _room(table, index)
        if index in prose:
            spec.append(f">{{\\raggedright\\arraybackslash}}p{{{share}\\textwidth}}")
        elif column.kind == "text":
            spec.append("l")
        else:
            spec.append(f"r<{{\\hspace{{{5 * room}pt}}}}" if room else "r")
    return "".join(spec)


def _heads(table: Table, write: Write) -> str:
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


def _rows(table: Table, letters: dict[str, str], write: Write) -> list[str]:
    kinds = [column.kind for column in table.columns]
    return [
        " & ".join(_cell(cell, kind == "number", letters, write) for cell, kind in zip(row, kinds, strict=True))
        + r" \\"
        for row in table.rows
    ] or [f"\\multicolumn{{{len(kinds)}}}{{l}}{{no rows}} \\\\"]


def _cell(cell: Cell, is_number: bool, letters: dict[str, str], write: Write) -> str:
    text = write(cell.text)
    if is_number:
        text = re.sub(r"^-(?=[\d.])", "$-$", text)
    if "best" in cell.marks:
        text = f"\\textbf{{{text}}}"
    raised = " ".join(_SYMBOLS[name] for name in symbols(cell))
    if cell.note:
        raised += f"\\mathrm{{{letters[cell.note]}}}"
    if not raised:
        return text
    return f"{text}\\rlap{{$^{{{raised}}}$}}" if is_number else f"{text}$^{{{raised}}}$"
