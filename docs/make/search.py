"""Words by which readers look for pages, as tags in the index of the search."""

from __future__ import annotations

from pathlib import Path

WORDS = Path(__file__).with_name("keywords.tsv")


def keywords() -> dict[str, list[str]]:
    """Returns page of the site -> single words that readers search for; the index does not divide tags into words."""
    lines = WORDS.read_text(encoding="utf-8").splitlines()
    return {page: list(dict.fromkeys(words.split())) for page, words in (line.split("\t") for line in lines)}


def add_keywords(out: Path) -> None:
    """Writes the words into the pages of a folder; the theme does not show them."""
    for page, words in keywords().items():
        place = out / page
        text = place.read_text(encoding="utf-8")
        place.write_text(f"---\ntags: [{', '.join(words)}]\n---\n\n{text}", encoding="utf-8")
