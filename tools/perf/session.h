#pragma once
// One test between one client and one server, the parts both sides share: the endpoint, the control
// channel, the data connections, the memory, and the loop that moves all of them on.
#include <array>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "spindrift/endpoint.h"

#include "tools/perf/control.h"
#include "tools/perf/plan.h"

namespace spindrift::perf {

// Anonymous memory, zeroed.
class Arena {
 public:
  static Result<Arena> allocate(std::uint64_t bytes);
  Arena() = default;
  Arena(Arena&& other) noexcept;
  Arena& operator=(Arena&& other) noexcept;
  ~Arena();
  std::span<std::byte> bytes() const { return bytes_; }

 private:
  std::span<std::byte> bytes_{};
};

// Who takes the completions of data operations while a run lasts.
class CompletionSink {
 public:
  virtual ~CompletionSink() = default;
  // At most Session::kPollBatch, all successful.
  virtual void on_completions(std::span<const Completion> completions) = 0;
};

class Session {
 public:
  static constexpr std::size_t kPollBatch = 64;
  // A test is never larger than this, on either side.
  static constexpr std::uint64_t kMaxArenaBytes = 16ULL << 30;

  explicit Session(Endpoint& endpoint) : endpoint_(endpoint), control_(endpoint) {}
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Lays out and registers the memory of a test.
  [[nodiscard]] Status prepare(const TestShape& shape);
  // Posts the RECEIVEs of one data connection; it may still be opening.
  void post_receives(std::uint32_t connection);

  // One turn of the loop: polls, hands completions out, looks at events. Blocks for a moment when
  // nothing has happened for a while.
  void turn();
  // Turns until a control message of this type (empty: any) arrives. Fails when the session fails,
  // when the peer reports an error or when nothing comes for `patience`.
  [[nodiscard]] Result<nlohmann::json> expect(std::string_view type, Duration patience);
  // Control messages arrived meanwhile; pings are taken out.
  bool take_message(nlohmann::json* message);
  // Keeps the peer's interest visible: an unanswered ping fails the connection of a dead peer.
  void ping_when_idle();

  void fail(std::string sentence);
  bool has_failed() const { return failure_.has_value(); }
  Error failure() const { return Error(ErrorCode::kIo, failure_.value_or("")); }
  // Says farewell on every connection and waits for it, `patience` at most.
  void close(Duration patience);

  Endpoint& endpoint() { return endpoint_; }
  ControlChannel& control() { return control_; }
  const TestShape& shape() const { return shape_; }
  const MemoryPlan& memory() const { return memory_; }
  const MemoryRegion& region() const { return region_; }
  std::span<std::byte> bytes(std::uint64_t offset, std::uint64_t length) const {
    return region_.bytes.subspan(offset, length);
  }
  Sge receive_sge(std::uint32_t connection, std::uint32_t slot) const;

  std::vector<ConnId> connections;  // data connections, by index
  RemoteRegion peer_region{};
  Duration deadline{};  // of each operation, for messages; zero: none
  CompletionSink* sink = nullptr;
  std::function<void(const ConnEvent&)> on_event;  // requests and establishments
  std::function<void()> on_idle;                   // at least every kIdleWait while nothing happens
  std::string peer_name = "the peer";

 private:
  void hand_out(std::span<const Completion> completions);
  void look_at_events();
  void rest_if_quiet();
  void report_failed_completion(const Completion& completion);

  Endpoint& endpoint_;
  ControlChannel control_;
  Arena arena_;
  MemoryRegion region_{};
  TestShape shape_{};
  MemoryPlan memory_{};
  std::optional<std::string> failure_;
  std::vector<Completion> batch_ = std::vector<Completion>(kPollBatch);
  std::vector<Completion> data_batch_ = std::vector<Completion>(kPollBatch);
  std::array<ConnEvent, 16> events_{};
  Time last_activity_{};
  Time last_ping_{};
  std::uint32_t turns_ = 0;
  bool is_closing_ = false;
};

}  // namespace spindrift::perf
