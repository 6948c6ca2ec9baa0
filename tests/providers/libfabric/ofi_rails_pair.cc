#include "tests/providers/libfabric/ofi_rails_pair.h"

#include <array>
#include <cstdio>
#include <cstdlib>

#include <sched.h>
#include <unistd.h>

#include "providers/libfabric/ofi_fabric.h"

namespace spindrift {
namespace {

constexpr int kTurnsOfRest = 200;

bool run(const std::string& command) {
  return std::system((command + " > /dev/null 2>&1").c_str()) == 0;
}

// Addresses of one host reach each other by its table of local routes, whatever the state of their
// interfaces: without its route there a network carries nothing, and nobody is told.
bool set_network(std::uint16_t number, bool is_up) {
  const std::string k = std::to_string(number);
  return run(std::string("ip route ") + (is_up ? "replace" : "del") + " local 10.9." + k +
             ".1 dev rail" + k + " table local src 10.9." + k + ".1");
}

bool make_networks() {
  if (::geteuid() != 0 || ::unshare(CLONE_NEWNET) != 0 || !run("ip link set lo up")) return false;
  for (const std::string k : {"0", "1"})
    if (!run("ip link add rail" + k + " type veth peer name end" + k) ||
        !run("ip addr add 10.9." + k + ".1/24 dev rail" + k) ||
        !run("ip link set rail" + k + " up") || !run("ip link set end" + k + " up"))
      return false;
  return true;
}

std::array<bool, 2> is_cut{};

}  // namespace

bool may_make_networks() {
  static const bool is_made = make_networks();
  return is_made;
}

OfiRailsPair::OfiRailsPair(const std::string& provider, std::uint64_t shuffle_seed) {
  if (!may_make_networks()) {
    std::fprintf(stderr, "networks to be cut need root\n");
    std::abort();
  }
  address = provider + "@10.9.0.1:0";
  for (auto* side : {&a, &b})
    *side = std::move(open_ofi({.provider = provider,
                                .domains = {"rail0", "rail1"},
                                .silent_ms = 50,
                                .shuffle_seed = shuffle_seed})
                          .value());
}

OfiRailsPair::~OfiRailsPair() {
  for (const std::uint16_t lane : {std::uint16_t{0}, std::uint16_t{1}})
    static_cast<void>(set_lane(lane, true));
  rest();
}

void OfiRailsPair::pass_time() {
  for (const auto* side : {&a, &b}) {
    if (*side == nullptr) continue;
    static_cast<void>((*side)->poll_events({}));
    static_cast<void>((*side)->poll({}));
  }
  ::usleep(500);
}

void OfiRailsPair::rest() {
  for (int turn = 0; turn < kTurnsOfRest; ++turn)
    pass_time();
}

bool OfiRailsPair::set_lane(std::uint16_t lane, bool is_up) {
  if (is_cut[lane] == !is_up) return true;
  is_cut[lane] = !is_up;
  return set_network(lane, is_up);
}

}  // namespace spindrift
