#include "collectives/communicator.h"

#include <algorithm>
#include <array>
#include <functional>

#include <absl/strings/str_format.h>

#include "collectives/executor.h"
#include "collectives/neighbours.h"
#include "collectives/plan.h"
#include "collectives/rendezvous.h"

namespace spindrift::collectives {
namespace {

constexpr Duration kTurn = std::chrono::milliseconds(10);

Error invalid(std::string message) {
  return {ErrorCode::kInvalidArgument, std::move(message)};
}

Status check_options(const CommunicatorOptions& options) {
  if (options.ranks < 1 || options.ranks > kMaxRanks) {
    return invalid(absl::StrFormat("%d ranks; a group has 1 to %d", options.ranks, kMaxRanks));
  }
  if (options.rank >= options.ranks) {
    return invalid(absl::StrFormat("rank %d of %d ranks; ranks count from 0 to %d", options.rank,
                                   options.ranks, options.ranks - 1));
  }
  if (options.slice_bytes < 1024 || options.slice_bytes > (1U << 24) ||
      options.slice_bytes % 128 != 0) {
    return invalid(absl::StrFormat(
        "slice_bytes is %d; it must be a multiple of 128 in 1024..16777216", options.slice_bytes));
  }
  if (options.slices_in_flight < 1 || options.slices_in_flight > 64) {
    return invalid(
        absl::StrFormat("slices_in_flight is %d; it must be 1..64", options.slices_in_flight));
  }
  if (options.setup_timeout < std::chrono::milliseconds(1) ||
      options.setup_timeout > std::chrono::hours(1)) {
    return invalid("setup_timeout must be 1 ms to 1 h");
  }
  return ok_status();
}

// One text for all rails: "udp://10.0.0.1:4000,10.1.0.1:4000".
Result<std::string> own_address(const Endpoint& endpoint) {
  std::string joined;
  for (const std::string& address : endpoint.local_addresses()) {
    const Result<Url> url = parse_url(address);
    if (!url.ok()) return url.error();
    for (const std::string& host : url.value().hosts) {
      const Result<NetAddress> parsed = parse_net_address(host, 0);
      if (parsed.ok() && parsed.value().is_wildcard()) {
        return invalid(absl::StrFormat(
            "others cannot dial the wildcard address %s; give the address they reach this rank by",
            address));
      }
      joined += joined.empty() ? url.value().scheme + "://" + host : "," + host;
    }
  }
  return joined;
}

class RingCommunicator final : public Communicator {
 public:
  RingCommunicator(Endpoint& endpoint, const CommunicatorOptions& options, ListenerId listener,
                   std::vector<Link> links)
      : endpoint_(endpoint),
        options_(options),
        listener_(listener),
        links_(std::move(links)),
        plan_(ring_all_reduce(options.rank, options.ranks)),
        cache_(endpoint),
        executor_(endpoint, links_,
                  ExecutorOptions{.slice_bytes = options.slice_bytes,
                                  .slices_in_flight = options.slices_in_flight,
                                  .spin = options.spin,
                                  .stall_timeout = options.stall_timeout}) {}
  ~RingCommunicator() override { close(); }

  std::uint32_t rank() const override { return options_.rank; }
  std::uint32_t ranks() const override { return options_.ranks; }

  Result<WorkId> start(const CollectiveCall& work) override {
    if (is_closed_) return invalid("the communicator is closed");
    if (work.collective != Collective::kAllReduce) return unsupported(to_string(work.collective));
    const Result<ReduceKernel> kernel = find_reduce_kernel(work.type, work.op);
    if (!kernel.ok()) return kernel.error();
    const Result<Buffers> buffers = bind(work, kernel.value());
    if (!buffers.ok()) return buffers.error();
    if (Status status = executor_.start(plan_, buffers.value()); !status.ok()) {
      return status.error();
    }
    return WorkId{++started_};
  }
  Status progress() override { return fail_with(executor_.progress()); }
  bool is_done(WorkId) const override { return is_done(); }
  bool is_done() const override { return failure_.has_value() || executor_.is_done(); }
  Status wait(WorkId) override { return wait(); }
  Status wait() override { return fail_with(executor_.wait()); }
  void sleep(Duration timeout) override { endpoint_.wait(timeout); }

  Result<AlgorithmChoice> explain(const CollectiveCall& call) const override {
    if (call.collective != Collective::kAllReduce) return unsupported(to_string(call.collective));
    AlgorithmChoice choice;
    choice.algorithm = "ring";
    choice.reason = "there is no other";
    return choice;
  }
  Result<std::unique_ptr<Communicator>> split(std::int32_t, std::int32_t) override {
    return unsupported("split");
  }
  void abort(std::string_view reason) override {
    close();
    (void)fail_with(Error(ErrorCode::kUnavailable, "aborted: " + std::string(reason)));
  }
  const std::optional<CommunicatorFailure>& failure() const override { return failure_; }
  Result<std::unique_ptr<Communicator>> shrink(Store&, std::span<const std::uint32_t>) override {
    return unsupported("shrink");
  }

  void forget_memory() override { cache_.clear(); }
  std::vector<ConnId> connections() const override {
    std::vector<ConnId> ids;
    for (const Link& link : links_)
      ids.push_back(link.conn);
    return ids;
  }

  void close() override {
    if (is_closed_) return;
    is_closed_ = true;
    // Own sends are all acknowledged, so the outgoing connection may go. The incoming one is the
    // peer's to close: its last acknowledgement from here may still be under way.
    close_links([](const Link& link) { return link.is_outgoing; });
    close_links([](const Link& link) { return !link.is_outgoing; });
    for (const Link& link : links_)
      endpoint_.release(link.conn);
    endpoint_.stop_listening(listener_);
  }

 private:
  static Error unsupported(std::string_view what) {
    return {ErrorCode::kUnsupported, std::string(what) + " is not there in this version"};
  }
  Status fail_with(Status status) {
    if (!status.ok() && !failure_) {
      failure_ = CommunicatorFailure{.error = status.error(), .rank = std::nullopt};
    }
    return status;
  }
  Result<Buffers> bind(const CollectiveCall& work, ReduceKernel kernel) {
    Buffers buffers{.count = work.count, .element_bytes = bytes_of(work.type), .reduce = kernel};
    if (work.count > UINT64_MAX / 16) return invalid("the element count is out of range");
    const std::size_t bytes = work.count * buffers.element_bytes;
    if (bytes == 0) return buffers;
    if (work.input == nullptr || work.output == nullptr) {
      return invalid("input and output may be null only for a count of 0");
    }
    // Registered memory is not const, whatever is done with it.
    auto* input = static_cast<std::byte*>(const_cast<void*>(work.input));
    auto* output = static_cast<std::byte*>(work.output);
    const std::less<> before;
    if (input != output && before(input, output + bytes) && before(output, input + bytes)) {
      return invalid("input and output overlap; pass the same memory, or two that do not touch");
    }
    Result<MemoryRegion> out = cache_.find({output, bytes}, Access::kLocalWrite);
    if (!out.ok()) return out.error();
    buffers.output = out.value();
    if (input == output) {
      buffers.input = buffers.output;
      return buffers;
    }
    Result<MemoryRegion> in = cache_.find({input, bytes}, Access::kLocalRead);
    if (!in.ok()) return in.error();
    buffers.input = in.value();
    return buffers;
  }

  template <class Choice>
  void close_links(const Choice& is_chosen) {
    const auto is_over = [this](ConnId conn) {
      const Result<ConnInfo> info = endpoint_.info(conn);
      return !info.ok() || info.value().state == ConnState::kClosed ||
             info.value().state == ConnState::kFailed;
    };
    const Time deadline = endpoint_.now() + options_.connection.close_timeout;
    for (const Link& link : links_) {
      if (!is_chosen(link)) continue;
      if (link.is_outgoing) endpoint_.close(link.conn);
      while (!is_over(link.conn) && endpoint_.now() < deadline) {
        take_all();
        if (!is_over(link.conn)) endpoint_.wait(kTurn);
      }
      if (!is_over(link.conn)) endpoint_.abort(link.conn);
    }
    take_all();
  }

  void take_all() {
    std::array<Completion, 64> completions;
    std::array<ConnEvent, 16> events;
    endpoint_.progress();
    while (endpoint_.poll(completions) > 0) {
    }
    while (endpoint_.poll_events(events) > 0) {
    }
  }

  Endpoint& endpoint_;
  const CommunicatorOptions options_;
  const ListenerId listener_;
  const std::vector<Link> links_;
  const Plan plan_;
  BufferCache cache_;
  Executor executor_;
  std::uint64_t started_ = 0;
  std::optional<CommunicatorFailure> failure_;
  bool is_closed_ = false;
};

}  // namespace

Result<MemoryRegion> BufferCache::find(std::span<std::byte> bytes, Access access) {
  ++uses_;
  for (Entry& entry : entries_) {
    if (entry.region.bytes.data() != bytes.data() || entry.region.bytes.size() != bytes.size() ||
        !has_access(entry.access, access)) {
      continue;
    }
    entry.last_use = uses_;
    return entry.region;
  }
  if (entries_.size() == kMaxBuffers) {
    const auto oldest =
        std::min_element(entries_.begin(), entries_.end(),
                         [](const Entry& a, const Entry& b) { return a.last_use < b.last_use; });
    if (Status status = endpoint_.deregister_memory(oldest->region); !status.ok()) {
      return status.error();
    }
    entries_.erase(oldest);
  }
  Result<MemoryRegion> region = endpoint_.register_memory(bytes, access);
  if (region.ok()) {
    entries_.push_back({.region = region.value(), .access = access, .last_use = uses_});
  }
  return region;
}

void BufferCache::clear() {
  for (const Entry& entry : entries_)
    (void)endpoint_.deregister_memory(entry.region);
  entries_.clear();
}

}  // namespace spindrift::collectives

namespace spindrift {

Result<std::unique_ptr<Communicator>> Communicator::create(Endpoint& endpoint, Store& store,
                                                           const CommunicatorOptions& options) {
  using namespace collectives;
  if (Status status = check_options(options); !status.ok()) return status.error();
  const Result<ListenerId> listener = endpoint.listen(options.address);
  if (!listener.ok()) return listener.error();
  const auto give_up = [&](const Error& error) {
    endpoint.stop_listening(listener.value());
    return error;
  };
  const Result<std::string> address = own_address(endpoint);
  if (!address.ok()) return give_up(address.error());
  const Result<Roster> roster = meet(store, options, address.value());
  if (!roster.ok()) return give_up(roster.error());
  Result<std::vector<Link>> links = connect_neighbours(endpoint, roster.value(), options);
  if (!links.ok()) return give_up(links.error());
  return std::unique_ptr<Communicator>(std::make_unique<RingCommunicator>(
      endpoint, options, listener.value(), std::move(links).value()));
}

}  // namespace spindrift
