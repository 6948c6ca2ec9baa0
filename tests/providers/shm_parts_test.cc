// The parts of the shared-memory provider that meet what a peer made: descriptors, rings,
// addresses.
#include <cstring>
#include <random>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "providers/shm/shm_choice.h"
#include "providers/shm/shm_copy.h"
#include "providers/shm/shm_memory.h"
#include "providers/shm/shm_ring.h"
#include "providers/shm/shm_socket.h"

namespace spindrift {
namespace {

using testing::HasSubstr;
constexpr ShmLayout kLayout{.ring_bytes = 65536};

TEST(ShmCopyRate, IsThatOfAFewButTheSlowestAndUnknownBefore) {
  ShmCopyRate rate;
  for (const std::int64_t microseconds : {4, 2000, 2}) {
    rate.add(16384, microseconds * 1000);
    EXPECT_EQ(rate.value(), 0U);
  }
  rate.add(16384, 2000);
  EXPECT_EQ(rate.value(), 3U * 16384U / 8);
  for (int i = 0; i < 4; ++i)
    rate.add(UINT32_MAX, -1);  // a clock that goes backwards, and more than can be
  EXPECT_EQ(rate.value(), 1U << 30U);
}

// Of `bytes` in messages of 1 MiB, how many were to be read where copies into and out of the ring,
// and reads, are so fast.
std::int64_t bytes_read(ShmChoice& choice, std::int64_t bytes, std::uint32_t ring_rate,
                        std::uint32_t read_rate) {
  constexpr std::int64_t kMessage = 1 << 20;
  std::int64_t read = 0;
  for (std::int64_t sent = 0; sent < bytes; sent += kMessage) {
    if (choice.reads()) {
      read += kMessage;
    } else {
      for (int i = 0; i < 8; ++i)
        choice.note_copy(16384, 16384000 / ring_rate);
    }
    choice.note_moved(kMessage, {.ring = ring_rate, .reads = read_rate});
  }
  return read;
}

TEST(ShmChoice, BeginsWithTheRingsAndTriesReadsBeforeItTakesTheFaster) {
  ShmChoice choice;
  EXPECT_EQ(bytes_read(choice, ShmChoice::kTryBytes, 80000, 0), 0);
  EXPECT_EQ(bytes_read(choice, ShmChoice::kTryBytes, 80000, 10000), ShmChoice::kTryBytes);
  EXPECT_EQ(bytes_read(choice, ShmChoice::kFewestBytes, 80000, 10000), 0);
}

TEST(ShmChoice, TriesLessOftenWhatWasSlowerEachTime) {
  ShmChoice choice;
  const std::int64_t bytes = 8 * ShmChoice::kMostBytes;
  const std::int64_t read = bytes_read(choice, bytes, 80000, 10000);
  EXPECT_GT(read, 8 * ShmChoice::kTryBytes);
  EXPECT_LT(read, 20 * ShmChoice::kTryBytes);
}

TEST(ShmChoice, StaysWithTheRingsWherePeersSayNothingOfTheirReads) {
  ShmChoice choice;
  bytes_read(choice, 2 * ShmChoice::kTryBytes, 2000, 0);
  EXPECT_EQ(bytes_read(choice, ShmChoice::kFewestBytes, 2000, 0), 0);
}

TEST(ShmChoice, KeepsItsWayForADifferenceThatIsNone) {
  ShmChoice choice;
  bytes_read(choice, ShmChoice::kMostBytes, 20000, 9000);
  EXPECT_LE(bytes_read(choice, ShmChoice::kFewestBytes, 20000, 11000), ShmChoice::kTryBytes);
  EXPECT_GE(bytes_read(choice, ShmChoice::kFewestBytes, 20000, 20000),
            ShmChoice::kFewestBytes - ShmChoice::kTryBytes);
}

TEST(ShmChoice, FollowsWhatIsFasterNow) {
  ShmChoice choice;
  bytes_read(choice, ShmChoice::kMostBytes, 80000, 10000);
  // The rings have become slow: seen on the next message.
  EXPECT_GE(bytes_read(choice, ShmChoice::kFewestBytes, 4000, 10000),
            ShmChoice::kFewestBytes - ShmChoice::kTryBytes);
  // And fast again: with the next try.
  bytes_read(choice, ShmChoice::kMostBytes, 80000, 15000);
  EXPECT_LE(bytes_read(choice, ShmChoice::kFewestBytes, 80000, 15000), ShmChoice::kTryBytes);
}

TEST(ShmMemory, ItsFileIsSealedAgainstEveryOtherLength) {
  const auto file = make_shm_file(kLayout);
  ASSERT_TRUE(file.ok()) << file.error().message();
  EXPECT_TRUE(check_shm_file(file.value().get(), kLayout).ok());
  EXPECT_NE(::ftruncate(file.value().get(), 4096), 0);
  EXPECT_NE(::ftruncate(file.value().get(), 1 << 26), 0);
}

TEST(ShmMemory, FilesThatCouldBecomeShorterOrHaveAnotherLengthAreRefused) {
  const auto bytes = static_cast<off_t>(kLayout.total_bytes());
  const UniqueFd unsealed(::memfd_create("test", MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(unsealed.get(), bytes), 0);
  const Status open = check_shm_file(unsealed.get(), kLayout);
  ASSERT_FALSE(open.ok());
  EXPECT_THAT(open.error().message(), HasSubstr("sealed"));
  const auto other = make_shm_file(ShmLayout{.ring_bytes = 131072});
  ASSERT_TRUE(other.ok());
  const Status wrong = check_shm_file(other.value().get(), kLayout);
  ASSERT_FALSE(wrong.ok());
  EXPECT_THAT(wrong.error().message(), HasSubstr("bytes"));
  const UniqueFd pipe_like(::open("/dev/null", O_RDWR));
  EXPECT_FALSE(check_shm_file(pipe_like.get(), kLayout).ok());
}

TEST(ShmSocket, AddressesAreNamesOrAbsolutePathsThatFit) {
  EXPECT_EQ(shm_socket_path("job-1").value(), "/dev/shm/spindrift.job-1");
  EXPECT_EQ(shm_socket_path("/run/app/x").value(), "/run/app/x");
  EXPECT_FALSE(shm_socket_path("").ok());
  EXPECT_FALSE(shm_socket_path("a/b").ok());
  EXPECT_FALSE(shm_socket_path("/" + std::string(107, 'x')).ok());
  EXPECT_TRUE(shm_socket_path("/" + std::string(106, 'x')).ok());
}

TEST(ShmSocket, AFileThatADeadProcessLeftBehindIsTakenOver) {
  const std::string path = "/tmp/spindrift-left-behind-" + std::to_string(::getpid());
  { ASSERT_TRUE(listen_shm(path).ok()); }  // closed, not removed
  const auto again = listen_shm(path);
  EXPECT_TRUE(again.ok());
  const auto second = listen_shm(path);
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(second.error().message(), HasSubstr("another process listens"));
  ::unlink(path.c_str());
}

TEST(ShmCopy, AnotherProcessIsReadOnlyWhereItHoldsTheWordThatItNamed) {
  std::uint64_t word = 0x1234567890;
  const auto at = reinterpret_cast<std::uintptr_t>(&word);
  EXPECT_TRUE(can_read_process(::getpid(), at, word));
  EXPECT_FALSE(can_read_process(::getpid(), at, word + 1));
  EXPECT_FALSE(can_read_process(::getpid(), 0, 0));
  EXPECT_FALSE(can_read_process(0, at, word));
}

// A ring whose other side writes what it likes.
class Scribbled {
 public:
  Scribbled() : memory_(ShmMemory::map(make_shm_file(kLayout).value().get(), kLayout).value()) {
    reader.open(memory_.slots(0), memory_.payload(0), &memory_.block(1));
  }
  ShmSlot& slot(std::size_t index) { return memory_.slots(0)[index]; }
  void publish(std::size_t index, const ShmSlotHead& head) {
    slot(index).head = head;
    slot(index).head.tag = shm_tag(index);
  }
  // Whether a payload lies where a payload may lie.
  bool is_inside(std::span<const std::byte> payload) const {
    const auto* const slots = reinterpret_cast<const std::byte*>(memory_.slots(0));
    const auto area = memory_.payload(0);
    const auto lies_in = [&](const std::byte* begin, std::size_t bytes) {
      return payload.data() >= begin && payload.data() + payload.size() <= begin + bytes;
    };
    return payload.empty() || lies_in(slots, kShmSlots * kShmSlotBytes) ||
           lies_in(area.data(), area.size());
  }
  ShmReader reader;

 private:
  ShmMemory memory_;
};

TEST(ShmRing, SlotsThatNoHonestPeerWritesAreNonsense) {
  const ShmSlotHead cases[] = {
      {.payload_bytes = 0, .header_bytes = 49},
      {.payload_bytes = 113, .header_bytes = 0},
      {.payload_bytes = 65, .header_bytes = 48},
      {.payload_bytes = 0xffffffff, .header_bytes = 24},
      {.payload_bytes = 65537, .area_offset = 0, .header_bytes = 24, .is_in_area = 1},
      {.payload_bytes = 64, .area_offset = 65500, .header_bytes = 24, .is_in_area = 1},
      {.payload_bytes = 0xffffffff, .area_offset = 64, .header_bytes = 24, .is_in_area = 1},
      {.payload_bytes = 64, .area_offset = 0xfffffff0, .header_bytes = 24, .is_in_area = 1},
      {.payload_bytes = 64, .area_offset = 128, .header_bytes = 24, .is_in_area = 1},
  };
  for (const ShmSlotHead& head : cases) {
    Scribbled ring;
    ring.publish(0, head);
    FabricCompletion got;
    EXPECT_EQ(ring.reader.read(got), ShmReader::Got::kNonsense)
        << head.payload_bytes << " at " << head.area_offset;
  }
}

TEST(ShmRing, RandomSlotsNeverYieldABytePastTheRing) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 2000; ++round) {
    Scribbled ring;
    for (std::size_t i = 0; i < 20; ++i) {
      ShmSlotHead head;
      const std::uint64_t bits[2] = {random(), random()};
      std::memcpy(&head, bits, sizeof(head));
      if (round % 2 == 0) {  // likelier ones
        head.header_bytes %= 50;
        head.payload_bytes %= 70000;
        head.area_offset = head.area_offset % 1100 * 64;
        head.is_in_area %= 2;
      }
      ring.publish(i, head);
    }
    FabricCompletion got;
    while (ring.reader.read(got) == ShmReader::Got::kMessage) {
      ASSERT_TRUE(ring.is_inside(got.payload));
      ring.reader.release(got);
    }
  }
}

}  // namespace
}  // namespace spindrift
