"""A collection that was built, loaded, run and scored; data in its form that is damaged."""

from __future__ import annotations

import json
import math
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from case_tables import literals
from refusals import refusal, refuses

import harness as h
from harness.collections import files
from harness.collections.corpora import load_corpus
from harness.collections.load import load_collection
from harness.data.run_writers import write_qrels
from harness.data.trec import Qrels, Run, read_qrels
from harness.io import config
from harness.papers.paper import load_paper
from harness.papers.saber import readers as saber
from harness.papers.saber.collection import write_collection
from harness.papers.saber.databank import MathProblem
from harness.papers.saber.judges import Oracle
from harness.papers.saber.rate import Ratings, rate
from harness.papers.saber.select import Candidate, Target
from harness.papers.saber.swiss import tournament
from harness.reports.sections import domain_section
from harness.scoring.protocol import Protocol, load_protocol
from harness.scoring.scorer import Scorer
from harness.scoring.scores import scores_from_json, scores_to_json
from harness.systems.build import build_system
from harness.systems.dense.bi_encoder import BiEncoder

DOMAINS = {"t1": ("Algebra", "Geometry"), "t2": ("Geometry",), "t3": ("Algebra",)}


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Ratings]:
    """The collection `built` of three targets with six candidates each; its ratings by target."""
    names = [f"d{n}" for n in range(8)]
    problems = {name: MathProblem(name, f"Find $x_{name[1:]}$, {name}.", f"By {name}.") for name in (*names, *DOMAINS)}
    targets, rated = [], []
    for place, (name, domains) in enumerate(DOMAINS.items()):
        of = names[place : place + 6]
        signals = ("topic", "summary", "both")
        candidates = tuple(Candidate(each, signals[n % 3]) for n, each in enumerate(of))  # type: ignore[arg-type]
        targets.append(Target(name, domains[0], candidates, domains))
        truth = {name: {each: float((n * 5 + place) % 7) for n, each in enumerate(of)}}
        rated.append(rate(tournament(name, of, Oracle(truth), 3)))
    write_collection(tmp_path / "made", "built", problems, targets, rated, title="Built here", licence="CC0")
    monkeypatch.setenv("HARNESS_CONF", str(tmp_path / "made" / "conf"))
    return {each.target: each for each in rated}


def test_exact_ratings_are_kept_and_rounded_ones_stand_beside(built: dict[str, Ratings], tmp_path: Path) -> None:
    qrels = load_collection("built").qrels()
    exact = {name: each.by_candidate() for name, each in built.items()}
    found: dict[str, dict[str, float]] = {}
    for row in qrels.frame().itertuples():
        found.setdefault(row.query_id, {})[row.doc_id] = row.relevance
    assert found == exact
    assert any(grade != int(grade) for grade in qrels.grade.tolist())
    refuses("TREC files hold whole numbers; --round rounds them", lambda: write_qrels(qrels, tmp_path / "qrels.txt"))
    write_qrels(qrels, tmp_path / "qrels.txt", rounded=True)
    rounded = read_qrels(tmp_path / "qrels.txt").to_dict()
    assert rounded == {t: {d: math.floor(r + 0.5) for d, r in docs.items()} for t, docs in exact.items()}


def test_the_three_tasks(built: dict[str, Ratings]) -> None:
    statements, full = ({t.id: t for t in load_collection(name).topics()} for name in ("built", "built-full"))
    assert statements["t1"].body == "Find $x_1$, t1."
    assert full["t1"].body == "Problem: Find $x_1$, t1.\n\nSolution: By t1."
    assert statements["t1"].values("domain") == ("Algebra", "Geometry")
    assert [formula.latex for formula in statements["t1"].formulas] == ["x_1"]
    bodies = {document.id: document.body for document in load_corpus("built")}
    assert bodies["d3"] == "Problem: Find $x_3$, d3.\n\nSolution: By d3."
    assert {d.id: d.body for d in load_corpus("built-statements")}["d3"] == "Find $x_3$, d3."
    assert "t1" not in bodies


def test_systems_re_rank_the_candidates_and_are_scored(built: dict[str, Ratings], tmp_path: Path) -> None:
    task = h.task("built", "built")
    assert task.coverage
    assert task.coverage.complete
    system = h.load_system("rerank-pool", system="bm25")
    run = h.produce(system, task, runs=tmp_path / "runs", rerank=True)
    assert {t: set(docs) for t, docs in run.to_dict().items()} == {t: set(r.by_candidate()) for t, r in built.items()}
    evaluation = h.evaluate(task, run)
    value = evaluation.scores[0].mean("nDCG@10")
    for target, docs in run.to_dict().items():  # by hand
        ratings = built[target].by_candidate()
        order = sorted(docs, key=lambda doc: (np.float32(docs[doc]), doc), reverse=True)
        gains = [2 ** ratings[doc] - 1 for doc in order]
        dcg, ideal = (
            sum(gain / math.log2(rank + 2) for rank, gain in enumerate(some)) for some in (gains, sorted(gains)[::-1])
        )
        topic = evaluation.scores[0].topics.index(target)
        assert evaluation.scores[0].column("nDCG@10")[topic] == pytest.approx(dcg / ideal)
    linear = h.evaluate(h.task("built", "built", protocol="saber-linear"), run).scores[0].mean("nDCG@10")
    assert linear != pytest.approx(value)


def test_domains_overlap_and_have_intervals(built: dict[str, Ratings], tmp_path: Path) -> None:
    task = h.task("built", "built")
    run = h.produce(h.load_system("rerank-pool", system="bm25"), task, runs=tmp_path / "runs", rerank=True)
    evaluation = h.evaluate(task, run)
    section = domain_section(evaluation)
    assert section is not None
    (table,) = section.blocks
    groups = [column.group for column in table.columns]  # type: ignore[union-attr]
    assert groups[1::2] == ["overall (n = 3)", "Algebra (n = 2)", "Geometry (n = 2)"]
    row = table.rows[0]  # type: ignore[union-attr]
    values = evaluation.scores[0].column("nDCG@10")
    assert row[1].value == pytest.approx(values.mean())
    assert row[3].value == pytest.approx(values[[0, 2]].mean())
    for number, interval in ((row[n].value, row[n + 1].values) for n in (1, 3, 5)):
        assert isinstance(number, float)
        assert interval[0] <= number <= interval[1]
    shown = {each.title: each.blocks for each in h.report(evaluation).sections}
    assert shown["Domains"] == section.blocks
    assert "Groups of topics" not in shown


def test_other_documents_are_refused_with_their_line(built: dict[str, Ratings], tmp_path: Path) -> None:
    path = tmp_path / "mine.run"
    path.write_text("t1 Q0 d0 1 3.0 mine\n\nt1 Q0 d1 2 2.0 mine\nt1 Q0 d7 3 1.0 mine\nt2 Q0 d0 1 1.0 mine\n")
    said = refusal(lambda: h.evaluate(h.task("built"), path))
    assert said == f"{path}:4: document 'd7' is not a candidate of topic 't1' (2 such results)"
    said = refusal(lambda: h.evaluate(h.task("built"), Run.from_dict("mine", {"t3": {"zz": 1.0}})))
    assert said == "run mine:1: document 'zz' is not a candidate of topic 't3' (1 such result)"


def test_a_corpus_that_lacks_candidates_does_not_make_them_strange(built: dict[str, Ratings], tmp_path: Path) -> None:
    documents = tmp_path / "made" / "documents.jsonl"
    lines = documents.read_text().splitlines(keepends=True)
    documents.write_text("".join(line for line in lines if json.loads(line)["id"] != "d1"))
    task = h.task("built", "built")
    assert task.coverage is not None
    assert not task.coverage.complete
    assert h.evaluate(task, Run.from_dict("mine", {"t1": {"d1": 2.0, "d2": 1.0}})).scores[0].n("nDCG@10") == 3


# ---- damaged data

GOOD: dict[str, object] = {"id": "q", "problem": "P", "solution": "S", "domains": ["A"]}
GOOD |= {"candidates": ["a", "b"], "relevance_scores": [1, 2.5]}


@pytest.mark.parametrize(("change", "said"), literals("papers/saber_queries"))
def test_a_line_that_is_no_query(change: dict[str, object], said: str) -> None:
    data = (json.dumps(GOOD) + "\n\n" + json.dumps({**GOOD, "id": "r", **change}) + "\n").encode()
    assert refusal(lambda: list(saber.queries(data, "queries.jsonl"))) == f"queries.jsonl:3: {said}"


def test_a_line_that_is_no_json() -> None:
    for line in ("[1]", "{", '{"id": "q", "problem": "P", "candidates": ["a"], "relevance_scores": [NaN]}'):
        refuses(r"^queries.jsonl:1: ", lambda: list(saber.queries(line.encode(), "queries.jsonl")))  # noqa: B023


def test_lines_without_ids_are_numbered(tmp_path: Path) -> None:
    """The authors' data sets name their columns, and an id is not among them."""
    row = {key: value for key, value in GOOD.items() if key != "id"} | {"candidates": [1, 0]}
    data = (json.dumps(row) + "\n").encode()
    ((line, query),) = saber.queries(data, "queries.jsonl")
    assert (line, query.id, query.ratings) == (1, "0", {"1": 1.0, "0": 2.5})
    path = tmp_path / "documents.jsonl"
    path.write_text('{"problem": "P", "solution": "S"}\n\n{"problem": "Q", "solution": ""}\n')
    saber.check(path)
    path.write_text('{"problem": "P", "solution": "S"}\n{"solution": "S"}\n')
    refuses(r"documents.jsonl:2: key 'problem' is missing, empty or no text", lambda: saber.check(path))
    path.write_text("")
    refuses(r"documents.jsonl: holds no documents", lambda: saber.check(path))


def test_files_by_hand_are_what_their_names_say(tmp_path: Path) -> None:
    query, document = json.dumps(GOOD), json.dumps({"id": "a", "problem": "P"})
    solved = json.dumps({"id": "b", "problem": "P", "solution": "S"})
    lacks = json.dumps({key: value for key, value in GOOD.items() if key != "id"})
    bare = json.dumps({key: value for key, value in GOOD.items() if key != "candidates"})
    for name, text, said in (
        ("queries.jsonl", document, "1: 'candidates' and 'relevance_scores' must be lists of one length"),
        ("queries.jsonl", f"{bare}\n{query}", "1: 'candidates' and 'relevance_scores' must be lists of one length"),
        ("queries.jsonl", f"{query}\n{lacks}", "2: lacks the key 'id', unlike the lines before it"),
        ("documents.jsonl", f"{solved}\n{document}", "2: lacks the key 'solution', unlike the lines before it"),
        ("queries.jsonl", f"{query}\n{query}", "2: query 'q' is on line 1 already"),
        ("queries.jsonl", "", " holds no queries"),
        ("documents.jsonl", query, "1: is a query, expected a document"),
        ("documents.jsonl", f"{document}\n\n{document}", "3: document 'a' is on line 1 already"),
        ("documents.jsonl", f'{{"problem": "P"}}\n{document}', "2: has the key 'id', unlike the lines before it"),
    ):
        path = tmp_path / name
        path.write_text(f"{text}\n")
        assert refusal(partial(saber.check, path)) == f"{path}:{said}"
    for name, text in (("queries.jsonl", query), ("documents.jsonl", document), ("other.jsonl", query)):
        (tmp_path / name).write_bytes(b"\xef\xbb\xbf" + text.encode() + b"\r\n")
        saber.check(tmp_path / name)


# ---- the published collection


def test_the_published_collection_needs_its_data_sets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path))
    monkeypatch.delenv("HARNESS_MIRROR", raising=False)
    monkeypatch.setenv("HARNESS_OFFLINE", "1")
    for name in ("saber-math", "saber-math-full"):
        assert load_collection(name).state() == "needs the data set sabermath/SaberMath-queries (hub)"
    for name in ("saber-math", "saber-math-statements"):
        assert load_corpus(name).state() == "needs the data set sabermath/SaberMath-documents (hub)"
    said = r"data set sabermath/SaberMath-queries \(hub\): HARNESS_OFFLINE forbids the network; or"
    refuses(said, load_collection("saber-math").qrels)


def test_files_that_a_person_brings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "queries.jsonl"
    path.write_text(json.dumps({**GOOD, "relevance_scores": [1]}))
    said = r"queries.jsonl:1: 'candidates' and 'relevance_scores' must be lists"
    refuses(said, lambda: files.accept(path, "saber-math-data"))
    path.write_text(json.dumps(GOOD))
    assert files.accept(path, "saber-math-data").read_text() == json.dumps(GOOD)
    refuses(r"1 topic and 2 judgments; .* says 1000 and 150000", load_collection("saber-math").qrels)


def test_the_protocol_in_words() -> None:
    protocol = load_protocol("saber")
    assert "Gains of nDCG are the grades." in load_protocol("saber-linear").in_words()
    assert protocol.gains == "exponential"
    words = protocol.in_words()
    assert "Gains of nDCG: 2^grade - 1." in words
    assert words[0] == "Runs rank fixed candidates: a result that is not judged for its topic is refused."


def test_gains_that_are_no_gains() -> None:
    for keys, said in (
        ({"gains": "exponental"}, "key 'gains' is 'exponental'; did you mean 'exponential'?"),
        (
            {"candidates": "judged", "deduplicate": True},
            "keys 'candidates: judged' and 'deduplicate: true' exclude each other",
        ),
    ):
        config = {"name": "p", "measures": ["nDCG"], **keys}
        assert said in refusal(partial(Protocol.from_config, config, "p.yaml"))
    judged = Qrels.from_dict("e", {"t": {"a": 54}})
    said = r"protocol p: grade 54 is above 53 for gains of 2\^grade"
    refuses(said, lambda: Scorer(judged, Protocol("p", ("nDCG",), gains="exponential")))


def test_scores_of_the_protocol_read_back(built: dict[str, Ratings]) -> None:
    scores = h.evaluate(h.task("built"), Run.from_dict("mine", {"t1": {"d2": 1.0}})).scores[0]
    plain = json.loads(json.dumps(scores_to_json(scores)))
    assert scores_from_json(plain).protocol == load_protocol("saber")
    schema = json.loads((Path(h.__file__).parent / "data/schemas/scores.json").read_text())
    pytest.importorskip("jsonschema").validate(plain, schema)


PUBLISHED = [name for name in config.names("system") if name.startswith("saber-")]


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_published_models_read_texts_as_the_authors_scripts_do(name: str) -> None:
    """`scripts/models.txt` and the processors of nygeorgiev/sabermath at 9f015a7."""
    system = build_system(config.load("system", name)[0], name).system
    assert isinstance(system, BiEncoder)
    assert system.normalise is True  # cosines, also of models that do not normalise
    if "gemini" not in name and "text-embedding-3" not in name:
        assert system.prefixes == {}  # neither ours nor the prompts of the model's own files
    whole = name in ("saber-bert", "saber-roberta", "saber-multilingual-e5-large")
    assert (system.windows, system.length) == (whole, 512 if whole else None)
    assert system.precision == ("bfloat16" if "jina" in name else "float32")


def test_there_are_as_many_published_models_as_cells() -> None:
    assert len(PUBLISHED) == sum(cell.table == "main results" for cell in load_paper("saber-math").cells) == 21
