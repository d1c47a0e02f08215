from __future__ import annotations

import json

import pytest
from refusals import refusal as message

from harness.collections.readers import mathlib
from harness.data.topics import Formula, Topic
from harness.io.files import sha256

ROW = {
    "id": "O1",
    "full_name": "Lattice.sup_le",
    "file": "x.lean:3",
    "difficulty": "Easy",
    "kind": "class",
    "q1a_lean": "a poset with `⊔`",
    "q1b_latex": "a poset with $\\sqcup$ and $\\sqcap$",
    "q1c_natural": " ",
    "q2_slogan": "",
    "q3_nickname": "lattice",
    "q4_special_case": "sets",
}
OTHER = {**ROW, "id": "O2", "full_name": "Nucleus'", "kind": "", "q1a_lean": "", "q1b_latex": "", "q4_special_case": ""}


def file_of(*rows: object) -> bytes:
    return ("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]").encode()


def test_queries_become_topics() -> None:
    topics = list(mathlib.qr_topics(file_of(ROW, OTHER), "f"))
    assert [topic.id for topic in topics] == ["O1.lean", "O1.latex", "O1.nickname", "O1.special-case", "O2.nickname"]
    latex = (Formula("O1.latex.1", "\\sqcup"), Formula("O1.latex.2", "\\sqcap"))
    attributes = {"style": "latex", "kind": "class", "difficulty": "Easy", "item": "O1"}
    assert topics[1] == Topic("O1.latex", ROW["q1b_latex"], "", (), latex, "eng", attributes)
    assert topics[4].attributes == {"style": "nickname", "difficulty": "Easy", "item": "O2"}
    # Nothing in a topic gives the answer away.
    assert all(ROW["full_name"] not in json.dumps([t.title, t.body, dict(t.attributes)]) for t in topics)


def test_each_query_has_one_judgment() -> None:
    data = file_of(ROW, OTHER)
    qrels = mathlib.qr_qrels(data, "f", "all")
    name = "Lattice.sup_le"
    expected = {f"O1.{style}": {name: 1} for style in ("lean", "latex", "nickname", "special-case")}
    assert qrels.to_dict() == {**expected, "O2.nickname": {"Nucleus'": 1}}
    assert (qrels.edition, qrels.sha256) == ("all", sha256(data))
    assert set(qrels.topics) == mathlib.qr_topics(data, "f").ids()


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        ({**ROW, "full_name": "a b"}, "full_name 'a b' is not a name of a declaration"),
        ({**ROW, "full_name": ""}, "full_name '' is not a name of a declaration"),
        ({**ROW, "q2_slogan": None}, "key 'q2_slogan' is None, expected text"),
        ({key: value for key, value in ROW.items() if key != "q1a_lean"}, "key 'q1a_lean' is None, expected text"),
        ({**ROW, "id": 5}, "key 'id' is 5, expected text"),
        ([], "expected an object, found []"),
    ],
)
def test_faults_of_queries_name_the_line(row: object, fault: str) -> None:
    data = file_of(OTHER, row)
    assert message(lambda: mathlib.qr_topics(data, "f")) == f"f:3: {fault}"
    assert message(lambda: mathlib.qr_qrels(data, "f", "all")) == f"f:3: {fault}"


def test_an_item_twice_is_a_fault() -> None:
    assert message(lambda: mathlib.qr_topics(file_of(OTHER, ROW, OTHER), "f")) == (
        "f:4: topic 'O2.nickname' is on line 2 already"
    )


NAMES = (
    "source\tpath_or_id\tquery\tgold\tgold_in_corpus\n"
    "100\t1\tThe Irrationality of $\\sqrt{2}$\tirrational_sqrt_two\t1\n"
    "undergrad\tLinear algebra / Duality\tdual basis\tBasis.dual Module.Dual\t1\n"
    "100\t2\tPythagorean Theorem\tEuclid.dist\t0\n"
    "undergrad\tGroup Theory / Abelian group\tdual basis\tX\t1\n"
)


def test_names_become_topics() -> None:
    topics = mathlib.names_topics(NAMES.encode(), "f")
    assert [topic.id for topic in topics] == ["100-001", "undergrad-001", "100-002", "undergrad-002"]
    first, second, *_ = topics
    assert first == Topic(
        "100-001",
        "The Irrationality of $\\sqrt{2}$",
        formulas=(Formula("100-001.1", "\\sqrt{2}"),),
        attributes={"list": "100"},
    )
    assert second.attributes == {"list": "undergrad", "section": "Linear algebra"}
    assert mathlib.names_qrels(NAMES.encode(), "f", "all").to_dict() == {
        "100-001": {"irrational_sqrt_two": 1},
        "undergrad-001": {"Basis.dual": 1, "Module.Dual": 1},
        "100-002": {"Euclid.dist": 1},
        "undergrad-002": {"X": 1},
    }


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (b"", "f:1: column 'source' is missing; found nothing"),
        (b"source\tpath_or_id\tquery\n", "f:1: column 'gold' is missing; found source, path_or_id, query"),
        (NAMES.encode() + b"\n100\t3\tx\n", "f:7: 3 columns, expected 5"),
        (NAMES.encode() + b"100\t3\t\ty\t1\n", "f:6: column 'query' is empty"),
        (NAMES.encode() + b"100\t3\tx\t \t1\n", "f:6: column 'gold' is empty"),
        (NAMES.encode() + b"\xff", "f:6: byte 0xff is not UTF-8 text"),
    ],
)
def test_faults_of_names_name_the_line(data: bytes, fault: str) -> None:
    assert message(lambda: mathlib.names_topics(data, "f")) == fault
    assert message(lambda: mathlib.names_qrels(data, "f", "all")) == fault
