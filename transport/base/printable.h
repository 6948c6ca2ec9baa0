#pragma once
// Text from elsewhere, made fit for a terminal.
#include <string>
#include <string_view>

namespace spindrift {

// Control characters and what is no UTF-8 as \xNN.
std::string printable(std::string_view text);

}  // namespace spindrift
