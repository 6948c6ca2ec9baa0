#pragma once
// Memory that processes of one host show one another: each writes its own and reads that of the
// others. What ranks of one host run small collectives through.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "spindrift/export.h"
#include "spindrift/result.h"
#include "spindrift/types.h"

namespace spindrift {

// Stays mapped, and as long as it was, whatever becomes of the other processes. Children of fork()
// do not have it.
class HostSegments {
 public:
  virtual ~HostSegments() = default;
  // Zeros at first. Nobody else can write it.
  [[nodiscard]] virtual std::span<std::byte> own() = 0;
  // As long as the own one. What is in it may change at any moment, to anything. Empty for the own
  // rank, and where the request had no address.
  [[nodiscard]] virtual std::span<const std::byte> of(std::uint32_t rank) const = 0;
};

// Where a process takes the segments of the others.
class HostSegmentExchange {
 public:
  virtual ~HostSegmentExchange() = default;
  // For Request::addresses of the others; without spaces or line breaks.
  [[nodiscard]] virtual const std::string& address() const = 0;

  struct Request {
    std::uint64_t nonce = 0;  // equal at those who belong together, and at nobody else
    std::uint32_t rank = 0;
    std::vector<std::string> addresses{};  // by rank; the own one is not looked at; empty: nobody
    std::size_t bytes = 0;                 // of each segment, the same at all
    Duration timeout{};
  };
  // Gives all others the own segment and collects theirs; blocks until that is done, at most
  // `timeout`. Where one cannot, the others are told and do not wait.
  [[nodiscard]] virtual Result<std::unique_ptr<HostSegments>> exchange(const Request& request) = 0;
};

// By memory files (memfd) that are sealed and handed over by a UNIX socket in /dev/shm: reaches
// processes that see that folder, whatever their network and process namespaces.
SPINDRIFT_EXPORT Result<std::unique_ptr<HostSegmentExchange>> open_host_segments();

}  // namespace spindrift
