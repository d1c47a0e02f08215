"""Files that say what must not count, and collections that name them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from case_tables import literals
from typer.testing import CliRunner

import harness
from harness.cli.main import app
from harness.collections.files import read_listed, read_places
from harness.errors import HarnessError

Conf = Callable[[str, str, str], Path]
RUN = {"t2": {"t2": 5.0, "late": 4.0, "first": 3.0, "second": 2.0}, "t1": {"first": 2.0, "second": 1.0}}
QRELS = "t2 0 second 1\nt2 0 late 1\nt1 0 first 1\n"
TOPICS = '{"id": "t1", "title": "a"}\n{"id": "t2", "title": "b"}\n'
ORDER = "first\nt1\nsecond\nt2\nlate\n"


def test_what_is_listed(tmp_path: Path) -> None:
    path = tmp_path / "listed"
    path.write_bytes(b"\xef\xbb\xbfq1 d1\r\nq1\td2\r\n\r\nq2 d1\r\n")
    assert read_listed(path) == {"q1": {"d1", "d2"}, "q2": {"d1"}}
    path.write_text('{"topic": "q1", "excluded": ["d1", 5]}\n\n{"topic": 2, "excluded": []}\n')
    assert read_listed(path, "jsonl") == {"q1": {"d1", "5"}, "2": frozenset()}


def test_places(tmp_path: Path) -> None:
    path = tmp_path / "order"
    path.write_text("a\n\nb\r\n")
    places = read_places(path)
    assert list(places) == ["a", "b"] and places["a"] < places["b"]
    path.write_text("a 2\nb\t-1.5\nc 2\n")
    assert read_places(path, "places") == {"a": 2.0, "b": -1.5, "c": 2.0}


@pytest.mark.parametrize(("reader", "content", "fault"), literals("collections/excluded_a_fault_is_one_line"))
def test_a_fault_is_one_line(reader: str, content: bytes, fault: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    read = read_places if reader in ("order", "places") else read_listed
    with pytest.raises(HarnessError) as raised:
        read(path, reader)
    assert str(raised.value).startswith(f"{path}:{fault}")


def collection(conf: Conf, exclude: str, files: str, **contents: str) -> Path:
    """A collection `mine` whose edition names files beside it, and the protocol `mine`."""
    folder = conf("protocol", "mine", f"name: mine\ntitle: a\nmeasures: [RR, AP]\nexclude: {exclude}\n").parent.parent
    about = "name: mine\ntitle: a\nlicence: b\nprotocol: mine\ntopics: {reader: jsonl, file: t}\n"
    text = f"{about}editions: {{all: {{title: c, qrels: {{file: q}}{files}}}}}\n"
    place = conf("collection", "mine", text).parent
    for name, content in {"q": QRELS, "t": TOPICS, **contents}.items():
        (place / name).write_text(content)
    return folder


def ranks() -> dict[str, float]:
    scores = harness.evaluate(harness.task("mine"), harness.Run.from_dict("r", RUN)).scores[0]
    return dict(zip(scores.topics, scores.column("RR").tolist(), strict=True))


@pytest.mark.parametrize(
    ("exclude", "files", "contents", "wanted"),
    [
        ("[]", "", {}, {"t2": 1 / 2, "t1": 1.0}),  # late is second
        ("own", "", {}, {"t2": 1.0, "t1": 1.0}),
        ("later", ", order: {file: o}", {"o": ORDER}, {"t2": 1 / 2, "t1": 1.0}),  # first, second
        ("listed", ", exclusions: {file: x}", {"x": "t2 late\nt2 t2\nt1 first\n"}, {"t2": 1 / 2}),
        (
            "later",
            ", order: {reader: places, file: o}, topic_order: {file: p}",
            {"o": "first 1\nsecond 2\nlate 3\nt2 9\n", "p": "t2 3\nt1 1.5\n"},
            {"t2": 1 / 2, "t1": 1.0},
        ),
    ],
)
def test_an_edition_says_what_its_protocol_excludes(
    exclude: str, files: str, contents: dict[str, str], wanted: dict[str, float], conf: Conf
) -> None:
    collection(conf, exclude, files, **contents)
    assert ranks() == wanted


@pytest.mark.parametrize(
    ("exclude", "files", "contents", "fault"),
    [
        ("later", "", {}, "collection mine: protocol mine excludes what is later, and edition all names no file"),
        ("listed", ", order: {file: o}", {"o": ORDER}, "excludes what is listed, and edition all names no file"),
        ("later", ", order: {file: o}", {"o": "first\nsecond\nt2\nlate\n"},
         "collection mine, edition all: topic 't1' has no place in the order (1 such topic)"),
        ("later", ", order: {file: o}", {"o": "t1\nt2\nsecond\nlate\n"},
         "collection mine, edition all: judged document 'first' has no place in the order (1 such judgment)"),
        ("listed", ", exclusions: {file: x}", {"x": "\n"}, "nothing is excluded: its list of exclusions is empty"),
        ("listed", ", exclusions: {file: x}", {"x": "T2 late\nT1 first\nT1 second\n"},
         "collection mine: nothing is excluded: 'T1' and the other topics with excluded documents (2 in all) are no"),
        ("later", ", order: {reader: pairs, file: o}", {}, "editions: all: order: reader 'pairs' is unknown"),
    ],
)  # fmt: skip
def test_what_an_edition_lacks(exclude: str, files: str, contents: dict[str, str], fault: str, conf: Conf) -> None:
    collection(conf, exclude, files, **contents)
    with pytest.raises(HarnessError) as raised:
        harness.task("mine")
    assert fault in str(raised.value)


def test_a_pool_is_made_without_what_is_excluded_before_anything_is_judged(conf: Conf, tmp_path: Path) -> None:
    folder = collection(conf, "[later, own]", ", order: {file: o}", o=ORDER)
    (folder / "collection" / "q").unlink()
    lines = [f"{topic} Q0 {doc} 1 {score} r\n" for topic, docs in RUN.items() for doc, score in docs.items()]
    (tmp_path / "r.run").write_text("".join(lines))
    told = ["organise", "pool", str(tmp_path / "r.run"), "-c", "mine", "--depth", "1", "-o", str(tmp_path / "pool")]
    done = CliRunner().invoke(app, told)
    assert done.exit_code == 0, (done.output, done.exception)
    pooled = sorted((tmp_path / "pool" / "pool.tsv").read_text().split("\n")[1:-1])
    assert pooled == ["t1\tfirst", "t2\tfirst"]
