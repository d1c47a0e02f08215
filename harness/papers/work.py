"""The work that a run takes, step by step, by what the class of each part of its system says of itself.

Its attribute `work` is one of a few kinds, or a function that takes the part's configuration and the run, and yields
each `WorkStep`. `table_groups` divides a paper's tables into those that need the same runs.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from harness.collections.load import load_collection
from harness.errors import HarnessError
from harness.io import config
from harness.papers.paper import Paper
from harness.papers.rates import NOTHING, UNKNOWN, ModelRates, Range, data
from harness.papers.steps import EVERYTHING, PlannedRun, RunStep, Selection, paper_steps
from harness.systems.build import system_class
from harness.systems.states import nested_configurations

NO_GPU = "no GPU"  # of work that a GPU does not do
_HOUR = 3600.0
_FLOAT = 4e-6  # MB a number of a vector
_MIB = 1.048576  # MB
# Settings of graph encoders that change the search alone, so that trained models and vectors are shared.
_OF_SEARCH = ("strategy", "precision", "candidates", "ef", "depth", "together", "maxsim", "pictured", "name", "title")
_LINEARISED = ("parser", "formulas", "model", "task", "of", "posts")  # what the texts of documents depend on
# Of a graph encoder, the share of a training pair's time that encoding one graph takes: at most half, as a pair is two
# graphs, each with a backward pass too.
_OF_A_PAIR = Range(0.0, 0.5)


@dataclass(frozen=True)
class WorkStep:
    """A piece of work.

    Attributes
    ----------
    key : equal for steps that are done once, whatever number of runs needs them; names the corpus if it is read.
    hours : of one CPU core; None if not known.
    origin : where its rate is from.
    gpu : hours on one GPU, in words.
    disk : MB that it leaves; None if not known.
    memory : MB that it needs at least; None if not known.
    times : how often it is done, such as once for each seed; count, hours and disk are those of all.
    """

    key: str
    title: str
    count: Range
    unit: str
    hours: Range | None
    origin: str
    gpu: str = UNKNOWN
    disk: Range | None = None
    memory: float | None = None
    times: int = 1

    def and_(self, other: WorkStep) -> WorkStep:
        """Returns both as one step: sums of count, hours and disk, the larger memory."""
        hours = None if self.hours is None or other.hours is None else self.hours + other.hours
        disk = None if self.disk is None or other.disk is None else self.disk + other.disk
        memory = max(filter(None, (self.memory, other.memory)), default=None)
        count, times = self.count + other.count, self.times + other.times
        return replace(self, count=count, hours=hours, disk=disk, memory=memory, times=times)


def work_steps(group: TableGroup) -> tuple[WorkStep, ...]:
    """Returns the work that the runs of a group take, each step once, in the order in which it is done."""
    return together(single_steps(group))


def single_steps(group: TableGroup) -> tuple[WorkStep, ...]:
    """Returns the work that the runs of a group take, each step once, also those of one title."""
    step_of: dict[str, WorkStep] = {}
    for run in countable_runs(group):
        if data().corpora[run.corpus].posts:
            step_of.setdefault(f"read {run.corpus}", _reading_of_posts(run))
        for part in nested_configurations(run.configuration):
            for step in _of_part(part)(part, run):
                step_of.setdefault(step.key, step)
    return tuple(step_of.values())


def together(steps: Iterable[WorkStep]) -> tuple[WorkStep, ...]:
    """Returns the steps, those of one title as one."""
    merged: dict[str, WorkStep] = {}
    for step in steps:
        known = merged.get(step.title)
        merged[step.title] = step if known is None else known.and_(step)
    return tuple(merged.values())


def countable_runs(group: TableGroup) -> tuple[PlannedRun, ...]:
    """Returns the runs on corpora whose counts are known."""
    return tuple(run for run in group.runs if run.corpus in data().corpora)


def _of_part(part: Mapping[str, Any]) -> Callable[[Mapping[str, Any], PlannedRun], Iterable[WorkStep]]:
    """Returns the work of a part's class; of a class that does not say it, or is not installed, one unknown step."""
    with contextlib.suppress(HarnessError):
        said = getattr(system_class(part, "system"), "work", None)
        return said if callable(said) else _WORK.get(str(said), _unknown_work)
    return _unknown_work


def _unknown_work(part: Mapping[str, Any], run: PlannedRun) -> Iterator[WorkStep]:
    kind = str(part.get("_target_", "")).rpartition(".")[2]
    count = data().corpora[run.corpus].range
    yield WorkStep(_key(kind, run.corpus), f"the work of {kind} ({run.system})", count, "documents", None, UNKNOWN)


def _hours_at_rate(count: Range, rate: str, factor: float = 1.0) -> Range:
    return count.by(data().rates[rate].range).times(factor / _HOUR)


def _key(*parts: object) -> str:
    """Returns a text that two equal steps of work share."""
    return json.dumps(parts, sort_keys=True, default=str)


def _reading_of_posts(run: PlannedRun) -> WorkStep:
    count, rate = Range(*[data().corpora[run.corpus].posts] * 2), "read-posts"
    hours, origin = _hours_at_rate(count, rate), data().rates[rate].origin
    return WorkStep(f"read {run.corpus}", "read the posts", count, "posts", hours, origin, NO_GPU)


def _model_rates(name: object) -> ModelRates:
    return data().models.get(str(name)) or ModelRates("")


def _encoding(model: ModelRates, texts: str, count: Range) -> tuple[Range | None, str]:
    """Returns the hours of one core to encode texts, and the origin of the rate; None without the model's size."""
    if not model.layers:
        return None, UNKNOWN
    name = "declarations" if texts == "declarations" else "answers-short" if model.short else "answers"
    rate = data().rates[f"encode-{name}"]
    factor = model.layers * model.width**2 / (rate.layers * rate.width**2)
    scaled = "" if factor == 1 else f"; extrapolated by layers x width²: x {factor:.3g}"
    return _hours_at_rate(count, f"encode-{name}", factor), rate.origin + scaled


def _memory(model: ModelRates, part: Mapping[str, Any]) -> float | None:
    """Returns the MB of a model's parameters in the precision in which it computes."""
    megabytes = model.parameters * (2e-6 if part.get("precision") == "bfloat16" else 4e-6)
    return megabytes or None


def _bi_encoder(part: Mapping[str, Any], run: PlannedRun) -> Iterator[WorkStep]:
    name, counts = str(part.get("model")), data().corpora[run.corpus]
    views = part.get("parts") or {"answer": ["body"]}
    count, model = counts.range.times(len(views)), _model_rates(name)
    tuned = part.get("training")
    if isinstance(tuned, Mapping):
        yield _tuning(name, tuned, part)
    written = run.configuration.get("view") if "llm" in run.configuration else None  # the text of a document
    view = [run.corpus, written, part.get("view", "latex"), views, part.get("prefixes"), tuned]
    disk = count.times(model.width * _FLOAT) if model.width else None
    if name in config.names("llm"):
        title, origin = f"keep the vectors of {name}", "vectors x dimensions x 4 bytes"
        yield WorkStep(_key("keep", name, view), title, count, "vectors", NOTHING, origin, NO_GPU, disk)
    else:
        hours, origin = _encoding(model, counts.texts, count)
        gpu = f"{UNKNOWN} ({data().printed['declarations']})" if counts.texts == "declarations" else UNKNOWN
        title = f"encode {counts.texts} by {name}{', fine-tuned' if tuned else ''}"
        key, memory = _key("encode", name, view), _memory(model, part)
        yield WorkStep(key, title, count, counts.texts, hours, origin, gpu, disk, memory)
    if part.get("search") == "chroma":
        yield _chroma(name, model, count, view)


def _chroma(name: str, model: ModelRates, count: Range, view: object) -> WorkStep:
    rate, size = data().rates["build-chroma"], data().rates["chroma-size"]
    title, factor = f"index the vectors of {name} in Chroma", model.width / rate.width
    step = WorkStep(_key("chroma", name, view), title, count, "vectors", None, UNKNOWN, NO_GPU)
    if not model.width:
        return step
    origin = f"{rate.origin}; extrapolated by dimensions: x {factor:.3g}"
    disk = count.by(size.range).times(_MIB * factor)
    return replace(step, hours=_hours_at_rate(count, "build-chroma", factor), origin=origin, disk=disk)


def _tuning(name: str, training: Mapping[str, Any], part: Mapping[str, Any]) -> WorkStep:
    """Returns the fine-tuning of a transformer, whose rate nobody has measured."""
    learnt = [each for each in training.get("collections") or () if each not in (training.get("validate_on") or ())]
    pairs = sum(load_collection(each).edition(None).judgments for each in learnt)
    key, memory = _key("tune", name, training, part.get("first")), _memory(_model_rates(name), part)
    unit = "judged pairs an epoch, at most"
    return WorkStep(key, f"fine-tune {name}", Range(pairs, pairs), unit, None, UNKNOWN, memory=memory)


def _cross_encoder(part: Mapping[str, Any], run: PlannedRun) -> Iterator[WorkStep]:
    name, model = str(part.get("model")), _model_rates(part.get("model"))
    tuned = part.get("training")
    if isinstance(tuned, Mapping):
        yield _tuning(name, tuned, part)
    asked, judged = topic_and_judgment_counts([run])
    depth = part.get("k") or max(part.get("tiers") or [0])
    pairs = asked * depth if depth else judged
    count = Range(pairs, pairs)
    hours, origin = _encoding(model, "pairs", count)
    title, memory = f"score pairs by {name} ({run.system})", _memory(model, part)
    key = _key("score", run.system, dict(run.settings), run.collection, run.edition)
    yield WorkStep(key, title, count, "pairs of topic and document", hours, origin, memory=memory)


def _lexical(part: Mapping[str, Any], run: PlannedRun) -> Iterator[WorkStep]:
    counts = data().corpora[run.corpus]
    size = counts.range.by(data().rates["index-text-size"].range)
    rate, memory = data().rates["index-text"], data().rates["memory-text"].measured[0].amount
    inner = [part] if "parts" not in part else list(part["parts"].values())
    texts = sorted(_key(each.get("view"), each.get("document"), each.get("smart")) for each in inner)
    key = _key("index", run.corpus, texts)
    # The range of the size holds that of the rate, so that the factor is not applied twice.
    seconds_each = [each.amount / each.of for each in rate.measured]
    hours = Range(size.low * min(seconds_each), size.high * max(seconds_each)).times(1 / _HOUR)
    title = f"index words ({run.system})"
    origin = f"{rate.origin}, size by {data().rates['index-text-size'].origin}"
    yield WorkStep(key, title, counts.range, counts.texts, hours, origin, NO_GPU, size.times(_MIB), memory * _MIB)


def _structural(part: Mapping[str, Any], run: PlannedRun) -> Iterator[WorkStep]:
    count = data().corpora[run.corpus].range
    hours = _hours_at_rate(count, "read-formulas") + _hours_at_rate(count, "index-formulas")
    origin = "; ".join(data().rates[name].origin for name in ("read-formulas", "index-formulas"))
    key, disk = _key("formulas", run.corpus), count.by(data().rates["index-formulas-size"].range)
    yield WorkStep(key, "read and index formula trees", count, "formulas", hours, origin, NO_GPU, disk)


def _linearised(part: Mapping[str, Any], run: PlannedRun) -> Iterator[WorkStep]:
    posts = data().corpora[run.corpus].posts
    parsed = Range(posts, posts)
    key = _key("parse", run.corpus, part.get("parser"))
    yield WorkStep(key, f"parse posts ({part.get('parser')})", parsed, "posts", None, UNKNOWN)
    name, counts = str(part.get("model")), data().corpora[run.corpus]
    hours, origin = _encoding(_model_rates(name), counts.texts, counts.range)
    title, disk = f"encode linearised graphs by {name}", counts.range.times(_model_rates(name).width * _FLOAT)
    key = _key("linearised", run.corpus, {name: part.get(name) for name in _LINEARISED})
    yield WorkStep(key, title, counts.range, counts.texts, hours, origin, UNKNOWN, disk)


def _graphs(part: Mapping[str, Any], run: PlannedRun) -> Iterator[WorkStep]:
    """Yields graphs of posts, a training for each setting and seed, vectors of documents."""
    counts, training = data().corpora[run.corpus], part.get("training")
    # Of documents, or of the posts that contain them.
    graphs = Range(counts.posts, counts.posts) if part.get("task") == "formulas" else counts.range
    sample = part.get("sample") or counts.pairs
    # Of documents and both sides of a sample of pairs; without a sample, of all posts that pairs are from.
    few = Range(graphs.low, graphs.high + 2 * sample)
    learnt = [name for name, column in (part.get("pairs") or {}).items() if column and name in data().corpora]
    every = max(data().corpora[name].posts for name in (run.corpus, *learnt))
    posts = few if part.get("sample") else Range(every, every)
    size = posts.by(data().rates["graph-size"].range).times(1e-6)
    kind, printed = "AMR", f"{UNKNOWN} ({data().printed['amr']})"
    if part.get("parser") == "dependency":
        kind, printed = "dependency", NO_GPU
    yield WorkStep(_key(kind, run.corpus), f"make {kind} graphs of posts", posts, "posts", None, UNKNOWN, printed, size)
    key = _key({name: value for name, value in part.items() if name not in _OF_SEARCH}, run.corpus)
    rate = data().rates["train-graphs"]
    if isinstance(training, Mapping):
        pairs, most = sample * (1 - float(training.get("validation", 0))), int(training["epochs"])
        least = min(most, 1 + int(training.get("patience", most)))  # epochs before training can stop early
        count, memory = Range(pairs * least, pairs * most), data().rates["memory-graphs"]
        title, hours = f"train {run.system}", _hours_at_rate(count, "train-graphs")
        needed = memory.measured[0].amount * _MIB
        yield WorkStep(f"train {key}", title, count, "pairs, over all epochs", hours, rate.origin, memory=needed)
    vectors = counts.range.times(counts.vectors).by(data().rates["graph-vectors-size"].range).times(_MIB)
    hours = graphs.by(rate.range).by(_OF_A_PAIR).times(1 / _HOUR)
    origin = f"at most half of a training pair: {rate.origin}"
    yield WorkStep(f"encode {key}", f"encode graphs by {run.system}", graphs, "graphs", hours, origin, UNKNOWN, vectors)


def _translation(part: Mapping[str, Any], run: PlannedRun) -> Iterator[WorkStep]:
    name = str(part["translator"]["model"])
    texts = 2 * topic_and_judgment_counts([run])[0]  # title and body
    key, memory = _key("translate", name, run.collection, run.edition), _memory(_model_rates(name), {})
    title, count = f"translate topics by {name}", Range(texts, texts)
    yield WorkStep(key, title, count, "titles and bodies", None, UNKNOWN, memory=memory)


# What `work` of a class says -> its steps; a class without it is unknown, and that of `parts` leaves all to its parts.
_WORK: Mapping[str, Callable[[Mapping[str, Any], PlannedRun], Iterable[WorkStep]]] = {
    "encoder": _bi_encoder,
    "pairs": _cross_encoder,
    "words": _lexical,
    "formulas": _structural,
    "linearised": _linearised,
    "graphs": _graphs,
    "translation": _translation,
    "parts": lambda part, run: (),
}


@dataclass(frozen=True)
class TableGroup:
    """Tables that need the same runs.

    Attributes
    ----------
    source : where the runs are listed, such as `experiment=crossmath-paper`.
    runs : runs to make; fusions are not listed, since they only read the runs of other rows.
    """

    tables: tuple[str, ...]
    source: str
    runs: tuple[PlannedRun, ...]

    @property
    def systems(self) -> tuple[str, ...]:
        """Names of the systems, each once."""
        return tuple(dict.fromkeys(run.system for run in self.runs))

    @property
    def corpora(self) -> tuple[str, ...]:
        """Names of the corpora, each once."""
        return tuple(dict.fromkeys(run.corpus for run in self.runs))

    @property
    def collections(self) -> tuple[str, ...]:
        """Names of the collections, each once."""
        return tuple(dict.fromkeys(run.collection for run in self.runs))


@cache
def _topics_and_judgments(collection: str, edition: str) -> tuple[int, int]:
    judged = load_collection(collection).edition(edition or None)
    return judged.topics, judged.judgments


def topic_and_judgment_counts(runs: Iterable[PlannedRun]) -> tuple[int, int]:
    """Returns the number of topics and of judgments over all tasks of some runs."""
    tasks = dict.fromkeys((run.collection, run.edition) for run in runs)
    sizes = [_topics_and_judgments(collection, edition) for collection, edition in tasks]
    return sum(count for count, _ in sizes), sum(judged for _, judged in sizes)


def table_groups(paper: Paper, part: Selection = EVERYTHING, scale: str = "") -> tuple[TableGroup, ...]:
    """Returns the groups of a paper's tables, in the paper's order; tables that are blocked as a whole are omitted.

    A table needs the runs of its rows' steps and the runs that these read; a fusion itself is no work.
    """
    made, _ = paper_steps(paper, part, scale)
    by_file = {step.file: step for step in made if step.file}
    by_table: dict[str, dict[str, PlannedRun]] = {}
    source: dict[str, str] = {}
    for step in made:
        tables = dict.fromkeys(table for row in step.rows for table in row.table.split(", ") if table)
        kind = f"experiment={step.experiment}" if step.experiment else "rows" if paper.available else "systems"
        for table in tables:
            source.setdefault(table, kind)
            for each in _with_inputs(step, by_file):
                by_table.setdefault(table, {}).update({repr(run): run for run in each.runs})  # settings may be lists
    same: dict[tuple[str, frozenset[str]], list[str]] = {}
    rows = paper.cells if paper.available is None else paper.available.rows
    for table in dict.fromkeys(row.table for row in rows if row.table in by_table):
        runs = by_table[table]
        if not str(paper.config.states.get(table, "")).startswith("blocked"):
            same.setdefault((source[table], frozenset(runs)), []).append(table)
    return tuple(TableGroup(tuple(t), kind, tuple(by_table[t[0]].values())) for (kind, _), t in same.items())


def _with_inputs(step: RunStep, by_file: Mapping[str, RunStep]) -> Iterator[RunStep]:
    """Yields the steps with work of its own behind a step: itself, or what it fuses or learns from."""
    inputs = [by_file[file] for file in step.reads() if file in by_file]
    if not step.reads():
        yield step
    for each in inputs:
        yield from _with_inputs(each, by_file)
