#!/usr/bin/env python3
"""What bench_collectives.py computes and prints."""

import unittest

import bench_collectives
from benchmark.peers import SOCKETS, Call, Peer, parse
from benchmark.processes import Failed


def calls(*times_us):
    return [time and Call(us=time, cpu_us=2 * time) for time in times_us]


class Parsing(unittest.TestCase):
    def test_the_slowest_rank_counts_and_processor_times_add_up(self):
        output = ('noise\n{"rank": 1, "bytes": 8, "us": 3.5, "cpu_us": 2, "calls": 9}\n'
                  '{"rank": 0, "bytes": 8, "us": 3.0, "cpu_us": 1, "calls": 9}\n')
        self.assertEqual(parse(output, 2), {8: Call(us=3.5, cpu_us=3)})

    def test_the_longest_call_of_any_rank_is_kept(self):
        output = ('{"rank": 1, "bytes": 8, "us": 3.5, "cpu_us": 2, "calls": 9, "longest_us": 40}\n'
                  '{"rank": 0, "bytes": 8, "us": 3.0, "cpu_us": 1, "calls": 9, "longest_us": 70}\n')
        self.assertEqual(parse(output, 2)[8].longest_us, 70)

    def test_a_rank_that_says_nothing_is_a_failure(self):
        with self.assertRaises(Failed):
            parse('{"rank": 1, "bytes": 8, "us": 3.5, "cpu_us": 2, "calls": 9}\n', 2)


class Ratio(unittest.TestCase):
    def test_rounds_are_compared_with_themselves(self):
        # The second round is ten times slower for both.
        median, low, high = bench_collectives.ratio(calls(1, 10, 1), calls(2, 20, 2))
        self.assertEqual((median, low, high), (0.5, 0.5, 0.5))

    def test_the_interval_holds_the_median_and_failed_rounds_are_left_out(self):
        median, low, high = bench_collectives.ratio(calls(1, 2, None, 4, 5), calls(1, 1, 1, 1, 1))
        self.assertLessEqual(low, median)
        self.assertGreaterEqual(high, median)
        self.assertEqual(median, 3)
        self.assertIsNone(bench_collectives.ratio(calls(None), calls(1)))


class Documents(unittest.TestCase):
    def test_tables_of_other_tasks_stay(self):
        text = "Machine: old.\n\n**a, 2 ranks**\n\n| 1 |\n\n**b, 2 ranks**\n\n| 2 |\n\n**c, 2 ranks**\n\n| 3 |"
        got = bench_collectives.with_tables(text, ["**b, 2 ranks**\n\n| 4 |\n", "**c, 2 ranks**\n\n| 5 |\n"], "New.\n\n")
        self.assertEqual(got, "Machine: old.\n\n**a, 2 ranks**\n\n| 1 |\n\n**b, 2 ranks**\n\nNew.\n\n| 4 |\n\n"
                              "**c, 2 ranks**\n\nNew.\n\n| 5 |\n\n")
        with self.assertRaises(ValueError):
            bench_collectives.with_tables(text, ["**d, 2 ranks**\n\n| 4 |\n"], "New.\n\n")


class Stalls(unittest.TestCase):
    def test_a_call_counts_beyond_the_median_of_its_size(self):
        task = bench_collectives.Task(SOCKETS, 4, ["all_reduce"], [8, 16])
        task.calls = {"Ours": {8: [Call(10, 1, 5010), None, Call(10, 1, 2010)], 16: [Call(1000, 1, 4000)]}}
        self.assertIn("Ours 5", bench_collectives.stalls(task, ["Ours"]))

    def test_nothing_is_said_of_calls_that_were_not_timed(self):
        task = bench_collectives.Task(SOCKETS, 2, ["all_reduce"], [8])
        task.calls = {"Ours": {8: calls(1, 2)}}
        self.assertIsNone(bench_collectives.stalls(task, ["Ours"]))


class Rounds(unittest.TestCase):
    def test_a_library_that_never_ends_is_left_out_of_later_rounds(self):
        class Hung(Peer):
            runs = 0

            def run(self, *_):
                Hung.runs += 1
                raise Failed("did not end")

        task = bench_collectives.Task(SOCKETS, 2, ["all_reduce"], [8])
        for number in range(5):
            task.run([Hung("Hung", SOCKETS, "")], None, number, 0.1, 1)
        self.assertEqual(Hung.runs, bench_collectives.GIVE_UP_AFTER)
        self.assertEqual(task.failures, {"Hung": "did not end"})

    def test_ours_is_run_to_the_end(self):
        class Ours(Peer):
            runs = 0

            def run(self, *_):
                Ours.runs += 1
                raise Failed("did not end")

        task = bench_collectives.Task(SOCKETS, 2, ["all_reduce"], [8])
        for number in range(5):
            task.run([Ours("Ours", SOCKETS, "", is_ours=True)], None, number, 0.1, 1)
        self.assertEqual(Ours.runs, 5)


class Table(unittest.TestCase):
    def test_shows_every_library_and_the_best_other(self):
        task = bench_collectives.Task(SOCKETS, 2, ["all_reduce"], [8, 1 << 20])
        task.calls = {"Ours": {8: calls(2, 2), 1 << 20: calls(100, 100)},
                      "Slow": {8: calls(9, 9), 1 << 20: calls(900, 900)},
                      "Fast": {8: calls(4, 4), 1 << 20: calls(None, None)}}
        task.failures = {"Fast": "did not end"}
        peers = [Peer("Ours", SOCKETS, "", is_ours=True), Peer("Slow", SOCKETS, ""), Peer("Fast", SOCKETS, "")]
        text = bench_collectives.table(task, peers)
        self.assertIn("| 8 B | 2.00 | 9.00 | 4.00 | 0.50 (0.50 to 0.50) Fast |", text)
        self.assertIn("| 1 MiB |", text)
        self.assertIn("| failed | 0.11 (0.11 to 0.11) Slow |", text)
        self.assertIn("Fast failed in a round: did not end", text)

    def test_sizes_read_as_people_write_them(self):
        self.assertEqual([bench_collectives.size_text(size) for size in (8, 1024, 16 << 20, 64_000_000)],
                         ["8 B", "1 KiB", "16 MiB", "64 MB"])


if __name__ == "__main__":
    unittest.main()
