"""The rows of the shm table: spindrift perf over shm:// beside what two processes can do with shared
memory and process_vm_readv and nothing above them (shm_limit), and the goals."""

import contextlib
import json
import os
import pathlib
import time

from benchmark.processes import Failed, Program
from benchmark.programs import MIB, PATIENCE_S, RECEIVER_CPU, SENDER_CPU, Sample
from benchmark.results import Goal
from benchmark.row import Row, Series


def _await_file(path, program):
    for _ in range(200):
        if path.exists():
            return
        if not program.is_running():
            raise Failed(f"the server ended: {program.complaint()}")
        time.sleep(0.02)
    raise Failed("the server did not listen")


class Shm:
    """`spindrift perf` over shm://; the server is on the receiver's processor."""

    def __init__(self, build):
        self.tool = build / "tools" / "spindrift"
        self.count = 0

    def _run(self, options, single_copy="auto"):
        self.count += 1
        name = f"bench-{os.getpid()}-{self.count}"
        environment = {"SPINDRIFT_SHM_SINGLE_COPY": single_copy}
        server = Program([self.tool, "perf", "server", "--once", "--listen", f"shm://{name}"],
                         RECEIVER_CPU, environment)
        try:
            _await_file(pathlib.Path(f"/dev/shm/spindrift.{name}"), server)
            client = Program([self.tool, "perf", f"shm://{name}", "--json", *options], SENDER_CPU,
                             environment)
            try:
                output = json.loads(client.wait(PATIENCE_S))
            finally:
                client.kill()
            server.wait(PATIENCE_S)
        finally:
            server.kill()
        return output, client.cpu_seconds + server.cpu_seconds

    def bandwidth(self, seconds, size, *options, single_copy="auto"):
        report, cpu = self._run(["-s", size, "-D", f"{seconds * 1000:.0f}ms", *options], single_copy)
        row = report["bandwidth"][0]
        moved = report["account"]["client"]["counters"]["requests_completed"] * size
        return Sample(row["average_mb_per_s"] * MIB / 1e9, cpu / (moved / 1e9))

    def messages(self, seconds, *options):
        report, cpu = self._run(["-s", 64, "-D", f"{seconds * 1000:.0f}ms", *options])
        done = report["account"]["client"]["counters"]["requests_completed"]
        return Sample(report["bandwidth"][0]["message_rate_mpps"], cpu / (done / 1e6))

    def round_trip(self, seconds, operation):
        """Nanoseconds, median."""
        report, cpu = self._run(["--test", "lat", "--op", operation, "-s", 8, "-D",
                                 f"{seconds * 1000:.0f}ms"])
        return Sample(2000 * report["latency"][0]["typical_us"])


class ShmLimit:
    def __init__(self, build):
        self.program = build / "bench" / "shm_limit"

    def _run(self, seconds, *words):
        program = Program([self.program, *words, "-D", seconds, "--first-cpu", RECEIVER_CPU,
                           "--second-cpu", SENDER_CPU])
        return json.loads(program.wait(PATIENCE_S))

    def copy(self, seconds, size, places):
        return Sample(self._run(seconds, "copy", "-s", size, "--places", places)["gb_per_s"])

    def ring(self, seconds, batch):
        return Sample(self._run(seconds, "ring", "--batch", batch)["messages_per_s"] / 1e6)

    def ping(self, seconds):
        return Sample(self._run(seconds, "ping")["round_trip_ns"])


def _series(name, label, measure):
    return Series(name, label, lambda _place, seconds: measure(seconds))


def _copy_rows(shm, limit):
    # As many places as perf uses for that depth.
    for name, size, places in (("write_1m", MIB, 4), ("write_64k", MIB // 16, 32)):
        def ours(*options, size=size, places=places, single_copy="auto"):
            return lambda seconds: shm.bandwidth(seconds, size, "--depth", str(places), *options,
                                                 single_copy=single_copy)
        yield Row(name, f"messages of {size // 1024} KiB, {places} under way", "GB/s",
                  contextlib.nullcontext,
                  [_series("ours", "WRITE", ours()), _series("send", "SEND", ours("--op", "send")),
                   _series("read", "READ", ours("--op", "read")),
                   _series("rings", "WRITE, rings only", ours(single_copy="off")),
                   _series("single_copy", "WRITE, single copy only", ours(single_copy="on")),
                   _series("limit", "process_vm_readv", lambda seconds, size=size, places=places:
                           limit.copy(seconds, size, places))],
                  [Goal("ours", "limit", at_least=0.8 if size == MIB else None),
                   Goal("send", "limit"), Goal("read", "limit"), Goal("rings", "limit"),
                   Goal("single_copy", "limit")])


def shm_rows(build):
    shm, limit = Shm(build), ShmLimit(build)
    yield from _copy_rows(shm, limit)
    yield Row("messages", "messages of 64 bytes", "M/s", contextlib.nullcontext,
              [_series("batched", "WRITE, 32 posted at once", lambda seconds: shm.messages(seconds)),
               _series("single", "WRITE, posted one by one",
                       lambda seconds: shm.messages(seconds, "--post-batch", "1")),
               _series("send", "SEND, 32 posted at once",
                       lambda seconds: shm.messages(seconds, "--op", "send")),
               _series("ring", "bare ring, published by 32", lambda seconds: limit.ring(seconds, 32)),
               _series("ring1", "bare ring, one by one", lambda seconds: limit.ring(seconds, 1))],
              [Goal("batched", at_least=11), Goal("single", at_least=6), Goal("batched", "ring"),
               Goal("single", "ring1")], cpu_unit="CPU s/M")
    yield Row("round_trip", "8 bytes there and back, both sides polling", "ns, median",
              contextlib.nullcontext,
              [_series("write", "WRITE", lambda seconds: shm.round_trip(seconds, "write")),
               _series("send", "SEND", lambda seconds: shm.round_trip(seconds, "send")),
               _series("limit", "a flag and 64 bytes copied in and out", limit.ping)],
              [Goal("write", "limit", at_most=2), Goal("send", "limit", at_most=2)])
