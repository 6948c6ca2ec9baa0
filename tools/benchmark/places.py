"""Where sender and receiver stand: on one host over loopback, or in two network namespaces joined by
a veth pair, with packets lost on purpose where asked."""

import os
import pathlib
import tempfile

from benchmark.processes import Unavailable, require, run

LOSS_SOURCE = pathlib.Path(__file__).resolve().parents[2] / "bench" / "loss.bpf.c"


class Loopback:
    """The default place."""

    title = "loopback"
    address = "127.0.0.1"
    device = "lo"
    sender = ()
    receiver = ()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


class Namespaces:
    """10.77.0.1 (sender) and 10.77.0.2 (receiver). With `cuts_packets` the sending end has no
    segmentation offload, so that super-packets cross as the single packets they stand for."""

    address = "10.77.0.2"
    device = "wire"

    def __init__(self, mtu, cuts_packets=False):
        self.mtu = mtu
        self.cuts_packets = cuts_packets
        self.title = f"veth pair, MTU {mtu}" + (", super-packets cut" if cuts_packets else "")
        self._names = [f"spindrift-{side}{os.getpid()}" for side in "ab"]
        self.sender = ("ip", "netns", "exec", self._names[0])
        self.receiver = ("ip", "netns", "exec", self._names[1])
        self._scratch = tempfile.TemporaryDirectory()
        self._lost_per_million = 0

    def __enter__(self):
        if os.geteuid() != 0:
            raise Unavailable("network namespaces need root")
        require("ip", "iproute2")
        try:
            self._build()
        except Unavailable:
            self.__exit__()
            raise
        return self

    def _build(self):
        for name in self._names:
            run(["ip", "netns", "add", name])
        sender, receiver = self._names
        run(["ip", "link", "add", self.device, "netns", sender, "mtu", self.mtu, "type", "veth",
             "peer", "name", self.device, "netns", receiver, "mtu", self.mtu])
        for number, name in enumerate(self._names, 1):
            run(["ip", "-n", name, "addr", "add", f"10.77.0.{number}/24", "dev", self.device])
            for device in (self.device, "lo"):
                run(["ip", "-n", name, "link", "set", device, "up"])
        if self.cuts_packets:
            require("ethtool", "ethtool")
            run([*self.sender, "ethtool", "-K", self.device, "tx-udp-segmentation", "off",
                 "tso", "off"])

    def __exit__(self, *_):
        for name in self._names:
            if pathlib.Path("/run/netns", name).exists():
                run(["ip", "netns", "del", name])
        self._scratch.cleanup()

    def lose(self, per_million):
        """That many of a million packets (or of super-packets, where none are cut) that reach the
        receiver's end are dropped there by an eBPF program."""
        if per_million == self._lost_per_million:
            return
        tc = [*self.receiver, "tc"]
        if self._lost_per_million:
            run([*tc, "qdisc", "del", "dev", self.device, "clsact"])
        self._lost_per_million = 0
        if not per_million:
            return
        compiled = pathlib.Path(self._scratch.name, f"loss{per_million}.o")
        require("clang-14", "clang-14")
        run(["clang-14", "-O2", "-g", "-target", "bpf", f"-DLOSS_PER_MILLION={per_million}",
             f"-I/usr/include/{os.uname().machine}-linux-gnu", "-c", LOSS_SOURCE, "-o", compiled])
        run([*tc, "qdisc", "add", "dev", self.device, "clsact"])
        self._lost_per_million = per_million
        run([*tc, "filter", "add", "dev", self.device, "ingress", "bpf", "da", "obj", compiled,
             "sec", "classifier"])
