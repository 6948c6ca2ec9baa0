// Anything as what a peer of libfabric says: greetings over TCP, and in the heads of its messages
// how far it is and which message this is. What is taken lies inside what was sent, nobody is
// granted more room than there is, and messages come out in order, each once.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include <sys/socket.h>

#include "providers/libfabric/ofi_arrivals.h"
#include "providers/libfabric/ofi_greeting.h"
#include "providers/libfabric/ofi_room.h"
#include "tests/fuzz/input.h"
#include "transport/base/check.h"

namespace spindrift {
namespace {

constexpr std::uint32_t kOwnRoom = 11;
constexpr std::uint32_t kTheirRoom = 8;

void check_greeting(const OfiGreeting& greeting) {
  const auto* const first = reinterpret_cast<const std::byte*>(&greeting);
  const auto is_inside = [first](std::span<const std::byte> piece) {
    return piece.data() >= first && piece.data() + piece.size() <= first + sizeof(OfiGreeting);
  };
  SPINDRIFT_CHECK(is_inside(greeting.hello_span()));
  SPINDRIFT_CHECK(greeting.rails <= greeting.rail.size());
  for (const OfiRailCard& card : greeting.rail)
    SPINDRIFT_CHECK(is_inside(card.address_span()));
  SPINDRIFT_CHECK(std::strlen(greeting.provider.data()) < greeting.provider.size());
}

// Greetings with some bytes changed, in pieces.
void greet(FuzzInput& input) {
  std::array<int, 2> ends{};
  SPINDRIFT_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
  const UniqueFd peer(ends[0]);
  OfiTalk talk{UniqueFd(ends[1])};
  for (int greetings = 0; greetings < 4 && !input.is_empty(); ++greetings) {
    std::array<std::byte, sizeof(OfiGreeting)> bytes{};
    const OfiGreeting plain;
    std::memcpy(bytes.data(), &plain, sizeof(plain));
    for (std::size_t changes = input.u8() % 16U; changes != 0; --changes)
      bytes[input.u16() % bytes.size()] = static_cast<std::byte>(input.u8());
    for (std::size_t at = 0; at < bytes.size();) {
      const std::size_t piece = std::min<std::size_t>(1 + input.u16() % 1024U, bytes.size() - at);
      SPINDRIFT_CHECK(::send(peer.get(), bytes.data() + at, piece, 0) ==
                      static_cast<ssize_t>(piece));
      at += piece;
      OfiGreeting got;
      const OfiTalk::Got what = talk.receive(got);
      SPINDRIFT_CHECK(at == bytes.size() || what == OfiTalk::Got::kNothing);
      if (what == OfiTalk::Got::kGreeting) check_greeting(got);
      if (what == OfiTalk::Got::kNonsense) return;
    }
  }
}

// What an engine does with the messages of such a peer, in any order.
class Conversation {
 public:
  Conversation() : arrivals_(kOwnRoom) { room_.open(kOwnRoom, kTheirRoom); }

  void step(FuzzInput& input) {
    switch (input.u8() % 6U) {
      case 0:
        if (!room_.has_room()) return;
        room_.on_sent();
        ++sent_;
        return;
      case 1:
        if (!room_.may_show()) return;
        room_.on_show();
        return;
      case 2:
        if (room_.on_told(input.u8(), input.u8())) room_.on_shown_taken();
        SPINDRIFT_CHECK(room_.sent() == sent_);
        return;
      case 3:
        put(released_ + input.u8() % 16U);
        return;
      case 4:
        take();
        return;
      default:
        release();
        return;
    }
  }

 private:
  void put(std::uint32_t number) {
    auto item = std::make_unique<std::uint32_t>(number);
    if (!arrivals_.put(number, item.get())) return;
    SPINDRIFT_CHECK(number - released_ < kOwnRoom);
    items_.push_back(std::move(item));
  }
  void take() {
    if (!arrivals_.has_next()) return;
    SPINDRIFT_CHECK(*arrivals_.take() == taken_++);
    SPINDRIFT_CHECK(arrivals_.held() == taken_ - released_);
  }
  void release() {
    if (arrivals_.held() == 0) return;
    SPINDRIFT_CHECK(*arrivals_.release() == released_++);
    room_.on_telling(arrivals_.released());
  }

  OfiRoom room_;
  OfiArrivals<std::uint32_t*> arrivals_;
  std::vector<std::unique_ptr<std::uint32_t>> items_;
  std::uint32_t sent_ = 0;
  std::uint32_t taken_ = 0;
  std::uint32_t released_ = 0;
};

}  // namespace
}  // namespace spindrift

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace spindrift;
  FuzzInput input(std::span(data, size));
  if (input.u8() % 2 == 0) {
    greet(input);
    return 0;
  }
  Conversation conversation;
  while (!input.is_empty())
    conversation.step(input);
  return 0;
}
