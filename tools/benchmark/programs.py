"""One measurement by one program: the transport's own, or one to compare it with. Each function
starts a receiver and a sender, and returns a Sample."""

import dataclasses
import json
import math

from benchmark.processes import (RECEIVER_CPU, SENDER_CPU, Failed, Program, await_socket, free_port,
                                 require)

MIB = 1 << 20
PATIENCE_S = 60


@dataclasses.dataclass
class Sample:
    value: float
    cpu: float | None = None  # of both processes: seconds per GB, or per million messages
    details: dict = dataclasses.field(default_factory=dict)


def _pair(place, server_words, client_words, port, environment=None):
    """Runs both; (the client's output, seconds of processor time of both)."""
    server = Program([*place.receiver, *server_words], RECEIVER_CPU, environment)
    try:
        await_socket(server, port)
        client = Program([*place.sender, *client_words], SENDER_CPU, environment)
        try:
            output = client.wait(PATIENCE_S)
        finally:
            client.kill()
        server.wait(PATIENCE_S)
    finally:
        server.kill()
    return output, client.cpu_seconds + server.cpu_seconds


def _by_messages(sample, size):
    """Millions per second, and processor time per million."""
    return Sample(sample.details["messages_per_s"] / 1e6, sample.cpu * size * 1e6 / 1e9,
                  sample.details)


def _json(text):
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise Failed(f"no JSON but '{text[:80]}'") from error


class Transport:
    """`spindrift perf`, with the options given."""

    def __init__(self, build):
        self.tool = build / "tools" / "spindrift"

    def _run(self, place, options):
        port = free_port()
        address = f"{place.address}:{port}"
        output, cpu = _pair(place,
                            [self.tool, "perf", "server", "--once", "--listen", f"udp://{address}"],
                            [self.tool, "perf", address, "--json", *options], port)
        return _json(output), cpu

    def bandwidth(self, place, seconds, size, options=(), operation="write"):
        """GB/s of payload."""
        report, cpu = self._run(place, ["--op", operation, "-s", size, "-D", f"{seconds * 1000:.0f}ms",
                                        *options])
        row = report["bandwidth"][0]
        counters = report["account"]["client"]["counters"]
        moved = counters["requests_completed"] * size
        return Sample(row["average_mb_per_s"] * MIB / 1e9, cpu / (moved / 1e9), {
            "messages_per_s": row["message_rate_mpps"] * 1e6,
            "has_crc": report["connection"]["has_crc"],
            "payload_mtu": report["connection"]["payload_mtu"],
            "packets": counters["packets_sent"],
            "retransmits": sum(value for name, value in counters.items()
                               if name.startswith("retransmits_"))})

    def messages(self, place, seconds, size, options=()):
        return _by_messages(self.bandwidth(place, seconds, size, options, "send"), size)

    def latency(self, place, seconds, size, options=()):
        """Half a round trip, us, median."""
        trips = max(1000, int(seconds / 10e-6))
        report, _ = self._run(place, ["--op", "send", "--test", "lat", "-s", size, "-n", trips,
                                      *options])
        row = report["latency"][0]
        return Sample(row["typical_us"], None, {"p99_us": row["p99_us"]})


class UdpLimit:
    """Plain UDP sockets: bench/limit."""

    def __init__(self, build):
        self.tool = build / "bench" / "udp_limit"

    def _run(self, place, seconds, options):
        port = free_port()
        address = f"{place.address}:{port}"
        output, _ = _pair(place, [self.tool, "server", address, "--once"],
                          [self.tool, "client", address, "--json", "-D", f"{seconds:.3f}",
                           "--warmup", f"{min(0.2, seconds / 4):.3f}", *options], port)
        return _json(output)

    def bandwidth(self, place, seconds, mtu, sockets=16):
        result = self._run(place, seconds, ["--mtu", mtu, "--sockets", sockets])
        return Sample(result["gb_per_s"], result["cpu_s_per_gb"], result)

    def messages(self, place, seconds):
        result = self._run(place, seconds, ["--messages", "--sockets", 16])
        return _by_messages(Sample(0, result["cpu_s_per_gb"],
                                   {**result, "messages_per_s": result["packets_per_s"]}), 64)

    def latency(self, place, seconds, size):
        result = self._run(place, seconds, ["--latency", "--bytes", size])
        return Sample(result["p50_us"], None, result)


class Ucx:
    """`ucx_perftest` over TCP, which has no durations: iterations are chosen to last about as
    long."""

    @staticmethod
    def _run(place, test, size, iterations):
        require("ucx_perftest", "ucx-utils")
        port = free_port()
        environment = {"UCX_TLS": "tcp", "UCX_NET_DEVICES": place.device}
        warmup = max(10, iterations // 10)
        output, cpu = _pair(place, ["ucx_perftest", "-p", port],
                            ["ucx_perftest", place.address, "-p", port, "-f", "-t", test, "-s", size,
                             "-n", iterations, "-w", warmup], port, environment)
        return parse_ucx(output), cpu / ((iterations + warmup) * size / 1e9)

    def bandwidth(self, place, seconds, size):
        iterations = max(10, int(min(seconds * 2.5e9 / size, seconds * 4e5)))
        row, cpu = self._run(place, "tag_bw", size, iterations)
        return Sample(row["mib_per_s"] * MIB / 1e9, cpu, row)

    def messages(self, place, seconds, size):
        return _by_messages(self.bandwidth(place, seconds, size), size)

    def latency(self, place, seconds, size):
        row, _ = self._run(place, "tag_lat", size, max(1000, int(seconds / 10e-6)))
        return Sample(row["p50_us"], None, row)


def parse_ucx(output):
    """The line of numbers below the table's head: iterations, then 50th percentile, average and
    overall of the time, average and overall of the bandwidth and of the rate."""
    for line in reversed(output.splitlines()):
        fields = line.split()
        try:
            numbers = [float(field) for field in fields]
        except ValueError:
            continue
        if len(numbers) == 8:
            return {"p50_us": numbers[1], "mib_per_s": numbers[5], "messages_per_s": numbers[7]}
    raise Failed("ucx_perftest printed no result")


class Tcp:
    """One connection of the kernel's TCP: iperf3."""

    @staticmethod
    def bandwidth(place, seconds):
        require("iperf3", "iperf3")
        port = free_port()
        # It counts whole seconds; a fraction is turned into bytes.
        extent = (["-n", f"{max(16, int(seconds * 1000))}M"] if seconds < 1
                  else ["-t", math.ceil(seconds)])
        output, cpu = _pair(place, ["iperf3", "-s", "-1", "-p", port],
                            ["iperf3", "-c", place.address, "-p", port, "-J", "-l", "128K", *extent],
                            port)
        received = _json(output)["end"]["sum_received"]
        if not received["bytes"]:
            raise Failed("iperf3 moved nothing")
        return Sample(received["bits_per_second"] / 8e9, cpu / (received["bytes"] / 1e9))
