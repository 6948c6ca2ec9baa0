#pragma once
// The server of `spindrift perf`: serves one client after another; the client says what to do.
#include <memory>
#include <string>

#include "tools/perf/messages.h"
#include "tools/perf/options.h"
#include "tools/perf/session.h"

namespace spindrift::perf {

class Server {
 public:
  explicit Server(const PerfOptions& options) : options_(options) {}
  // Listens and serves until interrupted, or once. The exit code.
  int run();

 private:
  [[nodiscard]] Status start();
  void announce() const;
  // The next client's control connection; false: interrupted.
  bool await_client(ConnId* conn);
  [[nodiscard]] Status serve(ConnId control);
  [[nodiscard]] Status open_session(Session& session, ConnId control);
  [[nodiscard]] Status follow(Session& session);
  [[nodiscard]] Status follow_one(Session& session, const nlohmann::json& message);
  void on_event(Session& session, const ConnEvent& event);
  void admit(Session& session, const ConnEvent& event);
  void say(const std::string& line) const;

  const PerfOptions& options_;
  std::unique_ptr<Endpoint> endpoint_;
  TransportChoice transport_{};
  std::uint64_t session_number_ = 0;
  std::uint32_t established_ = 0;
};

}  // namespace spindrift::perf
