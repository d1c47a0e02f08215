"""Forms of judgments, preferences too: all say the same, in one value or one fault."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import math
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import numpy as np
import pandas
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from case_tables import literals
from hypothesis import given
from hypothesis import strategies as st

import harness as h
from harness.cli.score import score
from harness.collections.load import load_collection, local_collection
from harness.collections.readers import beir
from harness.data.trec import Qrels, parse_qrels, read_qrels
from harness.errors import HarnessError
from harness.scoring.scorer import Scorer

RUN = "# two topics\nq1 Q0 d1 1 3 s\nq1 Q0 d3 2 2 s\nq1 Q0 d2 3 1 s\nq2 Q0 d1 1 1 s\n"
ROWS: tuple[tuple[str, str, float], ...] = (
    ("q1", "d1", 1), ("q1", "d2", 2), ("q1", "d3", 0), ("q2", "d1", 1), ("q2", "d9", 0)
)  # fmt: skip
Rows = tuple[tuple[str, str, float], ...]


def trec(rows: Rows, line: str = "{} 0 {} {}") -> bytes:
    return "".join(f"{line.format(*row)}\n" for row in rows).encode()


def table(rows: Rows, *names: str) -> bytes:
    return "\t".join(names).encode() + b"\n" + trec(rows, "{}\t{}\t{}")


def objects(rows: Iterable[tuple[object, ...]], *names: str) -> list[dict[str, object]]:
    return [dict(zip(names, row, strict=True)) for row in rows]


def lines(rows: list[dict[str, object]]) -> bytes:
    return "".join(f"{json.dumps(row)}\n" for row in rows).encode()


def parquet(rows: Rows, *names: str) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(objects(rows, *names)), out)
    return out.getvalue()


def zipped(data: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("__MACOSX/._q", b"x")
        archive.writestr("deep/q.txt", data)
    return out.getvalue()


def tarred(data: bytes) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        member = tarfile.TarInfo("q.txt")
        member.size = len(data)
        archive.addfile(member, io.BytesIO(data))
    return out.getvalue()


NDCG = (2 / (2 + 1 / math.log2(3)) + 1) / 2
BEIR, LIBRARY, PYTERRIER = (
    ("query-id", "corpus-id", "score"),
    ("query_id", "doc_id", "relevance"),
    ("qid", "docno", "label"),
)
FORMS: Mapping[str, Callable[[Rows], bytes]] = {
    "TREC": trec,
    "TREC, any iteration": lambda rows: trec(rows, "{} 7 {} {}"),
    "tabs": lambda rows: trec(rows, "{}\t0\t{}\t{}"),
    "CRLF and a byte order mark": lambda rows: b"\xef\xbb\xbf" + trec(rows).replace(b"\n", b"\r\n"),
    "comments": lambda rows: b"# topic iteration document grade\n" + trec(rows).replace(b"\n", b"\n#\n", 1),
    "a byte order mark and a comment": lambda rows: b"\xef\xbb\xbf# a b c d\n" + trec(rows),
    "a header of four": lambda rows: b"query_id iteration doc_id relevance\n" + trec(rows),
    "decimals": lambda rows: trec(rows, "{} 0 {} {}.0"),
    "exponents": lambda rows: trec(rows, "{} 0 {} {}e0"),
    "three columns": lambda rows: trec(rows, "{}\t{}\t{}"),
    "three columns, blanks": lambda rows: trec(rows, "{} {} {}"),
    "BEIR": lambda rows: table(rows, *BEIR),
    "BEIR, CRLF": lambda rows: b"\xef\xbb\xbf" + table(rows, *BEIR).replace(b"\n", b"\r\n"),
    "another header": lambda rows: table(rows, *PYTERRIER),
    "another order": lambda rows: b"score\tquery-id\tcorpus-id\n" + trec(rows, "{2}\t{0}\t{1}"),
    "JSON lines": lambda rows: lines(objects(rows, *BEIR)),
    "JSON lines, other names": lambda rows: lines(objects(rows, *LIBRARY)).replace(b"\n", b"\r\n\r\n"),
    "JSON lines, grades as text": lambda rows: lines(objects([(*row[:2], str(row[2])) for row in rows], *PYTERRIER)),
    "a JSON list": lambda rows: json.dumps(objects(rows, *LIBRARY), indent=1).encode(),
    "Parquet": lambda rows: parquet(rows, *BEIR),
    "gzip": lambda rows: gzip.compress(table(rows, *BEIR)),
    "xz": lambda rows: lzma.compress(trec(rows)),
    "zip": lambda rows: zipped(trec(rows)),
    "zip of gzip": lambda rows: zipped(gzip.compress(trec(rows))),
    "tar": lambda rows: tarred(trec(rows)),
}  # fmt: skip
COLLECTION = """
name: mine
title: M
licence: CC0
protocol: trec_eval
editions: {all: {title: a, qrels: {file: q.data}}}
topics: {reader: tsv, file: topics.tsv}
"""
Way = Callable[[Path], h.Qrels]


def of_beir(path: Path) -> h.Qrels:
    file = path.with_name("test.tsv")  # its name does not matter
    file.write_bytes(path.read_bytes())
    return beir.qrels(beir.BeirFiles((), (), (file,)), "given")


WAYS: Mapping[str, Way] = {
    "Python": lambda path: h.read_qrels(path, edition="given"),
    "a collection": lambda _: load_collection("mine").qrels(),
    "BEIR": of_beir,
}


@pytest.fixture
def put(
    tmp_path: Path, conf: Callable[[str, str, str], Path], monkeypatch: pytest.MonkeyPatch
) -> Callable[[bytes], Path]:
    """Writes judgments where all ways in find them, and a run."""
    monkeypatch.chdir(tmp_path)
    folder = conf("collection", "mine", COLLECTION).parent
    (folder / "topics.tsv").write_text("q1\tone\nq2\ttwo\n", encoding="utf-8")
    Path("a.run").write_text(RUN, encoding="utf-8")

    def write(data: bytes) -> Path:
        (folder / "q.data").write_bytes(data)
        return folder / "q.data"

    return write


def means(path: Path, capsys: pytest.CaptureFixture[str], measures: str) -> tuple[list[float], list[str]]:
    """What the command prints of a file of judgments: means, and warnings."""
    score(["a.run"], qrels=path, measures=measures, json=True, quiet=True)
    found = json.loads(capsys.readouterr().out)
    (scores,) = found["scores"]
    return [sum(column) / len(column) for column in zip(*scores["values"], strict=True)], found["warnings"]


@pytest.mark.parametrize("form", FORMS)
def test_every_form_by_every_way_is_the_same(
    form: str, put: Callable[[bytes], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    path = put(FORMS[form](ROWS))
    expected = h.Qrels.from_dict("given", {"q1": {"d1": 1, "d2": 2, "d3": 0}, "q2": {"d1": 1, "d9": 0}})
    for read in WAYS.values():
        found = read(path)
        assert found.to_dict() == expected.to_dict()
        assert found.key.tolist() == expected.key.tolist()
    found_means, warnings = means(path, capsys, "nDCG,AP,P@1")
    assert found_means == pytest.approx([NDCG, 11 / 12, 1.0])
    assert warnings == []


@pytest.mark.parametrize("form", [name for name in FORMS if name not in ("decimals", "exponents")])
def test_grades_below_zero_and_real_grades_are_read_alike(form: str, put: Callable[[bytes], Path]) -> None:
    rows: Rows = (("q1", "d1", 0.5), ("q1", "d2", -1.0), ("q2", "d1", 1.5), ("q2", "d3", -2.0))
    path = put(FORMS[form](rows))
    frame = pandas.DataFrame([*rows], columns=["query_id", "doc_id", "relevance"])
    given = [read(path) for read in WAYS.values()] + [h.Qrels.from_frame("e", frame), h.Qrels.from_rows("e", rows)]
    for found in given:
        assert found.frame().to_dict("list") == frame.to_dict("list")
        judged = found.judged().frame()
        assert (judged.doc_id.tolist(), judged.relevance.tolist()) == (["d1", "d1"], [0.5, 1.5])


def test_real_grades_state_their_threshold(put: Callable[[bytes], Path], capsys: pytest.CaptureFixture[str]) -> None:
    path = put(table((("q1", "d1", 0.5), ("q2", "d1", 1)), *BEIR))
    where = "(key relevant_from of protocol trec_eval)"
    said = f"grades are not whole numbers, such as 0.5; relevant from 1 in MAP, P@1 {where}"
    assert means(path, capsys, "nDCG,AP,P@1") == ([1.0, 0.5, 0.5], [said])
    assert means(path, capsys, "nDCG") == ([1.0], [])  # which has no threshold
    evaluation = h.evaluate(h.task("mine", measures=["nDCG", "AP", "P@1"]), "a.run")
    assert evaluation.warnings == (said,)


def test_grades_below_zero_count_as_not_judged(
    put: Callable[[bytes], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """As TREC Web and TREC-COVID have them; the values are those of trec_eval."""
    path = put(trec((("q1", "d1", 1), ("q1", "d2", 2), ("q1", "d3", -2), ("q2", "d1", 1), ("q2", "d9", -2))))
    said = "2 judgments have a grade below 0 and count as not judged, as in trec_eval"
    found, warnings = means(path, capsys, "nDCG,AP,Bpref,Judged@5")
    assert found == pytest.approx([NDCG, 11 / 12, 1.0, (2 / 3 + 1) / 2])
    assert warnings == [said]
    assert h.evaluate(h.task("mine", measures=["AP"]), "a.run").warnings == (said,)


def by_command(path: Path) -> None:
    score(["a.run"], qrels=path)


def test_a_topic_with_grades_below_zero_alone_scores_0() -> None:
    run = h.Run.from_dict("r", {"q1": {"d1": 1.0, "x": 0.5}})
    judged = h.Qrels.from_dict("e", {"q1": {"d1": -2}})
    scores = Scorer(judged, h.load_protocol("trec_eval"), measures=["nDCG", "AP"])(run)
    assert scores.values.tolist() == [[0.0, 0.0]]


LONG = "x" * 256
FAULTS: Mapping[str, tuple[bytes, str]] = {
    "many of one kind": (
        b"q1,0,d1,1\n" * 40,
        ":1: 1 column, expected 4 (topic iteration document grade), separated by blanks or tabs, not commas "
        "(and 39 more: 2, 3, 4, 5, 6, ...)",
    ),
    "an empty archive": (zipped(b""), ": empty file, expected at least one line"),
    **{name: (data, said) for name, data, said in literals("data/judgment_forms_faults")},
}


@pytest.mark.parametrize("kind", FAULTS)
def test_every_fault_by_every_way_is_the_same_line(kind: str, put: Callable[[bytes], Path]) -> None:
    data, said = FAULTS[kind]
    path = put(data)
    for way, read in {**WAYS, "command": by_command}.items():
        with pytest.raises(HarnessError) as raised:
            read(path)
        (line,) = raised.value.lines
        assert line.startswith(f"{path.with_name('test.tsv') if way == 'BEIR' else path}{said}")


def test_ids_that_look_like_another_form_stay_ids() -> None:
    """Values are no files: nothing in them is a comment, a header or JSON."""
    judged = {"{": {'"a"': 1}, "topic": {"document": 1}, "PAR1": {"d#": 1}, "[": {"x": 0}}
    assert h.Qrels.from_dict("e", judged).to_dict() == judged


PREFERENCES = b"q1 g s d1 3\nq1 g s d2 1.5\n\nq2 a 1 d1 0\r\nq2 a 1 d9 2\n"


def test_levels_are_grades(tmp_path: Path) -> None:
    expected = {"q1": {"d1": 3.0, "d2": 1.5}, "q2": {"d1": 0.0, "d9": 2.0}}
    for name, data in (
        ("p.txt", PREFERENCES),
        ("p.txt.gz", gzip.compress(PREFERENCES)),
        ("bom", b"\xef\xbb\xbf" + PREFERENCES),
    ):
        (tmp_path / name).write_bytes(data)
        qrels = read_qrels(tmp_path / name)
        assert qrels.frame().relevance.tolist() == [3.0, 1.5, 0.0, 2.0]
        assert {
            topic: qrels.frame().query("query_id == @topic").set_index("doc_id").relevance.to_dict()
            for topic in expected
        } == expected


def test_runs_are_scored_by_preferences(tmp_path: Path) -> None:
    """As by the same grades in four columns."""
    (tmp_path / "five.txt").write_bytes(PREFERENCES.replace(b"1.5", b"1"))
    (tmp_path / "four.txt").write_bytes(b"q1 0 d1 3\nq1 0 d2 1\nq2 0 d1 0\nq2 0 d9 2\n")
    run = h.Run.from_dict("mine", {"q1": {"d2": 2.0, "d1": 1.0}, "q2": {"d1": 2.0, "d9": 1.0}})
    five, four = (
        h.evaluate(h.task(local_collection(tmp_path / f"{name}.txt"), measures=["nDCG", "AP"]), run).scores[0]
        for name in ("five", "four")
    )
    np.testing.assert_array_equal(five.values, four.values)


SAMPLED = "5 columns like judgments that were sampled (topic document grade method probability)"


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"q1 g s d1 3\nq1 g s d1 2\n", ":2: document 'd1' of topic 'q1' is judged on line 1 already"),
        (
            b"q1 g s d1 3\nq1 g t d2 2\nq1 h s d3 1\n",
            ":2: topic 'q1' has preferences of the groups 'g s' (line 1) and 'g t'",
        ),
        (b"q1 g s d1 high\nq1 g s d2 1\n", ":1: level 'high' is not a finite number"),
        (b"q1 g s d1 -1\nq1 g s d2 1\n", ":1: level -1 is not between 0 and 9,007,199,254,740,992"),
        (b"q1 g s d1 1\nq1 g s d2 1\nq1 0 d3 1\n", ":3: 4 columns, expected 5 (topic group subgroup document level)"),
        (b"q1 g s " + b"d" * 256 + b" 1\n", ":1: document id of 256 bytes, at most 255"),
        (b"1 GX01 1 1 0.25\n1 GX02 0 2 1.0\n", f":1: {SAMPLED}"),
    ],
)
def test_what_is_refused(data: bytes, says: str) -> None:
    with pytest.raises(HarnessError) as caught:
        parse_qrels(data, "q.txt", edition="e")
    (line,) = caught.value.lines
    assert line.startswith(f"q.txt{says}")


def test_documents_that_are_numbers_are_no_methods() -> None:
    qrels = parse_qrels(b"1 2 3 1 1\n1 2 3 2 2\n", "q.txt", edition="e")
    assert qrels.to_dict() == {"1": {"1": 1, "2": 2}}


IDS = st.text("abcé0", min_size=1, max_size=4)


@given(st.dictionaries(IDS, st.dictionaries(IDS, st.integers(0, 9), min_size=1), min_size=1))
def test_any_preferences_are_read(levels: dict[str, dict[str, int]]) -> None:
    lines = [f"{topic} g s {doc} {level}" for topic, docs in levels.items() for doc, level in docs.items()]
    found = parse_qrels("\n".join(lines).encode(), "q.txt", edition="e")
    assert found.to_dict() == levels
    assert isinstance(found, Qrels)
