"""The tables of papers with a verdict for each number: recorded from a site of papers, and shown.

`harness site build --papers --output SITE`, then `python -m docs.make.papers SITE`, writes `docs/papers.json`.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from docs.make.tables import plain, table
from harness.papers.paper import load_paper
from harness.papers.records import read_settings, settings_in_words
from harness.systems.crosslingual.scripts import NAMES

RECORD = Path(__file__).resolve().parents[1] / "papers.json"
_CELL = ("group", "system", "collection", "slice", "metric", "aggregate", "printed", "value", "verdict")


def record(site: Path) -> None:
    """Writes the tables of all papers of a site that the harness built to `docs/papers.json`, a line per number."""
    lines = ["{"]
    papers = sorted(site.glob("papers/*/index.json"))
    for paper in papers:
        index = json.loads(paper.read_text(encoding="utf-8"))
        found = [
            json.loads((site / each["path"]).with_suffix(".json").read_text(encoding="utf-8"))
            for each in index["tables"]
        ]
        causes = list(dict.fromkeys(["", *(cell["cause"] for each in found for cell in each["cells"])]))
        lines.append(f'{json.dumps(index["paper"])}: {{"causes": [')
        lines += [",\n".join(json.dumps(cause, ensure_ascii=False) for cause in causes), '], "tables": [']
        for each in found:
            cells = [[*(cell[key] for key in _CELL), causes.index(cell["cause"])] for cell in each["cells"]]
            head = json.dumps([each["table"], each["caption"]], ensure_ascii=False)
            said = ",\n".join(json.dumps(cell, ensure_ascii=False) for cell in cells)
            lines += [f"[{head}, [", said, "]]" + "," * (each is not found[-1])]
        lines.append("]}" + "," * (paper != papers[-1]))
    RECORD.write_text("\n".join([*lines, "}"]) + "\n", encoding="utf-8")


def section(name: str) -> Iterator[str]:
    """Yields the lines of a paper's tables; nothing of what is no paper."""
    made = json.loads(RECORD.read_text(encoding="utf-8")).get(name)
    if made is None:
        return
    small = RECORD.parents[1] / f"reports/small-scale/{name}/report.md"
    if small.is_file():
        has = re.search(r"\d+ of \d+ printed numbers have such a value", small.read_text(encoding="utf-8"))
        yield from (
            f"[The report at small scale](../reports/{name}/report.md) has values from what is public and small"
            f"{f': {has[0]}' if has else ''}.",
            "",
        )
    if (RECORD.parents[1] / f"reports/reference/{name}/report.md").is_file():
        yield from (
            f"[The report](../reports/{name}/report.md) has the tests of the paper's claims with their families and"
            " numbers of topics, and results by topic.",
            "",
        )
    yield from (
        "## Tables",
        "",
        "Each number as printed; behind `/` as recomputed from the paper's public files. [What the verdicts"
        " mean](../explanation/verdicts.md).",
        "",
    )
    paper = load_paper(name)
    found = [[f"[{heading(head)}](#{_anchor(head)})", _counts(cells)] for head, cells in made["tables"]]
    yield from (table(["table", "numbers by verdict"], found), "")
    for head, cells in made["tables"]:
        yield from (f"### {heading(head)} {{#{_anchor(head)}}}", "", plain(head[1]), "")
        rows = [dict(zip((*_CELL, "cause"), cell, strict=True)) for cell in cells]
        yield from (_drawn([{**row, "metric": paper.metric(row["metric"])} for row in rows], head[1]), "")
    told = [f"{at}. {plain(cause)}" for at, cause in enumerate(made["causes"]) if cause]
    if told:
        yield from ("## Reasons", "", *told)


def settings_page(name: str) -> str:
    """Returns the page of a paper's settings, a table for each part."""
    settings = read_settings(name)
    lines = [
        f"# Settings of {name}",
        "",
        f"{settings_in_words(settings)}. [What was compared, and the columns](../settings.md).",
    ]
    lines += [f"From `conf/paper/settings/{name}.csv`.", ""]
    for part in dict.fromkeys(each.part for each in settings):
        rows = [each[1:] for each in settings if each.part == part]
        lines += [
            f"## {plain(part)}",
            "",
            table(["setting", "paper says", "authors' code says", "ours", "same"], rows),
            "",
        ]
    return "\n".join(lines)


def _drawn(cells: Sequence[Mapping[str, Any]], caption: str) -> str:
    """Returns a table with a row for each system, collection and part, and a column for each measure.

    Left out are columns without any word, and the group if all rows have the one that the caption names.
    """
    measures = list(dict.fromkeys(_measure(cell) for cell in cells))
    rows: dict[tuple[str, ...], dict[str, Mapping[str, Any]]] = {}
    for cell in cells:
        key = tuple(plain(str(cell[each])) for each in ("group", "system", "collection", "slice"))
        rows.setdefault(key, {})[_measure(cell)] = cell
    names = ("group", "system", "collection", "part")
    said = [{key[at] for key in rows} for at in range(len(names))]
    groups = {NAMES.get(group, group) for group in said[0]}
    named = len(groups) == 1 and min(groups) in caption
    kept = [at for at in range(len(names)) if said[at] != {""} and not (at == 0 and named)]
    drawn = []
    for key, found in rows.items():
        verdicts, causes = ({cell[each] for cell in found.values()} for each in ("verdict", "cause"))
        # What is not the same for all numbers of a row stands beside each.
        beside = [each for each, said in (("verdict", verdicts), ("cause", causes)) if len(said) > 1]
        shared = _said(next(iter(found.values())), [each for each in ("verdict", "cause") if each not in beside])
        numbers = (_number(found.get(each), beside) for each in measures)
        beginning = (NAMES.get(key[at], key[at]) if names[at] == "group" else key[at] for at in kept)
        drawn.append([*beginning, *numbers, shared or "see the numbers"])
    heads = (names[at] for at in kept)
    return table([*heads, *(plain(each) for each in measures), "verdict (reason)"], drawn)


def _said(cell: Mapping[str, Any], keys: Sequence[str]) -> str:
    """Returns the verdict of a number, the number of its reason, or both."""
    cause = f"([{cell['cause']}](#reasons))" if cell["cause"] and "cause" in keys else ""
    return " ".join(filter(None, [cell["verdict"] if "verdict" in keys else "", cause]))


def _measure(cell: Mapping[str, Any]) -> str:
    metric = str(cell["metric"]).replace("_", " ")
    return metric + ("" if cell["aggregate"] == "single" else f", {cell['aggregate'].replace('_', ' ')}")


def _number(cell: Mapping[str, Any] | None, beside: Sequence[str]) -> str:
    if cell is None:
        return ""
    value = str(cell["printed"]) + ("" if cell["value"] is None else f" / {cell['value']:.4f}")
    return " ".join(filter(None, [value, _said(cell, beside)]))


def heading(head: list[str]) -> str:
    """Returns the heading of a table from its number and caption.

    Examples
    --------
    >>> heading(["4.13", "Dependency graphs"]), heading(["text", ""])
    ('Table 4.13', 'text')
    """
    return f"Table {head[0]}" if head[0][:1].isdigit() else plain(head[0])


def _anchor(head: list[str]) -> str:
    return "table-" + "".join(letter if letter.isalnum() else "-" for letter in head[0].lower())


def _counts(cells: list[list[Any]]) -> str:
    verdicts = [cell[_CELL.index("verdict")] for cell in cells]
    return ", ".join(f"{verdicts.count(each)} {each}" for each in dict.fromkeys(verdicts))


if __name__ == "__main__":
    record(Path(sys.argv[1]))
