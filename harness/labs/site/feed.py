"""The Atom feed of a lab: its submissions, the latest first."""

from __future__ import annotations

import uuid
from xml.etree import ElementTree

from harness.labs.site.lab_view import LabView, submission_key
from harness.render.model import visible

MOST = 100  # entries
_SPACE = uuid.UUID("6f0c5b0e-9d55-5a0e-8b8e-6f1c1c2d7a51")  # our own name space of ids
_NAMESPACE = "http://www.w3.org/2005/Atom"


def feed(field: LabView) -> str:
    """Returns the feed. Ids depend only on lab, run and version, so that readers see no entry twice.

    Addresses are absolute if the lab states where its site is published, else relative to the feed.
    """
    lab = field.lab
    root = ElementTree.Element("feed", {"xmlns": _NAMESPACE})
    _add_element(root, "title", lab.title)
    _add_element(root, "id", uuid.uuid5(_SPACE, f"{field.base}\0{lab.collection}\0{lab.edition}").urn)
    times = [each.submitted for each in field.all_submissions]
    _add_element(root, "updated", max(times))
    _add_element(root, "generator", "mathir-harness")
    author = ElementTree.SubElement(root, "author")
    _add_element(author, "name", lab.title)
    ElementTree.SubElement(root, "link", {"href": _full_address(field, "index.html"), "rel": "alternate"})
    ElementTree.SubElement(root, "link", {"href": _full_address(field, "feed.xml"), "rel": "self"})
    for each in field.all_submissions[::-1][:MOST]:
        key, name = submission_key(each), field.name(each)
        entry = ElementTree.SubElement(root, "entry")
        _add_element(entry, "title", name + (f", version {each.version}" if each.version > 1 else ""))
        _add_element(entry, "id", uuid.uuid5(_SPACE, f"{field.base}\0{lab.collection}\0{key}\0{each.sha256}").urn)
        _add_element(entry, "updated", each.submitted)
        ElementTree.SubElement(entry, "link", {"href": _full_address(field, f"runs/{key}.html"), "rel": "alternate"})
        _add_element(ElementTree.SubElement(entry, "author"), "name", field.names.team(each.team))
        _add_element(entry, "summary", field.names.text(each.description) or each.kind)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'


def _full_address(field: LabView, path: str) -> str:
    return f"{field.lab.address.rstrip('/')}/{path}" if field.lab.address else path


def _add_element(parent: ElementTree.Element, name: str, text: str) -> None:
    ElementTree.SubElement(parent, name).text = visible(text)
