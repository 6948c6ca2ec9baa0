#include "plugins/nccl/handle.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "spindrift/memory.h"

#include "absl/strings/str_format.h"

namespace spindrift::nccl {
namespace {

constexpr std::uint64_t kMagic = 0x4c43434e54465053ULL;  // "SPFTNCCL"

constexpr std::array<std::string_view, 4> kProviders = {"udp", "verbs", "ofi", "dpdk"};

// In front of the rails. Both ends are little-endian, as everything NCCL runs on.
struct Head {
  std::uint64_t magic = kMagic;
  std::uint32_t version = kHandleVersion;
  std::uint32_t attempt = 0;  // the connecting side's own
  std::uint64_t nonce = 0;
  std::uint64_t host = 0;
  std::uint64_t shm_id = 0;
  std::uint32_t rail_count = 0;
  std::uint32_t provider = 0;  // in kProviders
};
static_assert(sizeof(Head) == 48);

// Per rail: family, port, then 4 or 16 bytes of address.
std::size_t rail_bytes(std::uint8_t family) {
  return 3 + (family == 4 ? 4U : 16U);
}

struct GreetingHead {
  std::uint64_t magic = kMagic;
  std::uint32_t version = kHandleVersion;
  std::uint32_t mailbox_bytes = 0;
  std::uint64_t nonce = 0;
};
static_assert(sizeof(GreetingHead) + RemoteRegion::kWireBytes <= Greeting::kBytes);

Error foreign(std::uint64_t magic, std::uint32_t version) {
  if (magic != kMagic)
    return Error(ErrorCode::kInvalidArgument,
                 "the other side is no Spindrift plugin; every node must load the same network "
                 "plugin (set NCCL_NET=spindrift so that a missing one is an error)");
  return Error(ErrorCode::kInvalidArgument,
               absl::StrFormat("the other side's plugin speaks version %d, this one %d; install "
                               "the same version on every node",
                               version, kHandleVersion));
}

}  // namespace

bool fits_handle(const std::vector<NetAddress>& rails) {
  std::size_t bytes = sizeof(Head);
  for (const NetAddress& rail : rails)
    bytes += rail_bytes(rail.family);
  return bytes <= kHandleBytes;
}

void write_handle(const Handle& handle, void* buffer) {
  auto* out = static_cast<std::uint8_t*>(buffer);
  std::memset(out, 0, kHandleBytes);
  Head head;
  head.nonce = handle.nonce;
  head.host = handle.host;
  head.shm_id = handle.shm_id;
  head.provider = static_cast<std::uint32_t>(
      std::find(kProviders.begin(), kProviders.end(), handle.provider) - kProviders.begin());
  std::size_t at = sizeof(head);
  for (const NetAddress& rail : handle.rails) {
    const std::size_t bytes = rail_bytes(rail.family);
    if (at + bytes > kHandleBytes) break;
    out[at] = rail.family;
    std::memcpy(out + at + 1, &rail.port, 2);
    std::memcpy(out + at + 3, rail.ip.data(), bytes - 3);
    at += bytes;
    ++head.rail_count;
  }
  std::memcpy(out, &head, sizeof(head));
}

Result<Handle> read_handle(const void* buffer) {
  const auto* in = static_cast<const std::uint8_t*>(buffer);
  Head head;
  std::memcpy(&head, in, sizeof(head));
  if (head.magic != kMagic || head.version != kHandleVersion)
    return foreign(head.magic, head.version);
  Handle handle{.nonce = head.nonce, .host = head.host, .shm_id = head.shm_id, .rails = {}};
  if (head.provider >= kProviders.size())
    return Error(ErrorCode::kInvalidArgument, "the connection handle is damaged");
  handle.provider = kProviders[head.provider];
  std::size_t at = sizeof(head);
  for (std::uint32_t i = 0; i < head.rail_count; ++i) {
    if (at + 3 > kHandleBytes || (in[at] != 4 && in[at] != 6) ||
        at + rail_bytes(in[at]) > kHandleBytes)
      return Error(ErrorCode::kInvalidArgument, "the connection handle is damaged");
    NetAddress rail;
    rail.family = in[at];
    std::memcpy(&rail.port, in + at + 1, 2);
    std::memcpy(rail.ip.data(), in + at + 3, rail_bytes(rail.family) - 3);
    handle.rails.push_back(rail);
    at += rail_bytes(rail.family);
  }
  return handle;
}

std::uint32_t attempt_of(const void* buffer) {
  std::uint32_t attempt = 0;
  std::memcpy(&attempt, static_cast<const std::uint8_t*>(buffer) + offsetof(Head, attempt),
              sizeof(attempt));
  return attempt;
}

void set_attempt(void* buffer, std::uint32_t attempt) {
  std::memcpy(static_cast<std::uint8_t*>(buffer) + offsetof(Head, attempt), &attempt,
              sizeof(attempt));
}

std::string shm_name(std::uint64_t shm_id) {
  return absl::StrFormat("nccl-%016x", shm_id);
}

std::vector<std::byte> write_greeting(const Greeting& greeting) {
  std::vector<std::byte> out(Greeting::kBytes);
  GreetingHead head;
  head.nonce = greeting.nonce;
  head.mailbox_bytes = static_cast<std::uint32_t>(
      std::min(greeting.mailbox.size(), Greeting::kBytes - sizeof(head)));
  std::memcpy(out.data(), &head, sizeof(head));
  std::copy_n(greeting.mailbox.begin(), head.mailbox_bytes, out.begin() + sizeof(head));
  return out;
}

Result<Greeting> read_greeting(std::span<const std::byte> bytes) {
  GreetingHead head{.magic = 0};
  if (bytes.size() >= sizeof(head)) std::memcpy(&head, bytes.data(), sizeof(head));
  if (head.magic != kMagic || head.version != kHandleVersion)
    return foreign(head.magic, head.version);
  if (head.mailbox_bytes > bytes.size() - sizeof(head))
    return Error(ErrorCode::kInvalidArgument, "the connection's greeting is damaged");
  const auto mailbox = bytes.subspan(sizeof(head), head.mailbox_bytes);
  return Greeting{.nonce = head.nonce, .mailbox = {mailbox.begin(), mailbox.end()}};
}

}  // namespace spindrift::nccl
