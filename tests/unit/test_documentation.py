"""The documentation: generated references hold everything they are of, and links lead somewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import typer
import yaml

from docs.make import architecture, commands, configuration, files, python
from docs.make.staging import rewritten, shown
from harness.cli import entries
from harness.cli.main import app
from harness.io import config

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
    told = dict(helped(group, "harness"))
    assert told.keys() == found.keys()
    for words, text in told.items():
        options = set(re.findall(r"^ {2,4}(?:-\w, )?(--[\w-]+)", text, re.MULTILINE)) - {"--help"}
        assert {each for each in options if f"`{each}`" not in found[words]} == set(), words
    assert sum(text.count("--") for text in told.values()) > 100


@pytest.mark.slow
@pytest.mark.parametrize("group", ["system", "protocol", "sweep", "llm"])
def test_every_key_is_in_the_reference(group: str) -> None:
    """The keys of each file, without those that the page says in words."""
    named = entries.group_of(group)
    said = {"title", "name", "licence", "files", "defaults", "hydra", "_target_", "state", "needs", "paper", "extra"}
    for name in list(config.names(group))[::4]:
        keys = yaml.safe_load((ROOT / f"conf/{group}/{name}.yaml").read_text(encoding="utf-8")).keys()
        text = configuration.entry(named, name)
        known = said if group == "system" else said - {"needs", "paper", "extra", "state"}
        absent = {key for key in keys - known - {"example", "by_hand", "models", "recipe"} if f"`{key}`" not in text}
        assert absent == set(), name


def test_every_key_of_the_commands_is_in_the_reference() -> None:
    page = sections(configuration.overview())
    for command in ("run", "reproduce"):
        keys = yaml.safe_load((ROOT / f"conf/{command}.yaml").read_text(encoding="utf-8")).keys() - {
            "defaults",
            "hydra",
        }
        assert {key for key in keys if f"| `{key}` |" not in page[f"Keys of harness {command}"]} == set()


def test_every_variable_is_in_the_reference() -> None:
    page = (ROOT / "docs/reference/environment.md").read_text(encoding="utf-8")
    code = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "harness").rglob("*.py"))
    # Not for users: the program sets them for its own processes.
    names = set(re.findall(r"\bHARNESS_[A-Z_]+\b", code)) - {"HARNESS_SERVER_PID", "HARNESS_REHEARSAL"}
    assert {name for name in names if f"`{name}" not in page} == set()


def test_schemas_and_names_of_the_face() -> None:
    import harness

    page = files.page()
    assert page.count("\n## ") == len(list((ROOT / "harness/data/schemas").glob("*.json")))
    assert python.page().count("::: ") == len(harness.__all__)


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


def titles(nav: object) -> Iterator[str]:
    """The titles of the pages in the navigation of the site: given there, or else the headings of the pages."""
    generated = {f"reference/{group}.md": f"# {configuration.heading(group)}\n" for group in entries.GROUPS}
    generated |= {"reference/commands.md": commands.page(), "reference/configuration.md": configuration.overview()}
    generated |= {"reference/python.md": python.page(), "reference/schemas.md": files.page()}
    generated |= {f"{group}/index.md": f"# {configuration.heading(group)}\n" for group in configuration.OWN_PAGES}
    generated |= {name: page for name, page in architecture.pages().items() if name.endswith(".md")}
    generated |= {to: (ROOT / name).read_text("utf-8") for name, to in shown().items() if to.endswith(".md")}

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


def test_links_of_the_site() -> None:
    pages = {"docs/a.md": "a.md", "README.md": "index.md"}
    text = "`x` [b](a.md#c) and `[d](e)`, [`f`](../README.md)\n- item\n\n```\n[g](h)\n```\n"
    text += "[i](../LICENSE) [j](../conf/system)\n"
    expected = "`x` [b](a.md#c) and `[d](e)`, [`f`](index.md)\n\n- item\n\n```\n[g](h)\n```\n[i](files/LICENSE) j\n"
    assert rewritten(text, "docs/b.md", "b.md", pages) == expected
    assert pages["LICENSE"] == "files/LICENSE"
    with pytest.raises(SystemExit, match=r"docs/b\.md: link to nowhere\.md, which is not there"):
        rewritten("[a](nowhere.md)", "docs/b.md", "b.md", pages)
