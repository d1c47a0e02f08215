"""Generated posts, declarations and problems are read by the readers of the real files; the seed decides them."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import pytest

from harness.collections.corpus import Corpus
from harness.collections.load import load_collection
from harness.collections.readers import arqmath
from harness.errors import HarnessError
from harness.papers.mathlib4 import readers as leansearch
from harness.papers.saber import readers as saber
from harness.rehearsal import data
from harness.rehearsal.data import JudgedAnswer
from harness.rehearsal.world import scale_of


def test_judged_answers_are_shared_out_over_the_topics_best_ones_first() -> None:
    qrels = {"T1": {str(n): float(n % 4) for n in range(20)}, "T2": {str(100 + n): 0.0 for n in range(3)}}
    found = data.judged(qrels, 8, seed=1)
    assert [each.answer for each in found] == sorted(each.answer for each in found)
    assert Counter(each.topic for each in found) == {"T1": 5, "T2": 3}
    assert sorted(each.grade for each in found if each.topic == "T1")[-2:] == [3, 3]
    assert data.judged(qrels, 8, seed=1) == found
    assert len(data.judged(qrels, 1000, seed=1)) == 23


def test_an_answer_judged_for_two_topics_is_written_once() -> None:
    assert data.judged({"T1": {"7": 1.0}, "T2": {"7": 3.0}}, 10, seed=1) == [JudgedAnswer(7, "T1", 1)]


@pytest.mark.slow
@pytest.mark.real
@pytest.mark.usefixtures("mirror")
def test_posts_are_read_as_the_organisers_file_is(tmp_path: Path) -> None:
    path = data.write_posts(tmp_path / "Posts.V1.3.xml", 600, seed=3)
    arqmath.check_arqmath_file(path)
    rows = [row.attrib for row in ElementTree.parse(path).getroot()]  # noqa: S314  (written above)
    assert len(rows) == len({row["Id"] for row in rows}) == 600
    questions = {row["Id"] for row in rows if row["PostTypeId"] == "1"}
    assert {row["ParentId"] for row in rows if row["PostTypeId"] == "2"} <= questions
    assert {row["AcceptedAnswerId"] for row in rows if "AcceptedAnswerId" in row} <= {row["Id"] for row in rows}
    assert sum(int(row["Score"]) >= 50 for row in rows) > 10  # which MIRMU's training asks for
    documents = list(Corpus("posts", "", "", path, keep=arqmath.COLUMNS, reader=arqmath.POSTS))
    judged = load_collection("arqmath-3-task1").qrels().to_dict()
    known = {doc for docs in judged.values() for doc in docs}
    assert sum(document.id in known for document in documents) >= 40
    assert any(document.formulas and all(formula.latex for formula in document.formulas) for document in documents)
    ids = [formula.id for document in documents for formula in document.formulas if formula.id]
    assert ids
    other = data.write_posts(tmp_path / "other.xml", 600, seed=4)
    again = data.write_posts(tmp_path / "again.xml", 600, seed=3)
    assert again.read_bytes() == path.read_bytes() != other.read_bytes()


def test_declarations_and_benchmark_have_the_form_of_the_paper(tmp_path: Path) -> None:
    declared, asked = data.write_theorems(tmp_path, 400, seed=1)
    leansearch.check(asked)
    rows = [json.loads(line) for line in gzip.decompress(declared.read_bytes()).decode().splitlines()]
    names = {row["name"] for row in rows}
    assert len(names) == len(rows) == 400
    groups = json.loads(asked.read_text(encoding="utf-8"))
    assert {name for group in groups for name in group["theorems"]} <= names
    assert sum(row["kind"] in ("theorem", "lemma") for row in rows) > 200
    assert data.write_theorems(tmp_path / "again", 400, seed=1)[0].read_bytes() == declared.read_bytes()
    for field in ("group", "queries", "theorems", "form", "query"):
        damaged = json.loads(asked.read_text(encoding="utf-8"))
        del (damaged[2] if field in damaged[2] else damaged[2]["queries"][0])[field]
        path = tmp_path / "damaged.json"
        path.write_text(json.dumps(damaged), encoding="utf-8")
        with pytest.raises(HarnessError, match=rf"^{re.escape(str(path))}:\d+: .*expected .*{field}|keys .*{field}"):
            leansearch.check(path)


@pytest.mark.slow
def test_problems_have_150_rated_candidates(tmp_path: Path) -> None:
    written = data.write_problems(tmp_path, 10, seed=1)  # fewer than a query has candidates
    for path in written:
        saber.check(path)
        lines = path.read_text(encoding="utf-8").splitlines()
        for field in json.loads(lines[4]):
            row = {key: value for key, value in json.loads(lines[4]).items() if key != field}
            damaged = tmp_path / "damaged" / path.name
            damaged.parent.mkdir(exist_ok=True)
            damaged.write_text("\n".join([*lines[:4], json.dumps(row), *lines[5:]]), encoding="utf-8")
            with pytest.raises(HarnessError, match=rf"^{re.escape(str(damaged))}:5: .*'{field}'"):
                saber.check(damaged)
    rows = [json.loads(line) for line in written[0].read_text().splitlines()]
    assert {len(row["candidates"]) for row in rows} == {data.CANDIDATES}
    assert all(0 <= rating <= 5 for row in rows for rating in row["relevance_scores"])


@pytest.mark.parametrize(("name", "count"), [("tiny", 2000), ("1/100", 24_000), ("1", 2_400_000)])
def test_scales(name: str, count: int) -> None:
    assert scale_of(name).posts == count


@pytest.mark.parametrize("name", ["small", "2", "0", "1/0", "1/100 ", "-1"])
def test_other_scales_are_refused(name: str) -> None:
    with pytest.raises(HarnessError, match="expected tiny, or a fraction"):
        scale_of(name)
