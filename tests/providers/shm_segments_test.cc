// Segments that processes of a host show one another: what arrives, what is refused, who is told.
#include <array>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "spindrift/host_segments.h"

namespace spindrift {
namespace {

constexpr std::size_t kBytes = 1 << 16;

HostSegmentExchange::Request request(std::uint32_t rank, std::vector<std::string> addresses) {
  return {.nonce = 77,
          .rank = rank,
          .addresses = std::move(addresses),
          .bytes = kBytes,
          .timeout = std::chrono::seconds(20)};
}

TEST(HostSegments, EachRankReadsWhatTheOthersWriteAndCannotWriteItself) {
  constexpr std::uint32_t kRanks = 4;
  std::vector<std::unique_ptr<HostSegmentExchange>> exchanges;
  std::vector<std::string> addresses;
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    exchanges.push_back(open_host_segments().value());
    addresses.push_back(exchanges.back()->address());
  }
  addresses[3].clear();  // on another host
  std::vector<std::unique_ptr<HostSegments>> segments(kRanks);
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      auto made = exchanges[rank]->exchange(request(rank, addresses));
      ASSERT_TRUE(made.ok()) << made.error().message();
      segments[rank] = std::move(made).value();
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    ASSERT_EQ(segments[rank]->own().size(), kBytes);
    EXPECT_TRUE(segments[rank]->of(rank).empty());
    EXPECT_TRUE(segments[rank]->of(3).empty());
    EXPECT_TRUE(segments[rank]->of(99).empty());
    segments[rank]->own()[kBytes - 1] = static_cast<std::byte>(rank + 1);
  }
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    for (std::uint32_t other = 0; other < 3; ++other) {
      if (other == rank) continue;
      const std::span<const std::byte> seen = segments[rank]->of(other);
      ASSERT_EQ(seen.size(), kBytes);
      EXPECT_EQ(seen.back(), static_cast<std::byte>(other + 1));
      EXPECT_NE(::mprotect(const_cast<std::byte*>(seen.data()), kBytes, PROT_READ | PROT_WRITE), 0);
    }
  }
}

TEST(HostSegments, ARankThatCannotBeReachedIsAnErrorForAllAndNobodyWaits) {
  auto first = open_host_segments().value();
  auto second = open_host_segments().value();
  const std::vector<std::string> seen{first->address(), second->address(),
                                      "/dev/shm/spindrift.nobody"};
  Result<std::unique_ptr<HostSegments>> one = Error(ErrorCode::kIo, "not run");
  std::thread thread([&] { one = first->exchange(request(0, seen)); });
  // This one sees rank 2 on another host, and hears of the failure from rank 0 alone.
  const auto two = second->exchange(request(1, {seen[0], seen[1], ""}));
  thread.join();
  ASSERT_FALSE(one.ok());
  EXPECT_NE(one.error().message().find("spindrift.nobody"), std::string::npos)
      << one.error().message();
  ASSERT_FALSE(two.ok());
  EXPECT_EQ(two.error().message(), "rank 0 could not");
}

// As the socket has it; a caller may send anything.
struct Offer {
  std::uint32_t magic = 0x53445347;
  std::uint32_t version = 1;
  std::uint64_t nonce = 77;
  std::uint32_t rank = 1;
  std::uint32_t has_segment = 1;
};

void send_offer(const std::string& path, const Offer& offer, int fd) {
  const int socket = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  iovec data{.iov_base = const_cast<Offer*>(&offer), .iov_len = sizeof(offer)};
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_name = &address;
  message.msg_namelen = sizeof(address);
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (fd >= 0) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* const part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(part), &fd, sizeof(fd));
  }
  ASSERT_EQ(::sendmsg(socket, &message, 0), static_cast<ssize_t>(sizeof(offer)));
  ::close(socket);
}

int memory_file(std::size_t bytes, int seals) {
  const int fd = ::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  EXPECT_EQ(::ftruncate(fd, static_cast<off_t>(bytes)), 0);
  EXPECT_EQ(::fcntl(fd, F_ADD_SEALS, seals), 0);
  return fd;
}

// What rank 0 says to a segment of rank 1 that is not as it should be.
std::string verdict(const std::vector<Offer>& before, const Offer& offer, int fd) {
  auto own = open_host_segments().value();
  auto other = open_host_segments().value();
  for (const Offer& one : before)
    send_offer(own->address(), one, -1);
  send_offer(own->address(), offer, fd);
  if (fd >= 0) ::close(fd);
  const auto made = own->exchange(request(0, {own->address(), other->address()}));
  return made.ok() ? "" : made.error().message();
}

TEST(HostSegments, RefusesMemoryThatItsOwnerCouldTakeAway) {
  constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW;
  EXPECT_EQ(verdict({}, {}, memory_file(kBytes, kSeals)), "");
  EXPECT_NE(verdict({}, {}, memory_file(kBytes, F_SEAL_GROW)).find("not sealed"),
            std::string::npos);
  EXPECT_NE(verdict({}, {}, memory_file(kBytes - 4096, kSeals)).find("instead of 65536"),
            std::string::npos);
  EXPECT_NE(verdict({}, {}, -1), "") << "a descriptor that is missing";
  EXPECT_NE(verdict({}, {}, ::socket(AF_UNIX, SOCK_DGRAM, 0)), "") << "no memory at all";
}

TEST(HostSegments, DropsWhatIsOfOthers) {
  constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW;
  EXPECT_EQ(verdict({{.nonce = 78, .has_segment = 0},
                     {.magic = 1, .has_segment = 0},
                     {.version = 2, .has_segment = 0},
                     {.rank = 0, .has_segment = 0},
                     {.rank = 2, .has_segment = 0},
                     {.rank = UINT32_MAX, .has_segment = 0}},
                    {}, memory_file(kBytes, kSeals)),
            "");
  EXPECT_EQ(verdict({}, {.has_segment = 0}, -1), "rank 1 could not");
}

}  // namespace
}  // namespace spindrift
