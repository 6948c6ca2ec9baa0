#!/usr/bin/env python3
"""Runs the Google Benchmark programs of a folder for real and prints min, median and max of each
benchmark over the repetitions. The raw results stay in OUT/PROGRAM.json."""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

UNITS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}
# Everything else that is a number is a counter of the benchmark's own.
STANDARD = {"cpu_time", "real_time", "iterations", "bytes_per_second", "items_per_second",
            "threads", "repetitions", "repetition_index", "family_index",
            "per_family_instance_index"}


def programs_in(folder, wanted):
    found = [path for path in sorted(folder.glob("*_bench"))
             if path.is_file() and os.access(path, os.X_OK)]
    return [path for path in found if not wanted or any(word in path.name for word in wanted)]


def human(number):
    for limit, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= limit:
            return f"{number / limit:.2f}{suffix}"
    return f"{number:.2f}"


def rows_of(report):
    """name -> list of (ns per iteration, bytes/s, items/s, counters), one per repetition. The time
    is the processor's, unless the benchmark took it itself or spans several threads."""
    rows = {}
    for run in report["benchmarks"]:
        if run.get("run_type") == "iteration" and not run.get("error_occurred"):
            clock = ("real_time" if run["run_name"].endswith(("/real_time", "/manual_time"))
                     else "cpu_time")
            counters = {name: value for name, value in run.items()
                        if isinstance(value, (int, float)) and name not in STANDARD}
            rows.setdefault(run["run_name"], []).append(
                (run[clock] * UNITS[run["time_unit"]], run.get("bytes_per_second"),
                 run.get("items_per_second"), counters))
    return rows


def print_rows(program, rows):
    width = max([len(name) for name in rows] + [24])
    print(f"\n{program}\n{'benchmark':{width}} {'min ns':>12} {'median ns':>12} {'max ns':>12}"
          f" {'runs':>5} {'bytes/s':>10} {'items/s':>10}")
    for name, runs in rows.items():
        times = [run[0] for run in runs]
        rates = ["" if any(run[i] is None for run in runs)
                 else human(statistics.median(run[i] for run in runs)) for i in (1, 2)]
        print(f"{name:{width}} {min(times):12.1f} {statistics.median(times):12.1f}"
              f" {max(times):12.1f} {len(runs):5} {rates[0]:>10} {rates[1]:>10}", flush=True)
        for counter in runs[0][3]:
            values = [run[3].get(counter, 0) for run in runs]
            print(f"  {counter:{width - 2}} {min(values):12.3f} {statistics.median(values):12.3f}"
                  f" {max(values):12.3f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split(".")[0])
    parser.add_argument("--programs", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--repetitions", type=int, default=10)
    parser.add_argument("--min-time", default="0.05", help="seconds per repetition")
    parser.add_argument("names", nargs="*", help="only programs whose name holds one of these")
    arguments = parser.parse_args()
    programs = programs_in(arguments.programs, arguments.names)
    if not programs:
        print(f"no benchmark program in {arguments.programs} matches {arguments.names or 'any'}",
              file=sys.stderr)
        return 1
    arguments.out.mkdir(parents=True, exist_ok=True)
    for count, program in enumerate(programs, 1):
        print(f"[{count}/{len(programs)}] {program.name}", file=sys.stderr, flush=True)
        out = arguments.out / f"{program.name}.json"
        subprocess.run([program, f"--benchmark_repetitions={arguments.repetitions}",
                        f"--benchmark_min_time={arguments.min_time}",
                        "--benchmark_out_format=json", f"--benchmark_out={out}"],
                       check=True, stdout=subprocess.DEVNULL)
        print_rows(program.name, rows_of(json.loads(out.read_text())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
