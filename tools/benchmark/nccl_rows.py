"""The rows of the nccl table: the NCCL plugin under nccl_net_check, which moves bytes as NCCL's proxy
does, beside `spindrift perf` on the same medium and a plain TCP plugin that works as NCCL's own socket
transport does, and the goals."""

import contextlib
import json

from benchmark.places import Loopback
from benchmark.processes import Program
from benchmark.programs import PATIENCE_S, Sample, Tcp, Transport
from benchmark.results import Goal
from benchmark.row import Row, Series
from benchmark.shm_rows import Shm

STEP = 512 << 10
IN_FLIGHT = 8  # steps of a buffer of 4 MiB
SHM = {}
UDP = {"SPINDRIFT_NCCL_SHM": "0"}


class Plugin:
    """A plugin and what its environment says; rank 0 is on processor 0, rank 1 on processor 1."""

    def __init__(self, build, library, version, environment):
        self.check = build / "tools" / "nccl" / "nccl_net_check"
        self.library = library
        self.version = version
        self.environment = {"SPINDRIFT_NCCL_IFNAME": "lo", **environment}

    def _measure(self, what, seconds):
        words = [self.check, "--plugin", self.library, "--versions", self.version, "--measure", what,
                 "--seconds", f"{seconds:.3f}", "--pin", "--timeout", PATIENCE_S]
        return json.loads(Program(words, None, self.environment).wait(PATIENCE_S))

    def bandwidth(self, what):
        def measure(_place, seconds):
            result = self._measure(what, seconds)
            # What the processors did before and after the measured second counts, too.
            return Sample(result["gigabytes_per_second"] * (2 if what == "both" else 1))
        return measure

    def time(self, what, unit_ns):
        return lambda _place, seconds: Sample(self._measure(what, seconds)["nanoseconds"] / unit_ns)


def _stream_row(title, what, ours, tcp):
    return Row(f"udp_{what}", title, "GB/s", contextlib.nullcontext,
               [Series("ours", "plugin, UDP", ours.bandwidth(what)),
                Series("tcp", "plain TCP plugin", tcp.bandwidth(what))],
               [Goal("ours", "tcp")])


def nccl_rows(build):
    library = build / "plugins" / "nccl" / "libnccl-net-spindrift.so"
    shm, udp = Plugin(build, library, 11, SHM), Plugin(build, library, 11, UDP)
    tcp = Plugin(build, build / "bench" / "nccl_tcp" / "libnccl-net-plain-tcp.so", 8, {})
    perf_shm, perf = Shm(build), Transport(build)
    depth = ("--depth", str(IN_FLIGHT))
    yield Row("shm_bandwidth", "steps of 512 KiB, 8 in flight, through shared memory", "GB/s",
              contextlib.nullcontext,
              [Series("ours", "plugin, shared memory", shm.bandwidth("bandwidth")),
               Series("perf", "spindrift perf, WRITE", lambda _place, seconds: perf_shm.bandwidth(
                   seconds, STEP, *depth))],
              [Goal("ours", "perf", at_least=0.85)])
    yield Row("udp_bandwidth", "steps of 512 KiB, 8 in flight, loopback", "GB/s", Loopback,
              [Series("ours", "plugin, UDP", udp.bandwidth("bandwidth")),
               Series("perf", "spindrift perf, WRITE", lambda place, seconds: perf.bandwidth(
                   place, seconds, STEP, depth)),
               Series("tcp", "plain TCP plugin", tcp.bandwidth("bandwidth")),
               Series("iperf", "kernel TCP (iperf3)", Tcp.bandwidth)],
              [Goal("ours", "perf", at_least=0.9), Goal("ours", "tcp", at_least=1.5),
               Goal("tcp", "iperf", at_least=0.9)])
    yield _stream_row("the same in both directions at once, sum", "both", udp, tcp)
    yield Row("latency", "isend, irecv and completion of 8 bytes, half a round trip", "us",
              contextlib.nullcontext,
              [Series("shm", "plugin, shared memory", shm.time("latency", 1000)),
               Series("udp", "plugin, UDP", udp.time("latency", 1000)),
               Series("tcp", "plain TCP plugin", tcp.time("latency", 1000))],
              [Goal("shm", at_most=2), Goal("udp", "tcp")])
    yield Row("idle_test", "test() of a request that nothing comes for", "ns",
              contextlib.nullcontext,
              [Series("shm", "plugin, shared memory", shm.time("idle", 1)),
               Series("udp", "plugin, UDP", udp.time("idle", 1)),
               Series("tcp", "plain TCP plugin", tcp.time("idle", 1))],
              [Goal("shm", at_most=60), Goal("udp", at_most=60)])
