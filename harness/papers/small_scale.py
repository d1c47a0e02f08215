"""Key `here` of a paper's configuration: the small public resources that its runs are made from at the scale `here`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.io import checks, config
from harness.io.checks import Words


@dataclass(frozen=True)
class Here:
    """Key `here` of a paper's configuration: what replaces its resources at the scale `here`.

    Attributes
    ----------
    says : what differs, in words, for the report.
    corpus : small public corpus.
    collections : our collection of the paper -> one that replaces it; the others are used as they are.
    systems : name of a system -> overrides of its command, such as `system.model=all-minilm-l6-v2`.
    training : settings of fine-tuning.

    Raises
    ------
    HarnessError
        A corpus, collection or system is unknown.
    """

    says: Words
    corpus: Words
    collections: Mapping[str, Words] = field(default_factory=dict)
    systems: Mapping[str, tuple[Words, ...]] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        checks.choice("corpus", self.corpus, config.names("corpus"))
        for collection in (*self.collections, *self.collections.values()):
            checks.choice("collections", collection, config.names("collection"))
        for system in self.systems:
            checks.choice("systems", system, config.names("system"))

    def other_model(self, system: str) -> bool:
        """Returns whether another model than the paper's stands for a system."""
        return any(word.partition("=")[0].endswith("model") for word in self.systems.get(system, ()))

    def collection(self, name: str) -> str:
        """Returns the collection that replaces another one, else that one."""
        return self.collections.get(name, name)
