#include "tools/perf/server.h"

#include <array>
#include <cstdio>

#include <unistd.h>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "plugins/provider_modules.h"
#include "tools/exit_codes.h"
#include "tools/perf/account.h"
#include "tools/perf/bandwidth.h"
#include "tools/perf/latency.h"
#include "tools/perf/opening.h"
#include "transport/base/printable.h"

namespace spindrift::perf {
namespace {

constexpr Duration kSetupPatience = std::chrono::seconds(30);
// Between two runs a client only prints a line; a dead one is noticed by the pings.
constexpr Duration kClientPatience = std::chrono::hours(1);
constexpr Duration kFarewellPatience = std::chrono::seconds(2);
// Connections of several clients that come at once, each with as many as a test may have.
constexpr std::uint32_t kBacklog = 1024;
constexpr Duration kIdleWait = std::chrono::milliseconds(500);

}  // namespace

int Server::run() {
  const Status started = start();
  if (!started.ok()) {
    const bool is_usage = started.error().code() == ErrorCode::kInvalidArgument;
    return tools::complain("perf", started.error().message(),
                           is_usage ? tools::kExitUsage : tools::kExitFailure);
  }
  announce();
  int exit_code = tools::kExitOk;
  ConnId control{};
  while (await_client(&control)) {
    const Status served = serve(control);
    if (!options_.serves_once) {
      if (!served.ok()) say("session ended early: " + served.error().message());
      continue;
    }
    if (!served.ok()) {
      exit_code = tools::complain("perf", "session ended early: " + served.error().message(),
                                  tools::kExitFailure);
    }
    break;
  }
  const Status written = finish_files(*endpoint_, options_);
  if (!written.ok()) {
    exit_code = tools::complain("perf", written.error().message(), tools::kExitFailure);
  }
  return tools::finish_output("perf", exit_code);
}

Status Server::start() {
  const ListenAddresses addresses = listen_addresses(options_.listen_address, kDefaultPort);
  Result<std::unique_ptr<Endpoint>> endpoint = open_perf_endpoint(addresses.open, options_);
  if (!endpoint.ok()) return endpoint.error();
  endpoint_ = std::move(endpoint).value();
  const Result<ListenerId> listener = endpoint_->listen(addresses.listen, {.backlog = kBacklog});
  return listener.ok() ? ok_status() : Status(listener.error());
}

void Server::announce() const {
  const std::vector<std::string> addresses = endpoint_->local_addresses();
  const std::string list = absl::StrJoin(addresses, ", ");
  if (options_.ready_fd < 0) {
    say("listening on " + list);
    return;
  }
  // Whoever started this process reads the line; if nobody does any more, nothing is lost.
  const std::string line = (addresses.empty() ? std::string() : addresses.front()) + "\n";
  (void)!write(options_.ready_fd, line.data(), line.size());
  close(options_.ready_fd);
}

void Server::say(const std::string& line) const {
  if (options_.ready_fd >= 0) return;
  absl::PrintF("%s\n", printable(line));
  std::fflush(stdout);
}

bool Server::await_client(ConnId* conn) {
  std::array<ConnEvent, 1> event;
  while (!tools::was_interrupted()) {
    endpoint_->progress();
    if (endpoint_->poll_events(event) == 0) {
      endpoint_->wait(kIdleWait);
      continue;
    }
    const ConnId from = event[0].conn;
    if (event[0].kind != ConnEvent::Kind::kRequest) {
      if (event[0].kind != ConnEvent::Kind::kEstablished) endpoint_->release(from);
      continue;
    }
    const Result<ConnInfo> info = endpoint_->info(from);
    if (!info.ok()) continue;
    const Result<Greeting> greeting = decode_greeting(info.value().private_data);
    if (greeting.ok() && greeting.value().is_control) {
      *conn = from;
      return true;
    }
    (void)endpoint_->reject(from, greeting.ok() ? "the session of this connection has ended"
                                                : greeting.error().message());
  }
  return false;
}

Status Server::serve(ConnId control) {
  Session session(*endpoint_);
  const Result<ConnInfo> info = endpoint_->info(control);
  session.peer_name = info.ok() ? info.value().remote_address : "a client";
  Status status = open_session(session, control);
  if (status.ok()) {
    say(absl::StrFormat("serving %s: %s, %u connection(s)", session.peer_name,
                        to_string(session.shape().operation), session.shape().connections));
    status = follow(session);
  }
  if (!status.ok() && !session.has_failed()) {
    session.control().send({{"type", "error"}, {"text", status.error().message()}});
  }
  session.close(kFarewellPatience);
  return status;
}

Status Server::open_session(Session& session, ConnId control) {
  ++session_number_;
  established_ = 0;
  session.on_event = [this, &session](const ConnEvent& event) { on_event(session, event); };
  Status attached = session.control().attach(control);
  if (!attached.ok()) return attached;
  Status accepted = endpoint_->accept(control, control_options(options_));
  if (!accepted.ok()) return accepted;
  const Result<nlohmann::json> message = session.expect("setup", kSetupPatience);
  if (!message.ok()) return message.error();
  const Result<SessionSetup> setup = parse_setup(message.value());
  if (!setup.ok()) return setup.error();
  Status prepared = session.prepare(setup.value().shape);
  if (!prepared.ok()) return prepared;
  session.peer_region = setup.value().region;
  transport_ = setup.value().transport;
  // A client that has said off meets a refusal when its connections open.
  if (options_.has_corruption) transport_.crc = CrcChoice::kOn;
  session.deadline = transport_.deadline;
  session.control().send(
      to_json(Ready{.session = session_number_, .region = session.region().remote}));

  const Time limit = endpoint_->now() + kSetupPatience;
  while (established_ < 1 + session.shape().connections && !session.has_failed()) {
    session.turn();
    session.ping_when_idle();
    if (endpoint_->now() > limit) session.fail("the client did not open its connections in time");
  }
  if (session.has_failed()) return session.failure();
  session.control().send({{"type", "connected"}});
  return ok_status();
}

void Server::on_event(Session& session, const ConnEvent& event) {
  switch (event.kind) {
    case ConnEvent::Kind::kRequest:
      admit(session, event);
      return;
    case ConnEvent::Kind::kEstablished:
      ++established_;
      return;
    case ConnEvent::Kind::kClosed:
    case ConnEvent::Kind::kFailed:
      // Of a connection that was refused, or of a session before; the session releases its own.
      for (const ConnId conn : session.connections) {
        if (conn == event.conn) return;
      }
      if (event.conn != session.control().conn()) endpoint_->release(event.conn);
      return;
  }
}

void Server::admit(Session& session, const ConnEvent& event) {
  const Result<ConnInfo> info = endpoint_->info(event.conn);
  if (!info.ok()) return;
  const Result<Greeting> decoded = decode_greeting(info.value().private_data);
  const Greeting greeting = decoded.ok() ? decoded.value() : Greeting{};
  const std::uint64_t index = greeting.connection;
  if (!decoded.ok()) {
    (void)endpoint_->reject(event.conn, decoded.error().message());
  } else if (greeting.is_control) {
    (void)endpoint_->reject(event.conn,
                            absl::StrFormat("this perf server is busy with %s; try again when it "
                                            "has finished",
                                            session.peer_name));
  } else if (greeting.session != session_number_ || index >= session.connections.size() ||
             session.connections[index] != ConnId{}) {
    (void)endpoint_->reject(event.conn, "this connection belongs to no session of this server");
  } else {
    session.connections[index] = event.conn;
    session.post_receives(static_cast<std::uint32_t>(index));
    const Status accepted =
        endpoint_->accept(event.conn, connect_options(transport_, options_.settings.connect));
    if (!accepted.ok()) {
      (void)endpoint_->reject(event.conn, accepted.error().message());
      session.control().send({{"type", "error"}, {"text", accepted.error().message()}});
      session.fail(accepted.error().message());
    }
  }
}

Status Server::follow(Session& session) {
  while (true) {
    const Result<nlohmann::json> message = session.expect("", kClientPatience);
    if (!message.ok()) return message.error();
    if (text_or(message.value(), "type", "") == "bye") return ok_status();
    Status status = follow_one(session, message.value());
    if (!status.ok()) return status;
    if (tools::was_interrupted()) {
      return Error(ErrorCode::kUnavailable, "the server was interrupted");
    }
  }
}

Status Server::follow_one(Session& session, const nlohmann::json& message) {
  const std::string type = text_or(message, "type", "");
  if (type == "stop") return ok_status();  // crossed the end of its run
  if (type == "account") {
    nlohmann::json account = to_json(collect_account(*endpoint_, session.connections));
    account["type"] = "account";
    session.control().send(account);
    return ok_status();
  }
  if (type != "begin") {
    return Error(ErrorCode::kUnsupported, absl::StrFormat("'%s' is not understood", type));
  }
  const Result<RunRequest> request = parse_run(message);
  if (!request.ok()) return request.error();
  const RunRequest& run = request.value();
  const std::vector<std::uint64_t>& sizes = session.shape().sizes;
  if (std::find(sizes.begin(), sizes.end(), run.message_bytes) == sizes.end()) {
    return Error(ErrorCode::kInvalidArgument,
                 absl::StrFormat("a run of %u bytes was not announced", run.message_bytes));
  }
  if (run.is_latency) {
    LatencyRun latency(session, run);
    session.control().send({{"type", "begun"}});
    return latency.answer();
  }
  BandwidthRun bandwidth(session, run, BandwidthRun::Side::kServer);
  session.control().send({{"type", "begun"}});
  return bandwidth.execute(nullptr, nullptr);
}

}  // namespace spindrift::perf
