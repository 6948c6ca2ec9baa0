"""The rows of the ofi table: spindrift perf over ofi:// beside what two processes can do with plain
calls of libfabric over the same provider (ofi_limit), and the goals."""

import contextlib
import json

from benchmark.processes import Program, free_port
from benchmark.programs import MIB, PATIENCE_S, RECEIVER_CPU, SENDER_CPU, Sample
from benchmark.results import Goal
from benchmark.row import Row, Series

PROVIDERS = ("net", "shm")
# Messages of 1 MiB under way, on both sides of the comparison.
DEPTH = 16


class Ours:
    """`spindrift perf` over a provider of libfabric; the server is on the receiver's processor."""

    def __init__(self, build, provider):
        self.tool = build / "tools" / "spindrift"
        self.provider = provider

    def _run(self, options):
        address = f"ofi://{self.provider}@127.0.0.1:{free_port()}"
        server = Program([self.tool, "perf", "server", "--once", "--listen", address], RECEIVER_CPU)
        try:
            server.await_output("listening", PATIENCE_S)
            client = Program([self.tool, "perf", address, "--json", *options], SENDER_CPU)
            try:
                output = json.loads(client.wait(PATIENCE_S))
            finally:
                client.kill()
            server.wait(PATIENCE_S)
        finally:
            server.kill()
        return output, client.cpu_seconds + server.cpu_seconds

    def bandwidth(self, operation):
        def measure(_place, seconds):
            report, cpu = self._run(["--op", operation, "-s", MIB, "--depth", DEPTH, "-D",
                                     f"{seconds * 1000:.0f}ms"])
            moved = report["account"]["client"]["counters"]["requests_completed"] * MIB
            return Sample(report["bandwidth"][0]["average_mb_per_s"] * MIB / 1e9, cpu / (moved / 1e9))
        return measure

    def round_trip(self, operation):
        """Nanoseconds, median."""
        def measure(_place, seconds):
            report, _ = self._run(["--test", "lat", "--op", operation, "-s", 8, "-D",
                                   f"{seconds * 1000:.0f}ms"])
            return Sample(2000 * report["latency"][0]["typical_us"])
        return measure


class Limit:
    def __init__(self, build, provider):
        self.program = build / "bench" / "ofi_limit"
        self.provider = provider

    def _run(self, seconds, *words):
        program = Program([self.program, *words, "--provider", self.provider, "-D", seconds,
                           "--first-cpu", SENDER_CPU, "--second-cpu", RECEIVER_CPU])
        return json.loads(program.wait(PATIENCE_S))

    def bandwidth(self, what):
        return lambda _place, seconds: Sample(
            self._run(seconds, what, "-s", MIB, "--depth", DEPTH)["gb_per_s"])

    def round_trip(self, _place, seconds):
        return Sample(self._run(seconds, "ping")["round_trip_ns"])


def ofi_rows(build):
    for provider in PROVIDERS:
        ours, limit = Ours(build, provider), Limit(build, provider)
        yield Row(f"{provider}_write", f"{provider}: messages of 1 MiB, {DEPTH} under way", "GB/s",
                  contextlib.nullcontext,
                  [Series("ours", "WRITE", ours.bandwidth("write")),
                   Series("send", "SEND", ours.bandwidth("send")),
                   Series("read", "READ", ours.bandwidth("read")),
                   Series("limit", "plain fi_write", limit.bandwidth("write")),
                   Series("reading", "plain fi_read", limit.bandwidth("read"))],
                  [Goal("ours", "limit", at_least=0.95), Goal("send", "limit"),
                   Goal("read", "reading")])
        yield Row(f"{provider}_round_trip", f"{provider}: 8 bytes there and back, both sides polling",
                  "ns, median", contextlib.nullcontext,
                  [Series("send", "SEND", ours.round_trip("send")),
                   Series("write", "WRITE", ours.round_trip("write")),
                   Series("limit", "plain fi_inject and fi_recv", limit.round_trip)],
                  [Goal("send", "limit", at_most=1.15), Goal("write", "limit", at_most=1.15)])
