// What NCCL looks up in the library: one table per version of its interface, all over calls.h.
#include <array>

#include "plugins/nccl/abi.h"
#include "plugins/nccl/calls.h"

namespace spindrift::nccl {
namespace {

constexpr const char* kName = "Spindrift";
constexpr std::size_t kMaxMessageBytesV9 = std::size_t{1} << 30;  // sizes of test() are ints
constexpr int kMaxComms = 65536;
constexpr float kLatencyUs = 5;  // NCCL drops what is behind the point

// Fields that all versions have.
template <class Properties>
void fill_common(const Device& device, Properties& out) {
  out = {};
  out.name = const_cast<char*>(device.name.c_str());
  out.pciPath = device.pci_path.empty() ? nullptr : const_cast<char*>(device.pci_path.c_str());
  out.guid = device.guid;
  out.ptrSupport = kPtrHost;
  out.speed = device.speed_mbps;
  out.port = device.port;
  out.latency = kLatencyUs;
  out.maxComms = kMaxComms;
  out.maxRecvs = kMaxReceives;
}

template <class Properties>
void fill(const Device& device, Properties& out) {
  fill_common(device, out);
  if constexpr (requires { out.regIsGlobal; }) out.regIsGlobal = 1;
  if constexpr (requires { out.vProps; }) {
    for (const int part : device.parts)
      out.vProps.devs[out.vProps.ndevs++] = part;
    out.maxP2pBytes = kMaxMessageBytesV9;
    out.maxCollBytes = kMaxMessageBytesV9;
  }
  if constexpr (requires { out.maxMultiRequestSize; }) out.maxMultiRequestSize = 1;
  if constexpr (requires { out.railId; }) {
    out.railId = kUndefinedRail;
    out.planeId = kUndefinedRail;
  }
}

template <class Properties>
NcclResult get_properties(int index, Properties* out) {
  const Device* const device = calls::find_device(index);
  if (device == nullptr) return kInvalidArgument;
  fill(*device, *out);
  return kSuccess;
}

template <int kVersion>
NcclResult init(Logger logger) {
  return calls::init(kVersion, logger, nullptr);
}

NcclResult init_v10(Logger logger, ProfilerCallback profiler) {
  return calls::init(10, logger, profiler);
}

template <int kVersion>
NcclResult init_context(void** context, std::uint64_t /*comm_id*/, CommConfig* config,
                        Logger logger, ProfilerCallback profiler) {
  return calls::init_context(kVersion, context, config, logger, profiler);
}

NcclResult listen(int device, void* handle, void** comm) {
  return calls::listen(nullptr, device, handle, comm);
}

NcclResult connect_v6(int device, void* handle, void** comm) {
  return calls::connect(nullptr, device, kUndefinedTrafficClass, handle, comm);
}

// Device handles are for networks that a GPU drives; it is left null where it is there at all.
NcclResult connect_v7(int device, void* handle, void** comm, DeviceHandle** /*device_comm*/) {
  return connect_v6(device, handle, comm);
}

NcclResult connect_v10(int device, CommConfig* config, void* handle, void** comm,
                       DeviceHandle** /*device_comm*/) {
  return calls::connect(nullptr, device,
                        config == nullptr ? kUndefinedTrafficClass : config->trafficClass, handle,
                        comm);
}

NcclResult connect_v11(void* context, int device, void* handle, void** comm,
                       DeviceHandle** /*device_comm*/) {
  return calls::connect(context, device, kUndefinedTrafficClass, handle, comm);
}

NcclResult accept_v7(void* listen_comm, void** comm, DeviceHandle** /*device_comm*/) {
  return calls::accept(listen_comm, comm);
}

template <class Size>
NcclResult register_memory(void* comm, void* data, Size bytes, int type, void** handle) {
  if constexpr (sizeof(Size) < sizeof(std::size_t))
    if (bytes < 0) return kInvalidArgument;
  return calls::register_memory(comm, data, static_cast<std::size_t>(bytes), type, handle);
}

// NOLINTBEGIN(readability-function-size): the parameters are NCCL's
NcclResult isend_v6(void* comm, void* data, int bytes, int tag, void* handle, void** request) {
  if (bytes < 0) return kInvalidArgument;
  return calls::isend(comm, data, static_cast<std::size_t>(bytes), tag, handle, nullptr, request);
}

NcclResult isend_v9(void* comm, void* data, std::size_t bytes, int tag, void* handle,
                    void** request) {
  return calls::isend(comm, data, bytes, tag, handle, nullptr, request);
}

NcclResult irecv_v6(void* comm, int count, void** data, int* sizes, int* tags, void** handles,
                    void** request) {
  std::array<std::size_t, kMaxReceives> wide{};
  for (int i = 0; i < count && i < kMaxReceives; ++i) {
    if (sizes[i] < 0) return kInvalidArgument;
    wide[static_cast<std::size_t>(i)] = static_cast<std::size_t>(sizes[i]);
  }
  return calls::irecv(
      comm, {.count = count, .data = data, .sizes = wide.data(), .tags = tags, .handles = handles},
      request);
}

NcclResult irecv_v9(void* comm, int count, void** data, std::size_t* sizes, int* tags,
                    void** handles, void** request) {
  return calls::irecv(
      comm, {.count = count, .data = data, .sizes = sizes, .tags = tags, .handles = handles},
      request);
}

NcclResult irecv_v10(void* comm, int count, void** data, std::size_t* sizes, int* tags,
                     void** handles, void** profiled_by, void** request) {
  return calls::irecv(comm,
                      {.count = count,
                       .data = data,
                       .sizes = sizes,
                       .tags = tags,
                       .handles = handles,
                       .profiled_by = profiled_by},
                      request);
}

NcclResult iflush(void* comm, int /*count*/, void** /*data*/, int* /*sizes*/, void** /*handles*/,
                  void** request) {
  return calls::iflush(comm, request);
}

// NOLINTEND(readability-function-size)

template <class VProps>
NcclResult make_device(int* index, VProps* parts) {
  if (index == nullptr || parts == nullptr || parts->ndevs < 1 ||
      parts->ndevs > static_cast<int>(std::size(parts->devs)))
    return kInvalidArgument;
  return calls::make_device(index, parts->ndevs, parts->devs);
}

}  // namespace
}  // namespace spindrift::nccl

// The names are NCCL's.
#define SPINDRIFT_NCCL_EXPORT extern "C" __attribute__((visibility("default"))) const

using namespace spindrift::nccl;  // NOLINT(google-build-using-namespace): tables of its functions

SPINDRIFT_NCCL_EXPORT NetV6 ncclNetPlugin_v6 = {  // NOLINT(readability-identifier-naming)
    .name = kName,
    .init = init<6>,
    .devices = calls::devices,
    .getProperties = get_properties<PropertiesV6>,
    .listen = listen,
    .connect = connect_v6,
    .accept = calls::accept,
    .regMr = register_memory<int>,
    .regMrDmaBuf = calls::register_dma_buf,
    .deregMr = calls::deregister_memory,
    .isend = isend_v6,
    .irecv = irecv_v6,
    .iflush = iflush,
    .test = calls::test,
    .closeSend = calls::close_send,
    .closeRecv = calls::close_recv,
    .closeListen = calls::close_listen};

// Versions 7 and 8 differ in the type of one length.
template <class Net, class Properties, class Size, int kVersion>
constexpr Net make_v7_to_8() {
  return {.name = kName,
          .init = init<kVersion>,
          .devices = calls::devices,
          .getProperties = get_properties<Properties>,
          .listen = listen,
          .connect = connect_v7,
          .accept = accept_v7,
          .regMr = register_memory<Size>,
          .regMrDmaBuf = calls::register_dma_buf,
          .deregMr = calls::deregister_memory,
          .isend = isend_v6,
          .irecv = irecv_v6,
          .iflush = iflush,
          .test = calls::test,
          .closeSend = calls::close_send,
          .closeRecv = calls::close_recv,
          .closeListen = calls::close_listen,
          .getDeviceMr = nullptr,
          .irecvConsumed = nullptr};
}

SPINDRIFT_NCCL_EXPORT NetV7 ncclNetPlugin_v7 =  // NOLINT(readability-identifier-naming)
    make_v7_to_8<NetV7, PropertiesV7, int, 7>();
SPINDRIFT_NCCL_EXPORT NetV8 ncclNetPlugin_v8 =  // NOLINT(readability-identifier-naming)
    make_v7_to_8<NetV8, PropertiesV8, std::size_t, 8>();

SPINDRIFT_NCCL_EXPORT NetV9 ncclNetPlugin_v9 = {  // NOLINT(readability-identifier-naming)
    .name = kName,
    .init = init<9>,
    .devices = calls::devices,
    .getProperties = get_properties<PropertiesV9>,
    .listen = listen,
    .connect = connect_v7,
    .accept = accept_v7,
    .regMr = register_memory<std::size_t>,
    .regMrDmaBuf = calls::register_dma_buf,
    .deregMr = calls::deregister_memory,
    .isend = isend_v9,
    .irecv = irecv_v9,
    .iflush = iflush,
    .test = calls::test,
    .closeSend = calls::close_send,
    .closeRecv = calls::close_recv,
    .closeListen = calls::close_listen,
    .getDeviceMr = nullptr,
    .irecvConsumed = nullptr,
    .makeVDevice = make_device<VDeviceProps>};

SPINDRIFT_NCCL_EXPORT NetV10 ncclNetPlugin_v10 = {  // NOLINT(readability-identifier-naming)
    .name = kName,
    .init = init_v10,
    .devices = calls::devices,
    .getProperties = get_properties<PropertiesV9>,
    .listen = listen,
    .connect = connect_v10,
    .accept = accept_v7,
    .regMr = register_memory<std::size_t>,
    .regMrDmaBuf = calls::register_dma_buf,
    .deregMr = calls::deregister_memory,
    .isend = calls::isend,
    .irecv = irecv_v10,
    .iflush = iflush,
    .test = calls::test,
    .closeSend = calls::close_send,
    .closeRecv = calls::close_recv,
    .closeListen = calls::close_listen,
    .getDeviceMr = nullptr,
    .irecvConsumed = nullptr,
    .makeVDevice = make_device<VDeviceProps>};

// Versions 11 and 12 differ in properties alone.
template <class Net, class Properties, class VProps, int kVersion>
constexpr Net make_v11_to_12() {
  return {.name = kName,
          .init = init_context<kVersion>,
          .devices = calls::devices,
          .getProperties = get_properties<Properties>,
          .listen = calls::listen,
          .connect = connect_v11,
          .accept = accept_v7,
          .regMr = register_memory<std::size_t>,
          .regMrDmaBuf = calls::register_dma_buf,
          .deregMr = calls::deregister_memory,
          .isend = calls::isend,
          .irecv = irecv_v10,
          .iflush = iflush,
          .test = calls::test,
          .closeSend = calls::close_send,
          .closeRecv = calls::close_recv,
          .closeListen = calls::close_listen,
          .getDeviceMr = nullptr,
          .irecvConsumed = nullptr,
          .makeVDevice = make_device<VProps>,
          .finalize = calls::finalize,
          .setNetAttr = nullptr};
}

SPINDRIFT_NCCL_EXPORT NetV11 ncclNetPlugin_v11 =  // NOLINT(readability-identifier-naming)
    make_v11_to_12<NetV11, PropertiesV11, VDeviceProps, 11>();
SPINDRIFT_NCCL_EXPORT NetV12 ncclNetPlugin_v12 =  // NOLINT(readability-identifier-naming)
    make_v11_to_12<NetV12, PropertiesV12, VDevicePropsV12, 12>();
