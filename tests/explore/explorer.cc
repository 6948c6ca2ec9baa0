#include "tests/explore/explorer.h"

#include <algorithm>
#include <unordered_set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace spindrift::test {
namespace {

constexpr std::size_t kDeliverable = 3;      // of the packets under way to a side
constexpr std::uint32_t kLongMessage = 700;  // two packets
constexpr Duration kDeadline = std::chrono::milliseconds(5);
constexpr std::uint32_t kNoParent = 0xffffffff;

// A scenario under way: the world, and what its script and its network may still do.
class Run {
 public:
  explicit Run(const Scenario& scenario)
      : scenario_(scenario),
        world_(scenario.config),
        drops_(scenario.drops),
        repeats_(scenario.repeats),
        waits_(scenario.waits) {
    for (const Step step : scenario.prelude)
      if (step == Step::kOpen)
        open();
      else
        take(Side::kB, step);
  }
  EngineWorld& world() { return world_; }

  void perform(const Action& action) {
    switch (action.kind) {
      case Action::Kind::kDeliver:
        world_.deliver(action.side, action.index);
        return;
      case Action::Kind::kDrop:
        --drops_;
        world_.drop(action.side, action.index);
        return;
      case Action::Kind::kRepeat:
        --repeats_;
        world_.repeat(action.side, action.index);
        return;
      case Action::Kind::kWait:
        --waits_;
        world_.advance();
        return;
      case Action::Kind::kAccept:
        world_.accept();
        return;
      case Action::Kind::kStep: {
        std::size_t& at = at_[static_cast<std::size_t>(action.side)];
        const auto& script = scenario_.scripts[static_cast<std::size_t>(action.side)];
        if (at < script.size()) take(action.side, script[at++]);
        return;
      }
    }
  }
  std::vector<Action> enabled() {
    using Kind = Action::Kind;
    std::vector<Action> out;
    if (world_.may_accept()) out.push_back({.kind = Kind::kAccept});
    for (const Side side : {Side::kA, Side::kB}) {
      if (can_step(side)) out.push_back({.kind = Kind::kStep, .side = side});
      const std::size_t count = std::min(world_.packets_to(side), kDeliverable);
      for (std::size_t i = 0; i < count; ++i) {
        const auto index = static_cast<std::uint8_t>(i);
        out.push_back({.kind = Kind::kDeliver, .side = side, .index = index});
        if (drops_ != 0) out.push_back({.kind = Kind::kDrop, .side = side, .index = index});
        if (repeats_ != 0) out.push_back({.kind = Kind::kRepeat, .side = side, .index = index});
      }
    }
    if (waits_ != 0) out.push_back({.kind = Kind::kWait});
    return out;
  }
  std::uint64_t state() {
    std::uint64_t hash = abstract_state(world_);
    for (const std::uint64_t left :
         {std::uint64_t{drops_}, std::uint64_t{repeats_}, std::uint64_t{waits_},
          std::uint64_t{at_[0]}, std::uint64_t{at_[1]}})
      hash = (hash ^ left) * 0x9E3779B97F4A7C15ULL + left;
    return hash;
  }

 private:
  void open() {
    world_.connect();
    for (int i = 0; i < 8; ++i) {
      world_.accept();
      for (const Side side : {Side::kB, Side::kA})
        while (world_.packets_to(side) != 0)
          world_.deliver(side, 0);
    }
  }
  bool can_step(Side side) {
    const auto& script = scenario_.scripts[static_cast<std::size_t>(side)];
    const std::size_t at = at_[static_cast<std::size_t>(side)];
    if (at == script.size()) return false;
    const Connection* c = world_.connection(side);
    switch (script[at]) {
      case Step::kSend:
      case Step::kWrite:
      case Step::kWriteWithDeadline:
      case Step::kRead:
      case Step::kAdd:
      case Step::kClose:
        return c != nullptr && c->phase == Phase::kOpen;
      case Step::kReceive:
      case Step::kAbort:
        return c != nullptr;
      default:
        return true;
    }
  }
  void take(Side side, Step step) {
    switch (step) {
      case Step::kConnect:
        return world_.connect();
      case Step::kOpen:
        return;
      case Step::kSend:
        return world_.post(side, OpKind::kSend, kLongMessage);
      case Step::kWrite:
        return world_.post(side, OpKind::kWrite, kLongMessage);
      case Step::kWriteWithDeadline:
        return world_.post(side, OpKind::kWrite, kLongMessage, kDeadline);
      case Step::kRead:
        return world_.post(side, OpKind::kRead, kLongMessage);
      case Step::kAdd:
        return world_.post(side, OpKind::kFetchAdd, 8);
      case Step::kReceive:
        return world_.post_receive(side);
      case Step::kClose:
        return world_.close(side);
      case Step::kAbort:
        return world_.abort(side);
      case Step::kForget:
        return world_.forget(side);
      case Step::kFlood:
        return world_.flood(1);
      case Step::kRejectFlood:
        return world_.reject_flood();
    }
  }

  const Scenario& scenario_;
  EngineWorld world_;
  std::array<std::size_t, 2> at_{};
  std::uint8_t drops_;
  std::uint8_t repeats_;
  std::uint8_t waits_;
};

// A state by the action that led to it from another one.
struct Node {
  std::uint32_t parent = kNoParent;
  std::uint32_t depth = 0;
  Action action{};
  std::vector<Action> next{};
};

std::vector<Action> path_to(const std::vector<Node>& nodes, std::uint32_t index) {
  std::vector<Action> actions;
  for (; nodes[index].parent != kNoParent; index = nodes[index].parent)
    actions.push_back(nodes[index].action);
  std::reverse(actions.begin(), actions.end());
  return actions;
}

}  // namespace

Exploration explore(const Scenario& scenario, std::uint64_t max_replays) {
  Exploration out;
  std::vector<Node> nodes;
  std::unordered_set<std::uint64_t> seen;
  // A new state is kept with what can be done in it; then nothing is lost any more.
  const auto visit = [&](Run& run, Node node) {
    if (run.world().failure().empty()) {
      if (!seen.insert(run.state()).second) return true;
      node.next = run.enabled();
      run.world().settle();
    }
    out.depth = node.depth;
    nodes.push_back(std::move(node));
    out.failure = run.world().failure();
    if (out.failure.empty()) return true;
    out.actions = path_to(nodes, static_cast<std::uint32_t>(nodes.size() - 1));
    return false;
  };
  Run first(scenario);
  bool goes_on = visit(first, Node{});
  std::uint32_t at = 0;
  for (; goes_on && at < nodes.size() && out.replays < max_replays; ++at) {
    const std::vector<Action> before = path_to(nodes, at);
    const std::vector<Action> next = std::move(nodes[at].next);
    for (const Action& action : next) {
      Run run(scenario);
      for (const Action& earlier : before)
        run.perform(earlier);
      run.perform(action);
      ++out.replays;
      goes_on = visit(run, {.parent = at, .depth = nodes[at].depth + 1, .action = action});
      if (!goes_on) break;
    }
  }
  out.states = seen.size();
  out.is_complete = at == nodes.size();
  return out;
}

std::string replay(const Scenario& scenario, const std::vector<Action>& actions) {
  Run run(scenario);
  for (const Action& action : actions)
    run.perform(action);
  if (run.world().failure().empty()) run.world().settle();
  return run.world().failure();
}

std::string to_string(const std::vector<Action>& actions) {
  constexpr std::string_view kNames[] = {"deliver", "drop", "repeat", "wait", "accept", "step"};
  std::string out;
  for (const Action& action : actions) {
    absl::StrAppend(&out, out.empty() ? "" : " ",
                    std::string(kNames[static_cast<std::size_t>(action.kind)]));
    if (action.kind == Action::Kind::kWait || action.kind == Action::Kind::kAccept) continue;
    absl::StrAppend(&out, action.side == Side::kA ? "-A" : "-B");
    if (action.kind != Action::Kind::kStep)
      absl::StrAppend(&out, static_cast<unsigned>(action.index));
  }
  return out;
}

bool parse_actions(std::string_view text, std::vector<Action>& out) {
  const std::vector<std::string> words = absl::StrSplit(std::string(text), ' ', absl::SkipEmpty());
  for (const std::string& word : words) {
    bool is_known = false;
    for (unsigned kind = 0; kind < 6 && !is_known; ++kind)
      for (const Side side : {Side::kA, Side::kB})
        for (std::uint8_t index = 0; index < kDeliverable; ++index) {
          const Action action{
              .kind = static_cast<Action::Kind>(kind), .side = side, .index = index};
          if (is_known || to_string({action}) != word) continue;
          out.push_back(action);
          is_known = true;
        }
    if (!is_known) return false;
  }
  return true;
}

}  // namespace spindrift::test
