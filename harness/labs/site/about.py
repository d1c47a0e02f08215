"""The page about a lab: protocol in words, how to submit, rules, dates, contact, licence."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from datetime import datetime

from harness.labs.addresses import form_of
from harness.labs.downloads import permitted
from harness.labs.journal import Extended
from harness.labs.lab import Lab
from harness.labs.names import utc, zoned
from harness.labs.rules import rule_lines
from harness.labs.site.lab_page import frozen_text, lab_page
from harness.labs.site.lab_view import LabView
from harness.render.latex import escape_unbroken as escape
from harness.render.model import Facts, Prose
from harness.render.pages import Block, Code, Link, PageSection, Rich, is_web
from harness.render.site_html import SitePage
from harness.reports.parts import protocol_text
from harness.scoring.protocol import load_protocol


def about_page(field: LabView) -> SitePage:
    """Returns the page about a lab."""
    lab, collection = field.lab, field.task.collection
    edition = collection.edition(lab.edition)
    facts = [
        ("collection", f"{lab.collection}: {collection.title}"),
        ("judgments", f"edition {lab.edition}: {edition.title}"),
        ("topics", str(field.board.topics)),
        ("documents", lab.corpus or collection.corpus),
        ("licence", collection.licence),
        ("SHA-256 of the judgments", field.board.qrels_sha256),
    ]
    opening = (*([Prose((lab.about,))] if lab.about else []), *frozen_text(field))
    parts = [
        PageSection("", opening) if opening else None,
        PageSection("Dates", (Facts(tuple(_dates_facts(field))),)),
        PageSection("Data", (Facts(tuple((name, value) for name, value in facts if value)), *_notes_blocks(field))),
        PageSection("Protocol", tuple(_protocol_blocks(field))),
        PageSection("Submission", tuple(_submission_blocks(field))),
        PageSection("Rules", (Prose(tuple(rule_lines(lab))),)),
        PageSection("Contact", (_contact_text(lab.contact),)) if lab.contact else None,
        PageSection("Citation", (Code("BibTeX", _bibtex(field)),)),
        PageSection("Links", (_links_text(field),)),
    ]
    page = lab_page(field, "about.html", f"About {lab.title}", "", parts, "about.html")
    return SitePage(page)


def _notes_blocks(field: LabView) -> Iterator[Block]:
    if field.remarks:
        yield Prose(field.remarks)


def _dates_facts(field: LabView) -> Iterator[tuple[str, str]]:
    deadline = field.lab.deadline
    yield ("deadline", "none" if deadline is None else f"{zoned(deadline)}; later runs are post-hoc")
    for act in field.acts:
        reason = f": {field.names.text(act.reason)}" if field.names.text(act.reason) else ""
        if isinstance(act, Extended):
            until = zoned(datetime.fromisoformat(act.deadline))
            yield ("deadline set", f"{utc(act.at)}, to {until}{reason}")
        else:
            yield (act.event, f"{utc(act.at)}{reason}")
    dates = [each.submitted for each in field.all_submissions]
    yield ("first submission", utc(min(dates)))
    yield ("latest submission", utc(max(dates)))


def _protocol_blocks(field: LabView) -> Iterator[Block]:
    board = field.board
    yield protocol_text(load_protocol(field.lab.protocol))
    measures = ", ".join(map(field.label, board.measures))
    tests = f"tests have level {board.alpha:g} and are corrected over {board.family:,} comparisons ({board.correction})"
    tests = tests if field.tested else f"nothing is tested: {board.why}"
    yield Prose(
        (
            f"Measures: {measures}. Runs are ranked by {field.label(field.main)}; {tests}.",
            *([board.privacy] if board.privacy else []),
        )
    )


def _submission_blocks(field: LabView) -> Iterator[Block]:
    lab = field.lab
    required = [name.replace("_", " ") for name in lab.require]
    said = ["A run is a text file with a line per result: topic, Q0, document, rank, score, tag."]
    said += [f"A submission must state: {', '.join(required)}."] if required else []
    named = [] if field.roster or lab.server else ["--team", "TEAM"]
    where = ["--server", lab.server] if lab.server else ["--lab", "LAB"]
    if lab.private and not lab.server:
        said.append("The judgments are private: send the run to the organisers, who submit it with this command.")
    if field.roster or lab.server:
        said.append("Only teams on the roster may submit; the variable HARNESS_TOKEN holds the team's token.")
    if lab.server:
        form = form_of(lab.server)
        yield Rich(("Submit in the browser at ", Link(form, form), ", or by the command below."))
    if lab.server and permitted(lab):
        downloads = f"{lab.server}/downloads"
        yield Rich(("Topics, documents and rules, as far as the lab offers them: ", Link(downloads, downloads), "."))
    yield Prose(tuple(said))
    yield Code("Submit a run:", submit_command(lab, *where, *named))


def submit_command(lab: Lab, *where: str) -> str:
    """Returns the command that submits a run with all that the lab requires; `where` are the options of its place."""
    command = ["harness", "submit", "my.run", *where, "--description", "one sentence"]
    for name in lab.require:
        command += [f"--{name.replace('_', '-')}", "..."] if name != "description" else []
    return shlex.join(command)


def _bibtex(field: LabView) -> str:
    """Returns a BibTeX entry for the lab; those of runs are on their pages."""
    lab, latest = field.lab, max(each.submitted for each in field.all_submissions)
    note = f"Lab on {lab.collection}, edition {lab.edition}, protocol {lab.protocol}; latest submission {latest[:10]}"
    lines = [f"title = {{{{{escape(lab.title)}}}}}", f"year = {{{latest[:4]}}}", f"note = {{{escape(note)}}}"]
    lines += [f"url = {{{lab.address}}}"] if lab.address else []
    return f"@misc{{{field.base},\n  " + ",\n  ".join(lines) + "\n}"


def _contact_text(text: str) -> Rich:
    return Rich((Link(text, text),) if is_web(text) else (text,))


def _links_text(field: LabView) -> Rich:
    base = field.base
    return Rich(
        (
            "Pages of runs keep their addresses, also when a run is replaced or withdrawn. New submissions: ",
            Link("Atom feed", f"{base}/feed.xml"),
            ". Everything is also there as JSON and CSV, named at the end of each page; ",
            Link("their schemas", "schemas/index.html"),
            ".",
        )
    )
