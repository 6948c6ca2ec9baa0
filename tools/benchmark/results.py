"""What a row measured: samples by series, and ratios of series judged against goals."""

import dataclasses
import statistics


@dataclasses.dataclass
class Spread:
    low: float
    median: float
    high: float

    @classmethod
    def of(cls, values):
        return cls(min(values), statistics.median(values), max(values))


@dataclasses.dataclass
class Goal:
    """A limit on the ratio of two series, on their difference, or on one series where there is no
    other. Without a limit the ratio is only shown."""

    series: str
    versus: str | None = None
    at_least: float | None = None
    at_most: float | None = None
    is_difference: bool = False

    def limit(self):
        if self.at_least is not None:
            return f">= {self.at_least:g}"
        return f"<= {self.at_most:g}" if self.at_most is not None else ""

    def is_met(self, value):
        """None where there is no limit."""
        if self.at_least is not None:
            return value >= self.at_least
        return value <= self.at_most if self.at_most is not None else None


@dataclasses.dataclass
class Measured:
    """Samples of one series, one per round; None where the round failed."""

    label: str
    samples: list = dataclasses.field(default_factory=list)
    problem: str = ""

    def values(self):
        return [sample.value for sample in self.samples if sample is not None]

    def spread(self):
        return Spread.of(self.values()) if self.values() else None

    def cpu(self):
        """Median; None where it was not taken."""
        taken = [sample.cpu for sample in self.samples
                 if sample is not None and sample.cpu is not None]
        return statistics.median(taken) if taken else None


@dataclasses.dataclass
class Verdict:
    text: str  # "a / b"
    limit: str
    spread: Spread
    is_met: bool | None


@dataclasses.dataclass
class RowResult:
    name: str
    title: str
    unit: str
    cpu_unit: str = "CPU s/GB"
    series: dict = dataclasses.field(default_factory=dict)  # name -> Measured
    verdicts: list = dataclasses.field(default_factory=list)
    notes: list = dataclasses.field(default_factory=list)
    timelines: list = dataclasses.field(default_factory=list)

    def judge(self, goals):
        """Ratios are taken within each round, so that a machine that changes its pace between the
        rounds does not change them; the median is judged."""
        for goal in goals:
            measured = self.series.get(goal.series)
            other = self.series.get(goal.versus) if goal.versus else None
            if measured is None or (goal.versus and other is None):
                continue
            if other is None:
                values, text = measured.values(), measured.label
            else:
                pairs = [(a.value, b.value) for a, b in zip(measured.samples, other.samples)
                         if a is not None and b is not None and b.value > 0]
                values = [a - b if goal.is_difference else a / b for a, b in pairs]
                text = f"{measured.label} {'-' if goal.is_difference else '/'} {other.label}"
            if values:
                spread = Spread.of(values)
                self.verdicts.append(Verdict(text, goal.limit(), spread,
                                             goal.is_met(spread.median)))

    def to_json(self):
        return dataclasses.asdict(self)
