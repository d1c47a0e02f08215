"""The declarations of a Lean 4 checkout, such as Mathlib's: read from its sources as they lie there.

Each folder's files are read once and kept in the store, so that a reading that is stopped goes on where it was, and a
new version of the checkout is read anew only where it differs. A document is one declaration:

    id, title   full name
    body        doc string, signature
    tags        kind, module
    columns     name, kind, module, line, signature, doc; references: the declarations that the signature names, with
                blanks between them; generated: of what `to_additive` makes, the declaration that it is made from

Identifiers are looked up as Lean does, from the namespace of the declaration outwards, then in what is opened. Names
behind notation and dot notation on variables are not found. Left out, and counted: private declarations, instances
without a name, examples, and repeats of a name.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict
from pathlib import Path
from typing import Any

from harness.collections.corpus import Corpus, Document, Documents, Reader, Remarks
from harness.collections.readers import additive
from harness.collections.readers.lean_declarations import Declaration, declarations
from harness.collections.readers.lean_heads import Additive
from harness.collections.readers.lean_text import joined
from harness.errors import HarnessError, format_error, suggestion
from harness.io.files import read_bytes
from harness.sources.checkout import Checkout
from harness.store import artefacts, code

VERSION = 2
COLUMNS = ("name", "kind", "module", "line", "signature", "doc", "references", "generated")
KIND = "lean-declarations"
_MAPPED = ("structure", "class", "inductive", "class inductive", "coinductive", "field", "constructor")
_FILE = "declarations.jsonl"
_Row = tuple[str, Declaration]  # the file's place in the checkout


def read(corpus: Corpus, remarks: Remarks) -> Documents:
    """Returns the declarations in the order of their files.

    Raises
    ------
    HarnessError
        The corpus is of no checkout, or keeps a column that is none of `COLUMNS`.
    FormatError
        A comment or a string of a file has no end, or it is not UTF-8; with file and line.
    """
    for column in corpus.keep:
        if column not in COLUMNS:
            raise HarnessError(f"corpus {corpus.name}: keep: {column!r} is unknown; {suggestion(column, COLUMNS)}")
    sources = corpus.sources if isinstance(corpus.sources, tuple) else (corpus.sources,)
    if not isinstance(checkout := sources[0], Checkout):
        raise HarnessError(f"corpus {corpus.name}: reader 'lean' needs the key 'checkout'")
    root, folders = checkout.root, _kept(checkout)
    declared: set[str] = set()
    asked: list[tuple[str, str]] = []
    for folder in folders:
        remarks.update(_left(folder))
        for _, one in _rows(folder):
            if not one.private:
                declared.add(one.name)
            if one.additive is not None:
                asked.append((one.name, one.additive.target))
    targets = additive.targets(asked)
    known = declared | set(targets.values())
    seen: set[str] = set()
    for folder in folders:
        for place, one in _rows(folder):
            if one.private:
                remarks["private declarations (left out)"] += 1
                continue
            found = [_document(one, place, known, corpus.keep)]
            if one.additive is not None and one.additive.made and one.kind not in _MAPPED:
                if targets[one.name] in declared:
                    remarks["names of to_additive that are declared as well"] += 1
                else:
                    remarks["made by to_additive"] += 1
                    remarks["made by to_additive, their names derived"] += not one.additive.target
                    found.append(_generated(one, one.additive, place, known, targets, corpus.keep))
            for document in found:
                if document.id in seen or document.id.split() != [document.id]:
                    remarks["names that come again or hold blanks (left out)"] += 1
                    continue
                seen.add(document.id)
                remarks["declarations"] += 1
                yield (root / place, one.line), document


def referenced(one: Declaration, known: AbstractSet[str]) -> list[str]:
    """Returns the declarations that a signature names, in their order.

    Parameters
    ----------
    known : the full names of all declarations.

    Examples
    --------
    >>> one = Declaration("A.B.c", "theorem", 1, "", names=("d", "E.f.g", "h"), namespace="A.B", opens=("O",))
    >>> referenced(one, {"A.d", "d", "A.B.E.f", "O.h"})
    ['A.d', 'A.B.E.f', 'O.h']
    """
    aliases = dict(one.aliases)
    found: dict[str, None] = {}
    for name in one.names:
        whole = aliases.get(name, name)
        while whole:
            if (full := _resolved(whole, one, known)) is not None:
                found[full] = None
                break
            whole = whole.rpartition(".")[0]
    found.pop(one.name, None)
    return list(found)


def _resolved(name: str, one: Declaration, known: AbstractSet[str]) -> str | None:
    """Returns the full name that an identifier means."""
    spaces = list(_outwards(one.namespace))
    for space in spaces:
        if (full := joined(space, name)) in known:
            return full
    for opened in one.opens:
        for space in spaces:  # what is opened may be named from where it is opened
            if (full := joined(space, opened, name)) in known:
                return full
    return None


def _outwards(namespace: str) -> Iterator[str]:
    while namespace:
        yield namespace
        namespace = namespace.rpartition(".")[0]
    yield ""


# ---- documents ------------------------------------------------------------------------------------------------------


def _document(one: Declaration, place: str, known: AbstractSet[str], keep: Sequence[str]) -> Document:
    columns = {
        "name": one.name,
        "kind": one.kind,
        "module": module(place),
        "line": str(one.line),
        "signature": one.signature,
        "doc": one.doc,
        "references": " ".join(referenced(one, known)),
        "generated": "",
    }
    return _of_columns(columns, keep)


def _generated(
    one: Declaration,
    asked: Additive,
    place: str,
    known: AbstractSet[str],
    targets: Mapping[str, str],
    keep: Sequence[str],
) -> Document:
    """What `to_additive` makes. Its statement is only said to be that of the other: Lean alone can translate it."""
    name = targets[one.name]
    columns = {
        "name": name,
        "kind": one.kind,
        "module": module(place),
        "line": str(one.line),
        "signature": f"{one.kind} {name}, to_additive of {one.signature}",
        "doc": asked.doc,
        "references": " ".join(targets.get(other, other) for other in referenced(one, known)),
        "generated": one.name,
    }
    return _of_columns(columns, keep)


def _of_columns(columns: Mapping[str, str], keep: Sequence[str]) -> Document:
    body = " ".join(text for text in (columns["doc"], columns["signature"]) if text)
    tags = (columns["kind"], columns["module"])
    return Document(columns["name"], columns["name"], body, tags, (), {column: columns[column] for column in keep})


def module(place: str) -> str:
    """Returns the module of a file.

    >>> module("Mathlib/Algebra/Group/Basic.lean")
    'Mathlib.Algebra.Group.Basic'
    """
    return place.removesuffix(".lean").replace("/", ".")


# ---- the store ------------------------------------------------------------------------------------------------------


def _kept(checkout: Checkout) -> list[Path]:
    """Returns what the files of each folder declare: artefacts, in the order of the folders."""
    of_folder: dict[str, dict[Path, str]] = {}
    root = checkout.root
    for path, checksum in checkout.checksums().items():
        of_folder.setdefault(path.parent.relative_to(root).as_posix(), {})[path] = checksum
    version = code.of(declarations.__module__)
    return [_artefact(root, files, version) for files in of_folder.values()]


def _artefact(root: Path, files: Mapping[Path, str], version: str) -> Path:
    spec = {"files": [[path.relative_to(root).as_posix(), sha] for path, sha in files.items()], "code": version}

    def build(folder: Path) -> None:
        left: Counter[str] = Counter()
        with (folder / _FILE).open("w", encoding="utf-8") as out:
            for path in files:
                found, more = declarations(_source(path), path)
                left.update(more)
                place = path.relative_to(root).as_posix()
                out.writelines(json.dumps([place, asdict(one)], ensure_ascii=False) + "\n" for one in found)
        (folder / "left.json").write_text(json.dumps(left), encoding="utf-8")

    return artefacts.get_or_build(KIND, spec, build)


def _source(path: Path) -> str:
    content = read_bytes(path)
    try:
        source = content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise format_error(path, line, f"byte 0x{content[error.start]:02x} is not UTF-8 text") from None
    if "\r" in source:  # a comment would go on to the end of the file
        line = source.count("\n", 0, source.index("\r")) + 1
        raise format_error(path, line, "a carriage return without a line feed, which Lean refuses too")
    return source


def _left(folder: Path) -> dict[str, int]:
    return {f"{what} (left out)": int(n) for what, n in json.loads((folder / "left.json").read_text()).items()}


def _rows(folder: Path) -> Iterator[_Row]:
    with (folder / _FILE).open(encoding="utf-8") as lines:
        for line in lines:
            place, fields = json.loads(line)
            yield place, _declaration(fields)


def _declaration(fields: dict[str, Any]) -> Declaration:
    asked = fields.pop("additive")
    names, opens = tuple(fields.pop("names")), tuple(fields.pop("opens"))
    aliases = tuple((new, old) for new, old in fields.pop("aliases"))
    made = Additive(**asked) if asked else None
    return Declaration(**fields, names=names, opens=opens, aliases=aliases, additive=made)


DECLARATIONS = Reader("lean", read, VERSION, unique=True)
