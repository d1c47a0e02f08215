"""A reproducible shared-task evaluation harness for mathematical information retrieval.

    >>> import harness as h
    >>> task = h.task("arqmath-3-task1", "mse-pages")
    >>> runs = [h.produce(h.load_system("bm25", k1=k1, name=f"bm25-{k1}"), task) for k1 in (0.9, 1.2)]
    >>> h.compare(h.evaluate(task, *runs), "bm25-0.9").frame()

A name is loaded when it is first used; `__init__.pyi` says the same to type checkers.
"""

from importlib import import_module

from harness.version import __version__ as __version__

_PLACES = {
    "collections.collection": "Collection",
    "collections.corpora": "load_corpus",
    "collections.corpus": "Corpus Document",
    "collections.load": "load_collection",
    "data.topics": "Formula Topic Topics",
    "data.trec": "Qrels Run read_qrels read_run",
    "errors": "HarnessError",
    "experiments.evaluate": "Evaluation compare evaluate",
    "experiments.produce": "produce",
    "experiments.task": "Task task",
    "io.config": "names",
    "render.write": "Report",
    "reports.comparison": "report",
    "scoring.comparison": "Comparison",
    "scoring.protocol": "Protocol load_protocol",
    "scoring.rankings": "Measure",
    "scoring.scores": "Scores",
    "systems.base": "Request System",
    "systems.build": "load_system",
}
_MODULES = {name: f"{__name__}.{place}" for place, held in _PLACES.items() for name in held.split()}
__all__ = sorted(_MODULES)  # noqa: PLE0605


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return value


def __dir__() -> list[str]:
    return __all__
