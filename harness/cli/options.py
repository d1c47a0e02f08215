"""Options of the commands that score run files, and what the shell completes of words and overrides."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.errors import HarnessError

_HYDRA = ("hydra/launcher", "hydra/sweeper")
_KEYS = {
    "run": ("collection", "corpus", "system", "experiment", "sweep", "protocol", *_HYDRA),
    "reproduce": ("paper", *_HYDRA[:1]),
}
_SYSTEM = re.compile(r"(?:^| )system ?= ?([\w.-]+)")  # bash has spaces around the sign
_SWITCHES = {
    "run": ("edition=", "rerank=true", "training=", "tune=", "scale=here", "only=", "reuse=false", "runs=", "output="),
    "reproduce": ("brought=", "rerun=true", "runs=", "output="),
}


def complete_groups(incomplete: str) -> list[str]:
    """Returns the groups of `harness list` that begin with a text."""
    from harness.cli.entries import GROUPS

    return [name for name in GROUPS if name.startswith(incomplete)]


def papers(incomplete: str) -> list[str]:
    """Returns the papers that begin with a text."""
    return _names_starting("paper", incomplete)


def of(group: str) -> Callable[[str], list[str]]:
    """Returns a function that completes the names of a group of configurations."""
    return lambda incomplete: _names_starting(group, incomplete)


def anything(incomplete: str) -> list[str]:
    """Returns the groups and names that `harness show` accepts."""
    from harness.cli.entries import GROUPS

    folders = [group.folder for group in GROUPS.values()]
    known = {name for folder in folders for name in _names_starting(folder, incomplete)}
    return [*(folder for folder in folders if folder.startswith(incomplete)), *sorted(known)]


def overrides(command: str, words: Sequence[str], incomplete: str) -> list[str]:
    """Returns the words of `run` or `reproduce` that begin with a text: keys, or `KEY=NAME` after the key of a group.

    The settings of a system are keys after the word that names it.

    bash takes `=` for the end of a word: then only the value is completed, and `words` ends with the key and `=`.

    Examples
    --------
    >>> overrides("run", [], "sys"), overrides("run", [], "system=bm25-p")
    (['system='], ['system=bm25-phrases', 'system=bm25-plus'])
    >>> overrides("run", ["system", "="], "bm25-p")
    ['bm25-phrases', 'bm25-plus']
    >>> overrides("run", ["system=bm25"], "system.k"), overrides("run", [], "hydra/launcher=sub")
    (['system.k1='], ['hydra/launcher=submitit_local', 'hydra/launcher=submitit_slurm'])
    """
    keys = _KEYS[command]
    if incomplete == "=" and words and words[-1] in keys:
        return [f"={name}" for name in _names_starting(words[-1], "")]
    if len(words) > 1 and words[-1] == "=" and words[-2] in keys:
        return _names_starting(words[-2], incomplete)
    key, equals, begun = incomplete.partition("=")
    if equals:
        return [f"{key}={name}" for name in _names_starting(key, begun)] if key in keys else []
    if incomplete.startswith("system."):
        return _settings(" ".join(words), incomplete)
    return [word for word in (*(f"{key}=" for key in keys), *_SWITCHES[command]) if word.startswith(incomplete)]


def _settings(words: str, incomplete: str) -> list[str]:
    """Returns the settings, `system.KEY=`, of the system that the words before name."""
    from harness.cli.key_descriptions import settings_of
    from harness.experiments.overrides import system_keys
    from harness.systems.states import ABOUT

    named = _SYSTEM.search(words)
    try:
        listed = system_keys(named[1]) if named else {}
        keys = {*listed, *settings_of(str(listed.get("_target_", "")))} - {*ABOUT, "_target_"}
    except HarnessError:
        return []
    keys |= {f"{key}.{inner}" for key, value in listed.items() if isinstance(value, dict) for inner in value}
    return sorted(word for key in keys if (word := f"system.{key}=").startswith(incomplete))


def _names_starting(group: str, incomplete: str) -> list[str]:
    from harness.io import config

    if group == "hydra/sweeper":
        return [name for name in ("basic", "optuna") if name.startswith(incomplete)]
    try:
        return [name for name in config.names(group) if name.startswith(incomplete)]
    except HarnessError:  # a shell is not a place to say so
        return []


def parameters_of(function: Callable[..., object]) -> dict[str, inspect.Parameter]:
    """Returns the parameters of a function, for decorators of commands that add options to its own."""
    return dict(inspect.signature(function, eval_str=True).parameters)


def to_path(text: str) -> Path:
    """Parses an argument that names a file or a folder."""
    if not text:
        raise typer.BadParameter("'' names no file or folder")
    return Path(text)


def to_level(text: str | float) -> float:
    """Parses a level of significance."""
    try:
        level = float(text)
    except ValueError:
        raise HarnessError(f"--alpha: {text!r} is not a number") from None
    if not 0.0 < level < 1.0:
        raise HarnessError(f"--alpha: {level:g} is not between 0 and 1")
    return level


def to_report_folder(text: str) -> Path:
    """Parses the folder of a report, which is none of those in which a lab keeps submissions and private files."""
    from harness.labs.folders import is_kept, lab_around

    folder = to_path(text)
    if is_kept(folder):
        where = f"the report would be written among the submissions or private files of the lab {lab_around(folder)}"
        raise HarnessError(f"--output {folder}: {where}; choose another folder")
    return folder


Runs = Annotated[
    list[str],
    typer.Argument(
        help="Run files (TREC or ARQMath; plain, gzip, xz or zstd); NAME=FILE names a run, by default its tag.",
        metavar="[NAME=]FILE",
    ),
]
_LEVEL: Mapping[str, Any] = {"parser": to_level, "metavar": "FLOAT"}
Level = Annotated[float, typer.Option("--alpha", help="Level of significance.", **_LEVEL)]
MaybeLevel = Annotated[float | None, typer.Option("--alpha", help="Level of significance; default: 0.05.", **_LEVEL)]


def _collection(more: str = "") -> Any:  # noqa: ANN401  (typer's own type says nothing more)
    said = f"Collection; see 'harness list collections'.{more}"
    return typer.Option("--collection", "-c", autocompletion=of("collection"), help=said)


CollectionName = Annotated[str | None, _collection()]
CollectionNames = Annotated[str | None, _collection(" Several: A,B or A/EDITION,B.")]
Judgments = Annotated[
    Path | None,
    typer.Option("--qrels", parser=to_path, metavar="FILE", help="Judgments (TREC) in place of a collection."),
]
TopicFile = Annotated[
    Path | None,
    typer.Option(
        "--topics",
        parser=to_path,
        metavar="FILE",
        help="With --qrels: the topics; results for other topics are errors.",
    ),
]
Edition = Annotated[str | None, typer.Option(help="Edition of the judgments; default: the collection's.")]
ProtocolName = Annotated[
    str | None,
    typer.Option(
        "--protocol", autocompletion=of("protocol"), help="Protocol; default: the collection's, with --qrels trec_eval."
    ),
]
Format = Annotated[str | None, typer.Option(help="Format of the run files: trec, arqmath-task1, arqmath-task2.")]
Measures = Annotated[str | None, typer.Option(help="Measures instead of the protocol's, such as nDCG@10,AP.")]
Keys = Annotated[
    str | None,
    typer.Option(help="File of two columns, id and key (formula to visual id); 'none': ids are keys already."),
]
CorpusName = Annotated[
    str | None,
    typer.Option(
        "--corpus", autocompletion=of("corpus"), help="Restrict the judgments to the documents of this corpus."
    ),
]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", parser=to_report_folder, metavar="FOLDER", help="Write a report to this folder."),
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print one JSON document (schema mathir-harness/evaluation) and nothing else.")
]
Redact = Annotated[
    bool,
    typer.Option(
        "--redact", help="For participants, if judgments are private: only rounded means, no tests or values per topic."
    ),
]
Unjudged = Annotated[
    bool,
    typer.Option(
        "--unjudged",
        help="Also bound means and differences: each unjudged document is not relevant, or of the largest gain.",
    ),
]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print only errors on standard error: no notes, warnings or progress.")
]
Latex = Annotated[
    Path | None,
    typer.Option("--latex", parser=to_path, metavar="FILE", help="Write the table of means as LaTeX, for a paper."),
]
Formats = Annotated[str, typer.Option(help="Formats of the report (-o): some of html, md, tex, json, csv, pdf.")]
FigureFile = Annotated[
    Path | None,
    typer.Option(
        "--figure", parser=to_path, metavar="FILE", help="Write one figure, with intervals: FILE.pdf, .svg or .png."
    ),
]
Columns = Annotated[
    str | None,
    typer.Option(
        help="With --latex: columns in order (run, n, missing, measures); default: run, measures, n if it varies."
    ),
]
Decimals = Annotated[int | None, typer.Option(help="With --latex: decimals of means; default: 3.")]
Order = Annotated[
    str | None,
    typer.Option(help="With --latex: order of the rows: given, name or a measure (best first); default: the first."),
]
