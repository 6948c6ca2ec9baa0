"""The libraries that the collectives are compared with, and how the ranks of each are started. Every
run gives the time and the processor time of a call, by size."""

import contextlib
import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass

from benchmark.processes import Failed, free_port

TORCH_PEER = pathlib.Path(__file__).resolve().parent.parent.parent / "bench" / "peers" / "torch_peer.py"
SHARED_MEMORY, SOCKETS, TORCH = "shared memory", "sockets of one host", "PyTorch"
GRACE_S = 5  # for the others, once one has failed
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


@dataclass
class Call:
    """Of one size."""
    us: float      # of the slowest rank
    cpu_us: float  # of all ranks together
    longest_us: float = 0  # the longest single call of any rank; 0: calls were not timed one by one


@dataclass
class Peer:
    name: str
    medium: str
    program: str  # below bench/peers of the build, or a file
    launcher: list | None = None  # None: processes with RANK and WORLD_SIZE
    environment: dict | None = None
    is_ours: bool = False

    def is_there(self, build):
        path = self.path(build)
        return path.exists() and (self.launcher is None or shutil.which(self.launcher[0]) is not None)

    def path(self, build):
        return build / "bench" / "peers" / self.program

    def run(self, build, ranks, words, patience_s):
        """{bytes: Call}, or Failed."""
        environment = {**os.environ, **AS_ROOT, **(self.environment or {})}
        words = [str(word) for word in (self.path(build), *words)]
        if self.launcher is not None:
            output = _wait([_start([*self.launcher, "-n", str(ranks), *words], environment)], patience_s)
        else:
            with tempfile.TemporaryDirectory() as folder:
                meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "GLOO_MEETING": folder}
                output = _wait([_start(words, {**environment, **meeting, "RANK": str(rank),
                                               "WORLD_SIZE": str(ranks)}) for rank in range(ranks)], patience_s)
        return parse(output, ranks)


def _start(words, environment):
    return subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            start_new_session=True)


def _await_end(processes, patience_s):
    """The first that ended with an error, or None; the others are not waited for long then, since they
    may wait for that one. Whoever runs still has to be killed."""
    give_up = time.monotonic() + patience_s
    running = {os.pidfd_open(process.pid): process for process in processes}
    failed = None
    try:
        while running:
            ended = select.select(list(running), [], [], max(0, give_up - time.monotonic()))[0]
            if not ended:
                break
            for descriptor in ended:
                process = running.pop(descriptor)
                os.close(descriptor)
                if process.wait() != 0 and failed is None:
                    failed = process
                    give_up = min(give_up, time.monotonic() + GRACE_S)
    finally:
        for descriptor in running:
            os.close(descriptor)
    return failed


def _wait(processes, patience_s):
    """What they printed together. None of them is left behind."""
    failed = _await_end(processes, patience_s)
    late = [process for process in processes if process.poll() is None]
    texts = []
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # what a launcher started too
        texts.append(process.communicate())
    last_words = [text[1].strip().splitlines()[-1] for text in texts if text[1].strip()]
    if failed is not None:
        own = texts[processes.index(failed)][1].strip().splitlines()
        raise Failed(own[-1] if own else " / ".join(last_words) or f"it ended with {failed.returncode}")
    if late:
        said = " / ".join(last_words)
        raise Failed(f"did not end within {patience_s} s{'; it said: ' + said if said else ''}")
    return "".join(text[0] for text in texts)


def parse(output, ranks):
    """One JSON line per rank and size, in any order."""
    by_size = {}
    for line in output.splitlines():
        if line.startswith("{"):
            one = json.loads(line)
            by_size.setdefault(one["bytes"], []).append(one)
    for size, lines in by_size.items():
        if len(lines) != ranks:
            raise Failed(f"{len(lines)} of {ranks} ranks report about {size} bytes")
    return {size: Call(us=max(line["us"] for line in lines), cpu_us=sum(line["cpu_us"] for line in lines),
                       longest_us=max(line.get("longest_us", 0) for line in lines))
            for size, lines in by_size.items()}


def all_peers(build):
    """Ours first in each medium."""
    open_mpi = ["mpirun.openmpi", "--oversubscribe"]
    ucx = [*open_mpi, "--mca", "pml", "ucx", "--mca", "opal_common_ucx_tls", "any", "--mca",
           "opal_common_ucx_devices", "any"]
    return [
        Peer("Spindrift shm", SHARED_MEMORY, "spindrift_peer", environment={"SPINDRIFT_PROVIDER": "shm"},
             is_ours=True),
        Peer("Open MPI vader", SHARED_MEMORY, "openmpi_peer",
             launcher=[*open_mpi, "--mca", "pml", "ob1", "--mca", "btl", "vader,self"]),
        Peer("Open MPI UCX", SHARED_MEMORY, "openmpi_peer", launcher=ucx,
             environment={"UCX_TLS": "sysv,posix,cma,self"}),
        Peer("MPICH posix", SHARED_MEMORY, "mpich_peer", launcher=["mpirun.mpich"]),
        Peer("Spindrift UDP", SOCKETS, "spindrift_peer", environment={"SPINDRIFT_PROVIDER": "udp"},
             is_ours=True),
        Peer("Gloo TCP", SOCKETS, "gloo_peer"),
        Peer("Open MPI TCP", SOCKETS, "openmpi_peer",
             launcher=[*open_mpi, "--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include",
                       "lo"]),
        Peer("MPICH UCX TCP", SOCKETS, "mpich_peer", launcher=["mpirun.mpich"],
             environment={"MPIR_CVAR_NOLOCAL": "1", "UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "lo"}),
        TorchPeer("Spindrift", "spindrift", is_ours=True,
                  environment={"PYTHONPATH": str(build / "plugins" / "torch")}),
        TorchPeer("Gloo", "gloo"),
    ]


class TorchPeer(Peer):
    """`words` are a type of PyTorch, seconds and sizes."""

    def __init__(self, name, backend, **more):
        super().__init__(name, TORCH, str(TORCH_PEER), **more)
        self.backend = backend

    def path(self, build):
        return TORCH_PEER

    def is_there(self, build):
        built = list((build / "plugins" / "torch").glob("spindrift_torch*.so"))
        return bool(built)

    def run(self, build, ranks, words, patience_s):
        environment = {**os.environ, **(self.environment or {}), "MASTER_ADDR": "127.0.0.1",
                       "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(ranks)}
        command = ["/usr/bin/python3", "-B", str(TORCH_PEER), self.backend, *map(str, words)]
        return parse(_wait([_start(command, {**environment, "RANK": str(rank)}) for rank in range(ranks)],
                           patience_s), ranks)
