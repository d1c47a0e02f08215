"""Comparisons as documents: those of an earlier version are read."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from harness.errors import HarnessError
from harness.scoring.compare import compare
from harness.scoring.comparison_files import from_json, to_json
from harness.scoring.protocol import Protocol
from harness.scoring.scores import Scores


def test_a_document_of_version_2_is_read() -> None:
    """It lacks what version 3 added, which then is as without the options that need it."""
    how, topics = Protocol("p", ("AP",)), ("1", "2", "3")
    values = {"a": [0.1, 0.9, 0.4], "b": [0.2, 0.5, 0.4], "c": [0.5, 0.5, 0.5]}
    runs = [Scores(run, "c", "e", how, ("AP",), topics, np.array(of)[:, None]) for run, of in values.items()]
    comparison = compare(runs)
    data = json.loads(json.dumps(to_json(comparison), allow_nan=False))
    added = {"freedom", "p_max_t", "significant_max_t", "seeds_a", "seeds_b"}
    old = {key: value for key, value in data.items() if key not in ("marks", "equivalence")} | {"version": 2}
    old["rows"] = [{key: value for key, value in row.items() if key not in added} for row in data["rows"]]
    rows = tuple(replace(row, freedom=None) for row in comparison.rows)
    assert from_json(old) == replace(comparison, rows=rows)
    with pytest.raises(HarnessError) as raised:
        from_json(old | {"version": 3})
    assert str(raised.value) == "comparison: key 'equivalence' is missing"
