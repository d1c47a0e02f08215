"""`score` and `compare` without a collection, with labels, as JSON, and in quiet; and what they share with `run`."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from referencing import Registry, Resource
from tools import QRELS, Place, own_corpus, run_text, table

import harness
from harness.collections.corpora import load_corpus
from harness.io.files import data_root
from harness.scoring.comparison import comparison_from_json
from harness.scoring.scores import scores_from_json

SCHEMAS = [json.loads(path.read_text()) for path in (Path(harness.__file__).parent / "data" / "schemas").glob("*.json")]
TOPICS = data_root() / "topics" / "mini-task1.eng.jsonl"
MINI = ("-c", "mini-task1")
GIVEN = ("--qrels", str(QRELS))
NAMES = ("mini-task1", "mini-theorems")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path)
    made.write("a.run", run_text("one"))
    made.write("b.run", run_text("two", docs=("a1088", "a1007")))
    made.write("k=1.run", run_text("three"))
    judged = {grade: doc for topic, _, doc, grade in map(str.split, QRELS.read_text().splitlines()) if topic == "M.1"}
    made.write("rising.run", f"M.1 Q0 x 1 1 odd\nM.1 Q0 {judged['0']} 2 2 odd\nM.1 Q0 {judged['3']} 3 2 odd\n")
    return made


def document(text: str) -> dict[str, Any]:
    """The only thing that was printed, checked against the schemas."""
    loaded: dict[str, Any] = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    registry = Registry().with_resources((each["$id"], Resource.from_contents(each)) for each in SCHEMAS)
    schema = next(each for each in SCHEMAS if each["$id"].endswith(":evaluation:1"))
    jsonschema.Draft202012Validator(schema, registry=registry).validate(loaded)
    return loaded


# Judgments of topics that are not there


@pytest.mark.slow
def test_score_compare_and_run_refuse_the_same(place: Place) -> None:
    """A judged topic that is no topic counts 0 in every mean: half of these topics would halve it."""
    place.write("conf/collection/q.txt", QRELS.read_text() + "Z.1 0 a1007 3\nZ.2 0 a1007 3\n")
    mini = (data_root() / "conf" / "collection" / "mini-task1.yaml").read_text()
    for old, new in (
        ("name: mini-task1", "name: mine"),
        ("{embedded: qrels/mini-task1.txt}", "{file: q.txt}"),
        ("topics: 42", "topics: 44"),
        ("judgments: 320", "judgments: 322"),
    ):
        assert old in mini
        mini = mini.replace(old, new)
    place.write("conf/collection/mine.yaml", mini)
    fault = "collection mine: the judgments contain topic 'Z.1', which is none of its topics (2 such topics)"
    for arguments in (
        ("score", "a.run", "-c", "mine"),
        ("compare", "a.run", "b.run", "-c", "mine"),
        ("run", "collection=mine", "corpus=mini-answers", "system=overlap"),
    ):
        assert place.refused(*arguments) == [fault]
    given = ("--qrels", "conf/collection/q.txt")
    assert place.refused("score", "a.run", *given, "--topics", str(TOPICS)) == [fault.replace("mine", "q.txt")]
    assert "Z.1" in place.good("score", "a.run", *given, "--per-topic")


# Without a collection


@pytest.mark.slow
def test_judgments_in_a_file_score_as_the_collection_does(place: Place) -> None:
    options = ("--protocol", "arqmath-task1", "--per-topic")
    assert place.good("score", "a.run", *GIVEN, *options) == place.good("score", "a.run", *MINI, "--per-topic")
    means = [table(place.good("score", "a.run", *which, *options[:2]))[:2] for which in (GIVEN, MINI)]
    assert means[0] == means[1]
    both = ("compare", "a.run", "b.run", "--protocol", "trec_eval")
    assert table(place.good(*both, *GIVEN))[3:] != []
    printed = [place.good(*both, *which).splitlines() for which in (GIVEN, (*GIVEN, "--topics", str(TOPICS)), MINI)]
    assert printed[0] == printed[1]
    assert (printed[0][:3], printed[0][4:]) == (printed[2][:3], printed[2][4:])  # but for the line that names them
    expected = place.good("score", "a.run", *GIVEN)
    assert expected.splitlines()[-1].startswith("mini-task1.txt (judgments ")
    assert expected.endswith("), protocol trec_eval, the default with --qrels\n")
    for text in ("[" * 100_000, "a: " * 100_000, "x: &a [1]\ny: [" + "*a, " * 1000 + "]"):
        place.write("a.ir-metadata.yml", text)  # a side file that is none says nothing
        assert place.good("score", "a.run", *GIVEN) == expected
    place.good("compare", "x=a.run", "b.run", *GIVEN, "--topics", str(TOPICS), "-o", "out")
    assert "Runs judged by mini-task1.txt" in (place.here / "out/report.md").read_text()


@pytest.mark.slow
def test_topics_without_judgments_are_said_or_refused(place: Place) -> None:
    place.write("more.run", run_text("more", topics=("M.1", "Z.1", "Z.2")))
    done = place.run("score", "more.run", *GIVEN)
    assert (done.code, done.err) == (0, "more: 2 topics without judgments, not counted\n")
    assert place.refused("score", "more.run", *GIVEN, "--topics", str(TOPICS)) == [
        "more.run:4: topic 'Z.1' is not among the collection's topics (3 lines)",
        "more.run:7: topic 'Z.2' is not among the collection's topics (3 lines)",
    ]


@pytest.mark.slow
def test_keys_and_corpus_without_a_collection(place: Place) -> None:
    qrels, formulas = data_root() / "qrels" / "mini-task2.txt", data_root() / "corpora" / "mini-formulas.jsonl"
    rows = [json.loads(line) for line in formulas.read_text().splitlines()]
    place.write("keys.tsv", "id\tvisual_id\n" + "".join(f"{row['id']}\t{row['visual_id']}\n" for row in rows))
    topic = qrels.read_text().split()[0]
    place.write("f.run", "".join(f"{topic} Q0 {row['id']} {n} {-n} f\n" for n, row in enumerate(rows, 1)))
    protocol = ("--protocol", "arqmath-task2", "--per-topic")
    given = ("score", "f.run", "--qrels", str(qrels), "--keys", "keys.tsv", *protocol)
    assert place.good(*given) == place.good("score", "f.run", "-c", "mini-task2", "--per-topic")
    assert place.good(*given, "--corpus", "mini-formulas") == place.good(*given)
    assert place.refused("score", "f.run", "--qrels", str(qrels), *protocol)[0].startswith(
        "collection mini-task2.txt: protocol arqmath-task2 maps documents to keys, and the collection has no map; "
    )


# Labels


@pytest.mark.slow
def test_files_of_others_are_not_replaced(place: Place) -> None:
    place.write("notes.md", "# Mine")
    place.write("index.html", "<!DOCTYPE html>")
    before = place.files()
    for options, name in ((("--latex", "notes.md"), "notes.md"), (("-o", "."), "index.html")):
        done = place.run("score", "a.run", *MINI, *options)
        assert done.code == 2
        assert done.err.splitlines()[-1].startswith(f"harness: {name}: exists and is no")
        assert place.files() == before
    for run in ("a.run", "b.run"):
        place.good("score", run, *MINI, "--latex", "table.tex")
    assert "two" in (place.here / "table.tex").read_text()


@pytest.mark.slow
def test_a_file_whose_name_has_an_equals_sign_is_itself(place: Place) -> None:
    assert table(place.good("score", "k=1.run", *MINI))[1][0] == "three"
    assert table(place.good("score", "k=k=1.run", *MINI))[1][0] == "k"
    place.write("1.run", run_text("other"))
    assert table(place.good("score", "k=1.run", *MINI))[1][0] == "three"
    rows = table(place.good("compare", "x=a.run", "y=./b.run", *MINI, "-b", "y", "--measures", "AP"))
    assert rows[6][:3] == ["x", "y", "MAP′"]


# JSON


@pytest.mark.slow
def test_json_is_one_document(place: Place) -> None:
    done = place.run("score", "a.run", "x=rising.run", *MINI, "--json", "-o", "out")
    assert (done.code, done.err.splitlines()[-1]) == (0, "report: out/index.html")
    found = document(done.out)
    scores = [scores_from_json(each) for each in found["scores"]]
    assert [each.run for each in scores] == ["one", "x"]
    plain = [line.split("\t") for line in place.good("score", "a.run", *MINI, "--per-topic").splitlines()[1:]]
    values = [["nan" if value is None else repr(value) for value in row] for row in found["scores"][0]["values"]]
    assert values == [row[2:] for row in plain]
    assert "nan" in {value for row in values for value in row}  # topics without results have no Judged@10
    assert found["comparison"] is None
    assert found["coverage"] == ""
    assert found["warnings"][0].startswith("rising.run:2: rank 2 of topic 'M.1' has a higher score")
    assert {tie["run"] for tie in found["ties"]} == {"x"}
    assert all(tie["low"] < tie["high"] for tie in found["ties"])
    found = document(place.good("compare", "é=a.run", "b.run", *MINI, "--json", "-b", "two"))
    comparison = comparison_from_json(found["comparison"])
    assert (comparison.baseline, [(row.a, row.b) for row in comparison.rows][:1]) == ("two", [("é", "two")])


@pytest.mark.slow
def test_json_says_how_much_a_corpus_holds(place: Place) -> None:
    own_corpus(place, "half", (each for _, each in zip(range(150), load_corpus("mini-answers"), strict=False)))
    printed = place.good("score", "a.run", *MINI, "--corpus", "half", "--quiet")
    said = printed.splitlines()[0]
    assert said.startswith("judged and present: ")
    assert document(place.good("score", "a.run", *MINI, "--corpus", "half", "--json"))["coverage"] == said


# Quiet


@pytest.mark.slow
def test_quiet_says_nothing_but_errors(place: Place) -> None:
    """No warnings, and no progress: a run that nobody writes is waited for longer than progress is silent."""
    loud, quiet = (place.run("score", "rising.run", *MINI, "--measures", "RR", *more) for more in ((), ("--quiet",)))
    assert [line.partition(":")[0] for line in loud.err.splitlines()] == ["warning", "ties"]
    assert (quiet.code, quiet.out, quiet.err) == (0, loud.out, "")
    os.mkfifo(place.here / "endless.run")
    done = place.run("score", "endless.run", *GIVEN, "--quiet", environment={"HARNESS_PIPE_SECONDS": "4"})
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "nobody wrote to it for 4 s" in done.err


@pytest.mark.slow
def test_a_run_without_judged_documents_is_doubted(place: Place) -> None:
    """Once for each such run, by every command that scores it, but not where warnings would reveal judgments."""
    place.write("strange.run", run_text("strange", docs=("x1", "x2")))
    warning = "warning: strange: none of its 2 documents is judged, such as 'x1'; is it a run on "
    assert place.run("score", "strange.run", *MINI).err == f"{warning}mini-task1?\n"
    assert place.run("score", "strange.run", *GIVEN).err == f"{warning}{QRELS.name}?\n"
    for command in ("compare", "leaderboard"):
        done = place.run(command, "strange.run", "b.run", *MINI)
        assert (done.code, done.err.count(warning), done.err.count("none of its")) == (0, 1, 1)
    assert place.run("score", "strange.run", *MINI, "--redact").err == ""
    place.write("partly.run", run_text("partly", docs=("x1", "a1088")))
    assert place.run("score", "partly.run", *MINI).err == ""


@pytest.mark.slow
def test_a_report_has_the_command_that_makes_or_scores_each_run(place: Place) -> None:
    """Of runs of `harness run` that which makes them, of others and of changed ones that which scores them."""

    def commands(report: str) -> dict[str, str]:
        sections = json.loads((place.here / report / "report.json").read_text())["sections"]
        (found,) = (block for section in sections for block in section["blocks"] if block.get("id") == "commands")
        return {run["text"]: line["text"] for run, line in found["rows"]}

    for system in ("overlap", "shuffle"):
        page = place.good("run", "collection=mini-task1", f"system={system}", "formats=[json]").splitlines()[-1]
    line = "harness run collection=mini-task1 system={} 'formats=[json]'"
    assert commands(page.removeprefix("report: ").rpartition("/")[0]) == {"shuffle": line.format("shuffle")}
    changed = place.here / "runs/mini-task1/shuffle.run"
    changed.write_text(changed.read_text()[:-1])  # without its last newline
    given = ["runs/mini-task1/overlap.run", "runs/mini-task1/shuffle.run", "mine=a.run"]
    both = place.good("compare", *given, *MINI, "--measures", "AP,P@5", "-o", "page")
    options = "--collection mini-task1 --measures AP,P@5"
    found = commands("page")
    assert found == {
        "overlap": line.format("overlap"),
        "shuffle": f"harness score runs/mini-task1/shuffle.run {options}",
        "mine": f"harness score mine=a.run {options}",
    }
    (mean,) = (row for row in table(place.good(*shlex.split(found["mine"])[1:])) if row[0] == "mine")
    assert mean in table(both)


# Files beside the printed tables


@pytest.mark.parametrize(
    ("command", "kind", "texts"),
    [
        ("score --figure f.svg", b"<svg ", ("Mean nDCG′ of runs", "one", "two")),
        ("score -o out --formats md", b"# ", ()),
        ("compare -b one --figure f.svg", b"<svg ", ("Mean differences in nDCG′ from one", "two")),
        ("compare --latex-tests f.tex", b"% Needs ",
         ("one & two & nDCG", "All rows: n 42.", r"\bottomrule", "a report (-o FOLDER) has effect sizes")),
    ],
)  # fmt: skip
def test_a_file_alone(place: Place, command: str, kind: bytes, texts: tuple[str, ...]) -> None:
    before = place.files()
    for _ in range(2):  # the second time, over its own
        printed = place.good(*command.split(), "a.run", "b.run", *MINI)
    (content,) = (data for path, data in place.files().items() if path not in before and "figures" not in path)
    assert content.startswith(kind)
    assert all(text in content.decode() + printed for text in texts)


# Several collections


@pytest.mark.slow
def test_several_collections_are_a_table_with_all_topics(place: Place) -> None:
    given = ("-c", ",".join(NAMES), "--protocol", "trec_eval", "--measures", "AP")
    for name, docs in (("one", ("a1088", "d")), ("two", ("d", "a1088"))):
        lines = [
            f"{topic} Q0 {doc} {rank} {-rank} {name}\n" for topic in ("M.1", "T.1.1") for rank, doc in enumerate(docs)
        ]
        place.write(f"{name}.txt", "".join(lines))
    runs = ("one.txt", "two.txt")
    shown = place.good("score", *runs, *given)
    assert shown.splitlines()[1].split() == ["run", *NAMES, "all", "topics"]
    said = " ".join(place.good("compare", *runs, *given, "-b", "one").split())
    found = json.loads(place.good("compare", *runs, *given, "--json"))
    assert list(found["evaluations"]) == list(NAMES)
    assert said.count(found["comparison"]["correction"]) == 1
    assert (len(found["comparison"]["rows"]), found["heterogeneity"][0]["topics"]) == (
        1,
        {"mini-task1": 42, "mini-theorems": 40},
    )
    place.good("compare", *runs, *given, "-o", "out", "--latex", "t.tex")
    assert "Agreement of the collections" in (place.here / "out" / "report.md").read_text()
    other = "name one for all: --protocol trec_eval, in Python protocol='trec_eval'"
    assert place.refused("score", *runs, *given[:2])[0].endswith(other)


# Unjudged documents


@pytest.mark.slow
def test_bounds_of_unjudged_documents(place: Place) -> None:
    place.write("x.run", "M.1 Q0 nowhere 1 2 x\nM.1 Q0 a1088 2 1 x\n")
    given = ("x.run", "a.run", *MINI, "--measures", "P@2")
    plain = place.good("compare", *given, "--protocol", "trec_eval")
    shown = place.good("compare", *given, "--protocol", "trec_eval", "--unjudged", "-o", "out")
    assert shown.startswith(plain)
    added = [line.split() for line in shown.removeprefix(plain).splitlines()]
    # One result of one of 42 topics may be relevant.
    assert ["x", "P@2", "0.0119", "0.0119", "0.0238"] in added
    assert "open: the sign depends on the unjudged documents." in shown
    pair = ("a=a.run", "b=a.run", *MINI, "--measures", "P@2")
    same = place.good("compare", *pair, "--protocol", "trec_eval", "--unjudged")
    assert " equal\n" in same
    assert "open:" not in same
    assert "Unjudged documents" in (place.here / "out" / "report.md").read_text()
