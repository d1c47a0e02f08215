"""Apertium: the real one where it is installed, and one that fails in the ways that programs fail."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from lexical_tools import message

from harness.errors import HarnessError
from harness.formulas.text.masking import mask_formulas, unmask_formulas
from harness.io import config
from harness.systems.crosslingual import apertium
from harness.systems.crosslingual.apertium import Apertium
from harness.systems.crosslingual.translators import Translator
from harness.systems.states import system_state

LACKING = [*apertium.missing(), *filter(None, apertium.by_language().values())]
real = pytest.mark.skipif(bool(LACKING), reason="; ".join(LACKING) or "nothing is missing")
Program = Callable[..., None]


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    """A function that puts an `apertium` with some lines of shell, and its directions, before all others."""

    def put(script: str, *directions: str) -> None:
        folder = tmp_path / "usr"
        (folder / "bin").mkdir(parents=True)
        (folder / "share/apertium/modes").mkdir(parents=True)
        path = folder / "bin/apertium"
        path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        path.chmod(0o755)
        for name in directions:
            data = folder / f"{name}.bin"
            data.write_text(name, encoding="utf-8")
            mode = folder / f"share/apertium/modes/{name}.mode"
            mode.write_text(f"cat '{data}' | sed $1\n", encoding="utf-8")
        monkeypatch.setenv("PATH", f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}")

    return put


def test_it_is_a_translator() -> None:
    assert isinstance(Apertium(), Translator)
    assert Apertium().direction("hrv", "eng") == "hbs-eng"


def test_texts_come_back_one_for_one_and_in_order(program: Program) -> None:
    program("sed s/a/A/g", "spa-eng")
    texts = ["casa", "", "dos\nlíneas\n\n\ny más", " y\x1ez ", "casa", "\n"]
    expected = ["cAsA", "", "dos\nlíneAs\n\n\ny más", " y z ", "cAsA", "\n"]
    assert Apertium().translate(texts, "spa", "eng") == expected
    assert Apertium().translate([], "spa", "eng") == []


def test_it_is_told_the_direction(program: Program) -> None:
    program('cat; echo "$@" >&2; exit 3', "hbs-eng", "spa-eng")
    assert message(lambda: Apertium().translate(["kuća"], "hrv", "eng")) == (
        "apertium hbs-eng: ended with status 3: -u hbs-eng"
    )
    assert dict(Apertium().languages) == {"bos": "hbs", "hbs": "hbs", "hrv": "hbs", "spa": "spa", "srp": "hbs"}


def test_fewer_texts_than_were_sent(program: Program) -> None:
    program("head -n 1; echo 'Error: broken pipe' >&2", "spa-eng")
    assert message(lambda: Apertium().translate(["uno", "dos"], "spa", "eng")) == (
        "apertium spa-eng: gave 0 whole texts for 2: Error: broken pipe"
    )


@pytest.mark.parametrize("script", ["cat > /dev/null", "head -c 4", "head -c 5", "cat; echo more"])
def test_a_text_that_is_cut_off_is_no_translation(program: Program, script: str) -> None:
    """A chain of programs has the status of its last one."""
    program(script, "spa-eng")
    with pytest.raises(HarnessError, match=r"^apertium spa-eng: gave [01] whole texts for 1$"):
        Apertium().translate(["uno y dos"], "spa", "eng")


def test_a_program_that_dies(program: Program) -> None:
    program("kill -9 $$", "spa-eng")
    assert message(lambda: Apertium().translate(["uno"], "spa", "eng")) == (
        "apertium spa-eng: ended with status -9: it says nothing"
    )


def test_a_direction_that_is_not_installed(program: Program) -> None:
    program("cat", "fra-eng")
    assert apertium.missing() == ["apertium lacks languages: apt install apertium-eng-spa apertium-hbs-eng"]
    assert message(lambda: Apertium().translate(["uno"], "spa", "eng")) == (
        "apertium has no direction spa-eng for language 'spa': apt install apertium-eng-spa"
    )
    assert message(lambda: Apertium().identity("pes", "eng")) == (
        "apertium has no direction pes-eng for language 'pes'; here are fra-eng"
    )


def test_with_both_languages_it_is_ready(program: Program) -> None:
    program("cat", "spa-eng", "hbs-eng")
    found = config.load("system", "cross-lingual-apertium")[0]
    assert system_state(found, "cross-lingual-apertium") == ("ready", "ready")


def test_without_the_program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert apertium.missing() == ["apertium is not installed: apt install apertium apertium-eng-spa apertium-hbs-eng"]
    assert message(lambda: Apertium().translate(["uno"], "hrv", "eng")) == (
        "apertium is not installed: apt install apertium apertium-hbs-eng"
    )
    assert dict(Apertium().languages) == {}


def test_what_decides_its_translations(program: Program, tmp_path: Path) -> None:
    program("cat", "spa-eng", "hbs-eng")
    spanish, croatian, both = (Apertium().identity(*way) for way in (("spa", "eng"), ("hrv", "eng"), ()))
    assert list(spanish["files"]) == ["usr/spa-eng.bin"]
    assert both["files"] == spanish["files"] | croatian["files"]
    text = {
        name for name in ("apertium-destxt", "apertium-retxt") if shutil.which(name)
    }  # in front is a folder of ours
    assert {"apertium", "cat", "sed"} | text == set(spanish["programs"])
    (tmp_path / "usr/spa-eng.bin").write_text("other rules", encoding="utf-8")
    assert Apertium().identity("spa", "eng") != spanish
    assert Apertium().identity("hrv", "eng") == croatian


@pytest.mark.slow
@real
def test_real_spanish() -> None:
    texts = ["Sea $x$ un número primo. ¿Es $x^2$ par?", "", "la casa blanca", "zzyzx"]
    masked = [mask_formulas(text, blanks=True) for text in texts]
    found = Apertium().translate([there.text for there in masked], "spa", "eng")
    back = [unmask_formulas(text, there) for text, there in zip(found, masked, strict=True)]
    assert all(integrity.intact for _, integrity in back)
    assert [text for text, _ in back][1:] == ["", "The white house", "zzyzx"]
    assert "prime number" in back[0][0]
    assert Apertium().translate([there.text for there in masked[::-1]], "spa", "eng") == found[::-1]
