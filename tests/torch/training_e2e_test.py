#!/usr/bin/env python3
"""DistributedDataParallel trains a real network over the backend: with the losses of gloo, and with an error
that names the rank that died.  training_e2e_test.py EXAMPLE"""

import json
import os
import signal
import subprocess
import sys
import time
import unittest

import ranks

EXAMPLE = sys.argv.pop(1)


def train(size, backend, provider="auto"):
    done = subprocess.run([sys.executable, "-B", EXAMPLE, f"--ranks={size}", "--backend", backend, "--json"],
                          capture_output=True, text=True, timeout=120, check=False,
                          env=dict(os.environ, SPINDRIFT_PROVIDER=provider))
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return json.loads(done.stdout)


class Training(unittest.TestCase):
    def test_two_ranks_have_the_losses_of_gloo_bit_by_bit(self):
        theirs = train(2, "gloo")
        self.assertGreater(theirs["accuracy"], 0.97)
        for provider in ("auto", "udp"):
            ours = train(2, "spindrift", provider)
            self.assertEqual(ours["losses"], theirs["losses"], provider)
            self.assertEqual(ours["accuracy"], theirs["accuracy"], provider)

    def test_four_ranks_learn_as_well(self):
        # Four numbers may be added in several orders, so the last bits differ, and then the paths part.
        ours, theirs = train(4, "spindrift"), train(4, "gloo")
        for step, (one, other) in enumerate(zip(ours["losses"][:40], theirs["losses"][:40])):
            self.assertAlmostEqual(one, other, delta=1e-4, msg=f"step {step}")
        self.assertGreater(ours["accuracy"], 0.97)

    def test_a_rank_killed_in_training_is_named_by_an_exception_of_all_others(self):
        for provider in ("auto", "udp"):
            self.kill_one(provider)

    def kill_one(self, provider):
        port = str(ranks.free_port())
        processes = [subprocess.Popen(
            [sys.executable, "-B", EXAMPLE, "--epochs", "100000"], text=True, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, env=dict(os.environ, RANK=str(rank), WORLD_SIZE="3", MASTER_ADDR="127.0.0.1",
                                             MASTER_PORT=port, SPINDRIFT_PROVIDER=provider)) for rank in range(3)]
        try:
            while "epoch  3" not in processes[0].stdout.readline():
                self.assertIsNone(processes[0].poll(), "rank 0 ended")
            processes[1].send_signal(signal.SIGKILL)
            start = time.monotonic()
            for rank in (0, 2):
                _, errors = processes[rank].communicate(timeout=60)
                self.assertNotEqual(processes[rank].returncode, 0)
                self.assertRegex(errors, rf"RuntimeError: spindrift \w+ \(rank {rank} of 3\): .*rank 1\b")
            self.assertLess(time.monotonic() - start, 60)
        finally:
            for process in processes:
                process.kill()
                process.wait()
                process.stdout.close()
                process.stderr.close()


if __name__ == "__main__":
    unittest.main()
