"""Tables of the results: for a terminal, and for docs/PERFORMANCE.md."""

import os
import pathlib
import platform
import subprocess

WORDS = {True: "met", False: "MISSED", None: ""}


def figure(value):
    """Three significant digits, and no exponent."""
    if value is None:
        return "-"
    if value < 0:
        return "-" + figure(-value)
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 1 else f"{value:.3f}"


def machine():
    info = pathlib.Path("/proc/cpuinfo").read_text()
    names = [line.split(":", 1)[1].strip() for line in info.splitlines()
             if line.startswith("model name")]
    is_virtual = " hypervisor" in info
    compiler = subprocess.run(["g++", "-dumpfullversion"], capture_output=True, text=True,
                              check=False).stdout.strip()
    return {"processor": names[0] if names else platform.machine(), "processors": os.cpu_count(),
            "is_virtual": is_virtual, "kernel": platform.release(), "compiler": f"g++ {compiler}",
            "load_before": os.getloadavg()[0]}


def describe_machine(facts):
    kind = "virtual machine, " if facts["is_virtual"] else ""
    return (f"{facts['processor']} ({kind}{facts['processors']} processors), Linux "
            f"{facts['kernel']}, {facts['compiler']}, release preset; load before the run "
            f"{facts['load_before']:.1f}, after it {facts.get('load_after', 0):.1f}")


def as_text(result):
    width = max([len(one.label) for one in result.series.values()]
                + [len(verdict.text) for verdict in result.verdicts] + [30])
    lines = [f"\n{result.name}: {result.title}",
             f"  {result.unit:{width}} {'min':>9} {'median':>9} {'max':>9} {result.cpu_unit:>9}"]
    for one in result.series.values():
        spread = one.spread()
        if spread is None:
            lines.append(f"  {one.label:{width}} not measured: {one.problem}" if one.problem
                         else f"  {one.label:{width}} not measured")
            continue
        lines.append(f"  {one.label:{width}} {figure(spread.low):>9} {figure(spread.median):>9} "
                     f"{figure(spread.high):>9} {figure(one.cpu()):>9}")
        if one.problem:
            failed = len(one.samples) - len(one.values())
            lines.append(f"    {failed} of {len(one.samples)} rounds failed: {one.problem}")
    for verdict in result.verdicts:
        spread = verdict.spread
        lines.append(f"  {verdict.text:{width}} {figure(spread.low):>9} "
                     f"{figure(spread.median):>9} {figure(spread.high):>9} {verdict.limit:>9} "
                     f"{WORDS[verdict.is_met]}")
    return "\n".join(lines + [f"  {note}" for note in result.notes])


def as_markdown(result):
    lines = [f"**`{result.name}`**: {result.title}", "",
             f"| {result.unit} | min | median | max | {result.cpu_unit} |", "|---|---|---|---|---|"]
    for one in result.series.values():
        spread = one.spread()
        if spread is None:
            lines.append(f"| {one.label} | not measured | | | |")
        else:
            lines.append(f"| {one.label} | {figure(spread.low)} | **{figure(spread.median)}** | "
                         f"{figure(spread.high)} | {figure(one.cpu())} |")
    if result.verdicts:
        lines += ["", "| ratio | min | median | max | goal | |", "|---|---|---|---|---|---|"]
    for verdict in result.verdicts:
        spread = verdict.spread
        lines.append(f"| {verdict.text} | {figure(spread.low)} | **{figure(spread.median)}** | "
                     f"{figure(spread.high)} | {verdict.limit} | {WORDS[verdict.is_met].lower()} |")
    for note in result.notes:
        lines += ["", note]
    return "\n".join(lines)


def goals_met(results):
    """(met, all) of the goals."""
    judged = [verdict.is_met for result in results for verdict in result.verdicts
              if verdict.is_met is not None]
    return sum(judged), len(judged)


def section(results, facts, how):
    met, goals = goals_met(results)
    parts = [f"Machine: {describe_machine(facts)}. {how} {met} of {goals} goals met.", ""]
    for result in results:
        parts += [as_markdown(result), ""]
    return "\n".join(parts)


def markers(table):
    return (f"<!-- {table} table: made by ./dev bench {table} --write-docs -->",
            f"<!-- end of the {table} table -->")


def split_at(path, table):
    """The text of the file up to the table, the table, and the rest; the markers are of the first and last."""
    first, last = markers(table)
    before, begin, rest = path.read_text().partition(first)
    text, end, after = rest.partition(last)
    if not begin or not end:
        raise ValueError(f"{path} lacks the lines '{first}' and '{last}'")
    return before + begin, text.strip("\n"), end + after


def write_section(path, table, text):
    """Puts `text` between the markers of the table in the file."""
    before, _, after = split_at(path, table)
    path.write_text(f"{before}\n\n{text}\n{after}")
