from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from case_tables import literals
from refusals import refusal as message

from harness.collections.beir import BeirCollection
from harness.collections.corpora import load_corpus
from harness.collections.load import load_collection
from harness.errors import HarnessError, suggestion
from harness.io import config
from harness.io.files import data_root
from harness.papers.paper import load_paper, paper_names
from harness.scoring.protocol import load_protocol
from harness.sources import catalogue
from harness.sources.resource import Resource
from harness.systems.build import load_system

Conf = Callable[[str, str, str], Path]
OURS = data_root() / "conf"
SHA = "0" * 64
COMMIT = "1" * 40


@pytest.mark.parametrize(("text", "fault"), literals("io/config_faults_of_yaml_name_the_line"))
def test_faults_of_yaml_name_the_line(text: bytes, fault: str) -> None:
    assert message(lambda: config.parse(text, "f")) == fault


def test_bytes_that_are_no_utf8_are_a_fault() -> None:
    fault = message(lambda: config.parse(b"a: \xff\n", "f"))
    assert fault.startswith("f: not valid YAML: ")
    assert "invalid leading UTF-8 octet" in fault


def test_a_file_that_is_no_configuration(conf: Callable[[str, str, str], Path]) -> None:
    path = conf("protocol", "mine", "name: mine\n" + "# x\n" * (1 << 20))
    assert message(lambda: config.load("protocol", "mine")) == f"{path}: larger than 4,194,304 bytes"
    path.unlink()
    path.symlink_to("/dev/zero")
    assert message(lambda: config.load("protocol", "mine")) == f"{path}: is a device, expected a file"


def test_values_are_plain() -> None:
    text = b"a: [1, 2.5, x]\nb: {1: yes, c: null}\n"
    assert config.parse(text, "f") == {"a": [1, 2.5, "x"], "b": {1: True, "c": None}}


def test_an_unknown_name_is_answered_with_the_nearest_one() -> None:
    fault = message(lambda: config.load("collection", "arqmath-1-tsak1"))
    assert fault == "collection 'arqmath-1-tsak1' is unknown; did you mean 'arqmath-1-task1'?"


def test_an_unknown_name_without_a_near_one_is_answered_with_all() -> None:
    fault = message(lambda: config.load("system", "xyzzy"))
    assert fault == f"system 'xyzzy' is unknown; {suggestion('xyzzy', config.names('system'))}"


def test_an_unknown_group_is_an_error() -> None:
    for ask in (lambda: config.names("colection"), lambda: config.load("colection", "mini-task1")):
        assert message(ask) == "configuration group 'colection' is unknown; did you mean 'collection'?"


def test_a_missing_folder_of_the_user_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HARNESS_CONF", str(tmp_path / "absent"))
    assert message(lambda: config.names("system")) == f"HARNESS_CONF={tmp_path / 'absent'}: no such folder"


def test_the_users_configurations_stand_beside_ours(conf: Conf) -> None:
    path = conf("system", "mine", "title: Mine\n_target_: harness.systems.baselines.Shuffle\nseed: 7\n")
    assert config.names("system")["mine"] == path
    assert "overlap" in config.names("system")
    assert config.load("system", "mine") == (
        {"title": "Mine", "_target_": "harness.systems.baselines.Shuffle", "seed": 7, "name": "mine"},
        str(path),
    )


def test_the_folder_conf_below_the_current_one_is_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "conf" / "system").mkdir(parents=True)
    (tmp_path / "conf" / "system" / "mine.yaml").write_text("title: Mine\n")
    monkeypatch.chdir(tmp_path)
    assert config.folders() == (OURS, tmp_path / "conf")
    assert "mine" in config.names("system")


def test_our_own_folder_is_not_read_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(OURS.parent)
    assert config.folders() == (OURS,)
    monkeypatch.setenv("HARNESS_CONF", str(OURS))
    assert config.folders() == (OURS,)


def test_a_name_of_ours_cannot_be_taken(conf: Conf) -> None:
    path = conf("protocol", "arqmath-task1", "name: arqmath-task1\n")
    expected = f"{path}: the harness has a protocol of this name already; choose another file name"
    assert message(lambda: config.names("protocol")) == expected
    assert message(lambda: config.load("protocol", "trec_eval")) == expected


def test_a_checkout_of_the_harness_is_one_with_it_while_its_files_are_equal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = config.names("system")
    shutil.copytree(OURS, tmp_path / "conf")
    (tmp_path / "harness").mkdir()
    (tmp_path / "harness" / "version.py").touch()
    monkeypatch.chdir(tmp_path)
    assert config.names("system") == before
    with (tmp_path / "conf/system/_bm25.yaml").open("a") as file:  # the base of bm25-plus and others
        file.write("# changed\n")
    config._names.cache_clear()
    fault = message(lambda: config.names("system"))
    assert fault.startswith(f"{tmp_path}/conf/system/") and "this checkout of the harness has another" in fault


def test_what_load_gives_can_be_changed_without_harm() -> None:
    config.load("system", "shuffle")[0]["seed"] = 99
    assert config.load("system", "shuffle")[0]["seed"] == 0


def test_an_embedded_file_lies_in_the_package() -> None:
    path = catalogue.resource({"embedded": "qrels/mini-task1.txt"}, "f")
    assert isinstance(path, Path)
    assert path == data_root() / "qrels" / "mini-task1.txt"
    assert path.is_file()


def test_a_local_file_is_named_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    assert catalogue.resource({"file": "a/b.txt"}, "f") == Path("a/b.txt")
    assert catalogue.resource({"file": "../b.txt"}, "f", Path("conf/c")) == Path("conf/b.txt")
    assert catalogue.resource({"file": "/a/b.txt"}, "f", Path("conf/c")) == Path("/a/b.txt")
    assert catalogue.resource({"file": "~/b.txt"}, "f") == Path("/home/somebody/b.txt")


def test_a_folder_that_is_a_link_is_left_as_the_system_reads_it(tmp_path: Path) -> None:
    (tmp_path / "far" / "conf").mkdir(parents=True)
    (tmp_path / "near").symlink_to(tmp_path / "far" / "conf")
    (tmp_path / "far" / "b.txt").write_text("x")
    found = catalogue.resource({"file": "../b.txt"}, "f", tmp_path / "near")
    assert isinstance(found, Path)
    assert found.read_text() == "x"


def test_a_file_of_a_source_has_its_checksum(conf: Conf) -> None:
    head = f"title: S\nlicence: CC0\nrepository: a/b\ncommit: '{COMMIT}'\n"
    conf("source", "mine", f"{head}files:\n  x/y.txt: {{sha256: '{SHA}', size: 3}}\n")
    expected = Resource("a/b", COMMIT, "x/y.txt", SHA, 3, "CC0")
    assert catalogue.resource({"source": "mine", "path": "x/y.txt"}, "f") == expected


@pytest.mark.parametrize(("source", "mapping", "fault"), literals("io/config_faults_of_files"))
def test_faults_of_files(conf: Conf, source: str, mapping: dict[str, Any], fault: str) -> None:
    path = conf("source", "mine", f"title: S\nlicence: CC0\nurl: 'http://x/y'\n{source}\n")
    found = message(lambda: catalogue.resource(mapping, "f"))
    assert found.startswith(fault.replace("PATH", str(path)))


@pytest.mark.parametrize("name", config.names("collection"))
def test_every_collection_of_ours_loads(name: str) -> None:
    collection = load_collection(name)
    assert load_protocol(collection.protocol).name == collection.protocol
    if isinstance(collection, BeirCollection):  # of the hub: at a fixed revision, and counted by nobody here
        assert re.fullmatch("[0-9a-f]{40}", collection.data.revision)
        return
    for edition in collection.editions.values():
        assert edition.topics > 0
        # A manual download could not be counted.
        assert edition.judgments > 0 or (isinstance(edition.file, Resource) and edition.file.by_hand)


@pytest.mark.slow
def test_everything_else_of_ours_loads() -> None:
    for name in config.names("protocol"):
        assert load_protocol(name).name == name
    for name in config.names("corpus"):
        assert load_corpus(name).name == name
    for name, path in config.names("system").items():
        try:
            assert callable(load_system(name))
        except HarnessError as error:
            # A parameter that the user must give, or an extra that is not installed here.
            expected = r"(key '\w+' is missing|.* pip install .*|.* is (blocked|not implemented): .*|.* needs .*)"
            assert all(re.fullmatch(re.escape(f"{path}: ") + expected, line) for line in error.lines)
    assert callable(load_system("overlap"))
    assert [load_paper(name).key for name in paper_names()] == paper_names()


def test_every_file_of_every_source_of_ours_is_well_described() -> None:
    count = 0
    for name in config.names("source"):
        source, _ = config.load("source", name)
        for path in source["files"]:
            file = catalogue.resource({"source": name, "path": path}, "f")
            assert isinstance(file, Resource)
            assert file.by_hand or (file.sha256 and file.size > 0)
            count += 1
    assert count > 80


@pytest.mark.parametrize(
    ("files", "fault"),
    [
        ("", "key 'files' is missing"),
        ("5", "key 'files' is 5, expected keys and values"),
        ("{5: 6}", "files: 5: expected keys and values, found 6"),
    ],
)
def test_a_source_whose_files_are_none(conf: Callable[[str, str, str], Path], files: str, fault: str) -> None:
    path = conf("source", "mine", f"title: x\nlicence: CC0\nfiles: {files}\n")
    assert message(lambda: catalogue.source_files("mine")) == f"{path}: {fault}"
