"""Pages of papers: each table has its page, each value its verdict, each row the commands that recompute it."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import jsonschema
import pytest
from site_tools import Seen

import harness
from harness.io.files import cache_root
from harness.papers.paper import load_paper
from harness.papers.report.pages import paper_files, paper_line, papers_page
from harness.papers.reproduce import recompute_paper

FOLDER = Path(harness.__file__).parent / "data" / "schemas"


def files_of(key: str) -> dict[str, str]:
    return {path: text for files in paper_files(recompute_paper(load_paper(key))) for path, text in files.items()}


@pytest.mark.slow
@pytest.mark.parametrize("key", ["mathlib4", "mirmu-msm", "saber-math"])
def test_a_paper_without_archived_runs(key: str) -> None:
    paper = load_paper(key)
    found = files_of(key)
    summary = json.loads(found[f"papers/{key}/index.json"])
    assert sum(summary["counts"].values()) == len(paper.cells)
    assert [each["table"] for each in summary["tables"]] == list(dict.fromkeys(cell.table for cell in paper.cells))
    seen: Counter[str] = Counter()
    for each in summary["tables"]:
        document = json.loads(found[each["path"].replace(".html", ".json")])
        schema = json.loads((FOLDER / "site-table.json").read_text(encoding="utf-8"))
        jsonschema.Draft202012Validator(schema).validate(document)
        seen.update(cell["verdict"] for cell in document["cells"])
        assert all(f"harness reproduce paper={key}" in row["commands"] for row in document["rows"])
        page = Seen(found[each["path"]])
        assert page.tags.count("details") > len(document["rows"])
        rows = list(csv.DictReader(found[each["path"].replace(".html", ".csv")].splitlines()))
        assert [row["printed"] for row in rows] == [cell["printed"] for cell in document["cells"]]
    assert dict(seen) == summary["counts"]
    listed = papers_page([paper_line(recompute_paper(paper))]).files()["papers/index.html"]
    assert paper.title.split(":")[0] in listed


@pytest.mark.heavy
@pytest.mark.real
@pytest.mark.usefixtures("mirror")
def test_the_command_of_a_row_gives_its_value() -> None:
    found = files_of("crossmath")
    table = json.loads(found["papers/crossmath/2.json"])
    assert {cell["verdict"] for cell in table["cells"]} == {"exact"}
    row = table["rows"][0]
    fetched, scored = row["commands"][0], row["commands"][1]
    assert fetched == "harness fetch crossmath"
    program = f"{sys.executable} -m harness"
    command = ["/bin/bash", "-c", scored.replace("harness", program, 1)]
    environment = {**os.environ, "HARNESS_CACHE": str(cache_root())}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    first = next(c for c in table["cells"] if c["system"] == row["system"] and c["collection"] == "arqmath-1")
    assert f"{first['value']:.4f}" in done.stdout
