"""The kernel of plain lines and the NumPy code read equal values from every file, and say the same of what is wrong."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from harness.data import layouts
from harness.data.columns import WIDE, TextBlock, duplicates, padded_text, pair_hashes, pieces, smaller_blocks
from harness.data.trec import Qrels, Run, parse_qrels, parse_run
from harness.errors import HarnessError
from harness.io.kernels import VARIABLE, kernel

pytestmark = pytest.mark.skipif(kernel("harness_plain_rows") is None, reason="kernels are not used")
fixture_is_the_same = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])

ODD = ("", " ", "\t", "\r", "\x00", "\x01", "\x0b", "\x1f", "\x7f", "\n", "\ufeff", "é", "\u2003", "x" * 255, "x" * 256)
NUMBERS = re.findall(
    r"\S+",
    "0 1 -1 +1 0.5 .5 5. -0 -0.0 00012.50 1e3 1E-3 1e400 1e-400 nan inf 1_0 . - + e5 1e 1.2.3 0x1 9007199254740993 "
    "18446744073709551615 18446744073709551616 0.3333333333333333 123456.789012345678 1e22 1e23 9007199254740992e22 "
    "0.0000000000000000000001 0.00000000000000000000001 12345678901234567890123 2.2250738585072011e-308 5e-324 1e-45",
)
FIELD = st.one_of(
    st.sampled_from(("A.1", "A.2", "Q0", "0", "_", "d1", "12345678", "123456789", "1", "2", "999999999", "s", *ODD)),
    st.sampled_from(NUMBERS),
    st.floats().map(repr),
    st.text(st.characters(min_codepoint=33, codec="utf-8"), min_size=1, max_size=20),
)
BREAK = st.sampled_from(("\n", "\n", "\n", "\n", "\r\n", "\n\n", " \n"))


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of a few lines, so that files have many, of which some are plain."""

    def small(data: bytes, size: int) -> Iterator[TextBlock]:
        return pieces(data, 300 if size == WIDE else size)

    def smaller(source: TextBlock) -> Iterator[TextBlock]:
        return smaller_blocks(source, 100)

    monkeypatch.setattr(layouts, "pieces", small)
    monkeypatch.setattr(layouts, "smaller_blocks", smaller)


def outcome(read: Callable[[], Run | Qrels]) -> tuple[object, ...]:
    """The values of a run or of judgments, bit by bit, or what is wrong with the file."""
    try:
        found = read()
    except HarnessError as error:
        return (str(error),)
    number = found.score if isinstance(found, Run) else found.grade
    context = found.context if isinstance(found, Run) else None
    return (
        *(found.topics, found.topic.tolist(), found.doc.dtype.itemsize, found.doc.tolist(), number.tobytes()),
        *(None if context is None else (context.dtype, context.tolist()), found.key.tobytes(), found.sha256),
        *((found.name, found.warnings) if isinstance(found, Run) else ()),
    )


def same(read: Callable[[], Run | Qrels]) -> tuple[object, ...]:
    """What both ways give, which must be equal."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(VARIABLE, raising=False)
        ours = outcome(read)
        patch.setenv(VARIABLE, "off")
        assert ours == outcome(read)
    return ours


def table(rows: list[list[str]], ends: list[str]) -> bytes:
    return "".join("\t".join(row) + end for row, end in zip(rows, ends, strict=True)).encode("utf-8", "replace")


def plain(layout: str, lines: int, rng: random.Random) -> list[list[str]]:
    """Plain lines of a layout."""
    rows = []
    for line in range(lines):
        topic, doc = f"A.{line // 4}", f"{rng.randrange(10 ** rng.randrange(1, 20))}x{line}"
        score, rank = repr(rng.random() * 10 ** rng.randrange(-4, 4)), str(line % 4 + 1)
        rows.append(
            {
                "trec": [topic, "Q0", doc, rank, score, "tag"],
                "arqmath-task1": [topic, doc, rank, score, "tag"],
                "arqmath-task2": [topic, doc, f"p{line}", rank, score, "tag"],
                "qrels": [topic, "0", doc, str(rng.randrange(4))],
            }[layout]
        )
    return rows


def reader(layout: str, data: bytes) -> Callable[[], Run | Qrels]:
    if layout == "qrels":
        return lambda: parse_qrels(data, "file", edition="e")
    return lambda: parse_run(data, "file", format=None if layout == "trec" else layout)


LAYOUTS = ("trec", "arqmath-task1", "arqmath-task2", "qrels")


@pytest.mark.parametrize("end", ["\n", "\r\n", " \t\n"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_plain_lines_are_read_by_the_kernel_alone(layout: str, end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = plain(layout, 60, random.Random(0))
    data = table(rows, [end] * len(rows))
    values = same(reader(layout, data))
    assert len(values) > 1
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr(layouts.LineColumns, "put", None)
    assert outcome(reader(layout, data)) == values


@fixture_is_the_same
@given(st.sampled_from(LAYOUTS), st.data())
def test_files_with_odd_fields(layout: str, draw: st.DataObject) -> None:
    rng = random.Random(draw.draw(st.integers(0, 1 << 32)))
    rows = plain(layout, draw.draw(st.integers(1, 40)), rng)
    for _ in range(draw.draw(st.integers(0, 4))):
        row = draw.draw(st.integers(0, len(rows) - 1))
        column = draw.draw(st.integers(0, len(rows[row]) - 1))
        change = draw.draw(st.sampled_from(("field", "field", "field", "less", "more", "repeat")))
        if change == "field":
            rows[row][column] = draw.draw(FIELD)
        elif change == "less" and len(rows[row]) > 1:
            del rows[row][column]
        elif change == "more":
            rows[row].insert(column, draw.draw(FIELD))
        else:
            rows.append(list(rows[row]))
    ends = ["\n"] * len(rows)
    for _ in range(draw.draw(st.integers(0, 2))):
        ends[draw.draw(st.integers(0, len(rows) - 1))] = draw.draw(BREAK)
    if draw.draw(st.booleans()):
        ends[-1] = ""
    same(reader(layout, table(rows, ends)))


@fixture_is_the_same
@given(st.lists(st.lists(FIELD, min_size=4, max_size=6), min_size=1, max_size=20), st.sampled_from(LAYOUTS))
def test_files_of_any_fields(rows: list[list[str]], layout: str) -> None:
    same(reader(layout, table(rows, ["\n"] * len(rows))))


@fixture_is_the_same
@given(st.binary(max_size=300), st.sampled_from(LAYOUTS))
@example(b"A.1 Q0 d 1 1 t\nA.1 Q0 long-document-id 2\nA.1 Q0 d 3 0 t\n", "trec")
def test_files_of_any_bytes(data: bytes, layout: str) -> None:
    same(reader(layout, data))


def decimal(rng: random.Random) -> str:
    """A number with up to 25 digits, a point anywhere in them, and sometimes an exponent."""
    digits = "".join(rng.choices("0123456789", k=rng.randrange(1, 26)))
    point = rng.randrange(len(digits) + 1)
    tail = rng.choice(("", "", f"e{rng.randrange(-40, 40)}", f"E+{rng.randrange(25)}"))
    return rng.choice(("", "-", "+")) + digits[:point] + rng.choice((".", "")) + digits[point:] + tail


def halfway(rng: random.Random) -> str:
    """A number that lies halfway between two floats, or close to it."""
    places = rng.randrange(1, 12)
    number = rng.randrange(1 << 53, 1 << 56) * 2 + rng.choice((-1, 0, 1))
    digits = str(number * 5**places >> rng.randrange(3))
    return f"{digits[:-places]}.{digits[-places:]}"


@pytest.mark.slow
def test_numbers_are_those_of_python() -> None:
    rng = random.Random(1)
    made = [f(rng) for f in (decimal, halfway) for _ in range(4000)]
    made += [repr(rng.random() * 10.0 ** rng.randrange(-30, 30)) for _ in range(4000)]
    made += [str((1 << 53) + k) for k in range(-9, 10)] + [f"0.{(1 << 53) + k}" for k in range(-9, 10)]
    numbers = [number for number in made if np.isfinite(float(number))]
    data = "\n".join(f"A.1\tQ0\td{k}\t0\t{number}\ttag" for k, number in enumerate(numbers)).encode()
    same(lambda: parse_run(data, "file"))
    assert parse_run(data, "file").score.tobytes() == np.array([float(number) for number in numbers]).tobytes()


@given(st.binary(max_size=3000))
def test_line_ends_are_counted(data: bytes) -> None:
    assert padded_text(data * 3).line_of(3 * len(data)) == 3 * data.count(b"\n") + 1


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 30)), max_size=60), st.booleans())
def test_repeated_documents_are_found_in_any_order_of_topics(pairs: list[tuple[int, int]], ordered: bool) -> None:
    pairs = sorted(pairs, key=lambda pair: pair[0]) if ordered else pairs
    topic = np.array([pair[0] for pair in pairs], dtype=np.int32)
    doc = np.array([b"%d" % pair[1] for pair in pairs], dtype=np.bytes_)
    key = pair_hashes([f"t{k}" for k in range(4)], topic, doc)
    expected = {row: pairs.index(pair) for row, pair in enumerate(pairs) if pairs.index(pair) < row}
    assert duplicates(key, topic, doc) == expected
    # Equal hashes of different documents are no duplicates.
    assert duplicates(np.zeros(len(pairs), dtype=np.uint64), topic, doc) == expected
