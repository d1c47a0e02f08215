"""Sweeps: points that are kept, resumed and counted; tuning apart from what is reported; launchers and sweepers."""

from __future__ import annotations

import csv
import importlib.util
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from tools import MINI, Place, own_collection, own_corpus, points, run_text

from harness.collections.corpora import load_corpus
from harness.collections.load import load_collection
from harness.io.files import sha256_file


def said_of(lines: list[str], pattern: str) -> dict[str, float]:
    """What points say of themselves: value -> mean."""
    found = [re.fullmatch(pattern, line) for line in lines]
    assert all(found), lines
    return {match[1]: float(match[2]) for match in found if match}


def other_collection(place: Place, **more: object) -> None:
    """A second collection over the mini corpus: some topics in other words, one more judgment each."""
    mini = load_collection("mini-task1")
    names = {topic.id: f"X.{number}" for number, topic in enumerate(list(mini.topics())[:8])}
    asked = [replace(each, id=names[each.id], title=f"Asked anew: {each.title}") for each in list(mini.topics())[:8]]
    judged = [(names[t], d, g) for t, docs in mini.qrels().to_dict().items() if t in names for d, g in docs.items()]
    judged += [(name, f"more-{name}", 2) for name in names.values()]  # other relevant documents: other topics
    own_collection(place, "other", asked, judged, **more)


def test_a_sweep(place: Place) -> None:
    printed = place.good("run", "-m", *MINI, "system=overlap,shuffle", "formats=[json]").splitlines()
    value = said_of(printed[:2], r"system=(\w+): nDCG′ (\S+) on mini-task1 \(n = 42\)")
    assert set(value) == {"overlap", "shuffle"}
    head = "2 configurations of overlap, shuffle on mini-task1: best"
    said = re.fullmatch(rf"{head} nDCG′ (0\.\d{{4}}) with system=overlap, chosen on the same topics", printed[2])
    assert said
    assert float(said[1]) == max(value.values()) == value["overlap"]
    assert set(place.runs()) == {"runs/mini-task1/overlap.run", "runs/mini-task1/shuffle.run"}
    assert {path.name for path in place.here.iterdir()} == {"runs", "reports"}
    for point in points(place):
        ((name, checksum),) = point["files"].items()
        assert (name, checksum) == (
            f"runs/mini-task1/{point['overrides']['system']}.run",
            sha256_file(place.here / name),
        )
    scored = place.good("score", "runs/mini-task1/overlap.run", "-c", "mini-task1").splitlines()[1].split()
    assert float(scored[1]) == pytest.approx(value["overlap"], abs=1e-9)


@pytest.mark.slow
def test_the_points_of_a_sweep_are_kept_apart(place: Place) -> None:
    """By the values that vary in their names; also by those that fit no file name."""
    arguments = ("-m", *MINI, "system=shuffle", "system.seed=1,2", "formats=[json]")
    place.good("run", *arguments)
    files = place.runs()
    assert set(files) == {"runs/mini-task1/shuffle-seed=1.run", "runs/mini-task1/shuffle-seed=2.run"}
    assert len({content.replace(b"seed=1", b"seed=2") for content in files.values()}) == 2
    place.write("a.run", run_text("a"))
    place.write("b.run", run_text("b", docs=("a1088", "a1007")))
    fused = "system.runs=[./a.run,./b.run]"
    place.good("run", "-m", "collection=mini-task1", "system=fusion-rrf", fused, "system.k=1,60", "formats=[json]")
    names = {Path(name).name for name in place.runs() if name not in files}
    assert len(names) == 2
    assert all(re.fullmatch(r"fusion-rrf-runs=[0-9a-f]{8}-k=(1|60)\.run", name) for name in names)


@pytest.mark.slow
def test_a_sweep_goes_on_after_points_that_fail(place: Place) -> None:
    done = place.run("run", "-m", *MINI, "system=external,shuffle", "edition=official,all", "formats=[json]")
    assert done.code == 2
    assert set(place.runs()) == {"runs/mini-task1/shuffle-edition=official.run"}
    errors = [line for line in done.err.splitlines() if line.startswith("harness: ")]
    assert len(errors) == 2
    assert errors[0].endswith("run: system: key 'path' is missing") or errors[1].endswith("key 'path' is missing")
    assert any("edition 'all' is unknown" in line for line in errors)
    (report,) = (path for path in place.files("reports") if path.endswith("report/report.json"))
    assert "4 configurations tried, 3 failed" in (place.here / report).read_text()
    assert sum("1 more point:" in line for line in errors) == 1


@pytest.mark.heavy
def test_points_that_were_computed_are_not_computed_again(place: Place) -> None:
    arguments = ("run", "-m", *MINI, "system=bm25", "system.k1=0.5,1.5", "formats=[json]")
    first = place.run(*arguments)
    assert first.err.count("running bm25") == 2
    again = place.run(*arguments)
    assert (again.err.count("running bm25"), again.err.count("reused, same configuration")) == (0, 2)
    assert again.out == first.out
    more = place.run(*arguments[:-2], "system.k1=0.5,1.5,2.5", "formats=[json]")
    assert (more.err.count("running bm25"), more.err.count("reused, same configuration")) == (1, 2)
    fresh = place.run(*arguments, "reuse=false")
    assert fresh.err.count("running") == 2


@pytest.mark.heavy
def test_points_of_another_protocol_are_not_counted(place: Place) -> None:
    """Nor those of other texts or keys that do not vary; what varies tells points apart, whatever refers to it."""
    documents = [document for _, document in zip(range(60), load_corpus("mini-answers"), strict=False)]
    own_corpus(place, "part", documents)
    place.write("conf/protocol/mine.yaml", "name: mine\nmeasures: [P@10]\n")
    system = "title: M\n_target_: harness.systems.baselines.Shuffle\nname: m\nseed: 1\ndepth: ${.seed}\n"
    place.write("conf/system/m.yaml", system)
    which = ("collection=mini-task1", "corpus=part", "system=m", "protocol=mine", "formats=[json]")
    arguments = ("run", "-m", *which, "system.seed=50,60")
    assert place.good(*arguments).splitlines()[-2].startswith("2 configurations of m on mini-task1: best P@10 ")
    (folder,) = (place.here / "reports" / "sweeps").iterdir()
    for name, old, new in (
        ("protocol/mine.yaml", "P@10", "P@5"),
        ("system/m.yaml", "${.seed}", "40"),
        ("corpus/part.jsonl", documents[0].body[-20:], "another end"),
    ):
        for path in list(folder.glob("*.json")):  # as if the sweep had tried other points
            record = json.loads(path.read_text())
            record["overrides"]["system.seed"] += "0"
            (folder / f"0{path.name}").write_text(json.dumps(record))
            path.unlink()
        before = (place.here / "conf" / name).read_text()
        assert json.dumps(old)[1:-1] in before
        place.write(f"conf/{name}", before.replace(json.dumps(old)[1:-1], new))
        assert place.good(*arguments).splitlines()[-2].startswith("2 configurations of m on mini-task1: best P@5 ")


@pytest.mark.slow
def test_points_learn_what_varies_from_their_configuration(place: Place) -> None:
    """Not from what the process that launches them knows: they may be on another machine."""
    place.write("conf/sweep/both.yaml", "# @package _global_\nhydra: {sweeper: {params: {rerank: 'true,false'}}}\n")
    place.good("run", "sweep=both", *MINI, "system=overlap", "edition=official", "formats=[json]")
    assert {Path(name).name for name in place.runs()} == {"overlap-rerank=True.run", "overlap-rerank=False.run"}
    parallel = ("hydra/launcher=joblib", "hydra.launcher.n_jobs=2", "output='other reports'")
    if importlib.util.find_spec("joblib") is not None:
        place.good("run", "-m", *MINI, "system=overlap", "rerank=true,false", "formats=[json]", *parallel)
        (folder,) = (place.here / "other reports" / "sweeps").iterdir()
        assert (folder / "report" / "report.json").is_file()
        made = {Path(name).name for path in folder.glob("*.json") for name in json.loads(path.read_text())["files"]}
        assert made == {"overlap-rerank=True.run", "overlap-rerank=False.run"}


@pytest.mark.slow
def test_tuning_and_reporting_use_different_topics(place: Place) -> None:
    other_collection(place)
    arguments = ("run", "-m", *MINI, "tune=[other]", "system=bm25", "system.k1=0.1,1.2,8", "formats=[json,md]")
    printed = place.good(*arguments).splitlines()
    tuned = said_of(printed[:3], r"system=bm25, system.k1=(\S+): nDCG′ (\S+) on other \(n = 8\)")
    assert set(tuned) == {"0.1", "1.2", "8"}
    best = f"{max(tuned.values()):.4f} with k1={max(tuned, key=lambda k1: tuned[k1])}"
    assert printed[3].startswith(f"3 configurations of bm25: best nDCG′ {best}, tuned on other")
    # The reported topics were ranked by the chosen configuration alone.
    assert {Path(name).name for name in place.runs() if "mini-task1" in name} == {"bm25-tuned.run"}
    best = max(tuned, key=lambda value: tuned[value])
    alone = Place(place.here.parent / "alone")
    alone.good("run", *MINI, "system=bm25", f"system.k1={best}", "formats=[json]")
    expected = (alone.here / "runs/mini-task1/bm25.run").read_bytes().replace(b"\tbm25\n", b"\tbm25-tuned\n")
    assert place.runs()["runs/mini-task1/bm25-tuned.run"] == expected
    report = (place.here / "reports/mini-task1/bm25-tuned/report.md").read_text()
    assert "3 configurations were tried on other (8 topics)" in report
    assert re.search(rf"system\\?\.k1=0?\\?\.?{re.escape(best)[-1]}.* was best there", report)


@pytest.mark.slow
def test_tuning_on_another_edition_of_the_reported_collection(place: Place) -> None:
    """Its topics are in the same file, and only those that each edition judges count."""
    other_collection(place)
    path = place.here / "conf/collection/other.yaml"
    mapping = yaml.safe_load(path.read_text())
    lines = (place.here / "conf/collection/other.txt").read_text().splitlines(keepends=True)
    for edition, topics in (("first", "0123"), ("second", "4567")):
        place.write(f"conf/{edition}.txt", "".join(line for line in lines if line[2] in topics))
        mapping["editions"][edition] = {"title": edition, "qrels": {"file": f"../{edition}.txt"}}
    path.write_text(yaml.safe_dump(mapping))
    words = ("run", "-m", "collection=other", "corpus=mini-answers", "edition=second", "system=bm25", "system.k1=1,2")
    printed = place.good(*words, "tune=[other/first]", "formats=[json]")
    assert "tuned on other/first" in printed
    assert "1 run on other (edition second, n = 4): " in printed
    (said,) = place.refused(*words, "tune=[other/official]")
    assert "key 'tune': other/official judges topic 'X.4', which is to be reported (4 such topics)" in said


@pytest.mark.slow
def test_training_judgments_come_from_the_command_line(place: Place) -> None:
    other_collection(place)
    for name in ("overlap", "shuffle"):
        place.good("run", *MINI, f"system={name}", "formats=[json]")
        place.good("run", "collection=other", "corpus=mini-answers", f"system={name}", "formats=[json]")
    fused = [f"system.runs=[{','.join(f'runs/mini-task1/{name}.run' for name in ('overlap', 'shuffle'))}]"]
    fused += [f"system.training_runs=[{','.join(f'runs/other/{name}.run' for name in ('overlap', 'shuffle'))}]"]
    for system in ("fusion-rbc", "fusion-wibc", "fusion-interpolation"):
        done = place.run("run", "collection=mini-task1", f"system={system}", *fused, "formats=[json]")
        assert (done.code, "needs training judgments" in done.err) == (2, True)
        place.good("run", "collection=mini-task1", f"system={system}", *fused, "training=[other]", "formats=[json]")
        assert f"runs/mini-task1/{system}.run" in place.runs()
    own = ("run", "collection=mini-task1", "system=fusion-rbc", *fused, "training=[mini-task1]", "formats=[json]")
    assert "training: the judgments contain topic 'M.1' of the task" in place.run(*own).err


@pytest.mark.slow
def test_all_of_a_sweep_is_in_the_folder_of_reports(place: Place) -> None:
    place.good("run", "-m", *MINI, "system=shuffle,overlap", "formats=[json]", "output=elsewhere", "runs=made")
    assert {Path(name).parts[0] for name in place.files()} == {"elsewhere", "made"}
    (folder,) = (place.here / "elsewhere" / "sweeps").iterdir()
    assert {path.name for path in folder.iterdir() if path.suffix != ".json"} == {"multirun.yaml", "report"}


@pytest.mark.slow
def test_a_sweep_over_collections_has_the_measures_of_all(place: Place) -> None:
    """Each value is that of a run on the collection alone."""
    printed = place.good("run", "-m", "collection=mini-task1,mini-theorems", "system=overlap", "formats=[csv,json]")
    assert "nDCG′, nDCG@20 on different topics, judgments or protocols, so none is the best" in printed
    (path,) = (place.here / "reports").rglob("points.csv")
    with path.open(newline="") as stream:
        rows = {row["collection"]: row for row in csv.DictReader(stream)}
    for collection, measures in (
        ("mini-task1", "nDCG,AP,P@10,Bpref,Judged@10"),
        ("mini-theorems", "nDCG@20,P@10,R@10"),
    ):
        run = f"runs/{collection}/overlap.run"
        scored = place.good("score", run, "--collection", collection, "--measures", measures).splitlines()
        named = dict(zip(scored[0].split()[1:], scored[1].split()[1:], strict=True))
        del rows[collection]["collection"]
        found = {label.replace("'", "′"): f"{float(value):.4f}" for label, value in rows[collection].items() if value}
        assert found.items() <= named.items()
        assert len(found) == len(measures.split(","))
