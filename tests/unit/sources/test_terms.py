"""Sources with terms of use, and files that come in parts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from fetch_tools import isolate, sha
from refusals import refuses

from harness.cli.fetch import fetch as fetch_command
from harness.io.files import cache_root
from harness.sources import catalogue, fetch

PARTS = {"a.part0": b"first half, ", "a.part1": b"second half"}
WHOLE = b"".join(PARTS.values())


@pytest.fixture
def source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, conf: Callable[[str, str, str], Path]
) -> Callable[..., None]:
    """A function that writes the source `parted`, whose parts lie in a mirror."""
    isolate(tmp_path, monkeypatch)
    monkeypatch.setenv("HARNESS_CONF", str(tmp_path / "user-conf"))
    monkeypatch.setenv("HARNESS_MIRROR", str(tmp_path / "mirror"))

    def write(said: str = "https://example.org/terms", checksum: str = sha(WHOLE)) -> None:
        files = ""
        for name, content in PARTS.items():
            place = tmp_path / "mirror" / "pypi" / "parted" / "1.0" / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
            files += f"  {name}: {{package: parted==1.0, sha256: {sha(content)}, size: {len(content)}}}\n"
        joined = f"joined: {{file: a.bin, sha256: {checksum}}}\n"
        conf("source", "parted", f"title: P\nlicence: Theirs\nterms: {said}\n{joined}files:\n{files}")

    return write


def test_terms_are_shown_and_asked_for_once(
    source: Callable[..., None], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    source()
    refuses(
        "fetch 'parted': its terms of use are not accepted; to accept them: --accept", lambda: fetch_command(["parted"])
    )
    assert "parted has terms of use: Theirs, https://example.org/terms" in capsys.readouterr().err
    assert not (cache_root() / "pypi").exists()
    refuses("harness fetch parted --accept", lambda: fetch.whole("parted"))
    fetch_command(["parted"], accept=True)
    captured = capsys.readouterr()
    assert "https://example.org/terms" in captured.err
    path = Path(captured.out.splitlines()[0])
    assert path.read_bytes() == WHOLE
    assert captured.out.splitlines()[1:] == ["2 files, checksums right"]
    fetch_command(["parted"])
    assert "terms" not in capsys.readouterr().err
    source(said="https://example.org/other")
    refuses("not accepted", lambda: fetch_command(["parted"]))


def test_a_damaged_whole_is_put_together_again_and_a_wrong_one_refused(source: Callable[..., None]) -> None:
    source()
    fetch.accept("parted")
    path = fetch.whole("parted")
    path.write_bytes(WHOLE[:-1])
    assert fetch.whole("parted").read_bytes() == WHOLE
    source(checksum=sha(b"other"))
    path.unlink()
    refuses(f"expected sha256 {sha(b'other')} of a.bin, found {sha(WHOLE)}", lambda: fetch.whole("parted"))
    assert not list(path.parent.iterdir())


def test_a_source_that_has_neither() -> None:
    assert fetch.accepted("all-minilm-l6-v2")
    refuses("source 'all-minilm-l6-v2' holds no file in parts", lambda: fetch.whole("all-minilm-l6-v2"))


def test_the_model_of_ours_asks_and_is_fetched_by_no_other_name() -> None:
    assert not fetch.accepted("gemma-3-270m")
    assert "gemma-3-270m" not in catalogue.model_names()
    described = catalogue.joined("gemma-3-270m")
    assert described is not None
    assert described.file.endswith(".gguf")
