#!/usr/bin/env python3
"""spindrift sim as users meet it: scenarios, sweeps, outputs, exit codes.

Usage: sim_e2e_test.py TOOL [unittest arguments]
"""

import collections
import csv
import io
import json
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

TOOL = ""


def run(*words, **options):
    options = {"capture_output": True, "text": True, "timeout": 120} | options
    return subprocess.run([TOOL, "sim", *words], **options)


def rows_of(file):
    return list(csv.DictReader(io.StringIO(pathlib.Path(file).read_text())))


class Scenarios(unittest.TestCase):
    def test_one_that_ships_runs_and_repeats_itself(self):
        first, second = run("incast", "--json"), run("incast", "--json")
        self.assertEqual(first.returncode, 0, first.stderr)
        histories = [json.loads(done.stdout)["runs"][0]["history"] for done in (first, second)]
        self.assertEqual(histories[0], histories[1])
        other = json.loads(run("incast", "--seed", "2", "--json").stdout)["runs"][0]["history"]
        self.assertNotEqual(histories[0], other)

    def test_list_keys_and_schema(self):
        self.assertIn("incast", run("--list").stdout)
        self.assertIn("topology.hosts\n", run("--keys").stdout)
        self.assertEqual(json.loads(run("--schema").stdout)["type"], "object")

    def test_a_shown_scenario_is_a_file_that_runs_the_same(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "mine.toml"
            file.write_text(run("incast", "workload.fan_in=4", "--show").stdout)
            shown = json.loads(run(str(file), "--json").stdout)["runs"][0]
        direct = json.loads(run("incast", "workload.fan_in=4", "--json").stdout)["runs"][0]
        self.assertEqual(shown["history"], direct["history"])
        self.assertEqual(shown["summary"]["flows"], 4)

    def test_a_sweep_is_a_row_for_each_run_in_order(self):
        done = run("incast", "--sweep", "workload.fan_in=2,4", "--repeat", "2", "--csv")
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = list(csv.DictReader(io.StringIO(done.stdout)))
        self.assertEqual([(row["workload.fan_in"], row["seed"]) for row in rows],
                         [("2", "1"), ("2", "2"), ("4", "1"), ("4", "2")])
        self.assertTrue(all(float(row["completion_max_ps"]) > 0 for row in rows))

    def test_threads_do_not_change_what_comes_out(self):
        words = ("incast", "--sweep", "workload.fan_in=2,3,4,5", "--json")
        histories = [[one["history"] for one in json.loads(run(*words, "--threads", n).stdout)["runs"]]
                     for n in ("1", "3")]
        self.assertEqual(histories[0], histories[1])

    def test_series_are_written_beside_each_other(self):
        with tempfile.TemporaryDirectory() as folder:
            done = run("incast", "sample_every=5us", "--series", folder + "/x")
            self.assertEqual(done.returncode, 0, done.stderr)
            flows = rows_of(folder + "/x-flows.csv")
            ports = rows_of(folder + "/x-ports.csv")
        self.assertGreater(len(flows), 8)
        self.assertTrue(any(int(row["queue_bytes"]) > 0 for row in ports))


    def test_figures_and_a_page_are_written(self):
        with tempfile.TemporaryDirectory() as folder:
            done = run("incast", "sample_every=5us", "--plot", folder + "/plots", "--html", folder + "/page.html")
            self.assertEqual(done.returncode, 0, done.stderr)
            plots = sorted(file.name for file in pathlib.Path(folder + "/plots").iterdir())
            page = pathlib.Path(folder + "/page.html").read_text()
            self.assertIn("queues.svg", plots)
            self.assertIn("<svg", page)
            done = run("incast", "--sweep", "workload.fan_in=2,4", "--html", folder + "/two.html")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("fan_in 4", pathlib.Path(folder + "/two.html").read_text())
            done = run("incast", "--html", folder + "/no/page.html")
            self.assertEqual(done.returncode, 1)
            self.assertIn("page.html", done.stderr)


class Refusals(unittest.TestCase):
    def refused(self, *words):
        done = run(*words)
        self.assertEqual(done.returncode, 2, (words, done.stderr))
        self.assertEqual(done.stdout, "")
        return done.stderr

    def test_what_cannot_be_is_refused_with_its_key(self):
        self.assertIn("which scenario", self.refused())
        self.assertIn("neither", self.refused("no_such"))
        self.assertIn("workload.fan_in", self.refused("incast", "workload.fan_in=99"))
        self.assertIn("rate_bps", self.refused("incast", "topology.host_link.rate_bps=-1"))
        self.assertIn("key=value", self.refused("incast", "seed"))
        self.assertIn("congestion_control", self.refused("incast", "--cc", "nothing"))
        self.assertIn("path_selector", self.refused("incast", "--path-selector", "nothing"))
        self.assertIn("leaf9", self.refused("incast", "faults[0].from=leaf9"))
        self.assertIn("workload", self.refused("one_flow", "workload.destination=0"))
        self.assertIn("--repeat", self.refused("incast", "--repeat", "0"))
        self.assertIn("sample_every", self.refused("incast", "--series", "x"))
        self.assertIn("--csv", self.refused("incast", "--csv", "--json"))

    def test_a_file_is_refused_with_its_lines(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "wrong.toml"
            file.write_text('[topology]\nhosts = "many"\n')
            self.assertIn("wrong.toml:2: topology.hosts", self.refused(str(file)))
            self.assertIn("read", self.refused(folder))

    def test_a_full_disk_is_said(self):
        with open("/dev/full", "w") as full:
            done = run("incast", stdout=full, stderr=subprocess.PIPE, capture_output=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("cannot write the results", done.stderr)
        done = run("incast", "sample_every=5us", "--series", "/no/such/folder/x")
        self.assertEqual(done.returncode, 1)
        self.assertIn("/no/such/folder/x-flows.csv", done.stderr)


class Replays(unittest.TestCase):
    def test_a_live_connection_is_replayed_bit_for_bit(self):
        with tempfile.TemporaryDirectory() as folder:
            record = folder + "/r.jsonl"
            environment = os.environ | {"SPINDRIFT_CC_RECORD": record, "SPINDRIFT_CONFIG": ""}
            live = subprocess.run([TOOL, "perf", "local", "--size", "256K", "--iterations", "400",
                                   "--fault", "loss=1%"],
                                  env=environment, capture_output=True, text=True, timeout=120)
            self.assertEqual(live.returncode, 0, live.stderr)
            same = run("--replay", record)
            self.assertEqual(same.returncode, 0, same.stdout)
            self.assertIn("nscc", same.stdout)
            other = run("--replay", record, "--cc", "swift")
            self.assertEqual(other.returncode, 0, other.stderr)
            self.assertIn("recorded: window", other.stdout)
            self.assertIn("recorded_window_bytes", run("--replay", record, "--csv").stdout)
            before, after = pathlib.Path(record).read_text().rsplit('"window_bytes":', 1)
            lines = before + '"window_bytes":1' + after
            pathlib.Path(record).write_text(lines)
            self.assertEqual(run("--replay", record).returncode, 1)
            pathlib.Path(record).write_text(lines + "rubbish\n")
            self.assertEqual(run("--replay", record).returncode, 2)


class Records(unittest.TestCase):
    def test_what_is_recorded_is_replayed_bit_for_bit(self):
        with tempfile.TemporaryDirectory() as folder:
            for algorithm in ("nscc", "dcqcn", "swift", "timely:beta=0.5"):
                record = f"{folder}/r.jsonl"
                done = run("--record", record, "--cc", algorithm, "--bytes", "16 MiB", "--fault", "loss=0.5%")
                self.assertEqual(done.returncode, 0, done.stderr)
                name = algorithm.split(":")[0]
                self.assertIn(f"events of {name}", done.stdout)
                same = run("--replay", record)
                self.assertEqual(same.returncode, 0, same.stdout)
                self.assertRegex(same.stdout, rf"1 +{name} +\d+ +\d+ +yes +none")
                self.assertGreater(len(pathlib.Path(record).read_text().splitlines()), 20)
            other = run("--replay", record, "--cc", "nscc")
            self.assertEqual(other.returncode, 0, other.stderr)
            self.assertIn("recorded: window", other.stdout)

    def test_what_cannot_be_recorded_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            record = folder + "/r.jsonl"
            for words, sentence in ((("--cc", "nothing"), "nothing"), (("--cc", "hpcc"), "telemetry"),
                                    (("--bytes", "many"), "--bytes"), (("--to", "gopher://x"), "gopher"),
                                    (("--fault", "loss=x"), "loss")):
                done = run("--record", record, *words)
                self.assertEqual(done.returncode, 2, (words, done.stderr))
                self.assertIn(sentence, done.stderr)
            for file in ("/no/such/folder/r", "/dev/full"):
                done = run("--record", file, "--bytes", "1 MiB")
                self.assertEqual(done.returncode, 1, (file, done.stderr))
                self.assertIn(file, done.stderr)


class Events(unittest.TestCase):
    def events(self, *words):
        with tempfile.TemporaryDirectory() as folder:
            file = folder + "/e.jsonl"
            done = run(*words, "--events", file)
            self.assertEqual(done.returncode, 0, done.stderr)
            return [json.loads(line) for line in pathlib.Path(file).read_text().splitlines()]

    def test_every_packet_is_told_of_at_every_port(self):
        events = self.events("incast", "workload.bytes=128 KiB")
        kinds = collections.Counter(event["event"] for event in events)
        self.assertEqual(kinds["enqueue"], kinds["dequeue"])
        self.assertEqual((kinds["flow_start"], kinds["flow_end"], kinds["drop"]), (8, 8, 0))
        self.assertGreater(kinds["mark"], 0)
        self.assertGreater(kinds["trim"], 0)
        times = [event["at_ps"] for event in events]
        self.assertEqual(times, sorted(times))
        waiting = collections.Counter()
        for event in events:
            if event["event"] in ("enqueue", "dequeue"):
                waiting[event["link"]] += 1 if event["event"] == "enqueue" else -1
                self.assertGreaterEqual(waiting[event["link"]], 0)
        one = next(event for event in events if event["event"] == "dequeue" and event["packet"] == "data")
        self.assertEqual(one["to"], "host1")
        self.assertIn("psn", one)
        self.assertEqual(one["from"], next(event["from"] for event in events
                                           if event["event"] == "flow_start" and event["flow"] == one["flow"]))
        # Acknowledgements go by the flow whose data they acknowledge.
        ack = next(event for event in events if event.get("packet") == "ack")
        self.assertEqual(ack["from"], "host1")
        starts = {event["flow"]: event["from"] for event in events if event["event"] == "flow_start"}
        self.assertEqual(starts[ack["flow"]], ack["to"])

    def test_filters_leave_only_what_they_name(self):
        drops = self.events("incast", "network.trims=false", "--events-of", "drop")
        self.assertTrue(drops)
        self.assertEqual({(event["event"], event["cause"]) for event in drops}, {("drop", "full")})
        link = self.events("incast", "workload.bytes=64 KiB", "--events-of", "leaf0>host1", "--events-of", "flow=2")
        self.assertEqual({(event["link"], event["flow"]) for event in link}, {("leaf0>host1", 2)})

    def test_faults_and_pauses_are_told_of(self):
        words = ("--events-of", "link_down", "--events-of", "link_up", "--events-of", "pause", "--events-of", "resume")
        down = self.events("link_cut", *words)
        for at, kind in ((100, "link_down"), (300, "link_up")):
            for link in ("leaf0>spine0", "spine0>leaf0"):
                self.assertIn({"at_ps": at * 10**6, "event": kind, "link": link}, down)
        paused = collections.Counter(event["event"] for event in self.events("pfc_incast", *words))
        self.assertGreater(paused["pause"], 0)
        self.assertGreaterEqual(paused["pause"], paused["resume"])

    def test_the_file_is_bounded_and_says_so(self):
        events = self.events("incast", "--events-max", "100")
        self.assertEqual(len(events), 101)
        self.assertEqual(events[-1]["event"], "left_out")
        self.assertGreater(events[-1]["events"], 1000)

    def test_watching_changes_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            seen = run("incast", "--json", "--events", folder + "/e", "--pcap", f"leaf0>host1={folder}/p")
        plain = run("incast", "--json")
        history = [json.loads(done.stdout)["runs"][0]["history"] for done in (seen, plain)]
        self.assertEqual(history[0], history[1])

    def test_what_cannot_be_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            file = folder + "/e"
            for words, sentence in (
                    (("--events", file, "--events-of", "dance"), "must be a link"),
                    (("--events", file, "--events-of", "leaf0>host9"), "the nearest is leaf0>host"),
                    (("--events", file, "--events-of", "flow=99"), "0..7"),
                    (("--events-of", "drop"), "--events"),
                    (("--pcap", "leaf0>host1"), "LINK=FILE"),
                    (("--pcap", f"leaf0>hots1={file}"), "the nearest is leaf0>host1"),
                    (("--events", file, "--repeat", "2"), "one run")):
                done = run("incast", *words)
                self.assertEqual(done.returncode, 2, (words, done.stderr))
                self.assertIn(sentence, done.stderr)
            for name in ("/no/such/folder/x", "/dev/full"):
                for words in (("--events", name), ("--pcap", f"leaf0>host1={name}")):
                    done = run("incast", *words)
                    self.assertEqual(done.returncode, 1, (words, done.stderr))
                    self.assertIn(name, done.stderr)


class Captures(unittest.TestCase):
    def read(self, file):
        """Each packet's capture header and bytes, by the format's own rules."""
        data = pathlib.Path(file).read_bytes()
        magic, _, _, _, _, snap, link_type = struct.unpack("<IHHiIII", data[:24])
        self.assertEqual((magic, link_type), (0xA1B23C4D, 1))
        at, packets = 24, []
        while at < len(data):
            seconds, ns, kept, length = struct.unpack("<IIII", data[at:at + 16])
            self.assertEqual(kept, length)
            self.assertLessEqual(kept, snap)
            packets.append((seconds * 10**9 + ns, data[at + 16:at + 16 + kept]))
            at += 16 + kept
        return packets

    def test_a_link_is_captured_as_it_was(self):
        with tempfile.TemporaryDirectory() as folder:
            down, up, events = folder + "/down.pcap", folder + "/up.pcap", folder + "/e.jsonl"
            done = run("incast", "workload.bytes=256 KiB", "--pcap", f"leaf0>host1={down}",
                       "--pcap", f"host1>leaf0={up}", "--events", events, "--events-of", "dequeue",
                       "--events-of", "leaf0>host1")
            self.assertEqual(done.returncode, 0, done.stderr)
            lines = [json.loads(line) for line in pathlib.Path(events).read_text().splitlines()]
            packets = self.read(down)
            self.assertEqual([at for at, _ in packets], [line["at_ps"] // 1000 for line in lines])
            for (_, frame), line in zip(packets, lines):
                self.assertEqual(struct.unpack(">H", frame[12:14])[0], 0x0800)
                udp_bytes = struct.unpack(">H", frame[38:40])[0] - 8
                if line["packet"] == "data" and not line.get("is_trimmed"):
                    self.assertEqual(len(frame), udp_bytes + 42)
                    self.assertEqual(line["bytes"], udp_bytes + 66)
                    self.assertEqual(frame[15] & 3 == 3, line.get("is_marked", False))
                    self.assertEqual(struct.unpack(">I", frame[46:50])[0], line["psn"])
            self.assertTrue(any(line.get("is_trimmed") for line in lines))
            self.tshark(down, len(packets))
            self.tshark(up, len(self.read(up)))

    def test_pauses_and_payload_are_there(self):
        with tempfile.TemporaryDirectory() as folder:
            file = folder + "/p.pcap"
            done = run("pfc_incast", "workload.bytes=256 KiB", "--cc", "fixed_window:window_bytes=1000000",
                       "transport.carries_payload=true", "--pcap", f"leaf0>spine0={file}")
            self.assertEqual(done.returncode, 0, done.stderr)
            packets = self.read(file)
            self.assertIn(0x8808, {struct.unpack(">H", frame[12:14])[0] for _, frame in packets})
            self.tshark(file, len(packets))

    def tshark(self, file, count):
        if shutil.which("tshark") is None:
            self.skipTest("tshark is not here")
        words = ["tshark", "-r", file, "-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE",
                 "-T", "fields", "-e", "frame.number", "-e", "_ws.malformed", "-e", "_ws.expert.message"]
        shown = subprocess.run(words, capture_output=True, text=True, timeout=60)
        self.assertEqual(shown.returncode, 0, shown.stderr)
        lines = shown.stdout.splitlines()
        self.assertEqual(len(lines), count)
        for number, line in enumerate(lines):
            self.assertEqual(line.strip(), str(number + 1))


class Interruption(unittest.TestCase):
    def test_a_single_run_prints_what_it_has(self):
        words = [TOOL, "sim", "permutation_128", "workload.bytes=1 GiB", "--json"]
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
            time.sleep(3)
            child.send_signal(signal.SIGINT)
            out, err = child.communicate(timeout=60)
        self.assertEqual(child.returncode, 130)
        self.assertIn("interrupted after", err)
        summary = json.loads(out)["runs"][0]["summary"]
        self.assertEqual(summary["unfinished"], 128)
        self.assertGreater(summary["packets_sent"], 1000)

    def test_what_was_complete_is_printed(self):
        seeds = "1|" + "|".join(str(seed) for seed in range(2, 400))
        words = [TOOL, "sim", "permutation_128", "--sweep", "seed=" + seeds, "--csv", "--threads", "1"]
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
            time.sleep(3)
            child.send_signal(signal.SIGINT)
            out, err = child.communicate(timeout=60)
        self.assertEqual(child.returncode, 130)
        self.assertIn("interrupted", err)
        self.assertIn("runs were complete", err)
        self.assertLess(len(out.splitlines()), 400)


if __name__ == "__main__":
    TOOL = os.path.abspath(sys.argv.pop(1))
    unittest.main()
