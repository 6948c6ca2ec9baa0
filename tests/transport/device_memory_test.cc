// Memory that processors must not touch (MemoryType::kDmaBuf): the message engine leaves every byte
// of it to the network card. Here its address cannot be read or written by anybody, and the fabric
// reaches the bytes by the descriptor.
#include <algorithm>
#include <array>
#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/contract/scripted_world.h"
#include "transport/message/message_record.h"

namespace spindrift {
namespace {

using testing::Each;
using testing::HasSubstr;

constexpr std::size_t kBytes = 3U << 20U;
constexpr Access kDeviceAccess = Access::kLocalWrite | Access::kRemoteRead | Access::kRemoteWrite;

class DeviceMemory {
 public:
  explicit DeviceMemory(Endpoint& endpoint)
      : file_(::memfd_create("device", 0)), seen_(map(PROT_READ | PROT_WRITE)) {
    SPINDRIFT_CHECK(::ftruncate(file_, kBytes) == 0);
    auto made = endpoint.register_memory({map(PROT_NONE), kBytes}, kDeviceAccess, options());
    SPINDRIFT_CHECK(made.ok());
    region = made.value();
  }
  ~DeviceMemory() {
    ::munmap(region.bytes.data(), kBytes);
    ::munmap(seen_, kBytes);
    ::close(file_);
  }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  RegisterOptions options() const { return {.type = MemoryType::kDmaBuf, .dmabuf_fd = file_}; }
  Sge piece(std::size_t offset, std::size_t bytes) const {
    return sge_of(region, offset, static_cast<std::uint32_t>(bytes));
  }
  // As the device sees it.
  std::span<std::byte> bytes() const { return {seen_, kBytes}; }

  MemoryRegion region;

 private:
  std::byte* map(int rights) const {
    void* const at = ::mmap(nullptr, kBytes, rights, MAP_SHARED, file_, 0);
    SPINDRIFT_CHECK(at != MAP_FAILED);
    return static_cast<std::byte*>(at);
  }
  int file_;
  std::byte* seen_;
};

bool holds(std::span<const std::byte> bytes, std::uint64_t seed, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i)
    if (bytes[i] != pattern(seed, i)) return false;
  return true;
}

void fill(std::span<std::byte> bytes, std::uint64_t seed) {
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = pattern(seed, i);
}

class DeviceMemoryTest : public testing::Test {
 protected:
  explicit DeviceMemoryTest(const test::ScriptedOptions& options = {})
      : world(options), pair(world, {}) {
    SPINDRIFT_CHECK(pair.open());
  }
  // One request, and how it ends.
  OpStatus run(const WorkRequest& work) {
    const std::size_t before = pair.a_done.size();
    if (!pair.post_a(work)) return OpStatus::kRemoteUnsupported;
    if (!pair.wait_completions(*pair.a, before + 1)) return OpStatus::kTimedOut;
    return pair.a_done.back().status;
  }
  // Why it was not accepted.
  std::string refusal(const WorkRequest& work) {
    EXPECT_FALSE(pair.post_a(work));
    return pair.a->last_error(pair.ab);
  }

  static constexpr std::array<std::size_t, 6> kSizes{1, 8, 64, 5000, 100000, kBytes};
  ScriptedWorld world;
  Pair pair;
};

TEST_F(DeviceMemoryTest, IsWrittenAndReadByThePeerAtEverySize) {
  DeviceMemory device(*pair.b);
  Buffer host(*pair.a, kBytes);
  for (const std::size_t bytes : kSizes) {
    const Sge piece = host.piece(0, bytes);
    host.fill(bytes);
    ASSERT_EQ(
        run({.kind = OpKind::kWrite, .local = {&piece, 1}, .remote_key = device.region.remote.key}),
        OpStatus::kOk)
        << pair.b->last_error(pair.ba);
    EXPECT_TRUE(holds(device.bytes(), bytes, bytes)) << bytes;
    host.clear();
    ASSERT_EQ(
        run({.kind = OpKind::kRead, .local = {&piece, 1}, .remote_key = device.region.remote.key}),
        OpStatus::kOk);
    EXPECT_TRUE(host.matches(bytes, 0, bytes)) << bytes;
  }
}

TEST_F(DeviceMemoryTest, IsSentFromAndReadIntoAtEverySize) {
  DeviceMemory device(*pair.a);
  Buffer host(*pair.b, kBytes);
  for (const std::size_t bytes : kSizes) {
    const Sge piece = device.piece(0, bytes);
    const Sge target = host.all();
    fill(device.bytes(), bytes);
    ASSERT_TRUE(pair.post_b({.kind = OpKind::kReceive, .local = {&target, 1}}));
    ASSERT_EQ(run({.kind = OpKind::kSend, .local = {&piece, 1}}), OpStatus::kOk);
    EXPECT_TRUE(host.matches(bytes, 0, bytes)) << bytes;
    fill(device.bytes(), bytes + 1);
    ASSERT_EQ(run({.kind = OpKind::kWrite, .local = {&piece, 1}, .remote_key = host.key()}),
              OpStatus::kOk);
    EXPECT_TRUE(host.matches(bytes + 1, 0, bytes)) << bytes;
    fill(device.bytes(), 0);
    ASSERT_EQ(run({.kind = OpKind::kRead, .local = {&piece, 1}, .remote_key = host.key()}),
              OpStatus::kOk);
    EXPECT_TRUE(holds(device.bytes(), bytes + 1, bytes)) << bytes;
  }
}

TEST_F(DeviceMemoryTest, GoesFromDeviceToDeviceWithAnImmediateAfterTheBytes) {
  DeviceMemory from(*pair.a);
  DeviceMemory to(*pair.b);
  for (const std::size_t bytes : kSizes) {
    const Sge piece = from.piece(0, bytes);
    fill(from.bytes(), bytes);
    ASSERT_TRUE(pair.post_b({.kind = OpKind::kReceive}));
    ASSERT_TRUE(pair.post_a({.kind = OpKind::kWriteImm,
                             .immediate = 7,
                             .local = {&piece, 1},
                             .remote_key = to.region.remote.key}));
    ASSERT_TRUE(pair.wait_completions(*pair.b, 1));
    EXPECT_EQ(pair.b_done.back().immediate, 7U);
    EXPECT_TRUE(holds(to.bytes(), bytes, bytes)) << bytes;
    pair.b_done.clear();
  }
}

TEST_F(DeviceMemoryTest, StandsBesideHostMemoryInOneList) {
  DeviceMemory device(*pair.a);
  Buffer host(*pair.a, 100);
  Buffer there(*pair.b, 300);
  there.fill(3);
  const std::array<Sge, 3> list{host.piece(0, 50), device.piece(10, 200), host.piece(50, 50)};
  ASSERT_EQ(run({.kind = OpKind::kRead, .local = list, .remote_key = there.key()}), OpStatus::kOk);
  EXPECT_TRUE(host.matches(3, 0, 50));
  EXPECT_TRUE(host.matches(3, 50, 50, 250));
  there.clear();
  ASSERT_EQ(run({.kind = OpKind::kWrite, .local = list, .remote_key = there.key()}), OpStatus::kOk);
  EXPECT_TRUE(there.matches(3, 0, 300));
}

TEST_F(DeviceMemoryTest, NothingOfItIsNothing) {
  DeviceMemory device(*pair.b);
  EXPECT_EQ(run({.kind = OpKind::kWrite, .remote_key = device.region.remote.key}), OpStatus::kOk);
  EXPECT_EQ(run({.kind = OpKind::kRead, .remote_key = device.region.remote.key}), OpStatus::kOk);
}

TEST_F(DeviceMemoryTest, WhatTheProcessorWouldHaveToDoIsRefusedWithTheReason) {
  DeviceMemory device(*pair.a);
  DeviceMemory there(*pair.b);
  Buffer host(*pair.a, 64);
  const Sge piece = device.piece(0, 8);
  const Sge own = host.piece(0, 8);
  EXPECT_THAT(refusal({.kind = OpKind::kReceive, .local = {&piece, 1}}), HasSubstr("RECEIVE"));
  EXPECT_THAT(refusal({.kind = OpKind::kFetchAdd, .local = {&piece, 1}, .remote_key = 1}),
              HasSubstr("device memory"));
  EXPECT_THAT(refusal({.kind = OpKind::kWrite,
                       .is_inline = true,
                       .local = {&own, 1},
                       .remote_key = there.region.remote.key}),
              HasSubstr("inline"));
  RegisterOptions options = device.options();
  EXPECT_THAT(pair.a->register_memory(device.region.bytes, kAllAccess, options).error().message(),
              HasSubstr("atomics"));
  options.is_line_ordered = true;
  EXPECT_THAT(
      pair.a->register_memory(device.region.bytes, kDeviceAccess, options).error().message(),
      HasSubstr("line-ordered"));
  const auto none =
      pair.a->register_memory(device.region.bytes, kDeviceAccess, {.type = MemoryType::kDmaBuf});
  EXPECT_THAT(none.error().message(), HasSubstr("dmabuf_fd"));
  auto ordered = pair.a->register_memory(host.bytes, kAllAccess, {.is_line_ordered = true});
  const std::array<Sge, 2> mixed{piece, sge_of(ordered.value(), 0, 8)};
  EXPECT_THAT(refusal({.kind = OpKind::kRead, .local = mixed, .remote_key = 1}),
              HasSubstr("line-ordered"));
  EXPECT_EQ(pair.a->info(pair.ab).value().state, ConnState::kOpen);
}

class UnreadableMemoryTest : public DeviceMemoryTest {
 protected:
  UnreadableMemoryTest() : DeviceMemoryTest({.is_read = false}) {}
};

TEST_F(UnreadableMemoryTest, IsRefusedWhereNeitherSideReadsFromTheOther) {
  DeviceMemory device(*pair.a);
  DeviceMemory there(*pair.b);
  Buffer host(*pair.a, 64);
  const Sge piece = device.piece(0, 8);
  const Sge own = host.piece(0, 8);
  EXPECT_THAT(refusal({.kind = OpKind::kSend, .local = {&piece, 1}}),
              HasSubstr("the peer cannot read from this side"));
  EXPECT_THAT(refusal({.kind = OpKind::kRead, .local = {&piece, 1}, .remote_key = 1}),
              HasSubstr("this side cannot read from the peer"));
  EXPECT_EQ(run({.kind = OpKind::kRead, .local = {&own, 1}, .remote_key = there.region.remote.key}),
            OpStatus::kRemoteUnsupported);
  EXPECT_THAT(pair.b->last_error(pair.ba), HasSubstr("device memory"));
}

TEST(DeviceMemoryPeers, WhoSendsBytesInsteadOfAnOfferIsRefused) {
  const auto bring_bytes = [](std::span<std::byte> header, std::vector<std::byte>& payload) {
    if (static_cast<RecordKind>(header[0]) != RecordKind::kWrite) return;
    header[1] = std::byte{0};
    payload.assign(64, std::byte{1});
  };
  ScriptedWorld world({.tamper = bring_bytes});
  Pair pair(world, {});
  ASSERT_TRUE(pair.open());
  DeviceMemory device(*pair.b);
  Buffer host(*pair.a, 64);
  const Sge piece = host.all();
  ASSERT_TRUE(pair.post_a(
      {.kind = OpKind::kWrite, .local = {&piece, 1}, .remote_key = device.region.remote.key}));
  ASSERT_TRUE(pair.wait_completions(*pair.a, 1));
  EXPECT_THAT(statuses(pair.a_done), Each(OpStatus::kRemoteUnsupported));
  EXPECT_EQ(device.bytes()[0], std::byte{0});
}

TEST(DeviceMemoryPeers, WhoAnswersAReadWithBytesInsteadOfAnOfferIsNoHonestPeer) {
  const auto want_bytes = [](std::span<std::byte> header, std::vector<std::byte>& /*payload*/) {
    if (static_cast<RecordKind>(header[0]) == RecordKind::kRead) header[1] = std::byte{0};
  };
  ScriptedWorld world({.tamper = want_bytes});
  Pair pair(world, {});
  ASSERT_TRUE(pair.open());
  DeviceMemory device(*pair.a);
  Buffer host(*pair.b, 64);
  const Sge piece = device.piece(0, 64);
  ASSERT_TRUE(pair.post_a({.kind = OpKind::kRead, .local = {&piece, 1}, .remote_key = host.key()}));
  ASSERT_TRUE(pair.wait_completions(*pair.a, 1));
  EXPECT_THAT(statuses(pair.a_done), Each(OpStatus::kPeerGone));
  EXPECT_THAT(pair.a->last_error(pair.ab), HasSubstr("were to be offered"));
}

}  // namespace
}  // namespace spindrift
