#!/usr/bin/env python3
"""Settings and traces as users meet them: files, environment, exit codes, JSON lines.

Usage: settings_and_trace_e2e_test.py TOOL TRACE_DOCS [unittest arguments]
"""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import unittest

TOOL = ""
DOCS = ""


def run(*words, **environment):
    clean = {name: value for name, value in os.environ.items() if not name.startswith("SPINDRIFT_")}
    clean |= {"SPINDRIFT_CONFIG": ""} | environment
    return subprocess.run([TOOL, *words], env=clean, capture_output=True, text=True, timeout=120)


def tunables(**environment):
    done = run("info", "--tunables", "--json", **environment)
    assert done.returncode == 0, done.stderr
    return {one["name"]: one for one in json.loads(done.stdout)}, done.stderr


def documented_events():
    """Event -> members, from both tables of the documentation."""
    events = {}
    for line in pathlib.Path(DOCS).read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("| `") or len(cells) not in (3, 4):
            continue
        events[cells[0].strip("`")] = (set(re.findall(r"`(\w+)`", cells[-2])), len(cells) == 4)
    return events


class Settings(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.config = os.path.join(self.folder.name, "spindrift.conf")

    def write(self, text):
        pathlib.Path(self.config).write_text(text)

    def test_every_one_says_what_it_is_and_where_from(self):
        table, warnings = tunables()
        self.assertEqual(warnings, "")
        for one in table.values():
            self.assertEqual(one["value"], one["default"], one["name"])
            self.assertTrue(one["help"] and one["bounds"] and one["unit"], one["name"])
        self.assertEqual(table["path_count"]["origin"], "default")
        self.assertEqual(table["config"]["origin"], "environment")

    def test_the_environment_overrides_the_file(self):
        self.write("path_count = 8\nrto_min = 1ms\n")
        table, _ = tunables(SPINDRIFT_CONFIG=self.config, SPINDRIFT_PATH_COUNT="4")
        self.assertEqual((table["path_count"]["value"], table["path_count"]["origin"]),
                         ("4", "environment"))
        self.assertEqual((table["rto_min"]["value"], table["rto_min"]["origin"]),
                         ("1ms", self.config + ":2"))

    def test_the_file_of_the_user_is_read(self):
        os.mkdir(os.path.join(self.folder.name, ".config"))
        pathlib.Path(self.folder.name, ".config/spindrift.conf").write_text("path_count = 3\n")
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith("SPINDRIFT_")} | {"HOME": self.folder.name}
        done = subprocess.run([TOOL, "info", "--tunables"], env=environment, capture_output=True,
                              text=True, timeout=60)
        self.assertRegex(done.stdout, r"path_count +paths +16 +1\.\.256 +3 +.*spindrift\.conf:1")

    def test_the_tools_follow_them_and_the_command_line_comes_last(self):
        words = ["perf", "local", "-n", "10", "--json"]
        said = json.loads(run(*words, SPINDRIFT_PATH_COUNT="3").stdout)
        self.assertEqual(len(said["account"]["client"]["paths"]), 3)
        said = json.loads(run(*words, "--paths", "2", SPINDRIFT_PATH_COUNT="3").stdout)
        self.assertEqual(len(said["account"]["client"]["paths"]), 2)

    def test_a_bad_value_ends_every_command_with_a_sentence_and_code_2(self):
        for words in (["info", "--tunables"], ["perf", "local"],
                      ["coll", "allreduce", "--ranks", "2"]):
            done = run(*words, SPINDRIFT_PATH_COUNT="257")
            self.assertEqual(done.returncode, 2, words)
            self.assertIn("environment: SPINDRIFT_PATH_COUNT is '257'; it must be 1..256",
                          done.stderr)

    def test_an_unknown_algorithm_is_named_with_its_place(self):
        self.write("\ncongestion_control = nsc\n")
        done = run("perf", "local", SPINDRIFT_CONFIG=self.config)
        self.assertEqual(done.returncode, 2)
        self.assertIn(self.config + ":2: congestion_control: ", done.stderr)

    def test_a_file_that_was_named_must_exist(self):
        done = run("info", "--tunables", SPINDRIFT_CONFIG="/nowhere/spindrift.conf")
        self.assertEqual(done.returncode, 2)
        self.assertIn("/nowhere/spindrift.conf", done.stderr)

    def test_unknown_names_are_reported_once_with_the_nearest(self):
        done = run("perf", "local", "-n", "10", SPINDRIFT_PATH_CUONT="4")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr.count("SPINDRIFT_PATH_CUONT"), 1)
        self.assertIn("the nearest name is SPINDRIFT_PATH_COUNT", done.stderr)


class Traces(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.trace = os.path.join(self.folder.name, "t.jsonl")

    def record(self, *words):
        done = run("perf", "local", "--op", "send", "-n", "3000", "--fault", "loss=2%", "--trace",
                   self.trace, *words)
        self.assertEqual(done.returncode, 0, done.stderr)

    def lines(self):
        return [json.loads(line) for line in pathlib.Path(self.trace).read_text().splitlines()]

    def test_every_line_is_as_documented(self):
        events = documented_events()
        self.record()
        lines = self.lines()
        self.assertGreater(len(lines), 20)
        for line in lines:
            members, has_time = events[line["event"]]
            always = {"event"} | ({"t_ns", "conn"} if has_time else set())
            self.assertEqual(set(line), members | always, line)
            for key, value in line.items():
                is_name = key in ("event", "state", "cause", "status", "peer", "error")
                self.assertIs(type(value), str if is_name else int, line)
                self.assertTrue(is_name or value >= 0, line)

    def test_both_sides_are_in_one_file(self):
        self.record()
        processes = {line["process"] for line in self.lines() if line["event"] == "recorder"}
        self.assertEqual(len(processes), 2)

    def test_a_new_run_empties_the_file(self):
        pathlib.Path(self.trace).write_text("old\n")
        self.record()
        self.assertEqual(self.lines()[0]["event"], "recorder")

    def test_a_summary_counts_losses_and_tells_the_states(self):
        self.record()
        done = run("trace", self.trace, "--summary")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"states: connecting \+[\d.]+ ms, open \+[\d.]+ ms")
        self.assertRegex(done.stdout, r"loss \w+ +\d+\n")
        self.assertNotIn(" psn=", done.stdout)

    def test_a_filter_leaves_only_what_was_asked_for(self):
        self.record()
        done = run("trace", self.trace, "--event", "retransmit")
        timed = [line for line in done.stdout.splitlines() if " ms  conn " in line]
        self.assertTrue(timed)
        self.assertTrue(all(" retransmit " in line for line in timed))

    def test_a_full_disk_is_an_error_after_the_results(self):
        done = run("perf", "local", "-n", "10", "--trace", "/dev/full")
        self.assertEqual(done.returncode, 1)
        self.assertIn("cannot write the trace to /dev/full: No space left on device", done.stderr)
        self.assertIn("#bytes", done.stdout)

    def test_a_file_that_cannot_be_made_ends_the_run_before_it_begins(self):
        done = run("perf", "local", "--trace", "/nowhere/t.jsonl")
        self.assertEqual(done.returncode, 1)
        self.assertIn("/nowhere/t.jsonl", done.stderr)

    def test_all_ranks_of_a_collective_are_in_one_file(self):
        done = run("coll", "allreduce", "--ranks", "3", "-b", "64K", "-n", "2", "--trace",
                   self.trace)
        self.assertEqual(done.returncode, 0, done.stderr)
        processes = {line["process"] for line in self.lines() if line["event"] == "recorder"}
        self.assertEqual(len(processes), 3)

    def test_a_signal_writes_what_there_is_and_ends_nothing(self):
        environment = os.environ | {"TMPDIR": self.folder.name}
        with subprocess.Popen([TOOL, "perf", "server", "--listen", "udp://127.0.0.1:0"],
                              env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True) as server:
            self.assertIn("listening", server.stdout.readline())
            server.send_signal(signal.SIGUSR2)
            self.assertIn("flight recorder written to", server.stderr.readline())
            self.assertIsNone(server.poll())
            server.terminate()
            server.communicate(timeout=60)
        self.trace = os.path.join(self.folder.name, f"spindrift-trace-{server.pid}.jsonl")
        self.assertEqual(self.lines()[0]["event"], "recorder")

    def test_options_of_an_address_reach_its_endpoint(self):
        for address in ("shm://options-of-perf?nope=1", "udp://127.0.0.1:0?nope=1"):
            done = run("perf", "server", "--listen", address)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("has no option 'nope'; it knows", done.stderr)
        done = run("perf", "shm://nobody-listens?ring_bytes=1")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("shm option ring_bytes=1", done.stderr)

    def test_what_is_no_trace_is_refused(self):
        pathlib.Path(self.trace).write_text('{"event":"recorder"}\nnonsense\n')
        done = run("trace", self.trace)
        self.assertEqual(done.returncode, 1)
        self.assertIn("line 2 is no line of a trace: nonsense", done.stderr)
        self.assertEqual(run("trace", "/nowhere/t.jsonl").returncode, 1)
        self.assertIn("Is a directory", run("trace", "/").stderr)

    def test_an_event_that_nobody_records_is_a_wrong_argument(self):
        done = run("trace", self.trace, "--event", "los")
        self.assertEqual(done.returncode, 2)
        self.assertIn("there are: state, timeout, path", done.stderr)


if __name__ == "__main__":
    TOOL, DOCS = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
