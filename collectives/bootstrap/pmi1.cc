#include "collectives/bootstrap/pmi1.h"

#include <algorithm>
#include <cerrno>

#include <absl/strings/str_format.h>
#include <absl/strings/str_split.h>

#include "collectives/bootstrap/socket.h"

namespace spindrift::collectives {
namespace {

constexpr Duration kPause = std::chrono::milliseconds(10);
// A launcher that lives answers at once, though the answer may be that there is nothing.
constexpr Duration kAnswer = std::chrono::seconds(2);
constexpr std::size_t kMaxLine = 65536;

Error broken(std::string_view what) {
  return {ErrorCode::kIo, absl::StrFormat("the MPI launcher (PMI_FD) %s; give the ranks another "
                                          "meeting point by SPINDRIFT_RENDEZVOUS=host:port",
                                          what)};
}

std::map<std::string, std::string> parse(const std::string& line) {
  std::map<std::string, std::string> pairs;
  const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
  for (const std::string& word : words) {
    const std::pair<std::string, std::string> pair = absl::StrSplit(word, absl::MaxSplits('=', 1));
    pairs.insert(pair);
  }
  return pairs;
}

}  // namespace

Result<Pmi1Session> Pmi1Session::start(int fd, Time deadline) {
  Pmi1Session session(fd);
  const auto reply = session.ask("cmd=init pmi_version=1 pmi_subversion=1", deadline);
  if (!reply.ok()) {
    session.fd_ = -1;
    return reply.error();
  }
  return session;
}

Pmi1Session::~Pmi1Session() {
  if (fd_ >= 0) (void)ask("cmd=finalize", monotonic_now() + kAnswer);
}

Result<std::map<std::string, std::string>> Pmi1Session::ask(std::string_view question,
                                                            Time deadline) const {
  std::string line = std::string(question) + "\n";
  for (std::string_view rest = line; !rest.empty();) {
    const ssize_t sent = ::send(fd_, rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      rest.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno != EAGAIN && errno != EINTR) {
      return broken("does not listen: " + system_error(errno));
    } else if (!wait_ready(fd_, POLLOUT, deadline)) {
      return broken("does not listen");
    }
  }
  line.clear();
  while (true) {
    if (!wait_ready(fd_, POLLIN, deadline)) return broken("does not answer");
    char letter = 0;
    const ssize_t got = ::read(fd_, &letter, 1);
    if (got == 0) return broken("hung up");
    if (got < 0 && errno != EAGAIN && errno != EINTR) {
      return broken("cannot be read: " + system_error(errno));
    }
    if (got < 0) continue;
    if (letter == '\n') return parse(line);
    line += letter;
    if (line.size() > kMaxLine) return broken("answers with something else than PMI-1");
  }
}

Status Pmi1Session::publish(std::string_view name, std::string_view value, Time deadline) {
  auto reply = ask(absl::StrFormat("cmd=publish_name service=%s port=%s", name, value), deadline);
  if (!reply.ok()) return reply.error();
  if (reply.value()["rc"] == "0" || reply.value()["info"] == "ok") return ok_status();
  return broken("does not publish names: " + reply.value()["msg"]);
}

Result<std::string> Pmi1Session::look_up(const std::string& name, Time deadline) {
  while (true) {
    auto reply = ask("cmd=lookup_name service=" + name, deadline + kAnswer);
    if (!reply.ok()) return reply.error();
    if (!reply.value()["port"].empty()) return reply.value()["port"];
    if (monotonic_now() >= deadline) {
      return Error(ErrorCode::kTimedOut, absl::StrFormat("nobody published \"%s\"", name));
    }
    (void)::poll(nullptr, 0, static_cast<int>(kPause / std::chrono::milliseconds(1)));
  }
}

}  // namespace spindrift::collectives
