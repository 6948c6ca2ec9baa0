"""Rows of bench_verbs.py. As a program it runs in the virtual machine and prints what it found as JSON."""

import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROWS = ("counts", "times", "loss_rc", "loss_uc", "loss_ud", "lanes")
FEW, MANY = 100, 500  # messages of the two runs whose difference is what each message costs
# All system calls but those of idle polling: a look at the sockets every so many turns, and the clock,
# which is no system call outside of this machine.
STRACE = ["strace", "-f", "--seccomp-bpf", "-e", "trace=!epoll_wait,clock_gettime", "-c", "-o"]
# (label, operation, bytes, depth), and perftest's program for the same with its options.
COUNTED = (
    ("SEND, 8 B, 1 at a time", "send", 8, 1, None),
    ("SEND, 8 B, 32 at a time", "send", 8, 32, ["ib_send_bw", "-s", "8", "-t", "32"]),
    ("WRITE, 64 KiB, 8 at a time", "write", 65536, 8, ["ib_write_bw", "-s", "65536", "-t", "8"]),
)


def start(command, variables=None):
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            env={**os.environ, **(variables or {})})


def finish(process, what):
    text, _ = process.communicate(timeout=120)
    if process.returncode != 0:
        raise SystemExit(f"{what} ended with {process.returncode}: {text[-600:]}")
    return text


def await_listener(port):
    """Until somebody listens to TCP there."""
    wanted = f":{port:04X}"
    for _ in range(400):
        rows = pathlib.Path("/proc/net/tcp").read_text() + pathlib.Path("/proc/net/tcp6").read_text()
        if any(row.split()[1].endswith(wanted) and row.split()[3] == "0A"
               for row in rows.splitlines() if wanted in row):
            return
        time.sleep(0.02)
    raise SystemExit(f"nobody listens on port {port}")


def spindrift(build, options, words):
    """The result of `spindrift perf` between the two devices."""
    tool = str(build / "tools" / "spindrift")
    server = start([tool, "perf", "server", "--once", "--listen", "verbs://rxe0" + options],
                   {"SPINDRIFT_HOST_ID": "near"})
    for line in server.stdout:
        if "listening" in line:
            break
    client = subprocess.run([tool, "perf", "verbs://10.77.0.1", "--device", "verbs://rxe1" + options,
                             "--json"] + words, stdout=subprocess.PIPE, text=True, timeout=120,
                            check=False, env={**os.environ, "SPINDRIFT_HOST_ID": "far"})
    finish(server, "the server of spindrift perf")
    if client.returncode != 0:
        raise SystemExit(f"spindrift perf {options} {words}: {client.stdout[-600:]}")
    return json.loads(client.stdout)


def perftest(program, traces=(None, None), variables=None):
    """The last line of numbers that a program of perftest prints; under strace where `traces` say."""
    def under(trace):
        return STRACE + [trace] if trace else []
    common = program + ["-x", "1", "-F", "-p", "18515"]
    server = start(under(traces[0]) + common + ["-d", "rxe0"], variables)
    await_listener(18515)
    client = start(under(traces[1]) + common + ["-d", "rxe1", "10.77.0.1"], variables)
    text = finish(client, " ".join(program))
    finish(server, " ".join(program))
    rows = [line.split() for line in text.splitlines() if re.match(r"^ *\d+ +\d+ ", line)]
    return [float(one) for one in rows[-1]]


def calls_in(trace):
    """How many there were, as `strace -c` sums them up."""
    total = pathlib.Path(trace).read_text().strip().splitlines()[-1].split()
    return int(total[3])  # % time, seconds, usecs/call, calls


def count_ours(build, case, folder):
    _, operation, size, depth, _ = case
    program = str(build / "bench" / "verbs_count")
    def command(messages):
        return [program, "verbs://rxe0", "verbs://rxe1", operation, str(size), str(depth),
                str(messages)]
    calls = []
    for messages in (FEW, MANY):
        trace = str(folder / f"ours{messages}")
        finish(start(STRACE + [trace] + command(messages)), "verbs_count")
        calls.append(calls_in(trace))
    counted = json.loads(finish(start(command(MANY)), "verbs_count"))
    both = {name: counted["sender"][name] + counted["receiver"][name]
            for name in counted["sender"]}
    return {"requests": both["verbs_requests"], "doorbells": both["verbs_doorbells"],
            "completions": both["verbs_completions"],
            "system_calls": (calls[1] - calls[0]) / (MANY - FEW)}


def tallied(build, words, path):
    """What both ends of a program of perftest ask their devices for, in all."""
    perftest(words + ["--use_old_post_send"],
             variables={"LD_PRELOAD": str(build / "bench" / "libverbs_tally.so"),
                        "VERBS_TALLY": str(path)})
    ends = [json.loads(line) for line in path.read_text().splitlines()]
    if len(ends) != 2 or not all(end["requests"] for end in ends):
        raise SystemExit(f"{words[0]} was not counted at both ends: {ends}")
    return {name: sum(end[name] for end in ends) for name in ends[0]}


def count_perftest(build, case, folder):
    calls, asked = [], []
    for messages in (FEW, MANY):
        traces = (str(folder / f"near{messages}"), str(folder / f"far{messages}"))
        words = case[4] + ["-n", str(messages)]
        perftest(words, traces)
        calls.append(sum(calls_in(trace) for trace in traces))
        asked.append(tallied(build, words, folder / f"tally{messages}"))
    return {"system_calls": (calls[1] - calls[0]) / (MANY - FEW),
            **{name: (asked[1][name] - asked[0][name]) / (MANY - FEW) for name in asked[0]}}


def counts(build, _rounds, _seconds):
    found = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for case in COUNTED:
            found.append({"label": case[0], "ours": count_ours(build, case, folder),
                          "perftest": count_perftest(build, case, folder) if case[4] else None})
    return found


def bandwidth(build, options, seconds):
    words = ["--op", "write", "--size", "64K", "-D", f"{seconds}s", "--warmup", "2"]
    return spindrift(build, options, words)["bandwidth"][0]["average_mb_per_s"]


def latency(build):
    words = ["--op", "write", "--test", "lat", "--size", "8", "-n", "300", "--warmup", "20"]
    return spindrift(build, "", words)["latency"][0]["typical_us"]


def rounds_of(series, rounds):
    """Every series once in every round, each round beginning with another."""
    found = {label: [] for label, _ in series}
    for number in range(rounds):
        turn = number % len(series)
        for label, once in series[turn:] + series[:turn]:
            found[label].append(once())
    return found


def times(build, rounds, seconds):
    def theirs(*words):
        return lambda: perftest(list(words))[3]
    series = [
        ("MB/s|RC, WRITE of 64 KiB", lambda: bandwidth(build, "", seconds)),
        ("MB/s|ib_write_bw, 64 KiB", theirs("ib_write_bw", "-s", "65536", "-n", "300")),
        ("MB/s|UC, WRITE of 64 KiB", lambda: bandwidth(build, "?transport=uc", seconds)),
        ("MB/s|ib_send_bw -c UC, 4 KiB",
         theirs("ib_send_bw", "-c", "UC", "-s", "4096", "-n", "2000")),
        ("MB/s|UD, WRITE of 64 KiB", lambda: bandwidth(build, "?transport=ud", seconds)),
        ("MB/s|ib_send_bw -c UD, 4 KiB",
         theirs("ib_send_bw", "-c", "UD", "-s", "4096", "-n", "2000")),
        ("us|RC, WRITE of 8 B", lambda: latency(build)),
        ("us|ib_write_lat, 8 B",
         lambda: perftest(["ib_write_lat", "-s", "8", "-n", "300"])[4]),
    ]
    return rounds_of(series, rounds)


def set_loss(percent):
    for side in ("veth0", "veth1"):
        subprocess.run(["tc", "qdisc", "del", "dev", side, "root"], stderr=subprocess.DEVNULL,
                       check=False)
        if percent:
            subprocess.run(["tc", "qdisc", "add", "dev", side, "root", "netem", "loss",
                            f"{percent}%", "limit", "10000"], check=True)


def loss(transport):
    def row(build, rounds, seconds):
        options = f"?transport={transport}&lanes=16"
        def once(percent):
            def run():
                set_loss(percent)
                return bandwidth(build, options, seconds)
            return run
        return rounds_of([("MB/s|nothing lost", once(0)), ("MB/s|1 % lost, each way", once(1))],
                         rounds)
    return row


def lanes(build, rounds, seconds):
    return rounds_of([(f"MB/s|{transport.upper()}, {count} lane{'s' if count > 1 else ''}",
                       lambda options=f"?transport={transport}&lanes={count}":
                       bandwidth(build, options, seconds))
                      for transport in ("rc", "uc") for count in (1, 16)], rounds)


MEASURES = {"counts": counts, "times": times, "loss_rc": loss("rc"), "loss_uc": loss("uc"),
            "loss_ud": loss("ud"), "lanes": lanes}


def count_table(found):
    columns = ("requests", "doorbells", "completions", "system_calls")
    lines = ["| per message, both ends | requests | doorbells | completions | system calls |",
             "|---|---|---|---|---|"]
    for one in found:
        for who, counted in (("", one["ours"]), (" (perftest)", one["perftest"])):
            if counted:
                cells = " | ".join(f"{counted[name]:.2f}" for name in columns)
                lines.append(f"| {one['label']}{who} | {cells} |")
    return "\n".join(lines)


def tables(row, found):
    """Markdown."""
    title = f"**`{row}`**\n\n"
    if row == "counts":
        return title + count_table(found) + "\n"
    lines = ["| | unit | min | median | max |", "|---|---|---|---|---|"]
    for label, values in found.items():
        unit, name = label.split("|")
        lines.append(f"| {name} | {unit} | {min(values):.2f} | **{statistics.median(values):.2f}** | "
                     f"{max(values):.2f} |")
    text = title + "\n".join(lines) + "\n"
    if row.startswith("loss"):
        whole, lossy = found.values()
        ratios = [with_loss / without for without, with_loss in zip(whole, lossy)]
        text += (f"\nOf its goodput without loss it keeps {min(ratios):.2f} / "
                 f"**{statistics.median(ratios):.2f}** / {max(ratios):.2f} (min/median/max).\n")
    return text


def main(words):
    row, build, rounds, seconds = words
    for program in ("strace", "ib_write_bw", "tc"):
        if shutil.which(program) is None:
            raise SystemExit(f"{program} is not installed (Debian: strace, perftest, iproute2)")
    found = MEASURES[row](pathlib.Path(build), int(rounds), float(seconds))
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
