#pragma once
// How the processes of a job find each other: by what their launcher says, by an address or a file,
// by an identifier that one of them hands out, or by an all-gather that the program already has.
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "spindrift/collective.h"
#include "spindrift/export.h"
#include "spindrift/result.h"
#include "spindrift/types.h"

namespace spindrift {

// Names a meeting. Plain bytes of fixed size, to be broadcast by whatever the program has.
struct UniqueId {
  static constexpr std::size_t kBytes = 128;
  std::array<char, kBytes> bytes{};
};

// Serves a meeting from a thread of its own until destroyed, which must not happen before all ranks
// have left (Job::leave).
class Rendezvous {
 public:
  // `address` is where others reach this host ("10.0.0.1", "10.0.0.1:29400"; port 0 or none: any
  // free one). Empty: all addresses of this host, which are tried in order.
  SPINDRIFT_EXPORT static Result<std::unique_ptr<Rendezvous>> serve(std::string_view address = {});
  virtual ~Rendezvous() = default;
  [[nodiscard]] virtual UniqueId id() const = 0;
};

// What started this process, as far as the environment tells.
struct Launch {
  std::string launcher;  // "torchrun", "environment", "Open MPI", "PMIx", "PMI-1", "Slurm"
  std::uint32_t rank = 0;
  std::uint32_t ranks = 0;  // 0: known only once joined
  std::uint32_t local_rank = 0;
  std::uint32_t local_ranks = 0;  // on this host; 0: not said
};

// Nothing where no launcher is seen, or SPINDRIFT_LAUNCHER is "none". The first of: RANK and
// WORLD_SIZE (torchrun and scripts), Open MPI, PMIx, PMI-1 (MPICH, Intel MPI), a step of Slurm. The
// error says which variable is missing or makes no sense.
SPINDRIFT_EXPORT Result<std::optional<Launch>> find_launch();

// Sends own.size() bytes of this rank and fills `all` with those of all ranks, in their order.
using AllGatherFunction =
    std::function<Status(std::span<const std::byte> own, std::span<std::byte> all)>;

struct JobOptions {
  // At most one of these three; none: SPINDRIFT_RENDEZVOUS, or else what the launcher offers.
  //
  // "host:port", where rank 0 serves; or "file:///shared/folder/job7", where rank 0 leaves its
  // address (the file is replaced, and removed when rank 0 leaves).
  std::string rendezvous{};
  std::optional<UniqueId> id{};
  AllGatherFunction all_gather{};

  // Both or none; none: as the launcher says.
  std::optional<std::uint32_t> rank{};
  std::optional<std::uint32_t> ranks{};
  // Somebody else serves at `rendezvous`, also for rank 0.
  bool is_served_elsewhere = false;
  Duration timeout = std::chrono::seconds(30);  // to meet rank 0
};

// This process as a member of its job.
class Job {
 public:
  // Returns when rank 0 is met. Communicator::create() then waits for the others and says which
  // rank is missing.
  SPINDRIFT_EXPORT static Result<std::unique_ptr<Job>> join(const JobOptions& options = {});
  virtual ~Job() = default;

  // With the true number of ranks.
  [[nodiscard]] virtual const Launch& launch() const = 0;
  [[nodiscard]] virtual Store& store() = 0;
  // This host's address as the others reach it, without a port: "10.0.0.7", "[fd00::7]".
  [[nodiscard]] virtual std::string host() const = 0;
  // Last of all. Returns at rank 0 when all others have left too, or after `timeout` (kTimedOut);
  // elsewhere at once.
  [[nodiscard]] virtual Status leave(Duration timeout) = 0;
};

}  // namespace spindrift
