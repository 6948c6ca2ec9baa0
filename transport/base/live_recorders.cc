#include "transport/base/live_recorders.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include <fcntl.h>
#include <unistd.h>

#include "transport/base/check.h"
#include "transport/base/flight_recorder.h"
#include "transport/base/trace_text.h"

namespace spindrift {
namespace {

// A crash has no object to ask: the one place where the process keeps a list of its own.
std::array<std::atomic<const FlightRecorder*>, kMaxLiveRecorders> live{};

class Writer {
 public:
  explicit Writer(int file) : file_(file) {}
  template <class T>
  bool line(const T& what) {
    if (buffer_.size() - used_ < kMaxTraceLine && !flush()) return false;
    used_ += format_trace_line(
        what, std::span<char, kMaxTraceLine>(buffer_.data() + used_, kMaxTraceLine));
    return true;
  }
  bool flush() {
    for (std::size_t at = 0; at < used_;) {
      const ssize_t written = ::write(file_, buffer_.data() + at, used_ - at);
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) return false;
      at += static_cast<std::size_t>(written);
    }
    used_ = 0;
    return true;
  }

 private:
  std::array<char, 16 * kMaxTraceLine> buffer_{};
  std::size_t used_ = 0;
  int file_;
};

bool write_recorder(const FlightRecorder& recorder, Writer& out) {
  const std::uint64_t last = recorder.recorded();
  const std::uint64_t first = recorder.overwritten();
  bool is_written = out.line(TraceHeader{.process = static_cast<std::uint64_t>(::getpid()),
                                         .level = recorder.level(),
                                         .events = last - first,
                                         .overwritten = first});
  for (std::uint64_t i = first; i < last && is_written; ++i)
    is_written = out.line(recorder.at(i));
  return is_written;
}

// Says where the traces are, for the reader of the message about the check.
void write_after_failed_check() {
  const bool has_any = std::any_of(live.begin(), live.end(),
                                   [](const auto& place) { return place.load() != nullptr; });
  if (!has_any) return;
  const char* folder = std::getenv("TMPDIR");  // NOLINT(concurrency-mt-unsafe): about to abort
  std::array<char, 512> path{};
  std::snprintf(path.data(), path.size(), "%s/spindrift-crash-%d.jsonl",
                folder == nullptr || *folder == '\0' ? "/tmp" : folder, ::getpid());
  if (write_all_traces(path.data()))
    std::fprintf(stderr, "flight recorder written to %s; 'spindrift trace %s' shows it\n",
                 path.data(), path.data());
  else
    std::fprintf(stderr, "flight recorder could not be written to %s\n", path.data());
}

}  // namespace

void enlist(const FlightRecorder& recorder) {
  before_abort.store(&write_after_failed_check, std::memory_order_relaxed);
  for (auto& place : live) {
    const FlightRecorder* vacant = nullptr;
    if (place.compare_exchange_strong(vacant, &recorder)) return;
  }
}

void strike_off(const FlightRecorder& recorder) {
  for (auto& place : live) {
    const FlightRecorder* own = &recorder;
    if (place.compare_exchange_strong(own, nullptr)) return;
  }
}

bool write_all_traces(const char* path) noexcept {
  const int file = ::open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file < 0) return false;
  Writer out(file);
  bool is_written = true;
  for (const auto& place : live) {
    const FlightRecorder* recorder = place.load();
    if (recorder != nullptr) is_written = is_written && write_recorder(*recorder, out);
  }
  is_written = is_written && out.flush();
  const int error = errno;
  const bool is_closed = ::close(file) == 0;
  if (!is_written) errno = error;
  return is_written && is_closed;
}

}  // namespace spindrift
