"""Checkpoints of encoders on disk, with the identity of their training inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from harness.errors import HarnessError
from harness.systems.dense.training.loop import check_identity, read_checkpoint, write_checkpoint
from harness.systems.mathamr.encoder.model import GraphEncoder
from harness.systems.mathamr.encoder.settings import GraphEncoderSettings


def save_model(path: Path, model: GraphEncoder, identity: Mapping[str, str]) -> None:
    """Writes the weights of a model with its settings and identity."""
    write_checkpoint(
        path, {"model": model.state_dict(), "settings": asdict(model.settings), "identity": dict(identity)}
    )


def load_model(path: Path, identity: Mapping[str, str]) -> GraphEncoder:
    """Reads a model written by `save_model`.

    Raises
    ------
    HarnessError
        The file is damaged, is not a checkpoint, or has another identity, such as another vocabulary.
    """
    content = read_checkpoint(path)
    check_identity(path, content.get("identity", {}), identity)
    try:
        model = GraphEncoder(GraphEncoderSettings(**content["settings"]))
        model.load_state_dict(content["model"])
    except (KeyError, TypeError, RuntimeError) as error:
        raise HarnessError(f"{path}: no checkpoint of this model: {str(error).splitlines()[0]}") from None
    return model.eval()
