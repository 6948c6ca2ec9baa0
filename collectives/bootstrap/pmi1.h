#pragma once
// The line protocol by which hydra (MPICH, Intel MPI) serves its processes: lines of name=value
// pairs on a descriptor that they inherit. Only publishing and looking up a name, so that nobody
// has to wait in a barrier for ranks that may never come.
#include <map>
#include <string>
#include <string_view>

#include "spindrift/result.h"
#include "spindrift/types.h"

namespace spindrift::collectives {

// One conversation; a program that has MPI initialised must not start another one on its
// descriptor.
class Pmi1Session final {
 public:
  static Result<Pmi1Session> start(int fd, Time deadline);
  ~Pmi1Session();  // says farewell, else the launcher takes the process for crashed
  Pmi1Session(Pmi1Session&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  Pmi1Session& operator=(Pmi1Session&&) = delete;

  // No spaces in either.
  Status publish(std::string_view name, std::string_view value, Time deadline);
  // Asks until somebody has published the name (kTimedOut).
  Result<std::string> look_up(const std::string& name, Time deadline);

 private:
  explicit Pmi1Session(int fd) : fd_(fd) {}
  Result<std::map<std::string, std::string>> ask(std::string_view question, Time deadline) const;

  int fd_ = -1;
};

}  // namespace spindrift::collectives
