#include "transport/trace_file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>
#include <system_error>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "transport/base/trace_text.h"

namespace spindrift {
namespace {

template <class T>
void append_line(const T& what, std::string& out) {
  std::array<char, kMaxTraceLine> line{};
  out.append(line.data(), format_trace_line(what, line));
}

std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\')
      out += {'\\', c};
    else if (static_cast<unsigned char>(c) < 0x20)
      out += absl::StrFormat("\\u%04x", c);
    else
      out += c;
  }
  return out + "\"";
}

// Several endpoints, of several processes, may share a file: what one of them adds stays together.
bool append_to(const std::string& path, std::string_view text) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (file < 0) return false;
  bool is_written = ::flock(file, LOCK_EX) == 0 || errno == EINVAL || errno == ENOLCK;
  while (is_written && !text.empty()) {
    const ssize_t count = ::write(file, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    is_written = count > 0;
    if (is_written) text.remove_prefix(static_cast<std::size_t>(count));
  }
  const int error = errno;
  const bool is_closed = ::close(file) == 0;
  if (!is_written) errno = error;
  return is_written && is_closed;
}

}  // namespace

Status TraceFile::append(const FlightRecorder& recorder,
                         const std::vector<TracedConnection>& connections) {
  if (path_.empty()) return ok_status();
  const std::uint64_t first = std::max(written_, recorder.overwritten());
  std::string text;
  append_line(TraceHeader{.process = static_cast<std::uint64_t>(::getpid()),
                          .level = recorder.level(),
                          .events = recorder.recorded() - first,
                          .overwritten = first - written_},
              text);
  for (const TracedConnection& one : connections)
    absl::StrAppendFormat(&text,
                          "{\"event\":\"connection\",\"conn\":%d,\"peer\":%s,\"error\":%s}\n",
                          one.id.value, json_string(one.peer), json_string(one.error));
  for (std::uint64_t i = first; i < recorder.recorded(); ++i)
    append_line(recorder.at(i), text);
  written_ = recorder.recorded();
  if (append_to(path_, text)) return ok_status();
  const int error = errno;
  return Error(ErrorCode::kIo, absl::StrCat("cannot write the trace to ", path_, ": ",
                                            std::system_category().message(error),
                                            "; name a file that can be written and has room"));
}

}  // namespace spindrift
