"""Tiny translation models of the real classes, as fixtures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import translation_models as tiny
from translation_models import KINDS, LENGTH

from harness.io.checks import typed
from harness.systems.crosslingual.seq2seq import Seq2Seq


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    base = tmp_path_factory.mktemp("tiny")
    return {kind: tiny.save(base / kind, kind) for kind in KINDS}


@pytest.fixture(params=sorted(KINDS))
def make(request: pytest.FixtureRequest, folders: dict[str, Path]) -> Callable[..., Seq2Seq]:
    def made(**settings: Any) -> Seq2Seq:  # noqa: ANN401
        given = {"model": str(folders[request.param]), "device": "cpu", "beams": 1, "length": LENGTH, **settings}
        return typed(KINDS[request.param], {"overlong": "cut", **given}, "key 'translator'")

    return made


@pytest.fixture
def generated(monkeypatch: pytest.MonkeyPatch) -> list[tuple[dict[str, Any], Any]]:
    """What the models' own search was given and gave, call by call."""
    from transformers import M2M100ForConditionalGeneration, MBartForConditionalGeneration

    calls: list[tuple[dict[str, Any], Any]] = []
    for cls in (M2M100ForConditionalGeneration, MBartForConditionalGeneration):
        own: Any = cls.generate

        def generate(self: Any, *, own: Any = own, **given: Any) -> Any:  # noqa: ANN401
            calls.append((given, out := own(self, **given)))
            return out

        monkeypatch.setattr(cls, "generate", generate)
    return calls
