#!/usr/bin/env python3
"""Every operation of the backend against gloo: the same inputs, the same results. What gloo lacks is
compared with what follows from the inputs."""

import datetime
import os
import time
import unittest
import warnings

import torch
import torch.distributed as dist

import ranks

TYPES = (torch.float32, torch.float64, torch.float16, torch.int8, torch.uint8, torch.int32, torch.int64)
MORE_TYPES = (torch.bfloat16, torch.int16)
SHAPES = ((), (1,), (7,), (3, 5), (1000,), (64, 33), (70001,))


def values(rank, shape, dtype, seed=0):
    """Small whole numbers, which every type adds without rounding."""
    generator = torch.Generator().manual_seed(1000 * seed + rank)
    return torch.randint(0, 4, shape, generator=generator).to(dtype)


def shares_memory():
    """Whether this process has mapped the rings of a connection by shared memory."""
    with open("/proc/self/maps", encoding="ascii") as maps:
        return "/memfd:spindrift" in maps.read()


def everything_over(rank, size, provider):
    results = everything(rank, size)
    assert shares_memory() == (provider == "auto"), provider
    return results


def everything(rank, size):
    """Results of what gloo does too, by name."""
    results = {}
    for dtype in TYPES:
        for shape in SHAPES:
            case = f"{dtype} {shape}"
            for root in range(size):
                tensor = values(rank, shape, dtype)
                dist.broadcast(tensor, root)
                results[f"broadcast {root} {case}"] = tensor
                tensor = values(rank, shape, dtype)
                dist.reduce(tensor, root)
                results[f"reduce {root} {case}"] = tensor if rank == root else None
                parts = [torch.zeros(shape, dtype=dtype) for _ in range(size)] if rank == root else None
                dist.gather(values(rank, shape, dtype), parts, root)
                results[f"gather {root} {case}"] = parts
                tensor = torch.zeros(shape, dtype=dtype)
                parts = [values(other, shape, dtype, 1) for other in range(size)] if rank == root else None
                dist.scatter(tensor, parts, root)
                results[f"scatter {root} {case}"] = tensor
            for op in ("SUM", "PRODUCT", "MIN", "MAX"):
                tensor = values(rank, shape, dtype)
                dist.all_reduce(tensor, getattr(dist.ReduceOp, op))
                results[f"all_reduce {op} {case}"] = tensor
            parts = [torch.zeros(shape, dtype=dtype) for _ in range(size)]
            dist.all_gather(parts, values(rank, shape, dtype))
            results[f"all_gather {case}"] = parts
    tensors = [values(rank, shape, torch.float32, 2) for shape in SHAPES]
    dist.all_reduce_coalesced(tensors)
    results["all_reduce_coalesced"] = tensors
    rows = torch.zeros(3 * size, 5)
    dist.all_to_all_single(rows, values(rank, (3 * size, 5), torch.float32))
    results["all_to_all_single"] = rows
    split = [1 + (rank + other) % size for other in range(size)]
    rows = torch.zeros(sum(split), 2)
    dist.all_to_all_single(rows, values(rank, (sum(split), 2), torch.float32), split, split)
    results["all_to_all_single uneven"] = rows
    objects = [None] * size
    dist.all_gather_object(objects, {"rank": rank, "text": "x" * rank})
    results["all_gather_object"] = objects
    results.update(messages(rank, size))
    return results


def messages(rank, size):
    results = {}
    tensor = torch.zeros(4000)
    if rank == 0:
        for other in range(1, size):
            dist.send(values(other, (4000,), torch.float32), other)
    else:
        dist.recv(tensor, 0)
    results["recv"] = tensor
    # Tags may be taken in another order than they were sent in.
    one, two = torch.zeros(3), torch.zeros(5)
    if rank == 0:
        works = [dist.isend(torch.ones(3), 1, tag=1), dist.isend(torch.full((5,), 2.0), 1, tag=2)]
    elif rank == 1:
        works = [dist.irecv(two, 0, tag=2), dist.irecv(one, 0, tag=1)]
    else:
        works = []
    for work in works:
        work.wait()
    results["tags"] = [one, two]
    # Everybody passes on to the next.
    received = torch.zeros(3, 3)
    ops = [dist.P2POp(dist.isend, values(rank, (3, 3), torch.float32), (rank + 1) % size),
           dist.P2POp(dist.irecv, received, (rank + size - 1) % size)]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    results["ring"] = received
    # From whoever comes first, so the order is no result.
    if rank == 0:
        sources = []
        total = torch.zeros(10)
        for _ in range(2 * (size - 1)):
            tensor = torch.zeros(10)
            sources.append(dist.recv(tensor))
            total += tensor
        results["any source"] = [sorted(sources), total]
    else:
        for _ in range(2):
            dist.send(torch.full((10,), float(rank)), 0)
    return results


def beyond_gloo(rank, size):
    """What Debian's gloo does not do."""
    for dtype in TYPES + MORE_TYPES:
        expected = sum(values(other, (999,), torch.int64) for other in range(size))
        tensor = values(rank, (999,), dtype)
        dist.all_reduce(tensor)
        assert torch.equal(tensor.to(torch.int64), expected.to(dtype).to(torch.int64)), dtype
        output = torch.zeros(size * 3, dtype=dtype)
        dist._all_gather_base(output, values(rank, (3,), dtype))
        assert torch.equal(output, torch.cat([values(other, (3,), dtype) for other in range(size)])), dtype
        whole = [torch.cat([values(other, (4,), dtype, part) for part in range(size)]) for other in range(size)]
        output = torch.zeros(4, dtype=dtype)
        dist._reduce_scatter_base(output, whole[rank].clone())
        mine = sum(one[4 * rank:4 * rank + 4].to(torch.int64) for one in whole).to(dtype)
        assert torch.equal(output, mine), (dtype, output, mine)
        output.zero_()
        dist.reduce_scatter(output, list(whole[rank].clone().chunk(size)))
        assert torch.equal(output, mine), dtype
        outputs = [torch.zeros(4, dtype=dtype) for _ in range(size)]
        dist.all_to_all(outputs, list(whole[rank].clone().chunk(size)))
        for other in range(size):
            assert torch.equal(outputs[other], whole[other][4 * rank:4 * rank + 4]), dtype
    mean = torch.full((5,), float(rank))
    dist.all_reduce(mean, dist.ReduceOp.AVG)
    assert torch.allclose(mean, torch.full((5,), (size - 1) / 2))
    flags = torch.tensor([rank == 0, False, True])
    dist.all_reduce(flags)
    assert flags.dtype == torch.bool and flags.tolist() == [True, False, True]
    return True


def groups_and_futures(rank, size):
    evens = dist.new_group(list(range(0, size, 2)))
    odds = dist.new_group(list(range(1, size, 2)))
    own = evens if rank % 2 == 0 else odds
    tensor = torch.tensor([float(rank)])
    dist.all_reduce(tensor, group=own)
    assert tensor.item() == sum(range(rank % 2, size, 2))
    # Several under way at once, waited for in another order.
    tensors = [torch.full((10000,), float(i)) for i in range(20)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    doubled = works[3].get_future().then(lambda future: future.value()[0] * 2)
    for i in reversed(range(20)):
        works[i].wait()
        assert works[i].is_completed() and tensors[i][0] == i * size
    assert doubled.wait()[0] == 2 * 3 * size
    monitored_barrier(datetime.timedelta(seconds=20))
    return True


def refusals(rank, size):
    def message(call):
        try:
            call()
        except RuntimeError as error:
            return str(error)
        return ""

    assert "not contiguous" in message(lambda: dist.all_reduce(torch.zeros(4, 4).t()))
    assert "SUM, AVG" in message(lambda: dist.all_reduce(torch.zeros(4, dtype=torch.int32), dist.ReduceOp.BXOR))
    if rank == 0:
        dist.send(torch.zeros(4), 1)
    elif rank == 1:
        assert "sent 16 bytes with tag 0, recv has room for 12" in message(lambda: dist.recv(torch.zeros(3), 0))
    return True


def forks(rank, size):
    """As the workers of a DataLoader do."""
    child = os.fork()
    if child == 0:
        try:
            dist.all_reduce(torch.ones(3))
        except RuntimeError as error:
            os._exit(0 if "forked" in str(error) else 1)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    return tensor[0] == size


def more_than_gloo(rank, size):
    warnings.simplefilter("ignore")  # two calls have newer names
    return beyond_gloo(rank, size) and groups_and_futures(rank, size) and refusals(rank, size) and forks(rank, size)


def monitored_barrier(timeout):
    # dist.monitored_barrier() of PyTorch 1.13 wants the backend to be gloo.
    dist.distributed_c10d._get_default_group().monitored_barrier(timeout)


def late(rank, size):
    group = dist.new_group(timeout=datetime.timedelta(seconds=1))
    dist.barrier()
    errors = []
    if rank != 1:
        try:
            dist.all_reduce(torch.ones(3), group=group)
        except RuntimeError as error:
            errors.append(str(error))
        try:
            dist.recv(torch.ones(3), 1, group=group)
        except RuntimeError as error:
            errors.append(str(error))
    else:
        time.sleep(3)
    try:
        if rank == 1:
            time.sleep(2)
        else:
            monitored_barrier(datetime.timedelta(seconds=1))
    except RuntimeError as error:
        errors.append(str(error))
    return errors


class Operations(unittest.TestCase):
    def same(self, ours, theirs, name):
        if isinstance(theirs, torch.Tensor):
            self.assertEqual(ours.dtype, theirs.dtype, name)
            self.assertTrue(torch.equal(ours, theirs), f"{name}: {ours} is not {theirs}")
        elif isinstance(theirs, list):
            self.assertEqual(len(ours), len(theirs), name)
            for one, other in zip(ours, theirs):
                self.same(one, other, name)
        else:
            self.assertEqual(ours, theirs, name)

    def test_results_are_those_of_gloo(self):
        size = 3
        theirs = ranks.run(size, everything, backend="gloo")
        for provider in ("auto", "udp"):
            os.environ["SPINDRIFT_PROVIDER"] = provider
            ours = ranks.run(size, everything_over, provider)
            del os.environ["SPINDRIFT_PROVIDER"]
            for rank in range(size):
                self.assertEqual(ours[rank].keys(), theirs[rank].keys())
                for name, result in theirs[rank].items():
                    self.same(ours[rank][name], result, f"{name}, rank {rank} of {size}, {provider}")

    def test_what_gloo_lacks_groups_futures_and_refusals(self):
        ranks.run(4, more_than_gloo)

    def test_one_rank_alone_works(self):
        ranks.run(1, beyond_gloo)

    def test_a_rank_that_does_not_come_is_an_error_after_the_timeout(self):
        for rank, errors in enumerate(ranks.run(3, late, timeout_s=30)):
            if rank == 1:
                continue
            self.assertRegex(errors[0], r"all_?reduce did not end within its timeout of 1\.0 s")
            self.assertIn("waited 1.0 s for a message with tag 0 from rank 1", errors[1])
            self.assertIn("monitoredBarrier: rank 1 did not come within", errors[2])


if __name__ == "__main__":
    unittest.main()
