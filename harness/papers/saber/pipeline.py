"""The steps of the builder, from problems to ratings, as configured in `conf/builder/NAME.yaml`."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, cast

from harness.errors import HarnessError
from harness.io import config
from harness.io.checks import typed
from harness.io.files import read_bytes, sha256_file, write_atomic
from harness.papers.saber import annotate, judging, local, model, swiss
from harness.papers.saber import collection as made_collection
from harness.papers.saber import databank as bank
from harness.papers.saber import rate as rating
from harness.papers.saber.annotate import AnnotateSettings
from harness.papers.saber.databank import PROBLEMS, DatabankSettings, MathProblem, read_problems, write_problems
from harness.papers.saber.judging import JudgeSettings
from harness.papers.saber.lines import read_lines, write_lines
from harness.papers.saber.ontology import Information, Ontology, information
from harness.papers.saber.pairs import PairSettings, Thresholds, features, find_pairs, read_pairs, thresholds
from harness.papers.saber.rate import RateSettings
from harness.papers.saber.select import TARGETS, SelectSettings, domains_of, select, write_targets
from harness.papers.saber.steps import COUNTS, FILL, BuilderStep, Folders, StepEstimate, spent_text, write_counts
from harness.sources.catalogue import resource
from harness.sources.fetch import fetch_resources
from harness.store import prompts
from harness.store.llm import Client, Endpoint, load_endpoint, sample
from harness.store.llm.client import Mode

NODES = "nodes.jsonl"
THRESHOLDS = "thresholds.json"


@dataclass(frozen=True)
class BuilderSettings:
    """Settings of a builder, `conf/builder/NAME.yaml`.

    Attributes
    ----------
    databank : problems, with delimiters of mathematics, and without duplicates.
    ontology : file of the tree of topics: `{source: NAME, path: P}`, `{embedded: P}` or `{file: P}`.
    title, name : of the collection; the name is that of the file.
    annotate, pairs, select, judge, rate : settings of the further steps.
    """

    databank: DatabankSettings
    ontology: Mapping[str, Any]
    title: str = ""
    name: str = ""
    annotate: AnnotateSettings = field(default_factory=AnnotateSettings)
    pairs: PairSettings = field(default_factory=PairSettings)
    select: SelectSettings = field(default_factory=SelectSettings)
    judge: JudgeSettings = field(default_factory=JudgeSettings)
    rate: RateSettings = field(default_factory=RateSettings)

    def __post_init__(self) -> None:
        candidates = 3 * self.select.each
        if self.judge.rounds > (most := swiss.most_rounds(candidates)):
            raise HarnessError(
                f"judge: key 'rounds' is {self.judge.rounds}, expected at most {most} for {candidates} candidates, 3 x "
                f"'each' of key 'select': no pair plays twice"
            )


def load_settings(name: str) -> tuple[BuilderSettings, str]:
    """Loads the settings of a builder; returns them and their file.

    Raises
    ------
    HarnessError
        No builder has this name, or keys are wrong: one line per key.

    Examples
    --------
    >>> load_settings("saber-mini")[0].select.targets
    4
    """
    mapping, path = config.load("builder", name)
    return typed(BuilderSettings, {**_anchored(mapping, Path(path).parent), "name": name}, path), path


def _anchored(mapping: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Returns settings whose relative paths of files, `{file: P}`, begin at the folder of the configuration."""

    def located(value: object) -> object:
        if isinstance(value, list):
            return [located(each) for each in value]
        return _anchored(value, folder) if isinstance(value, dict) else value

    return {
        key: str(folder / Path(value).expanduser()) if key == "file" and isinstance(value, str) else located(value)
        for key, value in mapping.items()
    }


def steps(settings: BuilderSettings, where: str, mode: Mode = "live") -> tuple[BuilderStep, ...]:
    """Returns the steps in order.

    Parameters
    ----------
    where : file of the settings, for messages.
    mode : of the language-model clients: `live`, or `replay` to use cached answers only.

    Raises
    ------
    HarnessError
        A source, an ontology, an endpoint or an encoder is missing.
    """
    tree = _local_path(settings.ontology, f"{where}: ontology")
    return (
        _databank_step(settings.databank, f"{where}: databank", mode),
        _annotate_step(settings.annotate, tree, mode),
        _ontology_step(),
        _pairs_step(settings.pairs),
        _select_step(settings.select),
        judging.judge_step(settings.judge, (settings.select.targets, 3 * settings.select.each), mode),
        rate_step(settings.rate),
        collection_step(settings.name, settings.title, settings.judge.named()),
    )


def counts_of(folder: Path) -> dict[str, Any]:
    """Reads the counts of a step from its folder."""
    return dict(json.loads(read_bytes(folder / COUNTS)))


def _local_path(mapping: Mapping[str, Any], where: str) -> Path:
    source = resource(mapping, where)
    return source if isinstance(source, Path) else fetch_resources([source])[0]


def _problems(folders: Folders) -> list[MathProblem]:
    return list(read_problems(folders["databank"] / PROBLEMS).values())


def _answer_settings(endpoint: Endpoint, *names: str) -> dict[str, Any]:
    """Returns the settings that affect an endpoint's answers to some prompts; its address and prices do not."""
    decides = {"model": endpoint.model, "parameters": dict(endpoint.parameters), "schemas": endpoint.schemas}
    return {**decides, "repairs": endpoint.repairs, "prompts": [prompts.digest(name) for name in names]}


# ---- databank ---------------------------------------------------------------------------------------------------


def _databank_step(settings: DatabankSettings, where: str, mode: Mode) -> BuilderStep:
    by_model = settings.delimiters == "llm"
    endpoint = load_endpoint(settings.endpoint) if by_model else None
    keys = {name: value for name, value in asdict(settings).items() if name not in ("sources", "endpoint", "budget")}
    deciding = {**keys, "sources": [bank.digest(source, where) for source in settings.sources]}
    if endpoint is not None:
        deciding["model"] = _answer_settings(endpoint, model.DELIMITERS)

    def read() -> list[MathProblem]:
        return [problem for source in settings.sources for problem in bank.read_source(source, where)]

    def make(_: Folders, out: Path) -> None:
        rewrite = model.rewriter(Client(endpoint, mode, settings.budget, fill=FILL)) if endpoint is not None else None
        kept, counts = bank.databank(read(), settings, rewrite)
        write_problems(out / PROBLEMS, kept)
        write_counts(out, counts)

    def plan(_: Folders) -> StepEstimate:
        problems = read()
        if endpoint is None:
            return StepEstimate({"problems read": len(problems)})
        client = Client(endpoint, "dry")
        client.ask([model.dollars_ask(text) for each in problems for text in (each.statement, each.solution)])
        (made,) = client.estimates.values()
        costs = (made.calls, made.tokens_in, made.tokens_out, made.cost, made.within, made.basis)
        return StepEstimate({"problems read": len(problems)}, *costs)

    return BuilderStep("databank", (), deciding, (bank.__name__, model.__name__), make, plan, free=not by_model)


# ---- annotations and ontology -----------------------------------------------------------------------------------


def _annotate_step(settings: AnnotateSettings, tree: Path, mode: Mode) -> BuilderStep:
    deciding: dict[str, Any] = {"by": settings.by, "ontology": sha256_file(tree)}
    endpoint = load_endpoint(settings.endpoint) if settings.by == "llm" else None
    if endpoint is not None:
        deciding |= {"threshold": settings.threshold, "model": _answer_settings(endpoint, model.IDEA, model.TAGS)}
    else:
        deciding |= {"beam": settings.beam, "share": settings.share}
        if settings.encoder:
            from harness.systems.dense import encoder
            from harness.systems.dense.engines import EncoderSettings

            deciding["encoder"] = encoder.identity(settings.encoder, EncoderSettings())  # or refuses it now

    def make(folders: Folders, out: Path) -> None:
        problems, ontology = _problems(folders), Ontology.read(tree)
        made: dict[str, annotate.Annotation] = {}
        bad: Counter[str] = Counter()
        by = local.name(settings.encoder) if endpoint is None else f"language model {endpoint.model}"
        if endpoint is not None:
            client = Client(endpoint, mode, settings.budget, fill=FILL)
            for name, annotation, counts in model.annotated(problems, ontology, client, settings.threshold):
                made[name] = annotation
                bad.update(counts)
        else:
            encode = _encode_function(settings) if settings.encoder else None
            made = dict(local.annotated(problems, ontology, encode, settings.beam, settings.share))
        annotate.write_annotations(out / annotate.ANNOTATIONS, made)
        write_counts(out, {"by": by, **_annotation_counts(made), **bad})

    def plan(folders: Folders) -> StepEstimate:
        if "databank" not in folders:
            return StepEstimate(basis="unknown before the databank is built")
        problems = _problems(folders)
        if endpoint is None:
            return StepEstimate({"problems": len(problems)})
        return model.plan(problems, Ontology.read(tree), Client(endpoint, "dry"), settings.threshold)

    modules = ((local if endpoint is None else model).__name__,)
    return BuilderStep("annotate", ("databank",), deciding, modules, make, plan)


def _comparable(folders: Folders) -> dict[str, annotate.Annotation]:
    return annotate.comparable(annotate.read_annotations(folders["annotate"] / annotate.ANNOTATIONS))


def _annotation_counts(made: Mapping[str, annotate.Annotation]) -> dict[str, object]:
    tags = [len(each.tags) for each in made.values()]
    return {
        "problems": len(made),
        "without core idea": sum(each.core is None for each in made.values()),
        "without topics": tags.count(0),
        "topics of a problem, mean": round(math.fsum(tags) / max(len(tags), 1), 2),
    }


def pilot(settings: BuilderSettings, databank: Path, count: int) -> str:
    """Annotates a random sample of the problems, so that a dry run can estimate the total cost.

    The answers are cached for the step `annotate`. Returns a line with the cost.
    """
    if settings.annotate.by != "llm":
        raise HarnessError("--pilot: this builder annotates without a language model")
    ontology = Ontology.read(_local_path(settings.ontology, "ontology"))
    problems = sample(_problems({"databank": databank}), count)
    client = Client(load_endpoint(settings.annotate.endpoint), "live", settings.annotate.budget)
    asked = sum(1 for _ in model.annotated(problems, ontology, client, settings.annotate.threshold))
    return spent_text(f"{asked} problems", client.spent)


def pilot_dollars(settings: BuilderSettings, where: str, count: int) -> str:
    """Rewrites a random sample of the texts by the language model; as `pilot`, for the step `databank`."""
    made = settings.databank
    if made.delimiters != "llm":
        raise HarnessError("--pilot: this builder adds dollar signs without a language model")
    problems = [problem for source in made.sources for problem in bank.read_source(source, f"{where}: databank")]
    drawn = sample([text for each in problems for text in (each.statement, each.solution)], count)
    client = Client(load_endpoint(made.endpoint), "live", made.budget)
    client.ask([model.dollars_ask(text) for text in drawn])
    return spent_text(f"{len(drawn)} texts", client.spent)


def _encode_function(settings: AnnotateSettings) -> local.Encode:
    from harness.systems.dense import encoder

    loaded = encoder.load(cast(str, settings.encoder), device=settings.device)
    return lambda texts: loaded.encode(texts, "document")


def _ontology_step() -> BuilderStep:
    def make(folders: Folders, out: Path) -> None:
        tagged = _comparable(folders)
        info = information(annotation.tags for annotation in tagged.values())
        rows = (
            {"node": node, "tags": info.frequency[node], "content": info.content(node)}
            for node in sorted(info.frequency)
        )
        write_lines(out / NODES, rows)
        tops = {f"at or below {node}": info.frequency[node] for node in sorted(info.frequency) if "/" not in node}
        write_counts(out, {"problems": len(tagged), "tags": info.tags, "topics in use": len(info.frequency), **tops})

    modules = (information.__module__, annotate.comparable.__module__)
    return BuilderStep("ontology", ("annotate",), {}, modules, make, _no_work)


def _no_work(_: Folders) -> StepEstimate:
    return StepEstimate()


# ---- pairs and selection ----------------------------------------------------------------------------------------


def _pairs_step(settings: PairSettings) -> BuilderStep:
    def make(folders: Folders, out: Path) -> None:
        tagged = _comparable(folders).values()
        frequency = dict(read_lines(folders["ontology"] / NODES, lambda row: (str(row["node"]), int(row["tags"]))))
        info = Information(int(counts_of(folders["ontology"])["tags"]), frequency)
        made = features([each.tags for each in tagged], [each.core or "" for each in tagged], info)
        limits: Thresholds = thresholds(made, settings)
        kept = find_pairs(made, settings, out, limits)
        write_atomic(out / THRESHOLDS, json.dumps(limits._asdict()) + "\n")
        write_counts(out, {"pairs": len(made) * (len(made) - 1) // 2, **limits._asdict(), **kept})

    def plan(folders: Folders) -> StepEstimate:
        if "annotate" not in folders:
            return StepEstimate(basis="unknown before the problems are annotated")
        count = len(_comparable(folders))
        return StepEstimate({"pairs": count * (count - 1) // 2})

    modules = (find_pairs.__module__, annotate.comparable.__module__)
    return BuilderStep("pairs", ("annotate", "ontology"), settings.deciding(), modules, make, plan)


def _select_step(settings: SelectSettings) -> BuilderStep:
    def make(folders: Folders, out: Path) -> None:
        tagged = _comparable(folders)
        domains = [domains_of(annotation.tags, settings.domains) for annotation in tagged.values()]
        targets, counts = select(list(tagged), domains, lambda: read_pairs(folders["pairs"]), settings)
        write_targets(out / TARGETS, targets)
        write_counts(out, counts)

    def plan(_: Folders) -> StepEstimate:
        return StepEstimate({"targets": settings.targets, "candidates": settings.targets * settings.each * 3})

    domains = [[name, list(tops)] for name, tops in settings.domains.items()]
    deciding = {**asdict(settings), "quotas": list(settings.quotas.items()), "domains": domains}
    modules = (select.__module__, annotate.comparable.__module__)
    return BuilderStep("select", ("annotate", "pairs"), deciding, modules, make, plan)


def rate_step(settings: RateSettings) -> BuilderStep:
    """Returns the step that rates the candidates of all targets."""

    def make(folders: Folders, out: Path) -> None:
        played = swiss.read_games(folders["judge"] / swiss.GAMES)
        rated = rating.rate_all(played, penalty=settings.penalty, scale=settings.scale)
        if not rated:
            raise HarnessError("rate: no decision distinguishes the candidates of any target; try another judge")
        rating.write_ratings(out / rating.RATINGS, rated)
        rows = [row for each in rated for row in each.rows]
        error = math.fsum(row.error for row in rows) / len(rows)
        counts = {"targets": len(rated), "targets without a decision, left out": len(played) - len(rated)}
        write_counts(out, {**counts, "ratings": len(rows), "standard error, mean": round(error, 4)})

    return BuilderStep("rate", ("judge",), asdict(settings), (rating.__name__,), make, _no_work, free=True)


def collection_step(name: str, title: str, judge: str) -> BuilderStep:
    """Returns the step that writes the collection, by `harness.papers.saber.collection`."""

    def make(folders: Folders, out: Path) -> None:
        targets, problems = judging.read_targets_and_problems(folders)
        rated = rating.read_ratings(folders["rate"] / rating.RATINGS)
        rated_targets = {each.target for each in rated}
        targets = [target for target in targets if target.id in rated_targets]
        note = f"Judge of the ratings: {judge}."
        licence = "see the sources of the problems"
        about: dict[str, Any] = {"title": title or name, "licence": licence, "notes": [note]}
        made_collection.write_collection(out, name, problems, targets, rated, **about)
        write_counts(out, {"queries": len(targets), "ratings": sum(len(each.rows) for each in rated)})

    needs, modules = ("databank", "select", "rate"), (made_collection.__name__,)
    settings = {"name": name, "title": title, "judge": judge}
    return BuilderStep("collection", needs, settings, modules, make, _no_work, free=True)


def exhaustive(
    settings: JudgeSettings, rates: RateSettings, folders: Folders, mode: Mode = "live"
) -> list[rating.Ratings]:
    """Rates the candidates from all pairs, judged by the same judge; n (n - 1) / 2 comparisons per target.

    Targets without a decision are excluded, as in the step `rate`.
    """
    targets, problems = judging.read_targets_and_problems(folders)
    judge = judging.judge_of(settings, targets, problems, mode)
    pairs, drawn = judging.candidates_of(targets).items(), settings.shown == "drawn"
    played = [swiss.round_robin(name, each, judge, settings.seed, drawn=drawn) for name, each in pairs]
    return rating.rate_all(played, penalty=rates.penalty, scale=rates.scale)
