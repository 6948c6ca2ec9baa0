#!/usr/bin/env python3
"""Tables of the transport between two processes, beside what others or the bare machine do, turn about
in the same run, and the ratios against their goals. core: over UDP, beside plain UDP sockets, the
kernel's TCP and UCX. shm: through shared memory, beside nothing but the copies.
dpdk: over DPDK's memory links, beside a plain DPDK program. ofi: over libfabric, beside a plain
program of libfabric's. nccl: the NCCL plugin, beside a plain TCP
plugin.

Sender on processor 0, receiver on processor 1. In every round each series of a row runs once, in
another order each time; ratios are taken within a round. Root is needed for the rows between network
namespaces; what cannot be measured says why."""

import argparse
import json
import os
import pathlib
import sys
import time

from benchmark import report
from benchmark.dark_path import write_plot
from benchmark.dpdk_rows import dpdk_rows
from benchmark.nccl_rows import nccl_rows
from benchmark.ofi_rows import ofi_rows
from benchmark.processes import Unavailable
from benchmark.row import Settings, end_progress, show_progress
from benchmark.rows import all_rows
from benchmark.shm_rows import shm_rows

ROOT = pathlib.Path(__file__).resolve().parent.parent
TABLES = {"core": all_rows, "shm": shm_rows, "dpdk": dpdk_rows, "ofi": ofi_rows,
          "nccl": nccl_rows}


def parse(words):
    parser = argparse.ArgumentParser(prog="./dev bench core|shm|dpdk|ofi|nccl", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="ROW",
                        help="only rows whose name holds one of these words")
    parser.add_argument("--table", choices=TABLES, default="core")
    parser.add_argument("--rounds", type=int, default=10, help="of every row (10)")
    parser.add_argument("--seconds", type=float, default=1.0, help="of each measurement (1)")
    parser.add_argument("--quick", action="store_true",
                        help="one short round: shows that it works, and measures nothing")
    parser.add_argument("--list", action="store_true", help="names of the rows, and end")
    parser.add_argument("--write-docs", action="store_true",
                        help="put the tables into docs/PERFORMANCE.md")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build" / "bench",
                        help="folder of core.json, shm.json ..., and the plot")
    arguments = parser.parse_args(words)
    if not 1 <= arguments.rounds <= 1000:
        parser.error(f"--rounds {arguments.rounds} is outside 1..1000")
    if not 0.02 <= arguments.seconds <= 60:
        parser.error(f"--seconds {arguments.seconds} is outside 0.02..60")
    if arguments.write_docs and (arguments.names or arguments.quick):
        parser.error("--write-docs writes whole tables: leave out row names and --quick")
    return parser, arguments


def choose(parser, arguments):
    chosen = [row for row in TABLES[arguments.table](arguments.build)
              if not arguments.names or any(word in row.name for word in arguments.names)]
    if not chosen:
        parser.error(f"no row is called like {' or '.join(arguments.names)}; --list names them")
    return chosen


def measure(chosen, settings, save_all):
    """Saves after every row, so that an interrupted run leaves what it has."""
    results = []
    for number, row in enumerate(chosen, 1):
        show_progress(f"[{number}/{len(chosen)}] {row.name}")
        results.append(row.run(settings))
        end_progress()
        print(report.as_text(results[-1]), flush=True)
        save_all(results)
    return results


def save(results, facts, settings, arguments):
    out = arguments.out
    out.mkdir(parents=True, exist_ok=True)
    document = {"machine": facts, "rounds": settings.rounds, "seconds": settings.seconds,
                "rows": [result.to_json() for result in results]}
    (out / f"{arguments.table}.json").write_text(json.dumps(document, indent=1, default=str) + "\n")
    for result in results:
        if result.timelines:
            write_plot(out / f"{result.name}.svg", result)


def main():
    parser, arguments = parse(sys.argv[1:])
    chosen = choose(parser, arguments)
    if arguments.list:
        for row in chosen:
            print(f"{row.name:20} {row.title}")
        return 0
    settings = Settings(arguments.build, arguments.rounds, arguments.seconds)
    if arguments.quick:
        settings = Settings(arguments.build, 1, 0.05, True)
    facts = report.machine()
    began = time.monotonic()

    def save_all(results):
        facts["load_after"] = os.getloadavg()[0]
        save(results, facts, settings, arguments)

    results = measure(chosen, settings, save_all)
    met, goals = report.goals_met(results)
    print(f"\n{report.describe_machine(facts)}\n{met} of {goals} goals met; "
          f"{time.monotonic() - began:.0f} s; samples in {arguments.out / f'{arguments.table}.json'}")
    if arguments.write_docs:
        how = (f"{settings.rounds} rounds of {settings.seconds:g} s; sender on processor 0, receiver "
               "on processor 1.")
        report.write_section(ROOT / "docs" / "PERFORMANCE.md", arguments.table,
                             report.section(results, facts, how))
        for result in results:
            if result.timelines:
                write_plot(ROOT / "docs" / f"{result.name}.svg", result)
    failed = [one for result in results for one in result.series.values()
              if one.problem and not one.values()
              and not isinstance(one.problem, Unavailable)]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
