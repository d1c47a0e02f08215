"""Runs made by systems: what a system is given, where its run goes, and when it need not be made again."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from harness.collections.collection import Collection
from harness.collections.corpus import Corpus
from harness.data.topics import Topics
from harness.data.trec import TAG, Qrels, Run, parse_run
from harness.data.written import run_text
from harness.errors import HarnessError
from harness.io.files import sha256, sha256_file, write_all
from harness.store import artefacts, code, provenance, sidecar
from harness.store.cost import measuring
from harness.systems.base import MARK, Pool, System, reads, trains_without
from harness.systems.build import rank

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
    system: System,
    collection: Collection,
    corpus: Corpus | None,
    output: Path,
    *,
    configuration: Mapping[str, Any] | None = None,
    reuse: bool = True,
    training: Qrels | None = None,
    pool: Pool | None = None,
    allow_test_judgments: bool = False,
    suffix: str = "",
    say: Say = quiet,
) -> Produced:
    """Let a system make its run, and write it and its side file below `output`; the run as read back.

    Parameters
    ----------
    configuration : what the system was built from.
    reuse : take a run of the same configuration, data and code that lies at its place; needs `configuration`.
    training : judgments of other topics than the collection's.
    pool : topic -> the documents to rank.
    allow_test_judgments : let the training judgments hold topics of the collection; the run's name then says so.
    suffix : goes behind the run's name, so that the points of a sweep do not overwrite each other.

    Raises
    ------
    HarnessError
        Training judgments share a topic with the collection, or the system may have learnt from what is judged in it;
        the system fails; the run cannot be written.
    """
    check_untrained(system, collection.name)
    topics = collection.topics()
    shared = _shared(topics, training, allow_test_judgments)
    spec = _spec(system, configuration, topics, corpus, training, pool, suffix)
    key = artefacts.key(spec)
    # Points of a sweep over several of our systems are compared, so that all of our code counts as one.
    same = {"code": code.ours()} if type(system).__module__.startswith(f"{code.OURS}.") else {}
    basis = artefacts.key(
        {name: part for name, part in spec.items() if name not in ("system", "reads", "suffix")} | same
    )
    folder = output / collection.name
    named = str((configuration or {}).get("name") or "")
    for mark in ("", MARK) if named and reuse else ():
        path = folder / f"{named}{suffix}{mark}.run"
        if (run_before := _made_before(path, key, say)) is not None:
            say(f"{path}: made before by the same configuration")
            return Produced(run_before, path, key, reused=True, basis=basis)
    called = named or str(getattr(system, "name", None) or "")
    label = called if TAG.fullmatch(called) else type(system).__name__
    say(f"running {label} on {collection.name}")
    with measuring() as meter:
        run = rank(system, label, topics, corpus, output / "workspace" / label, training, pool)
    marked = run.name.endswith(MARK)
    name = f"{run.name.removesuffix(MARK)}{suffix}{MARK if shared or marked else ''}"
    layout = "trec" if run.context is None else "arqmath-task2"
    content = run_text(replace(run, name=name), format=layout)
    made = sidecar.Made(key, spec, meter, provenance.provenance({}))
    path = folder / f"{name}.run"
    checksum = sha256(content.encode())
    side = sidecar.text(made, name=name, sha256=checksum, layout=layout, collection=collection.name)
    write_all({path: content, sidecar.beside(path): side})
    # Of the text, not of the file: another process may have put a run of the same name there meanwhile.
    return Produced(parse_run(content.encode(), str(path), format=layout), path, key, reused=False, basis=basis)


def check_untrained(system: System, collection: str) -> None:
    """Raise HarnessError if a system trains on posts, and does not leave out those that the collection judges.

    A system that trains on posts has a method `trains_without`, the names of the collections it leaves out; one that is
    made of others passes on what these say, None if none of them trains on posts.
    """
    left_out = trains_without([system])
    if left_out is not None and collection not in left_out:
        wanted = ",".join([*sorted(left_out), collection])
        raise HarnessError(
            f"system {getattr(system, 'name', type(system).__name__)}: trains on posts, and those judged in "
            f"{collection} are not left out; say 'system.leave_out=[{wanted}]', or without what is not run"
        )


def _shared(topics: Topics, training: Qrels | None, allowed: bool) -> frozenset[str]:
    """The topics that the training judgments hold and that are to be ranked; an error unless that is allowed."""
    shared = topics.ids() & set(training.topics) if training is not None else frozenset()
    if shared and not allowed:
        raise HarnessError(
            f"training: the judgments hold topic {min(shared)!r}, which is to be ranked ({len(shared)} such topics); "
            "train on other topics, or say allow_test_judgments=true, which marks the run"
        )
    return shared


def _spec(
    system: System,
    configuration: Mapping[str, Any] | None,
    topics: Topics,
    corpus: Corpus | None,
    training: Qrels | None,
    pool: Pool | None,
    suffix: str,
) -> dict[str, Any]:
    """All that decides a run's content."""
    read = reads(system)
    if not type(system).__module__.startswith(f"{code.OURS}."):  # ours say in `reads` what they read
        read |= _named_files(configuration)
    return {
        "system": None if configuration is None else {k: v for k, v in configuration.items() if k != "title"},
        "reads": read,
        "code": code_digest(system, configuration, read),
        "topics": sha256(repr([asdict(topic) for topic in topics]).encode()),
        "corpus": None if corpus is None else {"name": corpus.name, "digest": corpus.digest()},
        "columns": None if corpus is None else [list(corpus.fields), list(corpus.keep)],
        "training": None if training is None else training.sha256,
        "pool": None if pool is None else sha256(repr(sorted((t, sorted(d)) for t, d in pool.items())).encode()),
        "suffix": suffix,
    }


def _made_before(path: Path, key: str, say: Say) -> Run | None:
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


def code_digest(system: System, configuration: Mapping[str, Any] | None, read: Mapping[str, Any]) -> str:
    """A digest of the code that makes a run: that of the system, of what it is made of, and of what reads and writes.

    Systems that are made of others say so in `reads`; other parts, such as a view's tokens, stand in configurations.
    """
    named = set(code.named([configuration, read]))
    systems = {type(system).__module__, *(module for module, target in named if target)}
    others = {Corpus.__module__, run_text.__module__, *(module for module, target in named if not target)}
    return code.digest(frozenset(systems), frozenset(others))
