#include "tools/coll/coll_options.h"

#include <array>
#include <map>
#include <set>
#include <string>
#include <utility>

#include <absl/strings/str_format.h>

#include "spindrift/address.h"
#include "spindrift/open.h"

#include "collectives/planner.h"
#include "tools/coll/operations.h"
#include "tools/coll/workload.h"
#include "tools/settings.h"
#include "tools/usage.h"

namespace spindrift::coll {
namespace {

constexpr std::uint32_t kMaxIterations = 1'000'000'000;

// The names that nccl-tests has for them.
template <class T, std::size_t kCount>
std::map<std::string, T> by_name(const std::array<T, kCount>& values) {
  std::map<std::string, T> names;
  for (const T value : values)
    names.emplace(to_string(value), value);
  return names;
}
const std::map<std::string, DataType> kTypes = by_name(
    std::array{DataType::kFloat32, DataType::kFloat64, DataType::kFloat16, DataType::kBfloat16,
               DataType::kInt8, DataType::kUint8, DataType::kInt16, DataType::kUint16,
               DataType::kInt32, DataType::kUint32, DataType::kInt64, DataType::kUint64});
const std::map<std::string, ReduceOp> kOps = by_name(std::array{
    ReduceOp::kSum, ReduceOp::kProduct, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kAverage});
const std::map<std::string, CrcChoice> kCrcChoices = {
    {"auto", CrcChoice::kAuto}, {"on", CrcChoice::kOn}, {"off", CrcChoice::kOff}};

template <class T>
std::set<std::string> names_of(const std::map<std::string, T>& values) {
  std::set<std::string> names;
  for (const auto& entry : values)
    names.insert(entry.first);
  return names;
}

template <class T>
std::string joined(const std::map<std::string, T>& values) {
  std::string names;
  for (const auto& entry : values)
    names += (names.empty() ? "" : ", ") + entry.first;
  return names;
}

std::string shipped_names() {
  std::string names;
  for (const ShippedWorkload& shipped : shipped_workloads())
    names += (names.empty() ? "" : ", ") + std::string(shipped.name);
  return names;
}

// `known` is for the message; the help text of the option says it itself.
CLI::Validator one_of(std::set<std::string> names, std::string known) {
  return CLI::Validator(
      [names = std::move(names), known = std::move(known)](const std::string& value) {
        return names.count(value) > 0 ? std::string() : "'" + value + "' is not " + known;
      },
      "");
}

void add_group_options(CLI::App& app, Options& options) {
  app.add_option("--ranks,--world", options.ranks,
                 "ranks; without --rank and a launcher, that many local processes are started")
      ->check(CLI::Range(1U, kMaxRanks));
  app.add_option("--rank", options.rank, "be this rank; the others are started by you")
      ->check(CLI::Range(0U, kMaxRanks - 1));
  app.add_option("--rendezvous", options.rendezvous,
                 "where the ranks meet: host:port, which rank 0 serves, or file:///shared/file");
  app.add_flag("--outside-store", options.has_outside_store)->group("");
  app.add_option("--address", options.address,
                 "where this rank listens (udp://10.0.0.1:0); default: its address on the way to "
                 "the rendezvous");
  app.add_option("--provider", options.provider,
                 "auto: shared memory between ranks of one host and the network of --address (UDP) "
                 "between hosts; udp, shm, ofi ...: only that")
      ->envname("SPINDRIFT_PROVIDER")
      ->capture_default_str();
  app.add_option("--timeout", options.timeout_s,
                 "seconds without a rank or without movement until it is an error")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
}

void add_measurement_options(CLI::App& app, Options& options) {
  const CLI::AsSizeValue as_bytes(false);
  app.add_option("-b,--minbytes", options.min_bytes, "smallest size (K, M, G are powers of 1024)")
      ->transform(as_bytes)
      ->default_str("32M");
  app.add_option("-e,--maxbytes", options.max_bytes, "largest size")
      ->transform(as_bytes)
      ->default_str("32M, or -b");
  app.add_option("-i,--stepbytes", options.step_bytes, "step between sizes")
      ->transform(as_bytes)
      ->default_str("1M");
  app.add_option("-f,--stepfactor", options.step_factor, "factor between sizes, instead of -i")
      ->check(CLI::Range(2U, 1U << 30));
  app.add_option("-n,--iters", options.iterations, "timed calls per size, or steps")
      ->check(CLI::Range(1U, kMaxIterations))
      ->capture_default_str();
  app.add_option("-w,--warmup_iters", options.warmup, "calls before the timed ones, or steps")
      ->check(CLI::Range(0U, kMaxIterations))
      ->capture_default_str();
  app.add_option("-c,--check", options.has_check, "verify every element: 1 or 0")
      ->check(one_of({"0", "1"}, "0 or 1"))
      ->capture_default_str();
  app.add_option_function<std::string>(
         "-d,--datatype", [&options](const std::string& name) { options.type = kTypes.at(name); },
         "type of the elements: " + joined(kTypes))
      ->check(one_of(names_of(kTypes), "a type of elements: " + joined(kTypes)))
      ->default_str("float");
  app.add_flag("--json", options.is_json, "print one JSON object instead of tables");
}

void add_operation_options(CLI::App& app, Options& options) {
  const Operation& operation = operation_of(options.collective);
  if (operation.has_reduction) {
    // As text: the library's own to_string() gets in the way of CLI11's for enums.
    app.add_option_function<std::string>(
           "-o,--op", [&options](const std::string& name) { options.op = kOps.at(name); },
           "reduction: " + joined(kOps))
        ->check(one_of(names_of(kOps), "a reduction: " + joined(kOps)))
        ->default_str("sum");
  }
  if (operation.has_root) {
    app.add_option("-r,--root", options.root, "the rank that has or gets everything")
        ->check(CLI::Range(0U, kMaxRanks - 1))
        ->capture_default_str();
  }
  if (options.collective != Collective::kAllReduce) return;
  app.add_option("--workload", options.workload,
                 "exchange the gradients of a model: a file of tensors, or " + shipped_names());
  app.add_option("--bucket-mb", options.bucket_mib, "MiB per bucket of a workload")
      ->check(CLI::Range(1U, 4096U))
      ->capture_default_str();
  app.add_option("--backward-ms", options.backward_ms,
                 "milliseconds over which a backward pass makes the gradients of a workload")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
}

void add_algorithm_options(CLI::App& app, Options& options) {
  app.add_option(
      "--algo", options.algorithm,
      "algorithm: ring, or all_reduce:ring;broadcast:tree; default: SPINDRIFT_ALGO, else "
      "by the measured costs (docs/COLLECTIVES.md)");
  app.add_flag("--deterministic", options.is_deterministic,
               "add in the order of the ranks, so that the bits do not depend on the algorithm");
  app.add_flag("--explain", options.is_explaining,
               "print what would be chosen for each size, and why, and run nothing");
  app.add_option(
         "--show-plan", options.plan_file,
         "print the plan of every rank for -e bytes and run nothing; with a file name, draw it "
         "there as SVG")
      ->expected(0, 1);
  if (options.collective == Collective::kAllReduce) {
    app.add_flag("--tune", options.is_tuning,
                 "measure what all algorithms of all collectives cost here, and store it "
                 "(SPINDRIFT_TUNING, else ~/.cache/spindrift/collectives.costs)");
  }
  app.add_option("--hosts", options.topology.hosts,
                 "of --explain and --show-plan: the host of each rank, as in 0,0,1,1")
      ->delimiter(',');
}

void add_transport_options(CLI::App& app, Options& options) {
  ConnectOptions& connection = options.connection;
  app.add_option("--cc", connection.congestion_control,
                 "congestion control, or a plug-in's file: ./libfoo.so:g=0.1")
      ->capture_default_str();
  app.add_option("--path-selector,--path-policy", connection.path_selector,
                 "how packets choose a path: a name, or a plug-in's file")
      ->capture_default_str();
  app.add_option("--loss", connection.loss_rule, "when a packet counts as lost: a name")
      ->capture_default_str();
  app.add_option("--paths", connection.path_count, "paths per connection")
      ->check(CLI::Range(1U, 256U))
      ->capture_default_str();
  app.add_option("--burst", connection.burst_bytes, "bytes sent on a path before the next")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(0U, 1048576U))
      ->capture_default_str();
  app.add_option("--mtu", connection.max_payload_mtu, "most payload bytes per packet")
      ->check(CLI::Range(512U, 16256U))
      ->capture_default_str();
  app.add_option_function<std::string>(
         "--crc", [&connection](const std::string& name) { connection.crc = kCrcChoices.at(name); },
         "CRC-32C per packet: auto (between hosts), on or off")
      ->check(one_of(names_of(kCrcChoices), "auto, on or off"))
      ->default_str("auto");
  app.add_option("--trace", options.trace,
                 "write the flight recorders of all ranks started here to a file at the end "
                 "('spindrift trace' shows it)");
  app.add_option("--fault", options.faults,
                 "faults on purpose at every rank, such as loss=1%,reorder=5%");
  app.add_option("--slice", options.slice_bytes, "unit of pipelining, a multiple of 128")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(1024U, 16777216U))
      ->capture_default_str();
}

// Empty, or why these options do not go with the workload, or with none.
std::string workload_misfit(const CLI::App& app, const Options& options) {
  if (options.workload.empty()) {
    for (const char* name : {"--bucket-mb", "--backward-ms"}) {
      if (app.get_option_no_throw(name) != nullptr && app.count(name) > 0) {
        return absl::StrFormat("%s needs --workload, whose tensors it is about", name);
      }
    }
    return {};
  }
  for (const char* name : {"-b", "-e", "-i", "-f"}) {
    if (app.count(name) == 0) continue;
    return absl::StrFormat("%s is for sizes; a --workload brings its own", name);
  }
  return {};
}

// Empty, or why the provider does not go with the rest.
std::string provider_misfit(const Options& options) {
  const std::string& provider = options.provider;
  if (provider == "auto") return {};
  if (provider == "shm" && !options.faults.empty())
    return "--fault is about packets, and shared memory has none; leave --provider shm away";
  if (!options.address.empty() && !options.address.starts_with(provider + "://"))
    return "--provider " + provider + " does not go with --address " + options.address;
  if (options.address.empty() && provider != "shm" && provider != "udp")
    return absl::StrFormat("--provider %s needs --address %s://..., which says where", provider,
                           provider);
  return {};
}

// Empty, or why these options do not go together.
std::string misfit(const CLI::App& app, const std::optional<Launch>& launch, Options& options) {
  if (std::string sentence = provider_misfit(options); !sentence.empty()) return sentence;
  options.shows_plan = app.count("--show-plan") > 0;
  if ((options.shows_plan || options.is_explaining) && options.ranks == 0) {
    return "--explain and --show-plan need --ranks";
  }
  if (!options.topology.hosts.empty() && options.topology.hosts.size() != options.ranks) {
    return absl::StrFormat("--hosts names %d ranks, --ranks %d", options.topology.hosts.size(),
                           options.ranks);
  }
  if (options.rank && (options.rendezvous.empty() || options.ranks == 0)) {
    return "--rank needs --ranks, and --rendezvous host:port, where the ranks meet";
  }
  if (options.rank && *options.rank >= options.ranks) {
    return absl::StrFormat("--rank %d of %d ranks; ranks count from 0 to %d", *options.rank,
                           options.ranks, options.ranks - 1);
  }
  if (!options.rank && !launch) {
    if (options.ranks == 0) {
      return "--ranks N starts N processes here; without it, start this command by mpirun, srun or "
             "torchrun";
    }
    if (!options.rendezvous.empty()) {
      return "--rendezvous needs --rank or a launcher; without both, all ranks are started on this "
             "host";
    }
    if (!options.address.empty()) {
      return "--address needs --rank or a launcher: ranks started here listen on the loopback "
             "address";
    }
  }
  if (launch && options.ranks != 0 && launch->ranks != 0 && options.ranks != launch->ranks) {
    return absl::StrFormat(
        "--ranks %d, but %s started %d ranks; leave it away, or set "
        "SPINDRIFT_LAUNCHER=none to start processes from here",
        options.ranks, launch->launcher, launch->ranks);
  }
  if (app.count("-b") > 0 && app.count("-e") == 0) options.max_bytes = options.min_bytes;
  if (app.count("-e") > 0 && app.count("-b") == 0) options.min_bytes = options.max_bytes;
  if (options.min_bytes > options.max_bytes) {
    return absl::StrFormat("-b %d is more than -e %d", options.min_bytes, options.max_bytes);
  }
  if (options.max_bytes > (1ULL << 40)) return "-e is more than 1 TiB";
  const bool has_several = options.min_bytes < options.max_bytes;
  if (has_several && options.step_factor > 1 && options.min_bytes == 0) {
    return "-b 0 never grows by a factor; use -i, or start at 4";
  }
  if (options.step_factor == 0 && options.step_bytes == 0) return "-i 0 never reaches -e";
  if (options.slice_bytes % 128 != 0) {
    return absl::StrFormat("--slice %d is no multiple of 128", options.slice_bytes);
  }
  if (options.connection.max_payload_mtu % 128 != 0) {
    return absl::StrFormat("--mtu %d is no multiple of 128", options.connection.max_payload_mtu);
  }
  if (std::string sentence = workload_misfit(app, options); !sentence.empty()) return sentence;
  const std::uint32_t ranks = launch ? launch->ranks : options.ranks;
  if (ranks != 0 && options.root >= ranks) {
    return absl::StrFormat("-r %d of %d ranks; ranks count from 0 to %d", options.root, ranks,
                           ranks - 1);
  }
  return {};
}

// Names that only the registry and the providers can judge, so that a typing error ends here and
// not in every rank.
std::string unknown_name(const Options& options) {
  const Registry& registry = builtin_registry();
  const auto cc = registry.find_congestion_control(options.connection.congestion_control);
  if (!cc.ok()) return cc.error().message();
  const auto selector = registry.find_path_selector(options.connection.path_selector);
  if (!selector.ok()) return selector.error().message();
  const auto loss_rule = registry.find_loss_rule(options.connection.loss_rule);
  if (!loss_rule.ok()) return loss_rule.error().message();
  if (options.provider != "auto") {
    const auto provider = registry.find_provider(options.provider);
    if (!provider.ok()) return "--provider: auto, or a name: " + provider.error().message();
  }
  const auto planner = collectives::Planner::create({.algorithm = options.algorithm});
  if (!planner.ok()) return "--algo: " + planner.error().message();
  if (!options.workload.empty()) {
    const auto tensors = load_workload(options.workload);
    if (!tensors.ok()) return tensors.error().message();
  }
  if (!options.rendezvous.empty() && !options.rendezvous.starts_with("file://")) {
    const Result<NetAddress> meeting = parse_net_address(options.rendezvous, 0);
    if (!meeting.ok()) return "--rendezvous: " + meeting.error().message();
    if (meeting.value().port == 0) return "--rendezvous needs a port that is not 0: host:port";
  }
  if (options.address.empty()) return {};
  const Status address = tools::check_url(options.address, tools::AddressUse::kListen, registry);
  return address.ok() ? std::string{} : "--address: " + address.error().message();
}

}  // namespace

void add_options(CLI::App& app, Options& options) {
  add_group_options(app, options);
  add_measurement_options(app, options);
  add_operation_options(app, options);
  add_algorithm_options(app, options);
  add_transport_options(app, options);
}

std::string check_options(const CLI::App& app, const std::optional<Launch>& launch,
                          Options& options) {
  if (std::string sentence = misfit(app, launch, options); !sentence.empty()) return sentence;
  if (!options.has_outside_store) {
    if (std::string sentence = unknown_name(options); !sentence.empty()) return sentence;
  }
  const auto faults = tools::check_faults(options.faults, options.connection.crc);
  if (!faults.ok()) return faults.error().message();
  options.connection.crc = faults.value().crc;
  return {};
}

}  // namespace spindrift::coll
