#!/usr/bin/env python3
"""Figures of the verbs provider on the kernel's RDMA devices (soft-RoCE), in a virtual machine: what one
message costs in requests, doorbells, completions and system calls, beside perftest's loop; times beside
perftest's; goodput with 1 % of the packets lost on the cable; 16 lanes beside 1.

Counts carry over to a card. Times are those of an emulated processor that emulates a card: they say how
much there is to do, not how fast a card is. Each row boots a machine of its own."""

import argparse
import json
import pathlib
import subprocess
import sys

from benchmark.verbs_inside import ROWS, tables

ROOT = pathlib.Path(__file__).resolve().parent.parent
NO_MACHINE = 125  # as run_in_vm.sh says it


def parse(words):
    parser = argparse.ArgumentParser(prog="./dev bench verbs", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="ROW", help=f"of {', '.join(ROWS)} (all)")
    parser.add_argument("--rounds", type=int, default=5, help="of each measurement (5)")
    parser.add_argument("--seconds", type=float, default=1.0, help="of each measurement (1)")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--out", type=pathlib.Path, help="folder of a verbs_ROW.json for each row")
    arguments = parser.parse_args(words)
    unknown = [name for name in arguments.names if name not in ROWS]
    if unknown:
        parser.error(f"there is no row {unknown[0]}; there are {', '.join(ROWS)}")
    if not 1 <= arguments.rounds <= 100:
        parser.error(f"--rounds {arguments.rounds} is outside 1..100")
    return arguments


def measure(row, arguments):
    """What the row found, or None where there is no virtual machine."""
    inside = [sys.executable, "-B", str(ROOT / "tools" / "benchmark" / "verbs_inside.py"), row,
              str(arguments.build), str(arguments.rounds), str(arguments.seconds)]
    done = subprocess.run([str(ROOT / "tests" / "vm" / "run_in_vm.sh"), "--with", "rdma",
                           "--timeout", "540"] + inside, stdout=subprocess.PIPE, text=True,
                          check=False)
    if done.returncode == NO_MACHINE:
        return None
    if done.returncode != 0:
        raise SystemExit(f"bench verbs: {row} ended with {done.returncode}:\n{done.stdout}")
    return json.loads(done.stdout)


def main(words):
    arguments = parse(words)
    for row in arguments.names or ROWS:
        found = measure(row, arguments)
        if found is None:
            print(f"{row}: not measured here: it needs a virtual machine, and there is none")
            continue
        print(tables(row, found), flush=True)
        if arguments.out is not None:
            arguments.out.mkdir(parents=True, exist_ok=True)
            (arguments.out / f"verbs_{row}.json").write_text(json.dumps(found, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
