"""Starting points: written once, never over anything, and everything works on them at once."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from extension_tools import pip_installed
from tools import Place, table

from harness.scoring.protocol import Protocol

WRITTEN = {
    "collection": [
        "conf/collection/mine.yaml",
        "conf/collection/mine.topics.jsonl",
        "conf/collection/mine.qrels",
        "conf/corpus/mine.yaml",
        "conf/corpus/mine.jsonl",
    ],
    "system": ["conf/system/mine.yaml", "mine.py"],
    "protocol": ["conf/protocol/mine.yaml"],
}


def lines(place: Place, *arguments: str) -> list[str]:
    """What a command says that must fail by a fault of its user's."""
    done = place.run(*arguments)
    assert (done.code, done.out) == (2, "")
    assert "Traceback" not in done.err
    return [line.removeprefix("harness: ") for line in done.err.splitlines()]


@pytest.mark.slow
def test_from_nothing_to_a_comparison(tmp_path: Path) -> None:
    place = Place(tmp_path)
    for kind, files in WRITTEN.items():
        *printed, after = place.good("new", kind, "mine").splitlines()
        assert printed == [f"{name}: written" for name in files]
        assert after.startswith("next: harness ")
    assert sorted(place.files()) == sorted(name for files in WRITTEN.values() for name in files)
    for system in ("mine", "bm25"):
        made = place.good("run", "collection=mine", "corpus=mine", f"system={system}", "formats=[json]")
        assert f"run: runs/mine/{system}.run" in made
    runs = ["runs/mine/mine.run", "runs/mine/bm25.run"]
    own = json.loads(place.good("score", *runs, "-c", "mine", "--protocol", "mine", "--json"))
    assert own["warnings"] == []
    assert {scores["protocol"]["name"] for scores in own["scores"]} == {"mine"}
    assert [scores["run"] for scores in own["scores"]] == ["mine", "bm25"]
    compared = place.good("compare", *runs, "-c", "mine", "--protocol", "mine", "-b", "bm25", "--json")
    rows = json.loads(compared)["comparison"]["rows"]
    assert {row["n"] for row in rows} == {6}
    assert any(row["difference"] != 0 for row in rows)  # there is something to look at


def test_the_example_is_sound(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.good("new", "collection", "mine")
    folder = place.here / "conf" / "collection"
    topics = [json.loads(line) for line in (folder / "mine.topics.jsonl").read_text().splitlines()]
    corpus = (place.here / "conf/corpus/mine.jsonl").read_text().splitlines()
    documents = {json.loads(line)["id"] for line in corpus}
    judged = [line.split() for line in (folder / "mine.qrels").read_text().splitlines()]
    assert {doc for _, _, doc, _ in judged} == documents
    assert {topic for topic, *_ in judged} == {topic["id"] for topic in topics}
    assert all(sum(int(row[3]) >= 2 for row in judged if row[0] == topic["id"]) > 0 for topic in topics)
    said = yaml.safe_load((folder / "mine.yaml").read_text())
    assert said["editions"]["official"]["topics"] == len(topics)
    assert said["editions"]["official"]["judgments"] == len(judged)


def test_a_protocol_names_every_key_with_its_meaning(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.good("new", "protocol", "strict")
    text = (place.here / "conf/protocol/strict.yaml").read_text()
    named = set(re.findall(r"^(\w+): .*# ", text, re.MULTILINE)) | {"title", "measures"}
    assert named == set(Protocol.__dataclass_fields__) - {"ties_deduplicate"}


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(WRITTEN))
def test_nothing_is_overwritten(tmp_path: Path, kind: str) -> None:
    place = Place(tmp_path)
    last = WRITTEN[kind][-1]
    place.write(last, "precious")
    assert lines(place, "new", kind, "mine") == [f"{last}: exists already, and is left as it is; choose another name"]
    assert place.files() == {last: b"precious"}
    (place.here / last).unlink()
    (place.here / last).symlink_to("nowhere")
    assert lines(place, "new", kind, "mine") == [f"{last}: exists already, and is left as it is; choose another name"]
    (place.here / last).unlink()
    place.good("new", kind, "mine")
    assert len(lines(place, "new", kind, "mine")) == len(WRITTEN[kind])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("collection", "mini-task1"), "mini-task1.yaml: a collection of this name exists already"),
        (("collection", "mse-pages"), "mse-pages.yaml: a corpus of this name exists already"),
        (("system", "bm25"), "bm25.yaml: a system of this name exists already"),
        (("system", "json"), "'json': Python has a module json already; choose another name"),
        (("protocol", "trec_eval"), "trec_eval.yaml: a protocol of this name exists already"),
        (("protocol", "a b"), "'a b': expected letters, digits, - and _"),
        (("protocol", "../x"), "'../x': expected letters, digits, - and _"),
        (("protocol", ""), "'': expected letters, digits, - and _"),
        (("protocol", "x" * 61), ": expected letters, digits, - and _, beginning with a letter, at most 60"),
        (("protocol", "null"), "'null': YAML does not read this as text; choose another name"),
        (("collection", "No"), "'No': YAML does not read this as text; choose another name"),
        (("lab", "x"), "No such command 'lab'"),
    ],
)
def test_names_that_cannot_be(tmp_path: Path, arguments: tuple[str, str], said: str) -> None:
    place = Place(tmp_path)
    (line,) = lines(place, "new", *arguments)
    assert said in line
    assert place.files() == {}


@pytest.mark.slow
def test_a_system_whose_name_is_a_word_of_python(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.good("new", "system", "class")
    place.good("run", "collection=mini-task1", "corpus=mini-answers", "system=class", "formats=[csv]")
    assert (place.here / "class_.py").is_file()


@pytest.mark.slow
def test_a_folder_of_configurations_elsewhere(tmp_path: Path) -> None:
    place = Place(tmp_path)
    (place.here / "mine").mkdir()
    environment = {"HARNESS_CONF": "mine"}
    place.good("new", "collection", "own", environment=environment)
    arguments = ("run", "collection=own", "corpus=own", "system=overlap", "formats=[csv]")
    place.good(*arguments, environment=environment)
    assert {name.split("/")[0] for name in place.files()} == {"mine", "runs", "reports"}


@pytest.mark.slow
def test_all_faults_of_a_configuration_come_together(tmp_path: Path) -> None:
    place = Place(tmp_path)
    for kind in WRITTEN:
        place.good("new", kind, "mine")
    for kind, old, new in (
        ("collection", "licence: CC0", "license: CC0"),
        ("collection", "protocol: arqmath-task1", "protocol: arqmath-task7"),
        ("collection", "reader: jsonl", "reader: jsonlines"),
        ("system", "depth: 100", "depth: many"),
        ("system", "title_weight: 2.0", "title_wait: 2.0"),
        ("protocol", "name: mine", "name: yours"),
        ("protocol", "depth: 1000", "depth: 0"),
        ("protocol", "topics: all", "topics: some"),
    ):
        path = place.here / f"conf/{kind}/mine.yaml"
        text = path.read_text()
        assert text.count(old) == 1
        path.write_text(text.replace(old, new))
    run = "runs/none.run"
    collection, protocol = (f"{place.here}/conf/{kind}/mine.yaml" for kind in ("collection", "protocol"))
    found = lines(place, "score", run, "-c", "mine")
    assert {line.removeprefix(f"{collection}: ").split(";")[0] for line in found} == {
        "key 'license' is unknown",
        "key 'licence' is missing",
        "protocol 'arqmath-task7' is unknown",
        "topics: reader 'jsonlines' is unknown",
    }
    found = lines(place, "score", run, "-c", "mini-task1", "--protocol", "mine")
    assert [line.removeprefix(f"{protocol}: ") for line in found] == [
        "key 'name' is 'yours', expected the file's name 'mine'",
        "key 'depth' is 0, expected a whole number from 1, or null for all",
        "key 'topics' is 'some', expected one of all, answered",
    ]
    done = place.run("run", "collection=mini-task1", "corpus=mini-answers", "system=mine")
    assert done.code == 2
    assert [line.partition(": key ")[2] for line in done.err.splitlines()] == [
        "'depth' is 'many', expected a whole number",
        "'title_wait' is unknown to mine.Ranker; did you mean 'title_weight'?",
    ]


def test_missing_files_of_a_collection_come_together(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.good("new", "collection", "mine")
    place.write("x.run", "T.1 Q0 d01 1 2.0 x\n")
    for name in ("mine.qrels", "mine.topics.jsonl"):
        (place.here / "conf/collection" / name).unlink()
    found = lines(place, "score", "x.run", "-c", "mine")
    assert [re.sub(r"^.*/", "", line) for line in found] == [
        "mine.qrels: no such file",
        "mine.topics.jsonl: no such file",
    ]


def test_the_list_of_commands_names_it(tmp_path: Path) -> None:
    place = Place(tmp_path)
    assert "new" in {row[0] for row in table(place.good("--help")) if row}
    assert {row[0] for row in table(place.good("new", "--help")) if row} >= {"collection", "system", "protocol"}


CORPUS = ["One of groups", "Two of rings", "Three of rings and groups"]


def beir(place: Place, **replaced: list[str]) -> None:
    """A small data set in BEIR's form, in the folder `data`, with some of its files replaced."""
    files = {
        "corpus.jsonl": [json.dumps({"_id": f"d{n}", "title": "", "text": text}) for n, text in enumerate(CORPUS, 1)],
        "queries.jsonl": ['{"_id": "q1", "text": "groups"}', '{"_id": "d2", "text": "rings"}'],
        "qrels/test.tsv": ["query-id\tcorpus-id\tscore", "q1\td1\t1", "q1\td3\t2", "d2\td3\t1"],
        "excluded_ids.jsonl": ['{"query-id": "d2", "excluded-ids": ["d2"]}'],
    }
    for name, lines in {**files, **replaced}.items():
        path = place.here / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in lines))


@pytest.mark.slow
def test_from_a_data_set_in_beir_s_form_to_a_scored_run(tmp_path: Path) -> None:
    place = Place(tmp_path)
    beir(place)
    written = place.good("new", "collection", "mine", "--beir", "data").splitlines()
    assert written == [
        "conf/collection/mine.yaml: written",
        "conf/corpus/mine.yaml: written",
        "3 documents, 2 topics, 3 judgments, 1 pair excluded",
        "next: harness run collection=mine corpus=mine system=bm25",
    ]
    place.good("run", "collection=mine", "corpus=mine", "system=overlap", "formats=[json]")
    assert "d2 Q0 d2 " not in (place.here / "runs/mine/overlap.run").read_text()
    (place.here / "hand.run").write_text("q1 Q0 d3 1 2 t\nd2 Q0 d2 1 3 t\nd2 Q0 d3 2 2 t\n")
    scored = json.loads(place.good("score", "hand.run", "-c", "mine", "--json"))["scores"][0]
    assert scored["protocol"]["exclude"] == ["listed"]
    assert (scored["counts"]["results excluded"], scored["counts"]["judgments excluded"]) == (1, 0)
    place_of = scored["measures"].index("RR@10")
    assert [row[place_of] for row in scored["values"]] == [1.0, 1.0]  # with d2 itself, d3 were second
    said = place.good("score", "hand.run", "-c", "mine", "--protocol", "beir", "--measures", "RR@10")
    assert "0.7500" in said


@pytest.mark.slow
def test_a_data_set_with_a_fault_leaves_nothing_behind(tmp_path: Path) -> None:
    place = Place(tmp_path)
    beir(place, **{"qrels/test.tsv": ["query-id\tcorpus-id\tscore", "q1\td9\t1"]})
    told = lines(place, "new", "collection", "mine", "--beir", "data")
    assert told == ["data/qrels/test.tsv: document 'd9' is not in the corpus (1 such documents)"]
    told = lines(place, "new", "collection", "mine", "--beir", "data", "--split", "dev")
    assert told == ["data: qrels: no split 'dev'; there are: test"]
    told = lines(place, "new", "collection", "mine", "--beir", "elsewhere")
    assert told == ["elsewhere: no such folder, and no OWNER/NAME of a data set on the hub"]
    told = lines(place, "new", "collection", "mine", "--split", "dev")
    assert told == ["--revision, --split and --subset: need --beir, which names the data set"]
    assert not (place.here / "conf").exists()


@pytest.mark.heavy
def test_a_package_is_installed_and_passes_its_tests(tmp_path: Path) -> None:
    pytest.importorskip("hatchling", reason="hatchling is not installed: pip install -e '.[test]'")
    place = Place(tmp_path)
    assert place.good("new", "package", "my-ir").endswith("next: pip install -e './my-ir[test]'\n")
    again = place.run("new", "package", "my-ir")
    fault = "harness: my-ir: exists already, and is left as it is; choose another name\n"
    assert (again.code, again.err) == (2, fault)
    site = pip_installed(place.here / "my-ir", tmp_path / "installed")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(place.here / "my-ir" / "tests")]
    settings = {**place.environment, "PYTHONPATH": str(site)}
    done = subprocess.run(command, cwd=tmp_path, env=settings, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr  # among them that its version is in the metadata of its run
    place.environment["PYTHONPATH"] = f"{place.environment.get('PYTHONPATH', '')}:{site}"
    assert place.good("my-ir-words", "my-ir") == "12 documents, 20.1 words each\n"
