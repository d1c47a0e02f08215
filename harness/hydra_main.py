"""The two commands that compose a configuration, `reproduce` and `run`, with Hydra's own overrides and flags."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import config
from harness.console import out, say
from harness.errors import HarnessError, suggestion
from harness.files import read_bytes

if TYPE_CHECKING:
    from omegaconf import DictConfig

GROUPS = {"reproduce": ("paper",), "run": ("collection", "corpus", "system", "protocol")}


def main(command: str, arguments: Sequence[str]) -> None:
    """Compose `conf/COMMAND.yaml` with the arguments and do the command.

    Raises
    ------
    HarnessError
        A configuration, an override or what it names is wrong.
    """
    _check(command, arguments)
    import hydra
    from hydra.core.config_search_path import ConfigSearchPath
    from hydra.core.plugins import Plugins
    from hydra.errors import HydraException
    from hydra.plugins.search_path_plugin import SearchPathPlugin
    from omegaconf.errors import OmegaConfBaseException

    class UserFolders(SearchPathPlugin):
        """The user's own `conf/` beside ours."""

        def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
            for folder in config.folders()[1:]:
                search_path.append("user", f"file://{folder.resolve()}")

    Plugins.instance().register(UserFolders)
    # Hydra would print errors and exit by itself; ours are one line.
    os.environ["HYDRA_FULL_ERROR"] = "1"
    sys.argv = [f"harness {command}", *arguments]
    ours = str(config.folders()[0].resolve())
    task = {"reproduce": _reproduce, "run": _run}[command]
    try:
        hydra.main(version_base="1.3", config_path=ours, config_name=command)(task)()
    except HydraException as error:
        raise HarnessError(f"{command}: {_line(error)}") from None
    except FileNotFoundError as error:
        raise HarnessError(f"{command}: {error}") from None
    except OmegaConfBaseException as error:
        where = f"key {error.full_key!r}: " if error.full_key else ""
        raise HarnessError(f"{command}: {where}{_line(error)}") from None


def _line(error: Exception) -> str:
    """The gist of an error of Hydra's, without its hints on several lines."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    cause = str(error.__cause__ or "").splitlines()
    gist = lines[0] if lines else type(error).__name__
    return f"{gist} ({cause[0].strip()})" if cause and cause[0].strip() not in gist else gist


def _check(command: str, arguments: Sequence[str]) -> None:
    """Names of groups and keys first: Hydra's own messages name neither the file nor the nearest key."""
    primary = config.folders()[0] / f"{command}.yaml"
    keys = {key: str(primary) for key in config.parse(read_bytes(primary), str(primary)) if key != "defaults"}
    groups = GROUPS[command]
    chosen: dict[str, str] = {}
    overrides = [a for a in arguments if re.match(r"[A-Za-z_][\w.@/]*=", a)]
    for group, _, names in (a.partition("=") for a in overrides):
        if group in groups and not set(names) & set("{}[]()*"):
            known = config.names(group)
            for name in names.split(","):
                if name not in known and name not in ("null", ""):
                    raise HarnessError(f"{group}={name}: no such {group}; {suggestion(name, known)}")
            chosen[group] = names.partition(",")[0]
    for key in (a.partition("=")[0] for a in overrides):
        first, _, rest = key.partition(".")
        if first in ("hydra",) or "/" in key or "@" in key:
            continue
        if first not in keys and first not in groups:
            raise HarnessError(f"{primary}: key {key!r} is unknown; {suggestion(first, [*keys, *groups])}")
        if rest and first in chosen and chosen[first] not in ("null", ""):
            mapping, where = config.load(first, chosen[first])
            if rest.partition(".")[0] not in mapping:
                raise HarnessError(f"{where}: key {rest!r} is unknown; {suggestion(rest, mapping)}")


def _plain(cfg: DictConfig) -> dict[str, Any]:
    from omegaconf import OmegaConf

    value = OmegaConf.to_container(cfg, resolve=True)
    assert isinstance(value, dict)  # noqa: S101
    return {str(key): item for key, item in value.items()}


def _reproduce(cfg: DictConfig) -> None:
    from harness import papers
    from harness.report import write_report
    from harness.report.paper import paper_report
    from harness.store import provenance

    settings = _plain(cfg)
    paper_key = settings["paper"].get("key")
    output = Path(settings["output"])
    if paper_key == "demo":
        _demonstrate(settings, output)
        return
    for key in papers.paper_names() if paper_key == "all" else [str(paper_key)]:
        reproduction = papers.reproduce(papers.load_paper(key), say)
        files = {file.name: file.sha256 for file in reproduction.paper.files()}
        report = paper_report(reproduction, provenance(files), float(settings["alpha"]), int(settings["seed"]))
        written = write_report(report, output / key, settings["formats"])
        out(reproduction.line)
        if paper_key != "all":
            out(f"report: {_page(written)}")
    if paper_key == "all":
        out(f"reports: {output}")


def _page(written: dict[str, Path]) -> Path:
    return written.get("html") or next(iter(written.values()))


def _demonstrate(settings: dict[str, Any], output: Path) -> None:
    from harness.report import write_report
    from harness.report.comparison import comparison_report, headline
    from harness.stats import compare
    from harness.workflow import demonstrate, evaluate, inputs

    for collection, scorer, runs in demonstrate(Path(settings["runs"]), say):
        evaluation = evaluate(collection, scorer, list(runs.values()))
        measures = [m for m in scorer.measures if not m.startswith("Judged")]
        comparison = compare(
            evaluation.scores, "shuffle", measures=measures, alpha=float(settings["alpha"]), seed=int(settings["seed"])
        )
        report = comparison_report(evaluation, comparison, inputs(collection, scorer, runs))
        out(headline(evaluation))
        out(f"report: {_page(write_report(report, output / collection.name, settings['formats']))}")


def _run(cfg: DictConfig) -> None:
    from harness.collections import load_collection
    from harness.report import write_report
    from harness.report.comparison import comparison_report, headline
    from harness.systems import build_system
    from harness.workflow import evaluate, inputs, produce

    settings = _plain(cfg)
    for group in ("collection", "system"):
        if not settings.get(group):
            known = ", ".join(config.names(group))
            raise HarnessError(f"run: key {group!r} is missing; name one with {group}=NAME (known: {known})")
    collection = load_collection(str(settings["collection"]["name"]))
    corpus = settings.get("corpus") or {}
    system = build_system(settings["system"], "run: system")
    rerank = bool(settings["rerank"])
    run, path = produce(system, collection, corpus.get("name"), Path(settings["runs"]), rerank=rerank, say=say)
    protocol = settings.get("protocol") or {}
    scorer = collection.scorer(settings["edition"], protocol.get("name"))
    evaluation = evaluate(collection, scorer, [run])
    remarks = ("The system ranked the judged documents of each topic, nothing else.",) if rerank else ()
    report = comparison_report(evaluation, None, inputs(collection, scorer, {str(path): run}), remarks=remarks)
    out(headline(evaluation))
    out(f"run: {path}")
    folder = Path(settings["output"]) / collection.name / run.name
    out(f"report: {_page(write_report(report, folder, settings['formats']))}")
