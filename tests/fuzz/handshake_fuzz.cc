// Operation lists over the opening of a connection: HELLOs, cookies, replies and refusals that are
// lost, late, repeated, damaged or forged, under floods, with processes that start again. Memory
// stays bounded, and when the network is good again nothing is stuck, and who is open agrees.
#include <cstddef>
#include <cstdint>
#include <cstdio>

#include "tests/explore/engine_world.h"
#include "tests/explore/forge.h"
#include "tests/fuzz/input.h"
#include "transport/base/check.h"

namespace spindrift {
namespace {

using test::EngineWorld;
using test::Side;

test::WorldConfig config_of(FuzzInput& in) {
  constexpr std::uint32_t kHalfOpen[] = {64, 0, 1, 2};
  constexpr std::uint32_t kPaths[] = {1, 2, 4};
  test::WorldConfig config = test::small_world();
  const std::uint8_t flags = in.u8();
  config.endpoint.half_open_before_cookie = kHalfOpen[flags % 4];
  config.endpoint.has_guardian = (flags & 4) != 0;
  config.options.path_count = kPaths[in.u8() % 3];
  config.options.max_payload_mtu = (flags & 8) != 0 ? 1152 : 512;
  config.channel_packets = 1 + in.u8() % 6;
  return config;
}

Side side_of(std::uint8_t value) {
  return value % 2 == 0 ? Side::kA : Side::kB;
}

// A packet under way, changed, with a CRC that is right again: the peer itself lies.
void lie(EngineWorld& world, FuzzInput& in) {
  const Side to = side_of(in.u8());
  if (world.packets_to(to) == 0) return;
  test::Datagram datagram = world.packet_to(to, in.u8() % world.packets_to(to));
  if (datagram.bytes.empty()) return;
  const std::uint8_t changes = 1 + in.u8() % 4;
  for (std::uint8_t i = 0; i < changes; ++i)
    datagram.bytes[in.u16() % datagram.bytes.size()] = static_cast<std::byte>(in.u8());
  if (in.u8() % 8 == 0) datagram.bytes.resize(in.u16() % datagram.bytes.size());
  test::set_crc(datagram.bytes);
  world.has_lied = true;
  world.inject(to, std::move(datagram));
}

void work(EngineWorld& world, FuzzInput& in) {
  constexpr OpKind kKinds[] = {OpKind::kSend, OpKind::kWrite, OpKind::kRead, OpKind::kFetchAdd};
  const std::uint8_t how = in.u8();
  const Side side = side_of(how);
  if ((how & 2) != 0)
    world.post_receive(side);
  else
    world.post(side, kKinds[how / 4 % 4], in.u8());
}

void end(EngineWorld& world, FuzzInput& in) {
  const std::uint8_t how = in.u8();
  const Side side = side_of(how);
  switch (how / 2 % 4) {
    case 0:
      return world.close(side);
    case 1:
      return world.abort(side);
    case 2:
      return world.forget(side);
    default:
      return world.reject();
  }
}

// `may_lie`: forged packets with a good CRC come too, and the two sides need not agree.
void step(EngineWorld& world, FuzzInput& in, bool may_lie) {
  const std::uint8_t kind = in.u8();
  const Side to = side_of(kind / 16);
  const std::size_t count = world.packets_to(to);
  const std::size_t index = count == 0 ? 0 : kind / 32U % count;
  switch (kind % 16) {
    case 0:
      return world.connect();
    case 1:
    case 2:
    case 3:
    case 4:
      return world.deliver(to, index);
    case 5:
      return world.repeat(to, index);
    case 6:
      return world.drop(to, index);
    case 7:
      return world.flip(to, index, in.u16());
    case 8:
    case 9:
      return world.accept();
    case 10:
      return static_cast<void>(world.advance());
    case 11:
      return world.pass(Duration(1LL << (in.u8() % 33)));
    case 12:
      return (kind & 16) != 0 ? world.flood(1 + kind / 32U % 4) : world.reject_flood();
    case 13:
      return work(world, in);
    case 14:
      return end(world, in);
    default:
      if (may_lie) lie(world, in);
  }
}

void check(const EngineWorld& world) {
  if (!world.failure().empty()) std::fprintf(stderr, "%s\n", world.failure().c_str());
  SPINDRIFT_CHECK(world.failure().empty());
}

void run(FuzzInput in) {
  const bool may_lie = in.u8() % 2 == 1;
  EngineWorld world(config_of(in));
  for (int i = 0; i < 128 && !in.is_empty(); ++i) {
    step(world, in, may_lie);
    check(world);
  }
  world.settle();
  check(world);
}

}  // namespace
}  // namespace spindrift

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  spindrift::run(spindrift::FuzzInput(std::span(data, bytes)));
  return 0;
}
