"""How a row is measured: its series turn about, round by round."""

import dataclasses
import sys
import time

from benchmark.processes import Failed, Unavailable
from benchmark.results import Measured, RowResult


@dataclasses.dataclass
class Settings:
    build: object  # folder of the release build
    rounds: int = 10
    seconds: float = 1.0  # of each measurement
    is_quick: bool = False


@dataclasses.dataclass
class Series:
    name: str
    label: str
    measure: object  # (place, seconds) -> Sample


@dataclasses.dataclass
class Row:
    name: str
    title: str
    unit: str
    place: object  # () -> context manager
    series: list
    goals: list
    note: str = ""
    cpu_unit: str = "CPU s/GB"
    max_rounds: int = 1000

    def run(self, settings):
        rounds = min(settings.rounds, self.max_rounds)
        result = RowResult(self.name, self.title, self.unit, self.cpu_unit)
        result.series = {one.name: Measured(one.label) for one in self.series}
        try:
            with self.place() as place:
                for number in range(rounds):
                    self._round(place, settings, (number, rounds), result)
        except Unavailable as problem:
            result.notes.append(f"Not measured here: {problem}.")
        result.judge(self.goals)
        result.notes += [self.note] if self.note else []
        result.notes += notes_on_crc(result)
        return result

    def _round(self, place, settings, count, result):
        """Each round begins with another series."""
        number, rounds = count
        turn = number % len(self.series)
        for step, one in enumerate(self.series[turn:] + self.series[:turn], 1):
            measured = result.series[one.name]
            show_progress(f"{self.name}: round {number + 1} of {rounds}, {step} of "
                          f"{len(self.series)}: {one.label}")
            sample = None
            if not isinstance(measured.problem, Unavailable):
                try:
                    sample = one.measure(place, settings.seconds)
                except (Failed, Unavailable) as problem:
                    measured.problem = problem
            measured.samples.append(sample)


def notes_on_crc(result):
    """What "as shipped" meant: CRC is on between hosts only."""
    shipped = result.series.get("ours")
    chosen = {sample.details["has_crc"] for sample in (shipped.samples if shipped else [])
              if sample is not None and "has_crc" in sample.details}
    if "crc" in result.series and chosen:
        yield (f"As shipped, CRC was {'on' if chosen == {True} else 'off'}: packets between two "
               "processes of one host are not checked.")


_last_progress = 0.0


def show_progress(text):
    """A line that is overwritten on a terminal; elsewhere, one every ten seconds."""
    global _last_progress
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
    elif time.monotonic() - _last_progress >= 10:
        _last_progress = time.monotonic()
        print(text, file=sys.stderr, flush=True)


def end_progress():
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr, flush=True)
