"""The rows of the core table: what is measured, beside what, and the goals."""

from benchmark.dark_path import DarkPath
from benchmark.engine import engine_rows
from benchmark.places import Loopback, Namespaces
from benchmark.programs import MIB, Tcp, Transport, UdpLimit, Ucx
from benchmark.results import Goal
from benchmark.row import Row, Series

KIB = 1 << 10


def _write(transport, name, label, *options, size=MIB):
    return Series(name, label, lambda place, seconds: transport.bandwidth(
        place, seconds, size, options))


def _limit(limit, mtu):
    return Series("limit", "plain UDP sockets", lambda place, seconds: limit.bandwidth(
        place, seconds, mtu))


def _tcp():
    return Series("tcp", "kernel TCP (iperf3)", lambda place, seconds: Tcp.bandwidth(place, seconds))


def write_rows(transport, limit):
    common = [_write(transport, "ours", "as shipped"),
              _write(transport, "crc", "CRC on", "--crc", "on"),
              _write(transport, "one", "1 EV", "--paths", "1")]
    shown = [Goal("crc", "limit"), Goal("one", "limit"), Goal("ours", "one")]
    yield Row("write_loopback", "WRITE of 1 MiB, 16 EVs, loopback, packets of 16,256 B", "GB/s",
              Loopback, [*common, _limit(limit, 16256), _tcp()],
              [Goal("ours", "limit", at_least=0.8), *shown, Goal("ours", "tcp")])
    for mtu, payload, share in ((9000, 8832, 0.8), (1500, 1408, 0.7)):
        yield Row(f"write_{mtu}", f"WRITE of 1 MiB, 16 EVs, veth pair, MTU {mtu}", "GB/s",
                  lambda mtu=mtu: Namespaces(mtu), [*common, _limit(limit, payload), _tcp()],
                  [Goal("ours", "limit", at_least=share), *shown,
                   Goal("ours", "tcp", at_least=2)])


def size_rows(transport):
    for size, text in ((4 * KIB, "4 KiB"), (32 * KIB, "32 KiB"), (MIB, "1 MiB"), (16 * MIB, "16 MiB")):
        name = text.replace(" ", "").lower()
        yield Row(f"size_{name}", f"messages of {text}, loopback", "GB/s", Loopback,
                  [_write(transport, "ours", "WRITE", size=size),
                   Series("send", "SEND", lambda place, seconds, size=size: transport.bandwidth(
                       place, seconds, size, operation="send")),
                   Series("ucx", "UCX tcp (tag_bw)",
                          lambda place, seconds, size=size: Ucx().bandwidth(place, seconds, size))],
                  [Goal("ours", "ucx"), Goal("send", "ucx")])


def message_rows(transport, limit):
    yield Row("latency", "SEND of 8 bytes, half a round trip, loopback, both sides polling",
              "us, median", Loopback,
              [Series("ours", "SEND", lambda place, seconds: transport.latency(place, seconds, 8)),
               Series("limit", "plain UDP sockets",
                      lambda place, seconds: limit.latency(place, seconds, 8)),
               Series("ucx", "UCX tcp (tag_lat)",
                      lambda place, seconds: Ucx().latency(place, seconds, 8))],
              [Goal("ours", "limit", at_most=1.5), Goal("ours", "ucx", at_most=0.7)])
    yield Row("messages", "SENDs of 64 bytes, loopback", "million/s", Loopback,
              [Series("ours", "SEND", lambda place, seconds: transport.messages(place, seconds, 64)),
               Series("limit", "plain UDP sockets",
                      lambda place, seconds: limit.messages(place, seconds)),
               Series("ucx", "UCX tcp (tag_bw)",
                      lambda place, seconds: Ucx().messages(place, seconds, 64))],
              [Goal("ours", "limit", at_least=0.25), Goal("ours", "ucx", at_least=2)],
              "The plain sockets' packets are as long as those of the SENDs (120 B) and leave 64 at "
              "a time.", "CPU s/million")


def _losing(series, name, label, per_million):
    def measure(place, seconds):
        place.lose(per_million)
        return series.measure(place, seconds)
    return Series(name, label, measure)


def loss_rows(transport):
    yield Row("loss_random", "WRITE of 1 MiB, loopback, packets lost at random by the sender's fault "
              "wrapper", "GB/s", Loopback,
              [_write(transport, "ours", "lossless"),
               _write(transport, "lossy", "1 % lost", "--fault", "loss=1%")],
              [Goal("lossy", "ours", at_least=0.85)])
    ours = _write(transport, "ours", "as shipped")
    for name, cuts, what in (("loss_kernel", True, "single packets dropped by the kernel"),
                             ("loss_super", False, "whole super-packets dropped by the kernel")):
        yield Row(name, f"WRITE of 1 MiB, veth pair, MTU 1500, {what} (eBPF)", "GB/s",
                  lambda cuts=cuts: Namespaces(1500, cuts),
                  [_losing(ours, "ours", "lossless", 0), _losing(ours, "lossy", "1 % lost", 10_000),
                   _losing(_tcp(), "tcp", "kernel TCP, lossless", 0),
                   _losing(_tcp(), "tcp_lossy", "kernel TCP, 1 % lost", 10_000)],
                  [Goal("lossy", "ours"), Goal("tcp_lossy", "tcp"), Goal("lossy", "tcp_lossy")])


def all_rows(build):
    transport, limit = Transport(build), UdpLimit(build)
    return [*write_rows(transport, limit), *size_rows(transport), *message_rows(transport, limit),
            *loss_rows(transport), DarkPath(transport), *engine_rows(build)]
