"""Runs made by systems: what a system is given, where its run goes, and when it need not be made again."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from harness.collections.corpus import Corpus
from harness.data.topics import Topics
from harness.data.trec import Qrels, Run, parse_run
from harness.data.written import run_text
from harness.errors import HarnessError, several
from harness.experiments.task import Task, judged_pool, present, training_judgments
from harness.io.files import sha256, sha256_file, write_all
from harness.scoring.exclusions import Exclusions
from harness.store import artefacts, code, provenance, sidecar
from harness.store.cost import Meter, measuring
from harness.systems import states
from harness.systems.base import MARK, Pool, Request, System
from harness.systems.build import Built, guarded, load_system
from harness.systems.keys import decisive

Say = Callable[[str], None]


def quiet(_: str) -> None:
    """Say nothing."""


@dataclass(frozen=True)
class Produced:
    """A run, its file, and whether it had been made before.

    Attributes
    ----------
    key : the hash of all that decides its content; `basis` of all but the system's configuration.
    """

    run: Run
    path: Path
    key: str
    reused: bool
    basis: str


def produce(
    system: System | str,
    task: Task,
    *,
    runs: Path | str = Path("runs"),
    reuse: bool = True,
    training: Sequence[str] = (),
    rerank: bool = False,
) -> Run:
    """The run that a system makes for a task; it is kept below `runs`, and not made twice.

    Parameters
    ----------
    system : what `load_system` gives, the name of a configuration, or a function of a `Request`.
    reuse : take the run of the same configuration, data and code that lies there already.
    training : names of collections whose judgments a system may learn from; they must judge other topics.
    rerank : give the system the judged documents of each topic to rank, and nothing else.

    Raises
    ------
    HarnessError
        The system fails, may have learnt from what is judged here, or gives no run; the run cannot be written.

    Examples
    --------
    >>> import harness as h
    >>> task = h.task("mini-task1", "mini-answers")
    >>> run = produce(h.load_system("bm25", k1=1.2, name="bm25-k1.2"), task, runs="made")
    >>> run.name, len(run.topics)
    ('bm25-k1.2', 42)
    """
    return make(system, task, runs=runs, reuse=reuse, training=training, rerank=rerank).run


def make(
    system: System | str,
    task: Task,
    *,
    runs: Path | str = Path("runs"),
    reuse: bool = True,
    training: Sequence[str] | Qrels | None = None,
    rerank: bool = False,
    allow_test_judgments: bool = False,
    suffix: str = "",
    say: Say = quiet,
) -> Produced:
    """Let a system make its run, and write it and its side file below `runs`; the run as read back.

    Parameters
    ----------
    system : what `load_system` or `build_system` give, the name of a configuration, or anything of one's own that
        ranks (see `harness.systems.base.System`).
    reuse : take a run of the same configuration, data and code that lies at its place; without a configuration that
        cannot be known, and the run is always made.
    training : judgments of other topics than the task's, or the names of collections whose judgments they are, as
        `training_judgments` has them; cut to the documents of the task's corpus.
    rerank : give the system the judged documents of each topic to rank, and nothing else.
    allow_test_judgments : let the training judgments hold topics of the task; the run's name then says so.
    suffix : goes behind the run's name, so that the points of a sweep do not overwrite each other.

    Raises
    ------
    HarnessError
        Training judgments share a topic with the task, or the system may have learnt from what is judged in it; the
        system fails; the run cannot be written.

    Examples
    --------
    >>> from harness.experiments.task import task
    >>> from harness.systems.build import load_system
    >>> mini = task("mini-task1", "mini-answers")
    >>> made = make(load_system("bm25", k1=1.2, name="bm25-k1"), mini, runs="made")
    >>> made.path, len(made.run.topics), make(load_system("bm25", k1=1.2, name="bm25-k1"), mini, runs="made").reused
    (PosixPath('made/mini-task1/bm25-k1.run'), 42, True)
    """
    runs = Path(runs)
    work = _work(system, task, training, rerank, allow_test_judgments, suffix)
    built, task, collection = work.built, work.task, task.collection.name
    if reuse and (before := _before(work, runs, say)) is not None:
        path, run_before = before
        say(f"{path}: made before by the same configuration")
        return Produced(run_before, path, work.key, reused=True, basis=work.basis)
    say(f"running {built.name} on {collection}")
    excluded = task.scorer.exclusions
    with measuring() as meter:
        folder = runs / "workspace" / built.name
        run = built(Request(task.topics, task.corpus, folder, work.judgments, work.pool, excluded))
    if excluded is not None:
        run = _without(run, excluded, meter, say)
    marked = run.name.endswith(MARK)
    name = f"{run.name.removesuffix(MARK)}{suffix}{MARK if work.shared or marked else ''}"
    layout = "trec" if run.context is None else "arqmath-task2"
    # As it is read back, before anything is written: what is no run must not take the place of one.
    path = runs / collection / f"{name}.run"
    content = guarded(f"system {built.name}", lambda: run_text(replace(run, name=name), format=layout))
    read_back = parse_run(content.encode(), str(path), format=layout)
    if len(read_back) != len(run) or set(read_back.doc.tolist()) != set(run.doc.tolist()):
        raise HarnessError(f"system {built.name}: an id of its run is empty or holds blanks")
    made = sidecar.Made(work.key, work.spec, meter, provenance.provenance({}))
    side = sidecar.text(made, name=name, sha256=read_back.sha256, layout=layout, collection=collection)
    write_all({path: content, sidecar.beside(path): side})
    # Not read from the file: another process may have put a run of the same name there meanwhile.
    return Produced(read_back, path, work.key, reused=False, basis=work.basis)


def made_before(
    system: Built,
    task: Task,
    *,
    runs: Path,
    training: Sequence[str] = (),
    rerank: bool = False,
    allow_test_judgments: bool = False,
    suffix: str = "",
) -> Path | None:
    """The run that `make` would take instead of making one, with the same arguments; None if it would make it.

    Raises
    ------
    HarnessError
        What `make` raises before it lets the system run.
    """
    before = _before(_work(system, task, training, rerank, allow_test_judgments, suffix), runs, quiet)
    return None if before is None else before[0]


@dataclass(frozen=True)
class _Work:
    """What a system is given, and what decides its run.

    Attributes
    ----------
    shared : topics that the training judgments hold and that are ranked.
    """

    built: Built
    task: Task
    judgments: Qrels | None
    pool: Pool | None
    shared: frozenset[str]
    suffix: str
    spec: dict[str, Any]
    key: str
    basis: str


def _work(
    system: System | str,
    task: Task,
    training: Sequence[str] | Qrels | None,
    rerank: bool,
    allow_test_judgments: bool,
    suffix: str,
) -> _Work:
    built = load_system(system) if isinstance(system, str) else system
    built = built if isinstance(built, Built) else Built(built)
    collection, edition = task.collection.name, task.scorer.qrels.edition
    check_untrained(built, collection, edition)
    task = _untrained(built, task)
    judgments = _judgments(training, task)
    pool = judged_pool(task.scorer.qrels, task.keys) if rerank else None
    shared = _shared(task.topics, judgments, allow_test_judgments)
    spec = _spec(built, task, judgments, pool, suffix)
    check_untrained(built, collection, edition)  # again, as models that had to be fetched are known only now
    # Points of a sweep over several of our systems are compared, so that all of our code counts as one.
    same = {"code": code.ours()} if _ours(built) else {}
    rest = {name: part for name, part in spec.items() if name not in ("system", "reads", "suffix")} | same
    return _Work(built, task, judgments, pool, shared, suffix, spec, artefacts.key(decisive(spec)), artefacts.key(rest))


def _before(work: _Work, runs: Path, say: Say) -> tuple[Path, Run] | None:
    """The run that was made from the same things, and its file."""
    named = str((work.built.configuration or {}).get("name") or "")
    for mark in ("", MARK) if named else ():
        path = runs / work.task.collection.name / f"{named}{work.suffix}{mark}.run"
        if (run := _run_at(path, work.key, say)) is not None:
            return path, run
    return None


def _without(run: Run, excluded: Exclusions, meter: Meter, say: Say) -> Run:
    """The run without what is excluded and a system has left in; the side file says how much that is."""
    kept = replace(excluded.kept(run), sha256="")
    left = len(run) - len(kept)
    meter.notes["excluded"] = {
        "rules": list(excluded.rules),
        "results left out after the depth cut": left,
        "checksum": excluded.sha256,
    }
    if left:
        said = f"{left:,} of {len(run):,} results are excluded and taken out; the system itself does not leave them out"
        say(f"{run.name}: {said}")
    if not len(kept):
        raise HarnessError(f"system {run.name}: all of its results are excluded ({', '.join(excluded.rules)})")
    return kept


def _judgments(training: Sequence[str] | Qrels | None, task: Task) -> Qrels | None:
    """The training judgments, cut to what the corpus holds."""
    if training is not None and not isinstance(training, Qrels):
        training = training_judgments(several(training)) if training else None
    if training is None or task.corpus is None:
        return training
    cut, _ = present(training, task.corpus, task.keys)
    return cut


def _untrained(system: Built, task: Task) -> Task:
    """The task with the topics that a system may rank: all, or those of the edition that it alone leaves out."""
    left_out = system.trains_without()
    if left_out is None or task.collection.name in left_out:
        return task
    of_edition = frozenset(task.scorer.qrels.topics)
    return replace(task, topics=Topics(tuple(topic for topic in task.topics if topic.id in of_edition)))


def check_untrained(system: Built, collection: str, edition: str = "") -> None:
    """Raise HarnessError if a system trains on posts, and does not leave out those that the collection judges.

    It may leave out an edition alone, `COLLECTION/EDITION`, if that is the one which is run.
    """
    left_out = system.trains_without()
    if left_out is not None and left_out.isdisjoint((collection, f"{collection}/{edition}")):
        wanted = ",".join([*sorted(left_out), collection])
        key = ".".join(("system", *_path(system.configuration, "leave_out")))
        raise HarnessError(
            f"system {system.name}: trains on posts, and those judged in {collection} are not left out; "
            f"say '{key}=[{wanted}]', or without what is not run"
        )


def _path(configuration: object, key: str) -> tuple[str, ...]:
    """The keys that lead to the first of that name in a configuration; the name alone if there is none."""
    waiting: list[tuple[tuple[str, ...], object]] = [((), configuration)]
    for above, mapping in waiting:
        if isinstance(mapping, Mapping):
            if key in mapping:
                return (*above, key)
            waiting += [((*above, str(name)), inner) for name, inner in mapping.items()]
    return (key,)


def _shared(topics: Topics, training: Qrels | None, allowed: bool) -> frozenset[str]:
    """The topics that the training judgments hold and that are to be ranked; an error unless that is allowed."""
    shared = topics.ids() & set(training.topics) if training is not None else frozenset()
    if shared and not allowed:
        raise HarnessError(
            f"training: the judgments hold topic {min(shared)!r}, which is to be ranked ({len(shared)} such topics); "
            "train on other topics, or say allow_test_judgments=true, which marks the run"
        )
    return shared


def _ours(system: Built) -> bool:
    return system.module.startswith(f"{code.OURS}.")


def _spec(system: Built, task: Task, training: Qrels | None, pool: Pool | None, suffix: str) -> dict[str, Any]:
    """All that decides a run's content."""
    configuration, corpus, read = system.configuration, task.corpus, system.reads()
    excluded = task.scorer.exclusions
    if not _ours(system):  # ours say in `reads` what they read
        read |= _named_files(configuration)
    return {
        "system": None if configuration is None else {k: v for k, v in configuration.items() if k not in states.ABOUT},
        "reads": read,
        "code": code_of(system, read),
        "topics": sha256(repr([asdict(topic) for topic in task.topics]).encode()),
        "corpus": None if corpus is None else {"name": corpus.name, "digest": corpus.digest()},
        "columns": None if corpus is None else [list(corpus.fields), list(corpus.keep)],
        "training": None if training is None else training.sha256,
        "pool": None if pool is None else sha256(repr(sorted((t, sorted(d)) for t, d in pool.items())).encode()),
        "suffix": suffix,
        **({} if excluded is None else {"excluded": [excluded.sha256, code.of(Exclusions.__module__)]}),
    }


def _run_at(path: Path, key: str, say: Say) -> Run | None:
    """The run that lies there whole and was made from the same things; None if none does. Says what is damaged."""
    side = sidecar.beside(path)
    claimed, checksum, layout = sidecar.claimed(side)
    if not claimed and side.is_file():
        say(f"{side}: damaged; the run is made again")
    if claimed != key or not path.is_file():
        return None
    data = path.read_bytes()  # once, so that what is read is what was verified
    if sha256(data) != checksum:
        say(f"{path}: damaged; it is made again")
        return None
    return parse_run(data, str(path), format=layout)


def _named_files(value: object) -> dict[str, str]:
    """The files that the texts of a configuration name, by checksum."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return {name: checksum for inner in value for name, checksum in _named_files(inner).items()}
    if not isinstance(value, str) or not value or "\0" in value or not os.path.isfile(value):  # noqa: PTH113
        return {}
    return {value: sha256_file(Path(value))}


def code_of(system: Built, read: Mapping[str, Any]) -> str:
    """A digest of the code that makes a run: that of the system, of what it is made of, and of what reads and writes.

    Systems that are made of others say so in `reads`; other parts, such as a view's tokens, stand in configurations.
    """
    named = set(code.named([system.configuration, read]))
    systems = {system.module, *(module for module, target in named if target)}
    others = {Corpus.__module__, run_text.__module__, *(module for module, target in named if not target)}
    return code.digest(frozenset(systems), frozenset(others))
