// Any bytes as a frame: every parser answers, reads inside the frame only, and what is answered to
// it parses again.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "providers/dpdk/control_frames.h"
#include "providers/dpdk/frame_parse.h"
#include "providers/dpdk/neighbors.h"
#include "tests/fuzz/input.h"
#include "transport/base/check.h"

namespace spindrift {
namespace {

bool lies_within(std::span<const std::byte> part, std::span<const std::byte> whole) {
  return part.empty() ||
         (part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size());
}

void check_answer(const ControlFrame& frame) {
  ParsedFrame parsed;
  const FrameVerdict verdict = parse_frame(frame.span(), parsed);
  SPINDRIFT_CHECK(verdict == FrameVerdict::kArp || verdict == FrameVerdict::kIcmp);
}

void read(std::span<const std::byte> frame, NeighborTable& neighbors, Time now) {
  ParsedFrame parsed;
  const FrameVerdict verdict = parse_frame(frame, parsed);
  const bool is_read = verdict == FrameVerdict::kUdp || verdict == FrameVerdict::kArp ||
                       verdict == FrameVerdict::kIcmp;
  if (!is_read) return;
  SPINDRIFT_CHECK(lies_within(parsed.payload, frame) && lies_within(parsed.ip, frame));
  const LocalStation us{.mac = MacAddress{{2, 0, 0, 0, 0, 9}},
                        .address = verdict == FrameVerdict::kArp
                                       ? parse_net_address("10.0.0.9", 0).value()
                                       : parsed.destination(),
                        .vlan = parsed.vlan};
  if (verdict == FrameVerdict::kUdp) {
    static_cast<void>(is_udp_checksum_right(parsed));
    check_answer(build_port_unreachable(us, parsed));
    return;
  }
  if (const auto message = parse_neighbor_message(verdict, parsed)) {
    if (message->is_question) check_answer(build_answer(us, *message));
    if (message->sender.is_set())
      neighbors.learn({.address = message->sender,
                       .mac = message->sender_mac,
                       .is_new_welcome = message->is_question,
                       .is_confirmed = message->is_solicited},
                      now);
    return;
  }
  if (verdict != FrameVerdict::kIcmp) return;
  if (const auto reply = build_echo_reply(us, parsed)) check_answer(*reply);
  static_cast<void>(parse_network_error(parsed));
}

}  // namespace
}  // namespace spindrift

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace spindrift;
  NeighborTable neighbors(NeighborTimes{});
  Time now{};
  FuzzInput input({data, size});
  // Several frames, each in memory of exactly its size.
  const std::uint8_t frames = input.u8() % 4;
  for (std::uint8_t i = 0; i <= frames; ++i) {
    const std::size_t bytes = i == frames ? 2048 : input.u8();
    std::vector<std::byte> frame;
    while (frame.size() < bytes && !input.is_empty())
      frame.push_back(static_cast<std::byte>(input.u8()));
    now += std::chrono::milliseconds(100);
    read(frame, neighbors, now);
    NeighborTable::Due due[4];
    static_cast<void>(neighbors.poll(now, due));
  }
  return 0;
}
