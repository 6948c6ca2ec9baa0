#pragma once
// The binary interface between NCCL and its network plugins, versions 6 to 12, written from its
// published layout. Names follow NCCL's; sizes and offsets are checked where they are declared.
#include <cstddef>
#include <cstdint>

namespace spindrift::nccl {

// Every call returns one.
enum NcclResult : int {
  kSuccess = 0,
  kUnhandledCudaError = 1,
  kSystemError = 2,
  kInternalError = 3,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
  kRemoteError = 6,
  kInProgress = 7,
};

enum LogLevel : int { kLogNone, kLogVersion, kLogWarn, kLogInfo, kLogAbort, kLogTrace };
inline constexpr unsigned long kLogInit = 1;
inline constexpr unsigned long kLogNet = 16;
inline constexpr unsigned long kLogTuning = 64;
using Logger = void (*)(int level, unsigned long flags, const char* file, int line,
                        const char* format, ...);

enum ProfilerCall : int { kProfileStart, kProfileStop, kProfileUpdate, kProfileUpdateAndStop };
using ProfilerCallback = NcclResult (*)(void** event, int call, void* parent, std::int64_t plugin,
                                        void* details);

// Bits of Properties::ptrSupport, and the type that regMr is told.
inline constexpr int kPtrHost = 1;
inline constexpr int kPtrCuda = 2;
inline constexpr int kPtrDmaBuf = 4;

inline constexpr std::size_t kHandleBytes = 128;    // what listen() fills and connect() gets
inline constexpr int kMaxRequests = 32;             // outstanding per connection
inline constexpr int kMaxReceives = 8;              // grouped in one irecv
inline constexpr int kMaxVDeviceV11 = 4;            // devices behind one, up to version 11
inline constexpr int kMaxVDeviceV12 = 8;            // and from 12 on
inline constexpr std::int16_t kUndefinedRail = -1;  // railId, planeId
inline constexpr int kUndefinedTrafficClass = -1;   // CommConfig::trafficClass
inline void* const kOptionalCompletion = reinterpret_cast<void*>(std::uintptr_t{1});

struct DeviceHandle {
  int netDeviceType;
  int netDeviceVersion;
  void* handle;
  std::size_t size;
  int needsProxyProgress;
};
static_assert(sizeof(DeviceHandle) == 32);

struct CommConfig {
  int trafficClass;
};

struct CommAttr {
  std::int32_t maxConcurrentPeers;
  std::int32_t minConcurrentPeers;
  std::int32_t maxFlowsPerPeer;
  std::int32_t minFlowsPerPeer;
};
struct NetAttr {
  CommAttr sendCommAttr;
  CommAttr recvCommAttr;
  std::uint32_t op;
  std::uint32_t algo;
  std::uint32_t proto;
};
static_assert(sizeof(NetAttr) == 44);

struct VDeviceProps {
  int ndevs;
  int devs[kMaxVDeviceV11];
};
struct VDevicePropsV12 {
  int ndevs;
  int devs[kMaxVDeviceV12];
};
static_assert(sizeof(VDeviceProps) == 20 && sizeof(VDevicePropsV12) == 36);

struct PropertiesV6 {
  char* name;
  char* pciPath;
  std::uint64_t guid;
  int ptrSupport;
  int speed;  // Mb/s
  int port;
  float latency;  // us
  int maxComms;
  int maxRecvs;
};
static_assert(sizeof(PropertiesV6) == 48 && offsetof(PropertiesV6, speed) == 28 &&
              offsetof(PropertiesV6, maxRecvs) == 44);

struct PropertiesV7 {
  char* name;
  char* pciPath;
  std::uint64_t guid;
  int ptrSupport;
  int speed;
  int port;
  float latency;
  int maxComms;
  int maxRecvs;
  int netDeviceType;
  int netDeviceVersion;
};
static_assert(sizeof(PropertiesV7) == 56 && offsetof(PropertiesV7, netDeviceType) == 48);

struct PropertiesV8 {
  char* name;
  char* pciPath;
  std::uint64_t guid;
  int ptrSupport;
  int regIsGlobal;
  int speed;
  int port;
  float latency;
  int maxComms;
  int maxRecvs;
  int netDeviceType;
  int netDeviceVersion;
};
static_assert(sizeof(PropertiesV8) == 64 && offsetof(PropertiesV8, regIsGlobal) == 28 &&
              offsetof(PropertiesV8, speed) == 32 &&
              offsetof(PropertiesV8, netDeviceVersion) == 56);

struct PropertiesV9 {  // and version 10
  char* name;
  char* pciPath;
  std::uint64_t guid;
  int ptrSupport;
  int regIsGlobal;
  int forceFlush;
  int speed;
  int port;
  float latency;
  int maxComms;
  int maxRecvs;
  int netDeviceType;
  int netDeviceVersion;
  VDeviceProps vProps;
  std::size_t maxP2pBytes;
  std::size_t maxCollBytes;
};
static_assert(sizeof(PropertiesV9) == 104 && offsetof(PropertiesV9, forceFlush) == 32 &&
              offsetof(PropertiesV9, vProps) == 64 && offsetof(PropertiesV9, maxP2pBytes) == 88);

struct PropertiesV11 {
  char* name;
  char* pciPath;
  std::uint64_t guid;
  int ptrSupport;
  int regIsGlobal;
  int forceFlush;
  int speed;
  int port;
  float latency;
  int maxComms;
  int maxRecvs;
  int netDeviceType;
  int netDeviceVersion;
  VDeviceProps vProps;
  std::size_t maxP2pBytes;
  std::size_t maxCollBytes;
  int maxMultiRequestSize;
};
static_assert(sizeof(PropertiesV11) == 112 && offsetof(PropertiesV11, maxMultiRequestSize) == 104);

struct PropertiesV12 {
  char* name;
  char* pciPath;
  std::uint64_t guid;
  int ptrSupport;
  int regIsGlobal;
  int forceFlush;
  int speed;
  int port;
  float latency;
  int maxComms;
  int maxRecvs;
  int netDeviceType;
  int netDeviceVersion;
  VDevicePropsV12 vProps;
  std::size_t maxP2pBytes;
  std::size_t maxCollBytes;
  int maxMultiRequestSize;
  std::int16_t railId;
  std::int16_t planeId;
};
static_assert(sizeof(PropertiesV12) == 128 && offsetof(PropertiesV12, maxP2pBytes) == 104 &&
              offsetof(PropertiesV12, railId) == 124 && offsetof(PropertiesV12, planeId) == 126);

struct NetV6 {
  const char* name;
  NcclResult (*init)(Logger);
  NcclResult (*devices)(int* count);
  NcclResult (*getProperties)(int device, PropertiesV6*);
  NcclResult (*listen)(int device, void* handle, void** listenComm);
  NcclResult (*connect)(int device, void* handle, void** sendComm);
  NcclResult (*accept)(void* listenComm, void** recvComm);
  NcclResult (*regMr)(void* comm, void* data, int bytes, int type, void** mhandle);
  NcclResult (*regMrDmaBuf)(void* comm, void* data, std::size_t bytes, int type,
                            std::uint64_t offset, int fd, void** mhandle);
  NcclResult (*deregMr)(void* comm, void* mhandle);
  NcclResult (*isend)(void* sendComm, void* data, int bytes, int tag, void* mhandle,
                      void** request);
  NcclResult (*irecv)(void* recvComm, int n, void** data, int* sizes, int* tags, void** mhandles,
                      void** request);
  NcclResult (*iflush)(void* recvComm, int n, void** data, int* sizes, void** mhandles,
                       void** request);
  NcclResult (*test)(void* request, int* done, int* sizes);
  NcclResult (*closeSend)(void* sendComm);
  NcclResult (*closeRecv)(void* recvComm);
  NcclResult (*closeListen)(void* listenComm);
};
static_assert(sizeof(NetV6) == 17 * sizeof(void*) &&
              offsetof(NetV6, closeListen) == 16 * sizeof(void*));

// What versions 7 and 8 have behind `name` and `init`; `Size` is the type of lengths.
template <class Properties, class Size>
struct NetV7To8 {
  const char* name;
  NcclResult (*init)(Logger);
  NcclResult (*devices)(int* count);
  NcclResult (*getProperties)(int device, Properties*);
  NcclResult (*listen)(int device, void* handle, void** listenComm);
  NcclResult (*connect)(int device, void* handle, void** sendComm, DeviceHandle** sendDevComm);
  NcclResult (*accept)(void* listenComm, void** recvComm, DeviceHandle** recvDevComm);
  NcclResult (*regMr)(void* comm, void* data, Size bytes, int type, void** mhandle);
  NcclResult (*regMrDmaBuf)(void* comm, void* data, std::size_t bytes, int type,
                            std::uint64_t offset, int fd, void** mhandle);
  NcclResult (*deregMr)(void* comm, void* mhandle);
  NcclResult (*isend)(void* sendComm, void* data, int bytes, int tag, void* mhandle,
                      void** request);
  NcclResult (*irecv)(void* recvComm, int n, void** data, int* sizes, int* tags, void** mhandles,
                      void** request);
  NcclResult (*iflush)(void* recvComm, int n, void** data, int* sizes, void** mhandles,
                       void** request);
  NcclResult (*test)(void* request, int* done, int* sizes);
  NcclResult (*closeSend)(void* sendComm);
  NcclResult (*closeRecv)(void* recvComm);
  NcclResult (*closeListen)(void* listenComm);
  NcclResult (*getDeviceMr)(void* comm, void* mhandle, void** deviceMhandle);
  NcclResult (*irecvConsumed)(void* recvComm, int n, void* request);
};
using NetV7 = NetV7To8<PropertiesV7, int>;
using NetV8 = NetV7To8<PropertiesV8, std::size_t>;
static_assert(sizeof(NetV7) == 19 * sizeof(void*) &&
              offsetof(NetV7, getDeviceMr) == 17 * sizeof(void*));

struct NetV9 {
  const char* name;
  NcclResult (*init)(Logger);
  NcclResult (*devices)(int* count);
  NcclResult (*getProperties)(int device, PropertiesV9*);
  NcclResult (*listen)(int device, void* handle, void** listenComm);
  NcclResult (*connect)(int device, void* handle, void** sendComm, DeviceHandle** sendDevComm);
  NcclResult (*accept)(void* listenComm, void** recvComm, DeviceHandle** recvDevComm);
  NcclResult (*regMr)(void* comm, void* data, std::size_t bytes, int type, void** mhandle);
  NcclResult (*regMrDmaBuf)(void* comm, void* data, std::size_t bytes, int type,
                            std::uint64_t offset, int fd, void** mhandle);
  NcclResult (*deregMr)(void* comm, void* mhandle);
  NcclResult (*isend)(void* sendComm, void* data, std::size_t bytes, int tag, void* mhandle,
                      void** request);
  NcclResult (*irecv)(void* recvComm, int n, void** data, std::size_t* sizes, int* tags,
                      void** mhandles, void** request);
  NcclResult (*iflush)(void* recvComm, int n, void** data, int* sizes, void** mhandles,
                       void** request);
  NcclResult (*test)(void* request, int* done, int* sizes);
  NcclResult (*closeSend)(void* sendComm);
  NcclResult (*closeRecv)(void* recvComm);
  NcclResult (*closeListen)(void* listenComm);
  NcclResult (*getDeviceMr)(void* comm, void* mhandle, void** deviceMhandle);
  NcclResult (*irecvConsumed)(void* recvComm, int n, void* request);
  NcclResult (*makeVDevice)(int* device, VDeviceProps*);
};
static_assert(sizeof(NetV9) == 20 * sizeof(void*) &&
              offsetof(NetV9, makeVDevice) == 19 * sizeof(void*));

struct NetV10 {
  const char* name;
  NcclResult (*init)(Logger, ProfilerCallback);
  NcclResult (*devices)(int* count);
  NcclResult (*getProperties)(int device, PropertiesV9*);
  NcclResult (*listen)(int device, void* handle, void** listenComm);
  NcclResult (*connect)(int device, CommConfig*, void* handle, void** sendComm,
                        DeviceHandle** sendDevComm);
  NcclResult (*accept)(void* listenComm, void** recvComm, DeviceHandle** recvDevComm);
  NcclResult (*regMr)(void* comm, void* data, std::size_t bytes, int type, void** mhandle);
  NcclResult (*regMrDmaBuf)(void* comm, void* data, std::size_t bytes, int type,
                            std::uint64_t offset, int fd, void** mhandle);
  NcclResult (*deregMr)(void* comm, void* mhandle);
  NcclResult (*isend)(void* sendComm, void* data, std::size_t bytes, int tag, void* mhandle,
                      void* phandle, void** request);
  NcclResult (*irecv)(void* recvComm, int n, void** data, std::size_t* sizes, int* tags,
                      void** mhandles, void** phandles, void** request);
  NcclResult (*iflush)(void* recvComm, int n, void** data, int* sizes, void** mhandles,
                       void** request);
  NcclResult (*test)(void* request, int* done, int* sizes);
  NcclResult (*closeSend)(void* sendComm);
  NcclResult (*closeRecv)(void* recvComm);
  NcclResult (*closeListen)(void* listenComm);
  NcclResult (*getDeviceMr)(void* comm, void* mhandle, void** deviceMhandle);
  NcclResult (*irecvConsumed)(void* recvComm, int n, void* request);
  NcclResult (*makeVDevice)(int* device, VDeviceProps*);
};
static_assert(sizeof(NetV10) == 20 * sizeof(void*));

template <class Properties, class VProps>
struct NetV11To12 {
  const char* name;
  NcclResult (*init)(void** context, std::uint64_t commId, CommConfig*, Logger, ProfilerCallback);
  NcclResult (*devices)(int* count);
  NcclResult (*getProperties)(int device, Properties*);
  NcclResult (*listen)(void* context, int device, void* handle, void** listenComm);
  NcclResult (*connect)(void* context, int device, void* handle, void** sendComm,
                        DeviceHandle** sendDevComm);
  NcclResult (*accept)(void* listenComm, void** recvComm, DeviceHandle** recvDevComm);
  NcclResult (*regMr)(void* comm, void* data, std::size_t bytes, int type, void** mhandle);
  NcclResult (*regMrDmaBuf)(void* comm, void* data, std::size_t bytes, int type,
                            std::uint64_t offset, int fd, void** mhandle);
  NcclResult (*deregMr)(void* comm, void* mhandle);
  NcclResult (*isend)(void* sendComm, void* data, std::size_t bytes, int tag, void* mhandle,
                      void* phandle, void** request);
  NcclResult (*irecv)(void* recvComm, int n, void** data, std::size_t* sizes, int* tags,
                      void** mhandles, void** phandles, void** request);
  NcclResult (*iflush)(void* recvComm, int n, void** data, int* sizes, void** mhandles,
                       void** request);
  NcclResult (*test)(void* request, int* done, int* sizes);
  NcclResult (*closeSend)(void* sendComm);
  NcclResult (*closeRecv)(void* recvComm);
  NcclResult (*closeListen)(void* listenComm);
  NcclResult (*getDeviceMr)(void* comm, void* mhandle, void** deviceMhandle);
  NcclResult (*irecvConsumed)(void* recvComm, int n, void* request);
  NcclResult (*makeVDevice)(int* device, VProps*);
  NcclResult (*finalize)(void* context);
  NcclResult (*setNetAttr)(void* context, NetAttr*);
};
using NetV11 = NetV11To12<PropertiesV11, VDeviceProps>;
using NetV12 = NetV11To12<PropertiesV12, VDevicePropsV12>;
static_assert(sizeof(NetV11) == 22 * sizeof(void*) &&
              offsetof(NetV11, finalize) == 20 * sizeof(void*) &&
              offsetof(NetV11, setNetAttr) == 21 * sizeof(void*));

}  // namespace spindrift::nccl
