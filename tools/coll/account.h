#pragma once
// The transport's own account of a run: what was sent, lost, repaired, and by which paths.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "spindrift/counter_snapshot.h"
#include "spindrift/open.h"

namespace spindrift::coll {

struct Account {
  CounterSnapshot counters;       // of the endpoint
  std::uint32_t connections = 0;  // outgoing ones, which carry the data
  std::uint32_t paths = 0;        // that carried packets, over all connections
  // Share of a connection's packets that its least and most used path carried, 0..1.
  double least_share = 1;
  double most_share = 0;

  void add(const Account& other);
};

// Of this rank, over its endpoints. The paths are those of the first link that has sent packets.
Account take_account(const OpenedGroup& group);

std::string to_text(const Account& account);
Result<Account> account_from_text(std::string_view text);

// Lines that start with "#", for under the table.
std::string describe(const Account& account, std::uint32_t ranks);

}  // namespace spindrift::coll
