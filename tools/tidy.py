#!/usr/bin/env python3
"""House rules that no compiler checks. Run by ./dev lint; exits 1 with one line per finding.

  * No file longer than MAX_FILE_LINES, no function longer than MAX_FUNCTION_LINES. Exceptions stand
    in tools/tidy_ratchet.json with the length they have; it may only fall.
  * Words that have no place in the sources (BANNED).
  * No relative includes.
  * Every .cc is named by a CMakeLists.txt at or above it.
  * Every .cc of TESTED_FOLDERS has a test that includes its header or names it.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys

MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 70
RATCHET = "tools/tidy_ratchet.json"
SOURCES = (".h", ".cc")
TEXTS = SOURCES + (".md", ".py", ".cmake", ".txt", ".json", ".sh", "")
TESTED_FOLDERS = ("transport/", "cc/", "providers/", "collectives/")

# pattern, what to do instead, files where it may stand, which kinds of file are searched
BANNED = (
    (r"\bsteady_clock::now", "time is an argument; only transport/clock.h reads a clock",
     r"transport/clock\.(h|cc)|tools/.*|bench/.*|tests/(e2e|tools)/.*|tests/.*_e2e_test\.cc|examples/.*", SOURCES),
    (r"(?<![\w.>])s?rand\s*\(", "one seeded Rng", r"", SOURCES),
    (r"\bshared_ptr\b", "unique_ptr at set-up, references and ids afterwards", r"", SOURCES),
    (r"\bTODO\b|\bFIXME\b|\bXXX\b", "do it, or say in the documentation that it is missing",
     r"tools/tidy(_test)?\.py", TEXTS),
    (r"(?<![\w.])/(?:work|home|root|Users)/", "no path of one machine",
     r"tools/tidy(_test)?\.py", TEXTS),
)

# .cc file -> why it needs no test of its own
UNTESTED = {
    "collectives/exchange.cc": "plan_test and communicator_test run every algorithm there is",
    "collectives/run_receive.cc": "the other half of run, which communicator_test runs",
    "providers/dpdk/dma_memory.cc": "needs a card; ./dev vm-test runs it",
    "providers/dpdk/dpdk_receiver.cc": "half of dpdk_io, which the provider contract suite runs",
    "providers/dpdk/dpdk_sender.cc": "half of dpdk_io, which the provider contract suite runs",
    "providers/dpdk/module.cc": "what the shared object exports; the endpoint suites load it",
    "providers/dpdk/payload_tails.cc": "internal to dpdk_io, whose suites run it",
    "providers/dpdk/pools.cc": "internal to dpdk_io, whose suites run it",
    "providers/memory/memory_wire.cc": "internal to memory_network, whose tests run it",
    "providers/shm/shm_greeting.cc": "half of shm_fabric, whose contract suite runs it",
    "providers/udp/udp_errors.cc": "internal to udp_io, whose tests run it",
    "providers/udp/udp_host.cc": "internal to udp_io, whose tests run it",
    "providers/udp/udp_receiver.cc": "internal to udp_io, whose tests run it",
    "providers/udp/udp_sender.cc": "internal to udp_io, whose tests run it",
    "providers/udp/udp_socket.cc": "internal to udp_io, whose tests run it",
    "providers/verbs/datagram_neighbors.cc": "half of verbs_datagrams, whose contract suite runs it",
    "providers/verbs/datagram_rail.cc": "half of verbs_datagrams, whose contract suite runs it",
    "providers/verbs/message_lane.cc": "internal to verbs_fabric, whose tests run it",
    "providers/verbs/module.cc": "what the shared object exports: two functions of libraries that are tested",
    "providers/verbs/queue_pair.cc": "internal to verbs_fabric, whose tests run it",
    "providers/verbs/registered_memory.cc": "internal to verbs_fabric, whose tests run it",
    "providers/verbs/verbs_connect.cc": "part of verbs_fabric, whose tests run it",
    "providers/verbs/verbs_mend.cc": "part of verbs_fabric, whose tests run it",
    "providers/verbs/verbs_peers.cc": "part of verbs_fabric, whose tests run it",
    "providers/wrap/frame.cc": "internal to pcap_io, whose tests run it",
    "transport/ack_input.cc": "part of the engine; contract, fault and engine tests run it",
    "transport/ack_output.cc": "part of the engine; contract, fault and engine tests run it",
    "transport/blocking.cc": "declared in endpoint.h; tests/transport/waiting_test.cc",
    "transport/connection_timers.cc": "part of the engine; contract tests run every timer",
    "transport/endpoint_addresses.cc": "part of the endpoint; contract tests run it",
    "transport/endpoint_calls.cc": "part of the endpoint; contract tests run it",
    "transport/handshake_timing.cc": "the other half of handshake, whose tests run it",
    "transport/hello_packet.cc": "internal to handshake, whose tests run it",
    "transport/message/message_calls.cc": "part of the endpoint; contract tests run it",
    "transport/message/message_completions.cc": "part of the engine; contract tests run it",
    "transport/message/message_endpoint.cc": "part of the endpoint; contract tests run it",
    "transport/message/message_fetch.cc": "part of the engine; contract tests run it",
    "transport/message/message_handshake.cc": "part of the engine; contract tests run it",
    "transport/message/message_open.cc": "part of the engine; contract tests run it",
    "transport/message/message_poster.cc": "part of the engine; contract tests run it",
    "transport/message/message_receiver.cc": "part of the engine; contract tests run it",
    "transport/message/message_sender.cc": "part of the engine; contract tests run it",
    "transport/message/message_timers.cc": "part of the engine; contract tests run every timer",
    "transport/open_connection.cc": "internal to handshake, whose tests run it",
    "transport/responder.cc": "part of the engine; contract tests READ and use atomics",
    "transport/work_check.cc": "part of both engines; contract tests make every mistake",
}


def strip_code(text):
    """Blanks comments and literals, keeping every newline."""
    pattern = re.compile(
        r'//[^\n]*|/\*.*?\*/|R"([^(\s]*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|'
        r"(?<!\w)'(?:\\.|[^'\\\n])+'",
        re.DOTALL)
    return pattern.sub(lambda m: re.sub(r"[^\n]", " ", m.group(0)), text)


def opens(head):
    """What a brace after `head` opens: "container", "function" or "other"."""
    head = re.sub(r"^\s*#[^\n]*$", "", head, flags=re.MULTILINE)
    head = re.sub(r"\[\[.*?\]\]|\balignas\s*\([^)]*\)|\btemplate\s*<[^{;]*?>(?=\s*[\w:])", " ",
                  head, flags=re.DOTALL).strip()
    head = re.sub(r"^(public|private|protected)\s*:", "", head).strip()
    if re.match(r"(inline\s+)?namespace\b|extern\b\s*$", head):
        return "container"
    if re.match(r"(typedef\s+)?(class|struct|union|enum)\b", head) and not head.endswith(")"):
        return "container"
    if "(" in head and not re.search(r"=\s*$", head):
        return "function"
    return "other"


def functions(text):
    """Yields (name, first line, lines) of every function body."""
    code = strip_code(text)
    stack = []  # (kind, head, index of the head's first character)
    head_start = 0
    inside = 0  # how many of the open braces are function bodies
    for i, char in enumerate(code):
        if char == "{":
            head = code[head_start:i]
            kind = "other" if inside else opens(head)
            stack.append((kind, head_start, i))
            inside += kind == "function"
            head_start = i + 1
        elif char == "}" and stack:
            kind, start, brace = stack.pop()
            inside -= kind == "function"
            following = code[i + 1:].lstrip()[:1]
            if kind == "function" and following in (",", "{") and not inside:
                head_start = start  # a brace initialiser of a constructor; the body follows
                continue
            if kind == "function" and not inside:
                head = code[start:brace]
                first = start + len(head) - len(head.lstrip())
                lines = code.count("\n", first, i) + 1
                name = re.search(r"([~\w:]+|operator\S+)\s*\(", head)
                yield (name.group(1) if name else "?", code.count("\n", 0, first) + 1, lines)
            head_start = i + 1
        elif char == ";":
            head_start = i + 1


def check_lengths(files, ratchet):
    allowed_files = ratchet.get("files", {})
    allowed_functions = ratchet.get("functions", {})
    seen = set()
    for name, text in files.items():
        if not name.endswith(SOURCES + (".py",)) and name != "dev":
            continue
        lines = text.count("\n")
        limit = allowed_files.get(name, MAX_FILE_LINES)
        if lines > limit:
            yield f"{name}: {lines} lines, the limit is {limit}; split it"
        if name in allowed_files:
            seen.add(name)
            if lines < limit:
                yield f"{name}: now {lines} lines; lower (or drop) its entry in {RATCHET}"
        if not name.endswith(SOURCES):
            continue
        longest = {}
        for function, line, length in functions(text):
            key = f"{name}:{function}"
            longest[key] = max(longest.get(key, 0), length)
            limit = allowed_functions.get(key, MAX_FUNCTION_LINES)
            if length > limit:
                yield (f"{name}:{line}: {function} has {length} lines, the limit is {limit}; "
                       "split it")
        for key, length in longest.items():
            if key in allowed_functions:
                seen.add(key)
                if length < allowed_functions[key]:
                    yield f"{key}: now {length} lines; lower (or drop) its entry in {RATCHET}"
    for key in list(allowed_files) + list(allowed_functions):
        if key not in seen:
            yield f"{RATCHET}: {key} does not exist any more; drop the entry"


def check_ratchet(ratchet, before):
    """The exceptions may not grow, neither in number nor in length."""
    for group in ("files", "functions"):
        for key, length in ratchet.get(group, {}).items():
            if length > before.get(group, {}).get(key, 0):
                yield f"{RATCHET}: {key} may only fall"


def check_words(files):
    for name, text in files.items():
        suffix = pathlib.PurePosixPath(name).suffix
        for pattern, instead, exempt, kinds in BANNED:
            if suffix not in kinds or re.fullmatch(exempt, name):
                continue
            for match in re.finditer(pattern, text):
                line = text.count("\n", 0, match.start()) + 1
                yield f"{name}:{line}: '{match.group(0).strip()}' is banned: {instead}"


def check_includes(files):
    for name, text in files.items():
        if not name.endswith(SOURCES):
            continue
        for match in re.finditer(r'^\s*#\s*include\s*"\.\.?/', text, re.MULTILINE):
            line = text.count("\n", 0, match.start()) + 1
            yield f"{name}:{line}: includes are written from the project root"


def check_built(files):
    for name in files:
        if not name.endswith(".cc"):
            continue
        path = pathlib.PurePosixPath(name)
        lists = [str(folder / "CMakeLists.txt") for folder in path.parents]
        lists += [listing for listing in files if listing.endswith(".cmake")]
        if not any(re.search(r"\b" + re.escape(path.stem) + r"\b", files.get(listing, ""))
                   for listing in lists):
            yield f"{name}: no CMakeLists.txt names it"


def is_tested(path, tests, test_files):
    """A test includes its header, is called after it, or uses what it defines (kBitmap...)."""
    camel = "".join(word.capitalize() for word in path.stem.split("_"))
    return (f'"{path.with_suffix(".h")}"' in tests or f"{path.stem}_test.cc" in test_files
            or re.search(rf"\b({re.escape(path.stem)}|k?{camel}\w*)\b", tests) is not None)


def check_tested(files, untested):
    tests = {name: text for name, text in files.items()
             if name.startswith("tests/") and name.endswith(SOURCES)}
    test_files = {pathlib.PurePosixPath(name).name for name in tests}
    text = "\n".join(tests.values())
    for name in files:
        if not name.endswith(".cc") or not name.startswith(TESTED_FOLDERS) or name in untested:
            continue
        path = pathlib.PurePosixPath(name)
        if not is_tested(path, text, test_files):
            yield f"{name}: no test includes {path.with_suffix('.h')} or names {path.stem}"
    for name in untested:
        if name not in files:
            yield f"tools/tidy.py: UNTESTED names {name}, which does not exist"


def git(root, *arguments):
    return subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True)


def read_tree(root):
    listing = git(root, "ls-files", "-z").stdout.split("\0")
    files = {}
    for name in listing:
        path = root / name
        if name.startswith("tests/fuzz/corpus/"):
            continue
        if name and path.suffix in TEXTS and path.is_file() and not path.is_symlink():
            files[name] = path.read_text(encoding="utf-8", errors="replace")
    return files


def committed_ratchet(root):
    for revision in ("HEAD", "HEAD~1"):
        shown = git(root, "show", f"{revision}:{RATCHET}")
        if shown.returncode == 0:
            yield json.loads(shown.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parent.parent)
    root = parser.parse_args().root
    files = read_tree(root)
    ratchet = json.loads(files.get(RATCHET, "{}"))
    findings = [*check_lengths(files, ratchet), *check_words(files), *check_includes(files),
                *check_built(files), *check_tested(files, UNTESTED)]
    for before in committed_ratchet(root):
        findings += check_ratchet(ratchet, before)
    for finding in dict.fromkeys(findings):
        print(finding)
    print(f"tidy: {len(files)} files, {len(findings)} findings", file=sys.stderr)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
