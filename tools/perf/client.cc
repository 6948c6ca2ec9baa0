#include "tools/perf/client.h"

#include <cstdio>

#include <unistd.h>

#include "absl/strings/str_format.h"
#include "tools/exit_codes.h"
#include "tools/perf/bandwidth.h"
#include "tools/perf/latency.h"
#include "tools/perf/opening.h"
#include "tools/perf/units.h"

namespace spindrift::perf {
namespace {

constexpr Duration kAnswerPatience = std::chrono::seconds(30);
constexpr Duration kInterruptPatience = std::chrono::seconds(5);
constexpr Duration kFarewellPatience = std::chrono::seconds(2);
constexpr std::uint32_t kTurnsPerProgress = 1024;

// Rails lose their port: any free one will do.
// Options of the server's address are for the endpoint here, unless that is a device with its own.
std::string server_address(const PerfOptions& options) {
  if (!options.device.empty()) return options.server_address;
  return options.server_address.substr(0, options.server_address.find('?'));
}

std::string local_address_for(const PerfOptions& options) {
  if (!options.device.empty()) return options.device;
  const std::string scheme =
      options.server_address.substr(0, options.server_address.find("://") + 3);
  std::string out = scheme;
  for (const std::string& rail : options.rails) {
    if (out.size() > scheme.size()) out += ',';
    const bool is_bare_v6 = rail.find("::") != std::string::npos && rail.front() != '[';
    out += is_bare_v6 ? absl::StrFormat("[%s]:0", rail) : rail + ":0";
  }
  const std::size_t question = options.server_address.find('?');
  if (question != std::string::npos) out += options.server_address.substr(question);
  return out;
}

}  // namespace

Client::Client(const PerfOptions& options, std::function<std::string()> server_death)
    : options_(options),
      server_death_(std::move(server_death)),
      report_(options),
      has_terminal_(isatty(STDERR_FILENO) == 1) {}

int Client::run() {
  const Status status = measure();
  clear_progress();
  std::string error;
  if (!status.ok()) {
    error = server_death_();
    if (!error.empty()) error += "; ";
    error += status.error().message();
  }
  const bool is_interrupted_early = !has_begun_ && tools::was_interrupted();
  if (is_interrupted_early) report_.set_interrupted();
  report_.finish(error);
  const Status written = endpoint_ ? finish_files(*endpoint_, options_) : ok_status();
  const bool was_opened = endpoint_ != nullptr;
  session_.reset();
  endpoint_.reset();
  int exit_code = tools::kExitOk;
  if (!status.ok() && is_interrupted_early) {
    exit_code = tools::complain("perf", error, tools::kExitInterrupted);
  } else if (!status.ok()) {
    const bool is_usage = !was_opened && status.error().code() == ErrorCode::kInvalidArgument;
    exit_code = tools::complain("perf", error, is_usage ? tools::kExitUsage : tools::kExitFailure);
  } else if (report_.is_interrupted()) {
    exit_code = tools::kExitInterrupted;
  } else {
    for (const std::string& miss : report_.misses()) {
      exit_code = tools::complain("perf", miss, tools::kExitFailure);
    }
  }
  if (!written.ok()) {
    exit_code = tools::complain("perf", written.error().message(), tools::kExitFailure);
  }
  return tools::finish_output("perf", exit_code);
}

Status Client::measure() {
  Status status = open_session();
  if (status.ok()) status = run_tests();
  if (status.ok()) status = finish_session();
  return status;
}

Status Client::open_session() {
  Result<std::unique_ptr<Endpoint>> endpoint =
      open_perf_endpoint(local_address_for(options_), options_);
  if (!endpoint.ok()) return endpoint.error();
  endpoint_ = std::move(endpoint).value();
  session_ = std::make_unique<Session>(*endpoint_);
  session_->peer_name = options_.server_address;
  session_->deadline = options_.transport.deadline;
  session_->on_event = [this](const ConnEvent& event) {
    if (event.kind == ConnEvent::Kind::kEstablished) ++established_;
  };
  session_->on_idle = [this] {
    give_up_when_stuck();
    const std::string death = server_death_();
    if (!death.empty()) session_->fail("the session with it cannot go on");
  };
  Status prepared = session_->prepare(options_.shape);
  if (!prepared.ok()) return prepared;
  Status connected = connect_control();
  if (!connected.ok()) return connected;
  session_->control().send(to_json(SessionSetup{.shape = options_.shape,
                                                .transport = options_.transport,
                                                .region = session_->region().remote}));
  const Result<nlohmann::json> answer = session_->expect("ready", kAnswerPatience);
  if (!answer.ok()) return answer.error();
  const Result<Ready> ready = parse_ready(answer.value());
  if (!ready.ok()) return ready.error();
  session_->peer_region = ready.value().region;
  return connect_data(ready.value().session);
}

// An interrupt lets operations in flight finish, but not for ever.
void Client::give_up_when_stuck() {
  if (!tools::was_interrupted()) return;
  const Time now = endpoint_->now();
  if (interrupted_at_ == Time{}) interrupted_at_ = now;
  if (now - interrupted_at_ < kInterruptPatience) return;
  session_->fail(absl::StrFormat("interrupted, and what was in flight to %s did not finish",
                                 session_->peer_name));
}

Status Client::connect_control() {
  const Result<ConnId> conn =
      endpoint_->connect(server_address(options_), control_options(options_));
  if (!conn.ok()) return conn.error();
  Status attached = session_->control().attach(conn.value());
  if (!attached.ok()) return attached;
  return await_established(1);
}

Status Client::connect_data(std::uint64_t session_number) {
  ConnectOptions connect = connect_options(options_.transport, options_.settings.connect);
  for (std::uint32_t i = 0; i < options_.shape.connections; ++i) {
    connect.private_data = encode_greeting({.session = session_number, .connection = i});
    const Result<ConnId> conn = endpoint_->connect(server_address(options_), connect);
    if (!conn.ok()) return conn.error();
    session_->connections[i] = conn.value();
    session_->post_receives(i);
  }
  Status status = await_established(1 + options_.shape.connections);
  if (!status.ok()) return status;
  const Result<ConnInfo> info = endpoint_->info(session_->connections.front());
  if (info.ok()) report_.set_connection(info.value());
  // The server may learn of its side of a connection later than we do.
  const Result<nlohmann::json> answer = session_->expect("connected", kAnswerPatience);
  return answer.ok() ? ok_status() : Status(answer.error());
}

Status Client::await_established(std::uint32_t wanted) {
  while (established_ < wanted && !session_->has_failed()) {
    session_->turn();
    if (tools::was_interrupted()) session_->fail("interrupted before the test began");
  }
  return session_->has_failed() ? Status(session_->failure()) : ok_status();
}

Status Client::run_tests() {
  has_begun_ = true;
  for (const bool is_latency : {false, true}) {
    if (is_latency ? !options_.has_latency : !options_.has_bandwidth) continue;
    if (tools::was_interrupted()) break;
    report_.begin_test(is_latency);
    for (const std::uint64_t bytes : options_.shape.sizes) {
      if (tools::was_interrupted()) break;
      Status status = is_latency ? run_latency(bytes) : run_bandwidth(bytes);
      if (!status.ok()) return status;
    }
  }
  if (tools::was_interrupted()) report_.set_interrupted();
  return ok_status();
}

Status Client::begin(const RunRequest& run) {
  session_->control().send(to_json(run));
  const Result<nlohmann::json> answer = session_->expect("begun", kAnswerPatience);
  return answer.ok() ? ok_status() : Status(answer.error());
}

Status Client::run_bandwidth(std::uint64_t message_bytes) {
  RunRequest request = make_run(options_, message_bytes, /*is_latency=*/false);
  request.number = ++runs_;
  BandwidthRun run(*session_, request, BandwidthRun::Side::kClient);
  Status status = begin(request);
  if (!status.ok()) return status;
  status = run.execute(&tools::was_interrupted, [&](const BandwidthMeter& meter) {
    if (has_terminal_ && ++progress_turns_ % kTurnsPerProgress == 0) {
      show_progress(message_bytes, meter);
    }
  });
  clear_progress();
  if (status.ok()) report_.add(message_bytes, run.summary());
  return status;
}

Status Client::run_latency(std::uint64_t message_bytes) {
  RunRequest request = make_run(options_, message_bytes, /*is_latency=*/true);
  request.number = ++runs_;
  LatencyRun run(*session_, request);
  Status status = begin(request);
  if (!status.ok()) return status;
  status = run.measure(&tools::was_interrupted);
  if (status.ok()) report_.add(message_bytes, run.summary());
  return status;
}

void Client::show_progress(std::uint64_t message_bytes, const BandwidthMeter& meter) {
  const Time now = endpoint_->now();
  if (!meter.is_started() || now - last_progress_ < std::chrono::seconds(1)) return;
  const bool is_first = last_progress_ < meter.started();
  last_progress_ = now;
  if (is_first && now - meter.started() < std::chrono::seconds(1)) return;
  const BandwidthSummary so_far = meter.summary();
  absl::FPrintF(stderr, "\r%s: %.0f s, %.1f MB/s  ", format_bytes(message_bytes),
                static_cast<double>((now - meter.started()).count()) / 1e9,
                so_far.average_mb_per_s);
  std::fflush(stderr);
  has_progress_line_ = true;
}

void Client::clear_progress() {
  if (!has_progress_line_) return;
  absl::FPrintF(stderr, "\r%40s\r", "");
  has_progress_line_ = false;
}

Status Client::finish_session() {
  session_->control().send({{"type", "account"}});
  const Result<nlohmann::json> answer = session_->expect("account", kAnswerPatience);
  if (!answer.ok()) return answer.error();
  report_.set_accounts(collect_account(*endpoint_, session_->connections),
                       parse_account(answer.value()));
  session_->control().send({{"type", "bye"}});
  // The connections close each on its own: without the farewell in front of that the server would
  // take the first for a client that left early.
  const Time limit = endpoint_->now() + kFarewellPatience;
  while (!session_->control().is_flushed() && !session_->has_failed() && endpoint_->now() < limit)
    session_->turn();
  session_->close(kFarewellPatience);
  return ok_status();
}

}  // namespace spindrift::perf
