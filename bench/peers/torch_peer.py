#!/usr/bin/env python3
"""all_reduce of torch.distributed, or a training step of DistributedDataParallel with so many bytes of
gradients, in the loop of harness.cc.  torch_peer.py BACKEND TYPE|ddp_step SECONDS BYTES..."""

import json
import resource
import sys
import time

import torch
import torch.distributed as dist

FEWEST_CALLS = 3
LAYERS = 8  # of the network that is trained
SAMPLES = 4  # in a batch: what a rank computes is small beside what it sends


def processor_seconds():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def all_reduce(type_name, size):
    dtype = getattr(torch, type_name)
    tensor = torch.zeros(size // torch.tensor([], dtype=dtype).element_size(), dtype=dtype)
    return lambda: dist.all_reduce(tensor)


def ddp_step(size):
    side = int((size / 4 / LAYERS) ** 0.5)
    layers = [torch.nn.Linear(side, side, bias=False) for _ in range(LAYERS)]
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*layers))
    batch = torch.ones(SAMPLES, side)
    return lambda: model(batch).sum().backward()


def calls_per(seconds, call):
    """As many as rank 0 finds to fit; the same at all ranks."""
    start = time.monotonic()
    for _ in range(FEWEST_CALLS):
        call()
    one = (time.monotonic() - start) / FEWEST_CALLS
    calls = torch.tensor([max(FEWEST_CALLS, int(seconds / one))], dtype=torch.int64)
    dist.broadcast(calls, 0)
    return calls.item()


def main():
    backend, what, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
    if backend == "spindrift":
        import spindrift_torch  # noqa: F401  (registers the backend)
    torch.set_num_threads(1)
    dist.init_process_group(backend)
    for size in map(int, sys.argv[4:]):
        call = ddp_step(size) if what == "ddp_step" else all_reduce(what, size)
        call()
        calls = calls_per(seconds, call)
        dist.barrier()
        processor, start = processor_seconds(), time.monotonic()
        for _ in range(calls):
            call()
        took = time.monotonic() - start
        print(json.dumps({"rank": dist.get_rank(), "bytes": size, "us": 1e6 * took / calls,
                          "cpu_us": 1e6 * (processor_seconds() - processor) / calls, "calls": calls}), flush=True)
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
