#pragma once
// The PMIx server of Open MPI, PRRTE or Slurm, through libpmix, which is loaded only when a process
// was started by one of them.
#include <memory>
#include <string>

#include "spindrift/bootstrap.h"

namespace spindrift::collectives {

class PmixSession {
 public:
  // The error says what to install or set where the library is absent or knows no server.
  static Result<std::unique_ptr<PmixSession>> start();
  virtual ~PmixSession() = default;  // says farewell

  // Fills what the environment did not say: ranks, local_rank, local_ranks.
  [[nodiscard]] virtual Status complete(Launch& launch) = 0;
  [[nodiscard]] virtual Status publish(const std::string& name, const std::string& value) = 0;
  // What `rank` has published, waiting at most `timeout` for it.
  [[nodiscard]] virtual Result<std::string> look_up(std::uint32_t rank, const std::string& name,
                                                    Duration timeout) = 0;
};

}  // namespace spindrift::collectives
