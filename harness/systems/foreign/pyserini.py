"""Searchers of Pyserini (Lin et al., SIGIR 2021): Lucene's BM25 and query likelihood, impact indexes, FAISS.

They need the whole package, unlike `anserini-bm25`, which needs its jar alone. Pyserini runs in a process of its own,
which Java and torch are loaded into.
"""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any, Literal

from harness.collections.corpus import Corpus
from harness.data.trec import Run
from harness.errors import HarnessError
from harness.io import checks
from harness.io.files import sha256_file
from harness.store import artefacts, code
from harness.store.cost import answered, phase
from harness.systems import hardware
from harness.systems.base import Request
from harness.systems.dense import models
from harness.systems.foreign import pyserini_process
from harness.systems.foreign.process import process_answer
from harness.systems.foreign.results import ForeignResults, cut, run_of
from harness.systems.lexical import runtime
from harness.systems.lexical.anserini import INDEX, Anserini
from harness.systems.lexical.runtime import JavaRuntime
from harness.systems.lexical.system import Weights
from harness.systems.ranking import permitted

EXTRA = "pyserini"
SEARCHERS = ("lucene", "impact", "faiss")
_REQUIRED = re.compile(r"[\w.-]+")


@dataclass(frozen=True)
class Pyserini(checks.Checked):
    """A searcher of Pyserini.

    With a pool, results are restricted to it; its documents that the searcher does not find are not returned.

    Parameters
    ----------
    searcher : `lucene`; `impact`, for learned sparse representations; or `faiss`.
    index : folder of an index, or the name of a prebuilt one, which Pyserini downloads and verifies; None to index the
        corpus: by Lucene's English analysis, or by the encoder (for `faiss`, exactly).
    encoder : model of `impact` and `faiss`: a source in `conf/source/`, a folder, or a name on the hub.
    encoder_class : Pyserini's class for the model, one of `pyserini_process.QUERIES`.
    encoder_options : arguments of that class, such as `{pooling: mean, l2_norm: true}`.
    similarity : `bm25` or `qld` (query likelihood, Dirichlet smoothing) of `lucene`.
    k1, b, mu : parameters of the similarities.
    rm3, rocchio : arguments of Pyserini's `set_rm3` and `set_rocchio`, such as `{fb_terms: 10}`; None for no feedback.
    query, document : field -> weight, as in `harness.systems.lexical.anserini.Anserini`.
    device : `auto`, `cpu` or `cuda`, of the encoder.
    java, jar, jar_sha256 : as in `Anserini`.
    depth : results of each topic.
    """

    searcher: Annotated[str, partial(checks.choice, known=SEARCHERS)] = "lucene"
    index: str | None = None
    encoder: str | None = None
    encoder_class: str | None = None
    encoder_options: Mapping[str, Any] = field(default_factory=dict)
    similarity: Literal["bm25", "qld"] = "bm25"
    k1: float = 0.9
    b: float = 0.4
    mu: checks.Number = 1000.0
    rm3: Mapping[str, Any] | None = None
    rocchio: Mapping[str, Any] | None = None
    query: Weights = field(default_factory=lambda: {"title": 1, "body": 1, "tags": 1})
    document: Weights = field(default_factory=lambda: {"title": 1, "body": 1, "tags": 1})
    device: hardware.Device = "auto"
    java: str | None = None
    jar: str | None = None
    jar_sha256: str = runtime.JAR_SHA256
    depth: int = 1000
    name: str = "pyserini"

    def __post_init__(self) -> None:
        super().__post_init__()
        for key in ("encoder_options", "rm3", "rocchio"):
            value = getattr(self, key)
            if value is not None and not isinstance(value, Mapping):
                raise HarnessError(f"key {key!r} is {value!r}, expected names and values")
        for key in ("encoder", "encoder_class") if self.searcher == "lucene" else ("rm3", "rocchio"):
            if getattr(self, key) is not None:
                raise HarnessError(f"key {key!r} is not used by searcher {self.searcher}; leave it out")
        if self.searcher != "lucene":
            if self.encoder is None:
                raise HarnessError(f"key 'encoder' is missing: searcher {self.searcher} needs a model")
            checks.choice("encoder_class", self._class, pyserini_process.QUERIES[self.searcher])
        self._anserini  # noqa: B018  (checks the other parameters)

    def libraries(self) -> tuple[str, ...]:
        """Returns the distributions whose versions the metadata file records."""
        more = () if self.searcher == "lucene" else ("torch", "transformers")
        faiss = ("faiss-cpu",) if self.searcher == "faiss" and _is_installed("faiss-cpu") else ()
        return ("pyserini", "pyjnius", *more, *faiss)

    def searches(self) -> bool:
        """Returns whether the system reads a corpus: it does unless it searches a ready index (key `index`)."""
        return self.index is None

    def reads(self) -> dict[str, Any]:
        """Returns the checksums of the files of the index, the encoder's identity, and the device."""
        inputs: dict[str, Any] = {}
        if self.index is not None and (folder := Path(self.index).expanduser()).is_dir():
            files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "write.lock")
            inputs["index"] = {path.relative_to(folder).as_posix(): sha256_file(path) for path in files}
        return inputs | ({} if self.encoder is None else self._encoder_identity())

    def __call__(self, request: Request) -> Run:
        """Searches all topics that have a text.

        Raises
        ------
        HarnessError
            A package, Java or the model is missing; the index is neither a folder nor a prebuilt one; Pyserini fails;
            or it returns a document that the corpus does not hold.
        """
        if lacking := missing():
            raise HarnessError("; ".join(lacking))
        engine = runtime.engine(self.java, self.jar, self.jar_sha256)
        asked = {topic.id: " ".join(self._anserini.topic_text(topic).split()) for topic in request.topics}
        pool = request.pool
        queries = {name: text for name, text in asked.items() if text and (pool is None or pool.get(name))}
        if not queries:
            raise HarnessError(f"system {self.name}: no topic has a text; the key 'query' names what is read of topics")
        with self._index(engine, request) as place, phase("search"):
            # With a pool or excluded documents, the results that count may lie below the depth.
            whole = pool is not None or request.excluded is not None
            job = {"task": "search", "queries": queries, "depth": None if whole else self.depth}
            made = self._answer_of_process(engine, {**job, **place})
        answered(made["seconds"])
        corpus = request.corpus
        if not any(made["found"].values()):
            raise HarnessError(f"system {self.name}: no topic shares a word with the index")
        run = run_of(self.name, ForeignResults.of(made["found"]), list(asked), corpus=corpus)
        return permitted(run, request) if not whole else cut(permitted(run, request), self.depth)

    @cached_property
    def _anserini(self) -> Anserini:
        """The index of Lucene's English analysis, and the texts of documents and topics."""
        own = (self.java, self.jar, self.jar_sha256)
        return Anserini(None, self.query, self.document, self.k1, self.b, False, *own, self.depth, self.name)

    @property
    def _class(self) -> str:
        return self.encoder_class or ("auto" if self.searcher == "faiss" else "splade")

    @cached_property
    def _model(self) -> models.AvailableModel:
        return models.find_model(str(self.encoder))

    def _encoder_identity(self) -> dict[str, Any]:
        """Returns what a run depends on of the encoder: its files and the arithmetic."""
        return {"encoder": dict(self._model.identity), "arithmetic": hardware.arithmetic(hardware.device(self.device))}

    def _answer_of_process(self, engine: JavaRuntime, job: Mapping[str, Any]) -> Any:  # noqa: ANN401
        """Runs Pyserini in a process of its own on a job; returns its answer."""
        device = "cpu" if self.searcher == "lucene" or hardware.device(self.device) == "cpu" else "cuda:0"
        shared = {
            **{key: getattr(self, key) for key in ("searcher", "similarity", "k1", "b", "mu", "rm3", "rocchio")},
            "jar": str(engine.jar.absolute()),
            "encoder": None if self.encoder is None else str(self._model.folder),
            "encoder_class": self._class,
            "encoder_options": dict(self.encoder_options),
            "device": device,
        }
        environment = {"JAVA_HOME": str(engine.java.resolve().parents[1])}
        what = f"system {self.name}: pyserini"
        return process_answer(what, pyserini_process.__name__, {**shared, **job}, environment)

    @contextmanager
    def _index(self, engine: JavaRuntime, request: Request) -> Iterator[dict[str, Any]]:
        """Opens the index; its place are the keys `folder` and `prebuilt` of a job."""
        if self.index is not None:
            folder = Path(self.index).expanduser()
            here = folder.is_dir()
            yield {"folder": str(folder.absolute()) if here else None, "prebuilt": None if here else self.index}
            return
        corpus = request.corpus_for(self.name)
        if self.searcher == "lucene":
            feedback = self.rm3 is not None or self.rocchio is not None
            with self._anserini.index(engine, corpus, vectors=feedback) as folder:
                yield {"folder": str((folder / INDEX).absolute()), "prebuilt": None}
            return
        folder = self._encoded(engine, corpus)
        yield {"folder": str(folder if self.searcher == "faiss" else folder / "index"), "prebuilt": None}

    def _encoded(self, engine: JavaRuntime, corpus: Corpus) -> Path:
        """Returns the folder of an index of the encoder's representations, from the store or built."""
        spec = {
            **corpus.identity(),
            **self._encoder_identity(),
            "searcher": self.searcher,
            "document": dict(self.document),
            "encoder_class": self._class,
            "encoder_options": dict(self.encoder_options),
            "code": code.of(__name__),
            "jar": engine.sha256,
        }

        def build(folder: Path) -> None:
            with (folder / pyserini_process.DOCUMENTS).open("w", encoding="utf-8") as lines:
                lines.writelines(json.dumps(pair) + "\n" for pair in self._anserini.document_texts(corpus))
            self._answer_of_process(engine, {"task": "index", "folder": str(folder.absolute())})
            (folder / pyserini_process.DOCUMENTS).unlink()

        with phase("index"):
            return artefacts.get_or_build("pyserini-index", spec, build)


def missing(mapping: Mapping[str, Any] | None = None) -> tuple[str, ...]:
    """Returns what is missing to run Pyserini, without importing it; empty if nothing is."""
    lines = []
    get = f"pip install 'mathir-harness[{EXTRA}]'"
    if importlib.util.find_spec("pyserini") is None or not _is_installed("pyserini"):
        lines.append(f"pyserini is not installed: {get}")
    else:
        needed = [line for line in metadata.requires("pyserini") or () if "extra ==" not in line]
        names = [name[0] for line in needed if (name := _REQUIRED.match(line))]
        lacking = [name for name in names if not _is_installed(name)]
        if (mapping or {}).get("searcher") == "faiss" and importlib.util.find_spec("faiss") is None:
            lacking.append("faiss-cpu")
        if lacking:
            more = f" and {len(lacking) - 1} other packages" if lacking[1:] else ""
            lines.append(f"pyserini lacks {lacking[0]}{more}: {get}")
    named = (mapping or {}).get("java")
    try:
        runtime.find_java(named) if named else runtime.find_java()
    except HarnessError as error:
        lines.append(str(error))
    return tuple(lines)


def _is_installed(distribution: str) -> bool:
    try:
        metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return False
    return True
