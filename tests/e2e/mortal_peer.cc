// A process for tests to kill, to stop, or to keep away from its endpoint.
//
//   mortal_peer ROLE HAS_GUARDIAN OPEN [ADDRESS]
//     mute     listens, never accepts
//     serve    accepts; its memory, named in its private data, is open to everything
//     send     accepts, then sends without end
//     call     connects to ADDRESS, then serves
//
// OPEN is the address of its own endpoint, "udp://127.0.0.1:0" or "shm://". As "nobody" in front of
// it
// ("nobody,shm://") it gives up all its privileges, as "netns" it moves to a network of its own.
//
// It prints its address, or "asking" when it calls. A line with a number of milliseconds on
// standard input makes it compute for so long: nobody calls its endpoint. It dies with who started
// it.
#include "tests/e2e/mortal_peer.h"

#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "spindrift/open.h"

namespace spindrift {
namespace {

using namespace std::chrono_literals;

void say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

class MortalPeer {
 public:
  MortalPeer(std::unique_ptr<Endpoint> endpoint, std::string role, std::string scheme)
      : endpoint_(std::move(endpoint)),
        role_(std::move(role)),
        scheme_(std::move(scheme)),
        memory_(kPeerMemory),
        region_(endpoint_->register_memory(memory_, kAllAccess).value()) {
    const auto told = region_.remote.serialize();
    options_.private_data.assign(told.begin(), told.end());
  }
  bool start(const std::string& address) {
    if (role_ == "call") {
      const bool is_under_way = endpoint_->connect(address, options_).ok();
      say("asking");
      return is_under_way;
    }
    if (!endpoint_->listen(scheme_).ok()) return false;
    say(endpoint_->local_addresses().at(0));
    return true;
  }
  void turn() {
    ConnEvent event;
    while (endpoint_->poll_events({&event, 1}) == 1)
      on_event(event);
    Completion done;
    while (endpoint_->poll({&done, 1}) == 1)
      if (done.status == OpStatus::kOk) post(done.conn);
    compute_if_told();
    endpoint_->wait(10ms);
  }

 private:
  void on_event(const ConnEvent& event) {
    if (event.kind == ConnEvent::Kind::kRequest && role_ != "mute") {
      if (!endpoint_->accept(event.conn, options_).ok()) std::exit(1);
    } else if (event.kind == ConnEvent::Kind::kEstablished) {
      for (int i = 0; i < 4; ++i)
        post(event.conn);
    }
  }
  void post(ConnId conn) {
    const Sge piece = sge_of(region_, 0, kPeerMessage);
    const WorkRequest work{.conn = conn,
                           .kind = role_ == "send" ? OpKind::kSend : OpKind::kReceive,
                           .local = {&piece, 1}};
    static_cast<void>(endpoint_->post({&work, 1}));
  }
  void compute_if_told() {
    char line[32] = {};
    const auto bytes = ::read(STDIN_FILENO, line, sizeof(line) - 1);
    if (bytes <= 0) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(std::atoi(line)));
    say("computed");
  }

  std::unique_ptr<Endpoint> endpoint_;
  std::string role_;
  std::string scheme_;  // "udp://"
  std::vector<std::byte> memory_;
  MemoryRegion region_;
  ConnectOptions options_;
};

// What stands in front of the address; the address.
std::string become(const std::string& open) {
  constexpr unsigned kNobody = 65534;
  const std::size_t comma = open.find(',');
  if (comma == std::string::npos) return open;
  const std::string what = open.substr(0, comma);
  const bool is_done = what == "netns" ? ::unshare(CLONE_NEWNET) == 0
                                       : ::setgid(kNobody) == 0 && ::setuid(kNobody) == 0;
  if (!is_done) std::exit(1);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // forgotten with the user
  return open.substr(comma + 1);
}

int run(const std::vector<std::string>& arguments) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::fcntl(STDIN_FILENO, F_SETFL, O_NONBLOCK);
  OpenOptions options;
  options.endpoint.has_guardian = arguments.at(1) == "1";
  options.endpoint.max_connections = 8;
  const std::string open = become(arguments.at(2));
  auto endpoint = open_endpoint(open, options);
  if (!endpoint.ok()) return 1;
  MortalPeer peer(std::move(endpoint).value(), arguments.at(0), open.substr(0, open.find('/') + 2));
  if (!peer.start(arguments.size() > 3 ? arguments[3] : "")) return 1;
  for (;;)
    peer.turn();
}

}  // namespace
}  // namespace spindrift

int main(int count, char** values) {
  const std::vector<std::string> arguments(values + 1, values + count);
  return arguments.size() < 3 ? 2 : spindrift::run(arguments);
}
