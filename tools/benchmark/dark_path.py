"""One path goes dark in mid-transfer: bytes per 100 ms at the receiver's interface."""

import dataclasses
import json
import pathlib
import statistics
import time

from benchmark.places import Namespaces
from benchmark.processes import (RECEIVER_CPU, SENDER_CPU, Failed, Program, Unavailable, await_socket,
                                 free_port)
from benchmark.programs import MIB, Sample
from benchmark.results import Goal, Measured, RowResult
from benchmark.row import show_progress

STEP_S = 0.1
PATIENCE_S = 60


@dataclasses.dataclass
class Timeline:
    begin_s: float  # of the darkness, from the first byte
    end_s: float
    points: list  # (seconds from the first byte, GB/s) per step


class ReceivedBytes:
    """Bytes that have come in at a device of the network namespace of `pid`; the process may end."""

    def __init__(self, pid, device):
        self._file = pathlib.Path(f"/proc/{pid}/net/dev").open()
        self._device = device

    def now(self):
        self._file.seek(0)
        for line in self._file.read().splitlines():
            name, _, fields = line.partition(":")
            if name.strip() == self._device:
                return int(fields.split()[0])
        raise Failed(f"{self._device} is gone")


def values_between(timeline, begin, end):
    values = [value for at, value in timeline.points if begin <= at < end]
    if not values:
        raise Failed(f"nothing was measured from {begin:.1f} s to {end:.1f} s")
    return values


def mean_between(timeline, begin, end):
    return statistics.mean(values_between(timeline, begin, end))


def worst_between(timeline, begin, end):
    return min(values_between(timeline, begin, end))


class DarkPath:
    name = "dark_path"
    unit = "GB/s on the wire"

    def __init__(self, transport):
        self._transport = transport
        self.title = ("WRITE of 1 MiB, 16 EVs, veth pair, MTU 9000: one EV loses everything for a "
                      "while (fault wrapper)")

    def run(self, settings):
        third = 0.8 if settings.is_quick else 1.5
        result = RowResult(self.name, self.title, self.unit)
        result.series = {name: Measured(label) for name, label in (
            ("before", "before"), ("during", "while one EV is dark"), ("after", "after"),
            ("worst_before", "worst 100 ms before"),
            ("worst_during", "worst 100 ms while it is dark"))}
        try:
            with Namespaces(9000) as place:
                for number in range(settings.rounds):
                    show_progress(f"{self.name}: round {number + 1} of {settings.rounds}")
                    self._round(place, third, result)
        except Unavailable as problem:
            result.notes.append(f"Not measured here: {problem}.")
        result.judge([Goal("during", "before"), Goal("after", "before"),
                      Goal("worst_during", "worst_before")])
        return result

    def _round(self, place, third, result):
        try:
            timeline = self._transfer(place, third)
            begin, end = timeline.begin_s, timeline.end_s
            parts = {"before": mean_between(timeline, STEP_S, begin),
                     "during": mean_between(timeline, begin, end),
                     "after": mean_between(timeline, end, end + third - STEP_S),
                     "worst_before": worst_between(timeline, STEP_S, begin),
                     "worst_during": worst_between(timeline, begin, end)}
        except Failed as problem:
            for measured in result.series.values():
                measured.samples.append(None)
                measured.problem = problem
            return
        result.timelines.append(timeline)
        for name, value in parts.items():
            result.series[name].samples.append(Sample(value))

    def _transfer(self, place, third):
        port = free_port()
        address = f"{place.address}:{port}"
        tool = self._transport.tool
        server = Program([*place.receiver, tool, "perf", "server", "--once", "--listen",
                          f"udp://{address}"], RECEIVER_CPU)
        try:
            await_socket(server, port)
            began = time.monotonic()
            client = Program([*place.sender, tool, "perf", address, "-s", MIB, "-D",
                              f"{third * 3000:.0f}ms", "--warmup", 1, "--json", "--fault",
                              f"blackhole=ev3@{third * 1000:.0f}ms+{third * 1000:.0f}ms"], SENDER_CPU)
            try:
                points, first = self._watch(ReceivedBytes(server.pid, place.device), client)
                counters = json.loads(client.wait(PATIENCE_S))["account"]["client"]["counters"]
            finally:
                client.kill()
            server.wait(PATIENCE_S)
        finally:
            server.kill()
        if counters["paths_went_bad"] == 0:
            raise Failed("the sender did not notice that a path was dark")
        offset = third - (first - began)
        # What comes after that is the end of the transfer.
        points = [point for point in points if point[0] < 3 * third - STEP_S]
        return Timeline(offset, offset + third, points)

    @staticmethod
    def _watch(received, client):
        """Until the client has ended: rates per step, and when the first bytes came."""
        last_bytes, last_time = received.now(), time.monotonic()
        first, points = None, []
        while client.is_running():
            time.sleep(STEP_S if first else 0.01)
            now_bytes, now = received.now(), time.monotonic()
            if first is None and now_bytes - last_bytes > MIB:
                first = now
            elif first is not None:
                points.append((last_time - first, (now_bytes - last_bytes) / (now - last_time) / 1e9))
            last_bytes, last_time = now_bytes, now
        if first is None:
            client.wait(PATIENCE_S)
            raise Failed("no data came")
        return points, first


WIDTH, HEIGHT, MARGIN = 640, 240, 40


def write_plot(path, result):
    """One line per round; the darkness is grey."""
    most_time = max(at for line in result.timelines for at, _ in line.points)
    most_rate = max(value for line in result.timelines for _, value in line.points)

    def place(at, value):
        return (MARGIN + at / most_time * (WIDTH - 2 * MARGIN),
                HEIGHT - MARGIN - value / most_rate * (HEIGHT - 2 * MARGIN))

    begin = statistics.median(line.begin_s for line in result.timelines)
    end = statistics.median(line.end_s for line in result.timelines)
    left, right = place(begin, 0)[0], place(end, 0)[0]
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
             'font-family="sans-serif" font-size="12">',
             f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
             f'<rect x="{left:.1f}" y="{MARGIN}" width="{right - left:.1f}" '
             f'height="{HEIGHT - 2 * MARGIN}" fill="#dddddd"/>',
             f'<text x="{left + 4:.1f}" y="{MARGIN + 14}">one of 16 EVs dark</text>']
    for line in result.timelines:
        points = " ".join("{:.1f},{:.1f}".format(*place(*point)) for point in line.points)
        parts.append(f'<polyline points="{points}" fill="none" stroke="#1f77b4" opacity="0.6"/>')
    bottom = HEIGHT - MARGIN
    parts += [f'<path d="M{MARGIN},{MARGIN} V{bottom} H{WIDTH - MARGIN}" fill="none" stroke="black"/>',
              f'<text x="{MARGIN - 6}" y="{MARGIN + 4}" text-anchor="end">{most_rate:.1f}</text>',
              f'<text x="{MARGIN - 6}" y="{bottom}" text-anchor="end">0</text>',
              f'<text x="{WIDTH - MARGIN}" y="{bottom + 16}" text-anchor="end">'
              f'{most_time:.1f} s</text>',
              f'<text x="{MARGIN}" y="{MARGIN - 12}">GB/s per 100 ms</text>', "</svg>"]
    path.write_text("\n".join(parts) + "\n")
