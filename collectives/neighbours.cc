#include "collectives/neighbours.h"

#include <algorithm>
#include <array>

#include <absl/strings/str_format.h>

#include "transport/base/bytes.h"

namespace spindrift::collectives {
namespace {

constexpr std::uint32_t kGreetingMagic = 0x53504752;  // "SPGR"
constexpr std::uint32_t kGreetingVersion = 1;
constexpr Duration kTurn = std::chrono::milliseconds(20);

class Meeting {
 public:
  Meeting(Endpoint& endpoint, const Roster& roster, const CommunicatorOptions& options)
      : endpoint_(endpoint),
        options_(options),
        next_((options.rank + 1) % options.ranks),
        previous_((options.rank + options.ranks - 1) % options.ranks),
        roster_(roster),
        expected_({.nonce = roster.nonce,
                   .from = previous_,
                   .to = options.rank,
                   .ranks = options.ranks,
                   .slice_bytes = options.slice_bytes}) {}

  Status call_next() {
    ConnectOptions connection = options_.connection;
    connection.private_data = serialize(Greeting{.nonce = roster_.nonce,
                                                 .from = options_.rank,
                                                 .to = next_,
                                                 .ranks = options_.ranks,
                                                 .slice_bytes = options_.slice_bytes});
    // The neighbour may still be on its way from the store.
    connection.connect_timeout = std::max(connection.connect_timeout, options_.setup_timeout);
    const Result<ConnId> conn = endpoint_.connect(roster_.addresses[next_], connection);
    if (!conn.ok()) return failed_call(conn.error().message());
    outgoing_ = conn.value();
    return ok_status();
  }

  Status wait() {
    const Time deadline = endpoint_.now() + options_.setup_timeout;
    while (!(has_outgoing_ && has_incoming_)) {
      endpoint_.progress();
      std::array<ConnEvent, 16> events;
      const std::size_t count = endpoint_.poll_events(events);
      for (std::size_t i = 0; i < count; ++i) {
        if (Status status = on_event(events[i]); !status.ok()) return status;
      }
      const Time now = endpoint_.now();
      if (now >= deadline) return timed_out();
      if (count == 0) endpoint_.wait(std::min<Duration>(kTurn, deadline - now));
    }
    return ok_status();
  }

  std::vector<Link> links() const {
    return {{.conn = outgoing_,
             .peer = next_,
             .is_outgoing = true,
             .address = roster_.addresses[next_]},
            {.conn = incoming_, .peer = previous_, .address = roster_.addresses[previous_]}};
  }

  void give_up() {
    if (outgoing_ != ConnId{}) endpoint_.abort(outgoing_);
    if (incoming_ != ConnId{}) endpoint_.abort(incoming_);
  }

 private:
  Status on_event(const ConnEvent& event) {
    switch (event.kind) {
      case ConnEvent::Kind::kRequest:
        return on_request(event.conn);
      case ConnEvent::Kind::kEstablished:
        has_outgoing_ |= event.conn == outgoing_;
        has_incoming_ |= event.conn == incoming_;
        return ok_status();
      case ConnEvent::Kind::kClosed:
      case ConnEvent::Kind::kFailed:
        break;
    }
    if (event.conn == outgoing_) return failed_call(endpoint_.last_error(outgoing_));
    if (event.conn == incoming_) {
      return Error(ErrorCode::kIo,
                   absl::StrFormat("rank %d lost the connection from rank %d (%s): %s",
                                   options_.rank, previous_, roster_.addresses[previous_],
                                   endpoint_.last_error(incoming_)));
    }
    return ok_status();
  }

  Status on_request(ConnId conn) {
    const Result<ConnInfo> info = endpoint_.info(conn);
    if (!info.ok()) return ok_status();
    std::string reason = why_not(expected_, info.value().private_data);
    if (reason.empty() && incoming_ != ConnId{}) {
      reason = absl::StrFormat("rank %d is connected already", previous_);
    }
    if (!reason.empty()) {
      // Strangers and leftovers of other jobs are told, and do not stop this one.
      (void)endpoint_.reject(conn, reason);
      return ok_status();
    }
    if (Status status = endpoint_.accept(conn, options_.connection); !status.ok()) return status;
    incoming_ = conn;
    return ok_status();
  }

  Error failed_call(const std::string& why) const {
    return {ErrorCode::kIo, absl::StrFormat("rank %d could not connect to rank %d at %s: %s",
                                            options_.rank, next_, roster_.addresses[next_], why)};
  }

  Error timed_out() const {
    const double waited = std::chrono::duration<double>(options_.setup_timeout).count();
    if (!has_incoming_) {
      return {ErrorCode::kTimedOut,
              absl::StrFormat("rank %d (%s) has not connected to rank %d within %.1f s; is it "
                              "alive, and can it reach %s by UDP?",
                              previous_, roster_.addresses[previous_], options_.rank, waited,
                              roster_.addresses[options_.rank])};
    }
    return failed_call(absl::StrFormat("no answer within %.1f s", waited));
  }

  Endpoint& endpoint_;
  const CommunicatorOptions& options_;
  const std::uint32_t next_;
  const std::uint32_t previous_;
  const Roster& roster_;
  const Greeting expected_;
  ConnId outgoing_{};
  ConnId incoming_{};
  bool has_outgoing_ = false;
  bool has_incoming_ = false;
};

}  // namespace

std::vector<std::byte> serialize(const Greeting& greeting) {
  std::vector<std::byte> wire(Greeting::kWireBytes);
  ByteWriter writer(wire);
  writer.u32(kGreetingMagic);
  writer.u32(kGreetingVersion);
  writer.u64(greeting.nonce);
  writer.u32(greeting.from);
  writer.u32(greeting.to);
  writer.u32(greeting.ranks);
  writer.u32(greeting.slice_bytes);
  return wire;
}

std::string why_not(const Greeting& expected, std::span<const std::byte> private_data) {
  ByteReader reader(private_data);
  const std::uint32_t magic = reader.u32();
  const std::uint32_t version = reader.u32();
  Greeting said;
  said.nonce = reader.u64();
  said.from = reader.u32();
  said.to = reader.u32();
  said.ranks = reader.u32();
  said.slice_bytes = reader.u32();
  if (reader.has_failed() || magic != kGreetingMagic) return "this address serves a group of ranks";
  if (version != kGreetingVersion) {
    return absl::StrFormat("collectives version %d meets %d: use one version of the library",
                           version, kGreetingVersion);
  }
  if (said.nonce != expected.nonce) return "this address serves another job";
  if (said.from != expected.from || said.to != expected.to || said.ranks != expected.ranks) {
    return absl::StrFormat("rank %d of %d calls rank %d, expected was rank %d of %d", said.from,
                           said.ranks, expected.to, expected.from, expected.ranks);
  }
  if (said.slice_bytes != expected.slice_bytes) {
    return absl::StrFormat("slices of %d bytes meet slices of %d: give all ranks the same",
                           said.slice_bytes, expected.slice_bytes);
  }
  return {};
}

Result<std::vector<Link>> connect_neighbours(Endpoint& endpoint, const Roster& roster,
                                             const CommunicatorOptions& options) {
  if (options.ranks == 1) return std::vector<Link>{};
  Meeting meeting(endpoint, roster, options);
  Status status = meeting.call_next();
  if (status.ok()) status = meeting.wait();
  if (!status.ok()) {
    meeting.give_up();
    return status.error();
  }
  return meeting.links();
}

}  // namespace spindrift::collectives
