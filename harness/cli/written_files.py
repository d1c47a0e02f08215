"""What `score` and `compare` print as tables, and write: reports, tables as LaTeX, figures; with their options."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.cli import options
from harness.cli.options import parameters_of, to_path
from harness.errors import HarnessError, suggestion
from harness.io.console import out_table, out_wrapped, print_line

if TYPE_CHECKING:
    from harness.experiments.evaluate import Evaluation
    from harness.render.model import Cell, Figure, Table
    from harness.render.write import Report
    from harness.scoring.comparison import Comparison

LatexTests = Annotated[
    Path | None,
    typer.Option("--latex-tests", parser=to_path, metavar="FILE", help="Write the table of differences as LaTeX."),
]
_THEIR_REPORTS = "whose reports (-o) have LaTeX tables"


@dataclass(frozen=True)
class WrittenFiles:
    """The files that are asked for, each None if it is not, and the layout of the table of means."""

    output: options.Output = None
    formats: options.Formats = ""
    latex: options.Latex = None
    columns: options.Columns = None
    decimals: options.Decimals = None
    order: options.Order = None
    latex_tests: LatexTests = None
    figure: options.FigureFile = None

    def check(self, *, report_only: bool, joint: bool = False) -> None:
        """Raises HarnessError for options that do not go together, before anything is scored.

        Parameters
        ----------
        report_only : whether a report is all that may be written, as with --redact and --reproduction.
        joint : whether the runs are on several collections.
        """
        if self.formats and chosen_formats(self.formats) and self.output is None:
            raise HarnessError("--formats: requires --output FOLDER")
        given = {"--columns": self.columns, "--decimals": self.decimals, "--order": self.order}
        if self.latex is None and (named := [name for name, value in given.items() if value is not None]):
            raise HarnessError(f"{named[0]}: requires --latex FILE")
        alone = {"--latex": self.latex, "--latex-tests": self.latex_tests, "--figure": self.figure}
        for name, file in alone.items():
            if file is not None and report_only:
                raise HarnessError(f"{name}: not allowed with --redact or --reproduction, {_THEIR_REPORTS}")
        single = {"--columns": self.columns, "--order": self.order, **alone}
        del single["--latex"]
        if joint and (named := [name for name, value in single.items() if value]):
            raise HarnessError(f"{named[0]}: goes with one collection")
        if self.figure is not None:
            from harness.render.pdf import SHAPES

            if self.figure.suffix not in SHAPES:
                raise HarnessError(f"--figure {self.figure}: a figure's name ends in {', '.join(SHAPES)}")

    def write_report(self, report: Report, tell: Callable[[str], None], note: Callable[[str], None]) -> None:
        """Writes a report in the chosen formats; `tell` gets its first page, `note` what could not be written."""
        from harness.render.write import first_page

        if self.output is not None:
            written = report.write(self.output, chosen_formats(self.formats), note)
            tell(f"report: {first_page(written)}")

    def write_means(self, tables: Sequence[Table], tell: Callable[[str], None]) -> None:
        """Writes tables of means as LaTeX, if they are asked for; `tell` gets a line."""
        if self.latex is not None:
            _write_latex(self.latex, tables, tell)

    def write_parts(self, evaluation: Evaluation, comparison: Comparison | None, tell: Callable[[str], None]) -> None:
        """Writes the tables as LaTeX, and the figure; `tell` gets a line for each."""
        if self.latex is self.latex_tests is self.figure is None:
            return
        from harness.reports.comparison import differences_figure, means_figure
        from harness.reports.means import paper_means_table
        from harness.reports.pair_tests import paper_tests_table

        label = evaluation.scores[0].protocol.label
        if self.latex is not None:
            from harness.scoring.spellings import split_measures

            shown, decimals = split_measures(self.columns or ""), 3 if self.decimals is None else self.decimals
            means = paper_means_table(evaluation, comparison, columns=shown, decimals=decimals, order=self.order or "")
            _write_latex(self.latex, [means], tell)
        if self.latex_tests is not None and comparison is not None:
            _write_latex(self.latex_tests, [paper_tests_table(comparison, label)], tell)
            tell("a report (-o FOLDER) has effect sizes, Holm, randomization tests and detectable differences besides")
        if self.figure is not None:
            drawn = means_figure(evaluation) if comparison is None else differences_figure(evaluation, comparison)
            _write_figure(self.figure, drawn, tell)


def with_written_files(*without: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Returns a decorator of a command, which takes `written`, that adds the options of `WrittenFiles` to its own.

    Parameters
    ----------
    without : options that the command does not have.
    """
    names = [field.name for field in fields(WrittenFiles) if field.name not in without]
    options = [each for name, each in parameters_of(WrittenFiles).items() if name in names]

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        @wraps(function)
        def command(*asked: Any, **given: Any) -> None:  # noqa: ANN401  (the values of any options)
            function(
                *asked, written=WrittenFiles(**{name: given.pop(name) for name in names if name in given}), **given
            )

        own = list(parameters_of(function).values())
        at = [each.name for each in own].index("written")
        named = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in (*own[1:at], *options, *own[at + 1 :])]
        parameters = [own[0], *named]
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {each.name: each.annotation for each in parameters}
        return command

    return decorate


def chosen_formats(formats: str) -> Sequence[str]:
    """Returns the formats of a report that `--formats` names, the default ones if it names none.

    >>> chosen_formats("md, csv"), chosen_formats("")
    (['md', 'csv'], ('html', 'md', 'tex', 'json', 'csv'))
    """
    from harness.render.write import DEFAULT, FORMATS, check_pdf

    chosen = [name.strip() for name in formats.split(",") if name.strip()]
    for name in chosen:
        if name not in FORMATS:
            raise HarnessError(f"--formats: {name!r} is unknown; {suggestion(name, FORMATS)}")
    check_pdf(chosen, "--formats pdf")
    return chosen or DEFAULT


def _write_latex(file: Path, tables: Sequence[Table], tell: Callable[[str], None]) -> None:
    from harness.render.latex import render_table

    _write(file, "\n".join(map(render_table, tables)), ".tex", "LaTeX table")
    tell(f"table: {file}")


def _write_figure(file: Path, figure: Figure, tell: Callable[[str], None]) -> None:
    from harness.render.pdf import render_drawing

    _write(file, render_drawing(figure.svg, figure.id, file.suffix), file.suffix, "figure")
    tell(f"figure: {file} ({figure.caption})")


def _write(file: Path, content: str | bytes, suffix: str, kind: str) -> None:
    from harness.io.files import write_all
    from harness.render.write import is_ours

    if file.is_file() and file.stat().st_size and not is_ours(file, suffix=suffix):
        raise HarnessError(f"{file}: exists and is no {kind} of the harness; choose another file")
    write_all({file: content})


def marks_text(cell: Cell) -> str:
    """Returns the symbols of a cell's marks."""
    from harness.render.model import MARKS

    return "".join(MARKS[mark].symbol for mark in cell.marks)


def table_lines(table: Table) -> list[list[str]]:
    """Returns the titles of a table's columns, then its rows, with the symbols of marks after the values."""
    rows = [[cell.text + marks_text(cell) for cell in row] for row in table.rows]
    return [[column.full_title for column in table.columns], *rows]


def print_table(table: Table) -> None:
    """Prints a table: caption, aligned columns with marks, and notes; a cell's note follows the cell's text."""
    print_line(table.caption)
    out_table(table_lines(table))
    for note in table.notes:
        out_wrapped(note)
    for cell in (cell for row in table.rows for cell in row if cell.note):
        out_wrapped(f"{cell.text}: {cell.note}")
