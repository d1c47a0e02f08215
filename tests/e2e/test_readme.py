"""The README: short, names all pages, and counts the systems right; `test_docs` follows it."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from harness.io import config
from harness.systems import states

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
GUIDES = [page for name in ("tutorials", "how-to", "explanation") for page in (DOCS / name).glob("*.md")]


def test_the_readme_is_short_and_names_every_page() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 150
    index = (DOCS / "README.md").read_text(encoding="utf-8")
    pages = {str(path.relative_to(DOCS)) for path in (*DOCS.glob("*.md"), *GUIDES)}
    assert pages - set(re.findall(r"\]\((\S+\.md)\)", index)) == {"README.md", "home.md"}


def test_the_numbers_of_systems() -> None:
    """Counted from the configurations, so that the numbers do not depend on what is installed here."""
    kinds: Counter[str] = Counter()
    for name in config.names("system"):
        found = list(states.nested_configurations(config.load("system", name)[0]))
        needs = any(part.get("needs") for part in found) or states.needed_models(found)
        kinds["listed" if states.registered(found) else "need" if needs else "run"] += 1
    text = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    said = re.search(r"configures (\d+) systems: (\d+) run without .*?, (\d+) need some, (\d+) are listed only", text)
    assert said
    assert [int(number) for number in said.groups()] == [
        kinds.total(),
        *(kinds[kind] for kind in ("run", "need", "listed")),
    ]
