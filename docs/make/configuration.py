"""The reference of configurations: a page per group, a page per system and per paper."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import yaml

from docs.make import keys, papers
from docs.make.tables import code, plain, table
from harness.cli import entries
from harness.cli.facts import configuration_facts
from harness.cli.key_descriptions import file_comments
from harness.io import config
from harness.papers.paper import paper_names
from harness.papers.records import read_settings

ROOT = Path(__file__).resolve().parents[2]
FAMILIES = {
    "baselines": "Baselines",
    "lexical": "Lexical",
    "structural": "Structural: formula trees",
    "dense": "Dense and neural",
    "mathamr": "MathAMR+",
    "crosslingual": "Cross-lingual",
    "theorems": "Theorem search",
    "foreign": "Other libraries",
    "listwise": "Re-ranking by language models",
    "fusion": "Fusion",
}  # module below harness.systems -> heading
RESULTS = {
    "lexical": "lexical-systems",
    "structural": "formula-search",
    "dense": "bi-encoders-and-cross-encoders",
    "mathamr": "graphs-mathamr",
    "crosslingual": "cross-lingual-retrieval",
    "theorems": "theorem-search",
}  # module below harness.systems -> anchor in docs/results.md
OWN_PAGES = {
    "systems": "systems",
    "papers": "papers",
    "collections": "reference/collections",
    "experiments": "reference/experiments",
}  # group whose entries have a page each -> folder in the site


def pages() -> Iterator[tuple[str, str]]:
    """Yields (path in the site, text) of all generated pages about configurations."""
    yield "reference/configuration.md", overview()
    for group in entries.GROUPS:
        rows, folder = entries.rows(group), entries.GROUPS[group].folder
        if group == "papers":  # `all` and `demo` are words of the command, no papers
            rows = [row for row in rows if row["name"] in paper_names()]
        if group in OWN_PAGES:
            yield f"{OWN_PAGES[group]}/index.md", _index(group, rows)
            for row in rows:
                title = row["title"] if group == "papers" else row["name"]
                yield f"{OWN_PAGES[group]}/{row['name']}.md", f"# {plain(title)}\n\n{entry(group, row['name'])}"
        else:
            parts = [
                f"# {heading(group)}",
                "",
                f"What `conf/{entries.GROUPS[group].folder}/` has: {entries.GROUPS[group].says}.",
            ]
            if folder in keys.FILES:
                parts += ["", f"[Every key that such a file may have](keys.md#{folder})."]
            for row in rows:
                parts += ["", f"## {plain(row['name'])}", "", entry(group, row["name"])]
            yield f"reference/{group}.md", "\n".join(parts)


def heading(group: str) -> str:
    """Returns the title of a group's page, which no other page has.

    Examples
    --------
    >>> heading("corpora"), heading("llms")
    ('All corpora', 'All language models')
    """
    return f"All {'language models' if group == 'llms' else group}"


def overview() -> str:
    """Returns the page of the groups, and of the keys of `run` and `reproduce`."""
    lines = [
        "# Groups of configurations",
        "",
        "Each group is a folder of YAML files in `conf/`; a folder `conf/` below the current one adds to them.",
        "",
    ]
    rows = []
    for name, group in entries.GROUPS.items():
        to = os.path.relpath(f"{OWN_PAGES[name]}/index.md", "reference") if name in OWN_PAGES else f"{name}.md"
        rows.append([f"[{name}]({to})", code(f"{group.folder}=NAME"), str(len(config.names(group.folder))), group.says])
    lines += [table(["group", "word of a command", "entries", "what one is"], rows), ""]
    lines += ["[Every key of each kind of file](keys.md), of launchers and of callbacks.", ""]
    for command in ("run", "reproduce"):
        says = file_comments(ROOT / f"conf/{command}.yaml")
        mapping = yaml.safe_load((ROOT / f"conf/{command}.yaml").read_text(encoding="utf-8"))
        rows = [
            [code(key), code(keys.written(value)), plain(says.get(key, ""))]
            for key, value in mapping.items()
            if key not in ("defaults", "hydra")
        ]
        lines += [f"## Keys of harness {command}", "", table(["key", "default", "meaning"], rows), ""]
    return "\n".join(lines)


def _index(group: str, rows: Sequence[Mapping[str, str]]) -> str:
    lines = [f"# {heading(group)}", ""]
    if group == "papers":
        shown = [[f"[{row['name']}]({row['name']}.md)", row.get("title", ""), row.get("published", "")] for row in rows]
        return "\n".join([*lines, table(["name", "title", "published numbers"], shown), ""])
    if group != "systems":
        shown = [[f"[{row['name']}]({row['name']}.md)", plain(row.get("title", ""))] for row in rows]
        folder, says = entries.GROUPS[group].folder, entries.GROUPS[group].says
        about = f"What `conf/{folder}/` has: {says}. [Every key that such a file may have](../keys.md#{folder})."
        return "\n".join([*lines, about, "", table(["name", "title"], shown), ""])
    families: dict[str, list[list[str]]] = {}
    for row in rows:
        mapping, _ = config.load("system", row["name"])
        family = FAMILIES.get(_family(mapping), "Not implemented or not available")
        extra = str(mapping.get("extra", ""))
        line = [f"[{row['name']}]({row['name']}.md)", plain(row["title"]), code(extra), row["paper"]]
        families.setdefault(family, []).append(line)
    lines += [
        "`pip install 'mathir-harness[EXTRA]'` installs what a system needs ([installing](../installing.md))."
        " `harness list systems` shows what is ready on your machine, `harness doctor` how to install the rest.",
        "",
    ]
    for family in (*FAMILIES.values(), *(families.keys() - FAMILIES.values())):
        if family in families:
            lines += [f"## {family}", "", table(["name", "title", "extra", "paper"], families.pop(family)), ""]
    return "\n".join(lines)


def _family(mapping: Mapping[str, object]) -> str:
    """Returns the module below harness.systems that a system's class is in."""
    return next(iter(str(mapping.get("_target_", "")).split(".")[2:3]), "")


def entry(group: str, name: str) -> str:
    """Returns what `harness show` says of an entry of a group, as Markdown without its heading."""
    made = configuration_facts(group, name)
    facts = {key: value for key, value in made["facts"].items() if key not in ("name", "title", "group")}
    title = "" if group == "papers" else made["facts"].get("title", "")  # that of the page
    lines = [plain(title), ""]
    if group == "systems" and facts["state"] in ("ready", "needs"):  # of the machine that makes the page
        facts = {key: value for key, value in facts.items() if key not in ("state", "missing")}
    if group == "papers":
        facts |= {each["key"]: each["value"] for each in made["settings"] if each["key"] in ("url", "code")}
    lines += [table(["fact", "value"], [[key, _fact(key, value)] for key, value in facts.items()]), ""]
    if made["settings"] and group != "papers":
        rows = [[code(each["key"]), _setting(each), plain(each["says"])] for each in made["settings"]]
        lines += [table(["setting", "value", "meaning"], rows), ""]
        cut = any(re.fullmatch(r"`\d+ entr(y|ies)`", value) for _, value, _ in rows)
        if cut and group not in ("systems", "papers", "sources"):
            path = config.names(entries.GROUPS[group].folder)[name]
            lines += ["```yaml", path.read_text(encoding="utf-8").rstrip("\n"), "```", ""]
    if group == "systems" and (inner := list(keys.inner_rows(name))):
        # Many systems have the same ones, which would make up a third of the index of the search.
        lines += ["## Keys inside these settings { data-search-exclude }", ""]
        lines += [f"In a command: `system.KEY=VALUE`, such as `system.{inner[0][0].strip('`')}=...`.", ""]
        lines += [table(["key", "value", "meaning"], inner), ""]
    if made["files"]:
        lines += [table(["file", "size"], [[code(each["name"]), each["size"]] for each in made["files"]]), ""]
    if made["example"]:
        lines += ["```text", made["example"], "```", ""]
    family = _family(config.load("system", name)[0]) if group == "systems" else ""
    if family in RESULTS:
        lines += [
            f"[Results of systems of this family](../results.md#{RESULTS[family]}), on the corpora named there.",
            "",
        ]
    if group == "papers":
        if read_settings(name):
            lines += [f"[The settings of each system, in the paper and here](settings-{name}.md)", ""]
        lines += papers.section(name)
    return "\n".join(lines).replace(f"{ROOT}/", "")  # the paths of the repository


def _setting(each: Mapping[str, str]) -> str:
    """Returns a setting's value as code, but notes as text."""
    notes = yaml.safe_load(each["value"]) if each["key"] == "notes" else None
    return plain(" ".join(notes)) if isinstance(notes, list) else code(each["value"])


def _fact(key: str, value: str) -> str:
    if key in ("url", "code"):
        return f"<{value}>"
    return code(value) if key in ("file", "class", "install") else plain(value)
