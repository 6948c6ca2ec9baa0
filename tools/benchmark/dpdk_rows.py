"""The rows of the dpdk table: spindrift perf over two DPDK devices beside a plain DPDK pair that does
nothing but copy payload in and out (dpdk_limit), and the goals."""

import contextlib
import json
import os
import pathlib
import tempfile
import time

from benchmark.processes import Program, Unavailable, require, run
from benchmark.programs import MIB, PATIENCE_S, RECEIVER_CPU, SENDER_CPU, Sample
from benchmark.results import Goal
from benchmark.row import Row, Series

PACKET_BYTES = (4096, 8192)
MTU = 9000
# Of a SEND's packet, behind UDP's.
HEADER_BYTES = 56
# What the transport and the provider may add to a round trip of the bare devices.
ROUND_TRIP_COST_NS = 700


class Link:
    """Two ends, (device, arguments), the first of which listens."""

    def __init__(self, name, build):
        self.name = name
        self.build = build
        self.count = 0

    @contextlib.contextmanager
    def place(self):
        yield

    def ends(self):
        self.count += 1
        folder = pathlib.Path(tempfile.gettempdir())
        socket = folder / f"spindrift-bench-{os.getpid()}-{self.name}-{self.count}"
        if self.name == "memif":
            rest = f"socket-abstract=no,bsize=9216,socket={socket}"
            return ("net_memif0", f"role=server,{rest}"), ("net_memif0", f"role=client,{rest}")
        return (("net_vhost0", f"iface={socket},queues=1"),
                ("net_virtio_user0", f"path={socket},queues=1,queue_size=1024"))

    def options(self, _number):
        """Of the address of an end, beyond its device."""
        return ""


class Cable(Link):
    """A veth pair, whose ends af_packet has."""

    def __init__(self, build):
        super().__init__("af_packet", build)
        self._interfaces = [f"sdbench{end}{os.getpid() % 100000}" for end in "ab"]

    @contextlib.contextmanager
    def place(self):
        if os.geteuid() != 0:
            raise Unavailable("af_packet and veth interfaces need root")
        require("ip", "iproute2")
        near, far = self._interfaces
        # The driver numbers its sockets by process and interface, and two of one number refuse each
        # other: interfaces that differ more than processes do have none in common.
        index = 0x4000 + os.getpid() % 0x3000
        run(["ip", "link", "add", near, "index", index, "mtu", MTU, "type", "veth", "peer", "name",
             far, "index", index + 0x8000, "mtu", MTU])
        try:
            for interface in self._interfaces:
                run(["ip", "link", "set", interface, "up"])
            self._await_running()
            yield
        finally:
            run(["ip", "link", "del", near])

    def _await_running(self):
        """The kernel looks at its links once a second at most, and drops what is sent before."""
        deadline = time.monotonic() + PATIENCE_S
        for interface in self._interfaces:
            state = pathlib.Path("/sys/class/net") / interface / "operstate"
            while state.read_text().strip() != "up" and time.monotonic() < deadline:
                time.sleep(0.01)

    def ends(self):
        return [("net_af_packet0", f"iface={one},blocksz=65536,framesz=16384,framecnt=256")
                for one in self._interfaces]

    def options(self, number):
        """Not the kernel's Ethernet address: it would look up a route for each packet, which it does
        not for those of the plain program, that are of no type it knows."""
        return f"&mac=02:00:00:00:00:{number:02x}"


class Ours:
    """`spindrift perf` over the link; the server is on the receiver's processor."""

    def __init__(self, build, link):
        self.tool = build / "tools" / "spindrift"
        self.link = link

    def _address(self, end, number):
        device, arguments = end
        return (f"dpdk://{device}?ip=10.0.0.{number}/24&mtu={MTU}{self.link.options(number)}"
                f"&args={arguments}")

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

    def ping(self, seconds, payload_bytes, *words):
        return Sample(self._run(seconds, "ping", "-s", payload_bytes, *words)["round_trip_ns"])


def _series(name, label, measure):
    return Series(name, label, lambda _place, seconds: measure(seconds))


def _write_rows(link, goal):
    """Writes beside the bare copies; those must be fast without losses, and with."""
    ours, limit = Ours(link.build, link), Limit(link.build, link)
    for packet in PACKET_BYTES:
        series = [
            _series("ours", "WRITE",
                    lambda seconds, packet=packet: ours.bandwidth(seconds, packet)),
            _series("loss", "WRITE, 1 % lost", lambda seconds, packet=packet: ours.bandwidth(
                seconds, packet, "--fault", "loss=1%")),
            # From before the first byte to after the last.
            _series("dark", "WRITE, one EV dark", lambda seconds, packet=packet: ours.bandwidth(
                seconds, packet, "--fault", "blackhole=ev3@0ms+1000s")),
            _series("copying", "plain DPDK, copying",
                    lambda seconds, packet=packet: limit.stream(seconds, packet)),
        ]
        goals = [Goal("ours", "copying", at_least=goal), Goal("loss", "ours", at_least=0.85),
                 Goal("dark", "ours", at_least=0.9)]
        # The memory of virtio is shared with its peer beforehand, and af_packet copies frames into
        # the kernel's ring: they send nothing from elsewhere.
        if link.name == "memif":
            series.append(_series("external", "plain DPDK, from where it lies",
                                  lambda seconds, packet=packet: limit.stream(seconds, packet,
                                                                              "--external")))
            goals.append(Goal("ours", "external", at_least=goal))
        yield Row(f"{link.name}_write_{packet}",
                  f"{link.name}: messages of 1 MiB in packets of {packet} bytes, 16 EVs", "GB/s",
                  link.place, series, goals)


def dpdk_rows(build):
    yield from _write_rows(Link("memif", build), 0.75)
    yield from _write_rows(Link("vhost", build), 0.75)
    yield from _write_rows(Cable(build), 0.9)
    link = Link("memif", build)
    ours, limit = Ours(build, link), Limit(build, link)
    yield Row("memif_messages", "memif: SENDs of 64 bytes", "M/s", link.place,
              [_series("ours", "SEND, 32 posted at once", ours.messages),
               _series("limit", "plain DPDK", limit.frames)],
              [Goal("ours", at_least=5), Goal("ours", "limit")], cpu_unit="CPU s/M")
    yield Row("memif_round_trip", "memif: 8 bytes there and back, both sides polling",
              "ns, median", link.place,
              [_series("ours", "SEND", ours.round_trip),
               _series("limit", "plain DPDK", lambda seconds: limit.ping(seconds, 8)),
               _series("acknowledged", "plain DPDK, frames of our length, each followed by another",
                       lambda seconds: limit.ping(seconds, 8 + HEADER_BYTES, "--acknowledged"))],
              [Goal("ours", "limit", at_most=ROUND_TRIP_COST_NS, is_difference=True),
               Goal("ours", "acknowledged", is_difference=True)])
