"""`harness run experiment=NAME`: one report of many runs, each the one that `harness run` would have made."""

from __future__ import annotations

import csv
import re
import shlex
import statistics
from collections import Counter
from typing import Any

import pytest
import yaml
from tools import CONF, Place, own_collection

from harness.collections.load import load_collection
from harness.experiments.evaluate import compare, evaluate
from harness.experiments.task import task
from harness.systems.hardware import gpu

MINI = ("run", "experiment=mini", "formats=[json,md,csv,html,tex]")
MINE: dict[str, Any] = {
    "title": "Halves of the mini collection",
    "shared": ["corpus=mini-answers"],
    "axes": {"half": {"first": ["collection=first"], "second": ["collection=second"]}},
    "conditions": {
        "bm25": {"overrides": ["system=bm25"]},
        "flat": {"overrides": ["system=bm25", "system.k1=0"]},
        "random": {"overrides": ["system=shuffle", "rerank=true"]},
    },
    "pool": "half",
    "seeds": {"key": "system.seed", "values": [1, 2], "only": {"condition": ["random"]}},
    "measures": ["nDCG", "Judged@10"],
    "baseline": {"condition": "bm25"},
    "breakdown": ["difficulty"],
}


def halves(place: Place) -> None:
    """Two collections, each with half of the mini topics."""
    mini = load_collection("mini-task1")
    topics, judged = list(mini.topics()), mini.qrels().to_dict()
    for name, chosen in (("first", topics[:20]), ("second", topics[20:])):
        rows = [(t.id, doc, grade) for t in chosen for doc, grade in judged[t.id].items()]
        own_collection(place, name, chosen, rows, notes=["Made for tests.", f"The {name} half."])


def mine(place: Place, **changes: object) -> None:
    place.write("conf/experiment/mine.yaml", yaml.safe_dump(MINE | changes, sort_keys=False))


def records(place: Place, name: str, folder: str = "mini") -> list[dict[str, str]]:
    with (place.here / "reports" / "experiments" / folder / f"{name}.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.heavy
def test_the_embedded_experiment(place: Place) -> None:
    """Its numbers are those of the runs that `harness run` makes, its tests those of `compare`."""
    printed = place.good(*MINI).splitlines()
    assert printed[0].startswith(
        "9 runs of experiment mini: best nDCG′ 0.865 by tfidf, whole corpus and tfidf, judged documents, "
        "which tie (mini-task1, n = 42)"
    )
    assert printed[1:] == ["report: reports/experiments/mini/index.html"]
    means = {(row["condition"], row["ranked"], row["measure"]): row for row in records(place, "means")}
    scorer = task("mini-task1", "mini-answers")
    runs = place.here / "runs" / "mini-task1"
    found = evaluate(scorer, runs / "bm25.run", runs / "tfidf-ltn.run", runs / "overlap.run")
    for scores, name in zip(found.scores, ("bm25", "tfidf", "overlap"), strict=True):
        for measure in ("nDCG", "AP", "Judged@10"):
            row = means[name, "whole corpus", measure]
            assert (row["n"], row["sd"]) == ("42", "")
            assert float(row["mean"]) == pytest.approx(scores.mean(measure))
    seeds = [evaluate(scorer, runs / f"shuffle-rerank=true-seed={seed}.run").scores[0] for seed in (1, 2, 3)]
    row = means["any order", "judged documents", "nDCG"]
    each = [scores.mean("nDCG") for scores in seeds]
    assert [float(row["mean"]), float(row["sd"])] == pytest.approx([statistics.mean(each), statistics.stdev(each)])
    expected = {(r.a, r.measure): r for r in compare(found, "bm25", measures=["nDCG", "AP"], family=10).rows}
    tests = {(row["a"], row["measure"]): row for row in records(place, "tests")}
    assert len(tests) == 10
    for (run, measure), wanted in expected.items():
        name = {"tfidf-ltn": "tfidf", "overlap": "overlap"}[run]
        got = tests[f"{name}, whole corpus", measure]
        assert got["b"] == "bm25, whole corpus"
        for key in ("difference", "ci_low", "ci_high", "p", "p_bonferroni"):
            assert float(got[key]) == pytest.approx(getattr(wanted, key))
        assert got["family"] == "10"
    # Each command makes its row's run, under the name that it has there.
    commands = records(place, "tables/commands")
    assert len(commands) == 9
    alone = Place(place.here.parent / "alone")
    for row in (commands[0], next(r for r in commands if r["run"].endswith("tfidf-ltn-rerank=true.run"))):
        words = shlex.split(row["command"])[1:]
        alone.good(*words, "formats=[json]")
        assert (alone.here / row["run"]).read_bytes() == (place.here / row["run"]).read_bytes()
        assert f"{row['run']}: reused, same configuration" in place.run(*words, "formats=[json]").err
    assert words[-1] == 'system.name="tfidf-ltn-rerank=true"'


@pytest.mark.heavy
def test_what_would_be_run(place: Place) -> None:
    """`--dry-run` runs nothing, and says what is finished and how long the rest may take."""
    place.write("conf/system/lacking.yaml", "title: L\n_target_: x.y\nneeds: no_such_module\nextra: what\n")
    conditions = {name: {"overrides": [f"system={name}"]} for name in ("bm25", "overlap", "lacking")}
    halves(place)
    mine(place, conditions={**conditions, "random": MINE["conditions"]["random"]})
    before = place.good("run", "experiment=mine", "--dry-run").splitlines()
    assert before == [
        "experiment mine, scale full: 4 conditions; half: 2; seeds 1, 2; 10 cells, 9 tests",
        "  bm25: 0 of 2 cells finished",
        "  overlap: 0 of 2 cells finished",
        "  lacking: 0 of 2 cells finished; 2 cannot be run here: no_such_module is not installed: "
        "pip install 'mathir-harness[what]'",
        "  random: 0 of 4 cells finished",
        "8 cells left to run; no cell is finished yet, by which their time could be estimated",
    ]
    assert not (place.here / "runs").exists()
    assert not (place.here / "reports").exists()
    place.good("run", "experiment=mine", "only={condition:[bm25],half:[first]}", "formats=[md]")
    place.good("run", "experiment=mine", "only={condition:[random]}", "formats=[md]")
    after = place.good("run", "experiment=mine", "dry=true").splitlines()
    assert [line.partition(" finished")[0] for line in after[1:5]] == [
        "  bm25: 2 of 2 cells",  # the other half was the baseline of the random order
        "  overlap: 0 of 2 cells",
        "  lacking: 0 of 2 cells",
        "  random: 4 of 4 cells",
    ]
    assert after[-1].startswith("2 cells left to run: about ")
    assert after[-1].endswith(" (2 by the mean of all finished cells)")
    assert place.good("run", "experiment=mine", "--dry-run", "reuse=false").splitlines()[1] == before[1]


@pytest.mark.heavy
def test_a_scale_has_runs_and_a_report_of_its_own(place: Place) -> None:
    """What one scale has made is never taken for the other, and nothing is smaller than was asked for."""
    halves(place)
    here = {"says": "ten documents a topic", "changes": ["system.depth=10"]}
    conditions = {name: {"overrides": [f"system={name}"]} for name in ("bm25", "overlap")}
    whole: dict[str, Any] = {"conditions": conditions, "seeds": None, "costs": ["latency", "memory", "parameters"]}
    mine(place, scale={"here": here}, **whole)
    words = ("run", "experiment=mine", "formats=[csv,md]")
    full = place.run(*words)
    assert full.code == 0, full.err
    small = place.run(*words, "scale=here")
    assert small.code == 0, small.err
    assert (full.err.count("running "), small.err.count("running ")) == (4, 4)
    assert small.out.startswith("4 runs of experiment mine at scale here: best ")
    runs = {path.name for path in (place.here / "runs/first").glob("*.run")}
    assert runs == {"bm25.run", "overlap.run", "bm25-here.run", "overlap-here.run"}
    lines = (place.here / "runs/first/bm25-here.run").read_text().splitlines()
    assert max(Counter(line.split()[0] for line in lines).values()) == 10
    page = (place.here / "reports/experiments/mine-here/report.md").read_text()
    said = "Scale here: ten documents a topic (system.depth=10)."
    assert page.count(said) == len(list((place.here / "reports/experiments/mine-here/tables").glob("*.csv")))
    assert said not in (place.here / "reports/experiments/mine/report.md").read_text()
    costs = {row["condition"]: row for row in records(place, "tables/costs", "mine-here")}
    assert costs["bm25"]["runs"] == "2"
    assert float(costs["bm25"]["a query, ms"]) > 0
    assert costs["bm25"]["parameters"] == "n/a"
    # What full needs is not here: it stops, and says what can be said.
    mine(place, scale={"here": here, "full": {"needs": ["gpu"]}}, **whole)
    if not gpu():
        done = place.run(*words)
        assert done.code == 2
        assert done.err.splitlines()[-2:] == [
            "harness: experiment mine: some resources for the full experiment are missing; use scale=full to run the "
            "available cells, or scale=here for a reduced version: ten documents a topic",
            "harness: needs a GPU that torch finds",
        ]
        # A dry run lists all rows, and ends well.
        printed = place.good(*words, "--dry-run").splitlines()
        assert printed[0].startswith("experiment mine, scale full: ")
        assert printed[-1].startswith("some resources for the full experiment are missing; use scale=full ")
    assert place.run(*words, "scale=full").err.count("running ") == 0
    assert place.refused(*words, "scale=hear") == [
        "run: key 'scale': the experiment has no scale 'hear'; did you mean 'here'?"
    ]


@pytest.mark.slow
def test_pages_of_topics(place: Place) -> None:
    halves(place)
    one = next(iter(load_collection("mini-task1").topics())).id
    two = {"bm25": MINE["conditions"]["bm25"], "flat": MINE["conditions"]["flat"]}
    mine(place, pages=[one, "Q.0"], seeds=None, conditions=two)
    (said,) = place.refused("run", "experiment=mine", "formats=[html,md]")
    assert said.startswith("experiment mine: key 'pages': no collection of the experiment has a topic 'Q.0'; ")
    mine(place, pages=[one], seeds=None, conditions=two)
    place.good("run", "experiment=mine", "formats=[html,md]")
    assert "Per-topic results" in (place.here / "reports/experiments/mine/index.html").read_text()
    # The tables have no column of randomization tests; the collections have one note in common.
    report = (place.here / "reports/experiments/mine/report.md").read_text()
    assert "randomization tests" not in report
    assert "Randomization tests, where reports are written as CSV: tests.csv beside this page." in report
    lines = report.splitlines()
    assert [line for line in lines if line.endswith((" half.", "for tests."))] == [
        "Made for tests.",
        "first: The first half.",
        "second: The second half.",
    ]


@pytest.mark.slow
def test_cells_that_cannot_be_run(place: Place) -> None:
    """Those that need something are told, with code 0; those that fail are told with code 2; the others go on."""
    place.write(
        "broken.py",
        "def broken():\n    def rank(request):\n        raise ValueError('no such luck')\n    return rank\n",
    )
    place.write("conf/system/broken.yaml", "title: B\n_target_: broken.broken\n")
    place.write("conf/system/lacking.yaml", "title: L\n_target_: broken.broken\nneeds: no_such_module\nextra: what\n")
    place.write("conf/system/planned.yaml", "title: P\nstate: 'needs a graph of all the world'\n")
    base: dict[str, Any] = {
        "shared": ["collection=mini-task1", "corpus=mini-answers"],
        "axes": {"depth": {"whole": [], "judged": ["rerank=true"]}},
    }
    base |= {"pool": None, "seeds": None, "breakdown": []}
    conditions = {name: {"overrides": [f"system={name}"]} for name in ("bm25", "overlap", "lacking", "planned")}
    mine(place, conditions=conditions, **base)
    lacking = place.run("run", "experiment=mine", "formats=[csv,md]")
    assert lacking.code == 0, lacking.err
    said = [line for line in lacking.err.splitlines() if line.startswith("not run: ")]
    assert said == [
        "not run: lacking, whole and 1 more cells: no_such_module is not installed: pip install 'mathir-harness[what]'",
        "not run: planned, whole and 1 more cells: needs a graph of all the world",
    ]
    assert lacking.out.startswith("4 of 8 runs of experiment mine: best ")
    lost = records(place, "tables/not-run", "mine")
    assert [(row["condition"], row["depth"], row["state"]) for row in lost] == [
        (name, depth, "missing resource") for name in ("lacking", "planned") for depth in ("whole", "judged")
    ]
    assert "rerank=true system=lacking " in lost[1]["command"]
    assert {row["family"] for row in records(place, "tests", "mine")} == {"6"}
    mine(place, conditions={**conditions, "broken": {"overrides": ["system=broken"]}}, **base)
    failing = place.run("run", "experiment=mine", "formats=[csv,md]")
    assert failing.code == 2
    assert re.search("^not run: broken, whole and 1 more cells: system .*ValueError: no such luck$", failing.err, re.M)
    assert failing.err.splitlines()[-1] == "harness: experiment mine: 2 of 10 cells failed; see 'not run' above"
    assert [row["state"] for row in records(place, "tables/not-run", "mine")].count("failed") == 2
    assert len(records(place, "tests", "mine")) == 2 * 1  # overlap, on two depths, by one measure
    conditions = {"lacking": conditions["lacking"]}
    mine(place, conditions=conditions, baseline=None, **base)
    none = place.run("run", "experiment=mine")
    assert none.code == 2
    assert none.err.splitlines()[-2:] == [
        "harness: experiment mine: no cell could be run",
        "harness: lacking, whole and 1 more cells: no_such_module is not installed: pip install 'mathir-harness[what]'",
    ]


@pytest.mark.heavy
def test_sections_of_somebody_else(place: Place) -> None:
    place.write(
        "more.py",
        "from harness.render.model import Section, Prose\n\n\ndef rows(results):\n"
        "    return [Section('Rows', (Prose(tuple(', '.join(row) for row in results.rows)),))]\n",
    )
    halves(place)
    mine(place, sections=["more.rows"])
    place.good("run", "experiment=mine", "formats=[md]")
    page = (place.here / "reports/experiments/mine/report.md").read_text()
    assert "## Rows\n\nbm25\n\nflat\n\nrandom\n" in page
    mine(place, sections=["more.columns"])
    done = place.run("run", "experiment=mine")
    assert (done.code, len(done.err.splitlines())) == (2, 1)
    assert "key 'sections': more.columns cannot be loaded" in done.err
    functions = "def none():\n    return []\n\n\ndef words(results):\n    return ['rows']\n"
    place.write("wrong.py", f"TEXT = 'x'\n\n\n{functions}")
    for name, said in (
        ("TEXT", "wrong.TEXT is not a function of results"),
        ("none", "wrong.none: TypeError: none() takes 0 positional arguments but 1 was given"),
        ("words", "wrong.words gave something else than sections of a report"),
    ):
        mine(place, sections=[f"wrong.{name}"])
        done = place.run("run", "experiment=mine")
        assert (done.code, done.err.splitlines()[-1]) == (2, f"harness: experiment: key 'sections': {said}")


@pytest.mark.slow
def test_two_cells_that_write_one_file_are_refused(place: Place) -> None:
    halves(place)
    place.write("conf/system/twin.yaml", "title: T\n_target_: harness.systems.baselines.Overlap\nname: bm25\n")
    mine(place, conditions={**MINE["conditions"], "twin": {"overrides": ["system=twin"]}})
    done = place.run("run", "experiment=mine")
    lines = [line for line in done.err.splitlines() if line.startswith("harness: ")]
    assert (done.code, lines) == (
        2,
        ["harness: experiment: bm25, first and twin, first are different runs of one name, 'bm25'; give one of them a "
         "system.name of its own"],
    )  # fmt: skip
    assert not (place.here / "runs").exists()


@pytest.mark.slow
def test_the_command_line_has_its_say(place: Place) -> None:
    """What no axis varies can be given there; the report is then another one."""
    halves(place)
    mine(place, seeds=None, conditions={name: MINE["conditions"][name] for name in ("bm25", "flat")})
    place.good(
        "run", "experiment=mine", "protocol=arqmath-task1-answered", "runs=elsewhere", "output=pages", "formats=[md]"
    )
    assert {path.name for path in (place.here / "elsewhere").iterdir()} == {"first", "second"}
    (page,) = (place.here / "pages" / "experiments").glob("mine-*/report.md")
    assert "with protocol=arqmath-task1-answered" in page.read_text()
    assert not (place.here / "runs").exists()


@pytest.mark.slow
def test_a_report_on_private_judgments_says_that_it_is_not_for_participants(place: Place) -> None:
    place.good("new", "collection", "club")
    path = place.here / "conf/collection/club.yaml"
    collection = yaml.safe_load(path.read_text())
    collection["editions"] = {name: {**each, "private": True} for name, each in collection["editions"].items()}
    path.write_text(yaml.safe_dump(collection))
    shared = {"title": "x", "shared": ["collection=club", "corpus=club"], "measures": ["nDCG"]}
    conditions = {name: {"overrides": [f"system={name}"]} for name in ("bm25", "overlap")}
    place.write("conf/experiment/inner.yaml", yaml.safe_dump({**shared, "conditions": conditions}))
    done = place.run("run", "experiment=inner")
    assert done.code == 0, done.err
    said = [line for line in done.err.splitlines() if line.startswith("warning: club: the edition is private")]
    assert len(said) == 1


# ---- faults: told before the first cell is run, a line each, and not left behind ----

SHARED = ["collection=mini-task1", "corpus=mini-answers"]


def faults(place: Place, **changes: Any) -> list[str]:  # noqa: ANN401
    """What is said of an experiment that has faults; nothing of it has been run."""
    mapping = {"title": "t", "shared": SHARED, "measures": ["nDCG"], **changes}
    place.write("conf/experiment/mine.yaml", yaml.safe_dump(mapping, sort_keys=False))
    for words in ((), ("--dry-run",)):
        done = place.run("run", "experiment=mine", *words)
        assert done.code == 2, done.err
        assert "running " not in done.err
        assert not (place.here / "runs").exists()
        assert not (place.here / "reports").exists()
    return [line for line in done.err.splitlines() if line.startswith("harness: ")]


@pytest.mark.slow
def test_what_a_system_would_refuse(place: Place) -> None:
    """Hours later, when its turn came: a value, a key below another one, a corpus, judgments, posts it trained on."""
    place.write(
        "posts.py",
        "class Posts:\n    def trains_without(self):\n        return {'mini-task2'}\n\n"
        "    def __call__(self, request):\n        raise ValueError\n",
    )
    place.write("conf/system/posts.yaml", "title: P\n_target_: posts.Posts\n")
    said = faults(
        place,
        conditions={
            "good": {"overrides": ["system=overlap"]},
            "value": {"overrides": ["system=bm25", "system.k1=-1", "system.name=low"]},
            "inner": {"overrides": ["system=mathamr-dependency", "system.training.rat=1"]},
            "corpus": {"overrides": ["system=mathamr-dependency", "system.pairs.mse-page=null"]},
            "judgments": {"overrides": ["system=bm25", "training=[mini-task9]", "system.name=learnt"]},
            "posts": {"overrides": ["system=posts"]},
        },
    )
    assert said[0] == "harness: value: run: system: key 'k1' is -1, expected a number from 0 up"
    assert said[1].startswith("harness: inner: ")
    assert said[1].endswith("system mathamr-dependency: key 'training.rat' is unknown; did you mean 'rate'?")
    assert said[2].endswith("key 'pairs': corpus 'mse-page' is unknown; did you mean 'mse-pages'?")
    assert said[3].startswith("harness: judgments: collection 'mini-task9' is unknown; did you mean ")
    assert said[4].startswith(
        "harness: posts: system posts: trains on posts without leaving out those judged in mini-task1; "
    )
    assert len(said) == 5


@pytest.mark.slow
def test_settings_are_not_chosen_on_the_reported_topics(place: Place) -> None:
    """Two sets of one collection's topics are no other topics, whatever their names."""
    experiment = {
        "title": "t",
        "shared": ["corpus=mini-answers", "system=bm25"],
        "axes": {"language": {"one": ["collection=mini-task1"], "other": ["collection=mini-task1", "system.b=0"]}},
        "conditions": {"tuned": {"overrides": [], "tune": {"system.k1": [1, 2]}}},
        "pool": "language",
        "measures": ["nDCG"],
    }
    place.write("conf/experiment/same.yaml", yaml.safe_dump(experiment))
    done = place.run("run", "experiment=same")
    said = "settings or seeds of 'one' are chosen on 'other', which has topic 'M.1' (42 such topics)"
    assert (done.code, said in done.err, (place.here / "runs").exists()) == (2, True, False)


@pytest.mark.slow
def test_names_that_hydra_reads_in_quotes_only(place: Place) -> None:
    text = (CONF / "experiment/mini.yaml").read_text(encoding="utf-8")
    for name in ("nan", "17", "été", "a=b"):
        place.write(f"conf/experiment/{name}.yaml", text)
        (said,) = place.refused("run", f"experiment={name}", "--dry-run")
        number = f"experiment={name}: Hydra reads {name} as a number; give the experiment another name"
        assert said == number or name not in ("nan", "17")
        assert place.good("run", f'experiment="{name}"', "--dry-run").startswith(f"experiment {name}, scale full: ")
