"""A lab: a folder in which teams submit runs on one collection, with its settings in `lab.yaml`."""

from __future__ import annotations

import math
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.collections.load import load_collection
from harness.errors import HarnessError, gather, refuse
from harness.experiments.task import Task, task
from harness.io import config, staging_names
from harness.io.checks import typed
from harness.io.files import read_bytes, sha256, write_atomic
from harness.labs.draw import drawn, largest, least_width, new_key, seed_from
from harness.labs.folders import LAB, PRIVATE, SUBMISSIONS
from harness.labs.journal import FILE as JOURNAL
from harness.labs.journal import Committed, Journal
from harness.labs.names import stamp
from harness.labs.settings import Feedback, LabFile, lab_text
from harness.scoring.measures import parse_measure, parse_measures, shown_decimals, without_private
from harness.scoring.protocol import Protocol, load_protocol, telling
from harness.scoring.scores import decimals_of

FILE = LAB
MOST_BYTES = 1 << 29  # default limit on a run's file, uncompressed
_NOTHING = ("downloads", ())  # the default offers more
SEED = ".seed"  # file in the private folder with the key of the noise and of the held-out topics; see `draw`
LEAST_RESULTS = 10  # default of `least_results` with private judgments


@dataclass(frozen=True, kw_only=True)
class Lab(LabFile):
    """Settings of a lab: the keys of `lab.yaml`, with what follows from the collection in place of those left out.

    Their meanings are those of `LabFile`.

    Attributes
    ----------
    folder : of the lab.

    Examples
    --------
    >>> lab = new_lab(Path("labs/mini"), {"title": "Mini", "collection": "mini-task1", "cap": 5, "private": True})
    >>> read_lab(lab.folder) == lab, lab.noise, lab.decimals, lab.least_results
    (True, 0.24, 2, 10)
    """

    folder: Path
    edition: str
    protocol: str
    measures: tuple[str, ...]
    baseline: str
    least_results: int
    most_bytes: int
    decimals: int
    feedback: Feedback
    noise: float
    step: float
    per_topic: bool
    topic_pages: bool
    about: str
    contact: str

    def task(self) -> Task:
        """Returns the task that scores its runs. Its errors may reveal judgments: see `guarded`."""
        made = task(self.collection, self.corpus, edition=self.edition, protocol=self.protocol, measures=self.measures)
        return replace(made, scorer=made.scorer.without_refusals()) if self.private else made

    def text(self, value: float | None, measure: str = "") -> str:
        """Formats a mean with the lab's decimals, or the sum of a measure that counts without; `n/a` if undefined."""
        if value is None or math.isnan(value):
            return "n/a"
        return f"{value:.{shown_decimals(measure, self.decimals) if measure else self.decimals}f}"

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Hides the reasons of errors in the block if the judgments are private, since they may reveal judgments."""
        if not self.private:
            yield
            return
        try:
            yield
        except Exception:
            reason = "the reason may reveal private judgments; organisers see it with 'harness lab check'"
            with suppress(HarnessError):
                if load_collection(self.collection).withheld(self.edition):
                    hidden = "the judgments are private and not here"
                    reason = f"{hidden}; only the organisers can score runs, so send them yours"
            raise HarnessError(f"{self.folder}: runs cannot be scored; {reason}") from None


def read_lab(folder: Path) -> Lab:
    """Reads and checks the lab in a folder.

    Raises
    ------
    HarnessError
        The folder is not a lab, or keys of `lab.yaml` are unknown, missing or wrong: one line per key.
    """
    path = folder / FILE
    if not path.is_file():
        hint = "; check the path, or create a lab with 'harness lab new'" if not folder.exists() else ""
        raise HarnessError(f"{folder}: not a lab: the file {FILE} is missing{hint}")
    return _lab_from_settings(folder, config.parse(read_bytes(path, most=1 << 20), str(path)), str(path))


def _lab_from_settings(folder: Path, mapping: dict[str, Any], where: str) -> Lab:
    faults: list[str] = []
    file = typed(LabFile, mapping, where)
    collection = load_collection(file.collection)
    with gather(faults):
        edition = collection.edition(file.edition)
    refuse([f"{where}: {fault}" for fault in faults])
    private = file.private or edition.private
    if file.baseline is not None and file.baseline.count(" / ") != 1:
        faults.append(f"{where}: key 'baseline' is {file.baseline!r}, expected a submission as 'team / label'")
    protocol = load_protocol(file.protocol or collection.protocol)
    measures = file.measures or tuple(str(each) for each in parse_measures(protocol.measures))
    if (file.least_results or 1) > (file.results or math.inf):
        faults.append(f"{where}: key 'least_results' is {file.least_results}, above 'results', {file.results}")
    if not private:
        if any((folder / PRIVATE).glob("*/*/scores.json")):
            # Scores from private judgments would become public.
            created = f"the lab was created with private judgments, whose scores are in {folder / PRIVATE}"
            refuse([f"{where}: key 'private' is false, but {created}; set private: true, or create another lab"])
        faults += [
            f"{where}: key {key!r} needs private judgments; set private: true (--private), or remove it"
            for key in ("feedback", "noise", "step", "ladder", "held_out")
            if getattr(file, key) not in (None, False)
        ]
    if private:
        faults += [f"{where}: {fault}" for fault in _faults_of_privacy(file, protocol)]
        measures = tuple(without_private(measures))
    per_topic = (not private) if file.per_topic is None else file.per_topic
    if file.topic_pages and not per_topic:
        reason = "but participants do not see scores per topic; set per_topic: true as well"
        faults.append(f"{where}: key 'topic_pages' is true, {reason}")
    refuse(faults)
    given = {
        "edition": edition.name,
        "protocol": protocol.name,
        "measures": measures,
        "baseline": file.baseline or "",
        "least_results": file.least_results or (min(LEAST_RESULTS, file.results or LEAST_RESULTS) if private else 1),
        "most_bytes": file.most_bytes or MOST_BYTES,
        "decimals": _decimals_shown(file, private),
        "private": private,
        # A mean over many documents tells how many of them are relevant, whatever its noise.
        "feedback": file.feedback or ("noisy" if file.ladder else "none"),
        "noise": file.noise or 0.0,
        "step": file.step or 0.0,
        "per_topic": per_topic,
        "topic_pages": (per_topic and not private) if file.topic_pages is None else file.topic_pages,
        "about": file.about or "",
        "contact": file.contact or "",
    }
    return Lab(folder=folder, **{**vars(file), **given})


def _decimals_shown(settings: LabFile, private: bool) -> int:
    if not private:
        return settings.decimals or 4
    if settings.decimals or not settings.noise:
        return settings.decimals or (decimals_of(settings.step) if settings.step else 2)
    return max(1, math.ceil(-math.log10(settings.noise / 5)))  # more would be noise


def _faults_of_privacy(settings: LabFile, protocol: Protocol) -> Iterator[str]:
    """Yields a line for each setting that would reveal private judgments."""
    if settings.cap is None:
        reason = "the judgments are private, and unlimited submissions would reveal them"
        yield f"key 'cap' is missing: {reason}; set the number of submissions per team (--cap N)"
    if settings.held_out and settings.per_topic:
        yield "keys 'held_out' and 'per_topic' exclude each other: scores per topic reveal judgments"
    if settings.ladder and settings.feedback == "none":
        yield "keys 'ladder' and 'feedback' exclude each other: without feedback, no mean is shown"
    if settings.ladder and settings.per_topic:
        yield "keys 'ladder' and 'per_topic' exclude each other: scores per topic reveal judgments"
    if reason := telling(protocol):
        yield reason
    for measure in (each for each in settings.measures or () if parse_measure(each).private):
        yield f"measure {measure}: declares no sensitivity to one judgment, and the judgments are private; remove it"
    if not settings.measures and not without_private(protocol.measures):
        yield f"protocol {protocol.name}: no measure may be shown with private judgments; set key 'measures'"


def new_lab(
    folder: Path,
    settings: dict[str, Any],
    *,
    commitment: tuple[str, Committed] | None = None,
    fill: Callable[[Lab], None] | None = None,
) -> Lab:
    """Creates a lab atomically.

    Parameters
    ----------
    settings : keys of `lab.yaml`; None means the default.
    commitment : content of the file `SEED`, and the event that commits to it, of a lab that this one replaces; its
        noise is widened if the judgments need it. None to draw them now.
    fill : adds to the lab before it is in place.

    Raises
    ------
    HarnessError
        The folder exists or cannot be created, a setting is wrong, or the judgments cannot be read.
    """
    if folder.exists() or folder.is_symlink():
        raise HarnessError(f"{folder}: exists already; choose another folder")
    given = {key: value for key, value in settings.items() if value not in (None, ()) or (key, value) == _NOTHING}
    lab = _lab_from_settings(folder, given, f"{folder / FILE}")
    bench = lab.task()
    key, committed = commitment or _new_commitment(lab)
    if lab.private:
        least = _least_noise(lab, bench, key if sha256(key.encode()) == committed.seed_sha256 else seed_from(key))
        if commitment is None and lab.noise and lab.noise < least:
            reason = f"expected at least {least:g}: a narrower one shows one document's change"
            raise HarnessError(f"{folder / FILE}: key 'noise' is {lab.noise:g}, {reason}")
        given = {**given, "noise": max(least, lab.noise)}
        lab = _lab_from_settings(folder, given, f"{folder / FILE}")
    making = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        making = staging_names.new_folder(folder)
        (making / SUBMISSIONS).mkdir()
        if lab.private:
            (making / PRIVATE).mkdir(mode=0o700)
        (making / JOURNAL).touch()
        if lab.private:
            write_atomic(making / PRIVATE / SEED, f"{key}\n")
            journal = Journal(making)
            with journal.locked():
                journal.append(committed)
        write_atomic(making / FILE, lab_text(given))
        if fill is not None:
            fill(replace(lab, folder=making))
        staging_names.share(making)
        making.rename(folder)
    except OSError as error:
        raise HarnessError(f"{error.filename or folder}: cannot be created: {error.strerror or error}") from None
    finally:
        if making is not None:
            shutil.rmtree(making, ignore_errors=True)
    return lab


def _new_commitment(lab: Lab) -> tuple[str, Committed]:
    key = new_key()
    return key, Committed(sha256(seed_from(key).encode()), stamp(), lab.held_out)


def _least_noise(lab: Lab, bench: Task, seed: str) -> float:
    """Returns the least width of the noise in a new lab with private judgments."""
    if lab.step:
        raise HarnessError(f"{lab.folder / FILE}: key 'step' is of earlier versions; means get noise, see key 'noise'")
    topics, clusters = frozenset(bench.scorer.qrels.topics), bench.collection.clusters()
    public = drawn(seed, topics, clusters) if lab.held_out else topics
    return least_width(len(public), (parse_measure(lab.measures[0]).sensitivity or 1.0) * largest(public, clusters))


def others_may_read(lab: Lab) -> str:
    """Returns a line if others may read the private folder, else an empty text."""
    path = lab.folder / PRIVATE
    if not lab.private or not path.is_dir():
        return ""
    mode = stat.S_IMODE(path.stat().st_mode)
    return f"{path}: others may read it (mode {mode:o}); chmod 700 it" if mode & 0o077 else ""
