"""Estimates of what a paper's tables take: time, disk, memory, language-model calls, files to get, and the order.

Rates are measurements of `bench/results`, counts are those of the real resources (`conf/paper/costs`). A rate is
applied to other texts, and often to another model, than those it was measured on. So each time is a range, from half
of the lowest to twice the highest measurement; an encoder of another size is scaled by layers x width². What has no
origin is None, and is printed as `not known`. `needed_by` lists the packages, models, keys and files that runs need.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from harness.collections.corpora import load_corpus
from harness.collections.load import load_collection
from harness.io import config
from harness.papers import work
from harness.papers.paper import Paper
from harness.papers.rates import NOTHING, SPREAD, UNKNOWN, Range, data, prices
from harness.papers.steps import PlannedRun
from harness.papers.work import TableGroup, WorkStep, table_groups, work_steps
from harness.sources import catalogue
from harness.store.llm import Endpoint, load_endpoint
from harness.store.llm.estimate import estimate_calls as tokens_of
from harness.systems.states import by_hand, missing_answers, module_lines, needed_models, nested_configurations

_EITHER_WAY = Range(1 / SPREAD, SPREAD)


@dataclass(frozen=True)
class EstimatedCalls:
    """Calls to a language model or embedding service.

    Attributes
    ----------
    endpoint : name in `conf/llm`; `what`: the purpose of the calls, or the model of the vectors.
    price : in the unit of the endpoint's prices; None, like the tokens, if the texts are not known.
    hours : least duration by the endpoint's limits of requests and tokens a minute.
    """

    endpoint: str
    what: str
    calls: int
    tokens_in: Range | None
    tokens_out: Range | None
    price: Range | None
    hours: Range | None
    origin: str


@dataclass(frozen=True)
class GroupEstimate:
    """What a group of tables takes."""

    group: TableGroup
    needed: tuple[Needed, ...]
    steps: tuple[WorkStep, ...]
    calls: tuple[EstimatedCalls, ...]

    @property
    def hours(self) -> Range:
        """Hours of one core, of the steps whose time is known."""
        return sum((step.hours for step in self.steps if step.hours is not None), NOTHING)

    @property
    def unknown(self) -> tuple[str, ...]:
        """What takes an unknown time: steps by their titles, and corpora without counts."""
        uncounted = [f"the work on corpus {name}" for name in self.group.corpora if name not in data().corpora]
        return (*uncounted, *(step.title for step in self.steps if step.hours is None))

    @property
    def disk(self) -> Range:
        """MB of the files whose size is known: those to obtain and those that the steps leave."""
        sizes = [each.megabytes for each in self.needed] + [step.disk for step in self.steps]
        return sum((size for size in sizes if size is not None), NOTHING)

    @property
    def unsized(self) -> tuple[str, ...]:
        """Names of what must be obtained and has an unknown size."""
        return tuple(each.name for each in self.needed if each.megabytes is None)

    @property
    def memory(self) -> float | None:
        """MB that the largest step needs at least; None if no step's memory is known."""
        return max((step.memory for step in self.steps if step.memory is not None), default=None)

    @property
    def price(self) -> Range | None:
        """Price of all calls; None if that of one is not known."""
        prices = [call.price for call in self.calls]
        return None if None in prices else sum((price for price in prices if price is not None), NOTHING)

    @property
    def dollars(self) -> Range | None:
        """Dollars of the known hours of one core, and of the calls; None if the price of a call is not known."""
        return None if self.price is None else self.hours.times(prices().cpu.dollars) + self.price


def united(groups: Sequence[GroupEstimate]) -> GroupEstimate:
    """Returns what all groups of a paper take together; what several need is counted once."""
    runs = {repr(run): run for each in groups for run in each.group.runs}
    return _estimate(TableGroup(("all tables",), "", tuple(runs.values())))


def _estimate(group: TableGroup) -> GroupEstimate:
    configurations = [part for run in group.runs for part in nested_configurations(run.configuration)]
    needed = needed_by(configurations, group.corpora, group.collections)
    return GroupEstimate(group, tuple(needed), work_steps(group), tuple(calls_of(group)))


def estimates(paper: Paper) -> tuple[GroupEstimate, ...]:
    """Returns the estimate of each group of a paper's tables, in the paper's order.

    What several groups need is in each of them, and is obtained, made and paid once.
    """
    return tuple(map(_estimate, table_groups(paper)))


def order(groups: Sequence[GroupEstimate], key: str) -> tuple[str, ...]:
    """Returns what to do, in order: manual downloads, models last, then the tables by their known hours."""
    once: dict[str, Needed] = {each.name: each for estimate in groups for each in estimate.needed}
    ranked = sorted(once.values(), key=lambda each: ("--from" not in each.where, each.name in data().models))
    lines = [f"get {each.name}: {each.where}" for each in ranked]
    for each in sorted(groups, key=lambda each: (len(each.unknown), each.hours.high)):
        names = ",".join(f"'{name}'" if "." in name else name for name in each.group.tables)  # 4.10 is no number
        command = f'harness reproduce paper={key} make=true "tables=[{names}]"'
        lines.append(f"make the runs of {', '.join(each.group.tables)}: {command}")
    return (*lines, f"harness reproduce paper={key}")


def to_json(groups: Sequence[GroupEstimate], key: str) -> dict[str, Any]:
    """Returns the estimates as JSON values; what is not known is null."""
    tables = [
        {
            "tables": list(each.group.tables),
            "runs": {"source": each.group.source, "count": len(each.group.runs), "systems": list(each.group.systems)},
            "corpora": list(each.group.corpora),
            "collections": list(each.group.collections),
            "hours of one core": asdict(each.hours),
            "hours not known": list(each.unknown),
            "hours of one GPU": None,
            "disk, MB": asdict(each.disk),
            "size not known": list(each.unsized),
            "memory at least, MB": each.memory,
            "price": None if each.price is None else asdict(each.price),
            "dollars": None if each.dollars is None else asdict(each.dollars),
            "obtain": [asdict(item) for item in each.needed],
            "steps": [{name: value for name, value in asdict(step).items() if name != "key"} for step in each.steps],
            "calls": [asdict(call) for call in each.calls],
        }
        for each in groups
    ]
    whole = united(groups)
    dollars = None if whole.dollars is None else asdict(whole.dollars)
    total = {"hours of one core": asdict(whole.hours), "dollars": dollars}
    return {"tables": tables, "all tables": total, "prices": asdict(prices()), "order": list(order(groups, key))}


def calls_of(group: TableGroup) -> Iterator[EstimatedCalls]:
    """Yields the calls to language models and services that runs take, each kind once."""
    runs = work.countable_runs(group)
    for endpoint, prompt in dict.fromkeys(each for run in group.runs for each in asked_by(run.configuration)):
        documents = int(data().corpora[runs[0].corpus].range.high) if runs else 0
        count = work.topic_and_judgment_counts(runs)[0] if prompt == "augment" else documents
        yield _answer_calls(load_endpoint(endpoint), prompt, count)
    seen: dict[tuple[str, str], PlannedRun] = {}
    for run in runs:
        view = str(run.configuration.get("view", "")) if "llm" in run.configuration else ""
        for name in needed_models(nested_configurations(run.configuration)):
            if name in config.names("llm"):
                seen.setdefault((name, view), run)
    for (name, view), run in seen.items():
        yield _vector_calls(load_endpoint(name), view, run, work.topic_and_judgment_counts(runs)[0])


def _answer_calls(endpoint: Endpoint, prompt: str, count: int) -> EstimatedCalls:
    """Returns the calls that write one answer for each prompt, by the estimate of a dry run that has seen no call."""
    size = data().prompts[prompt]
    made = tokens_of(endpoint, [(size.letters, size.others)] * count, [], "")
    tokens_in, tokens_out = _EITHER_WAY.times(made.tokens_in), _EITHER_WAY.times(made.tokens_out)
    origin = f"requests of {size.letters + size.others:,} characters (mean of {size.n:,}: {size.origin})"
    return _priced(endpoint, prompt, count, tokens_in, tokens_out, f"{origin}; 3.5 characters a token, 256 an answer")


def _vector_calls(endpoint: Endpoint, view: str, run: PlannedRun, asked: int) -> EstimatedCalls:
    """Returns the calls for the vectors of documents and topics; the tokens are known of declarations alone."""
    what, counts = f"vectors of {view or 'texts'}", data().corpora[run.corpus]
    texts = int(counts.range.high)
    count = -(-texts // endpoint.batch) + asked
    if counts.texts != "declarations":
        unknown = "the length of the texts is not known"
        return EstimatedCalls(endpoint.name, what, count, None, None, None, None, unknown)
    size = data().prompts["statement"]
    formal = tokens_of(endpoint, [(size.letters, size.others)] * texts, [], "").tokens_in
    tokens = (formal if "formal" in view.split("+") else 0) + (256 * texts if "informal" in view else 0)
    origin = f"statements of {size.letters + size.others} characters (mean of {size.n:,}), 256 tokens of prose"
    return _priced(endpoint, what, count, _EITHER_WAY.times(tokens), NOTHING, origin)


def _priced(
    endpoint: Endpoint, what: str, count: int, tokens_in: Range, tokens_out: Range, origin: str
) -> EstimatedCalls:
    bounds = ((tokens_in.low, tokens_out.low), (tokens_in.high, tokens_out.high))
    price = Range(*(endpoint.cost(*each) for each in bounds))
    least = count / (endpoint.requests_per_minute or float("inf"))
    minutes = [max(least, sum(each) / (endpoint.tokens_per_minute or float("inf"))) for each in bounds]
    hours, origin = Range(*minutes).times(1 / 60), f"conf/llm/{endpoint.name}.yaml; {origin}"
    return EstimatedCalls(endpoint.name, what, count, tokens_in, tokens_out, price, hours, origin)


State = Literal["here", "fetch", "by hand"]


@dataclass(frozen=True)
class Needed:
    """A file, model, package or key.

    Attributes
    ----------
    where : the command or address that it is from.
    megabytes : its size; None if not known.
    state : whether it is here, `harness fetch` gets it, or a person must do what `where` says.
    source : name for `harness fetch`; empty if that does not get it.
    """

    name: str
    where: str
    licence: str
    megabytes: Range | None
    state: State = "here"
    source: str = ""


def needed_by(
    configurations: Sequence[Mapping[str, Any]], corpora: Iterable[str], collections: Iterable[str]
) -> Iterator[Needed]:
    """Yields what systems (given by all their parts) need on corpora and collections, each once."""
    extras = dict.fromkeys(word for part in configurations for word in str(part.get("extra") or "").split(",") if word)
    lacking = module_lines(configurations)
    if extras or lacking:
        where = f"pip install 'mathir-harness[{','.join(extras)}]'" if extras else "; ".join(lacking)
        yield Needed("the packages", where, "of each package", None, "by hand" if lacking else "here")
    for name in corpora:
        corpus = load_corpus(name)
        yield _files_needed("corpus", name, corpus.files(), corpus.state(), corpus.licence)
    for name in collections:
        collection = load_collection(name)
        yield _files_needed("collection", name, collection.files(), collection.state(), collection.licence)
    brought = by_hand(configurations)
    for name in models_of(configurations):
        yield _key_needed(name) if name in config.names("llm") else _model_needed(name, brought)
    if answers := missing_answers(configurations):
        yield Needed("answers of language models", "; ".join(answers), "the service's terms", NOTHING, "by hand")
    else:
        asked = dict.fromkeys(endpoint for part in configurations for endpoint, _ in asked_by(part))
        yield from (_key_needed(endpoint) for endpoint in asked)
    for parser, part in {str(part["parser"]): part for part in configurations if part.get("parser")}.items():
        lines = module_lines([part])
        extra = "amr" if parser.startswith("amrlib") else "graphs"
        where = "; ".join(lines) or f"pip install 'mathir-harness[{extra}]'"
        yield Needed(f"parser {parser}", where, UNKNOWN, None, "by hand" if lines else "here")


def models_of(configurations: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Returns the models that systems load or ask for vectors, each once."""
    linearised = [part["model"] for part in configurations if str(part.get("_target_", "")).endswith(".Linearised")]
    return tuple(dict.fromkeys((*needed_models(configurations), *linearised)))


def too_much_for_small_scale(configurations: Sequence[Mapping[str, Any]], budget: float | None) -> Iterator[str]:
    """Yields what a system needs and the scale `here` does without: models that are no package, calls without a budget.

    Parameters
    ----------
    budget : dollars for paid calls; None without any.
    """
    services = config.names("llm")
    for name in models_of(configurations):
        if name not in services and name not in config.names("source"):
            yield f"the model {name} (not at small scale)"
    asked = [endpoint for part in configurations for endpoint, _ in asked_by(part)]
    for name in dict.fromkeys((*asked, *(model for model in models_of(configurations) if model in services))):
        endpoint = load_endpoint(name)
        if budget is None and (endpoint.price_in or endpoint.price_out):
            yield f"paid calls of {name} (with budget=DOLLARS)"


def asked_by(configuration: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yields (endpoint, prompt) of what a system asks of language models."""
    if "llm" in configuration and configuration.get("view") != "formal":
        yield str(configuration["llm"]), "informalise"
    if "llm" in configuration and configuration.get("augment"):
        yield str(configuration.get("augment_llm") or configuration["llm"]), "augment"


def _files_needed(kind: str, name: str, files: Sequence[Any], state: str, licence: str) -> Needed:
    sizes = [getattr(file, "size", None) for file in files]
    known = all(sizes)
    size = sum(each or 0 for each in sizes) / 1e6
    fetched = state == "fetchable" or state.startswith("needs the data set ")  # of a hub
    source: State = "here" if state == "here" else "fetch" if fetched else "by hand"
    where = f"harness fetch {name}" if state in ("here", "fetchable") else state.removeprefix("needs ")
    megabytes = Range(size, size) if known else None
    return Needed(f"{kind} {name}", where, licence or UNKNOWN, megabytes, source, "" if source == "by hand" else name)


def _model_needed(name: str, brought: Mapping[str, str]) -> Needed:
    from harness.systems.dense import models

    absent = bool(models.missing(name))
    if name in config.names("source"):
        mapping, _ = config.load("source", name)
        size = Range(*[sum(file.size for file in catalogue.source_files(name)) / 1e6] * 2)
        licence, where = str(mapping.get("licence", UNKNOWN)), f"harness fetch {name}"
        return Needed(name, where, licence, size, "fetch" if absent else "here", name)
    known = data().models.get(name)
    licence = (known.licence if known else "") or UNKNOWN
    manual = name in brought or "/" not in name
    hub = f"Hugging Face hub: hf download {name}" if "/" in name else f"a folder {name}, or system.model=FOLDER"
    where = brought.get(name, hub)
    state: State = "here" if not absent else "by hand" if manual else "fetch"
    return Needed(name, where, licence, None if known is None else known.megabytes, state, "" if manual else name)


def _key_needed(name: str) -> Needed:
    endpoint = load_endpoint(name)
    state: State = "by hand" if endpoint.missing() else "here"
    return Needed(f"a key for {endpoint.model}", f"set {endpoint.key}", "the service's terms", NOTHING, state)
