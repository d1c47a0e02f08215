"""A SLURM cluster on the loopback: one controller, and node daemons that differ in name and port only.

`python tests/tools/slurm.py FOLDER` starts one and waits; the variables for its clients are printed.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

NEEDED = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scancel", "squeue")
PACKAGES = "slurm-wlm munge"
_PATH = f"/usr/sbin:/usr/bin:/sbin:/bin:{os.environ.get('PATH', '')}"
_CONF = (Path(__file__).parents[1] / "data" / "slurm.conf").read_text(encoding="utf-8")


def missing() -> str:
    """Why no cluster can be started here; empty if one can."""
    if os.geteuid() != 0:
        return "SLURM's daemons are started by root"
    lacking = [name for name in NEEDED if shutil.which(name, path=_PATH) is None]
    return f"{', '.join(lacking)} not installed: apt-get install {PACKAGES}" if lacking else ""


def _ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    found = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return found


class Cluster:
    """A running cluster; `environment` is for its clients."""

    def __init__(self, folder: Path, nodes: Sequence[str] = ("n1", "n2"), cpus: int = 1) -> None:
        self.folder, self.nodes = folder, tuple(nodes)
        self.environment: Mapping[str, str] = {"SLURM_CONF": str(folder / "slurm.conf"), "PATH": _PATH}
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}
        port, *ports = _ports(1 + len(nodes))
        (folder / "state").mkdir()
        (folder / "munge.key").write_bytes(os.urandom(128))
        (folder / "munge.key").chmod(0o400)
        lines = [
            f"NodeName={node} NodeHostname={socket.gethostname()} NodeAddr=127.0.0.1 Port={at} CPUs={cpus} "
            "RealMemory=64000 State=UNKNOWN"
            for node, at in zip(nodes, ports, strict=True)
        ]
        text = _CONF.format(host=socket.gethostname(), port=port, folder=folder, nodes="\n".join(lines))
        (folder / "slurm.conf").write_text(text)
        where = [f"--{name}={folder}/munge.{kind}" for name, kind in
                 (("socket", "socket"), ("key-file", "key"), ("pid-file", "pid"), ("log-file", "log"),
                  ("seed-file", "seed"))]  # fmt: skip
        self._start("munged", "munged", "--foreground", "--force", *where)
        self._until((folder / "munge.socket").exists, "munged")
        self._start("slurmctld", "slurmctld", "-D", "-f", str(folder / "slurm.conf"))
        for node in nodes:
            self.start(node)
        self._until(lambda: self.said("sinfo", "-h", "-o", "%T %D").split() == ["idle", str(len(nodes))], "nodes")

    def _start(self, name: str, *command: str) -> None:
        log = (self.folder / f"{name}.out").open("ab")
        env = {**os.environ, **self.environment, "SLURM_TEST_NODE": name}
        self._daemons[name] = subprocess.Popen(command, env=env, stdout=log, stderr=log, start_new_session=True)

    def start(self, node: str) -> None:
        """Starts the daemon of a node."""
        (self.folder / f"spool-{node}").mkdir(exist_ok=True)
        self._start(node, "slurmd", "-D", "-N", node, "-f", str(self.folder / "slurm.conf"))

    def lose(self, node: str) -> None:
        """Kills a node's daemon and all that it has started, as if the machine were gone."""
        daemon = self._daemons.pop(node)
        daemon.kill()
        daemon.wait()
        ours = {f"SLURM_CONF={self.folder / 'slurm.conf'}".encode()}
        marks = {f"SLURM_TEST_NODE={node}".encode(), f"SLURMD_NODENAME={node}".encode()}
        for process in Path("/proc").iterdir():
            if process.name.isdecimal():
                with suppress(OSError):
                    variables = {*(process / "environ").read_bytes().split(b"\0")}
                    if variables & ours and variables & marks:
                        os.kill(int(process.name), signal.SIGKILL)

    def said(self, *command: str) -> str:
        """What a client of the cluster prints."""
        done = subprocess.run(command, env={**os.environ, **self.environment}, capture_output=True, text=True)  # noqa: PLW1510
        return done.stdout

    def _until(self, true: Callable[[], object], what: str, seconds: float = 40) -> None:
        deadline = time.monotonic() + seconds
        while not true():
            if time.monotonic() > deadline:
                logs = [path.read_text(errors="replace")[-1500:] for path in self.folder.glob("*.log")]
                outs = [path.read_text(errors="replace")[-1500:] for path in self.folder.glob("*.out")]
                raise RuntimeError("\n".join([f"SLURM: {what} did not start", *logs, *outs]))
            time.sleep(0.1)

    def close(self) -> None:
        """Ends all jobs and daemons."""
        self.said("scancel", "--user=root")
        deadline = time.monotonic() + 10
        while self.said("squeue", "-h") and time.monotonic() < deadline:
            time.sleep(0.1)
        for daemon in reversed(list(self._daemons.values())):
            daemon.terminate()
        for daemon in self._daemons.values():
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()


@contextmanager
def cluster(nodes: Sequence[str] = ("n1", "n2"), cpus: int = 1) -> Iterator[Cluster]:
    """A cluster in a folder of its own, whose name is short enough for sockets."""
    folder = Path(tempfile.mkdtemp(prefix="slurm-", dir="/run"))
    try:
        made = Cluster(folder, nodes, cpus)
        try:
            yield made
        finally:
            made.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    with cluster() as running:
        print(*(f"{name}={value}" for name, value in running.environment.items()), sep="\n", flush=True)  # noqa: T201
        with suppress(KeyboardInterrupt):
            signal.pause()
