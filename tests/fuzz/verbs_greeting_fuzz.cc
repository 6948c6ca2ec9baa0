// Any bytes as what a peer says over TCP: every parser answers, and what it takes it writes again
// as it was.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "providers/verbs/verbs_greeting.h"
#include "tests/fuzz/input.h"
#include "transport/base/check.h"

namespace spindrift {
namespace {

// The flags of a port are 0 or not.
void check_same(std::span<const std::byte> said, const std::vector<std::byte>& frame) {
  SPINDRIFT_CHECK(said.size() + kVerbsHeadBytes == frame.size());
  SPINDRIFT_CHECK(std::equal(said.begin(), said.end(), frame.begin() + kVerbsHeadBytes));
}

void read(const VerbsFrame& frame) {
  const auto card = parse_card(frame.body);
  if (card && card->device.size() <= 100) check_same(frame.body, encode(frame.kind, *card));
  if (const auto lane = parse_lane_card(frame.body))
    check_same(frame.body, encode(frame.kind, *lane));
}

}  // namespace
}  // namespace spindrift

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace spindrift;
  const auto bytes = std::as_bytes(std::span(data, size));
  // As one body, and as a stream.
  read({.kind = VerbsFrameKind::kCall, .body = {bytes.begin(), bytes.end()}});
  VerbsFrameReader reader;
  for (std::size_t at = 0; at < size;) {
    const std::size_t piece = std::min<std::size_t>(1 + data[at] % 64U, size - at);
    reader.append(bytes.subspan(at, piece));
    at += piece;
    VerbsFrame frame;
    VerbsFrameReader::Got got = VerbsFrameReader::Got::kFrame;
    while ((got = reader.next(frame)) == VerbsFrameReader::Got::kFrame)
      read(frame);
    if (got != VerbsFrameReader::Got::kNothing) break;
  }
  return 0;
}
