#pragma once
// absl::StrCat for std::string_view: Debian's Abseil has a string_view of its own.
#include <concepts>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"

namespace spindrift::simtool {

template <class T>
auto piece(const T& value) {
  if constexpr (std::convertible_to<const T&, std::string_view>) {
    const std::string_view text = value;
    return absl::string_view(text.data(), text.size());
  } else {
    return value;
  }
}

template <class... T>
std::string cat(const T&... pieces) {
  return absl::StrCat(piece(pieces)...);
}
template <class... T>
void append(std::string& to, const T&... pieces) {
  absl::StrAppend(&to, piece(pieces)...);
}

}  // namespace spindrift::simtool
