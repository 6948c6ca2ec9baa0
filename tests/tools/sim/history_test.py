#!/usr/bin/env python3
"""The history of whole runs, endpoints and algorithms included, is the same in every build.

Usage: history_test.py TOOL FILE [--update]

FILE holds a line per run: the history's hash, then the scenario and what is set in it. Whatever compiler, build
type and machine made TOOL, the hashes must be these; where only one build differs, that build computes
differently (contraction of floating point, a mathematical library) and is what must change. A change of the
transport, an algorithm or the simulator changes them for all builds: --update writes them anew.
"""

import json
import pathlib
import subprocess
import sys
import unittest

TOOL = ""
FILE = pathlib.Path()
UPDATES = False


def history_of(words):
    done = subprocess.run([TOOL, "sim", *words, "--json"], capture_output=True, text=True, timeout=300)
    if done.returncode not in (0, 1):
        raise AssertionError(done.stderr)
    return json.loads(done.stdout)["runs"][0]["history"]


class Histories(unittest.TestCase):
    def test_they_are_as_stored(self):
        lines = [line.split() for line in FILE.read_text().splitlines() if not line.startswith("#")]
        self.assertGreater(len(lines), 5)
        found = [(history_of(words), words) for _, *words in lines]
        if UPDATES:
            head = [line for line in FILE.read_text().splitlines() if line.startswith("#")]
            FILE.write_text("\n".join(head + [" ".join([name, *words]) for name, words in found]) + "\n")
            return
        for (stored, *words), (history, _) in zip(lines, found):
            with self.subTest(" ".join(words)):
                self.assertEqual(history, stored, "see the head of this test")


if __name__ == "__main__":
    UPDATES = "--update" in sys.argv
    sys.argv = [word for word in sys.argv if word != "--update"]
    TOOL = sys.argv.pop(1)
    FILE = pathlib.Path(sys.argv.pop(1))
    unittest.main()
