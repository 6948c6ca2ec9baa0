#include "tools/nccl/net.h"

#include <cstdarg>
#include <cstdio>
#include <iterator>
#include <mutex>
#include <stdexcept>

#include <dlfcn.h>

namespace spindrift::nccl_check {
namespace {

using namespace nccl;  // NOLINT(google-build-using-namespace): the interface's types

template <int kVersion>
struct Table;
template <>
struct Table<6> {
  using Net = NetV6;
  using Props = PropertiesV6;
  using Size = int;
};
template <>
struct Table<7> {
  using Net = NetV7;
  using Props = PropertiesV7;
  using Size = int;
};
template <>
struct Table<8> {
  using Net = NetV8;
  using Props = PropertiesV8;
  using Size = int;
};
template <>
struct Table<9> {
  using Net = NetV9;
  using Props = PropertiesV9;
  using Size = std::size_t;
};
template <>
struct Table<10> {
  using Net = NetV10;
  using Props = PropertiesV9;
  using Size = std::size_t;
};
template <>
struct Table<11> {
  using Net = NetV11;
  using Props = PropertiesV11;
  using Size = std::size_t;
};
template <>
struct Table<12> {
  using Net = NetV12;
  using Props = PropertiesV12;
  using Size = std::size_t;
};

template <class Props>
void take(const Props& in, Properties& out) {
  out = {};
  out.name = in.name == nullptr ? "" : in.name;
  out.pci_path = in.pciPath == nullptr ? "" : in.pciPath;
  out.guid = in.guid;
  out.ptr_support = in.ptrSupport;
  out.speed_mbps = in.speed;
  out.port = in.port;
  out.latency = in.latency;
  out.max_comms = in.maxComms;
  out.max_receives = in.maxRecvs;
  if constexpr (requires { in.regIsGlobal; }) out.reg_is_global = in.regIsGlobal;
  if constexpr (requires { in.netDeviceType; }) out.device_type = in.netDeviceType;
  if constexpr (requires { in.vProps; }) {
    for (int i = 0; i < in.vProps.ndevs && i < static_cast<int>(std::size(in.vProps.devs)); ++i)
      out.parts.push_back(in.vProps.devs[i]);
    out.max_p2p_bytes = in.maxP2pBytes;
    out.max_coll_bytes = in.maxCollBytes;
  }
}

template <int kVersion>
class NetOf final : public Net {
 public:
  using Functions = typename Table<kVersion>::Net;
  using Size = typename Table<kVersion>::Size;

  explicit NetOf(const Functions* table) : table_(*table) {}

  int version() const override { return kVersion; }
  const char* name() const override { return table_.name; }

  NcclResult init() override {
    if constexpr (kVersion >= 11) {
      CommConfig config{.trafficClass = kUndefinedTrafficClass};
      return table_.init(&context_, 0x5eed, &config, log_line, nullptr);
    } else if constexpr (kVersion == 10) {
      return table_.init(log_line, nullptr);
    } else {
      return table_.init(log_line);
    }
  }
  NcclResult devices(int* count) override { return table_.devices(count); }
  NcclResult properties(int device, Properties* out) override {
    typename Table<kVersion>::Props props{};
    const NcclResult result = table_.getProperties(device, &props);
    if (result == kSuccess) take(props, *out);
    return result;
  }
  NcclResult listen(int device, void* handle, void** comm) override {
    if constexpr (kVersion >= 11)
      return table_.listen(context_, device, handle, comm);
    else
      return table_.listen(device, handle, comm);
  }
  // Where there are device handles, NCCL sometimes passes none.
  NcclResult connect(int device, void* handle, void** comm) override {
    if constexpr (kVersion >= 11) {
      return table_.connect(context_, device, handle, comm, nullptr);
    } else if constexpr (kVersion == 10) {
      CommConfig config{.trafficClass = kUndefinedTrafficClass};
      return table_.connect(device, &config, handle, comm, nullptr);
    } else if constexpr (kVersion >= 7) {
      return table_.connect(device, handle, comm, nullptr);
    } else {
      return table_.connect(device, handle, comm);
    }
  }
  NcclResult accept(void* listen_comm, void** comm) override {
    if constexpr (kVersion >= 7) {
      DeviceHandle* device_comm = nullptr;
      return table_.accept(listen_comm, comm, &device_comm);
    } else {
      return table_.accept(listen_comm, comm);
    }
  }
  NcclResult register_memory(void* comm, void* data, std::size_t bytes, void** handle,
                             int type) override {
    if constexpr (kVersion <= 7)
      return table_.regMr(comm, data, static_cast<int>(bytes), type, handle);
    else
      return table_.regMr(comm, data, bytes, type, handle);
  }
  NcclResult register_dma_buf(void* comm, void* data, std::size_t bytes, void** handle) override {
    if (table_.regMrDmaBuf == nullptr) return kInvalidUsage;
    return table_.regMrDmaBuf(comm, data, bytes, kPtrCuda, 0, -1, handle);
  }
  NcclResult deregister_memory(void* comm, void* handle) override {
    return table_.deregMr(comm, handle);
  }
  // NOLINTNEXTLINE(readability-function-size): the parameters are NCCL's
  NcclResult isend(void* comm, void* data, std::size_t bytes, int tag, void* handle,
                   void** request) override {
    if constexpr (kVersion >= 10)
      return table_.isend(comm, data, bytes, tag, handle, nullptr, request);
    else
      return table_.isend(comm, data, static_cast<Size>(bytes), tag, handle, request);
  }
  NcclResult irecv(void* comm, const std::vector<Receive>& group, void** request) override {
    void* data[kMaxReceives];
    Size sizes[kMaxReceives];
    int tags[kMaxReceives];
    void* handles[kMaxReceives];
    void* parents[kMaxReceives] = {};
    for (std::size_t i = 0; i < group.size() && i < kMaxReceives; ++i) {
      data[i] = group[i].data;
      sizes[i] = static_cast<Size>(group[i].capacity);
      tags[i] = group[i].tag;
      handles[i] = group[i].handle;
    }
    const int n = static_cast<int>(group.size());
    if constexpr (kVersion >= 10)
      return table_.irecv(comm, n, data, sizes, tags, handles, parents, request);
    else
      return table_.irecv(comm, n, data, sizes, tags, handles, request);
  }
  NcclResult iflush(void* comm, const Receive& receive, int bytes, void** request) override {
    void* data = receive.data;
    void* handle = receive.handle;
    return table_.iflush(comm, 1, &data, &bytes, &handle, request);
  }
  NcclResult test(void* request, int* done, int* sizes) override {
    return table_.test(request, done, sizes);
  }
  NcclResult close_send(void* comm) override { return table_.closeSend(comm); }
  NcclResult close_recv(void* comm) override { return table_.closeRecv(comm); }
  NcclResult close_listen(void* comm) override { return table_.closeListen(comm); }
  bool has_make_device() const override {
    if constexpr (kVersion >= 9) return table_.makeVDevice != nullptr;
    return false;
  }
  NcclResult make_device(const std::vector<int>& parts, int* device) override {
    if constexpr (kVersion >= 9) {
      decltype(Table<kVersion>::Props::vProps) props{};
      for (const int part : parts)
        props.devs[props.ndevs++] = part;
      return table_.makeVDevice(device, &props);
    } else {
      static_cast<void>(parts);
      static_cast<void>(device);
      return kInvalidUsage;
    }
  }
  NcclResult finalize() override {
    if constexpr (kVersion >= 11) {
      void* const context = context_;
      context_ = nullptr;
      return table_.finalize(context);
    }
    return kSuccess;
  }
  NcclResult finalize_null() override {
    if constexpr (kVersion >= 11) return table_.finalize(nullptr);
    return kSuccess;
  }

 private:
  const Functions& table_;
  void* context_ = nullptr;
};

template <int kVersion>
std::unique_ptr<Net> make(void* symbol) {
  return std::make_unique<NetOf<kVersion>>(
      static_cast<const typename Table<kVersion>::Net*>(symbol));
}

std::mutex& log_mutex() {
  static std::mutex mutex;
  return mutex;
}
Said& log_state() {
  static Said state;
  return state;
}
bool& is_log_shown() {
  static bool is_shown = false;
  return is_shown;
}

}  // namespace

Said said() {
  const std::lock_guard guard(log_mutex());
  return log_state();
}

void show_log(bool is_shown) {
  is_log_shown() = is_shown;
}

void log_line(int level, unsigned long /*flags*/, const char* /*file*/, int /*line*/,
              const char* format, ...) {
  char text[2048];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  const std::lock_guard guard(log_mutex());
  ++log_state().lines;
  if (level == kLogWarn) {
    ++log_state().warnings;
    log_state().last_warning = text;
  }
  if (is_log_shown()) std::fprintf(stderr, "%s %s\n", level == kLogWarn ? "WARN" : "INFO", text);
}

Library::Library(const std::string& file) : handle_(::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) {
  if (handle_ == nullptr)
    throw std::runtime_error(::dlerror());  // NOLINT: its text is the thread's own
}

Library::~Library() {
  ::dlclose(handle_);
}

void* Library::symbol(const char* name) const {
  return ::dlsym(handle_, name);
}

std::unique_ptr<Net> Library::net(int version) const {
  void* const found = symbol(("ncclNetPlugin_v" + std::to_string(version)).c_str());
  if (found == nullptr) return nullptr;
  switch (version) {
    case 6:
      return make<6>(found);
    case 7:
      return make<7>(found);
    case 8:
      return make<8>(found);
    case 9:
      return make<9>(found);
    case 10:
      return make<10>(found);
    case 11:
      return make<11>(found);
    case 12:
      return make<12>(found);
    default:
      return nullptr;
  }
}

}  // namespace spindrift::nccl_check
