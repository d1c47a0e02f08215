"""Names of runs, and the files that are written for them."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from harness.io.names import file_name, is_name, is_tag

LABELS = (
    "intfloat/e5-base", "a:b", "it's", "a&b", "[x]", "a|b", "50%", "a<b>", "-x", ".x", "../../x", "/etc/passwd", "a\\b",
    "NUL", "con.txt", "x.", "~", "Česká-skupina", "e\u0301", "é", "می\u200cخواهم", "👩\u200d🔬", "x" * 255,
)  # fmt: skip


@pytest.mark.parametrize("label", LABELS)
def test_any_characters_that_people_see_make_a_name(label: str) -> None:
    assert is_name(label)
    assert is_tag(label)


@pytest.mark.parametrize(
    "text", ["", " a", "a ", "a\nb", "a\rb", "a\0", "a\x1b[1m", "a\u2028b", "a\u202eb", "\ufeffa", "\ud800", "é" * 128]
)
def test_hidden_characters_and_empty_or_long_texts_make_none(text: str) -> None:
    assert not is_name(text)


def test_blanks_within_are_for_names_that_are_no_tags() -> None:
    assert (is_name("my run"), is_tag("my run")) == (True, False)


@pytest.mark.parametrize("label", ["bm25-k1=0.9,b=0.4", "Česká-skupina", "a_b", "_x", "BM25+RM3@100%", "x~1"])
def test_safe_labels_are_their_own_files(label: str) -> None:
    assert file_name(label) == label


@given(st.lists(st.sampled_from(LABELS) | st.text(min_size=1, max_size=12), min_size=1, max_size=9, unique=True))
@example(["a/b", file_name("a/b"), "a:b", file_name("a:b"), file_name(file_name("a/b"))])
def test_files_are_safe_and_of_one_label_each(labels: list[str]) -> None:
    files = [file_name(label) for label in labels]
    assert len(set(files)) == len({unicodedata.normalize("NFC", name) for name in files}) == len(labels)
    for name in files:
        assert re.fullmatch(r"[\w+=,@()~#%][\w.+=,@()~#%-]*", name)
        assert name[-1] != "."
        assert name.partition(".")[0].upper() not in ("CON", "PRN", "AUX", "NUL", "COM1", "LPT1")
        assert len(f"{name}.ir-metadata.yml".encode()) <= 255
