"""Hydra's options can be declared where argparse formats each help when an option is added, as it does from 3.14 on."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import pytest
from hydra._internal.utils import get_args_parser

from harness.cli.compose import accept_lazy_help

Container = argparse._ActionsContainer


@pytest.fixture
def strict(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """argparse as of Python 3.14, for any Python that runs this."""

    def check(parser: argparse.ArgumentParser, action: argparse.Action) -> None:
        if action.help and hasattr(parser, "_get_formatter"):
            try:
                parser._get_formatter()._expand_help(action)
            except (ValueError, TypeError, KeyError) as error:
                raise ValueError("badly formed help string") from error

    add = Container.add_argument

    def add_argument(container: argparse._ActionsContainer, *names: str, **settings: object) -> argparse.Action:
        action: argparse.Action = add(container, *names, **settings)  # type: ignore[arg-type]
        container._check_help(action)  # type: ignore[attr-defined]
        return action

    monkeypatch.setattr(Container, "_check_help", check, raising=False)
    monkeypatch.setattr(argparse.ArgumentParser, "_check_help", check, raising=False)
    monkeypatch.setattr(Container, "add_argument", add_argument)
    yield


@pytest.mark.usefixtures("strict")
def test_options_of_hydra() -> None:
    with pytest.raises((ValueError, TypeError)):
        get_args_parser()
    accept_lazy_help()
    accept_lazy_help()
    given = get_args_parser().parse_args(["--cfg", "job", "system=bm25"])
    assert (given.cfg, given.overrides) == ("job", ["system=bm25"])
    with pytest.raises(ValueError, match="badly formed"):
        argparse.ArgumentParser().add_argument("--share", help="in % of all")


def test_an_argparse_that_checks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in (argparse.ArgumentParser, Container):
        if "_check_help" in vars(kind):
            monkeypatch.delattr(kind, "_check_help")
    accept_lazy_help()
    assert not hasattr(argparse.ArgumentParser, "_check_help")
