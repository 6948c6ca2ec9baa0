#include "collectives/bootstrap/launch.h"

#include <cstdlib>

#include <absl/strings/numbers.h>
#include <absl/strings/str_format.h>

namespace spindrift::collectives {
namespace {

// Ports tried one after another: the agent of torchrun serves a store of its own at MASTER_PORT,
// and a port that is made from a job's number may be in use.
constexpr std::uint32_t kPorts = 8;
// Below the ephemeral ports of Linux, so that a port of a job's number is seldom in use.
constexpr std::uint32_t kSlurmPortBase = 22000;
constexpr std::uint32_t kSlurmPortCount = 8000;
constexpr std::uint32_t kMaxPort = 65535;

Error contradiction(std::string message) {
  return {ErrorCode::kInvalidArgument, std::move(message)};
}

class Reader final {
 public:
  explicit Reader(const Environment& environment) : environment_(environment) {}

  std::optional<std::string> text(const char* name) const { return environment_(name); }
  bool has(const char* name) const { return text(name).has_value(); }

  // `otherwise` where the variable is absent, or is no number of 0..`most`.
  std::uint32_t number(const char* name, std::uint32_t otherwise) const {
    std::uint32_t value = 0;
    const std::optional<std::string> found = text(name);
    return found && absl::SimpleAtoi(*found, &value) ? value : otherwise;
  }
  Status need(const char* name, std::uint32_t& out, std::uint32_t most) const {
    const std::optional<std::string> found = text(name);
    if (found && absl::SimpleAtoi(*found, &out) && out <= most) return ok_status();
    if (!found) {
      return contradiction(
          absl::StrFormat("%s is not set, though the launcher's other variables are; set it, or "
                          "SPINDRIFT_LAUNCHER=none to ignore them",
                          name));
    }
    return contradiction(
        absl::StrFormat("%s is \"%s\"; it must be a number of 0..%d", name, *found, most));
  }

  Status read(const char* rank_name, const char* ranks_name, Launch& launch) const {
    if (Status status = need(rank_name, launch.rank, UINT32_MAX); !status.ok()) return status;
    if (Status status = need(ranks_name, launch.ranks, UINT32_MAX); !status.ok()) return status;
    if (launch.rank < launch.ranks) return ok_status();
    return contradiction(absl::StrFormat("%s is %d, %s is %d; ranks count from 0", rank_name,
                                         launch.rank, ranks_name, launch.ranks));
  }

 private:
  const Environment& environment_;
};

std::vector<std::string> ports_from(const std::string& host, std::uint32_t first,
                                    std::uint32_t count) {
  const std::string bracketed =
      host.find(':') != std::string::npos && host.front() != '[' ? "[" + host + "]" : host;
  std::vector<std::string> addresses;
  for (std::uint32_t port = first; port < first + count && port <= kMaxPort; ++port)
    addresses.push_back(absl::StrFormat("%s:%d", bracketed, port));
  return addresses;
}

// MASTER_ADDR and MASTER_PORT, which scripts set for any launcher.
Status meet_at_master(const Reader& reader, DetectedLaunch& detected) {
  std::uint32_t port = 0;
  if (Status status = reader.need("MASTER_PORT", port, kMaxPort); !status.ok()) return status;
  const bool has_agent = reader.text("TORCHELASTIC_USE_AGENT_STORE") == "True";
  detected.way = MeetingWay::kKnown;
  detected.meeting.addresses =
      ports_from(*reader.text("MASTER_ADDR"), has_agent ? port + 1 : port, has_agent ? kPorts : 1);
  if (const auto run = reader.text("TORCHELASTIC_RUN_ID")) {
    detected.meeting.token =
        absl::StrFormat("%s.%d", *run, reader.number("TORCHELASTIC_RESTART_COUNT", 0));
  }
  return ok_status();
}

Status read_plain(const Reader& reader, DetectedLaunch& detected) {
  Launch& launch = detected.launch;
  launch.launcher = reader.has("TORCHELASTIC_RUN_ID") ? "torchrun" : "environment";
  if (Status status = reader.read("RANK", "WORLD_SIZE", launch); !status.ok()) return status;
  launch.local_rank = reader.number("LOCAL_RANK", 0);
  launch.local_ranks = reader.number("LOCAL_WORLD_SIZE", 0);
  if (reader.has("MASTER_ADDR") || reader.has("SPINDRIFT_RENDEZVOUS")) return ok_status();
  return contradiction(
      "RANK and WORLD_SIZE are set, but not where the ranks meet; set MASTER_ADDR and MASTER_PORT, "
      "or SPINDRIFT_RENDEZVOUS");
}

Status read_pmix(const Reader& reader, DetectedLaunch& detected) {
  Launch& launch = detected.launch;
  detected.way = MeetingWay::kPmix;
  if (reader.has("OMPI_COMM_WORLD_RANK")) {
    launch.launcher = "Open MPI";
    launch.local_rank = reader.number("OMPI_COMM_WORLD_LOCAL_RANK", 0);
    launch.local_ranks = reader.number("OMPI_COMM_WORLD_LOCAL_SIZE", 0);
    return reader.read("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", launch);
  }
  launch.launcher = "PMIx";
  return reader.need("PMIX_RANK", launch.rank, UINT32_MAX);
}

Status read_pmi1(const Reader& reader, DetectedLaunch& detected) {
  Launch& launch = detected.launch;
  launch.launcher = "PMI-1";
  launch.local_rank = reader.number("MPI_LOCALRANKID", 0);
  launch.local_ranks = reader.number("MPI_LOCALNRANKS", 0);
  detected.way = MeetingWay::kPmi1;
  std::uint32_t fd = 0;
  if (Status status = reader.need("PMI_FD", fd, INT32_MAX); !status.ok()) return status;
  detected.pmi_fd = static_cast<int>(fd);
  return reader.read("PMI_RANK", "PMI_SIZE", launch);
}

Status read_slurm(const Reader& reader, DetectedLaunch& detected) {
  Launch& launch = detected.launch;
  launch.launcher = "Slurm";
  const char* ranks = reader.has("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
  if (Status status = reader.read("SLURM_PROCID", ranks, launch); !status.ok()) return status;
  launch.local_rank = reader.number("SLURM_LOCALID", 0);
  std::string host = "127.0.0.1";
  if (reader.number("SLURM_STEP_NUM_NODES", reader.number("SLURM_NNODES", 0)) == 1) {
    launch.local_ranks = launch.ranks;
  } else {
    const auto nodes = reader.text("SLURM_STEP_NODELIST");
    if (!nodes) return contradiction("SLURM_STEP_NODELIST is not set; start the ranks by srun");
    Result<std::string> first = first_host(*nodes);
    if (!first.ok()) return first.error();
    host = std::move(first).value();
  }
  const std::uint32_t job = reader.number("SLURM_JOB_ID", 0);
  const std::uint32_t step = reader.number("SLURM_STEP_ID", 0);
  const std::uint32_t port = kSlurmPortBase + (job * 131 + step) * kPorts % kSlurmPortCount;
  detected.meeting.addresses = ports_from(host, port, kPorts);
  // The port of this very srun tells apart what two clusters on one host number alike.
  detected.meeting.token =
      absl::StrFormat("slurm.%d.%d.%d.%d", job, step, reader.number("SLURM_RESTART_COUNT", 0),
                      reader.number("SLURM_SRUN_COMM_PORT", 0));
  return ok_status();
}

// srun --mpi=pmi2 sets PMI_*, whose ranks are those of the step; a mpiexec that srun started says
// something else than the step it runs in, or the same, and then the step will do.
bool is_step_of_slurm(const Reader& reader) {
  if (!reader.has("SLURM_STEP_ID") || !reader.has("SLURM_PROCID")) return false;
  if (!reader.has("PMI_RANK")) return true;
  return reader.text("PMI_RANK") == reader.text("SLURM_PROCID") &&
         reader.text("PMI_SIZE") == reader.text("SLURM_NTASKS");
}

using ReadLaunch = Status (*)(const Reader&, DetectedLaunch&);

ReadLaunch choose(const Reader& reader) {
  if (reader.text("SPINDRIFT_LAUNCHER") == "none") return nullptr;
  if (reader.has("RANK") && reader.has("WORLD_SIZE")) return read_plain;
  if (reader.has("OMPI_COMM_WORLD_RANK")) return read_pmix;
  if (reader.has("PMIX_NAMESPACE") && reader.has("PMIX_RANK")) return read_pmix;
  if (is_step_of_slurm(reader)) return read_slurm;
  if (reader.has("PMI_FD") && reader.has("PMI_RANK")) return read_pmi1;
  return nullptr;
}

}  // namespace

Environment process_environment() {
  return [](const char* name) -> std::optional<std::string> {
    const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): only read
    if (value == nullptr) return std::nullopt;
    return std::string(value);
  };
}

Status set_rendezvous(const std::string& rendezvous, DetectedLaunch& detected) {
  static constexpr std::string_view kFileScheme = "file://";
  detected.meeting = {};
  if (rendezvous.starts_with(kFileScheme)) {
    detected.way = MeetingWay::kFile;
    detected.file = rendezvous.substr(kFileScheme.size());
    if (detected.file.starts_with('/') && !detected.file.ends_with('/')) return ok_status();
    return contradiction(absl::StrFormat(
        "\"%s\" names no file; write file:///shared/folder/name, with an absolute path",
        rendezvous));
  }
  detected.way = MeetingWay::kKnown;
  detected.meeting.addresses = {rendezvous};
  return ok_status();
}

Result<std::optional<DetectedLaunch>> detect_launch(const Environment& environment) {
  const Reader reader(environment);
  const ReadLaunch read = choose(reader);
  if (read == nullptr) return std::optional<DetectedLaunch>();
  DetectedLaunch detected;
  if (Status status = read(reader, detected); !status.ok()) return status.error();
  Status met = ok_status();
  if (const auto rendezvous = reader.text("SPINDRIFT_RENDEZVOUS")) {
    met = set_rendezvous(*rendezvous, detected);
  } else if (reader.has("MASTER_ADDR")) {
    met = meet_at_master(reader, detected);
  }
  if (!met.ok()) return met.error();
  return std::optional<DetectedLaunch>(std::move(detected));
}

Result<std::string> first_host(const std::string& node_list) {
  const std::size_t end = node_list.find_first_of("[,");
  std::string host = node_list.substr(0, end);
  if (end != std::string::npos && node_list[end] == '[') {
    const std::size_t number_end = node_list.find_first_of("-,]", end + 1);
    const std::size_t close = node_list.find(']', end);
    if (number_end == std::string::npos || close == std::string::npos) {
      return contradiction(absl::StrFormat("\"%s\" is no list of nodes", node_list));
    }
    host += node_list.substr(end + 1, number_end - end - 1);
    // What follows the brackets belongs to the name: "rack[1-2]-node".
    host += node_list.substr(close + 1, node_list.find_first_of("[,", close + 1) - close - 1);
  }
  if (host.empty()) return contradiction(absl::StrFormat("\"%s\" names no node", node_list));
  return host;
}

}  // namespace spindrift::collectives
