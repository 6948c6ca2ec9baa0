#!/usr/bin/env python3
"""Tests of the parts of tools/bench_core.py that need no network: figures, ratios, goals, reports."""

import pathlib
import tempfile
import unittest

from benchmark import dark_path, report
from benchmark.processes import Failed, Program, Unavailable
from benchmark.programs import Sample, parse_ucx
from benchmark.results import Goal, Measured, RowResult
from benchmark.row import Row, Series, Settings


def row_of(series, goals, rounds=3):
    class Place:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

    row = Row("name", "title", "GB/s", Place, series, goals)
    return row.run(Settings(None, rounds, 0.1))


def constant(name, *values):
    left = list(values)
    return Series(name, name, lambda *_: Sample(left.pop(0), 2.0))


class Ratios(unittest.TestCase):
    def test_are_taken_within_a_round_and_judged_by_their_median(self):
        result = row_of([constant("a", 1, 20, 3), constant("b", 2, 10, 3)],
                        [Goal("a", "b", at_least=1)])
        verdict = result.verdicts[0]
        self.assertEqual((verdict.spread.low, verdict.spread.median, verdict.spread.high),
                         (0.5, 1, 2))
        self.assertIs(verdict.is_met, True)

    def test_miss_a_goal_on_either_side_of_it(self):
        result = row_of([constant("a", 3), constant("b", 2)],
                        [Goal("a", "b", at_least=1.6), Goal("a", "b", at_most=1.4), Goal("a", "b")],
                        rounds=1)
        self.assertEqual([verdict.is_met for verdict in result.verdicts], [False, False, None])

    def test_are_differences_where_a_goal_asks_for_them(self):
        result = row_of([constant("a", 900, 300, 800), constant("b", 300, 400, 200)],
                        [Goal("a", "b", at_most=600, is_difference=True)])
        verdict = result.verdicts[0]
        self.assertEqual((verdict.spread.low, verdict.spread.median), (-100, 600))
        self.assertEqual(verdict.text, "a - b")
        self.assertIs(verdict.is_met, True)
        self.assertIn(" -100 ", report.as_text(result))

    def test_leave_out_rounds_that_failed(self):
        def fail_once(*_, calls=[]):
            calls.append(1)
            if len(calls) == 2:
                raise Failed("it broke")
            return Sample(4.0)
        result = row_of([Series("a", "a", fail_once), constant("b", 2, 2, 2)], [Goal("a", "b")])
        self.assertEqual(len(result.series["a"].values()), 2)
        self.assertEqual(result.verdicts[0].spread.low, 2)
        self.assertIn("1 of 3 rounds failed: it broke", report.as_text(result))

    def test_are_none_where_a_series_cannot_be_measured(self):
        tried = []

        def refuse(*_):
            tried.append(1)
            raise Unavailable("no such program")
        result = row_of([Series("a", "a", refuse), constant("b", 1, 1, 1)], [Goal("a", "b")])
        self.assertEqual((result.verdicts, len(tried)), ([], 1))
        self.assertIn("not measured: no such program", report.as_text(result))
        self.assertIn("| a | not measured |", report.as_markdown(result))


class Order(unittest.TestCase):
    def test_of_the_series_turns_from_round_to_round(self):
        order = []
        series = [Series(name, name, lambda *_, name=name: order.append(name) or Sample(1.0))
                  for name in "abc"]
        row_of(series, [])
        self.assertEqual("".join(order), "abcbcacab")


class Reports(unittest.TestCase):
    def test_figures_have_three_digits(self):
        self.assertEqual([report.figure(value) for value in (1234.5, 12.34, 1.234, 0.1234, None)],
                         ["1,234", "12.3", "1.23", "0.123", "-"])

    def test_count_goals_and_not_mere_ratios(self):
        result = RowResult("n", "t", "u", series={"a": Measured("a", [Sample(1.0)])})
        result.judge([Goal("a", at_least=0.5), Goal("a", at_least=2), Goal("a")])
        self.assertEqual(report.goals_met([result]), (1, 2))

    def test_replace_what_stands_between_the_markers(self):
        with tempfile.TemporaryDirectory() as folder:
            page = pathlib.Path(folder, "page.md")
            first, last = report.markers("core")
            page.write_text(f"before\n{first}\nold\n{last}\nafter\n")
            report.write_section(page, "core", "new")
            self.assertEqual(page.read_text(),
                             f"before\n{first}\n\nnew\n{last}\nafter\n")
            page.write_text("no markers\n")
            with self.assertRaises(ValueError):
                report.write_section(page, "core", "new")


class Ucx(unittest.TestCase):
    def test_result_is_the_line_of_numbers(self):
        row = parse_ucx("+---+\n| Test | # iterations |\n"
                        "     2000   4.049   974.424  936.067   1026.25  1068.30   1026   1068\n+--+\n")
        self.assertEqual(row, {"p50_us": 4.049, "mib_per_s": 1068.3, "messages_per_s": 1068})

    def test_without_a_result_is_a_failure(self):
        with self.assertRaises(Failed):
            parse_ucx("nothing\n")


class Programs(unittest.TestCase):
    def test_that_fail_say_why(self):
        program = Program(["sh", "-c", "echo a reason >&2; exit 3"])
        with self.assertRaisesRegex(Failed, "ended with 3: a reason"):
            program.wait(30)

    def test_are_killed_when_they_take_too_long(self):
        program = Program(["sleep", "600"])
        with self.assertRaisesRegex(Failed, "not done"):
            program.wait(0.01)
        self.assertFalse(program.is_running())

    def test_have_their_processor_time_counted(self):
        program = Program(["python3", "-c", "sum(range(1000000))"])
        program.wait(60)
        self.assertGreater(program.cpu_seconds, 0)


class DarkPath(unittest.TestCase):
    def test_takes_averages_and_the_worst_of_a_span(self):
        line = dark_path.Timeline(1, 2, [(0.5, 4.0), (1.0, 1.0), (1.5, 3.0), (2.0, 9.0)])
        self.assertEqual(dark_path.mean_between(line, 1, 2), 2)
        self.assertEqual(dark_path.worst_between(line, 1, 2), 1)
        with self.assertRaises(Failed):
            dark_path.mean_between(line, 7, 8)

    def test_plot_has_a_line_per_round(self):
        result = RowResult("n", "t", "u", timelines=[
            dark_path.Timeline(1, 2, [(0.0, 4.0), (1.0, 1.0)]) for _ in range(3)])
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "plot.svg")
            dark_path.write_plot(path, result)
            self.assertEqual(path.read_text().count("<polyline"), 3)


if __name__ == "__main__":
    unittest.main()
