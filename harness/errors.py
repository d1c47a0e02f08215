"""The errors a user can fix: one clear line each, exit code 2, no traceback."""

from __future__ import annotations

import difflib
import errno
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

LONGEST_LINE = 500  # characters of a line that is shown to a person
LONGEST_PATH = 200  # of them, for the path before a fault
_MOST_NEAR = 3  # suggested names
_MOST_LONGER = 9  # names that begin with the one asked for
LONGEST_LIST = 360  # of them, for names to choose from
LONGEST_MESSAGE = 20  # lines of what a system says when it fails
# What libraries, the loader and Python's threads say when memory is missing, without an exception of its own.
_NO_MEMORY = (
    "allocate memory",
    "not enough memory",
    "out of memory",
    "bad_alloc",
    "can't start new thread",
    "failed to map segment",
)


def printable(text: str) -> str:
    r"""Returns text that stays on one line and does nothing to a terminal.

    Line ends, control characters, marks that change the direction of writing, and whatever else has no shape of its
    own become escapes such as `\n`, `\x1b`, `\u202e`.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def shortened(text: str, most: int = LONGEST_LINE) -> str:
    """Returns text of at most `most` characters: the middle of a longer one is excluded, where `…` stands."""
    if len(text) <= most:
        return text
    tail = (most - 1) // 3
    return f"{text[: most - 1 - tail]}…{text[len(text) - tail :]}"


def counted_text(number: int, one: str, many: str = "") -> str:
    """Returns a number with what it counts; `many` is the form for other numbers than 1, if `s` does not make it.

    Examples
    --------
    >>> counted_text(1, "column"), counted_text(1200, "column"), counted_text(0, "result has", "results have")
    ('1 column', '1,200 columns', '0 results have')
    """
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def capitalised(text: str) -> str:
    """Returns text that begins a sentence.

    Examples
    --------
    >>> capitalised("two-sided tests by SciPy")
    'Two-sided tests by SciPy'
    """
    return f"{text[:1].upper()}{text[1:]}"


def one_of(names: Sequence[str]) -> str:
    """Returns names to choose from, in words.

    Examples
    --------
    >>> one_of(["a"]), one_of(["a", "b", "c"])
    ('a', 'a, b or c')
    """
    return " or ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def printable_line(line: str) -> str:
    """Returns a line as a person sees it: printable, and at most `LONGEST_LINE` characters."""
    # Cut before as well, so that a text of any size is escaped in no time.
    return shortened(printable(shortened(line, 4 * LONGEST_LINE)))


class HarnessError(Exception):
    """Something the user can fix. Each line says where, what is wrong, what would be right; mostly there is one.

    Attributes
    ----------
    lines : tuple[str, ...]
        Printable, whatever names and fields were put into them; the text of the error has a line end between them.

    Examples
    --------
    >>> import harness as h
    >>> try:
    ...     h.load_collection("mini-task3")
    ... except HarnessError as error:
    ...     print(error.lines[0])
    collection 'mini-task3' is unknown; did you mean 'mini-task1' or 'mini-task2'?
    """

    def __init__(self, *lines: str) -> None:
        self.lines = tuple(printable(line) for line in lines)
        super().__init__("\n".join(self.lines))

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), self.lines


@dataclass(frozen=True)
class InputFault:
    """One fault in an input file. `line` counts from 1; 0 means the file as a whole."""

    path: str
    line: int
    reason: str

    def __str__(self) -> str:
        path = shortened(self.path, LONGEST_PATH)
        where = f"{path}:{self.line}" if self.line else path
        return printable(f"{where}: {self.reason}")


class FormatError(HarnessError):
    """All faults found in one input file (up to a limit), each as `path:line: reason`.

    Attributes
    ----------
    problems : tuple[Problem, ...]
        In the order of their lines.
    """

    def __init__(self, problems: Sequence[InputFault]) -> None:
        self.problems = tuple(problems)
        super().__init__(*(str(p) for p in self.problems))

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.problems,)


def format_error(path: object, line: int, reason: str) -> FormatError:
    """Returns a `FormatError` with a single fault."""
    return FormatError([InputFault(str(path), line, reason)])


def several(names: Iterable[str]) -> tuple[str, ...]:
    """Names as a tuple; a text is one name, whose letters are none.

    >>> several("AP"), several(["AP", "P@5"])
    (('AP',), ('AP', 'P@5'))
    """
    return (names,) if isinstance(names, str) else tuple(names)


@contextmanager
def gather(faults: list[str]) -> Iterator[None]:
    """Keep the lines of a `HarnessError` instead of stopping at it, so that all faults of a file come together."""
    try:
        yield
    except HarnessError as error:
        faults += error.lines


@contextmanager
def os_errors(where: object, what: str, kinds: tuple[type[Exception], ...] = (OSError,)) -> Iterator[None]:
    """Raises `HarnessError` for an error of the system: `where` cannot be `what`, such as read or written, and why."""
    try:
        yield
    except kinds as error:
        raise HarnessError(f"{where}: cannot be {what}: {reason_of(error)}") from None


def reason_of(error: object) -> str:
    """Returns what an error says, on one line: of one of the system, without its number and file."""
    return " ".join((getattr(error, "strerror", None) or str(error) or type(error).__name__).split())


def refuse(faults: Sequence[str]) -> None:
    """Raises `HarnessError` with these faults, a line each and each once; nothing if there are none."""
    if faults:
        raise HarnessError(*dict.fromkeys(faults))


class DryRunError(HarnessError):
    """Ends a dry run that has counted what a system would ask for: no fault, the program ends with exit code 0."""


class SystemRaisedError(HarnessError):
    """A system raised something: the message names both.

    Attributes
    ----------
    trace : the traceback of the system's own frames.
    """

    def __init__(self, message: str, trace: str) -> None:
        super().__init__(message)
        self.trace = trace

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (*self.lines, self.trace)


def lacks_memory(error: BaseException | None) -> bool:
    """Returns whether an error, or one that it came from, says that the machine or the process has no memory left.

    Examples
    --------
    >>> lacks_memory(MemoryError()), lacks_memory(RuntimeError("can't start new thread")), lacks_memory(ValueError())
    (True, True, False)
    """
    while error is not None:
        if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
            return True
        if isinstance(error, RuntimeError | ImportError) and any(each in str(error) for each in _NO_MEMORY):
            return True
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return False


def out_of_memory(error: BaseException, what: str = "") -> HarnessError:
    """Returns the line for an error of which `lacks_memory` is true; `what` names the system."""
    said = shortened(" ".join(f"{type(error).__name__}: {error}".split()).removesuffix(":"), LONGEST_PATH)
    where = f"{what}: " if what else ""
    return HarnessError(
        f"{where}not enough memory ({said}); free memory and run the same command again, which keeps finished parts"
    )


def system_raised(what: str, error: BaseException) -> HarnessError:
    """Returns what `error`, raised by code that is not the harness's, becomes; `what` names the system."""
    import traceback  # only for those who need it

    if lacks_memory(error):  # where it happened is chance
        return out_of_memory(error, what)
    frames = traceback.extract_tb(error.__traceback__)
    # Our call, and the machinery of imports, say nothing about the fault.
    while frames and (frames[0].name in ("guarded", "<lambda>", "import_module") or "<frozen" in frames[0].filename):
        del frames[0]
    message = "".join(traceback.format_exception_only(error)).splitlines(keepends=True)
    lines = traceback.format_list(frames) + message[:LONGEST_MESSAGE]
    trace = "".join(("Traceback of the system (most recent call last):\n", *lines)).rstrip("\n")
    said = " ".join("".join(traceback.format_exception_only(error)[-1:]).split())
    return SystemRaisedError(f"{what}: {said}", trace)


def suggestion(name: str, known: Iterable[object]) -> str:
    """The end of an error about an unknown name: the nearest known ones, else all of them (as many as fit a line).

    Examples
    --------
    >>> suggestion("arqmath-4", ["arqmath-1", "arqmath-2", "crossmath"]), suggestion("x", ["bm25", "tree"])
    ("did you mean 'arqmath-1' or 'arqmath-2'?", 'known: bm25, tree')
    >>> suggestion("k2", ["b", "k1"])  # too short for a share of equal characters
    "did you mean 'k1'?"
    >>> suggestion("arqmath", ["arqmath-1", "arqmath-2", "crossmath"])
    "did you mean 'arqmath-1' or 'arqmath-2'?"
    """
    names = sorted({str(each) for each in known})  # keys of YAML may be numbers
    folded = {each.casefold(): each for each in names}
    asked = str(name)[:LONGEST_PATH].casefold()
    near = difflib.get_close_matches(asked, folded, n=len(folded) or 1, cutoff=0.6)
    if len(asked) == 2:
        near = near or [each for each in folded if len(each) == 2 and (each[0] == asked[0] or each[1] == asked[1])]
    # A name that is the first word of several means one of these, though another one may have more equal characters.
    start = f"{asked}-" if near else asked
    if len(longer := [each for each in names if asked and each.casefold().startswith(start)]) > 1:
        near, names = [], longer
        if len(longer) <= _MOST_LONGER:
            return f"did you mean {one_of([repr(each) for each in longer])}?"
    if near:
        nearness = [difflib.SequenceMatcher(None, each, asked).ratio() for each in near]
        best = [folded[each] for each, ratio in zip(near, nearness, strict=True) if ratio == nearness[0]]
        nearest = [repr(each) for each in sorted(best)[:_MOST_NEAR]]
        return f"did you mean {one_of(nearest)}?"
    if not names:
        return "there is none"
    listed = list(names)
    while len(listed) > 1 and len(", ".join(listed)) > LONGEST_LIST:
        listed.pop()
    more = len(names) - len(listed)
    return f"known: {', '.join(listed)}" + (f" and {more} more" if more else "")
