"""Runs in folders and archives of TIRA: what is read, and what is refused."""

from __future__ import annotations

import gzip
import tarfile
import zipfile
from pathlib import Path

import pytest
from archive_tools import placed, tarred, zipped
from hypothesis import given
from hypothesis import strategies as st

from harness.data.layouts import metadata_content, run_content
from harness.data.trec import read_run
from harness.errors import HarnessError
from harness.experiments.tira import metadata_of
from harness.io import archives, files

RUN = b"q1 Q0 d1 1 2.5 mine\nq1 Q0 d2 2 1.5 mine\n"
SAID = b"tag: mine\nplatform: {hardware: {ram: 1 GiB}}\n"


@pytest.mark.parametrize("place", ["", "output/", "2024-03-01/output/"])
@pytest.mark.parametrize("packed", [False, True])
def test_runs_are_read(tmp_path: Path, place: str, packed: bool) -> None:
    name, data = ("run.txt.gz", gzip.compress(RUN)) if packed else ("run.txt", RUN)
    files = {f"{place}{name}": data, f"{place}ir-metadata.yml": SAID, f"{place}.tirex/other.yml": b"x: 1\n"}
    made = [zipped(tmp_path / "a.zip", files), tarred(tmp_path / "a.tar.gz", files)]
    made += [tarred(tmp_path / "a.tar", files, "w"), tarred(tmp_path / "a.tar.xz", files, "w:xz")]
    if not place.startswith("2"):
        made.append(placed(tmp_path / "folder", files))
    for path in made:
        run = read_run(path)
        assert (run.name, run.to_dict(), run.source) == ("mine", {"q1": {"d1": 2.5, "d2": 1.5}}, str(path))
        assert metadata_content(path) == SAID


def refused(path: Path) -> str:
    with pytest.raises(HarnessError) as caught:
        read_run(path)
    (line,) = caught.value.lines
    assert line.startswith(f"{path}: ")
    return line.removeprefix(f"{path}: ")


def test_none_or_several(tmp_path: Path) -> None:
    none = {"README.md": b"x", "LICENSE": b"x"}
    says = "is an archive of 2 files, expected one file, or one of them named run.txt or run.txt.gz"
    assert refused(zipped(tmp_path / "a.zip", none)) == says
    says = "is a folder without run.txt or run.txt.gz, expected a file, or a folder of TIRA"
    assert refused(placed(tmp_path / "a", none)) == says
    assert metadata_content(tmp_path / "a.zip") is None
    two = {"x/run.txt": RUN, "y/run.txt": RUN}
    assert refused(tarred(tmp_path / "b.tgz", two)) == "has x/run.txt and y/run.txt; expected one of them"
    both = {"run.txt": RUN, "run.txt.gz": gzip.compress(RUN)}
    assert refused(placed(tmp_path / "b", both)) == "has run.txt and run.txt.gz; expected one of them"
    mac = {"output/run.txt": RUN, "__MACOSX/output/run.txt": b"\0\5\x16\7", "output/._run.txt": b"\0"}
    assert len(read_run(zipped(tmp_path / "mac.zip", mac))) == 2
    assert len(read_run(zipped(tmp_path / "one.zip", {"my.run": RUN, "._my.run": b"\0"}))) == 2
    empty = b"PK\5\6" + bytes(18)
    (tmp_path / "empty.run").write_bytes(empty)
    assert refused(tmp_path / "empty.run").startswith("is an archive of 0 files, expected one file")


@pytest.mark.parametrize("name", ["a.run", "a.txt", "a", "a.tar", "a.zip", "a.run.gz"])
@pytest.mark.parametrize("kind", ["zip", "w", "w:gz", "w:xz"])
def test_the_name_of_an_archive_says_nothing(tmp_path: Path, name: str, kind: str) -> None:
    files = {"out/run.txt": RUN, "out/ir-metadata.yml": SAID}
    path = zipped(tmp_path / name, files) if kind == "zip" else tarred(tmp_path / name, files, kind)
    assert len(read_run(path)) == 2
    assert metadata_of(path) == ({"tag": "mine", "platform": {"hardware": {"ram": "1 GiB"}}}, None)


def test_an_archive_by_another_name(tmp_path: Path) -> None:
    """It is known by its content."""
    assert len(read_run(zipped(tmp_path / "a.run", {"run.txt": RUN, "ir-metadata.yml": b"x: y"}))) == 2
    assert len(read_run(tarred(tmp_path / "b.run.gz", {"run.txt": RUN}))) == 2
    (tmp_path / "b.run.gz").rename(tmp_path / "b.tar")
    assert len(read_run(tmp_path / "b.tar")) == 2
    assert refused(zipped(tmp_path / "c.zip", {"run.txt": b""})) == "empty file, expected at least one line"


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
@pytest.mark.parametrize("name", ["a.zip", "a.run"])
def test_damaged_content_is_a_fault_of_the_file(tmp_path: Path, method: int, name: str) -> None:
    with zipfile.ZipFile(tmp_path / name, "w", method) as archive:
        archive.writestr("run.txt", RUN * 50)
    data = bytearray((tmp_path / name).read_bytes())
    data[45:60] = bytes(byte ^ 0x55 for byte in data[45:60])
    (tmp_path / name).write_bytes(data)
    assert "cannot be read" in refused(tmp_path / name)


@pytest.mark.parametrize("name", ["../run.txt", "/etc/run.txt", "a/../../run.txt"])
def test_names_that_lead_out(tmp_path: Path, name: str) -> None:
    for path in (zipped(tmp_path / "a.zip", {name: RUN}), tarred(tmp_path / "a.tar.gz", {name: RUN})):
        assert refused(path) == f"member {name!r} leads out of the archive's folder"


def test_links_and_devices(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE):
            member = tarfile.TarInfo("run.txt")
            member.type, member.linkname = kind, "/etc/passwd"
            archive.addfile(member)
            break
    assert refused(tmp_path / "a.tar") == "member 'run.txt' is not a regular file"
    link = zipfile.ZipInfo("run.txt")
    link.external_attr = 0o120777 << 16
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as packed:
        packed.writestr(link, "/etc/passwd")
    assert refused(tmp_path / "a.zip") == "member 'run.txt' is not a regular file"


def test_size_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "SMALL", 1 << 16)
    large = b"q1 Q0 d1 1 2.5 mine\n" * (1 << 17)
    says = "unpacks to more than 100 times its size; set HARNESS_MAX_BYTES to raise the limit"
    assert refused(zipped(tmp_path / "a.zip", {"run.txt": large})) == says
    assert refused(zipped(tmp_path / "b.zip", {"run.txt.gz": gzip.compress(large)})) == says
    assert refused(tarred(tmp_path / "a.tar.gz", {"run.txt": large})) == says
    monkeypatch.setattr(archives, "MAX_MEMBERS", 3)
    many = {f"{n}": b"" for n in range(4)}
    assert refused(zipped(tmp_path / "c.zip", many)) == "an archive of more than 3 members"
    path = zipped(tmp_path / "d.zip", {"run.txt": RUN * 99})
    with pytest.raises(HarnessError, match=r"d\.zip: unpacks to more than 300 bytes"):
        run_content(path, 300)


@given(st.binary(max_size=40), st.integers(0, 300), st.sampled_from(["zip", "tar.gz", "tar"]))
def test_damage_is_one_line(tmp_path_factory: pytest.TempPathFactory, junk: bytes, at: int, kind: str) -> None:
    """An archive with some bytes replaced is read as it was, or refused in one line a fault."""
    folder = tmp_path_factory.mktemp("damaged")
    files = {"output/run.txt": RUN, "output/ir-metadata.yml": SAID}
    path = folder / f"a.{kind}"
    _ = zipped(path, files) if kind == "zip" else tarred(path, files, "w:gz" if kind == "tar.gz" else "w")
    data = path.read_bytes()
    path.write_bytes(data[:at] + junk + data[at + len(junk) :])
    try:
        found = read_run(path).to_dict()
    except HarnessError as error:
        assert all(line.startswith(str(path)) for line in error.lines)
    else:
        assert found == {"q1": {"d1": 2.5, "d2": 1.5}} or kind == "tar"  # which has no checksums of contents
