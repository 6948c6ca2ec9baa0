"""Runs a function in several processes that form a process group."""

import datetime
import os
import pickle
import socket
import sys
import traceback

import torch.distributed as dist
import torch.multiprocessing as multiprocessing


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def _one(rank, size, port, backend, timeout_s, function, arguments, results):
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(size), LOCAL_RANK=str(rank), MASTER_ADDR="127.0.0.1",
                      MASTER_PORT=str(port))
    try:
        if backend == "spindrift":
            import spindrift_torch  # noqa: F401  (registers the backend)
        dist.init_process_group(backend, timeout=datetime.timedelta(seconds=timeout_s))
        result = function(rank, size, *arguments)
        dist.barrier()
        dist.destroy_process_group()
        # As bytes: PyTorch would pass tensors on by descriptors of a process that is gone by then.
        results.put((rank, pickle.dumps(result), None))
    except Exception:  # the parent shows it
        results.put((rank, None, traceback.format_exc()))
        sys.exit(1)


def run(size, function, *arguments, backend="spindrift", timeout_s=60):
    """What `function(rank, size, *arguments)` returned at each rank; raises what any of them raised."""
    context = multiprocessing.get_context("spawn")
    results = context.SimpleQueue()
    port = free_port()
    processes = [context.Process(target=_one, args=(rank, size, port, backend, timeout_s, function, arguments,
                                                    results)) for rank in range(size)]
    for process in processes:
        process.start()
    returned, failures = {}, []
    for _ in processes:
        rank, result, failure = results.get()
        if failure:
            failures.append(f"rank {rank}: {failure}")
        else:
            returned[rank] = pickle.loads(result)
    for process in processes:
        process.join()
    if failures:
        raise AssertionError("\n".join(failures))
    return [returned[rank] for rank in range(size)]
