"""The documentation: generated references hold everything they are of, and links lead somewhere."""

from __future__ import annotations

import doctest
import importlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import typer
import yaml

from docs.make import __main__ as make
from docs.make import (
    architecture,
    commands,
    configuration,
    files,
    keys,
    navigation,
    papers,
    python,
    results,
    staging,
    tables,
)
from docs.make.staging import rewritten, shown
from harness.cli import entries, key_descriptions
from harness.cli.facts import configuration_facts
from harness.cli.main import app
from harness.io import config
from harness.papers.paper import paper_names
from harness.papers.records import read_settings, settings_in_words
from harness.systems import states
from harness.systems.keys import defaults, inner_classes

ROOT = Path(__file__).parents[2]
PAGES = sorted(name for name in shown() if name.endswith(".md"))
LINK = re.compile(r"\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^()\s]+)\)")


def sections(page: str) -> dict[str, str]:
    """Heading of the second level -> the text below it."""
    parts = re.split(r"^## (.*)$", page, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def helped(command: typer.core.TyperGroup, words: str) -> Iterator[tuple[str, str]]:
    """Each command with what `--help` prints of it."""
    for name, inner in command.commands.items():
        context = typer.Context(inner, info_name=name)
        if isinstance(inner, typer.core.TyperGroup):
            yield from helped(inner, f"{words} {name}")
        else:
            yield f"{words} {name}", inner.get_help(context)


def test_every_option_is_in_the_reference() -> None:
    found = sections(commands.page())
    group = typer.main.get_command(app)
    assert isinstance(group, typer.core.TyperGroup)
    told = {"harness": group.get_help(typer.Context(group)), **dict(helped(group, "harness"))}
    assert told.keys() == found.keys()
    for words, text in told.items():
        options = set(re.findall(r"^ {2,4}(?:-\w, )?(--[\w-]+)", text, re.MULTILINE)) - {"--help"}
        assert {each for each in options if f"`{each}`" not in found[words]} == set(), words
        shown = re.findall(r"\[default: \(?([^\];)]+)", re.sub(r"\s+", " ", text))
        assert {each for each in shown if not re.search(rf"\| `(--)?{re.escape(each)}` \|", found[words])} == set()
    assert sum(text.count("--") for text in told.values()) > 100


def paths(mapping: Mapping[str, Any], above: str = "") -> Iterator[str]:
    """The keys of a configuration and those inside them, dotted; `[]` for the entries of lists."""
    for name, value in mapping.items():
        key = str(name).replace(".", "_")  # of a table, or a file
        yield f"{above}{key}"
        inner = [(f"{above}{key}.", value)] if isinstance(value, Mapping) else []
        if isinstance(value, list):
            inner = [(f"{above}{key}[].", each) for each in value if isinstance(each, Mapping)]
        for begin, each in inner:
            yield from paths(each, begin)


@cache
def page_of_keys() -> str:
    return keys.page()


@pytest.mark.parametrize("group", [name for name in keys.FILES if (ROOT / "conf" / name).is_dir()])
def test_every_key_is_in_the_reference(group: str) -> None:
    """The keys of each file, at all depths; below a key of any content, such as the parameters of a model, all are."""
    page = page_of_keys()
    known: set[str] = set()
    for anchor in (group, f"{group}-beir"):
        section = page.partition(f"{{#{anchor}}}")[2].partition("\n## ")[0]
        known |= set(re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE))
    leaves = {key for key in known if not any(each.startswith((f"{key}.", f"{key}[].")) for each in known)}
    # Leaves may hold mappings of any keys. Names are keys as well.
    patterns = [re.escape(".".join(key.split(".")[:end])) for key in known for end in range(1, key.count(".") + 2)]
    patterns += [re.escape(key) + r"([.\[].*)?" for key in leaves]
    # A single entry needs no list.
    pattern = re.compile("|".join(patterns).replace("NAME", "[^.]+").replace(r"\[\]", r"(\[\])?"))
    for name in paper_names() if group == "paper" else config.names(group):
        mapping, _ = config.load(group, name)
        lifted = {key for key in paths(mapping) if group == "experiment" and key.endswith(".numeric")}
        assert {key for key in paths(mapping) if not pattern.fullmatch(key)} <= lifted, name


@pytest.mark.slow
def test_every_key_of_a_system_is_in_the_reference() -> None:
    """Those of its file and of its class, and of the classes inside; the page says some in words. A system a class."""
    said = {*states.ABOUT, "name", "state", "_target_"}
    mappings = {name: config.load("system", name)[0] for name in config.names("system")}
    firsts = {str(mapping.get("_target_")): name for name, mapping in reversed(mappings.items())}
    for name in firsts.values():
        mapping = mappings[name]
        text = configuration.entry("systems", name)
        wanted = mapping.keys() - said
        for key, cls in {"": class_of(mapping), **inner_classes(mapping)}.items():
            below = f"{key}." * bool(key)
            wanted |= {f"{below}{each}" for each in (defaults(cls) or {}) if cls is not None} - {"name"}
        assert {key for key in wanted if f"`{key}`" not in text} == set(), name


def class_of(mapping: Mapping[str, Any]) -> Callable[..., Any] | None:
    module, _, name = str(mapping.get("_target_", "")).rpartition(".")
    return getattr(importlib.import_module(module), name) if module else None


def test_the_keys_inside_a_setting() -> None:
    """By hand, of an encoder: listed keys have the file's value and comment, others their default."""
    found = {key: (value, says) for key, value, says in keys.inner_rows("bi-encoder-tuned")}
    assert found["`training.batch`"][0] == "`16`"
    assert found["`training.length`"] == ("`128`", "word pieces: what two cores train in minutes")
    assert found["`training.votes`"][0] == "`50`"
    assert found["`calls.mode`"][0] == "`replay`"
    assert list(keys.inner_rows("shuffle")) == []


def test_sweeps_launchers_and_callbacks_are_in_the_reference() -> None:
    for name in config.names("sweep"):
        mapping, where = config.load("sweep", name)
        page = configuration.entry("sweeps", name)
        assert {key for key in entries.swept(mapping, where) if f"| {tables.plain(key)} |" not in page} == set()
    known = sections(page_of_keys())
    for group in keys.HYDRA:
        for name, path in config.names(group).items():
            given = yaml.safe_load(path.read_text(encoding="utf-8"))
            given = given.get(name, given).keys() - {"_target_"}
            assert {key for key in given if f"| `{key}` |" not in known[f"{group}={name}"]} == set()
    assert files.page().count("\n## ") == len(list((ROOT / "harness/data/schemas").glob("*.json")))


@pytest.mark.slow
def test_values_are_listed_in_place_of_the_constants_that_have_them() -> None:
    """`one of `NORMS`` says nothing to a reader of the page, who may not have the code at hand."""
    from harness.systems.foreign.ranx import METHODS, NORMS
    from harness.systems.lexical.text import STOP_LISTS, VIEWS

    assert doctest.testmod(key_descriptions).failed == 0
    ranx = key_descriptions.settings_of("harness.systems.foreign.ranx.FusionRanx")
    assert set(re.findall(r"`(\S+)`", ranx["method"].says)) == set(METHODS)
    assert set(re.findall(r"`(\S+)`", ranx["norm"].says)) == set(NORMS)
    assert ranx["runs"].says.startswith("two or more run files, ")
    view = key_descriptions.settings_of("harness.systems.lexical.text.view")
    assert set(re.findall(r"`(\S+)`", view["name"].says)) == set(VIEWS)
    assert set(re.findall(r"`(\S+)`", view["stop"].says)) == set(STOP_LISTS)
    pages = dict(configuration.pages())
    constants = {found for text in pages.values() for found in re.findall(r"one of `[A-Z_]+`", text)}
    assert constants == set()


@pytest.mark.parametrize("module", [architecture, configuration, keys, navigation, papers, results, staging, tables])
def test_examples_of_the_generator(module: ModuleType) -> None:
    assert doctest.testmod(module).failed == 0


def test_pages_of_results_say_where_their_data_come_from(tmp_path: Path) -> None:
    page = tmp_path / "speed.md"
    assert results.provenance(page) == ""
    page.with_suffix(".json").write_text('{"commit": "abc1234-dirty", "machine": "two cores", "rows": []}')
    said = "Data: [speed.json](speed.json); commit abc1234 with uncommitted changes, two cores."
    assert results.provenance(page) == f"\n*{said}*\n"
    page.with_suffix(".json").write_text("{}")
    assert results.provenance(page) == "\n*Data: [speed.json](speed.json); commit not recorded.*\n"


def test_only_pages_of_the_site_are_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also pages that could not all be made."""
    (tmp_path / "thesis.tex").write_text("mine", encoding="utf-8")
    with pytest.raises(SystemExit, match="has files that are no pages of the site; name a new folder"):
        make.main(str(tmp_path))
    assert (tmp_path / "thesis.tex").read_text(encoding="utf-8") == "mine"
    with pytest.raises(SystemExit, match="is a file; name a folder"):
        make.main(str(tmp_path / "thesis.tex"))
    for name in ("HARNESS_CACHE", "HARNESS_OFFLINE", "HARNESS_MIRROR"):  # which are set; restored at the end
        monkeypatch.setenv(name, "")

    def fail(_: object) -> None:
        (tmp_path / "site/index.md").write_text("a page", encoding="utf-8")
        raise RuntimeError

    monkeypatch.setattr(staging, "stage", fail)
    for _ in range(2):
        with pytest.raises(RuntimeError):
            make.main(str(tmp_path / "site"))


def test_every_key_of_the_commands_is_in_the_reference() -> None:
    page = sections(configuration.overview())
    for command in ("run", "reproduce"):
        given = yaml.safe_load((ROOT / f"conf/{command}.yaml").read_text(encoding="utf-8")).keys()
        of = page[f"Keys of harness {command}"]
        assert {key for key in given - {"defaults", "hydra"} if f"| `{key}` |" not in of} == set()


def test_every_variable_is_in_the_reference() -> None:
    page = (ROOT / "docs/reference/environment.md").read_text(encoding="utf-8")
    paths = [*(ROOT / "harness").rglob("*.py"), *(ROOT / "conf").rglob("*.yaml"), ROOT / "hatch_build.py"]
    code = "".join(path.read_text(encoding="utf-8") for path in paths)
    names = set(re.findall(r"\bHARNESS_[A-Z_]+\b", code))
    names |= set(re.findall(r'(?:environ\.get\("|oc\.env:)([A-Z0-9_]+)', code))
    # Not for users: the program sets them for its own processes.
    names -= {"HARNESS_PROGRAM", "HARNESS_SERVER_PID", "HARNESS_REHEARSAL", "PERL5LIB"}
    assert {name for name in names if not re.search(rf"`{name}(=\w+)?`", page)} == set()


def test_parameters_of_the_face_have_types_and_meanings() -> None:
    """What is said of a parameter stands in its description, whole, and its type is that of the signature."""
    griffe = pytest.importorskip("griffe", reason="griffe is not installed: pip install -e '.[docs]'")
    import harness
    from docs.make import docstrings

    assert python.page().count("::: ") == len(harness.__all__)
    assert doctest.testmod(docstrings).failed == 0
    meanings = griffe.load_extensions(docstrings.Meanings)
    loader = griffe.GriffeLoader(extensions=meanings, docstring_parser="numpy", search_paths=[str(ROOT)])
    package = loader.load("harness")
    described: dict[str, dict[str, tuple[str, str]]] = {}
    for name in harness.__all__:
        made = package[getattr(harness, name).__module__.removeprefix("harness.")][name]
        for section in made.docstring.parsed if made.docstring else ():
            if section.kind.value in ("attributes", "parameters"):
                for each in section.value:
                    known = made.parameters if section.kind.value == "parameters" else made.members
                    assert str(each.annotation) == str(known[each.name].annotation), (name, each.name)
                    assert each.description, (name, each.name)
                    described.setdefault(name, {})[each.name] = (str(each.annotation), each.description.strip())
    assert described["Document"].keys() == {"id", "title", "body", "tags", "formulas", "columns", "dollars"}
    assert described["compare"]["seed"] == ("int", "seed of these draws.")
    assert described["task"]["edition"][1] == described["task"]["protocol"][1]
    assert described["Corpus"]["fields"][1].endswith("are for documents that are formulas.")


@pytest.mark.slow
def test_the_picture_of_the_layers() -> None:
    graph = architecture.imports()
    height = architecture.floors(graph)
    assert all(height[name] > height[other] for name in graph for other in graph[name])
    assert "scoring" in graph["experiments"] and graph["errors"] == set()
    assert architecture.drawn(graph).count("<rect") == len(graph)


def slug(heading: str) -> str:
    """The anchor of a heading, as GitHub and the site make it."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


@cache
def anchors(path: Path) -> set[str]:
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE):
        name, number = slug(heading), 1
        while name in found:
            name, number = f"{slug(heading)}-{number}", number + 1
        found.add(name)
    return found


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    text = re.sub(r"^```.*?^```|`[^`\n]*`", "", text, flags=re.MULTILINE | re.DOTALL)
    for target in LINK.findall(text):
        path, _, anchor = target.partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        place = (ROOT / page).parent / path if path else ROOT / page
        assert place.exists(), target
        if anchor and place.suffix == ".md":
            assert anchor in anchors(place), target


@pytest.mark.slow
def test_links_to_results_and_reports() -> None:
    assert set(configuration.RESULTS.values()) <= anchors(ROOT / "docs/results.md")
    link = "(../results.md#theorem-search)"
    assert link in configuration.entry("systems", "mathlib")
    assert "results.md" not in configuration.entry("systems", "shuffle")
    assert shown()["reports/reference/crossmath/report.md"] == "reports/crossmath/report.md"
    for paper, linked in (("crossmath", True), ("saber-math", True), ("demo", False)):
        assert (f"(../reports/{paper}/report.md)" in configuration.entry("papers", paper)) == linked


@pytest.mark.slow
@pytest.mark.parametrize("paper", paper_names())
def test_a_paper_shows_its_compared_settings(paper: str) -> None:
    """Each on a page of the site, and their counts in `harness show`."""
    settings, page = read_settings(paper), papers.settings_page(paper)
    rows = [line for line in page.splitlines() if line.startswith("| ") and not line.startswith("| setting |")]
    assert [row.split(" | ")[0].removeprefix("| ") for row in rows] == [each.setting for each in settings]
    assert f"{len(settings)} settings: " in page
    assert f"(settings-{paper}.md)" in configuration.entry("papers", paper)
    assert configuration_facts("papers", paper)["facts"]["compared"].startswith(settings_in_words(settings))


def test_tables_of_papers_have_a_group_if_it_tells_more_than_the_caption() -> None:
    croatian = "\n".join(papers.section("crossmath")).partition("### Table 2 ")[2].partition("###")[0]
    assert "Croatian topics" in croatian
    assert "| system | collection |" in croatian
    text = "\n".join(papers.section("crossmath")).partition("### text ")[2].partition("##")[0]
    assert "Persian" in text  # the caption does not name it
    assert "| group | system |" in text


def titles(nav: object) -> Iterator[str]:
    """The titles of the pages in the navigation of the site: given there, or else the headings of the pages."""
    generated = {f"reference/{group}.md": f"# {configuration.heading(group)}\n" for group in entries.GROUPS}
    generated |= {"reference/commands.md": commands.page(), "reference/configuration.md": configuration.overview()}
    generated |= {"reference/python.md": python.page(), "reference/schemas.md": files.page()}
    generated["reference/keys.md"] = keys.page()
    generated |= {
        f"{folder}/index.md": f"# {configuration.heading(group)}\n" for group, folder in configuration.OWN_PAGES.items()
    }
    generated |= {name: page for name, page in architecture.pages().items() if name.endswith(".md")}
    generated |= {to: (ROOT / name).read_text("utf-8") for name, to in shown().items() if name.endswith(".md")}

    def of(entry: object) -> Iterator[str]:
        if isinstance(entry, str):
            heading = re.search("^# (.+)$", generated[entry], re.MULTILINE)
            assert heading is not None, entry
            yield heading[1]
        elif isinstance(entry, list):
            for each in entry:
                yield from of(each)
        else:
            assert isinstance(entry, dict)
            for title, inner in entry.items():
                yield from [title] if isinstance(inner, str) else of(inner)

    yield from of(nav)


@pytest.mark.slow
def test_no_two_pages_of_the_site_have_one_title() -> None:
    text = re.sub(r"!!\S+", "", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    found = list(titles(yaml.safe_load(text)["nav"]))
    assert len(found) > 60
    assert [each for each in set(found) if found.count(each) > 1] == []


def test_the_list_of_pages_names_them_by_their_titles() -> None:
    """Links to pages at the beginning of an item."""
    text = (ROOT / "docs/README.md").read_text(encoding="utf-8")
    for name, target in re.findall(r"^- \[([^]]+)\]\(([\w/-]+\.md)\)", text, re.MULTILINE):
        assert (ROOT / "docs" / target).read_text(encoding="utf-8").startswith(f"# {name}\n"), target


TITLES = {
    "crossmath": "CrossMath",
    "mathamr-plus": "MathAMR+",
    "mathlib4": "A Semantic Search Engine for Mathlib4",
    "mirmu-msm": "MIRMU and MSM at ARQMath 2022",
    "saber-math": "SABER-Math",
}


def test_links_of_the_site() -> None:
    pages = {"docs/a.md": "a.md", "README.md": "index.md"}
    text = "`x` [b](a.md#c) and `[d](e)`, [`f`](../README.md)\n- item\n\n```\n[g](h)\n```\n"
    text += "[i](../LICENSE) [j](../conf/system)\n"
    expected = "`x` [b](a.md#c) and `[d](e)`, [`f`](index.md)\n\n- item\n\n```\n[g](h)\n```\n[i](files/LICENSE) j\n"
    assert rewritten(text, "docs/b.md", "b.md", pages) == expected
    assert pages["LICENSE"] == "files/LICENSE"
    with pytest.raises(SystemExit, match=r"docs/b\.md: link to nowhere\.md, which is not there"):
        rewritten("[a](nowhere.md)", "docs/b.md", "b.md", pages)


@pytest.mark.parametrize("paper", ["mathamr-plus", "mathlib4", "mirmu-msm", "saber-math"])
def test_what_pages_say_of_a_report_at_small_scale_is_what_it_says(paper: str) -> None:
    """The number of values in the README, and how far the estimate was off on the page on costs."""
    text = (ROOT / f"reports/small-scale/{paper}/report.md").read_text(encoding="utf-8")
    (values,) = re.findall(r"(\d+) of \d+ printed numbers have such a value", text)
    (factor,) = re.findall(r"measured over the geometric mean: ([\d.]+)\.\n", text)
    assert f"[{values}](reports/small-scale/{paper}/report.md)" in (ROOT / "README.md").read_text(encoding="utf-8")
    counted = (ROOT / "docs/reproduction.md").read_text(encoding="utf-8")
    assert f"../reports/small-scale/{paper}/report.md) | {values} |" in counted
    page = (ROOT / "docs/cost.md").read_text(encoding="utf-8")
    assert re.search(rf"small-scale/{paper}/report.md#what-it-took\) \| {re.escape(factor)} \|", page)


def test_the_verdicts_that_the_page_on_reproduction_counts_are_those_of_the_tables() -> None:
    page = (ROOT / "docs/reproduction.md").read_text(encoding="utf-8")
    for paper, recorded in json.loads((ROOT / "docs/papers.json").read_text(encoding="utf-8")).items():
        verdicts = Counter(cell[8] for _, cells in recorded["tables"] for cell in cells)
        (row,) = re.findall(rf"^\| {re.escape(TITLES[paper])} \| {verdicts.total()}\b.*", page, re.MULTILINE)
        said = {kind: f"{count} {'need a resource' if kind == 'needs' else kind}" for kind, count in verdicts.items()}
        assert all(f"{part} " in f"{row} ".replace(",", " ") for part in said.values()), (paper, row)


@pytest.mark.slow
@pytest.mark.parametrize("group", ["collections", "corpora", "papers"])
def test_pages_name_no_folder_of_the_machine_that_makes_them(group: str) -> None:
    names = paper_names() if group == "papers" else config.names(entries.GROUPS[group].folder)
    text = "\n".join(configuration.entry(group, name) for name in names)
    assert str(ROOT) not in text
    assert str(Path.home()) + "/" not in text
    assert group != "collections" or "qrels/mini-task1.txt" in text
