"""Production of runs: the input of a system, the place of its run, and reuse of earlier runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, replace
from pathlib import Path
from typing import Any

from harness.collections import same_topics
from harness.data.run_writers import run_text
from harness.data.topics import Topics
from harness.data.trec import Qrels, Run, parse_run
from harness.errors import HarnessError, counted_text, several
from harness.experiments import fingerprint
from harness.experiments.fingerprint import Plan
from harness.experiments.task import Task, corpus_ids, judged_pool, present, training_judgments
from harness.io.arguments import checked_arguments
from harness.io.files import check_writable, sha256, write_all
from harness.io.names import NAME_RULE, file_name, is_tag
from harness.scoring.protocol import Exclusions
from harness.store import artefacts, code, provenance, sidecar
from harness.store.cost import Meter, measuring
from harness.systems.base import MARK, Pool, Request, System
from harness.systems.build import BuiltSystem, guarded, load_system
from harness.systems.dense.training.cards import tuned_folders
from harness.systems.keys import changed
from harness.systems.ranking import within

Say = Callable[[str], None]
_SAID: set[str] = set()  # warnings of this process


def quiet(_: str) -> None:
    """Ignores a message."""


@dataclass(frozen=True)
class Produced:
    """A run, its file, and whether it was reused.

    Attributes
    ----------
    key : fingerprint of all inputs; basis : fingerprint of all inputs except the system's configuration.
    """

    run: Run
    path: Path
    key: str
    reused: bool
    basis: str


@checked_arguments
def produce(
    system: System | str,
    task: Task,
    *,
    runs: Path | str = Path("runs"),
    reuse: bool = True,
    training: Sequence[str] = (),
    rerank: bool = False,
) -> Run:
    """Produces the run of a system on a task, writes it below `runs`, and returns it; reuses an earlier one.

    Parameters
    ----------
    system : result of `load_system`, name of a configuration, or a function of a `Request`.
    reuse : reuse an existing run of the same configuration, data and code.
    training : names of collections whose judgments a system may learn from; they must judge other topics.
    rerank : let the system rank only the judged documents of each topic.

    Raises
    ------
    HarnessError
        The system fails, may have learnt from the task's judgments, or returns no run; or the run cannot be written.

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
    plan: Plan | None = None,
    say: Say = quiet,
) -> Produced:
    """Produces the run of a system, writes it and its metadata file below `runs`, and returns the run as read back.

    Parameters
    ----------
    system : result of `load_system` or `build_system`, name of a configuration, or an own function (see
        `harness.systems.base.System`).
    reuse : reuse an existing run of the same configuration, data and code; runs of systems without a configuration
        are never reused.
    training : judgments of other topics than the task's, or names of collections (see `training_judgments`);
        limited to the documents of the task's corpus.
    rerank : let the system rank only the judged documents of each topic.
    allow_test_judgments : accept training judgments on topics of the task; the run's name is then marked.
    suffix : appended to the run's name, so that the points of a sweep do not overwrite each other.
    plan : inputs of the run when it was planned; see `planned`.

    Raises
    ------
    HarnessError
        Training judgments share a topic with the task, the system may have learnt from the task's judgments, the
        system fails, an input is not that of the plan, or the run cannot be written.

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
    if plan is not None:
        fingerprint.check_plan(plan, work.spec, runs, built.name)
    for line in fingerprint.unseen_inputs(built, work.spec["reads"]):
        if line not in _SAID:
            _SAID.add(line)
            say(f"warning: {line}")
    if reuse and (before := _before(work, runs, say)) is not None:
        path, run_before = before
        say(f"{path}: reused, same configuration")
        return Produced(run_before, path, work.key, reused=True, basis=work.basis)
    if work.named and (replaced := _replaced(work, runs / collection / f"{file_name(_name(work, work.named))}.run")):
        say(replaced)
    check_writable(runs / collection)
    say(f"running {built.name} on {collection}")
    begun = fingerprint.code_of(built, work.spec["reads"], task.corpus, modules_only=True)
    excluded = task.scorer.exclusions
    with measuring() as meter:
        folder = runs / "workspace" / file_name(built.name)
        run = built(Request(task.topics, task.corpus, folder, work.judgments, work.pool, excluded))
    if work.pool is not None:
        run = _in_pool(run, work.pool, meter, say)
    if excluded is not None:
        run = _without(run, excluded, meter, say)
    # The configured name, by which an earlier run is found; a system without one names its runs itself.
    name = _name(work, work.named or run.name, marked=run.name.endswith(MARK))
    if not is_tag(name):
        raise HarnessError(f"system {built.name}: run name {name!r} is no tag: expected {NAME_RULE}, and no blanks")
    path = runs / collection / f"{file_name(name)}.run"
    layout = "trec" if run.context is None else "arqmath-task2"
    if not work.named and (replaced := _replaced(work, path)):
        _check_same_system(work, path)
        say(replaced)
    _check_known(run, built, task, say)
    # The run is parsed before anything is written, so that an invalid run never replaces a valid one.
    content = guarded(f"system {built.name}", lambda: run_text(replace(run, name=name), format=layout))
    read_back = parse_run(content.encode(), str(path), format=layout)
    if len(read_back) != len(run) or set(read_back.doc.tolist()) != set(run.doc.tolist()):
        raise HarnessError(f"system {built.name}: an id in its run is empty or contains blanks")
    key = work.key
    if fingerprint.code_of(built, work.spec["reads"], task.corpus, modules_only=True) != begun:
        if plan is not None:
            raise fingerprint.changed_since(built.name, ["code"])
        say(f"warning: code of {built.name} changed while its run was made; the next command makes the run again")
        key = artefacts.key({"changed": work.key})
    made = sidecar.RunOrigin(key, work.spec, meter, provenance.provenance({}, libraries=built.libraries()))
    side = sidecar.text(made, name=name, sha256=read_back.sha256, layout=layout, collection=collection)
    write_all({path: content, sidecar.sidecar_path(path): side})
    # Not read from the file, which another process may have replaced meanwhile.
    return Produced(read_back, path, key, reused=False, basis=work.basis)


def _check_known(run: Run, built: BuiltSystem, task: Task, say: Say) -> None:
    """Raises HarnessError for topics of another task; tells how many documents the corpus lacks."""
    if others := set(run.topics) - task.topics.ids():
        raise HarnessError(
            f"system {built.name}: topic {min(others)!r} of its run is not among the collection's topics"
        )
    if task.corpus is None or fingerprint.is_ours(built):
        return
    docs = {doc.decode() for doc in run.doc.tolist()}
    if unknown := docs - set(corpus_ids(task.corpus)):
        lacking = f"{len(unknown):,} of the {len(docs):,} documents of its run, such as {min(unknown)!r}"
        say(f"warning: system {built.name}: corpus {task.corpus.name} lacks {lacking}")


def planned(
    system: BuiltSystem,
    task: Task,
    *,
    runs: Path,
    training: Sequence[str] = (),
    rerank: bool = False,
    allow_test_judgments: bool = False,
    suffix: str = "",
) -> tuple[Path | None, Plan]:
    """Returns the file of the run that `make` would reuse, given the same arguments, and the inputs of the run.

    The file is None if `make` would run the system. The inputs, given to `make`, are compared with those at that time.

    Raises
    ------
    HarnessError
        The errors that `make` raises before the system runs.
    """
    work = _work(system, task, training, rerank, allow_test_judgments, suffix)
    before = _before(work, runs, quiet)
    return None if before is None else before[0], fingerprint.plan_of(work.spec, runs)


def made_elsewhere(path: Path, key: str, basis: str) -> Produced:
    """Returns a run that another process has made, read from its file.

    Its key is not computed again, because it may say on which kind of processor the run was made.

    Raises
    ------
    HarnessError
        The file is not that of this run.
    """
    run = _run_at(path, key, quiet)
    if run is None:
        raise HarnessError(f"{path}: replaced or damaged after its run was made; run the same command again")
    return Produced(run, path, key, reused=True, basis=basis)


@dataclass(frozen=True)
class _Work:
    """Input of a system, and the fingerprint of its run.

    Attributes
    ----------
    shared : topics of the task that the training judgments contain.
    """

    built: BuiltSystem
    task: Task
    judgments: Qrels | None
    pool: Pool | None
    shared: frozenset[str]
    suffix: str
    spec: dict[str, Any]
    key: str
    basis: str

    @property
    def named(self) -> str:
        """Name in the system's configuration; empty without one."""
        return str((self.built.configuration or {}).get("name") or "")

    def inputs(self) -> dict[str, str | None]:
        """Returns checksums as `harness.store.sidecar.Said.inputs`."""
        excluded = self.task.scorer.exclusions
        return {
            "training": self.spec["training"],
            "pool": self.spec["pool"],
            "excluded": None if excluded is None else excluded.sha256,
        }


def _work(
    system: System | str,
    task: Task,
    training: Sequence[str] | Qrels | None,
    rerank: bool,
    allow_test_judgments: bool,
    suffix: str,
) -> _Work:
    built = load_system(system) if isinstance(system, str) else system
    built = built if isinstance(built, BuiltSystem) else BuiltSystem(built)
    collection, edition = task.collection.name, task.scorer.qrels.edition
    check_untrained(built, collection, edition)
    task = _untrained(built, task)
    judgments = _judgments(training, task)
    pool = judged_pool(task.scorer.qrels, task.keys) if rerank else None
    shared = _shared(task, training, judgments, allow_test_judgments)
    spec = fingerprint.fingerprint(built, task, judgments, pool, suffix)
    check_untrained(built, collection, edition)  # repeated, since models are known only after they were fetched
    # Points of a sweep over several of our systems are compared, so all our code counts as one input.
    same = {"code": code.ours()} if fingerprint.is_ours(built) else {}
    rest = {name: part for name, part in spec.items() if name not in ("system", "reads", "suffix")} | same
    return _Work(built, task, judgments, pool, shared, suffix, spec, fingerprint.key_of(spec), artefacts.key(rest))


def _before(work: _Work, runs: Path, say: Say) -> tuple[Path, Run] | None:
    """Returns file and run of an earlier run with the same fingerprint, else None."""
    for mark in ("", MARK) if work.named else ():
        path = runs / work.task.collection.name / f"{file_name(f'{work.named}{work.suffix}{mark}')}.run"
        run = _run_at(path, work.key, say)
        # Earlier versions kept documents outside the pool.
        if run is not None and (work.pool is None or len(within(run, work.pool)) == len(run)):
            return path, run
    return None


def _name(work: _Work, name: str, *, marked: bool = False) -> str:
    return f"{name.removesuffix(MARK)}{work.suffix}{MARK if work.shared or marked else ''}"


def _check_same_system(work: _Work, path: Path) -> None:
    """Raises HarnessError if a system that names its runs itself would replace the run of another system."""
    before = sidecar.read_sidecar(sidecar.sidecar_path(path)) if sidecar.sidecar_path(path).is_file() else None
    if before is None or (before.system or {}).get("_target_") != (work.spec["system"] or {}).get("_target_"):
        raise HarnessError(
            f"{path}: is a run of another system, and system {work.built.name} names its run so; "
            "use another folder (runs=FOLDER) or another name (system.name=NAME; in Python name=NAME)"
        )


def _replaced(work: _Work, path: Path) -> str:
    """Returns the sentence on the run of another configuration that this one replaces; empty if there is none."""
    if not path.is_file():
        return ""
    side = sidecar.sidecar_path(path)
    if not side.is_file():
        made: list[str] | str = "which has no metadata file"
    elif (before := sidecar.read_sidecar(side)) is None or not (made := _differences(before, work)):
        return ""
    else:
        more = f" and {len(made) - 3} more" if made[3:] else ""
        made = f"made with {', '.join(made[:3])}{more}"
    return f"will replace {path}, {made}; keep both with system.name=NAME or runs=FOLDER"


def _differences(before: sidecar.Said, work: _Work) -> list[str]:
    """Returns the settings in which an earlier run differs, with their earlier values; none for other data or code."""
    corpus = work.task.corpus.name if work.task.corpus is not None else ""
    changes = [] if before.corpus == corpus else [f"corpus={before.corpus or 'null'}"]
    now, then = work.inputs(), before.inputs
    if (now["pool"] is None) is not (then["pool"] is None):
        changes.append(f"rerank={'false' if then['pool'] is None else 'true'}")
    elif now["pool"] != then["pool"]:
        changes.append("another pool")
    for name, what in (("training", "training judgments"), ("excluded", "excluded documents")):
        if now[name] != then[name]:
            changes.append(f"{'no' if then[name] is None else 'other'} {what}")
    for key, value in changed(before.system, work.spec["system"] or {}).items():
        text = value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)
        changes.append(f"the default of {key}" if value is MISSING else f"{key}={text[:40]}{'...' * (len(text) > 40)}")
    return changes


def _in_pool(run: Run, pool: Pool, meter: Meter, say: Say) -> Run:
    """Removes results outside the pool that a system did not remove; notes their number in the metadata file."""
    kept = within(run, pool)
    if left := len(run) - len(kept):
        meter.notes["results outside the pool"] = left
        line = f"{left:,} of {len(run):,} results are not among the judged documents and were removed"
        say(f"{run.name}: {line}; the system itself ignores the pool")
        if not len(kept):
            raise HarnessError(f"system {run.name}: ranks none of the judged documents")
    return kept


def _without(run: Run, excluded: Exclusions, meter: Meter, say: Say) -> Run:
    """Removes excluded results that a system did not exclude; notes their number in the metadata file."""
    kept = replace(excluded.kept(run), sha256="")
    left = len(run) - len(kept)
    meter.notes["excluded"] = {
        "rules": list(excluded.rules),
        "results left out after the depth cut": left,
        "checksum": excluded.sha256,
    }
    if left:
        line = (
            f"{left:,} of {len(run):,} results are excluded and were removed; the system itself does not leave them out"
        )
        say(f"{run.name}: {line}")
    if not len(kept):
        raise HarnessError(f"system {run.name}: all of its results are excluded ({', '.join(excluded.rules)})")
    return kept


def _judgments(training: Sequence[str] | Qrels | None, task: Task) -> Qrels | None:
    """Returns the training judgments on documents of the task's corpus."""
    if training is not None and not isinstance(training, Qrels):
        training = training_judgments(several(training)) if training else None
    if training is None or task.corpus is None:
        return training
    cut, _ = present(training, task.corpus, task.keys)
    return cut


def _untrained(system: BuiltSystem, task: Task) -> Task:
    """Limits the task to the topics that a system may rank: all, or those of the edition excluded of its training."""
    left_out = system.trains_without()
    if left_out is None or task.collection.name in left_out:
        return task
    of_edition = frozenset(task.scorer.qrels.topics)
    if not of_edition:
        edition = f"{task.collection.name}, edition {task.scorer.qrels.edition}"
        raise HarnessError(f"system {system.name}: ranks the judged topics of {edition}, whose judgments are not here")
    return replace(task, topics=Topics(tuple(topic for topic in task.topics if topic.id in of_edition)))


def check_untrained(system: BuiltSystem, collection: str, edition: str = "") -> None:
    """Raises HarnessError if a system trains on posts without excluding those that the collection judges.

    The system may exclude a single edition, `COLLECTION/EDITION`, if that edition is run.
    """
    named = (collection, f"{collection}/{edition}")
    for key, others in tuned_folders(system.configuration):
        if others.isdisjoint(named):
            raise HarnessError(
                f"system {system.name}: key '{key}' names a model that was tuned without leaving out what {collection} "
                f"judges; name one that was tuned with 'training.leave_out=[{collection}]', or one that was not tuned"
            )
    left_out = system.trains_without()
    if left_out is not None and left_out.isdisjoint(named):
        wanted = ",".join([*sorted(left_out), collection])
        key = ".".join(("system", *_path(system.configuration, "leave_out")))
        raise HarnessError(
            f"system {system.name}: trains on posts without leaving out those judged in {collection}; "
            f"set '{key}=[{wanted}]' (you may drop collections that you do not run)"
        )


def _path(configuration: object, key: str) -> tuple[str, ...]:
    """Returns the path of the first key with this name in a configuration; the name itself if there is none."""
    waiting: list[tuple[tuple[str, ...], object]] = [((), configuration)]
    for above, mapping in waiting:
        if isinstance(mapping, Mapping):
            if key in mapping:
                return (*above, key)
            waiting += [((*above, str(name)), inner) for name, inner in mapping.items()]
    return (key,)


def _shared(
    task: Task, training: Sequence[str] | Qrels | None, judgments: Qrels | None, allowed: bool
) -> frozenset[str]:
    """Returns the topics of the task that the training judgments contain; raises HarnessError unless allowed."""
    if judgments is None:
        return frozenset()
    same = {topic: topic for topic in sorted(task.topics.ids() & set(judgments.topics))}
    named = [] if training is None or isinstance(training, Qrels) else several(training)
    if named and not same:
        reported = same_topics.topic_marks(task.collection, task.scorer.qrels.edition)
        for name in named:
            same |= same_topics.shared(reported, same_topics.topic_marks(name))
    if same and not allowed:
        such = counted_text(len(same), "such topic")
        raise HarnessError(
            f"training: the judgments contain {same_topics.in_words(same)} of the task ({such}); "
            "train on other topics, or set allow_test_judgments=true, which marks the run"
        )
    return frozenset(same)


def _run_at(path: Path, key: str, say: Say) -> Run | None:
    """Reads a run if it is intact and has the fingerprint `key`, else None; reports damage to `say`."""
    side = sidecar.sidecar_path(path)
    claimed, checksum, layout = sidecar.claimed(side)
    if not claimed and side.is_file():
        say(f"{side}: damaged; recomputing the run")
    if claimed != key or not path.is_file():
        return None
    data = path.read_bytes()  # once, so that what is read is what was verified
    if sha256(data) != checksum:
        say(f"{path}: damaged; recomputing it")
        return None
    return parse_run(data, str(path), format=layout)
