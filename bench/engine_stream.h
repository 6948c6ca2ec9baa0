#pragma once
// WRITEs from one engine to another, always enough of them posted: what engine_bench times and
// engine_count counts.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/engine_pair.h"

namespace spindrift::bench {

struct StreamCase {
  std::uint32_t burst_packets = 16;
  std::uint32_t turn_packets = 16;
  std::uint32_t paths = 16;
  std::uint32_t payload_mtu = 4096;
  std::uint32_t message_bytes = 1U << 20U;
  bool has_crc = false;
  bool has_link_copy = false;
  bool has_placement_copy = true;
  std::string congestion_control = "nscc";
  std::string path_selector = "reps";
};

class EngineStream {
 public:
  explicit EngineStream(const StreamCase& one);
  ~EngineStream();
  EngineStream(const EngineStream&) = delete;
  EngineStream& operator=(const EngineStream&) = delete;

  bool is_open() const { return is_open_; }
  // False when something failed.
  bool run(std::uint64_t messages);
  EnginePair& pair() { return pair_; }
  // Nothing was lost or sent twice: what was measured is the straight path.
  bool was_clean();

 private:
  static constexpr std::uint64_t kDepth = 256;

  std::vector<std::byte> source_;
  std::vector<std::byte> target_;
  EnginePair pair_;
  Sge piece_{};
  WorkRequest write_{};
  std::uint64_t outstanding_ = 0;
  bool is_open_ = false;
};

}  // namespace spindrift::bench
