#pragma once
// Trace events as JSON lines. Neither allocates nor calls anything: usable in a signal handler.
#include <cstdint>
#include <span>

#include "spindrift/trace.h"

namespace spindrift {

// No line is longer, its newline included.
inline constexpr std::size_t kMaxTraceLine = 256;

// The line of one event, with its newline; returns its length.
std::size_t format_trace_line(const TraceEvent& event, std::span<char, kMaxTraceLine> out);

// The line before the events of one endpoint.
struct TraceHeader {
  std::uint64_t process = 0;
  std::uint64_t level = 0;
  std::uint64_t events = 0;
  std::uint64_t overwritten = 0;
};
std::size_t format_trace_line(const TraceHeader& header, std::span<char, kMaxTraceLine> out);

}  // namespace spindrift
