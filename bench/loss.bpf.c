// Drops LOSS_PER_MILLION of a million IPv4 packets, at random. Attached with tc where packets enter
// a host (tools/benchmark/places.py compiles and attaches it).
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define LOSS_OF_32_BITS ((__u32)((__u64)LOSS_PER_MILLION * 4294967296ULL / 1000000))

SEC("classifier")
int lose_some(struct __sk_buff* packet) {
  if (packet->protocol != bpf_htons(ETH_P_IP)) return TC_ACT_OK;
  return bpf_get_prandom_u32() < LOSS_OF_32_BITS ? TC_ACT_SHOT : TC_ACT_OK;
}

char license_text[] SEC("license") = "Apache-2.0";
