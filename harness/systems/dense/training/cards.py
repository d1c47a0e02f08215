"""Cards of fine-tuned models: what their training left out. Imports little, since every run asks for them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from harness.errors import HarnessError

CARD = "card.json"
_LONGEST_PATH = 1 << 10  # longer texts of a configuration, such as prompts, name no folder


def left_out_of(folder: Path) -> frozenset[str] | None:
    """Returns the collections left out of the training of the model in a folder; None without a card.

    Raises
    ------
    HarnessError
        The card is damaged.
    """
    path = folder / CARD
    try:
        if not path.is_file():
            return None
        return frozenset(json.loads(path.read_text(encoding="utf-8"))["settings"]["leave_out"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise HarnessError(f"{path}: not the card of a fine-tuned model: {type(error).__name__}") from None


def tuned_folders(configuration: object) -> Iterator[tuple[str, frozenset[str]]]:
    """Yields the keys of a system's configuration that name the folder of a fine-tuned model, and what it left out.

    Keys of systems within the system are `first.model`, `teacher` and so on, whatever loads the model.
    """
    waiting: list[tuple[str, object]] = [("", configuration)]
    for above, value in waiting:
        if isinstance(value, Mapping):
            waiting += [(f"{above}.{name}" if above else str(name), inner) for name, inner in value.items()]
        elif isinstance(value, list | tuple):
            waiting += [(above, inner) for inner in value]
        elif isinstance(value, str) and len(value) < _LONGEST_PATH and "\0" not in value:
            home = value.startswith("~/")
            if (known := left_out_of(Path(value).expanduser() if home else Path(value))) is not None:
                yield above, known
