"""Scores as other programs read them: results of mteb, and a data set in Parquet."""

from __future__ import annotations

import io
import json
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.collections.load import load_collection
from harness.collections.writers.formats import script_of, task_name
from harness.data.records import import_library
from harness.errors import HarnessError, suggestion
from harness.io import config
from harness.io.files import read_bytes, write_all
from harness.io.names import file_name
from harness.scoring.measures import parse_measure
from harness.scoring.scores import Scores, scores_from_json
from harness.version import __version__

FORMS = ("mteb", "parquet")
REPORT = "report.json"
ORGANISATION = "mathir-harness"  # before the names of runs, since mteb's models are named OWNER/NAME


def scores_in(path: Path) -> list[Scores]:
    """Returns the scores in a report (its folder or `report.json`), or in the output of `harness score --json`.

    Raises
    ------
    HarnessError
        The file is missing or damaged, or holds no scores by topic.
    """
    file = path / REPORT if path.is_dir() else path
    try:
        document = json.loads(read_bytes(file))
    except (ValueError, RecursionError) as error:
        raise HarnessError(f"{file}: not valid JSON: {' '.join(str(error).split())}") from None
    data = document.get("data") if isinstance(document, Mapping) else None
    entries = document.get("scores") if isinstance(document, Mapping) else None
    if entries is None and isinstance(data, Mapping):
        entries = data.get("scores")
    if not isinstance(entries, list) or not entries:
        raise HarnessError(
            f"{file}: holds no scores by topic; name a report of 'harness score', 'compare', 'run' or 'reproduce', or "
            "a file with the output of 'harness score --json'"
        )
    out = []
    for at, each in enumerate(entries, 1):
        try:
            out.append(scores_from_json(each))
        except HarnessError as error:
            raise HarnessError(f"{file}: scores {at}: {error}") from None
    return out


def export_results(scores: Sequence[Scores], form: str, folder: Path) -> list[Path]:
    """Writes scores to a new folder; returns the files.

    | form | files |
    |---|---|
    | `mteb` | `results/mathir-harness__RUN/REVISION/TASK.json` with `model_meta.json`, as in mteb's cache of results |
    | `parquet` | `results.parquet`, a row for each run, topic and measure, and a data card `README.md` |

    Raises
    ------
    HarnessError
        The form is unknown, the folder exists, or an edition is private: its values must not leave the organisers.

    Examples
    --------
    >>> import harness as h
    >>> found = h.evaluate(h.task("mini-task1", measures=["nDCG@10"]), "runs/mini/mini-task1/overlap.run")
    >>> [path.name for path in export_results(found.scores, "mteb", Path("reports/overlap-mteb"))]
    ['MiniTask1.json', 'model_meta.json']
    """
    if form not in FORMS:
        raise HarnessError(f"--as {form}: no such form; {suggestion(form, FORMS)}")
    if os.path.lexists(folder) and not (folder.is_dir() and not any(folder.iterdir())):
        raise HarnessError(f"{folder}: exists already, and is left as it is; name another folder")
    for each in scores:
        _refuse_private(each)
    files = _mteb_files(scores, folder) if form == "mteb" else _parquet_files(scores, folder)
    write_all(files)
    return list(files)


def _refuse_private(scores: Scores) -> None:
    if scores.collection not in config.names("collection"):
        return  # of a file, or of another machine; its editions are not known here
    edition = load_collection(scores.collection).editions.get(scores.edition)
    if edition is not None and edition.private:
        raise HarnessError(
            f"run {scores.run}: edition {scores.edition} of {scores.collection} is private, and exact scores reveal "
            "its judgments"
        )


# ---- mteb -------------------------------------------------------------------------------------------------------


def _mteb_files(scores: Sequence[Scores], folder: Path) -> dict[Path, bytes | str]:
    out: dict[Path, bytes | str] = {}
    for each in scores:
        revision = (each.run_sha256 or "unknown")[:40]
        place = folder / "results" / f"{ORGANISATION}__{file_name(each.run)}" / revision
        path = place / f"{task_name(each.collection)}.json"
        if path in out:
            raise HarnessError(f"run {each.run}: has two scores on {each.collection}; mteb's results hold one")
        out[path] = f"{json.dumps(task_result(each), indent=2, ensure_ascii=False)}\n"
        meta = {"name": f"{ORGANISATION}/{each.run}", "revision": revision, "framework": [ORGANISATION]}
        out[place / "model_meta.json"] = f"{json.dumps(meta, indent=2)}\n"
    return out


def task_result(scores: Scores) -> dict[str, Any]:
    """Returns the means of a run as a `TaskResult` of mteb; the main score is that of the first measure.

    Examples
    --------
    >>> import harness as h
    >>> found = h.evaluate(h.task("mini-task1", measures=["P@5"]), h.Run.from_dict("mine", {"M.1": {"a1088": 1.0}}))
    >>> task_result(found.scores[0])["scores"]["test"][0]["precision_prime_at_5"]
    0.004762
    """
    means = {name: scores.aggregate(name) for name in scores.measures}
    known = {
        mteb_name(name, scores.protocol.prime): round(mean, 6) for name, mean in means.items() if not math.isnan(mean)
    }
    if math.isnan(means[scores.measures[0]]):
        raise HarnessError(f"run {scores.run}: no topic counts for {scores.measures[0]}, so it has no main score")
    entry: dict[str, Any] = {
        **known,
        "main_score": known[mteb_name(scores.measures[0], scores.protocol.prime)],
        "topics": scores.n(scores.measures[0]),
        "protocol": scores.protocol.name,
        "hf_subset": "default",
        "languages": _languages(scores.collection),
    }
    return {
        "dataset_revision": scores.qrels_sha256[:40] or "unknown",
        "task_name": task_name(scores.collection),
        "mteb_version": None,
        "scores": {"test": [entry]},
        "evaluation_time": None,
        "kg_co2_emissions": None,
    }


def mteb_name(measure: str, prime: bool) -> str:
    """Returns the name of a measure in mteb's style; prime measures, which mteb lacks, are marked.

    Examples
    --------
    >>> mteb_name("nDCG@10", prime=False), mteb_name("AP", prime=True), mteb_name("Judged@10", prime=True)
    ('ndcg_at_10', 'map_prime', 'judged_at_10')
    """
    parsed = parse_measure(measure)
    name = parsed.mteb or re.sub(r"[^a-z0-9]+", "_", parsed.name.lower()).strip("_")
    mark = "_prime" if prime and parsed.primed and not parsed.diagnostic else ""
    return f"{name}{mark}" + ("" if parsed.k is None else f"_at_{parsed.k}")


def _languages(collection: str) -> list[str]:
    """Returns the language of a collection's topics as in its configuration; none if that is not known here."""
    if collection not in config.names("collection"):
        return []
    file = load_collection(collection).topic_file
    return [] if file is None else [script_of(file.language)]


# ---- Parquet ----------------------------------------------------------------------------------------------------

_COLUMNS = ("run", "collection", "edition", "protocol", "query_id", "measure", "value", "qrels_sha256", "run_sha256")


def rows(scores: Sequence[Scores]) -> Iterator[tuple[str | float | None, ...]]:
    """Yields a row of the data set for each run, topic and measure; no value where the protocol excludes the topic."""
    for each in scores:
        about = (each.run, each.collection, each.edition, each.protocol.name)
        for topic, values in zip(each.topics, each.values.tolist(), strict=True):
            for measure, value in zip(each.measures, values, strict=True):
                known = None if math.isnan(value) else value
                yield (*about, topic, measure, known, each.qrels_sha256, each.run_sha256)


def _parquet_files(scores: Sequence[Scores], folder: Path) -> dict[Path, bytes | str]:
    arrow, parquet = import_library("pyarrow", "hub"), import_library("pyarrow.parquet", "hub")
    columns = list(zip(*rows(scores), strict=True)) or [()] * len(_COLUMNS)
    kinds = [arrow.float64() if name == "value" else arrow.string() for name in _COLUMNS]
    arrays = [arrow.array(list(column), type=kind) for column, kind in zip(columns, kinds, strict=True)]
    out = io.BytesIO()
    parquet.write_table(arrow.table(dict(zip(_COLUMNS, arrays, strict=True))), out, compression="zstd")
    return {folder / "results.parquet": out.getvalue(), folder / "README.md": _card(scores)}


def _card(scores: Sequence[Scores]) -> str:
    listed = sorted({(each.collection, each.edition, each.protocol.name) for each in scores})
    lines = "".join(f"- {collection}, edition {edition}, protocol `{how}`\n" for collection, edition, how in listed)
    return (
        "---\nconfigs:\n- config_name: results\n  data_files:\n  - split: test\n    path: results.parquet\n---\n\n"
        "# Results\n\n"
        f"Scores of {len({each.run for each in scores}):,} runs: a row for each run, topic (`query_id`) and measure. "
        "`value` is null where the protocol leaves a topic out of the measure's mean. `qrels_sha256` and `run_sha256` "
        f"name the files that were scored.\n\n{lines}\nExported by mathir-harness {__version__}.\n"
    )
