from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis_tools import examples

from harness.data import columns
from harness.data.columns import (
    BLOCK,
    PADDING,
    Bools,
    Floats,
    Index,
    TextBlock,
    equals,
    hashes,
    integers,
    padded_text,
    parse_decimals,
    pieces,
    split,
    strings,
    words_of,
    words_of_strings,
)

NO_LINES = np.zeros(0, dtype=np.int64)
NOT_NUMBERS = (
    "nan NaN -nan inf -inf Infinity 1_0 0x1 1..2 1.2.3 - + . -. e5 .e5 1e 1e+ 1e999 -1e999 1,5 --1 +-1 1- 1e5.0 "
    "٣ ３ ½ ² 1f 1d 0b1 1e1e1 12345678x 123456789x 1.0000000000x"
)
FIELD = st.text(st.characters(min_codepoint=33, codec="utf-8"), min_size=1, max_size=40)


def located(tokens: Sequence[str], gap: str = "\n") -> tuple[TextBlock, Index, Index]:
    """A text of the tokens with a gap after each but the last, and where they lie."""
    encoded = [token.encode() for token in tokens]
    length = np.array([len(token) for token in encoded], dtype=np.int64)
    start = np.cumsum(length + len(gap)) - length - len(gap)
    return padded_text(gap.encode().join(encoded)), start, length


def read(tokens: Sequence[str], gap: str = "\n") -> tuple[Floats, Bools]:
    return parse_decimals(*located(tokens, gap))


def expected(token: str) -> float | None:
    """What a token stands for: Python's conversion, without its names, underscores and non-ASCII digits."""
    try:
        value = float(token)
    except ValueError:
        return None
    return value if set(token) <= set("0123456789+-.eE") and np.isfinite(value) else None


def check_decimals(tokens: Sequence[str], gap: str = "\n") -> None:
    values, ok = read(tokens, gap)
    wanted = [expected(token) for token in tokens]
    assert ok.tolist() == [value is not None for value in wanted]
    right = np.array([0.0 if value is None else value for value in wanted])
    wrong = np.flatnonzero(ok & (values.view(np.uint64) != right.view(np.uint64)))  # bits: -0.0 is not 0.0
    assert not wrong.size, [(tokens[row], values[row]) for row in wrong[:5]]


def digits(rng: random.Random, least: int, most: int) -> str:
    return "".join(rng.choice("0123456789") for _ in range(rng.randint(least, most)))


def tokens_near_halves(rng: random.Random, count: int) -> Iterator[str]:
    """Decimals of up to 20 digits that miss the middle between two floats by 1e-13 units of the last bit or so.

    With p decimals, a value M / 10^p between 2^e and 2^(e+1), and s = 53 - e: M 2^(s-p) = (2m + 1) 5^p + r for a small
    odd r puts it next to the middle (2m + 1) / 2^s; M follows from r modulo 5^p.
    """
    while count:
        e, p, r = rng.randint(-6, 25), rng.randint(10, 19), rng.choice((-5, -3, -1, 1, 3, 5))
        power = 5**p
        m0 = r * pow(2, -(53 - e - p), power) % power
        low, high = int(2.0**e * 10**p), min(int(2.0 ** (e + 1) * 10**p), 2**64)
        steps = (high - 1 - m0) // power
        first = -((m0 - low) // power)
        if steps < first or high <= 2**53:
            continue
        mantissa = m0 + rng.randint(first, steps) * power
        assert (mantissa * 2 ** (53 - e - p) - r) % (2 * power) == power  # it is what it claims to be
        digits_ = str(mantissa).rjust(p + 1, "0")
        yield f"{digits_[:-p]}.{digits_[-p:]}"
        count -= 1


def exact_halves(rng: random.Random, count: int) -> Iterator[str]:
    """The exact decimal expansions of middles between two floats, all their digits."""
    for _ in range(count):
        bits, places = rng.getrandbits(52) | 1 << 52, rng.randint(0, 70)
        number = str((2 * bits + 1) * 5**places).rjust(places + 1, "0")
        yield f"{number[: len(number) - places]}.{number[len(number) - places :]}"


def random_tokens(rng: random.Random, count: int) -> Iterator[str]:
    for _ in range(count):
        sign = rng.choice(("", "", "-", "+"))
        kind = rng.randrange(8)
        if kind == 0:
            yield repr(rng.uniform(-100, 100))
        elif kind == 1:
            yield repr(rng.choice((-1, 1)) * rng.random() * 10.0 ** rng.randint(-320, 300))
        elif kind == 2:
            yield f"{sign}{digits(rng, 1, 9)}.{digits(rng, 15, 22)}"
        elif kind == 3:
            yield f"{sign}{digits(rng, 1, 25)}"
        elif kind == 4:
            yield f"{sign}{'0' * rng.randint(0, 12)}.{'9' * rng.randint(0, 25)}"
        elif kind == 5:
            yield f"{sign}{digits(rng, 0, 10)}.{digits(rng, 0, 25)}{rng.choice(('', 'e5', 'E-7', 'e+19', 'e'))}"
        elif kind == 6:
            yield f"{rng.choice((1799, 1800, 1801, 18446, 18447, 9007, 9008))}.{digits(rng, 14, 18)}"  # near 2^64, 2^53
        else:
            yield repr(float(np.float32(rng.random())))


@pytest.mark.slow
def test_decimals_are_python_floats_on_random_tokens() -> None:
    check_decimals(list(random_tokens(random.Random(1), 60_000)))


def test_decimals_round_correctly_next_to_the_middle_of_two_floats() -> None:
    rng = random.Random(2)
    near = list(tokens_near_halves(rng, 5_000))
    assert sum(len(token) < 21 for token in near) > 500  # short enough for the reading as arrays
    check_decimals(near)
    check_decimals(list(exact_halves(rng, 2_000)))


@pytest.mark.parametrize("gap", ["\n", " ", "\t", "5", "."])
def test_decimals_do_not_see_what_stands_behind_the_field(gap: str) -> None:
    check_decimals(["1", "12.5", "-0.125", "1.", ".5", "7e1", "123456789", "0.0000000000000000000001"] * 2, gap)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False).map(repr), min_size=1, max_size=20))
@settings(deadline=None)
def test_decimals_of_any_float_are_that_float(tokens: list[str]) -> None:
    values, ok = read(tokens)
    assert ok.all()
    assert values.tobytes() == np.array([float(token) for token in tokens]).tobytes()


@given(st.lists(st.from_regex(r"[+-]?[0-9]{0,25}\.?[0-9]{0,25}([eE][+-]?[0-9]{0,3})?", fullmatch=True), min_size=1))
@settings(deadline=None)
def test_decimals_accept_what_python_accepts(tokens: list[str]) -> None:
    check_decimals([token for token in tokens if token] or ["0"])


@given(st.lists(st.text("0123456789.+-eE_xnaif٣½", min_size=1, max_size=12), min_size=1))
@settings(deadline=None)
def test_decimals_refuse_what_is_no_plain_number(tokens: list[str]) -> None:
    check_decimals(tokens)


@pytest.mark.parametrize("token", NOT_NUMBERS.split())
def test_decimals_refuse(token: str) -> None:
    assert not read([token])[1][0]


@pytest.mark.parametrize("token", ["-0", "-0.0", "-.0", "-0.", "-0e9", "-1e-999", "-0.0000000000000000000000"])
def test_decimals_keep_the_sign_of_zero(token: str) -> None:
    (value,), (ok,) = read([token])
    assert ok
    assert value == 0
    assert np.signbit(value)
    assert not np.signbit(read([token.replace("-", "+", 1)])[0][0])


def test_decimals_of_no_fields() -> None:
    values, ok = parse_decimals(padded_text(b"1\n"), NO_LINES, NO_LINES)
    assert values.shape == ok.shape == (0,)


@given(st.lists(st.text("0123456789+-. x", min_size=1, max_size=11).map(lambda s: s.replace(" ", "_")), min_size=1))
@settings(deadline=None)
def test_integers_are_unsigned_and_have_up_to_eight_digits(tokens: list[str]) -> None:
    values, ok = integers(*located(tokens))
    for token, value, is_integer in zip(tokens, values.tolist(), ok.tolist(), strict=True):
        assert is_integer == bool(re.fullmatch("[0-9]{1,8}", token)), token
        assert not is_integer or value == int(token)


@pytest.mark.parametrize(("token", "value"), [("0", 0), ("00000007", 7), ("12345678", 12345678)])
def test_integers_at_the_end_of_the_text(token: str, value: int) -> None:
    values, ok = integers(*located([token]))
    assert (values.tolist(), ok.tolist()) == ([value], [True])


TABLES = st.one_of(
    st.binary(max_size=120).map(lambda raw: bytes(b"ab1 \t\n\n\r"[byte % 8] for byte in raw)),
    st.lists(st.sampled_from([b"a b c", b"aa\tb c", b"a  b c ", b"", b" ", b"x" * 70, b"\t1\t2\t3", b"q\r"])).map(
        b"\n".join
    ),
    # The regular table that the fast way is for, with one irregular line somewhere.
    st.tuples(st.integers(1, 30), st.sampled_from([b"", b"d e\n", b"d\te f\n", b"\n", b"d e f g\n", b"d e f"])).map(
        lambda made: b"d e f\n" * made[0] + made[1] + b"g h i\n" * (made[0] // 2)
    ),
)


def lines_of(data: bytes, size: int) -> list[tuple[int, list[bytes]]]:
    """(line number, fields) of every line that is not blank, as the blocks have them."""
    out = []
    for source in pieces(data, size):
        block = split(source)
        assert block.start.size == block.count.sum()
        for line, first, count in zip(block.line.tolist(), block.first.tolist(), block.count.tolist(), strict=True):
            places = zip(block.start[first : first + count], block.length[first : first + count], strict=True)
            out.append((line, [source.cut(start, length) for start, length in places]))
    return out


@given(TABLES, st.integers(1, 200))
@settings(max_examples=examples(400), deadline=None)
def test_blocks_of_any_size_give_the_fields_that_split_gives(data: bytes, size: int) -> None:
    wanted = [(number, line.split()) for number, line in enumerate(data.split(b"\n"), 1) if line.split()]
    assert lines_of(data, size) == wanted
    assert lines_of(data, BLOCK) == wanted


@pytest.mark.slow
def test_blocks_of_a_large_text_at_the_default_size() -> None:
    rng = random.Random(3)
    rows = [" ".join(digits(rng, 1, 9) for _ in range(rng.choice((*[6] * 400, 5, 0, 900)))) for _ in range(30_000)]
    data = "\r\n".join(rows).encode()
    assert len(data) > 2 * BLOCK
    found = lines_of(data, BLOCK)
    assert found == [(number, row.encode().split()) for number, row in enumerate(rows, 1) if row]


@pytest.mark.parametrize("copied", [8, columns.CACHED])
def test_blocks_hold_whole_lines_and_count_their_ends(monkeypatch: pytest.MonkeyPatch, copied: int) -> None:
    monkeypatch.setattr(columns, "CACHED", copied)
    data = b"a b\nc d\n" * 50 + b"end"
    sources = list(pieces(data, 10))
    assert list(pieces(data, 1000))[-1].size == (35 if copied == 8 else len(data)), "the end of a large block is copied"
    found = [split(source) for source in sources]
    assert len(found) > 20
    assert b"".join(source.cut(0, source.size) for source in sources) == data
    assert [source.line for source in sources] == [
        0,
        *np.cumsum([source.cut(0, source.size).count(b"\n") for source in sources])[:-1],
    ]
    assert [line for block in found for line in block.line.tolist()] == list(range(1, 102))


def test_text_without_any_field() -> None:
    assert lines_of(b"", 8) == []
    assert lines_of(b"\n \t\r\n", 1) == []


@pytest.mark.parametrize("byte", [b for b in range(33) if b not in (9, 10, 13, 32)])
def test_control_characters_are_located(byte: int) -> None:
    data = b"a b\nc" + bytes([byte]) + b"d e\n"
    (lines,) = map(split, pieces(data))
    assert lines.controls.tolist() == [5]


def test_no_control_characters_in_ordinary_text() -> None:
    (lines,) = map(split, pieces("a\té b\r\n\x7f \u0085 c".encode()))
    assert lines.controls.size == 0


def test_a_byte_order_mark_is_left_out_and_fields_are_shown_with_escapes() -> None:
    (source,) = pieces(b"\xef\xbb\xbfab\xff c")
    assert (source.cut(0, 9), source.size, source.bytes_.size) == (b"ab\xff c", 5, 5 + PADDING)
    assert source.field(0, 3) == "ab\\xff"


@given(st.lists(FIELD, min_size=1, max_size=20))
@settings(deadline=None)
def test_words_and_strings_give_the_fields_back(fields: list[str]) -> None:
    source = padded_text(("\n".join(fields)).encode())
    lines = split(source)
    wanted = b"\n".join(field.encode() for field in fields).split()
    found = words_of(source, lines.start, lines.length)
    assert found.shape == (len(wanted), -(-max(map(len, wanted)) // 8))
    assert strings(found).tolist() == wanted
    assert words_of_strings(strings(found)).tolist() == found.tolist()
    assert strings(words_of_strings(np.array(wanted, dtype=np.bytes_))).tolist() == wanted


def test_words_are_little_endian_bytes() -> None:
    found = words_of(padded_text(b"ab 123456789"), np.array([0, 3]), np.array([2, 9]))
    assert found.tolist() == [[int.from_bytes(b"ab", "little"), 0], [int.from_bytes(b"12345678", "little"), ord("9")]]


@given(st.lists(st.sampled_from([b"a" * n for n in range(1, 36)] + [b"ab", b"a" * 8 + b"b"]), min_size=1))
@settings(deadline=None)
def test_fields_are_compared_with_a_value(fields: list[bytes]) -> None:
    source = padded_text(b" ".join(fields))
    lines = split(source)
    for value in {*fields, b"a", b"b", b"a" * 8, b"a" * 9, b"a" * 16, b"a" * 400}:
        assert equals(source, lines.start, lines.length, value).tolist() == [field == value for field in fields]


@given(st.lists(FIELD, min_size=1, max_size=20), st.integers(1, 4))
@settings(deadline=None)
def test_hashes_do_not_depend_on_padding(fields: list[str], more: int) -> None:
    values = words_of_strings(np.array([field.encode() for field in fields], dtype=np.bytes_))
    topic = np.arange(len(fields), dtype=np.int32)
    padded = np.pad(values, ((0, 0), (0, more)))
    assert hashes(values, topic).tolist() == hashes(padded, topic).tolist()


def test_hashes_tell_pairs_apart() -> None:
    ids = [f"{prefix}{i}" for prefix in ("", "A.", "question-", "a-rather-long-prefix-") for i in range(5_000)]
    values = words_of_strings(np.array([i.encode() for i in ids], dtype=np.bytes_))
    found = [hashes(values, np.full(len(ids), topic, dtype=np.int32)) for topic in range(5)]
    assert np.unique(np.concatenate(found)).size == 5 * len(ids)
    top = [np.unique(part >> np.uint64(48)).size for part in found]  # the bits that pick a slot are spread as well
    assert min(top) > 0.9 * (1 - np.exp(-len(ids) / 2**16)) * 2**16
    assert all((one != two).any() for one, two in pairwise(found))
