#!/usr/bin/env python3
"""spindrift sim as users meet it: scenarios, sweeps, outputs, exit codes.

Usage: sim_e2e_test.py TOOL [unittest arguments]
"""

import csv
import io
import json
import os
import pathlib
import signal
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


class Interruption(unittest.TestCase):
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
