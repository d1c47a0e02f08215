from __future__ import annotations

import gzip
import hashlib
import lzma
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from case_tables import literals
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis_tools import examples
from trec_tools import lines, message, same

from harness.data.layouts import FORMATS
from harness.data.trec import Qrels, Run, parse_qrels, parse_run, read_qrels, read_run
from harness.errors import HarnessError

TWO = b"1 Q0 a 1 2.0 t\n1 Q0 b 2 1.0 t\n"
JUDGED = b"1 0 a 1\n1 0 b 0\n"
TREC = "(topic Q0 document rank score tag)"
RULE = "1 to 255 bytes without control characters or line breaks, and without a blank at either end"
KNOWN = "known: arqmath-task1, arqmath-task2, trec"


@pytest.fixture
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


pytestmark = pytest.mark.usefixtures("_folder")


# Reading.

ROWS = [("topic-A.2", "p1", 1, "2.5", "7"), ("topic-A.2", "p2", 2, "2.5", "8"), ("topic-A.10", "p1", 1, "-1e-3", "7")]
LAYOUT = {
    "trec": "{0} Q0 {1} {2} {3} sys",
    "trec, 0": "{0} 0 {1} {2} {3} sys",
    "trec, _": "{0} _ {1} {2} {3} sys",
    "arqmath-task1": "{0} {1} {2} {3} sys",
    "arqmath-task2": "{0} {1} {4} {2} {3} sys",
}
SHAPE: dict[str, Callable[[bytes], bytes]] = {
    "plain": lambda data: data,
    "tabs": lambda data: data.replace(b" ", b"\t"),
    "tabs and blanks": lambda data: b"  " + data.replace(b" ", b" \t", 3).replace(b"\n", b" \t\n"),
    "CRLF": lambda data: data.replace(b"\n", b"\r\n"),
    "byte order mark": lambda data: b"\xef\xbb\xbf" + data,
    "blank lines": lambda data: b"\n" * 20_000 + data.replace(b"\n", b"\n \n"),
    "no last end": lambda data: data.removesuffix(b"\n"),
    "gzip": gzip.compress,
    "gzip in parts": lambda data: gzip.compress(data[:9]) + gzip.compress(data[9:]),
    "xz": lzma.compress,
    "all": lambda data: gzip.compress(b"\xef\xbb\xbf" + data.replace(b" ", b"\t").replace(b"\n", b"\r\n")),
}


@pytest.mark.parametrize("shape", SHAPE.values(), ids=SHAPE.keys())
@pytest.mark.parametrize("layout", LAYOUT)
def test_runs_of_every_layout_and_shape_are_read_alike(layout: str, shape: Callable[[bytes], bytes]) -> None:
    data = "".join(LAYOUT[layout].format(*row) + "\n" for row in ROWS).encode()
    Path("run.txt").write_bytes(shape(data))
    run = read_run("run.txt")
    posts = ["7", "8", "7"] if layout == "arqmath-task2" else [None] * 3
    one, two = "topic-A.2", "topic-A.10"
    assert lines(run) == [(one, "p1", 2.5, posts[0]), (one, "p2", 2.5, posts[1]), (two, "p1", -0.001, posts[2])]
    assert (run.name, run.topics, run.warnings, len(run)) == ("sys", (one, two), (), 3)
    assert [run.topic.dtype.str, run.score.dtype.str, run.doc.dtype.kind] == ["<i4", "<f8", "S"]
    assert same(read_run(Path("run.txt"), format=layout.partition(",")[0]), run)


@pytest.mark.parametrize(
    ("data", "layout"),
    [
        (b"1 Q0 a 1 2 t\n1 0 b 2 1 t\n1 _ c 3 0 t\n", "trec"),
        (b"1 0 1 2 t\n1 7 2 1 t\n", "arqmath-task1"),  # one post is called 0
        (b"1 f1 7 1 2 t\n1 f2 7 2 1 t\n", "arqmath-task2"),
        (b"1 Q0 a 1 2 t\n" * 9 + b"1 b 2 1 t\n" * 8, "trec"),  # what most lines have
        (b"1 Q0 a 1 2 t\n" * 8 + b"1 b 2 1 t\n" * 9, "arqmath-task1"),
    ],
)
def test_the_layout_is_told_by_the_columns(data: bytes, layout: str) -> None:
    found: Any = _outcome(lambda: parse_run(data, "run"))
    assert found == _outcome(lambda: parse_run(data, "run", format=layout))
    assert all(found != _outcome(partial(parse_run, data, "run", format=name)) for name in FORMATS if name != layout)


def _outcome(call: Callable[[], Run]) -> object:
    try:
        return lines(call())
    except HarnessError as error:
        return str(error)


@pytest.mark.parametrize(
    ("data", "asked", "doc"),
    [
        (b"1 f1 7 1 2.0 t\n1 f1 8 2 1.0 t\n".replace(b"f1 8", b"0 8"), "arqmath-task2", "f1"),  # a formula called 0
        (b"1 f1 7 1 2.0 t\n", "arqmath-task2", "f1"),
        (b"1 0 1 2.0 t\n", "arqmath-task1", "0"),
    ],
)
def test_what_is_ambiguous_is_read_when_the_format_is_given(data: bytes, asked: str, doc: str) -> None:
    assert message(lambda: parse_run(data, "run"))
    assert parse_run(data, "run", format=asked).doc[0] == doc.encode()


def test_a_run_keeps_the_order_of_its_file_and_its_checksum() -> None:
    data = b"2 Q0 b 2 1 t\n1 Q0 a 1 5 t\n2 Q0 a 1 3 t\n1 Q0 b 2 4 t\n"
    run = parse_run(data, "run")
    assert lines(run) == [("2", "b", 1, None), ("1", "a", 5, None), ("2", "a", 3, None), ("1", "b", 4, None)]
    assert (run.topics, run.topic.tolist()) == (("2", "1"), [0, 1, 0, 1])
    assert run.sha256 == hashlib.sha256(data).hexdigest()
    assert read_qrels_of(JUDGED).sha256 == hashlib.sha256(JUDGED).hexdigest()


def read_qrels_of(data: bytes) -> Qrels:
    Path("qrels.txt").write_bytes(data)
    return read_qrels("qrels.txt", edition="official")


def test_judgments_are_read() -> None:
    qrels = read_qrels_of(lzma.compress(b"\xef\xbb\xbf2\t0 a 2.0\r\n\r\n1 7 b  0\r\n2 0 \xc3\xa9 1e0"))
    assert (qrels.edition, qrels.topics, qrels.topic.tolist(), len(qrels)) == ("official", ("2", "1"), [0, 1, 0], 3)
    assert qrels.doc.tolist() == [b"a", b"b", "é".encode()]
    assert qrels.grade.tolist() == [2.0, 0.0, 1.0]
    assert qrels.to_dict() == {"2": {"a": 2, "é": 1}, "1": {"b": 0}}


# Faults: kind -> (file, messages). Every message is one line, after `run.txt` or `qrels.txt`.

ID = "x" * 256
BAD_RUNS: dict[str, tuple[bytes, list[str]]] = {
    "long topic id": (TWO + f"{'ž' * 128} Q0 c 3 0.5 t\n".encode(), [":3: topic id of 256 bytes, at most 255"]),
    "a zero byte far away": (
        b"".join(b"%d Q0 a 1 2.0 t\n" % i for i in range(40_000)) + b"1 Q0 \x01 1 2.0 t\n",
        [":40001: binary file: byte 0x01, expected a text table"],
    ),
    "problems of two kinds, many of each": (
        TWO + b"".join(b"1 Q0 c%d y x t\n" % i for i in range(70)),
        [
            f":3: {what} is not {kind} (and 69 more: 4, 5, 6, 7, 8, ...)"
            for what, kind in (("score 'x'", "a finite number"), ("rank 'y'", "a whole number of 1 to 8 digits"))
        ],
    ),
    **{name: (data, said) for name, data, said in literals("data/trec_bad_runs")},
}


@pytest.mark.parametrize(("data", "expected"), BAD_RUNS.values(), ids=BAD_RUNS.keys())
def test_what_is_wrong_with_a_run(data: bytes, expected: list[str]) -> None:
    Path("run.txt").write_bytes(data)
    assert message(lambda: read_run("run.txt")).split("\n") == [f"run.txt{problem}" for problem in expected]


@pytest.mark.parametrize(("name", "data", "expected"), literals("data/trec_bad_judgments"))
def test_what_is_wrong_with_judgments(name: str, data: bytes, expected: list[str]) -> None:
    assert message(lambda: read_qrels_of(data)).split("\n") == [f"qrels.txt{problem}" for problem in expected]


def test_files_that_cannot_be_read() -> None:
    Path("folder").mkdir()
    packed = "folder: is a folder without run.txt or run.txt.gz, expected a file, or a folder of TIRA"
    assert message(partial(read_run, "folder")) == packed
    assert message(partial(read_qrels, "folder")) == "folder: is a folder, expected a file"
    for read in (read_run, read_qrels):
        assert message(partial(read, "absent.txt")) == "absent.txt: no such file"


def test_options_that_are_refused() -> None:
    assert message(lambda: parse_run(TWO, "run", format="task1")) == f"--format task1: no such format; {KNOWN}"
    near = "no such format; did you mean 'arqmath-task2'?"
    assert message(lambda: parse_run(TWO, "run", format="arqmath-task-2")) == f"--format arqmath-task-2: {near}"
    for name, shown in {"": "''", " a": "' a'", "a\nb": r"'a\nb'", "a\0": r"'a\x00'"}.items():
        wanted = f"run: run name {shown} is not a name: expected {RULE}"
        assert message(partial(parse_run, TWO, "run", name=name)) == wanted
    one, said = b"1 it a 1 2.0 t", "run:1: 6 columns, expected 5 (topic post rank score tag)"
    assert message(lambda: parse_run(one, "run", format="arqmath-task1")) == said
    assert parse_run(one, "run", format="trec").to_dict() == {"1": {"a": 2.0}}  # who says so may have any column 2


def test_a_name_stands_for_the_tag() -> None:
    run = parse_run(TWO.replace(b" t\n", b" ../t\n"), "run", name="mine")
    assert (run.name, len(run)) == ("mine", 2)


def test_topics_that_the_collection_does_not_have() -> None:
    data = TWO + b"9 Q0 a 1 2.0 t\n2 Q0 a 1 x t\n9 Q0 b 2 1.0 t\n"
    unknown = "topic '9' is not among the collection's topics (2 lines)"
    found = message(lambda: parse_run(data, "run", known_topics={"1", "2"}))
    assert found == f"run:3: {unknown}\nrun:4: score 'x' is not a finite number"
    assert len(parse_run(TWO, "run", known_topics=["1", "7"])) == 2


def test_a_run_of_another_collection_is_one_fault() -> None:
    found = message(lambda: parse_run(TWO + b"2 Q0 a 1 2.0 t\n", "run", known_topics=["A.1", "A.2"]))
    which = "none of its 2 topics, such as '1', is among the collection's"
    assert found == f"run: {which}; is it a run of another collection?"


def test_duplicates_and_line_numbers_across_blocks() -> None:
    """The lines of a large file are numbered through, and duplicates far apart are found."""
    rows = [f"{i % 500} Q0 document-{i} {i // 500} {1 / (1 + i)!r} tag" for i in range(40_000)]
    rows[39_999] = rows[7]
    rows[20_000] = rows[20_000].replace("document-20000", "document-19500")
    rows[30_000] += " x"
    rows[11] += "\n"  # a blank line
    data = ("\r\n".join(rows)).encode()
    assert len(data) > 3 << 19
    assert message(lambda: parse_run(data, "run")).split("\n") == [
        "run:20002: document 'document-19500' of topic '0' is on line 19502 already",
        f"run:30002: 7 columns, expected 6 {TREC}",
        "run:40001: document 'document-7' of topic '7' is on line 8 already",
    ]


@pytest.mark.parametrize(
    ("data", "line", "reason"),
    [
        (b"1 Q0 a 1 1.0 t\n1 Q0 b 2 2.0 t\n", 2, "rank 2 of topic '1'"),
        (b"1 Q0 b 3 2.0 t\n1 Q0 a 1 1.0 t\n1 Q0 c 2 0.5 t\n", 1, "rank 3 of topic '1'"),
        (b"1 Q0 a 1 3.0 t\n2 Q0 a 5 1.0 t\n1 Q0 b 2 1.0 t\n2 Q0 b 6 1.5 t\n", 4, "rank 6 of topic '2'"),
    ],
)
def test_ranks_that_disagree_with_the_scores_are_a_warning(data: bytes, line: int, reason: str) -> None:
    (warning,) = parse_run(data, "run").warnings
    said = f"{reason} has a higher score than the rank before it; scores decide the order (1 such line)"
    assert str(warning) == f"run:{line}: {said}"


@pytest.mark.parametrize(
    "data",
    [
        b"1 Q0 a 1 1.0 t\n1 Q0 b 2 1.0 t\n2 Q0 a 1 9.0 t\n",  # a tie, another topic
        b"1 Q0 b 2 1.0 t\n1 Q0 a 1 2.0 t\n",  # the lines are out of order, the ranks are right
        b"1 Q0 b 0 1.0 t\n1 Q0 a 0 2.0 t\n",  # equal ranks claim no order
    ],
)
def test_ranks_that_agree_with_the_scores(data: bytes) -> None:
    assert parse_run(data, "run").warnings == ()


WORDS = st.lists(st.sampled_from([b"1", b"Q0", b"0", b"a", b"t", b"nan", b"2.5", b"-1", b"", b"\n", b"\xff", b"\0"]))
MESSY = st.one_of(
    st.binary(max_size=60),
    WORDS.map(b" ".join),
    st.tuples(st.binary(max_size=6), st.integers(0, 60)).map(lambda made: TWO[: made[1]] + made[0] + TWO[made[1] :]),
    st.tuples(WORDS, st.integers(0, 4)).map(lambda made: TWO * made[1] + b" ".join(made[0]) + b"\n" + JUDGED),
)


@pytest.mark.slow
@given(MESSY)
@settings(max_examples=examples(400), deadline=None)
def test_no_input_gives_anything_but_a_value_or_an_error_of_ours(data: bytes) -> None:
    for asked in (None, *FORMATS):
        with suppress(HarnessError):
            assert np.isfinite(parse_run(data, "run", format=asked).score).all()
    with suppress(HarnessError):
        assert np.isfinite(parse_qrels(data, "qrels", edition="").grade).all()
