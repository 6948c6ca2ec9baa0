#!/usr/bin/env python3
"""Every algorithm and path policy on the scenarios that ship, against tables that were judged once.

Usage: golden_test.py TOOL FOLDER [--update]

A change of the transport, an algorithm or the simulator that moves a number shows here. Look at the new
table (--update writes it), decide whether it is what was meant, and commit it with the change.
"""

import pathlib
import subprocess
import sys
import unittest

ALGORITHMS = ("fixed_window,dcqcn,nscc,receiver_credit,nscc+receiver_credit,swift,timely,dctcp")
POLICIES = "single,round_robin,bitmap,reps,mixed,least_rtt"
CONTROL = "transport.congestion_control=" + ALGORITHMS
PATHS = "transport.path_selector=" + POLICIES
TABLES = {
    "incast": ["incast", "--sweep", CONTROL],
    "pfc_incast": ["pfc_incast", "--sweep", CONTROL],
    "permutation": ["permutation", "--sweep", CONTROL],
    "fair_share": ["fair_share", "--sweep", CONTROL],
    "ring_all_reduce": ["ring_all_reduce", "workload.bytes=8 MiB", "--sweep", CONTROL],
    "join": ["join", "--sweep", CONTROL],
    "telemetry_incast": ["telemetry_incast", "--sweep", CONTROL + ",hpcc"],
    "paths": ["permutation", "--sweep", PATHS],
    "paths_slow_spine": ["slow_spine", "topology.hosts=32", "--sweep", PATHS],
    "paths_link_cut": ["link_cut", "--sweep", PATHS],
}

TOOL = ""
FOLDER = pathlib.Path()
UPDATES = False


class Tables(unittest.TestCase):
    maxDiff = None

    def test_tables_are_as_judged(self):
        for name, words in TABLES.items():
            with self.subTest(name):
                done = subprocess.run([TOOL, "sim", *words], capture_output=True, text=True, timeout=300)
                self.assertIn(done.returncode, (0, 1), done.stderr)
                text = "spindrift sim " + " ".join(words) + "\n\n" + done.stdout
                file = FOLDER / (name + ".txt")
                if UPDATES:
                    file.write_text(text)
                self.assertEqual(file.read_text(), text, "judge it, then run this test with --update")


if __name__ == "__main__":
    UPDATES = "--update" in sys.argv
    sys.argv = [word for word in sys.argv if word != "--update"]
    TOOL = sys.argv.pop(1)
    FOLDER = pathlib.Path(sys.argv.pop(1))
    unittest.main()
