#!/usr/bin/env python3
"""Collectives between processes of this host: Spindrift, Gloo, Open MPI and MPICH turn about, in the
same loop (bench/peers), and PyTorch's all_reduce over Spindrift and over Gloo.

In every round each library runs once, each round begins with another one, and ratios are taken within
a round. Where there are more ranks than processors, libraries that never yield suffer; that is part
of the comparison."""

import argparse
import json
import pathlib
import random
import re
import statistics
import sys
import time

from benchmark import report
from benchmark.peers import SHARED_MEMORY, SOCKETS, TORCH, all_peers
from benchmark.processes import Failed

ROOT = pathlib.Path(__file__).resolve().parent.parent
KIB, MIB = 1024, 1024 * 1024
RESAMPLES = 2000
PATIENCE_S = 60
GIVE_UP_AFTER = 2  # rounds of a task that a library failed in, all of them: it is left out of the others
QUICK_PATIENCE_S = 15  # MPICH over TCP does not always end where processors are short


class Task:
    """What all libraries of a medium do in turn."""

    def __init__(self, medium, ranks, words, sizes):
        self.medium, self.ranks, self.words, self.sizes = medium, ranks, words, sizes
        self.title = f"{' '.join(words)}, {ranks} ranks, {medium}"
        self.calls = {}     # peer's name -> size -> [Call of each round, or None]
        self.failures = {}  # peer's name -> what it said last

    def run(self, peers, build, round_number, seconds, patience_s):
        peers = [peer for peer in peers if peer.medium == self.medium]
        first = round_number % len(peers)
        for peer in peers[first:] + peers[:first]:
            if self.is_hopeless(peer):
                continue
            try:
                calls = peer.run(build, self.ranks, [*self.words, seconds, *self.sizes], patience_s)
            except Failed as failure:
                calls = {}
                self.failures[peer.name] = str(failure)
            for size in self.sizes:
                self.calls.setdefault(peer.name, {}).setdefault(size, []).append(calls.get(size))

    def is_hopeless(self, peer):
        rounds = self.calls.get(peer.name, {})
        return (not peer.is_ours and all(rounds.get(size) and len(rounds[size]) >= GIVE_UP_AFTER and
                                         not any(rounds[size]) for size in self.sizes))


def all_tasks():
    tasks = []
    for ranks in (2, 4):
        for medium in (SHARED_MEMORY, SOCKETS):
            tasks.append(Task(medium, ranks, ["all_reduce"],
                              [8, KIB, 32 * KIB, MIB, 16 * MIB, 64 * MIB]))
            for operation in ("all_gather", "reduce_scatter", "broadcast", "all_to_all"):
                tasks.append(Task(medium, ranks, [operation], [32 * KIB, MIB, 16 * MIB]))
    tasks.append(Task(TORCH, 2, ["float32"], [8_000_000, 64_000_000]))
    tasks.append(Task(TORCH, 2, ["float16"], [8_000_000, 64_000_000]))
    tasks.append(Task(TORCH, 2, ["bfloat16"], [8_000_000, 64_000_000]))
    tasks.append(Task(TORCH, 2, ["ddp_step"], [8_000_000, 64_000_000]))
    return tasks


def ratio(ours, theirs):
    """(median of ours / theirs within a round, and the 95 % interval of that median by resampling)."""
    ratios = [one.us / other.us for one, other in zip(ours, theirs) if one and other]
    if not ratios:
        return None
    chance = random.Random(1)
    medians = sorted(statistics.median(chance.choices(ratios, k=len(ratios))) for _ in range(RESAMPLES))
    return statistics.median(ratios), medians[int(0.025 * RESAMPLES)], medians[int(0.975 * RESAMPLES)]


def size_text(size):
    for unit, name in ((1_000_000, "MB"), (MIB, "MiB"), (KIB, "KiB")):
        if size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} B"


def cell(calls, size):
    """Median time of a call, us, and processor seconds of all ranks per GB."""
    there = [call for call in calls if call]
    if not there:
        return "failed"
    text = report.figure(statistics.median(call.us for call in there))
    if size >= MIB:
        cpu = statistics.median(call.cpu_us for call in there) * 1e-6 / (size * 1e-9)
        text += f" ({report.figure(cpu)})"
    return text


def stalls(task, names):
    """A sentence about the longest single call of each library, beyond the median of its size; or None where
    calls were not timed one by one."""
    worst = {}
    for name in names:
        beyond = [call.longest_us - statistics.median(one.us for one in calls if one)
                  for calls in task.calls[name].values() for call in calls if call and call.longest_us]
        if beyond:
            worst[name] = max(beyond) / 1000
    if not worst:
        return None
    return ("Longest single call, beyond the median of its size, ms: " +
            ", ".join(f"{name} {report.figure(value)}" for name, value in worst.items()) + ".")


def table(task, peers):
    names = [peer.name for peer in peers if peer.medium == task.medium and peer.name in task.calls]
    ours = next(peer.name for peer in peers if peer.medium == task.medium and peer.is_ours)
    lines = [f"**{task.title}**", "",
             "| size | " + " | ".join(names) + " | ratio to the best other |",
             "|---|" + "---|" * (len(names) + 1)]
    for size in task.sizes:
        cells = [cell(task.calls[name][size], size) for name in names]
        others = {name: statistics.median(call.us for call in task.calls[name][size] if call)
                  for name in names if name != ours and any(task.calls[name][size])}
        verdict = "—"
        if others and any(task.calls[ours][size]):
            best = min(others, key=others.get)
            found = ratio(task.calls[ours][size], task.calls[best][size])
            if found:
                verdict = f"{found[0]:.2f} ({found[1]:.2f} to {found[2]:.2f}) {best}"
        lines.append(f"| {size_text(size)} | " + " | ".join(cells) + f" | {verdict} |")
    longest = stalls(task, names)
    if longest:
        lines += ["", longest]
    for name, said in task.failures.items():
        lines += ["", f"{name} failed in a round: {said[:200]}"]
    return "\n".join(lines) + "\n"


def with_tables(text, tables, source):
    """The text of the documents with these tables, and where they are from, in place of those of their titles."""
    for table_text in tables:
        title, _, body = table_text.partition("\n\n")
        old = re.search(rf"^{re.escape(title)}\n.*?(?=^\*\*|\Z)", text, re.MULTILINE | re.DOTALL)
        if not old:
            raise ValueError(f"the documents have no table {title}")
        text = f"{text[:old.start()]}{title}\n\n{source}{body}\n{text[old.end():]}"
    return text


def parse_arguments(words):
    parser = argparse.ArgumentParser(prog="./dev bench collectives", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="TASK", help="only tasks whose title holds one of these words")
    parser.add_argument("--rounds", type=int, default=10, help="of every task (10)")
    parser.add_argument("--seconds", type=float, default=0.1, help="of each size, about (0.1)")
    parser.add_argument("--quick", action="store_true", help="one short round: shows that it works")
    parser.add_argument("--write-docs", action="store_true",
                        help="put the tables into docs/PERFORMANCE.md; others stay there as they are")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build" / "bench", help="folder of collectives.json")
    arguments = parser.parse_args(words)
    if not 1 <= arguments.rounds <= 1000:
        parser.error(f"--rounds {arguments.rounds} is outside 1..1000")
    if arguments.write_docs and arguments.quick:
        parser.error("--write-docs wants figures to rely on: leave out --quick")
    return arguments


def main():
    arguments = parse_arguments(sys.argv[1:])
    rounds, seconds, patience_s = ((1, 0.01, QUICK_PATIENCE_S) if arguments.quick else
                                   (arguments.rounds, arguments.seconds, PATIENCE_S))
    peers = [peer for peer in all_peers(arguments.build) if peer.is_there(arguments.build)]
    present = {peer.medium for peer in peers}
    tasks = [task for task in all_tasks() if task.medium in present and
             (not arguments.names or any(name in task.title for name in arguments.names))]
    if not tasks:
        print("bench collectives: no task is left; titles are like \"all_reduce, 2 ranks, shared memory\"",
              file=sys.stderr)
        return 2
    start = time.monotonic()
    for number in range(rounds):
        for task in tasks:
            task.run(peers, arguments.build, number, seconds, patience_s)
        print(f"round {number + 1} of {rounds}, {time.monotonic() - start:.0f} s", file=sys.stderr)
    tables = [table(task, peers) for task in tasks]
    print("\n".join(tables))
    arguments.out.mkdir(parents=True, exist_ok=True)
    samples = [{"task": task.title, "failures": task.failures,
                "us": {name: {size: [call and call.us for call in calls] for size, calls in sizes.items()}
                       for name, sizes in task.calls.items()}} for task in tasks]
    (arguments.out / "collectives.json").write_text(json.dumps(samples, indent=1))
    if arguments.write_docs:
        source = f"Machine: {report.describe_machine(report.machine())}. {rounds} rounds.\n\n"
        path = ROOT / "docs" / "PERFORMANCE.md"
        text = source + "\n".join(tables)
        if arguments.names:
            _, old, _ = report.split_at(path, "collectives")
            text = with_tables(old, tables, source)
        report.write_section(path, "collectives", text)
    ours_failed = any(peer.name in task.failures for task in tasks for peer in peers if peer.is_ours)
    return 1 if ours_failed else 0


if __name__ == "__main__":
    sys.exit(main())
