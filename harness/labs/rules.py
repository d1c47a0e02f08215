"""The rules of a lab in words: those that its organisers wrote, and those that its settings make."""

from __future__ import annotations

from collections.abc import Iterator

from harness.errors import counted_text
from harness.labs.lab import Lab
from harness.labs.names import zoned
from harness.scoring.protocol import load_protocol


def rule_lines(lab: Lab) -> Iterator[str]:
    """Yields the rules of a lab, a sentence or two each."""
    yield from lab.rules
    if lab.cap is not None:
        yield f"Each team may submit {counted_text(lab.cap, 'run')}, withdrawn ones included."
    if lab.cap_per_day is not None:
        yield f"Each team may submit {counted_text(lab.cap_per_day, 'run')} per day (UTC)."
    if lab.invalid_cap is not None:
        yield f"Each team may send {counted_text(lab.invalid_cap, 'invalid file')}."
    if lab.results is not None:
        yield f"A run has at most {lab.results:,} results per topic."
    if lab.least_results > 1:
        yield f"A run has at least {lab.least_results:,} results for each topic that it answers."
    if lab.private:
        yield "A run must answer at least half of the topics."
    if lab.held_out:
        yield "Means are over the public half of the topics; the others decide the final ranking."
    if lab.pseudonyms_until is not None:
        yield f"Teams may have pseudonyms until {lab.pseudonyms_until:%Y-%m-%d %H:%M %Z}."
    yield "A team is ranked by its primary run: its first one, until it chooses another."
    yield "The same rankings may be submitted only once. A label that is submitted again gets a new version."


def rules_text(lab: Lab) -> str:
    """Returns the rules as a text file (Markdown), with what a participant must know of the lab."""
    label = load_protocol(lab.protocol).label
    deadline = "none" if lab.deadline is None else f"{zoned(lab.deadline)}; later runs are post-hoc"
    facts = {
        "collection": f"{lab.collection}, edition {lab.edition}",
        "protocol": lab.protocol,
        "measures": f"{', '.join(map(label, lab.measures))}; the first one ranks",
        "deadline": deadline,
        "a submission must state": ", ".join(name.replace("_", " ") for name in lab.require),
        "contact": lab.contact,
    }
    parts = [f"# {lab.title}", *([lab.about] if lab.about else [])]
    parts.append("\n".join(f"- {name}: {value}" for name, value in facts.items() if value))
    parts += ["## Rules", "\n".join(f"- {line}" for line in rule_lines(lab))]
    return "\n\n".join(parts) + "\n"
