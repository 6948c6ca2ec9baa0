"""The engine alone: two of them joined in memory, packets of 4 KiB, send, receive and acknowledge
together. Nanoseconds from engine_bench, instructions from valgrind."""

import json
import pathlib
import re
import tempfile

from benchmark.places import Loopback
from benchmark.processes import SENDER_CPU, Failed, Program, require
from benchmark.programs import Sample
from benchmark.results import Goal
from benchmark.row import Row, Series

PATIENCE_S = 120
# Two runs, so that what a run costs before its first packet cancels out.
FEW_MESSAGES = 8
MANY_MESSAGES = 72
LINK = "spindrift::bench::DirectLink::carry*"


def measure_ns(build, case, seconds):
    """ns per packet of one benchmark; it fails when an engine allocates memory."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder, "engine.json")
        Program([build / "bench" / "engine_bench", f"--benchmark_filter=^{case}$",
                 f"--benchmark_min_time={seconds / 2:.3f}", "--benchmark_out_format=json",
                 f"--benchmark_out={out}"], SENDER_CPU).wait(PATIENCE_S)
        runs = json.loads(out.read_text())["benchmarks"]
    if not runs or runs[0].get("error_occurred"):
        raise Failed(runs[0]["error_message"] if runs else f"engine_bench has no {case}")
    return Sample(runs[0]["ns_per_packet"], None, {"allocations": runs[0]["allocations"]})


def count_instructions(build, messages, function=None):
    """(packets, instructions) of one run, or of one function in it."""
    require("valgrind", "valgrind")
    only = [f"--toggle-collect={function}", "--collect-atstart=no"] if function else []
    program = Program(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", *only,
                       build / "bench" / "engine_count", messages])
    packets = int(program.wait(PATIENCE_S))
    found = re.search(r"Collected : (\d+)", program.errors)
    if not found:
        raise Failed("valgrind did not say how many instructions it counted")
    return packets, int(found.group(1))


def measure_instructions(build, function=None):
    few_packets, few = count_instructions(build, FEW_MESSAGES, function)
    many_packets, many = count_instructions(build, MANY_MESSAGES, function)
    return Sample((many - few) / (many_packets - few_packets))


def engine_rows(build):
    def timed(name, label, case):
        return Series(name, label, lambda _, seconds: measure_ns(build, case, seconds))

    yield Row("engine_ns", "the engine alone, packets of 4 KiB: send, receive and acknowledge",
              "ns per packet", Loopback,
              [timed("engine", "16 a burst, payload not copied", "write_1M/no_copy/burst:16"),
               timed("burst", "32 a burst, payload not copied", "write_1M/no_copy/burst:32"),
               timed("copied", "16 a burst, payload copied",
                     "write_1M/burst:16/paths:16/crc:off"),
               timed("crc", "16 a burst, payload copied, CRC on",
                     "write_1M/burst:16/paths:16/crc:on")],
              [Goal("engine", at_most=80)],
              "Not copied: the one memcpy into the user's buffer is left out, everything else "
              "about the packets stays. The programs fail when an engine allocates memory: 0 "
              "allocations.")
    yield Row("engine_instructions", "the same, counted by valgrind", "instructions per packet",
              Loopback,
              [Series("engine", "16 a burst, payload not copied",
                      lambda *_: measure_instructions(build)),
               Series("link", "of these, the benchmark's own link",
                      lambda *_: measure_instructions(build, LINK))],
              [Goal("engine", at_most=500)], max_rounds=1)
