#!/usr/bin/env python3
"""Trains a small convolutional network on handwritten digits, data-parallel over the backend "spindrift".

The data set is the 1,797 digits of 8 x 8 pixels that scikit-learn ships (Alpaydin and Kaynak, UCI). Started
as torchrun starts its processes (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT):

    PYTHONPATH=build/release/plugins/torch torchrun --nproc_per_node 2 examples/torch_digits.py

or, with --ranks N, it starts N processes of this host itself.
"""

import argparse
import json
import os
import socket
import subprocess
import sys

GLOBAL_BATCH = 64
TEST_SHARE = 5  # every fifth digit is for the test


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, help="start so many processes here")
    parser.add_argument("--backend", default="spindrift", choices=["spindrift", "gloo"])
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--json", action="store_true", help="print losses and accuracy as one JSON object")
    return parser.parse_args()


def start_ranks(count):
    """Runs this program again as every rank. The exit code is that of the first rank that failed."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    arguments = [argument for argument in sys.argv[1:] if not argument.startswith("--ranks")]
    if "--ranks" in sys.argv:
        arguments.remove(str(count))
    ranks = [subprocess.Popen([sys.executable, __file__, *arguments],
                              env=dict(os.environ, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(count),
                                       MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port)))
             for rank in range(count)]
    return next((code for code in [rank.wait() for rank in ranks] if code != 0), 0)


def load_digits():
    import sklearn.datasets
    import torch

    digits = sklearn.datasets.load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16
    labels = torch.tensor(digits.target)
    is_test = torch.arange(len(labels)) % TEST_SHARE == 0
    return images[~is_test], labels[~is_test], images[is_test], labels[is_test]


def make_network():
    from torch import nn

    return nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(),
                         nn.MaxPool2d(2), nn.Flatten(), nn.Linear(32 * 4 * 4, 64), nn.ReLU(), nn.Linear(64, 10))


def train(arguments):
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    if arguments.backend == "spindrift":
        import spindrift_torch  # noqa: F401  (registers the backend)

    torch.set_num_threads(1)
    dist.init_process_group(arguments.backend)
    rank, size = dist.get_rank(), dist.get_world_size()
    images, labels, test_images, test_labels = load_digits()
    torch.manual_seed(1)  # the same network and the same order at all ranks
    network = DistributedDataParallel(make_network())
    optimizer = torch.optim.Adam(network.parameters(), lr=2e-3)
    loss_of = torch.nn.CrossEntropyLoss()
    losses = []
    for epoch in range(arguments.epochs):
        order = torch.randperm(len(labels))
        for first in range(0, len(labels) - GLOBAL_BATCH + 1, GLOBAL_BATCH):
            mine = order[first + rank:first + GLOBAL_BATCH:size]
            optimizer.zero_grad()
            loss = loss_of(network(images[mine]), labels[mine])
            loss.backward()
            optimizer.step()
            mean = loss.detach().clone()
            dist.all_reduce(mean)
            losses.append(mean.item() / size)
        if rank == 0 and not arguments.json:
            print(f"epoch {epoch + 1:2}: loss {losses[-1]:.4f}", flush=True)
    with torch.no_grad():
        right = network.module(test_images).argmax(1) == test_labels
    accuracy = right.float().mean().item()
    if rank == 0 and arguments.json:
        print(json.dumps({"losses": losses, "accuracy": accuracy}))
    elif rank == 0:
        print(f"{size} ranks over {arguments.backend}: {100 * accuracy:.2f} % of {len(right)} digits that it had "
              "not seen are recognised")
    dist.destroy_process_group()


def main():
    arguments = parse_arguments()
    if arguments.ranks:
        sys.exit(start_ranks(arguments.ranks))
    train(arguments)


if __name__ == "__main__":
    main()
