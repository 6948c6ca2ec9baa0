"""The rows of the dpdk table: spindrift perf over two DPDK devices beside a plain DPDK pair that does
nothing but copy payload in and out (dpdk_limit), and the goals."""

import contextlib
import json
import os
import pathlib
import tempfile

from benchmark.processes import Program
from benchmark.programs import MIB, PATIENCE_S, RECEIVER_CPU, SENDER_CPU, Sample
from benchmark.results import Goal
from benchmark.row import Row, Series

PACKET_BYTES = (4096, 8192)
MTU = 9000


class Link:
    """Two ends, (device, arguments), the first of which listens."""

    def __init__(self, name):
        self.name = name
        self.count = 0

    def ends(self):
        self.count += 1
        folder = pathlib.Path(tempfile.gettempdir())
        socket = folder / f"spindrift-bench-{os.getpid()}-{self.name}-{self.count}"
        if self.name == "memif":
            rest = f"socket-abstract=no,bsize=9216,socket={socket}"
            return ("net_memif0", f"role=server,{rest}"), ("net_memif0", f"role=client,{rest}")
        return (("net_vhost0", f"iface={socket},queues=1"),
                ("net_virtio_user0", f"path={socket},queues=1,queue_size=1024"))


class Ours:
    """`spindrift perf` over the link; the server is on the receiver's processor."""

    def __init__(self, build, link):
        self.tool = build / "tools" / "spindrift"
        self.link = link

    def _address(self, end, number):
        device, arguments = end
        return f"dpdk://{device}?ip=10.0.0.{number}/24&mtu={MTU}&args={arguments}"

    def _run(self, options):
        near, far = self.link.ends()
        server = Program([self.tool, "perf", "server", "--once", "--listen",
                          self._address(near, 1)], RECEIVER_CPU, {"SPINDRIFT_HOST_ID": "near"})
        try:
            server.await_output("listening", PATIENCE_S)
            client = Program([self.tool, "perf", "dpdk://10.0.0.1", "--device",
                              self._address(far, 2), "--crc", "off", "--json", *options],
                             SENDER_CPU, {"SPINDRIFT_HOST_ID": "far"})
            try:
                output = json.loads(client.wait(PATIENCE_S))
            finally:
                client.kill()
            server.wait(PATIENCE_S)
        finally:
            server.kill()
        return output, client.cpu_seconds + server.cpu_seconds

    def bandwidth(self, seconds, packet_bytes, *options):
        report, cpu = self._run(["-s", MIB, "-D", f"{seconds * 1000:.0f}ms", "--mtu", packet_bytes,
                                 *options])
        row = report["bandwidth"][0]
        moved = report["account"]["client"]["counters"]["requests_completed"] * MIB
        return Sample(row["average_mb_per_s"] * MIB / 1e9, cpu / (moved / 1e9))

    def messages(self, seconds):
        report, cpu = self._run(["-s", 64, "--op", "send", "-D", f"{seconds * 1000:.0f}ms"])
        done = report["account"]["client"]["counters"]["requests_completed"]
        return Sample(report["bandwidth"][0]["message_rate_mpps"], cpu / (done / 1e6))

    def round_trip(self, seconds):
        """Nanoseconds, median."""
        report, _ = self._run(["--test", "lat", "--op", "send", "-s", 8, "-D",
                               f"{seconds * 1000:.0f}ms"])
        return Sample(2000 * report["latency"][0]["typical_us"])


class Limit:
    def __init__(self, build, link):
        self.program = build / "bench" / "dpdk_limit"
        self.link = link

    def _run(self, seconds, *words):
        near, far = self.link.ends()
        program = Program([self.program, *words, "--near", ",".join(near), "--far", ",".join(far),
                           "--mtu", MTU, "-D", seconds, "--first-cpu", RECEIVER_CPU,
                           "--second-cpu", SENDER_CPU])
        return json.loads(program.wait(PATIENCE_S))

    def stream(self, seconds, payload_bytes, *words):
        return Sample(self._run(seconds, "stream", "-s", payload_bytes, *words)["gb_per_s"])

    def frames(self, seconds):
        return Sample(self._run(seconds, "stream", "-s", 64)["packets_per_s"] / 1e6)

    def ping(self, seconds):
        return Sample(self._run(seconds, "ping", "-s", 8)["round_trip_ns"])


def _series(name, label, measure):
    return Series(name, label, lambda _place, seconds: measure(seconds))


def _write_rows(link, ours, limit):
    for packet in PACKET_BYTES:
        series = [
            _series("ours", "WRITE",
                    lambda seconds, packet=packet: ours.bandwidth(seconds, packet)),
            _series("loss", "WRITE, 1 % lost", lambda seconds, packet=packet: ours.bandwidth(
                seconds, packet, "--fault", "loss=1%")),
            _series("copying", "plain DPDK, copying",
                    lambda seconds, packet=packet: limit.stream(seconds, packet)),
        ]
        goals = [Goal("ours", "copying", at_least=0.75), Goal("loss", "ours", at_least=0.85)]
        # The memory of virtio is shared with its peer beforehand: it sends nothing from elsewhere.
        if link.name == "memif":
            series.append(_series("external", "plain DPDK, from where it lies",
                                  lambda seconds, packet=packet: limit.stream(seconds, packet,
                                                                              "--external")))
            goals.append(Goal("ours", "external", at_least=0.75))
        yield Row(f"{link.name}_write_{packet}",
                  f"{link.name}: messages of 1 MiB in packets of {packet} bytes, 16 EVs", "GB/s",
                  contextlib.nullcontext, series, goals)


def dpdk_rows(build):
    for name in ("memif", "vhost"):
        link = Link(name)
        yield from _write_rows(link, Ours(build, link), Limit(build, link))
    link = Link("memif")
    ours, limit = Ours(build, link), Limit(build, link)
    yield Row("memif_messages", "memif: SENDs of 64 bytes", "M/s", contextlib.nullcontext,
              [_series("ours", "SEND, 32 posted at once", ours.messages),
               _series("limit", "plain DPDK", limit.frames)],
              [Goal("ours", at_least=5), Goal("ours", "limit")], cpu_unit="CPU s/M")
    yield Row("memif_round_trip", "memif: 8 bytes there and back, both sides polling",
              "ns, median", contextlib.nullcontext,
              [_series("ours", "SEND", ours.round_trip), _series("limit", "plain DPDK", limit.ping)],
              [Goal("ours", "limit")])
