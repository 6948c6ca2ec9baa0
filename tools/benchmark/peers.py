"""The libraries that the collectives are compared with, and how the ranks of each are started. Every
run gives the time and the processor time of a call, by size."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
from dataclasses import dataclass

from benchmark.processes import Failed, free_port

TORCH_PEER = pathlib.Path(__file__).resolve().parent.parent.parent / "bench" / "peers" / "torch_peer.py"
SHARED_MEMORY, SOCKETS, TORCH = "shared memory", "sockets of one host", "PyTorch"
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


@dataclass
class Call:
    """Of one size."""
    us: float      # of the slowest rank
    cpu_us: float  # of all ranks together


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


def _last_words(processes):
    """What one of them may have died of while the others waited for it."""
    lines = []
    for process in processes:
        process.kill()
        lines += process.communicate()[1].strip().splitlines()[-1:]
    return " / ".join(lines)


def _wait(processes, patience_s):
    """What they printed together. None of them is left behind."""
    output, errors = "", ""
    try:
        for process in processes:
            out, err = process.communicate(timeout=patience_s)
            output, errors = output + out, errors + err
    except subprocess.TimeoutExpired as late:
        said = _last_words(processes)
        raise Failed(f"did not end within {patience_s} s{'; it said: ' + said if said else ''}") from late
    finally:
        for process in processes:
            process.kill()
            process.wait()
    if any(process.returncode != 0 for process in processes):
        raise Failed((errors.strip().splitlines() or ["it ended with an error"])[-1])
    return output


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
    return {size: Call(us=max(line["us"] for line in lines), cpu_us=sum(line["cpu_us"] for line in lines))
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
