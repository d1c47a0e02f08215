"""Document vectors of a corpus by one model, loaded from the store or computed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from harness.collections.corpus import Corpus, Document
from harness.io.files import sha256
from harness.store import code
from harness.systems import hardware
from harness.systems.dense import encoder, engines, texts, vectors
from harness.systems.dense.encoder import EndpointCalls
from harness.systems.dense.engines import EncodedTexts, EncoderSettings, TextEncoder


class EncoderSource(NamedTuple):
    """An encoder's model and settings.

    Attributes
    ----------
    model : see `harness.systems.dense.models.find_model`.
    device : `cpu` or `cuda`.
    tokens : maximum word pieces in one forward pass; 0 for the default of the device. Batching changes the last bits of
        vectors.
    characters : maximum characters of an input, prefix included; 0 for no limit. Longer texts count as truncated.
    calls : mode and limits of endpoint calls, which do not change the vectors.
    """

    model: str
    settings: EncoderSettings
    device: str
    tokens: int = 0
    characters: int = 0
    calls: EndpointCalls = EndpointCalls()

    def load(self) -> TextEncoder:
        """Loads the encoder."""
        loaded = encoder.load(self.model, self.settings, self.device, tokens=self.tokens, calls=self.calls)
        return cut(loaded, self.characters, self.settings) if self.characters else loaded

    def identity(self) -> dict[str, Any]:
        """Returns the inputs of vectors besides code and arithmetic: the model and the settings for reading texts."""
        own = encoder.identity(self.model, self.settings)
        return own | {"characters": self.characters} if self.characters else own

    def arithmetic(self) -> list[str]:
        """Returns the device and number format of the computation."""
        return [self.device, self.settings.precision]

    def code(self) -> str:
        """Returns the fingerprint of the code that computes vectors."""
        return code.of(engines.__name__, encoder.__name__)

    def spec(self, *more: str) -> dict[str, Any]:
        """Returns all inputs of vectors besides the texts: model, arithmetic, size of a pass, and versions.

        Parameters
        ----------
        more : fingerprints of further code.
        """
        return {
            "model": self.identity(),
            "arithmetic": self.arithmetic(),
            "tokens": self.tokens,
            "versions": [self.code(), *more, hardware.library_versions()],
        }

    def single(self) -> bool:
        """Returns whether a text has a single vector, which stands for all of it."""
        return True


@dataclass(frozen=True, eq=False)
class Encoding:
    """Encodes texts; another process gets it without the loaded encoder, and loads it at its first call.

    Attributes
    ----------
    role : `query` or `document`.
    load : returns the encoder of the source in this process.
    """

    source: EncoderSource
    role: str
    load: Callable[[], TextEncoder] | None = None

    def __call__(self, some: Sequence[str]) -> EncodedTexts:
        """Returns the vectors of texts."""
        loaded = self.load() if self.load is not None else vectors.loaded_here(self.source)
        return loaded.encoded(some, self.role)

    def __reduce__(self) -> tuple[object, ...]:
        return Encoding, (self.source, self.role)


def cut(loaded: TextEncoder, characters: int, settings: EncoderSettings) -> TextEncoder:
    """Returns an encoder that truncates inputs to so many characters, including the prefix in `settings`.

    Examples
    --------
    >>> def lengths_of(some, _):
    ...     return EncodedTexts(np.array([[len(text)] for text in some]), np.zeros(2, bool))
    >>> lengths = TextEncoder("", 0, 1, lengths_of)
    >>> found = cut(lengths, 9, EncoderSettings(prefixes={"query": "Query: "})).encoded(["ab", "abc"], "query")
    >>> found.vectors.tolist(), found.cut.tolist()
    ([[2], [2]], [False, True])
    """

    def encoded(some: Sequence[str], role: str) -> EncodedTexts:
        most = max(characters - len((settings.prefixes or {}).get(role, "")), 0)
        batch = loaded.encoded([text[:most] for text in some], role)
        return EncodedTexts(batch.vectors, batch.cut | np.array([len(text) > most for text in some], dtype=bool))

    return replace(loaded, encoded=encoded)


def text_of(document: Document, fields: Sequence[str], view: str = "latex", join: str = " ") -> str:
    """Returns the text of a document as `texts.of_document` does, but with another separator of non-empty fields.

    Examples
    --------
    >>> text_of(Document("d", "Name", "statement", columns={"doc": ""}), ["title", "doc", "body"], join=": ")
    'Name: statement'
    """
    if join == " ":
        return texts.of_document(document, fields, view)
    parts = (texts.of_document(document, [name], view) for name in fields)
    return join.join(part for part in parts if part)


def vectors_of(
    corpus: Corpus,
    fields: Sequence[str],
    view: str,
    source: EncoderSource,
    load: Callable[[], TextEncoder],
    *,
    storage: str = "float32",
    join: str = " ",
) -> vectors.TextVectors:
    """Returns one vector for each document, from the store or computed.

    Parameters
    ----------
    fields, view, join : how a document's text is built: see `text_of`.
    load : returns the encoder of `source`; called only if vectors must be computed.
    storage : see `vectors.made`.

    Raises
    ------
    HarnessError
        The model cannot be loaded, no document has a text, a vector is not finite, or the disk is full.
    """

    def documents() -> Iterator[tuple[str, str]]:
        return ((document.id, text_of(document, fields, view, join)) for document in corpus)

    spec = {"corpus": corpus.identity(), "fields": list(fields), "view": view, **source.spec(code.of(texts.__name__))}
    spec |= {} if join == " " else {"join": join}
    return vectors.made(documents, Encoding(source, "document", load), spec, storage=storage, single=source.single())


def vectors_of_texts(
    named: Sequence[tuple[str, str]], source: EncoderSource, loaded: TextEncoder, *, storage: str = "float32"
) -> vectors.TextVectors:
    """Returns the vectors of some documents, from the store or computed.

    Parameters
    ----------
    named : (id, text) of each document.

    Raises
    ------
    HarnessError
        All texts are empty, a vector is not finite, or the disk is full.
    """
    spec = {"documents": sha256(json.dumps(named).encode()), **source.spec()}
    encoding = Encoding(source, "document", lambda: loaded)
    return vectors.made(lambda: named, encoding, spec, storage=storage, single=source.single())


def vectors_of_topics(asked: Sequence[str], source: EncoderSource, loaded: TextEncoder) -> vectors.TextVectors:
    """Returns the vectors of topics' non-empty texts, from the store, as fusions and sweeps reuse them, or computed.

    Raises
    ------
    HarnessError
        A vector is not finite, or the disk is full.
    """
    spec = {"texts": sha256("\0".join(asked).encode("utf-8", "surrogatepass")), **source.spec()}
    named = [(str(number), text) for number, text in enumerate(asked)]
    encoding = Encoding(source, "query", lambda: loaded)
    return vectors.made(lambda: named, encoding, spec, kind="query-vectors", single=source.single())
