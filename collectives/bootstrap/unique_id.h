#pragma once
// What a UniqueId holds: a token that tells this meeting from others, and where it is served.
//
//   "spindrift-1/<token>/<address>,<address>", padded with zeros to 128 bytes
#include <string>
#include <string_view>
#include <vector>

#include "spindrift/bootstrap.h"

namespace spindrift::collectives {

struct Meeting {
  std::string token;                   // no '/', ',' or space; may be empty
  std::vector<std::string> addresses;  // "host:port", tried in this order
};

// Without the padding; as many addresses as fit.
std::string to_text(const Meeting& meeting);
Result<Meeting> meeting_from_text(std::string_view text);

UniqueId to_id(const Meeting& meeting);
Result<Meeting> meeting_from_id(const UniqueId& id);

}  // namespace spindrift::collectives
