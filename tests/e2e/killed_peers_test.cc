// Peers killed and stopped for real, in every state of a connection: every operation of the other
// side ends with a status, in the time that the protocol promises, and the error names the peer.
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <optional>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "spindrift/open.h"

#include "tests/e2e/child_process.h"
#include "tests/e2e/mortal_peer.h"

namespace spindrift {
namespace {

using namespace std::chrono_literals;
using testing::AnyOf;
using testing::HasSubstr;

// Room for a host that runs other things beside this test.
constexpr Duration kSlack = 4s;
constexpr Duration kAtOnce = 2s;

enum class State : std::uint8_t {
  kConnecting,
  kAccepted,  // by us; the peer does not know yet
  kIdle,
  kSending,
  kReceiving,
  kReading,
  kAtomics,
  kClosing,
};

struct Case {
  State state = State::kIdle;
  bool is_killed = true;  // else stopped
  bool peer_has_guardian = true;
  bool has_defaults = false;  // the limits that users get

  std::string name() const {
    const char* const states[] = {"connecting", "accepted", "idle",    "sending",
                                  "receiving",  "reading",  "atomics", "closing"};
    return std::string(states[static_cast<std::size_t>(state)]) +
           (is_killed ? ", killed" : ", stopped") +
           (peer_has_guardian ? ", peer with guardian" : ", peer without guardian") +
           (has_defaults ? ", default limits" : "");
  }
  ConnectOptions options() const {
    ConnectOptions options;
    if (has_defaults) return options;
    options.connect_timeout = 8s;
    options.silence_limit = 500ms;
    options.silence_limit_passive = 800ms;
    options.keepalive = 100ms;
    options.close_timeout = 300ms;
    if (ends_by_deadline()) options.default_timeout = 1500ms;
    return options;
  }
  // A RECEIVE from a peer that may rightly be silent ends alone; the connection lives.
  bool ends_by_deadline() const {
    return state == State::kReceiving && !is_killed && !peer_has_guardian;
  }
  Duration limit() const {
    if (is_killed) return kAtOnce;
    if (state == State::kConnecting || state == State::kAccepted)
      return options().connect_timeout + kSlack;
    if (ends_by_deadline()) return 1500ms + kSlack;
    return (peer_has_guardian ? options().silence_limit : options().silence_limit_passive) + kSlack;
  }
};

// Our end of the connection.
class Survivor {
 public:
  explicit Survivor(const Case& one) : case_(one), options_(one.options()), memory_(kPeerMemory) {
    OpenOptions open;
    open.endpoint.has_guardian = true;
    open.endpoint.max_connections = 8;
    endpoint_ = open_endpoint("udp://127.0.0.1:0", open).value();
    region_ = endpoint_->register_memory(memory_, kAllAccess).value();
  }

  void run() {
    if (case_.state == State::kAccepted)
      answer_a_caller();
    else
      call();
    if (testing::Test::HasFatalFailure()) return;
    expect_the_end();
    leave();
  }

 private:
  using Kind = ConnEvent::Kind;

  // Calls progress() until `is_done`, at most for `limit`.
  template <class Done>
  bool wait_until(Duration limit, Done is_done) {
    const Time end = endpoint_->now() + limit;
    for (;;) {
      Completion done;
      while (endpoint_->poll({&done, 1}) == 1)
        completions_.push_back(done);
      ConnEvent event;
      while (endpoint_->poll_events({&event, 1}) == 1)
        events_.push_back(event);
      if (is_done()) return true;
      if (endpoint_->now() > end) return false;
      endpoint_->wait(5ms);
    }
  }
  bool has_event(Kind kind) const {
    return std::any_of(events_.begin(), events_.end(),
                       [kind](const ConnEvent& event) { return event.kind == kind; });
  }
  void strike() {
    peer_->send_signal(case_.is_killed ? SIGKILL : SIGSTOP);
    peer_->wait_for_change();
    struck_ = endpoint_->now();
  }

  void answer_a_caller() {
    ASSERT_TRUE(endpoint_->listen("udp://").ok());
    start_peer("call", endpoint_->local_addresses().at(0));
    ASSERT_TRUE(wait_until(10s, [&] { return has_event(Kind::kRequest); }));
    conn_ = events_.front().conn;
    strike();
    ASSERT_TRUE(endpoint_->accept(conn_, options_).ok());
  }
  void start_peer(const std::string& role, const std::string& address = "") {
    std::vector<std::string> arguments = {MORTAL_PEER, role, case_.peer_has_guardian ? "1" : "0",
                                          "udp://127.0.0.1:0"};
    if (!address.empty()) arguments.push_back(address);
    peer_.emplace(arguments);
    peer_address_ = peer_->line();
  }
  void call() {
    const char* role = "serve";
    if (case_.state == State::kConnecting) role = "mute";
    if (case_.state == State::kReceiving) role = "send";
    start_peer(role);
    const auto conn = endpoint_->connect(peer_address_, options_);
    ASSERT_TRUE(conn.ok()) << conn.error().message();
    conn_ = conn.value();
    if (case_.state == State::kConnecting) {
      wait_until(100ms, [] { return false; });
      strike();
      return;
    }
    ASSERT_TRUE(wait_until(10s, [&] { return has_event(Kind::kEstablished); }))
        << endpoint_->last_error(conn_);
    target_ = RemoteRegion::deserialize(endpoint_->info(conn_).value().private_data).value();
    work_and_strike();
  }
  void work_and_strike() {
    if (case_.state == State::kIdle) {
      wait_until(50ms, [] { return false; });
      strike();
      // A peer that does not progress alone may rightly be silent: only work finds out.
      if (!case_.is_killed && !case_.peer_has_guardian) {
        EXPECT_FALSE(wait_until(1200ms, [&] { return has_event(Kind::kFailed); }));
        struck_ = endpoint_->now();
        post(2);
      }
      return;
    }
    // Some of it succeeds first.
    post(4);
    ASSERT_TRUE(wait_until(10s, [&] { return completions_.size() == posted_; }));
    for (const Completion& one : completions_)
      ASSERT_EQ(one.status, OpStatus::kOk);
    post(case_.state == State::kClosing ? 64 : 8);
    if (case_.state == State::kClosing) close();
    strike();
    post(4);
  }
  void post(int count) {
    const bool is_atomic = case_.state == State::kAtomics;
    const Sge piece = sge_of(region_, 0, is_atomic ? 8 : kPeerMessage);
    WorkRequest work{.conn = conn_, .local = {&piece, 1}, .remote_key = target_.key, .operand = 1};
    switch (case_.state) {
      case State::kSending:
        work.kind = OpKind::kSend;
        break;
      case State::kReceiving:
        work.kind = OpKind::kReceive;
        break;
      case State::kReading:
        work.kind = OpKind::kRead;
        break;
      case State::kAtomics:
        work.kind = OpKind::kFetchAdd;
        break;
      default:
        work.kind = OpKind::kWrite;
    }
    for (int i = 0; i < count; ++i) {
      work.user_data = posted_;
      posted_ += endpoint_->post({&work, 1}).accepted;
    }
  }
  void close() {
    const Time start = endpoint_->now();
    endpoint_->close(conn_);
    EXPECT_LT(endpoint_->now() - start, 500ms);
  }

  void expect_the_end() {
    const bool is_over = wait_until(case_.limit() + 10s, [&] {
      return completions_.size() == posted_ &&
             (case_.ends_by_deadline() || has_event(Kind::kFailed) || has_event(Kind::kClosed));
    });
    ASSERT_TRUE(is_over) << completions_.size() << " of " << posted_ << " ended";
    const Duration took = endpoint_->now() - struck_;
    const std::string error = endpoint_->last_error(conn_);
    EXPECT_LT(took, case_.limit()) << error;
    if (!case_.ends_by_deadline()) {
      EXPECT_THAT(error, HasSubstr("peer 127.0.0.1:"));
    }
    // Silence is noticed no sooner than its limit, the kernel's word needs none.
    if (case_.is_killed) {
      EXPECT_THAT(error, AnyOf(HasSubstr("port unreachable"), HasSubstr("closed")));
    } else if (case_.state != State::kClosing && case_.state != State::kReceiving) {
      EXPECT_GT(took, 300ms) << error;
    }
    for (std::size_t i = 0; i < completions_.size(); ++i)
      EXPECT_EQ(completions_[i].user_data, i);
    if (!completions_.empty() && case_.state != State::kClosing) {
      EXPECT_NE(completions_.back().status, OpStatus::kOk);
    }
  }
  void leave() {
    const Time start = endpoint_->now();
    endpoint_->abort(conn_);
    endpoint_->release(conn_);
    EXPECT_LT(endpoint_->now() - start, 500ms);
    EXPECT_TRUE(endpoint_->deregister_memory(region_).ok());
  }

  Case case_;
  ConnectOptions options_;
  std::vector<std::byte> memory_;
  std::unique_ptr<Endpoint> endpoint_;
  MemoryRegion region_;
  std::optional<ChildProcess> peer_;
  std::string peer_address_;
  RemoteRegion target_;
  ConnId conn_{};
  Time struck_{};
  std::size_t posted_ = 0;
  std::vector<Completion> completions_;
  std::vector<ConnEvent> events_;
};

// A peer that is away for a while and comes back: writes go on, and every byte is there.
void expect_to_go_on(bool is_stopped, bool peer_has_guardian, Duration away, Duration limit) {
  ChildProcess peer({MORTAL_PEER, "serve", peer_has_guardian ? "1" : "0", "udp://127.0.0.1:0"});
  const std::string address = peer.line();
  auto endpoint = open_endpoint("udp://127.0.0.1:0").value();
  ConnectOptions options;
  options.silence_limit = limit;
  options.silence_limit_passive = limit;
  const auto conn = connect_and_wait(*endpoint, address, options);
  ASSERT_TRUE(conn.ok()) << conn.error().message();
  const auto target =
      RemoteRegion::deserialize(endpoint->info(conn.value()).value().private_data).value();
  std::vector<std::byte> from(kPeerMemory);
  std::vector<std::byte> back(kPeerMemory);
  for (std::size_t i = 0; i < from.size(); ++i)
    from[i] = static_cast<std::byte>(i * 2654435761U >> 13U);
  const auto source = endpoint->register_memory(from, kAllAccess).value();
  const auto sink = endpoint->register_memory(back, kAllAccess).value();
  if (is_stopped)
    peer.send_signal(SIGSTOP);
  else
    peer.tell(std::to_string(away / 1ms) + "\n");
  const Time start = endpoint->now();
  const auto move = [&](OpKind kind, const MemoryRegion& local) {
    const Sge piece = sge_of(local, 0, kPeerMemory);
    const WorkRequest work{
        .conn = conn.value(), .kind = kind, .local = {&piece, 1}, .remote_key = target.key};
    ASSERT_EQ(endpoint->post({&work, 1}).accepted, 1U) << endpoint->last_error(conn.value());
    if (is_stopped && kind == OpKind::kWrite) {
      while (endpoint->now() - start < away) {
        endpoint->progress();
        endpoint->wait(5ms);
      }
      peer.send_signal(SIGCONT);
    }
    const auto done = wait_completion(*endpoint, 40s);
    ASSERT_TRUE(done.ok()) << endpoint->last_error(conn.value());
    EXPECT_EQ(done.value().status, OpStatus::kOk) << endpoint->last_error(conn.value());
  };
  move(OpKind::kWrite, source);
  // With a guardian it answers while it computes; without, when it is back.
  if (!is_stopped && peer_has_guardian) {
    EXPECT_LT(endpoint->now() - start, away);
    while (endpoint->now() - start < away) {
      endpoint->progress();
      endpoint->wait(20ms);
    }
  }
  move(OpKind::kRead, sink);
  if (!is_stopped) {
    EXPECT_EQ(peer.line(), "computed");
  }
  EXPECT_EQ(from, back);
}

std::size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

// Long ones first; at most `kAtOnceCases` at a time, so that a small host is not busy with itself.
void run_side_by_side(const std::vector<std::pair<std::string, std::function<void()>>>& cases) {
  constexpr std::size_t kThreads = 10;
  std::atomic<std::size_t> next = 0;
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kThreads; ++i)
    threads.emplace_back([&] {
      for (std::size_t at = next++; at < cases.size(); at = next++) {
        SCOPED_TRACE(cases[at].first);
        cases[at].second();
      }
    });
  for (std::thread& thread : threads)
    thread.join();
}

TEST(KilledPeers, EveryOperationEndsInEveryStateAndNothingLeaks) {
  std::vector<std::pair<std::string, std::function<void()>>> cases;
  const auto add_case = [&](const Case& one) {
    cases.emplace_back(one.name(), [one] { Survivor(one).run(); });
  };
  cases.emplace_back("computes for 20 s, default limit of silence",
                     [] { expect_to_go_on(false, true, 20s, 5s); });
  add_case({.state = State::kSending, .is_killed = false, .has_defaults = true});
  add_case({.state = State::kSending, .is_killed = true, .has_defaults = true});
  cases.emplace_back("computes longer than its silence would be allowed",
                     [] { expect_to_go_on(false, true, 2s, 700ms); });
  cases.emplace_back("computes without guardian", [] { expect_to_go_on(false, false, 1s, 10s); });
  for (const bool has_guardian : {true, false})
    cases.emplace_back("stopped and continued",
                       [=] { expect_to_go_on(true, has_guardian, 1s, 10s); });
  for (const bool is_killed : {true, false})
    for (const bool has_guardian : {true, false})
      for (const State state :
           {State::kConnecting, State::kAccepted, State::kIdle, State::kSending, State::kReceiving,
            State::kReading, State::kAtomics, State::kClosing})
        add_case({.state = state, .is_killed = is_killed, .peer_has_guardian = has_guardian});
  const std::size_t before = open_descriptors();
  run_side_by_side(cases);
  EXPECT_EQ(open_descriptors(), before);
}

}  // namespace
}  // namespace spindrift
