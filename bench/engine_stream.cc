#include "bench/engine_stream.h"

#include "bench/skipped_copies.h"

namespace spindrift::bench {
namespace {

EnginePairOptions options_of(const StreamCase& one) {
  EnginePairOptions options;
  options.connection.congestion_control = one.congestion_control;
  options.connection.path_selector = one.path_selector;
  options.connection.path_count = one.paths;
  options.connection.burst_bytes = one.burst_packets * one.payload_mtu;
  options.connection.max_payload_mtu = one.payload_mtu;
  options.connection.crc = one.has_crc ? CrcChoice::kOn : CrcChoice::kOff;
  options.batch_packets = one.burst_packets;
  options.turn_packets = one.turn_packets;
  options.carries_payload = one.has_link_copy;
  return options;
}

}  // namespace

EngineStream::EngineStream(const StreamCase& one)
    : source_(one.message_bytes), target_(one.message_bytes), pair_(options_of(one)) {
  if (!pair_.open()) return;
  auto from = pair_.a().context().memory.add(source_, Access::kLocalRead, {}, 1);
  auto to = pair_.b().context().memory.add(target_, kAllAccess, {}, 2);
  if (!from.ok() || !to.ok()) return;
  piece_ = sge_of(from.value(), 0, one.message_bytes);
  write_.conn = pair_.at_a().id;
  write_.kind = OpKind::kWrite;
  write_.remote_key = to.value().remote.key;
  skip_copies_of(one.has_placement_copy ? 0 : one.payload_mtu);
  is_open_ = true;
}

EngineStream::~EngineStream() {
  skip_copies_of(0);
}

bool EngineStream::run(std::uint64_t messages) {
  write_.local = {&piece_, 1};
  for (std::uint64_t done = 0; done < messages;) {
    while (outstanding_ < kDepth && pair_.post(write_))
      ++outstanding_;
    pair_.step();
    std::uint64_t count = 0;
    if (!pair_.take_completions(count)) return false;
    outstanding_ -= count;
    done += count;
  }
  return true;
}

bool EngineStream::was_clean() {
  const ConnectionCounters& sent = pair_.at_a().counters;
  const ConnectionCounters& received = pair_.at_b().counters;
  return sent.retransmits_reordered + sent.retransmits_timeout + sent.acks_impossible == 0 &&
         received.crc_errors + received.duplicates_received == 0;
}

}  // namespace spindrift::bench
