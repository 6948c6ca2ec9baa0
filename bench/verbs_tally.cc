// Loaded in front of a program of libibverbs (LD_PRELOAD), counts what it asks its devices for, and
// appends one line of JSON to the file that VERBS_TALLY names when the program ends. Programs that
// use ibv_wr_start() and what belongs to it are not counted (perftest: --use_old_post_send).
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include <dlfcn.h>
#include <infiniband/verbs.h>

// ibverbs.h makes a macro of one of them.
#undef ibv_open_device

namespace {

struct Tally {
  std::atomic<std::uint64_t> requests{0};     // to send and to receive
  std::atomic<std::uint64_t> doorbells{0};    // calls that posted some
  std::atomic<std::uint64_t> completions{0};  // taken

  ~Tally() {
    const char* const path = std::getenv("VERBS_TALLY");  // NOLINT(concurrency-mt-unsafe): the end
    std::FILE* const file = path == nullptr ? nullptr : std::fopen(path, "a");
    if (file == nullptr) return;
    std::fprintf(file, "{\"requests\":%llu,\"doorbells\":%llu,\"completions\":%llu}\n",
                 static_cast<unsigned long long>(requests.load()),
                 static_cast<unsigned long long>(doorbells.load()),
                 static_cast<unsigned long long>(completions.load()));
    std::fclose(file);
  }
};
Tally tally;

// Those of the device's own driver; all devices of one program have the same.
ibv_context_ops real;

template <class Request>
std::uint64_t length_of(const Request* first) {
  std::uint64_t count = 0;
  for (; first != nullptr; first = first->next)
    ++count;
  return count;
}

int post_send(ibv_qp* pair, ibv_send_wr* first, ibv_send_wr** bad) {
  tally.requests += length_of(first);
  ++tally.doorbells;
  return real.post_send(pair, first, bad);
}

int post_receive(ibv_qp* pair, ibv_recv_wr* first, ibv_recv_wr** bad) {
  tally.requests += length_of(first);
  ++tally.doorbells;
  return real.post_recv(pair, first, bad);
}

int poll(ibv_cq* queue, int most, ibv_wc* out) {
  const int count = real.poll_cq(queue, most, out);
  if (count > 0) tally.completions += static_cast<std::uint64_t>(count);
  return count;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) ibv_context* ibv_open_device(ibv_device* device) {
  static const auto open = reinterpret_cast<ibv_context* (*)(ibv_device*)>(
      ::dlvsym(RTLD_NEXT, "ibv_open_device", "IBVERBS_1.1"));
  ibv_context* const context = open == nullptr ? nullptr : open(device);
  if (context == nullptr) return nullptr;
  real = context->ops;
  context->ops.post_send = post_send;
  context->ops.post_recv = post_receive;
  context->ops.poll_cq = poll;
  return context;
}
