#!/usr/bin/env python3
"""Where the time of a packet goes, sender and receiver apart: `spindrift perf` over a memory link of
DPDK's, both processes sampled by perf in the middle of the transfer. Prints nanoseconds and cycles per
packet. Samples are attributed by library and function, so what a turn does whether or not it finds
packets is a row of its own.

  python3 -B tools/profile_dpdk.py [--link memif|vhost] [--packet 4096] [--seconds 4]
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time

from benchmark.dpdk_rows import Link, Ours
from benchmark.processes import RECEIVER_CPU, SENDER_CPU, Failed, Program, Unavailable, require
from benchmark.programs import MIB, PATIENCE_S

# The first that fits: library, function, what it is.
PARTS = (
    (r"kernel|vdso", r"", "kernel"),
    (r"librte_(net|vhost)", r"", "driver"),
    (r"", r"mem(move|cpy|set)", "copies"),
    (r"", r"::(poll|turn|receive_some|now|progress|poll_errors|released|has_arrived|take)\b"
          r"|DpdkIo::receive|PortDevice::receive|DpdkReceiver::receive\b|on_timers|transmit_some"
          r"|_FUN|tls_get|ForeignPacketIo|PacketEngine::(note_backlog|poll_transmit)", "turns"),
    (r"libspindrift-dpdk|librte", r"", "provider"),
    (r"", r"spindrift::(perf|tools)|nlohmann|std::", "program"),
    (r"", r"", "engine"),
)


def part_of(library, function):
    for of_library, of_function, name in PARTS:
        if re.search(of_library, library) and re.search(of_function, function):
            return name
    raise AssertionError("the last part takes all")


def shares(data):
    """Of the samples in a file of perf's, by part."""
    words = ["perf", "report", "-i", str(data), "--stdio", "--no-children", "-g", "none", "--sort",
             "dso,symbol", "-w", "60,200", "-t", "|"]
    text = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    sums = {}
    for line in text.splitlines():
        fields = [field.strip() for field in line.split("|")]
        if line.startswith("#") or len(fields) < 3 or not fields[0].endswith("%"):
            continue
        part = part_of(fields[1], fields[2])
        sums[part] = sums.get(part, 0) + float(fields[0].rstrip("%")) / 100
    return sums


def ticks_per_ns():
    """Of the processor's time stamp counter, as the kernel found it."""
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("cpu MHz"):
            return float(line.split(":")[1]) / 1000
    raise Unavailable("/proc/cpuinfo does not tell the processor's frequency")


class Sampled(Ours):
    """A transfer whose processes are both sampled between its first and its last quarter."""

    def run(self, packet, seconds, folder):
        near, far = self.link.ends()
        server = Program([self.tool, "perf", "server", "--once", "--listen",
                          self._address(near, 1)], RECEIVER_CPU, {"SPINDRIFT_HOST_ID": "near"})
        try:
            server.await_output("listening", PATIENCE_S)
            client = Program([self.tool, "perf", "dpdk://10.0.0.1", "--device",
                              self._address(far, 2), "--crc", "off", "--json", "-s", MIB, "--mtu",
                              packet, "-D", f"{seconds * 1000:.0f}ms"], SENDER_CPU,
                             {"SPINDRIFT_HOST_ID": "far"})
            try:
                time.sleep(0.5 + seconds / 4)
                recorders = [subprocess.Popen(
                    ["perf", "record", "-q", "-e", "cpu-clock", "-F", "5000", "-o",
                     str(folder / name), "-p", str(program.pid), "--", "sleep", str(seconds / 2)],
                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                    for name, program in (("sender", client), ("receiver", server))]
                for recorder in recorders:
                    recorder.wait()
                report = json.loads(client.wait(PATIENCE_S))
            finally:
                client.kill()
            server.wait(PATIENCE_S)
        finally:
            server.kill()
        gb_per_s = report["bandwidth"][0]["average_mb_per_s"] * MIB / 1e9
        return gb_per_s, packet / gb_per_s


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/release"))
    parser.add_argument("--link", choices=("memif", "vhost"), default="memif")
    parser.add_argument("--packet", type=int, default=4096, help="bytes of payload")
    parser.add_argument("--seconds", type=float, default=4)
    options = parser.parse_args()
    require("perf", "linux-perf")
    with tempfile.TemporaryDirectory() as folder:
        sampled = Sampled(options.build, Link(options.link, options.build))
        gb_per_s, ns = sampled.run(options.packet, options.seconds, pathlib.Path(folder))
        sides = [shares(pathlib.Path(folder) / name) for name in ("sender", "receiver")]
    rate = ticks_per_ns()
    print(f"{options.link}, packets of {options.packet} bytes: {gb_per_s:.1f} GB/s, {ns:.0f} ns or "
          f"{ns * rate:.0f} cycles (at {rate:.2f} GHz) a packet\n")
    print("| | send, ns | cycles | receive, ns | cycles |\n|---|---|---|---|---|")
    for part in ("driver", "copies", "engine", "provider", "turns", "program", "kernel"):
        cells = [f"{side.get(part, 0) * ns:.0f} | {side.get(part, 0) * ns * rate:.0f}"
                 for side in sides]
        print(f"| {part} | {' | '.join(cells)} |")


if __name__ == "__main__":
    try:
        main()
    except (Failed, Unavailable, subprocess.CalledProcessError) as error:
        sys.exit(f"profile_dpdk: {error}")
