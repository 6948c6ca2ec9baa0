// Two processes: a server registers memory and hands it out, a client writes into it.
//   hello_write server udp://127.0.0.1:4793
//   hello_write client udp://127.0.0.1:4793
#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include "spindrift/open.h"
#include "spindrift/tunables.h"

namespace {

using namespace spindrift;
using namespace std::chrono_literals;

// The value, or the end of the program with the sentence that says why.
template <class T>
T must(Result<T> result) {
  if (result.ok()) return std::move(result.value());
  std::fprintf(stderr, "hello_write: %s\n", result.error().message().c_str());
  std::exit(1);
}

Completion must_complete(Endpoint& endpoint, const WorkRequest& work) {
  if (endpoint.post({&work, 1}).accepted == 1) {
    const Completion done = must(wait_completion(endpoint, 60s));
    if (done.status == OpStatus::kOk) return done;
  }
  std::fprintf(stderr, "hello_write: %s\n", endpoint.last_error(work.conn).c_str());
  std::exit(1);
}

void await_end(Endpoint& endpoint) {
  while (must(wait_event(endpoint, 60s)).kind == ConnEvent::Kind::kEstablished) {
  }
}

void serve(Endpoint& endpoint, std::string_view address, ConnectOptions options) {
  std::array<std::byte, 64> memory{};
  const MemoryRegion region = must(endpoint.register_memory(memory, Access::kRemoteWrite));
  must(endpoint.listen(address));
  // Whoever connects learns from our private data where it may write.
  const auto name_of_region = region.remote.serialize();
  options.private_data.assign(name_of_region.begin(), name_of_region.end());
  const ConnId conn = must(accept_one(endpoint, 60s, options));
  // A WRITE_WITH_IMM consumes a RECEIVE, whose completion carries the immediate.
  const Completion arrived = must_complete(endpoint, {.conn = conn, .kind = OpKind::kReceive});
  std::printf("received: %.*s\n", static_cast<int>(arrived.immediate),
              reinterpret_cast<const char*>(memory.data()));
  await_end(endpoint);  // the client closes the connection
}

void write_hello(Endpoint& endpoint, std::string_view address, ConnectOptions options) {
  const ConnId conn = must(connect_and_wait(endpoint, address, options));
  const RemoteRegion remote =
      must(RemoteRegion::deserialize(must(endpoint.info(conn)).private_data));
  std::string text = "hello, remote memory";
  const auto length = static_cast<std::uint32_t>(text.size());
  const MemoryRegion region =
      must(endpoint.register_memory(std::as_writable_bytes(std::span(text)), Access::kLocalRead));
  const Sge source = sge_of(region, 0, length);
  must_complete(endpoint, {.conn = conn,
                           .kind = OpKind::kWriteImm,
                           .immediate = length,
                           .local = {&source, 1},
                           .remote_key = remote.key});
  endpoint.close(conn);
  await_end(endpoint);
}

}  // namespace

int main(int count, char** arguments) {
  const std::string_view role = count == 3 ? arguments[1] : "";
  if (role != "server" && role != "client") {
    std::fprintf(stderr, "usage: hello_write server|client udp://HOST:PORT|shm://NAME\n");
    return 2;
  }
  const Settings settings = must(load_settings());
  const std::string_view address = arguments[2];
  const std::string_view provider = address.substr(0, address.find("://") + 3);
  const auto endpoint = must(open_endpoint(
      provider, {.endpoint = settings.endpoint, .udp = settings.udp, .shm = settings.shm}));
  (role == "server" ? serve : write_hello)(*endpoint, arguments[2], settings.connect);
}
