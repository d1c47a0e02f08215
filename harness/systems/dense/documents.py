"""Vectors of a corpus's documents by one model, from the store or made now."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from harness.collections.corpus import Corpus
from harness.store import code
from harness.systems import hardware
from harness.systems.dense import encoder, engines, texts, vectors
from harness.systems.dense.engines import Encoder, Settings


class Source(NamedTuple):
    """What encodes.

    Attributes
    ----------
    model : see `harness.systems.dense.models.find`.
    device : `cpu` or `cuda`.
    tokens : word pieces that go through the model at one time; 0 leaves it to the device. What is encoded together
        decides the last bits of vectors.
    """

    model: str
    settings: Settings
    device: str
    tokens: int = 0

    def load(self) -> Encoder:
        """The encoder."""
        return encoder.load(self.model, self.settings, self.device, tokens=self.tokens)

    def arithmetic(self) -> list[str]:
        """What its numbers are computed with."""
        return hardware.arithmetic(self.device, self.settings.precision == "bfloat16")


def vectors_of(
    corpus: Corpus,
    fields: Sequence[str],
    view: str,
    source: Source,
    load: Callable[[], Encoder],
    workspace: Path,
    *,
    storage: str = "float32",
) -> vectors.Made:
    """The vectors of one text of each document.

    Parameters
    ----------
    fields, view : what the text is: see `texts.of_document`.
    load : gives the source's encoder, perhaps one that is loaded already; asked only if vectors have to be made.
    workspace, storage : see `vectors.made`.

    Raises
    ------
    HarnessError
        The model cannot be loaded, no document has a text, a vector is not finite, or the disk is full.
    """

    def documents() -> Iterator[tuple[str, str]]:
        return ((document.id, texts.of_document(document, fields, view)) for document in corpus)

    spec = {
        "corpus": corpus.identity(),
        "fields": list(fields),
        "view": view,
        "model": encoder.identity(source.model, source.settings),
        "arithmetic": source.arithmetic(),
        "tokens": source.tokens,
        "versions": [code.of(engines.__name__, texts.__name__), hardware.torch_version()],
    }
    return vectors.made(documents, lambda some: load().encoded(some, "document"), spec, workspace, storage=storage)
