"""The parts of tools/bench_core.py."""
