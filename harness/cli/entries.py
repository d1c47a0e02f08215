"""Groups of configurations, and a row of facts for each name, for `list` and `show`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.errors import HarnessError, suggestion
from harness.io import config
from harness.io.files import data_root

Row = Mapping[str, str]  # column -> text; `name` is one of them
AVAILABLE = ("ready", "here")  # states of what can be used at once
_SHORT = ("fetchable", "here", "ready", "not implemented", "blocked", "manual download")


@dataclass(frozen=True)
class ConfigurationGroup:
    """A group of configurations.

    Attributes
    ----------
    folder : below `conf/`, which is also its name in `harness run`.
    says : what one of its configurations is.
    used : the names to begin with.
    row : the facts about a name, in the order of the columns. `state` is one of few words, `missing` the whole of it.
    """

    folder: str
    says: str
    used: tuple[str, ...]
    row: Callable[[str], Row]


def _kind(state: str) -> str:
    return next((word for word in _SHORT if state.startswith(word)), "needs")


def _remedy(state: str, name: str) -> str:
    """Returns what is missing, or the command that fetches it; empty if nothing is."""
    return {"here": "", "fetchable": f"harness fetch {name}"}.get(state, state)


def _system(name: str) -> Row:
    from harness.papers.records import marked, of_system
    from harness.systems.states import system_state

    mapping, where = config.load("system", name)
    kind, state = system_state(mapping, name)
    # Those of the harness are tested.
    if kind == "ready" and not config.names("system")[name].is_relative_to(data_root()):
        from harness.systems.build import key_faults

        if faults := key_faults(mapping, where):
            kind, state = "broken", f"broken: {'; '.join(faults)}"
    if kind == "needs":
        state = marked(state, of_system(name))
    return {
        "name": name,
        "state": kind,
        "title": str(mapping.get("title", "")),
        "paper": str(mapping.get("paper", "")),
        "missing": "" if state == "ready" else state,
    }


def _collection(name: str) -> Row:
    from harness.collections.load import load_collection

    collection = load_collection(name)
    state = collection.state()
    return {
        "name": name,
        "state": _kind(state),
        "title": collection.title,
        "editions": "/".join(collection.editions),
        "licence": collection.licence,
        "missing": _remedy(state, name),
    }


def _corpus(name: str) -> Row:
    from harness.collections.corpora import load_corpus

    corpus = load_corpus(name)
    state = corpus.state()
    missing = _remedy(state, name)
    return {"name": name, "state": _kind(state), "title": corpus.title, "licence": corpus.licence, "missing": missing}


def _paper(name: str) -> Row:
    from harness.papers.paper import load_paper, paper_names

    if name not in paper_names():  # `all` and `demo`, which `reproduce` takes
        return {"name": name, "state": "here", "title": str(config.load("paper", name)[0].get("title", ""))}
    paper = load_paper(name)
    state = paper.state()
    return {
        "name": name,
        "state": _kind(state),
        "title": paper.title,
        "published": f"{len(paper.cells)} cells",
        "licence": paper.licence(),
        "missing": _remedy(state, name),
    }


def _experiment(name: str) -> Row:
    from harness.experiments.experiment import load_experiment

    experiment = load_experiment(name)
    return {
        "name": name,
        "runs": f"{len(experiment.cells())}",
        "tests": f"{experiment.tests}",
        "title": experiment.title,
    }


def _source(name: str) -> Row:
    mapping, _ = config.load("source", name)
    return {"name": name, "title": str(mapping.get("title", "")), "licence": str(mapping.get("licence", ""))}


def _sweep(name: str) -> Row:
    mapping, where = config.load("sweep", name)
    values = {key: str(text) for key, text in swept(mapping, where).items()}
    counted = {key: text if "(" in text else f"{text.count(',') + 1} values" for key, text in values.items()}
    return {"name": name, "varies": "; ".join(f"{key}: {text}" for key, text in counted.items())}


def swept(mapping: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    """Returns parameter -> values of the configuration of a sweep; raises HarnessError if it is not a mapping."""
    level = mapping
    for depth, key in enumerate(keys := ("hydra", "sweeper", "params"), 1):
        inner = level.get(key, {})
        if not isinstance(inner, Mapping):
            raise HarnessError(f"{where}: key '{'.'.join(keys[:depth])}' is {inner!r}, expected a mapping")
        level = inner
    return level


def _titled(group: str) -> Callable[[str], Row]:
    def row(name: str) -> Row:
        mapping, _ = config.load(group, name)
        return {"name": name, "title": str(mapping.get("title", ""))}

    return row


def _endpoint(name: str) -> Row:
    from harness.store.llm.endpoint import load_endpoint

    missing = "; ".join(load_endpoint(name).missing())
    return {"name": name, "state": "needs" if missing else "ready", "missing": missing}


GROUPS = {
    "systems": ConfigurationGroup(
        "system",
        "what ranks documents for topics",
        ("bm25", "tree", "fusion-rrf", "bi-encoder-minilm", "cross-encoder", "cross-lingual-nllb", "mathamr-plus"),
        _system,
    ),
    "collections": ConfigurationGroup(
        "collection",
        "topics, judgments and the protocol that runs are scored by",
        ("mini-task1", "arqmath-3-task1", "arqmath-3-task2", "crossmath-spa", "mathlib-qr", "stacks-proofs"),
        _collection,
    ),
    "corpora": ConfigurationGroup(
        "corpus",
        "documents that systems search",
        ("mini-answers", "mse-pages", "arqmath-posts", "mse-formulas", "mathlib-decls", "stacks"),
        _corpus,
    ),
    "protocols": ConfigurationGroup(
        "protocol",
        "measures, and how a ranking is prepared for them",
        ("trec_eval", "arqmath-task1", "arqmath-task2", "crossmath", "mathlib"),
        _titled("protocol"),
    ),
    "papers": ConfigurationGroup(
        "paper",
        "a paper's runs, tables and published numbers",
        ("crossmath", "mathamr-plus", "mirmu-msm", "mathlib4", "saber-math"),
        _paper,
    ),
    "experiments": ConfigurationGroup(
        "experiment",
        "conditions, axes and seeds that are run and tested together",
        ("mini", "answers", "formula-search", "crossmath", "mirmu", "mathlib4"),
        _experiment,
    ),
    "sweeps": ConfigurationGroup("sweep", "parameters to vary", ("bm25-k1-b", "bm25-grid", "rrf-k"), _sweep),
    "sources": ConfigurationGroup(
        "source",
        "public files and models, with size, SHA-256 and licence",
        ("pya0", "crossmath-2024-04-25", "all-minilm-l6-v2", "stacks-project"),
        _source,
    ),
    "builders": ConfigurationGroup(
        "builder", "how a collection is made from problems with solutions", ("saber-mini", "saber"), _titled("builder")
    ),
    "llms": ConfigurationGroup("llm", "language models behind an address", ("local", "openai-gpt-4"), _endpoint),
}


def group_of(word: str) -> str:
    """Returns the group that a word names: its name, or that of its folder.

    Raises
    ------
    HarnessError
        There is no such group.

    Examples
    --------
    >>> group_of("system"), group_of("corpora")
    ('systems', 'corpora')
    """
    for name, group in GROUPS.items():
        if word in (name, group.folder):
            return name
    raise HarnessError(f"group {word!r} is unknown; {suggestion(word, GROUPS)}")


def find(name: str, group: str | None = None) -> tuple[str, str]:
    """Returns the group and the name of a configuration.

    `group` is needed where several groups have the name and none of them is that of papers, which else comes first.

    Raises
    ------
    HarnessError
        There is no such name, or several groups have one, and no paper has it.

    Examples
    --------
    >>> find("bm25"), find("crossmath", "paper")
    (('systems', 'bm25'), ('papers', 'crossmath'))
    """
    searched = [group_of(group)] if group else list(GROUPS)
    groups = groups_with(name, searched)
    if not groups:
        known = [each for place in searched for each in config.names(GROUPS[place].folder)]
        what = GROUPS[searched[0]].folder if group else "name"
        near = suggestion(name, known)
        remedy = (
            near
            if near.startswith("did you mean")
            else f"see: harness list {searched[0]}"
            if group
            else "see: harness list"
        )
        raise HarnessError(f"{what} {name!r} is unknown; {remedy}")
    if "papers" in groups:
        return "papers", name
    if len(groups) > 1:
        raise HarnessError(f"{name!r} names {len(groups)} things: {' or '.join(show_commands(name, groups))}")
    return groups[0], name


def groups_with(name: str, searched: Iterable[str] = GROUPS) -> list[str]:
    """Returns the groups that have a configuration of a name."""
    return [each for each in searched if name in config.names(GROUPS[each].folder)]


def show_commands(name: str, groups: Iterable[str]) -> list[str]:
    """Returns the command for each group that shows its configuration of a name."""
    return [f"harness show {GROUPS[each].folder} {name}" for each in groups]


def rows(group: str) -> list[Row]:
    """Returns the facts about every configuration of a group, sorted by name; of one with a fault, the fault."""
    from harness.sources.cache import mirror_root

    mirror_root()  # a wrong HARNESS_MIRROR is one fault, not one of each row
    return [_row(group, name) for name in sorted(config.names(GROUPS[group].folder))]


def _row(group: str, name: str) -> Row:
    try:
        return GROUPS[group].row(name)
    except HarnessError as error:
        return {"name": name, "state": "broken", "title": error.lines[0]}


def chosen(candidates: Sequence[Row], *, ready: bool = False, paper: str = "", needs: str = "") -> list[Row]:
    """Returns the rows that are ready, belong to a paper, or need something that contains a word.

    Examples
    --------
    >>> table = [{"name": "a", "missing": ""}, {"name": "b", "missing": "the model m"}]
    >>> [row["name"] for row in chosen(table, needs="Model")]
    ['b']
    """
    return [
        row
        for row in candidates
        if (not ready or row.get("state") in AVAILABLE)
        and (not paper or row.get("paper") == paper)
        and (not needs or needs.casefold() in row.get("missing", "").casefold())
    ]
