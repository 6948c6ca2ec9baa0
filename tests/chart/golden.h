#pragma once
// Figures that a person has looked at once.
#include <string>

namespace spindrift::chart {

// The text of tests/golden/chart/<name>, which is `made` itself after being written anew when the
// environment says SPINDRIFT_WRITE_GOLDEN.
std::string golden(const std::string& name, const std::string& made);

}  // namespace spindrift::chart
