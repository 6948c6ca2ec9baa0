// udp_limit: the two processes of the yardstick.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/limit/options.h"
#include "bench/limit/ping_pong.h"
#include "bench/limit/stream.h"
#include "bench/limit/wires.h"

namespace spindrift::limit {
namespace {

int complain(const Error& error) {
  std::cerr << "udp_limit: " << error.message() << "\n";
  return error.code() == ErrorCode::kInvalidArgument ? 2 : 1;
}

Status serve_one(int listener) {
  auto accepted = accept_from(listener);
  if (!accepted.ok()) return accepted.error();
  Talk& talk = accepted.value();
  const auto request = talk.receive();
  if (!request.ok()) return request.error();
  const auto plan = parse_plan(request.value().value("plan", nlohmann::json::object()));
  const auto port = request.value().value("reply_port", std::uint16_t{0});
  Status done = !plan.ok()                           ? Status(plan.error())
                : plan.value().test == Test::kStream ? receive_stream(talk, plan.value(), port)
                                                     : pong(talk, plan.value(), port);
  if (!done.ok()) static_cast<void>(talk.send({{"error", done.error().message()}}));
  return done;
}

int serve(int listener, const Options& options) {
  bind_to_processor(options.receiver_cpu);
  for (;;) {
    const Status done = serve_one(listener);
    if (!done.ok()) complain(done.error());
    if (options.serves_once) return done.ok() ? 0 : 1;
  }
}

void print(const Options& options, nlohmann::json result) {
  const TestPlan& plan = options.plan;
  if (options.has_json) {
    result["plan"] = to_json(plan);
    std::cout << result.dump() << "\n";
  } else if (plan.test == Test::kPingPong) {
    std::printf("%u B: half a round trip %.2f us (p50), min %.2f, p99 %.2f\n", plan.packet_bytes,
                result["p50_us"].get<double>(), result["min_us"].get<double>(),
                result["p99_us"].get<double>());
  } else {
    std::printf(
        "packets of %u B, %u sockets: %.3f GB/s, %.3f Mpackets/s, %.3f CPU s/GB, %llu"
        " dropped\n",
        plan.packet_bytes, plan.sockets, result["gb_per_s"].get<double>(),
        result["packets_per_s"].get<double>() / 1e6, result["cpu_s_per_gb"].get<double>(),
        static_cast<unsigned long long>(result["kernel_drops"].get<std::uint64_t>()));
  }
}

int measure(const NetAddress& server, const Options& options) {
  bind_to_processor(options.sender_cpu);
  auto talk = connect_to(server);
  if (!talk.ok()) return complain(talk.error());
  const auto result = options.plan.test == Test::kStream ? send_stream(talk.value(), options.plan)
                                                         : ping(talk.value(), options.plan);
  if (!result.ok()) return complain(result.error());
  print(options, result.value());
  return 0;
}

// The server is a child; it dies with this process.
int measure_locally(Options options) {
  const auto any = parse_net_address("127.0.0.1", 0);
  auto listener = any.ok() ? listen_at(any.value()) : Result<UniqueFd>(any.error());
  if (!listener.ok()) return complain(listener.error());
  const NetAddress address = local_address_of(listener.value().get());
  options.serves_once = true;
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    _exit(serve(listener.value().get(), options));
  }
  if (child < 0) return complain(Error(ErrorCode::kIo, "fork failed"));
  const int code = measure(address, options);
  if (code != 0) kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  return code;
}

int run(const Options& options) {
  if (options.role == Role::kLocal) return measure_locally(options);
  const auto address = parse_net_address(options.address, 4799);
  if (!address.ok()) return complain(address.error());
  if (options.role == Role::kClient) return measure(address.value(), options);
  auto listener = listen_at(address.value());
  if (!listener.ok()) return complain(listener.error());
  return serve(listener.value().get(), options);
}

}  // namespace
}  // namespace spindrift::limit

int main(int argc, char** argv) {
  return spindrift::limit::run(spindrift::limit::parse_command_line(argc, argv));
}
