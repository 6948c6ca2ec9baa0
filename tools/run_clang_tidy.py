#!/usr/bin/env python3
"""Runs clang-tidy over all translation units of a build, several at once, and remembers the clean
ones: a file is checked again only when it, a project header it reaches, its compile command, the
configuration, or clang-tidy itself changed. Exits 1 when there are findings."""

import argparse
import concurrent.futures
import hashlib
import json
import pathlib
import re
import shlex
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
TIDY = "clang-tidy-14"
# The analyzer takes most of the time and finds next to nothing in tests, whose asserting macros it
# follows one by one.
TEST_CHECKS = "--checks=-clang-analyzer-*,-bugprone-unchecked-optional-access"


def reached(path, seen):
    """`path` and every project header it includes, directly or not."""
    if path in seen:
        return
    seen.add(path)
    for name in INCLUDE.findall(path.read_text(encoding="utf-8", errors="replace")):
        for base in (ROOT, ROOT / "include"):
            header = base / name
            if header.is_file():
                reached(header, seen)


def key_of(path, command, common):
    digest = hashlib.sha256(common)
    digest.update(command.encode())
    seen = set()
    reached(path, seen)
    for part in sorted(seen):
        digest.update(str(part.relative_to(ROOT)).encode() + b"\0")
        digest.update(part.read_bytes())
    return digest.hexdigest()


def translation_units(build, wanted):
    """Source file -> compile command, for tracked sources (all, or those in `wanted`)."""
    tracked = subprocess.run(["git", "-C", str(ROOT), "ls-files", "*.cc"], check=True,
                             capture_output=True, text=True).stdout.split()
    units = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        path = pathlib.Path(entry["directory"], entry["file"]).resolve()
        if path.is_relative_to(ROOT) and str(path.relative_to(ROOT)) in tracked:
            units.setdefault(path, entry.get("command") or shlex.join(entry["arguments"]))
    if wanted:
        chosen = {(ROOT / name).resolve() for name in wanted}
        # A header is checked through what includes it.
        units = {unit: command for unit, command in units.items()
                 if chosen & headers_and_self(unit)}
    return units


def headers_and_self(unit):
    seen = set()
    reached(unit, seen)
    return seen


def run_one(path, build):
    extra = [TEST_CHECKS] if path.relative_to(ROOT).parts[0] in ("tests", "bench") else []
    started = time.monotonic()
    done = subprocess.run([TIDY, "--quiet", "-p", str(build), *extra, str(path)],
                          capture_output=True, text=True)
    return done.returncode, done.stdout + ("" if done.returncode == 0 else done.stderr), \
        time.monotonic() - started


def main():
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0])
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--cache", type=pathlib.Path, required=True)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("files", nargs="*",
                        help="only these sources, or what includes these headers")
    arguments = parser.parse_args()
    arguments.cache.mkdir(parents=True, exist_ok=True)
    version = subprocess.run([TIDY, "--version"], check=True, capture_output=True).stdout
    common = version + (ROOT / ".clang-tidy").read_bytes() + TEST_CHECKS.encode()
    units = translation_units(arguments.build, arguments.files)
    # Neither the checkout's nor the build folder's place matters.
    places = ((str(arguments.build.resolve()), "BUILD"), (str(ROOT), "ROOT"))
    keys = {}
    for unit, command in units.items():
        for place, name in places:
            command = command.replace(place, name)
        keys[unit] = key_of(unit, command, common)
    stale = [unit for unit in sorted(units) if not (arguments.cache / keys[unit]).exists()]
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        jobs = {pool.submit(run_one, unit, arguments.build): unit for unit in stale}
        for count, job in enumerate(concurrent.futures.as_completed(jobs), 1):
            unit = jobs[job]
            code, output, seconds = job.result()
            print(f"[{count}/{len(stale)}] {unit.relative_to(ROOT)} {seconds:.0f} s"
                  + ("" if code == 0 else ": findings"), file=sys.stderr)
            if code == 0:
                (arguments.cache / keys[unit]).touch()
            else:
                failed += 1
                print(output, flush=True)
    print(f"clang-tidy: {len(units)} files, {len(units) - len(stale)} unchanged, "
          f"{failed} with findings", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
