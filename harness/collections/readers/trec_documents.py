"""Reader of documents in TREC's form: `<DOC>`, `<DOCNO>`, and the fields that Anserini and ir_datasets take."""

from __future__ import annotations

import re
from html import unescape

from harness.collections.corpus import Corpus, CorpusReader, Document, Documents, Remarks, numbered_lines
from harness.collections.forms import FileForm
from harness.data.markup import numbered_formulas
from harness.errors import format_error
from harness.formulas.text.delimiters import Dollars
from harness.io.files import decoded

LONGEST = 1 << 26  # bytes of a document
_TITLES = ("title", "headline", "head", "hl", "ttl")
_FIELD = re.compile(r"<(title|headline|head|hl|ttl|text|dd|date|lp|leadpara)>(.*?)</\1>", re.IGNORECASE | re.DOTALL)
_NAME = re.compile(r"<docno>\s*(.*?)\s*</docno>", re.IGNORECASE | re.DOTALL)
_TAG = re.compile(r"</?[A-Za-z][^<>]*>")


def _read_documents(corpus: Corpus, _: Remarks) -> Documents:
    for path in corpus.paths:
        begin, size, inside, any_document = 0, 0, list[bytes](), False
        for number, line in numbered_lines(path):
            mark = line.strip().upper()
            if mark == b"<DOC>":
                if begin:
                    raise format_error(path, begin, f"<DOC> has no </DOC> before the next one on line {number}")
                begin, size, inside = number, 0, []
            elif mark == b"</DOC>":
                if not begin:
                    raise format_error(path, number, "</DOC> without <DOC>")
                any_document = True
                yield (path, begin), _parse_document(b"\n".join(inside), path, begin, corpus.dollars)
                begin = 0
            elif begin:
                inside.append(line)
                size += len(line) + 1
                if size > LONGEST:
                    raise format_error(path, begin, f"the document that begins here is longer than {LONGEST:,} bytes")
            elif line.removeprefix(b"\xef\xbb\xbf").strip():
                raise format_error(
                    path, number, f"text outside of <DOC> and </DOC>: {line[:40].decode('utf-8', 'replace')!r}"
                )
        if begin:
            raise format_error(path, begin, "<DOC> has no </DOC>")
        if not any_document:
            raise format_error(path, 0, "holds no documents; expected <DOC> on a line of its own")


def _parse_document(data: bytes, path: object, line: int, dollars: Dollars) -> Document:
    text = decoded(data, path, line + 1)
    name = _NAME.search(text)
    if name is None:
        raise format_error(path, line, "the document that begins here has no <DOCNO>")
    fields = [(tag.lower(), unescape(_TAG.sub("", inner)).strip()) for tag, inner in _FIELD.findall(text)]
    title = " ".join(inner for tag, inner in fields if tag in _TITLES and inner)
    body = "\n".join(inner for tag, inner in fields if tag not in _TITLES and inner)
    return Document(name[1], title, body, (), numbered_formulas(f"{name[1]}.", title, body, dollars=dollars))


DOCUMENTS = CorpusReader("trec", _read_documents, version=2, dollars="pandoc")
READERS = (FileForm(DOCUMENTS.name, documents=DOCUMENTS),)
