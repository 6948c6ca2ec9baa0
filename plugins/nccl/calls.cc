#include "plugins/nccl/calls.h"

#include <climits>
#include <exception>
#include <memory>
#include <mutex>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "plugins/nccl/comm.h"
#include "plugins/nccl/connecting.h"
#include "plugins/nccl/context.h"
#include "plugins/nccl/log.h"
#include "plugins/nccl/profile.h"

namespace spindrift::nccl::calls {
namespace {

// The process's. Never destroyed: NCCL's threads may still be in a call when the process exits.
struct Process {
  std::mutex mutex;
  std::unique_ptr<Plugin> plugin;
  std::unique_ptr<Context> shared;  // of NCCL versions without contexts
  std::atomic<Plugin*> ready{nullptr};
  std::uint32_t forks = 0;
};

Process& process() {
  static auto* const one = new Process;
  return *one;
}

bool is_in_child() {
  return process().ready.load(std::memory_order_acquire) != nullptr &&
         process().forks != fork_count();
}

NcclResult refuse_child() {
  warn(
      "this process was forked from one that uses the network plugin; it cannot use the "
      "connections of its parent");
  return kSystemError;
}

template <class Call>
NcclResult guarded(const char* name, Call&& call) {
  try {
    return call();
  } catch (const std::exception& e) {
    warn(absl::StrFormat("%s: %s", name, e.what()));
    return kInternalError;
  }
}

NcclResult fail(const char* call, const Error& error) {
  warn(absl::StrFormat("%s: %s", call, error.message()));
  return error.code() == ErrorCode::kInvalidArgument ? kInvalidUsage : kSystemError;
}

// With the process's mutex.
NcclResult start(int version, Logger logger, ProfilerCallback profiler) {
  set_logger(logger);
  set_profiler(profiler);
  Process& p = process();
  if (p.plugin != nullptr) return kSuccess;
  auto made = Plugin::make(plugin_sources(), scan_interfaces(), scan_adapters());
  if (!made.ok()) return fail("init", made.error());
  p.forks = fork_count();
  p.plugin = std::move(made).value();
  p.ready.store(p.plugin.get(), std::memory_order_release);
  for (const std::string& note : p.plugin->settings().notes)
    inform(kLogInit | kLogNet, note);
  inform(kLogInit | kLogNet, absl::StrFormat("net API v%d, %s", version, p.plugin->describe()));
  if (p.plugin->devices().count() == 0)
    warn(
        "no usable network device: no interface is up with an address and passes the filters "
        "(SPINDRIFT_NCCL_IFNAME, NCCL_IB_HCA, NCCL_SOCKET_IFNAME, NCCL_SOCKET_FAMILY)");
  return kSuccess;
}

Plugin* ready_plugin() {
  return process().ready.load(std::memory_order_acquire);
}

Context* to_context(void* context) {
  return context == nullptr ? process().shared.get() : static_cast<Context*>(context);
}

}  // namespace

NcclResult init(int version, Logger logger, ProfilerCallback profiler) {
  return guarded("init", [&] {
    const std::lock_guard guard(process().mutex);
    const NcclResult started = start(version, logger, profiler);
    if (started != kSuccess) return started;
    if (process().shared == nullptr)
      process().shared = std::make_unique<Context>(*process().plugin, true, kUndefinedTrafficClass);
    return kSuccess;
  });
}

NcclResult init_context(int version, void** context, const CommConfig* config, Logger logger,
                        ProfilerCallback profiler) {
  *context = nullptr;
  return guarded("init", [&] {
    const std::lock_guard guard(process().mutex);
    const NcclResult started = start(version, logger, profiler);
    if (started != kSuccess) return started;
    const int traffic_class = config == nullptr ? kUndefinedTrafficClass : config->trafficClass;
    *context = new Context(*process().plugin, false, traffic_class);
    return kSuccess;
  });
}

NcclResult finalize(void* context) {
  if (context == nullptr || is_in_child()) return kSuccess;
  return guarded("finalize", [&] {
    delete static_cast<Context*>(context);
    return kSuccess;
  });
}

NcclResult devices(int* count) {
  Plugin* const plugin = ready_plugin();
  *count = plugin == nullptr ? 0 : plugin->devices().count();
  return kSuccess;
}

const Device* find_device(int index) {
  Plugin* const plugin = ready_plugin();
  return plugin == nullptr ? nullptr : plugin->devices().find(index);
}

NcclResult make_device(int* index, int count, const int* parts) {
  return guarded("makeVDevice", [&] {
    Plugin* const plugin = ready_plugin();
    if (plugin == nullptr || count < 1) return kInvalidArgument;
    const auto made = plugin->devices().merge({parts, parts + count});
    if (!made.ok()) return fail("makeVDevice", made.error());
    *index = made.value();
    inform(kLogInit | kLogNet, absl::StrFormat("device %d stripes over %s", made.value(),
                                               plugin->devices().find(made.value())->name));
    return kSuccess;
  });
}

NcclResult listen(void* context, int device, void* handle, void** listen_comm) {
  *listen_comm = nullptr;
  if (is_in_child()) return refuse_child();
  return guarded("listen", [&] {
    Context* const owner = to_context(context);
    if (owner == nullptr) return kInvalidUsage;
    auto opened = Listener::open(*owner, device, handle);
    if (!opened.ok()) return fail("listen", opened.error());
    *listen_comm = std::move(opened).value().release();
    return kSuccess;
  });
}

NcclResult connect(void* context, int device, int traffic_class, void* handle, void** send_comm) {
  *send_comm = nullptr;
  if (is_in_child()) return refuse_child();
  return guarded("connect", [&] {
    Context* const owner = to_context(context);
    if (owner == nullptr) return kInvalidUsage;
    const auto parsed = read_handle(handle);
    if (!parsed.ok()) return fail("connect", parsed.error());
    Attempt* attempt = owner->find_attempt(attempt_of(handle));
    if (attempt == nullptr || attempt->nonce() != parsed.value().nonce) {
      const int wanted = traffic_class >= 0 ? traffic_class : owner->traffic_class();
      auto started = Attempt::start(*owner, device, parsed.value(), wanted);
      if (!started.ok()) return fail("connect", started.error());
      attempt = started.value().get();
      set_attempt(handle, owner->add_attempt(std::move(started).value()));
    }
    auto stepped = attempt->step();
    if (stepped.ok() && stepped.value() == nullptr) return kSuccess;
    static_cast<void>(owner->take_attempt(attempt_of(handle)));
    set_attempt(handle, 0);
    if (!stepped.ok()) {
      static_cast<void>(fail("connect", stepped.error()));
      return kRemoteError;
    }
    *send_comm = static_cast<Comm*>(std::move(stepped).value().release());
    return kSuccess;
  });
}

NcclResult accept(void* listen_comm, void** recv_comm) {
  *recv_comm = nullptr;
  if (listen_comm == nullptr) return kInvalidArgument;
  if (is_in_child()) return refuse_child();
  return guarded("accept", [&] {
    auto accepted = static_cast<Listener*>(listen_comm)->accept();
    if (accepted != nullptr) *recv_comm = static_cast<Comm*>(accepted.release());
    return kSuccess;
  });
}

NcclResult close_send(void* send_comm) {
  if (send_comm == nullptr || is_in_child()) return kSuccess;
  return guarded("closeSend", [&] {
    end_comm(std::unique_ptr<Comm>(static_cast<Comm*>(send_comm)));
    return kSuccess;
  });
}

NcclResult close_recv(void* recv_comm) {
  return close_send(recv_comm);
}

NcclResult close_listen(void* listen_comm) {
  if (listen_comm == nullptr || is_in_child()) return kSuccess;
  return guarded("closeListen", [&] {
    delete static_cast<Listener*>(listen_comm);
    return kSuccess;
  });
}

NcclResult register_memory(void* comm, void* data, std::size_t bytes, int type, void** handle) {
  *handle = nullptr;
  if (comm == nullptr || data == nullptr) return kInvalidArgument;
  if (is_in_child()) return refuse_child();
  if (type != kPtrHost) {
    warn(
        absl::StrFormat("regMr: %d bytes of device memory, and this provider reaches host memory "
                        "only, as ptrSupport says",
                        bytes));
    return kInvalidUsage;
  }
  return guarded("regMr", [&] {
    Comm& owner = *static_cast<Comm*>(comm);
    Registrations& memory = owner.context().plugin().memory();
    Registration* const made = memory.take({static_cast<std::byte*>(data), bytes});
    Status status = ok_status();
    {
      const std::lock_guard guard(owner.engine());
      const auto region = owner.engine().region_of(made->number, made->bytes);
      if (!region.ok()) status = region.error();
    }
    if (!status.ok()) {
      if (memory.give_back(made) != nullptr) memory.retire(made);
      return fail("regMr", status.error());
    }
    *handle = made;
    return kSuccess;
  });
}

// NOLINTBEGIN(readability-function-size): the parameters are NCCL's
NcclResult register_dma_buf(void* /*comm*/, void* /*data*/, std::size_t bytes, int /*type*/,
                            std::uint64_t /*offset*/, int /*fd*/, void** handle) {
  *handle = nullptr;
  warn(
      absl::StrFormat("regMrDmaBuf: %d bytes of device memory, and this provider reaches host "
                      "memory only, as ptrSupport says",
                      bytes));
  return kInvalidUsage;
}

NcclResult deregister_memory(void* /*comm*/, void* handle) {
  if (handle == nullptr || is_in_child()) return kSuccess;
  return guarded("deregMr", [&] {
    Plugin& plugin = *ready_plugin();
    Registration* const last = plugin.memory().give_back(static_cast<Registration*>(handle));
    if (last == nullptr) return kSuccess;
    plugin.drop_everywhere(*last);
    plugin.memory().retire(last);
    return kSuccess;
  });
}

NcclResult isend(void* send_comm, void* data, std::size_t bytes, int tag, void* handle,
                 void* profiled_by, void** request) {
  *request = nullptr;
  if (is_in_child()) return refuse_child();
  if (bytes > INT_MAX) {
    warn(absl::StrFormat("isend: %d bytes in one message; at most %d", bytes, INT_MAX));
    return kInvalidArgument;
  }
  return guarded("isend", [&] {
    Request* made = nullptr;
    const NcclResult result = static_cast<SendComm*>(static_cast<Comm*>(send_comm))
                                  ->isend({.data = static_cast<std::byte*>(data),
                                           .bytes = bytes,
                                           .tag = tag,
                                           .memory = static_cast<Registration*>(handle)},
                                          profiled_by, &made);
    *request = made;
    return result;
  });
}

// NOLINTEND(readability-function-size)
NcclResult irecv(void* recv_comm, const Receives& receives, void** request) {
  *request = nullptr;
  if (is_in_child()) return refuse_child();
  if (receives.count < 1 || receives.count > kMaxReceives) {
    warn(absl::StrFormat("irecv: a group of %d receives; 1..%d", receives.count, kMaxReceives));
    return kInvalidArgument;
  }
  return guarded("irecv", [&] {
    std::array<RecvComm::Receive, kMaxReceives> group;
    for (int i = 0; i < receives.count; ++i)
      group[static_cast<std::size_t>(i)] = {
          .data = static_cast<std::byte*>(receives.data[i]),
          .capacity = receives.sizes[i],
          .tag = receives.tags[i],
          .memory = static_cast<Registration*>(receives.handles[i])};
    Request* made = nullptr;
    const NcclResult result =
        static_cast<RecvComm*>(static_cast<Comm*>(recv_comm))
            ->irecv(std::span(group).first(static_cast<std::size_t>(receives.count)),
                    receives.profiled_by == nullptr ? nullptr : receives.profiled_by[0], &made);
    *request = made;
    return result;
  });
}

// Bytes are placed by this process's own stores into host memory: whoever saw the completion sees
// them.
NcclResult iflush(void* /*recv_comm*/, void** request) {
  *request = nullptr;
  return kSuccess;
}

NcclResult test(void* request, int* done, int* sizes) {
  *done = 0;
  if (request == nullptr) return kInvalidArgument;
  if (is_in_child()) return refuse_child();
  return guarded("test", [&] {
    auto& mine = *static_cast<Request*>(request);
    return mine.comm->test(mine, done, sizes);
  });
}

bool keeps_ll128() {
  Plugin* const plugin = ready_plugin();
  return plugin == nullptr || plugin->settings().keeps_ll128;
}

}  // namespace spindrift::nccl::calls
