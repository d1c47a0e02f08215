"""Exported collections as mteb reads them, in a process of its own: mteb takes its settings when imported."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from harness import load_collection, load_corpus
from harness.collections.readers import beir
from harness.collections.writers.contents import body, contents
from harness.collections.writers.folder import export

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        find_spec("mteb") is None, reason="mteb is not installed (65 MB): pip install 'mathir-harness[mteb]'"
    ),
]
LOAD = """
import importlib.util, json, sys
def task(folder):
    spec = importlib.util.spec_from_file_location("task", f"{folder}/task.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Task()
out = {}
for folder in sys.argv[1:]:
    found = task(folder)
    found.load_data()
    data = found.dataset["default"]["test"]
    out[folder] = {
        "name": found.metadata.name,
        "languages": found.metadata.eval_langs,
        "corpus": [[row["id"], row["title"], row["text"]] for row in data["corpus"]],
        "queries": [[row["id"], row["text"]] for row in data["queries"]],
        "judgments": data["relevant_docs"],
    }
print(json.dumps(out))
"""


def asked(program: str, home: Path, *arguments: str) -> dict[str, Any]:
    """What a program prints as JSON; it runs without a network, with a cache of its own."""
    settings = {"HF_HOME": str(home), "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TQDM_DISABLE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env=os.environ | settings,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.heavy
def test_mteb_loads_it(tmp_path: Path) -> None:
    names = ("mini-theorems", "mini-task1", "mini-task2", "mini-task1-pes")
    for name in names:
        found = load_collection(name)
        export(found, load_corpus(found.corpus), "mteb", tmp_path / name)
    read = asked(LOAD, tmp_path / "home", *(str(tmp_path / name) for name in names))
    for name in names:
        found, loaded = load_collection(name), read[str(tmp_path / name)]
        corpus = load_corpus(found.corpus)
        kept = contents(found, corpus)
        judgments = beir.qrels(beir.in_folder(tmp_path / name, name), "official").to_dict()
        assert loaded["corpus"] == [[each.id, each.title, body(each)] for each in corpus]
        assert loaded["queries"] == [[each.id, kept.query(each)] for each in found.topics() if each.id in judgments]
        assert loaded["judgments"] == judgments
    assert read[str(tmp_path / "mini-task1-pes")]["languages"] == ["pes-Arab"]
    assert read[str(tmp_path / "mini-task1")]["name"] == "MiniTask1"
