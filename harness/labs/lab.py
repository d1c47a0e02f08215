"""A lab: a folder in which teams submit runs on one collection, and what its `lab.yaml` says of how they are scored."""

from __future__ import annotations

import math
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml

from harness.collections.irds import PREFIX
from harness.collections.load import load_collection
from harness.errors import HarnessError, gather, refuse, suggestion
from harness.experiments import redacted
from harness.experiments.task import Task, task
from harness.io import config
from harness.io.checks import Words, number, typed, whole
from harness.io.files import read_bytes, write_atomic
from harness.labs.journal import FILE as JOURNAL
from harness.scoring.compare import Correction
from harness.scoring.measures import parse_measures
from harness.scoring.protocol import Protocol, load_protocol

FILE = "lab.yaml"
SUBMISSIONS, PRIVATE = "submissions", "private"
Required = Literal["description", "code", "external_data"]
MOST_BYTES = 1 << 29  # of a run, unpacked


def _known(key: str, value: object) -> str:
    """The name of a configuration, of the group that is called as the key is."""
    if not isinstance(value, str):
        raise HarnessError(f"key {key!r} is {value!r}, expected text")
    known = config.names(key)
    if value not in known and not (key == "collection" and value.startswith(PREFIX)):
        raise HarnessError(f"{key} {value!r} is unknown; {suggestion(value, known)}")
    return value


def moment(key: str, value: object) -> datetime:
    """A moment with its time zone, such as `2026-09-01T23:59:59+02:00`."""
    expected = "expected date, time and time zone such as 2026-09-01T23:59:59+02:00 (Z for UTC, -12:00 for AoE)"
    try:
        found = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    except ValueError:
        raise HarnessError(f"key {key!r} is {value!r}, {expected}") from None
    if found.tzinfo is None:
        raise HarnessError(f"key {key!r} is {str(value)!r}, which has no time zone; {expected}")
    return found


def _measures(key: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not value:
        raise HarnessError(f"key {key!r} is {value!r}, expected a list such as [nDCG, AP, P@10]")
    with_names = parse_measures(str(each) for each in value)
    return tuple(str(measure) for measure in with_names)


def _decimals(key: str, value: object) -> int:
    if whole(key, value, low=1) > 6:
        raise HarnessError(f"key {key!r} is {value!r}, expected a whole number from 1 to 6")
    return int(str(value))


def _alpha(key: str, value: object) -> float:
    with suppress(HarnessError):
        if found := number(key, value, high=0.5):
            return found
    raise HarnessError(f"key {key!r} is {value!r}, expected a number above 0, at most 0.5")


_Count = Annotated[int, partial(whole, low=1)]


@dataclass(frozen=True)
class LabFile:
    """`lab.yaml`; `Lab` says what the keys mean."""

    title: Words
    collection: Annotated[str, _known]
    edition: Words | None = None
    corpus: Annotated[str, _known] | None = None
    protocol: Annotated[str, _known] | None = None
    measures: Annotated[tuple[str, ...], _measures] | None = None
    baseline: str | None = None
    alpha: Annotated[float, _alpha] = 0.05
    correction: Correction = "holm"
    family: _Count | None = None
    deadline: Annotated[datetime, moment] | None = None
    cap: _Count | None = None
    results: _Count | None = None
    most_bytes: _Count | None = None
    decimals: Annotated[int, _decimals] | None = None
    private: bool = False
    per_topic: bool | None = None
    require: tuple[Required, ...] = ()


@dataclass(frozen=True)
class Lab:
    """A lab as its folder says.

    Attributes
    ----------
    collection, edition, corpus, protocol, measures : what runs are scored by, as in `harness.task`; the first measure
        decides. Private judgments are never shown by measures of what is judged, such as Judged@k.
    baseline : the submission that others are compared with, as `team / label`; empty for none.
    alpha, correction, family : of tests; `family` is how many of them to correct for, None for those made together.
    deadline : after it, only post-hoc runs are taken; None for no end.
    cap : how many submissions a team has, withdrawn ones too; None for no limit.
    results : the most results of a topic; most_bytes : of a run's file, unpacked.
    decimals : to which means are shown.
    private : participants see rounded means, ranks and significance, and nothing else that the judgments decide.
    per_topic : whether participants see the values of topics.
    require : what a submission must say besides its team.

    Examples
    --------
    >>> lab = new_lab(Path("labs/mini"), {"title": "Mini", "collection": "mini-task1", "cap": 5})
    >>> read_lab(lab.folder) == lab, lab.private, lab.decimals
    (True, False, 4)
    """

    folder: Path
    title: str
    collection: str
    edition: str
    corpus: str | None
    protocol: str
    measures: tuple[str, ...]
    baseline: str
    alpha: float
    correction: Correction
    family: int | None
    deadline: datetime | None
    cap: int | None
    results: int | None
    most_bytes: int
    decimals: int
    private: bool
    per_topic: bool
    require: tuple[str, ...]

    def task(self) -> Task:
        """What its runs are scored by. Its faults may speak of judgments: see `guarded`."""
        return task(self.collection, self.corpus, edition=self.edition, protocol=self.protocol, measures=self.measures)

    def shown(self, value: float) -> float:
        """A mean as it may be shown: where the judgments are private, rounded."""
        return round(value, self.decimals) if self.private else value

    def text(self, value: float | None) -> str:
        """A mean in words: its decimals, or `n/a`."""
        return "n/a" if value is None or math.isnan(value) else f"{value:.{self.decimals}f}"

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """What is raised inside may speak of judgments: where they are private, it is told without saying why."""
        if not self.private:
            yield
            return
        try:
            yield
        except Exception:
            reason = "the reason may speak of private judgments; the organisers see it with 'harness lab check'"
            raise HarnessError(f"{self.folder}: runs cannot be scored at present; {reason}") from None


def read_lab(folder: Path) -> Lab:
    """The lab in a folder, checked.

    Raises
    ------
    HarnessError
        There is none; keys of `lab.yaml` that are unknown, missing or wrong: all of them, a line each.
    """
    path = folder / FILE
    if not path.is_file():
        made = "; 'harness lab new' makes one" if not folder.exists() else ""
        raise HarnessError(f"{folder}: is no lab: there is no {FILE} in it{made}")
    lab = _lab(folder, config.parse(read_bytes(path, most=1 << 20), str(path)), str(path))
    if not lab.private and (folder / PRIVATE).is_dir():
        # What private judgments decided would go on in public.
        made = f"the lab was made with private judgments, whose scores are in {folder / PRIVATE}"
        raise HarnessError(f"{path}: key 'private' is false, and {made}; say private: true, or make another lab")
    return lab


def _lab(folder: Path, mapping: dict[str, Any], where: str) -> Lab:
    faults: list[str] = []
    with gather(faults):
        found = typed(LabFile, mapping, where)
    refuse(faults)
    collection = load_collection(found.collection)
    with gather(faults):
        edition = collection.edition(found.edition)
    refuse([f"{where}: {fault}" for fault in faults])
    private = found.private or edition.private
    if found.baseline is not None and found.baseline.count(" / ") != 1:
        faults.append(f"{where}: key 'baseline' is {found.baseline!r}, expected a submission as 'team / label'")
    protocol = load_protocol(found.protocol or collection.protocol)
    measures = found.measures or tuple(str(each) for each in parse_measures(protocol.measures))
    if private:
        faults += [f"{where}: {fault}" for fault in _telling(found, protocol)]
        measures = tuple(measure for measure in measures if not redacted.tells(measure))
    refuse(faults)
    return Lab(
        folder,
        found.title,
        found.collection,
        edition.name,
        found.corpus,
        protocol.name,
        measures,
        found.baseline or "",
        found.alpha,
        found.correction,
        found.family,
        found.deadline,
        found.cap,
        found.results,
        found.most_bytes or MOST_BYTES,
        found.decimals or (redacted.DECIMALS if private else 4),
        private,
        (not private) if found.per_topic is None else found.per_topic,
        found.require,
    )


def _telling(found: LabFile, protocol: Protocol) -> Iterator[str]:
    """What in a lab with private judgments would tell them."""
    if found.cap is None:
        reason = "the judgments are private, and unlimited submissions would tell them"
        yield f"key 'cap' is missing: {reason}; say how many a team has"
    if (found.decimals or 0) > redacted.MOST_DECIMALS:
        most = f"at most {redacted.MOST_DECIMALS} where judgments are private: a single result shows in more of them"
        yield f"key 'decimals' is {found.decimals}, {most}"
    if reason := redacted.telling(protocol):
        yield reason
    for measure in filter(redacted.tells, found.measures or ()):
        yield f"measure {measure}: tells how many documents are judged, and the judgments are private; leave it out"
    if all(map(redacted.tells, protocol.measures)) and not found.measures:
        yield f"protocol {protocol.name}: has no measure that may be shown; name some with the key 'measures'"


def new_lab(folder: Path, settings: dict[str, Any]) -> Lab:
    """Make a lab: all of its folder, or nothing.

    Parameters
    ----------
    settings : keys of `lab.yaml`; those that are None are left to their defaults.

    Raises
    ------
    HarnessError
        The folder is there already or cannot be made, a setting is wrong, or the judgments cannot be read.
    """
    if folder.exists() or folder.is_symlink():
        raise HarnessError(f"{folder}: is there already; give the lab another name")
    given = {key: value for key, value in settings.items() if value not in (None, ())}
    lab = _lab(folder, given, f"{folder / FILE}")
    lab.task()
    making = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        making = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
        (making / SUBMISSIONS).mkdir()
        if lab.private:
            (making / PRIVATE).mkdir(mode=0o700)
        (making / JOURNAL).touch()
        write_atomic(making / FILE, lab_text(given))
        making.chmod(folder_mode())
        making.rename(folder)
    except OSError as error:
        raise HarnessError(f"{error.filename or folder}: cannot be made: {error.strerror or error}") from None
    finally:
        if making is not None:
            shutil.rmtree(making, ignore_errors=True)
    return lab


def folder_mode() -> int:
    """The mode of folders that others may read, as far as the user's mask lets them."""
    mask = os.umask(0)
    os.umask(mask)
    return 0o777 & ~mask


_SAID = {
    "title": "",
    "collection": "what runs are scored on; see 'harness list'",
    "edition": "of its judgments; default: the collection's",
    "corpus": "cut the judgments to the documents of this corpus",
    "protocol": "default: the collection's",
    "measures": "a list, the first one decides; default: the protocol's",
    "baseline": "the submission that others are compared with, as team / label",
    "alpha": "level of significance",
    "correction": "of tests: holm, bonferroni or none",
    "family": "tests to correct for; default: those that are made together",
    "deadline": "with its time zone, such as 2026-09-01T23:59:59+02:00; afterwards only post-hoc runs are taken",
    "cap": "submissions of a team, withdrawn ones too",
    "results": "the most results of a topic",
    "most_bytes": "of a run's file, unpacked",
    "decimals": "of means; default: 4, or 2 with private judgments",
    "private": "participants see rounded means, ranks and significance alone",
    "per_topic": "whether participants see the values of topics; default: true, or false with private judgments",
    "require": "what a submission must say: any of description, code, external_data",
}


def lab_text(settings: dict[str, Any]) -> str:
    """The content of `lab.yaml`: these settings, the other keys in comments."""
    lines = ["# Settings of a lab. Once there are submissions, change only title, baseline, deadline and caps."]
    for key, said in _SAID.items():
        comment = f"  # {said}" if said else ""
        if key in settings:
            value = settings[key]
            plain = value.isoformat() if isinstance(value, datetime) else value
            plain = list(plain) if isinstance(plain, tuple) else plain
            shown = yaml.safe_dump(plain, default_flow_style=True, allow_unicode=True, width=1 << 20)
            lines.append(f"{key}: {shown.removesuffix(chr(10)).removesuffix('...').rstrip()}{comment}")
        else:
            lines.append(f"# {key}:{comment}")
    return "\n".join(lines) + "\n"


def others_may_read(lab: Lab) -> str:
    """What is wrong with the mode of the private folder, in one line; empty if nothing is, or there is none."""
    path = lab.folder / PRIVATE
    if not lab.private or not path.is_dir():
        return ""
    mode = stat.S_IMODE(path.stat().st_mode)
    return f"{path}: others may read it (mode {mode:o}); chmod 700 it" if mode & 0o077 else ""
