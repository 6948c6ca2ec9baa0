#pragma once
// Which provider carries what between the ranks, for people and for scripts.
#include <span>
#include <string>

#include "spindrift/collective.h"

namespace spindrift::coll {

// "shm to 1-3, udp to 4 6"; empty for a rank that is alone.
std::string describe_routes(std::span<const RankLink> links);

// A JSON array: for each other rank its number, the provider, whether they are connected, and why
// it is not shared memory where it could be (null mostly).
std::string routes_to_json(std::span<const RankLink> links);

}  // namespace spindrift::coll
