"""The library that NCCL loads needs the C library alone and shows NCCL's entry points alone."""
import re
import subprocess
import sys

ALLOWED = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2"}


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def main():
    library = sys.argv[1]
    needed = set(re.findall(r"NEEDED.*\[(.*)\]", run("readelf", "-d", library)))
    foreign = {name for name in needed if name not in ALLOWED and not name.startswith("ld-linux")}
    assert not foreign, f"it needs {sorted(foreign)}"
    dynamic = run("readelf", "-d", library)
    assert "TEXTREL" not in dynamic, "it has text relocations"
    shown = [line.split()[-1] for line in run("nm", "-D", "--defined-only", library).splitlines()]
    strange = [name for name in shown if not re.fullmatch(r"ncclNetPlugin_v\d+|ncclTunerPlugin_v\d+", name)]
    assert not strange, f"it shows {strange}"
    missing = [v for v in range(6, 13) if f"ncclNetPlugin_v{v}" not in shown]
    missing += [f"tuner {v}" for v in range(3, 6) if f"ncclTunerPlugin_v{v}" not in shown]
    assert not missing, f"versions {missing} are missing"


main()
