#include "tools/coll/rank_run.h"

#include <array>
#include <new>
#include <utility>

#include <absl/strings/str_format.h>
#include <unistd.h>

#include "spindrift/bootstrap.h"
#include "spindrift/open.h"

#include "tools/coll/account.h"
#include "tools/coll/gather.h"
#include "tools/coll/measure.h"
#include "tools/coll/operations.h"
#include "tools/coll/replay.h"
#include "tools/coll/report.h"
#include "tools/coll/routes.h"
#include "tools/coll/tuning.h"
#include "tools/coll/workload.h"
#include "tools/exit_codes.h"
#include "tools/trace_file.h"

namespace spindrift::coll {
namespace {

// Beyond the transport's own patience, so that its error, which knows more, comes first.
constexpr double kGatherPatience = 2;
// Rank 0 serves the store for this long after an error, so that others find out by themselves.
constexpr Duration kErrorGrace = std::chrono::seconds(2);

Duration seconds(double value) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(value));
}

std::string who_am_i(const Launch& launch, const OpenedGroup& group) {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '?';
  std::string addresses;
  for (const Endpoint* endpoint : {group.network.get(), group.same_host.get()}) {
    if (endpoint == nullptr) continue;
    for (const std::string& address : endpoint->local_addresses())
      addresses += (addresses.empty() ? "" : " ") + address;
  }
  return absl::StrFormat("#  Rank %2d Group %2d Pid %6d on %10s device %2d [%s] %s", launch.rank, 0,
                         ::getpid(), host.data(), launch.local_rank, addresses,
                         describe_routes(group.communicator->links()));
}

CommunicatorOptions communicator_options(const Options& options, const Job& job) {
  CommunicatorOptions out;
  out.rank = *options.rank;
  out.ranks = options.ranks;
  out.address = options.address.empty() ? "udp://" + job.host() + ":0" : options.address;
  out.connection = options.connection;
  out.slice_bytes = options.slice_bytes;
  out.algorithm = options.algorithm;
  out.is_deterministic = options.is_deterministic;
  out.setup_timeout = seconds(options.timeout_s);
  out.stall_timeout = seconds(options.timeout_s);
  out.on_note = [](const std::string& sentence) { complain("note: " + sentence, 0); };
  return out;
}

Status run_sizes(const Options& options, Communicator& communicator, Gather& gather,
                 Report& report) {
  Measurement measurement(communicator, gather, options);
  const Operation& operation = operation_of(options.collective);
  if (*options.rank == 0) report.begin_table();
  std::uint64_t bytes = options.min_bytes;
  while (bytes <= options.max_bytes) {
    const Result<Row> row =
        measurement.run(count_for(operation, bytes, options.type, options.ranks));
    if (!row.ok()) return row.error();
    if (*options.rank == 0) report.add_row(row.value());
    // A barrier has no size.
    if (options.collective == Collective::kBarrier) break;
    bytes = options.step_factor > 1 ? bytes * options.step_factor : bytes + options.step_bytes;
  }
  return ok_status();
}

Status run_workload(const Options& options, Communicator& communicator, Gather& gather,
                    Report& report) {
  const Result<std::vector<Tensor>> tensors = load_workload(options.workload);
  if (!tensors.ok()) return tensors.error();
  const std::vector<Bucket> buckets = make_buckets(
      tensors.value(), std::uint64_t{options.bucket_mib} << 20, bytes_of(options.type));
  Replay replay(communicator, gather, options, buckets);
  const Result<ReplayResult> result = replay.run();
  if (!result.ok()) return result.error();
  if (*options.rank == 0) report.add_workload(buckets, result.value());
  return ok_status();
}

Status measure(const Options& options, Communicator& communicator, Gather& gather, Report& report) {
  try {
    if (options.is_tuning) return tune(options, communicator);
    return options.workload.empty() ? run_sizes(options, communicator, gather, report)
                                    : run_workload(options, communicator, gather, report);
  } catch (const std::bad_alloc&) {
    const std::string what =
        options.workload.empty()
            ? absl::StrFormat("of %d bytes each; choose a smaller -e", options.max_bytes)
            : "of the size of " + options.workload;
    return Error(ErrorCode::kNoMemory, "this host has no memory for the buffers " + what);
  }
}

// What a rank tells at the end, once its connections are gone.
struct LastWords {
  Account account{};
  std::string routes;
};

// Rank 0 prints the account of all; everybody learns the number of wrong elements.
Result<std::uint64_t> conclude(Gather& gather, Report& report, const LastWords& own,
                               bool is_first) {
  const Result<std::vector<std::string>> texts = gather.to_rank_0(to_text(own.account));
  if (!texts.ok()) return texts.error();
  const Result<std::vector<std::string>> routes = gather.to_rank_0(own.routes);
  if (!routes.ok()) return routes.error();
  if (is_first) {
    Account all;
    for (const std::string& text : texts.value()) {
      const Result<Account> account = account_from_text(text);
      if (!account.ok()) return account.error();
      all.add(account.value());
    }
    report.end(all, routes.value());
  }
  const Result<std::string> wrong = gather.from_rank_0(std::to_string(report.wrong()));
  if (!wrong.ok()) return wrong.error();
  return wrong.value() == "0" ? std::uint64_t{0} : std::uint64_t{1};
}

Result<std::uint64_t> run_joined(const Options& options, const OpenedGroup& group, Job& job) {
  Communicator& communicator = *group.communicator;
  Gather gather(job.store(), *options.rank, options.ranks,
                seconds(options.timeout_s * kGatherPatience));
  const bool is_first = *options.rank == 0;
  Report report(options, options.ranks);
  const Result<std::vector<std::string>> who = gather.to_rank_0(who_am_i(job.launch(), group));
  if (!who.ok()) return who.error();
  if (is_first && !options.is_tuning) report.begin(who.value());
  if (Status status = measure(options, communicator, gather, report); !status.ok()) {
    return status.error();
  }
  const LastWords own{.account = take_account(group),
                      .routes = routes_to_json(communicator.links())};
  communicator.close();
  if (options.is_tuning) return std::uint64_t{0};
  return conclude(gather, report, own, is_first);
}

// The endpoints outlive this, for their traces.
Result<std::uint64_t> run_group(const Options& options, const GroupOptions& wanted, Job& job,
                                OpenedGroup& group) {
  Result<OpenedGroup> opened = open_group(job.store(), wanted);
  if (opened.ok()) group = std::move(opened).value();
  Result<std::uint64_t> wrong =
      opened.ok() ? run_joined(options, group, job) : Result<std::uint64_t>(opened.error());
  group.communicator.reset();
  const Duration patience = wrong.ok() ? seconds(options.timeout_s * kGatherPatience) : kErrorGrace;
  if (Status status = job.leave(patience); !status.ok() && wrong.ok()) return status.error();
  return wrong;
}

}  // namespace

int complain(std::string_view sentence, int exit_code) {
  return tools::complain("coll", sentence, exit_code);
}

int run_rank(Options options) {
  JobOptions joining{.rendezvous = options.rendezvous,
                     .rank = options.rank,
                     .is_served_elsewhere = options.has_outside_store,
                     .timeout = seconds(options.timeout_s)};
  if (options.rank) joining.ranks = options.ranks;
  const Result<std::unique_ptr<Job>> job = Job::join(joining);
  if (!job.ok()) return complain(job.error().message(), 1);
  options.rank = job.value()->launch().rank;
  options.ranks = job.value()->launch().ranks;
  const Settings& settings = options.settings;
  GroupOptions wanted{
      .communicator = communicator_options(options, *job.value()),
      .provider = options.provider,
      .open = {.endpoint = settings.endpoint, .udp = settings.udp, .shm = settings.shm}};
  wanted.open.faults = options.faults;
  wanted.open.endpoint.has_guardian = true;
  tools::trace_to(options.trace, origin_of(settings, "trace_events") != "default",
                  wanted.open.endpoint);
  OpenedGroup group;
  const Result<std::uint64_t> wrong = run_group(options, wanted, *job.value(), group);
  Status traced = ok_status();
  for (Endpoint* endpoint : {group.network.get(), group.same_host.get()})
    if (endpoint != nullptr && traced.ok()) traced = endpoint->write_trace();
  if (!wrong.ok()) return complain(wrong.error().message(), 1);
  int exit_code = wrong.value() == 0 ? tools::kExitOk : tools::kExitFailure;
  if (!traced.ok()) exit_code = complain(traced.error().message(), tools::kExitFailure);
  return *options.rank == 0 ? tools::finish_output("coll", exit_code) : exit_code;
}

}  // namespace spindrift::coll
