#pragma once
// Arrays of the hot path.
#include <array>
#include <cstddef>

namespace spindrift {

// Filled before it is read: to clear it would take as long as a step of an engine.
template <class T, std::size_t N>
struct Scratch : std::array<T, N> {
  Scratch() {}  // NOLINT: that it leaves the elements alone is what it is for
};

}  // namespace spindrift
