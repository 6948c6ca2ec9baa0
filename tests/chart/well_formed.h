#pragma once
// Tells whether a text is well-formed XML, as far as the figures and reports use XML.
#include <string>
#include <string_view>

namespace spindrift::chart {

// Empty, or what is wrong and where: tags that do not match, attributes without quotes or twice in
// one tag, bare "<" and "&", unknown entities, more or less than one root.
std::string what_is_ill_formed(std::string_view text);

}  // namespace spindrift::chart
