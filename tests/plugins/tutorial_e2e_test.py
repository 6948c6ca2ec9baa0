#!/usr/bin/env python3
"""Follows docs/TUTORIAL.md step by step: its C++ blocks are examples/custom_cc.cc, they compile, and its
commands run.  tutorial_e2e_test.py SOURCE_DIR SPINDRIFT COMPILER"""
import pathlib
import re
import subprocess
import sys
import tempfile


def blocks(text, language):
    return re.findall(r"^```%s\n(.*?)^```$" % language, text, re.M | re.S)


def main():
    source, tool, compiler = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    text = (source / "docs/TUTORIAL.md").read_text()
    program = "\n".join(blocks(text, "cpp"))
    example = (source / "examples/custom_cc.cc").read_text()
    if without_blank_lines(program) != without_blank_lines(example):
        sys.exit("the blocks of docs/TUTORIAL.md are not examples/custom_cc.cc")
    commands = [line for block in blocks(text, "sh") for line in block.splitlines()]
    if len(commands) < 4:
        sys.exit("docs/TUTORIAL.md has lost its commands")
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "custom_cc.cc").write_text(program)
        for command in commands:
            words = command.split()
            words[0] = {"g++": compiler, "spindrift": tool}[words[0]]
            words = [str(source / "include") if word == "include" else word for word in words]
            done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
            name = "nscc" if words[-1] == "nscc" else "aimd"
            if done.returncode != 0 or (words[0] == tool and name not in done.stdout):
                sys.exit("%s\nended with %d and said:\n%s%s" %
                         (command, done.returncode, done.stdout, done.stderr))
    print("all as the tutorial says")


def without_blank_lines(text):
    return [line for line in text.splitlines() if line.strip()]


if __name__ == "__main__":
    main()
