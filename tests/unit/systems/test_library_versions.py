"""What models compute is kept by the versions of all libraries that decide it."""

from __future__ import annotations

from importlib import metadata

import pytest

from harness.systems.dense import cross_encoder


@pytest.mark.parametrize("library", ["torch", "transformers", "tokenizers", "sentence-transformers"])
def test_scores_are_kept_by_the_versions_of_all_libraries(monkeypatch: pytest.MonkeyPatch, library: str) -> None:
    before = cross_encoder._inputs("query", ["document"], {})
    assert cross_encoder._inputs("query", ["document"], {}) == before
    version = metadata.version
    monkeypatch.setattr(metadata, "version", lambda name: "0" if name == library else version(name))
    assert cross_encoder._inputs("query", ["document"], {}) != before
