"""Lines of a corpus are read as `json.loads` reads them, encodings and faults included."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis_tools import examples

from harness.collections.corpus import Corpus
from harness.errors import HarnessError

ROW = {"id": "d", "text": "ž\U0001d465"}
LINES = st.one_of(
    st.binary(max_size=12),
    st.sampled_from([json.dumps(ROW).encode(kind) for kind in ("utf-16", "utf-16-le", "utf-32-be", "ascii")]),
    st.just(json.dumps(ROW, ensure_ascii=False).encode()),
    st.sampled_from(
        [b'{"id": "d"} ', b'{"id": "d"} x', b'{"id": "d"}{', b' {"id": "d"}', b'{\0"id": "d"}', b"{1", b"{}}"]
    ),
    st.sampled_from(
        [b'\xef\xbb\xbf{"id": "d"}', b'{"id": "d", "text": "\xed\xa0\x80"}', b'{"id": NaN}', b'{"id": "\\ud8"}']
    ),
)


@given(line=LINES, cut=st.integers(0, 60))
@settings(max_examples=examples(400), deadline=None)
def test_lines_are_read_as_json_loads_reads_them(line: bytes, cut: int) -> None:
    line = line[: len(line) - cut if cut < 20 else None].rstrip(b"\r\n")
    if not line.strip() or b"\n" in line:
        return
    expected: object
    try:
        row = json.loads(line)
        name = row.get("id") if isinstance(row, dict) else None
        expected = name if isinstance(name, str) and name.isalnum() and name != "first" else None
    except json.JSONDecodeError as error:
        expected = f"not a document: not JSON at character {error.pos + 1}: {error.msg.removesuffix(' at')}"
    except UnicodeDecodeError as error:
        expected = f"not a document: not text: {error}"
    if expected is None:
        return  # no id: other tests have the messages
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "c.jsonl"
        path.write_bytes(b'{"id": "first"}\n' + line)
        try:
            found = [document.id for document in Corpus("c", "C", "CC0", path, (("id", "id"),))][1]
        except HarnessError as error:
            found = str(error).removeprefix(f"{path}:2: ")
    assert found == expected
