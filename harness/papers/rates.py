"""Counts, rates, models and prompts that estimates are made from: the files of `conf/paper/costs`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated

from harness.io import checks, config
from harness.io.checks import Words
from harness.io.files import data_root, read_bytes

SPREAD = 2.0  # how far, either way, a rate may lie from its measurements
_FOLDER = "conf/paper/costs"


@dataclass(frozen=True)
class Range:
    """A number that is known within bounds.

    Examples
    --------
    >>> Range(1, 2) + Range(3, 5).times(2)
    Range(low=7, high=12)
    """

    low: float
    high: float

    def __add__(self, other: Range) -> Range:
        return Range(self.low + other.low, self.high + other.high)

    def times(self, factor: float) -> Range:
        """Returns the range multiplied by a number."""
        return Range(self.low * factor, self.high * factor)

    def by(self, other: Range) -> Range:
        """Returns the product with another range."""
        return Range(self.low * other.low, self.high * other.high)


UNKNOWN = "not known"
NOTHING = Range(0, 0)


@dataclass(frozen=True)
class Measured:
    """A measurement: `amount * times` for `of` units, over n items.

    Attributes
    ----------
    quoted : text of a file of `bench/results` that has the numbers; `beside`: another one of the same file.
    """

    amount: float
    of: float
    n: int
    file: Words
    quoted: Words
    times: float = 1.0
    beside: Words = ""


@dataclass(frozen=True)
class Rate:
    """What one unit of work takes.

    Attributes
    ----------
    layers, width : of the encoder that was measured, and the dimensions of its vectors; 0 if there is none.
    """

    unit: Words
    device: Words
    measured: tuple[Measured, ...]
    layers: int = 0
    width: int = 0

    @property
    def range(self) -> Range:
        """Bounds: half of the lowest measurement, twice the highest."""
        rates = [each.amount * each.times / each.of for each in self.measured]
        return Range(min(rates) / SPREAD, max(rates) * SPREAD)

    @property
    def origin(self) -> str:
        """Files of the measurements, and their device."""
        files = ", ".join(dict.fromkeys(f"bench/results/{each.file}" for each in self.measured))
        return f"{files} ({self.device})"


@dataclass(frozen=True)
class ModelRates:
    """What is known of a model; `short` ones read 256 word pieces at most."""

    origin: Words
    parameters: int = 0
    layers: int = 0
    width: int = 0
    licence: Words = ""
    short: bool = False

    @property
    def megabytes(self) -> Range | None:
        """Size of its files by 2 to 4 bytes a parameter; None if its parameters are not known."""
        return Range(2e-6, 4e-6).times(self.parameters) if self.parameters else None


@dataclass(frozen=True)
class CorpusCounts:
    """Counts of a corpus.

    Attributes
    ----------
    documents : lowest and highest number.
    texts : what a document is: `answers`, `declarations` or `formulas`.
    posts : posts that must be read to get the documents.
    pairs : pairs that MathAMR+ is trained on, if it takes all; `vectors` are those of a document.
    """

    documents: tuple[int, ...]
    texts: Words
    origin: Words
    posts: int = 0
    pairs: int = 0
    vectors: float = 1.0

    @property
    def range(self) -> Range:
        """Number of documents."""
        return Range(*self.documents)


@dataclass(frozen=True)
class Prompt:
    """Mean letters and other characters of a request, over n of them; `sd` is that of their sum."""

    letters: int
    others: int
    n: int
    origin: Words
    sd: int = 0


@dataclass(frozen=True)
class Data:
    """The files of `conf/paper/costs`; `printed` are costs that the papers report of their own machines."""

    rates: Mapping[str, Rate]
    models: Mapping[str, ModelRates]
    corpora: Mapping[str, CorpusCounts]
    prompts: Mapping[str, Prompt]
    printed: Mapping[str, Words]


def amount(bounds: Range | None) -> str:
    """Returns a range with two digits.

    Examples
    --------
    >>> amount(Range(3.06, 1234)), amount(Range(0, 0.16)), amount(Range(0, 0.004)), amount(Range(7, 7)), amount(None)
    ('3.1 to 1,200', 'at most 0.16', 'under 0.01', '7', 'not known')
    """
    if bounds is None:
        return UNKNOWN
    if bounds.high == 0:
        return "0"
    if bounds.high < 0.01:
        return "under 0.01"
    low, high = _rounded(bounds.low), _rounded(bounds.high)
    return high if low == high else f"at most {high}" if bounds.low < 0.01 else f"{low} to {high}"


def _rounded(value: float) -> str:
    if value >= 99.5:  # two digits of what is below
        digits = len(f"{value:.0f}") - 2
        return f"{round(value, -digits):,.0f}"
    return f"{value:.2g}"


def size_text(bounds: Range | None) -> str:
    """Returns a range of MB in the unit that fits.

    Examples
    --------
    >>> size_text(Range(710, 1420)), size_text(Range(0.2, 0.2)), size_text(None)
    ('0.71 to 1.4 GB', '0.2 MB', 'not known')
    """
    if bounds is None or not bounds.high:
        return UNKNOWN if bounds is None else "none"
    return f"{amount(bounds.times(1e-3))} GB" if bounds.high >= 1000 else f"{amount(bounds)} MB"


@dataclass(frozen=True)
class HourPrice:
    """Dollars for an hour of a device, the offer that they are from, and its date."""

    dollars: Annotated[float, checks.check_number]
    source: Words
    date: Words

    def __str__(self) -> str:
        return f"{self.dollars:g} dollars ({self.source}, {self.date})"


@dataclass(frozen=True)
class Prices:
    """What an hour of one core and of one GPU costs."""

    cpu: HourPrice
    gpu: HourPrice


def prices() -> Prices:
    """Returns the prices of `paper/costs/prices.yaml`: the user's file, if there is one, or else ours.

    Raises
    ------
    HarnessError
        The file has a fault; the line names it.
    """
    at = [folder / "paper" / "costs" / "prices.yaml" for folder in config.own_folders()]
    path = [file for file in at if file.is_file()][-1]
    return checks.typed(Prices, config.read_file(path), str(path))


@cache
def data() -> Data:
    """Returns the counts, rates, models and prompts.

    Raises
    ------
    HarnessError
        A file has a fault; the line names it.
    """
    tables = {name: _read_table(name) for name in ("rates", "models", "counts")}
    return checks.typed(Data, {"rates": tables["rates"], "models": tables["models"], **tables["counts"]}, _FOLDER)


def _read_table(name: str) -> dict[str, object]:
    path = data_root() / _FOLDER / f"{name}.yaml"
    return config.parse(read_bytes(path), f"{_FOLDER}/{name}.yaml")
