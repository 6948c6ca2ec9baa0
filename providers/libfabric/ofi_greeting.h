#pragma once
// The TCP connection over which two endpoints meet: it carries the addresses that libfabric needs,
// which people cannot write, and it tells of the end of a process. Nothing here needs libfabric.
// Internal to providers/libfabric.
//
//   caller  --CALL-->  called        (NO USE: refused before the engine was asked; a sentence)
//           <--ANSWER or REFUSE--    then a first message of either over libfabric, the caller's
//           first
//   either  --FAREWELL-->            what it showed last, and how many messages it had sent
//   either  closes: whatever happened to the process, the other is told by the kernel
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "spindrift/address.h"
#include "spindrift/message_fabric.h"
#include "spindrift/result.h"

#include "providers/libfabric/ofi_options.h"
#include "transport/base/unique_fd.h"

namespace spindrift {

inline constexpr std::uint32_t kOfiVersion = 2;
inline constexpr std::size_t kOfiAddressBytes = 256;

enum class OfiGreetingKind : std::uint32_t {
  kCall = 1,
  kAnswer,
  kRefuse,
  kNoUse,
  kFarewell,
};

// How the sender is reached by one of its rails.
struct OfiRailCard {
  // Words of the sender's memory (OfiGateWords).
  std::uint64_t gate_address = 0;
  std::uint64_t gate_key = 0;
  std::uint32_t address_bytes = 0;
  std::uint32_t unused = 0;
  std::array<std::byte, kOfiAddressBytes> address{};

  std::span<const std::byte> address_span() const {
    return std::span(address).first(address_bytes);
  }
  void set_address(std::span<const std::byte> bytes);
};

// As it lies on the connection; little-endian, like everything that follows.
struct OfiGreeting {
  static constexpr std::uint32_t kMagic = 0x4946464f;
  std::uint32_t magic = kMagic;
  std::uint32_t version = kOfiVersion;
  OfiGreetingKind kind = OfiGreetingKind::kCall;
  std::uint32_t process = 0;
  std::uint64_t connection = 0;  // what the sender wants to find in messages to it
  std::uint32_t buffers = 0;     // messages that it has room for
  std::uint32_t reads = 0;       // 1: it offers its memory, and reads what is offered
  std::uint16_t lanes = 0;       // that it would use (kCall), that there are (kAnswer)
  std::uint16_t rails = 0;       // of `rail`: k of the one side belongs to k of the other
  std::uint32_t hello_bytes = 0;
  std::uint32_t messages_sent = 0;  // kFarewell
  std::uint32_t unused = 0;
  std::array<std::uint64_t, 4> words{};  // kFarewell: what it shows
  std::array<char, 64> provider{};       // ended by zero
  std::array<OfiRailCard, kMostOfiRails> rail{};
  std::array<std::byte, kFabricHelloBytes> hello{};

  std::span<const std::byte> hello_span() const { return std::span(hello).first(hello_bytes); }
  void set_hello(std::span<const std::byte> bytes);
  void set_provider(const std::string& name);
  bool is_sound() const;
};

// One end of the connection.
class OfiTalk {
 public:
  OfiTalk() = default;
  explicit OfiTalk(UniqueFd socket) : socket_(std::move(socket)) {}

  int fd() const { return socket_.get(); }
  NetAddress peer() const;
  // ok, or why the connection did not come about.
  Status finish_connecting();
  // Never blocks; what finds no room is sent by flush().
  void send(const OfiGreeting& greeting);
  // False: something is left.
  bool flush();
  enum class Got : std::uint8_t { kNothing, kGreeting, kNonsense, kEnd };
  Got receive(OfiGreeting& out);
  // kEnd: in the kernel's words; empty: the other side closed it.
  const std::string& trouble() const { return trouble_; }
  void close() { socket_ = UniqueFd(); }

 private:
  UniqueFd socket_;
  std::vector<std::byte> unsent_;
  std::array<std::byte, sizeof(OfiGreeting)> incoming_{};
  std::size_t received_ = 0;
  std::string trouble_;
};

Result<UniqueFd> listen_tcp(const NetAddress& address);
// Under way: finish_connecting() once it can be written to.
Result<UniqueFd> connect_tcp(const NetAddress& address);
// A connection that waits at `listener`; not open: none does.
UniqueFd accept_tcp(int listener);
NetAddress bound_address(int socket);

// The local address by which this host would reach `remote`, port 0.
Result<NetAddress> source_towards(const NetAddress& remote);
// An address of this host that others may reach: of the first interface that is up, or loopback
// where there is none; port 0.
NetAddress any_own_address(std::uint8_t family);

}  // namespace spindrift
