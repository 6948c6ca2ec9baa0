#include "tests/soak/soak_run.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/soak/link.h"

namespace spindrift::soak {
namespace {

using namespace std::chrono_literals;

constexpr Duration kShortestStep = 5us;
constexpr Duration kLongestStep = 10ms;
constexpr Duration kLivenessLimit = 400s;  // above connect, silence and close limits together
constexpr int kMaxTicks = 3000000;
// Of up to 2 s each: all together shorter than the silence that ends a connection (20 s).
constexpr int kMaxInterruptions = 8;
constexpr std::uint64_t kPlantAt = 5;  // the completion that a defect spoils

class FaultSum final : public CounterWriter {
 public:
  void counter(std::string_view name, std::uint64_t value) override {
    if (name.starts_with("fault_") && name != "fault_delayed_packets") sum += value;
  }
  std::uint64_t sum = 0;
};

class Run {
 public:
  Run(std::uint64_t seed, Plant plant)
      : rng_(seed), plan_(make_plan(rng_)), network_(plan_.network), plant_(plant) {
    outcome_.plan = describe(plan_);
    for (std::uint32_t i = 0; i < plan_.hosts; ++i)
      hosts_.push_back(std::make_unique<Host>(network_, plan_, i, rng_.next() >> 32));
    set_faults(plan_.faults);
  }
  Outcome run() {
    for (std::uint32_t i = 0; i < plan_.steps && outcome_.failure.empty(); ++i) {
      decide();
      for (std::uint64_t ticks = 1 + rng_.below(20); ticks != 0; --ticks)
        tick();
    }
    make_good();
    settle();
    close_all();
    finish();
    return outcome_;
  }

 private:
  void fail(const std::string& sentence) {
    if (outcome_.failure.empty()) outcome_.failure = sentence;
  }
  void set_faults(const FaultConfig& faults) {
    FaultConfig seeded = faults;
    seeded.seed = rng_.next();
    for (auto& host : hosts_)
      host->set_faults(seeded);
  }

  // --- time ---

  void tick() {
    const Time now = network_.now();
    Time next = kNever;
    for (auto& host : hosts_) {
      if (!host->runs(now)) continue;
      host->endpoint().progress();
      drain(*host);
      next = std::min(next, host->endpoint().next_deadline());
    }
    bury();
    next = std::min({next, network_.next_event(), now + kLongestStep});
    network_.advance_to(std::max(next, now + kShortestStep));
  }

  void drain(Host& host) {
    std::array<Completion, 32> completions{};
    std::array<ConnEvent, 8> events{};
    while (const std::size_t count = host.endpoint().poll(completions)) {
      for (std::size_t i = 0; i < count; ++i)
        take(host, completions[i]);
    }
    while (const std::size_t count = host.endpoint().poll_events(events)) {
      for (std::size_t i = 0; i < count; ++i)
        take(host, events[i]);
    }
  }

  void take(Host& host, const Completion& one) {
    End end = End::kInitiator;
    Link* link = find(host, one.conn, end);
    if (link == nullptr) return fail("a completion of a connection that nobody has");
    const bool is_named = !one.is_shared && link_of(one.user_data) != link->id();
    if (is_named) return fail("a completion that another connection's work has");
    const bool is_spoiled = one.kind == OpKind::kReceive && one.status == OpStatus::kOk &&
                            one.bytes != 0 && !one.has_immediate && ++receives_ == kPlantAt;
    if (is_spoiled && plant_ == Plant::kLoseCompletion) return;
    if (is_spoiled && plant_ == Plant::kCorruptOneByte) *link->buffer_of(end, one) ^= std::byte{1};
    link->on_completion(end, one);
    if (is_spoiled && plant_ == Plant::kRepeatCompletion) link->on_completion(end, one);
    note(*link);
  }

  void take(Host& host, const ConnEvent& event) {
    if (event.kind == ConnEvent::Kind::kRequest) return on_request(host, event.conn);
    End end = End::kInitiator;
    Link* link = find(host, event.conn, end);
    if (link == nullptr) return host.endpoint().release(event.conn);  // a stale request has ended
    link->on_event(end, event.kind);
    note(*link);
  }

  // A copy of a HELLO may come after its connection has ended: nobody waits for it.
  void on_request(Host& host, ConnId conn) {
    const auto info = host.endpoint().info(conn);
    std::uint32_t id = 0;
    if (info.ok() && info.value().private_data.size() == sizeof(id))
      std::memcpy(&id, info.value().private_data.data(), sizeof(id));
    for (auto& link : links_) {
      if (link->id() != id || link->conn(End::kTarget).value != 0 ||
          &link->host(End::kTarget) != &host || link->is_over(End::kTarget))
        continue;
      if (rng_.below(1000) < plan_.rejects)
        link->reject(conn);
      else
        link->accept(conn, rng_);
      return note(*link);
    }
    static_cast<void>(host.endpoint().reject(conn, "nobody waits for this").ok());
    host.endpoint().release(conn);
  }

  Link* find(Host& host, ConnId conn, End& end) {
    for (auto& link : links_)
      if (link->is_at(host, conn, end)) return link.get();
    return nullptr;
  }
  void note(const Link& link) {
    if (!link.failure().empty()) fail(link.failure());
  }
  // Links whose two ends are over are checked and put away.
  void bury() {
    for (std::size_t i = 0; i < links_.size();) {
      if (!links_[i]->is_finished()) {
        ++i;
        continue;
      }
      links_[i]->tear_down();
      note(*links_[i]);
      outcome_.operations += links_[i]->operations();
      buried_.push_back(std::move(links_[i]));
      links_.erase(links_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }

  // --- what happens ---

  void decide() {
    std::uint64_t dice = rng_.below(1000);
    const auto is_chosen = [&dice](std::uint32_t share) {
      const bool is_it = dice < share;
      dice = is_it ? 1000000 : dice - share;
      return is_it;
    };
    if (links_.size() < plan_.links) open_link();
    if (is_chosen(plan_.closes)) return with_link([](Link& link, End end) { link.close(end); });
    if (is_chosen(plan_.aborts)) return with_link([](Link& link, End end) { link.abort(end); });
    if (is_chosen(plan_.restarts)) return restart();
    if (is_chosen(plan_.freezes) && interruptions_ < kMaxInterruptions) return freeze();
    if (is_chosen(plan_.blackouts) && interruptions_ < kMaxInterruptions) return black_out();
    for (std::uint64_t i = rng_.below(8); i != 0; --i)
      with_link([this](Link& link, End end) { link.post(end, rng_); });
    if (rng_.below(2) == 0) provide_receives();
  }

  template <class F>
  void with_link(F&& act) {
    if (links_.empty()) return;
    Link& link = *links_[rng_.below(links_.size())];
    const End end = rng_.below(2) == 0 ? End::kInitiator : End::kTarget;
    if (!link.is_over(end) && link.host(end).runs(network_.now())) act(link, end);
    note(link);
  }
  void open_link() {
    Host& from = *hosts_[rng_.below(hosts_.size())];
    Host& to = *hosts_[rng_.below(hosts_.size())];
    if (&from == &to || !from.runs(network_.now()) || !to.is_alive()) return;
    links_.push_back(std::make_unique<Link>(next_link_++, plan_, from, to));
    links_.back()->connect(rng_);
    note(*links_.back());
    ++outcome_.connections;
  }
  void restart() {
    Host& host = *hosts_[rng_.below(hosts_.size())];
    count_faults(host);
    for (auto& link : links_)
      link->vanish(host);
    host.stop();
    for (std::uint64_t ticks = rng_.below(50); ticks != 0; --ticks)
      tick();
    host.start();
    FaultConfig faults = plan_.faults;
    faults.seed = rng_.next();
    host.set_faults(faults);
    ++outcome_.restarts;
  }
  void freeze() {
    ++interruptions_;
    Host& host = *hosts_[rng_.below(hosts_.size())];
    host.freeze(network_.now() + std::chrono::milliseconds(rng_.below(2000)));
  }
  // Some or all paths are dark for a while.
  void black_out() {
    ++interruptions_;
    FaultConfig faults = plan_.faults;
    Blackhole hole;
    if (rng_.below(2) == 0)
      hole.entropies = {.first = 0, .last = static_cast<std::uint16_t>(rng_.below(16))};
    hole.length = std::chrono::milliseconds(rng_.below(2000));
    faults.blackholes.push_back(hole);
    set_faults(faults);
  }
  void provide_receives() {
    for (auto& host : hosts_) {
      if (!host->runs(network_.now())) continue;
      host->deregister_waiting();
      host->fill_shared_queue();
    }
    for (auto& link : links_)
      for (const End end : {End::kInitiator, End::kTarget})
        if (link->host(end).runs(network_.now())) link->post_receives(end);
  }

  // --- liveness ---

  void make_good() {
    set_faults(FaultConfig{});
    for (auto& host : hosts_)
      host->freeze(Time{});
  }
  bool is_settled(const Link& link) {
    if (link.is_finished()) return true;
    for (const End end : {End::kInitiator, End::kTarget})
      if (!link.is_over(end) && (!link.is_open(end) || !link.is_idle(end))) return false;
    return true;
  }
  template <class F>
  void run_until(F&& is_done, std::string_view what) {
    const Time limit = network_.now() + kLivenessLimit;
    for (int ticks = 0; outcome_.failure.empty(); ++ticks) {
      provide_receives();
      tick();
      if (is_done()) return;
      if (network_.now() < limit && ticks < kMaxTicks) continue;
      std::string who;
      for (auto& link : links_)
        absl::StrAppend(&who, "; ", link->describe());
      for (auto& host : hosts_)
        absl::StrAppend(&who, "; host ", host->number(),
                        host->runs(network_.now()) ? "" : " does not run", " due in ",
                        (host->endpoint().next_deadline() - network_.now()).count(), " ns");
      fail(absl::StrCat("stuck: ", std::string(what), " after ", ticks, " turns", who));
    }
  }
  void settle() {
    const auto all_settled = [this] {
      return std::all_of(links_.begin(), links_.end(),
                         [this](const auto& link) { return is_settled(*link); });
    };
    run_until(all_settled, "the network is good and work does not end");
    for (auto& link : links_)
      for (const End end : {End::kInitiator, End::kTarget})
        if (link->is_half() && link->is_open(end)) link->ask_once(end);
    run_until(
        [this] {
          return std::none_of(links_.begin(), links_.end(),
                              [](const auto& link) { return link->is_half(); });
        },
        "one end has gone and the other does not notice");
  }
  void close_all() {
    for (auto& link : links_)
      for (const End end : {End::kInitiator, End::kTarget})
        link->close(end);
    run_until([this] { return links_.empty(); }, "connections do not close");
  }

  void count_faults(Host& host) {
    if (!host.is_alive()) return;
    FaultSum faults;
    host.endpoint().counters(faults);
    outcome_.faults += faults.sum;
  }
  void finish() {
    for (auto& host : hosts_)
      count_faults(*host);
    for (auto& link : buried_) {
      link->check_afterwards();
      note(*link);
    }
  }

  Rng rng_;
  const Plan plan_;
  MemoryNetwork network_;
  Plant plant_;
  std::vector<std::unique_ptr<Link>> buried_;  // memory outlives what may still name it
  std::vector<std::unique_ptr<Link>> links_;
  std::vector<std::unique_ptr<Host>> hosts_;
  std::uint32_t next_link_ = 1;
  std::uint64_t receives_ = 0;
  int interruptions_ = 0;
  Outcome outcome_;
};

}  // namespace

std::string_view to_string(Plant plant) {
  switch (plant) {
    case Plant::kNone:
      return "none";
    case Plant::kCorruptOneByte:
      return "corrupt-one-byte";
    case Plant::kLoseCompletion:
      return "lose-completion";
    case Plant::kRepeatCompletion:
      return "repeat-completion";
  }
  return "none";
}

bool parse_plant(std::string_view text, Plant& out) {
  for (const Plant plant :
       {Plant::kNone, Plant::kCorruptOneByte, Plant::kLoseCompletion, Plant::kRepeatCompletion}) {
    if (text != to_string(plant)) continue;
    out = plant;
    return true;
  }
  return false;
}

Outcome run_seed(std::uint64_t seed, Plant plant) {
  return Run(seed, plant).run();
}

}  // namespace spindrift::soak
