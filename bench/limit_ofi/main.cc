// ofi_limit: what two processes of one host can do with plain libfabric calls over one of its
// providers, and nothing above them: the yardstick of `./dev bench ofi`.
//
//   write     the parent writes messages into the child's memory, each into a place of its own
//   read      ... reads them
//   ping      short messages there and back
#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "providers/monotonic_clock.h"

namespace spindrift::limit {
namespace {

struct Options {
  std::string what = "write";
  std::string provider = "net";
  std::uint64_t message_bytes = 1U << 20U;
  std::uint32_t depth = 16;  // messages under way, each with a place of its own
  double seconds = 1;
  int first_cpu = 0;
  int second_cpu = 1;
};

void bind_to(int cpu) {
  if (cpu < 0) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<unsigned>(cpu), &set);
  static_cast<void>(sched_setaffinity(0, sizeof(set), &set));
}

[[noreturn]] void end(const char* call, long code) {
  std::printf("%s\n", nlohmann::json{{"error", std::string(call) + ": " +
                                                   fi_strerror(static_cast<int>(-code))}}
                          .dump()
                          .c_str());
  std::exit(1);
}
void must(const char* call, long code) {
  if (code < 0) end(call, code);
}

// What the two processes tell each other first.
struct Card {
  std::array<std::byte, 256> address{};
  std::size_t address_bytes = 256;
  std::uint64_t memory = 0;
  std::uint64_t key = 0;
};

// One side: an endpoint, its memory, and the other side.
class Side {
 public:
  Side(const Options& options, int talk)
      : options_(options), memory_(options.message_bytes * options.depth, std::byte{1}) {
    open();
    Card own;
    must("fi_getname", fi_getname(&endpoint_->fid, own.address.data(), &own.address_bytes));
    const bool has_addresses = (info_->domain_attr->mr_mode & FI_MR_VIRT_ADDR) != 0;
    own.memory = has_addresses ? reinterpret_cast<std::uintptr_t>(memory_.data()) : 0;
    own.key = fi_mr_key(region_);
    if (::send(talk, &own, sizeof(own), 0) != sizeof(own)) end("send", -FI_EIO);
    if (::recv(talk, &other_, sizeof(other_), MSG_WAITALL) != sizeof(other_)) end("recv", -FI_EIO);
    if (fi_av_insert(addresses_, other_.address.data(), 1, &peer_, 0, nullptr) != 1)
      end("fi_av_insert", -FI_EINVAL);
  }

  // A message of either side; tried until it is taken.
  template <class Post>
  void post(const char* call, Post post_once) {
    for (;;) {
      const long code = post_once();
      if (code == 0) return;
      if (code != -FI_EAGAIN) end(call, code);
      take();
    }
  }
  void send_short(std::size_t bytes) {
    post("fi_inject", [&] { return fi_inject(endpoint_, memory_.data(), bytes, peer_); });
  }
  void receive_short(std::size_t bytes) {
    post("fi_recv", [&] {
      return fi_recv(endpoint_, memory_.data() + options_.message_bytes / 2, bytes, descriptor(),
                     FI_ADDR_UNSPEC, &contexts_[0]);
    });
  }
  void move(std::uint32_t place) {
    const std::size_t offset = options_.message_bytes * place;
    std::byte* local = memory_.data() + offset;
    const std::uint64_t remote = other_.memory + offset;
    if (options_.what == "write")
      post("fi_write", [&] {
        return fi_write(endpoint_, local, options_.message_bytes, descriptor(), peer_, remote,
                        other_.key, &contexts_[place]);
      });
    else
      post("fi_read", [&] {
        return fi_read(endpoint_, local, options_.message_bytes, descriptor(), peer_, remote,
                       other_.key, &contexts_[place]);
      });
  }
  // What has completed; never waits.
  std::size_t take() {
    std::array<fi_cq_msg_entry, 16> entries{};
    const ssize_t count = fi_cq_read(completions_, entries.data(), entries.size());
    if (count == -FI_EAGAIN) return 0;
    must("fi_cq_read", count);
    return static_cast<std::size_t>(count);
  }

 private:
  void* descriptor() { return fi_mr_desc(region_); }
  void open() {
    fi_info* hints = fi_allocinfo();
    hints->caps = FI_MSG | FI_RMA;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->domain_attr->control_progress = FI_PROGRESS_MANUAL;
    hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
    hints->fabric_attr->prov_name = strdup(options_.provider.c_str());
    const bool has_hosts = options_.provider != "shm";
    must("fi_getinfo", fi_getinfo(FI_VERSION(1, 17), has_hosts ? "127.0.0.1" : nullptr, nullptr,
                                  has_hosts ? FI_SOURCE : 0, hints, &info_));
    fi_freeinfo(hints);
    must("fi_fabric", fi_fabric(info_->fabric_attr, &fabric_, nullptr));
    must("fi_domain", fi_domain(fabric_, info_, &domain_, nullptr));
    fi_cq_attr queue{};
    queue.format = FI_CQ_FORMAT_MSG;
    queue.wait_obj = FI_WAIT_NONE;
    must("fi_cq_open", fi_cq_open(domain_, &queue, &completions_, nullptr));
    fi_av_attr table{};
    must("fi_av_open", fi_av_open(domain_, &table, &addresses_, nullptr));
    must("fi_endpoint", fi_endpoint(domain_, info_, &endpoint_, nullptr));
    must("fi_ep_bind", fi_ep_bind(endpoint_, &completions_->fid, FI_TRANSMIT | FI_RECV));
    must("fi_ep_bind", fi_ep_bind(endpoint_, &addresses_->fid, 0));
    must("fi_enable", fi_enable(endpoint_));
    must("fi_mr_reg",
         fi_mr_reg(domain_, memory_.data(), memory_.size(),
                   FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 1,
                   0, &region_, nullptr));
  }

  const Options& options_;
  std::vector<std::byte> memory_;
  std::array<fi_context2, 4096> contexts_{};
  fi_info* info_ = nullptr;
  fid_fabric* fabric_ = nullptr;
  fid_domain* domain_ = nullptr;
  fid_cq* completions_ = nullptr;
  fid_av* addresses_ = nullptr;
  fid_ep* endpoint_ = nullptr;
  fid_mr* region_ = nullptr;
  fi_addr_t peer_ = 0;
  Card other_;
};

double seconds_since(Time start) {
  return static_cast<double>((monotonic_now() - start).count()) / 1e9;
}

constexpr std::size_t kShort = 8;

// The child answers, or lets its memory be used, until it is killed.
[[noreturn]] void serve(const Options& options, int talk) {
  bind_to(options.second_cpu);
  Side side(options, talk);
  if (options.what == "ping") side.receive_short(kShort);
  char ready = 1;
  if (::send(talk, &ready, 1, 0) != 1) end("send", -FI_EIO);
  for (;;) {
    if (side.take() == 0 || options.what != "ping") continue;
    side.receive_short(kShort);
    side.send_short(kShort);
  }
}

nlohmann::json stream(const Options& options, Side& side) {
  for (std::uint32_t i = 0; i < options.depth; ++i)
    side.move(i);
  std::uint32_t next = 0;
  std::uint64_t done = 0;
  const auto turn = [&] {
    const std::size_t count = side.take();
    done += count;
    for (std::size_t i = 0; i < count; ++i) {
      side.move(next);
      next = (next + 1) % options.depth;
    }
  };
  const Time begun = monotonic_now();
  while (seconds_since(begun) < options.seconds / 5)
    turn();
  done = 0;
  const Time start = monotonic_now();
  while (seconds_since(start) < options.seconds)
    turn();
  const double seconds = seconds_since(start);
  return {{"gb_per_s", static_cast<double>(done * options.message_bytes) / seconds / 1e9}};
}

nlohmann::json ping(const Options& options, Side& side) {
  std::vector<std::int64_t> trips;
  trips.reserve(1U << 22U);
  const Time start = monotonic_now();
  while (seconds_since(start) < options.seconds) {
    side.receive_short(kShort);
    const Time sent = monotonic_now();
    side.send_short(kShort);
    while (side.take() == 0) {
    }
    trips.push_back((monotonic_now() - sent).count());
  }
  const auto middle = trips.begin() + static_cast<std::ptrdiff_t>(trips.size() / 2);
  std::nth_element(trips.begin(), middle, trips.end());
  return {{"round_trip_ns", *middle}};
}

int run(int argc, char** argv) {
  Options options;
  CLI::App app("What two processes can do with plain libfabric calls", "ofi_limit");
  app.add_option("what", options.what, "write, read or ping")
      ->check(CLI::IsMember({"write", "read", "ping"}));
  app.add_option("--provider", options.provider, "of libfabric (net)");
  app.add_option("-s,--size", options.message_bytes, "bytes of a message (1048576)")
      ->check(CLI::Range(64ULL, 1ULL << 30U));
  app.add_option("--depth", options.depth, "messages under way (16)")->check(CLI::Range(1, 4096));
  app.add_option("-D,--duration", options.seconds, "seconds (1)")->check(CLI::Range(0.01, 600.0));
  app.add_option("--first-cpu", options.first_cpu, "processor of the parent; -1: any (0)");
  app.add_option("--second-cpu", options.second_cpu, "processor of the child; -1: any (1)");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  std::array<int, 2> talk{};
  if (::socketpair(AF_UNIX, SOCK_STREAM, 0, talk.data()) != 0) return 1;
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    serve(options, talk[1]);
  }
  ::close(talk[1]);
  bind_to(options.first_cpu);
  Side side(options, talk[0]);
  char ready = 0;
  if (::recv(talk[0], &ready, 1, 0) != 1) end("recv", -FI_EIO);
  const nlohmann::json result =
      options.what == "ping" ? ping(options, side) : stream(options, side);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  std::printf("%s\n", result.dump().c_str());
  return 0;
}

}  // namespace
}  // namespace spindrift::limit

int main(int argc, char** argv) {
  return spindrift::limit::run(argc, argv);
}
