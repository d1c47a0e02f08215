"""Estimates of what a paper's tables take: time, disk, memory, language-model calls, files to get, and the order.

Rates are measurements of `bench/results`, counts are those of the real resources (`conf/paper/costs`). A rate is
applied to other texts, and often to another model, than those it was measured on. So each time is a range, from half
of the lowest to twice the highest measurement; an encoder of another size is scaled by layers x width². What has no
origin is None, and is printed as `not known`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from harness.io import config
from harness.papers.groups import TableGroup, table_groups, topic_and_judgment_counts
from harness.papers.needs import Needed, asked_by, needed_by
from harness.papers.paper import Paper
from harness.papers.rates import NOTHING, SPREAD, Range, data, prices
from harness.papers.steps import PlannedRun
from harness.papers.work import WorkStep, countable_runs, work_steps
from harness.store.llm import Endpoint, load_endpoint
from harness.store.llm.estimate import estimate_calls as tokens_of
from harness.systems.states import needed_models, nested_configurations

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
    return GroupEstimate(group, tuple(_needed_by_group(group)), work_steps(group), tuple(calls_of(group)))


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
    by_hours = sorted(groups, key=lambda each: (len(each.unknown), each.hours.high))
    for each in by_hours:
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
    total = {
        "hours of one core": asdict(whole.hours),
        "dollars": None if whole.dollars is None else asdict(whole.dollars),
    }
    return {"tables": tables, "all tables": total, "prices": asdict(prices()), "order": list(order(groups, key))}


def _needed_by_group(group: TableGroup) -> Iterator[Needed]:
    configurations = [part for run in group.runs for part in nested_configurations(run.configuration)]
    return needed_by(configurations, group.corpora, group.collections)


def _asked(group: TableGroup) -> Iterator[tuple[str, str]]:
    """Yields (endpoint, prompt) of what the runs ask of language models."""
    return (each for run in group.runs for each in asked_by(run.configuration))


def calls_of(group: TableGroup) -> Iterator[EstimatedCalls]:
    """Yields the calls to language models and services that runs take, each kind once."""
    runs = countable_runs(group)
    for endpoint, prompt in dict.fromkeys(_asked(group)):
        documents = int(data().corpora[runs[0].corpus].range.high) if runs else 0
        yield _answer_calls(
            load_endpoint(endpoint), prompt, topic_and_judgment_counts(runs)[0] if prompt == "augment" else documents
        )
    seen: dict[tuple[str, str], PlannedRun] = {}
    for run in runs:
        view = str(run.configuration.get("view", "")) if "llm" in run.configuration else ""
        for name in needed_models(nested_configurations(run.configuration)):
            if name in config.names("llm"):
                seen.setdefault((name, view), run)
    for (name, view), run in seen.items():
        yield _vector_calls(load_endpoint(name), view, run, topic_and_judgment_counts(runs)[0])


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
        return EstimatedCalls(
            endpoint.name, what, count, None, None, None, None, "the length of the texts is not known"
        )
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
    hours = Range(*minutes).times(1 / 60)
    return EstimatedCalls(
        endpoint.name, what, count, tokens_in, tokens_out, price, hours, f"conf/llm/{endpoint.name}.yaml; {origin}"
    )
