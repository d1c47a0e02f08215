"""What runs need that may not be here: packages, corpora, collections, models, keys of services and parsers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from harness.collections.corpora import load_corpus
from harness.collections.load import load_collection
from harness.io import config
from harness.papers.rates import NOTHING, UNKNOWN, Range, data
from harness.sources import catalogue
from harness.store.llm import load_endpoint
from harness.systems.states import by_hand, missing_answers, module_lines, needed_models

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
