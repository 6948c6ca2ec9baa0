// The interface's layout, member by member, from the published tables: a member in the wrong place
// would be called, or read, as another one.
#include "plugins/nccl/abi.h"

#include <cstddef>
#include <type_traits>

namespace spindrift::nccl {
namespace {

// NOLINTBEGIN(cppcoreguidelines-macro-usage): offsetof() needs the member's name
#define AT(Type, member, offset) \
  static_assert(offsetof(Type, member) == (offset), #Type " " #member)
#define SLOT(Type, member, number) AT(Type, member, (number) * sizeof(void*))
// NOLINTEND(cppcoreguidelines-macro-usage)

static_assert(sizeof(PropertiesV6) == 48 && std::is_standard_layout_v<PropertiesV6>);
AT(PropertiesV6, name, 0);
AT(PropertiesV6, pciPath, 8);
AT(PropertiesV6, guid, 16);
AT(PropertiesV6, ptrSupport, 24);
AT(PropertiesV6, speed, 28);
AT(PropertiesV6, port, 32);
AT(PropertiesV6, latency, 36);
AT(PropertiesV6, maxComms, 40);
AT(PropertiesV6, maxRecvs, 44);

static_assert(sizeof(PropertiesV7) == 56 && std::is_standard_layout_v<PropertiesV7>);
AT(PropertiesV7, name, 0);
AT(PropertiesV7, pciPath, 8);
AT(PropertiesV7, guid, 16);
AT(PropertiesV7, ptrSupport, 24);
AT(PropertiesV7, speed, 28);
AT(PropertiesV7, port, 32);
AT(PropertiesV7, latency, 36);
AT(PropertiesV7, maxComms, 40);
AT(PropertiesV7, maxRecvs, 44);
AT(PropertiesV7, netDeviceType, 48);
AT(PropertiesV7, netDeviceVersion, 52);

static_assert(sizeof(PropertiesV8) == 64 && std::is_standard_layout_v<PropertiesV8>);
AT(PropertiesV8, name, 0);
AT(PropertiesV8, pciPath, 8);
AT(PropertiesV8, guid, 16);
AT(PropertiesV8, ptrSupport, 24);
AT(PropertiesV8, regIsGlobal, 28);
AT(PropertiesV8, speed, 32);
AT(PropertiesV8, port, 36);
AT(PropertiesV8, latency, 40);
AT(PropertiesV8, maxComms, 44);
AT(PropertiesV8, maxRecvs, 48);
AT(PropertiesV8, netDeviceType, 52);
AT(PropertiesV8, netDeviceVersion, 56);

static_assert(sizeof(PropertiesV9) == 104 && std::is_standard_layout_v<PropertiesV9>);
AT(PropertiesV9, name, 0);
AT(PropertiesV9, pciPath, 8);
AT(PropertiesV9, guid, 16);
AT(PropertiesV9, ptrSupport, 24);
AT(PropertiesV9, regIsGlobal, 28);
AT(PropertiesV9, forceFlush, 32);
AT(PropertiesV9, speed, 36);
AT(PropertiesV9, port, 40);
AT(PropertiesV9, latency, 44);
AT(PropertiesV9, maxComms, 48);
AT(PropertiesV9, maxRecvs, 52);
AT(PropertiesV9, netDeviceType, 56);
AT(PropertiesV9, netDeviceVersion, 60);
AT(PropertiesV9, vProps, 64);
AT(PropertiesV9, maxP2pBytes, 88);
AT(PropertiesV9, maxCollBytes, 96);

static_assert(sizeof(PropertiesV11) == 112 && std::is_standard_layout_v<PropertiesV11>);
AT(PropertiesV11, name, 0);
AT(PropertiesV11, pciPath, 8);
AT(PropertiesV11, guid, 16);
AT(PropertiesV11, ptrSupport, 24);
AT(PropertiesV11, regIsGlobal, 28);
AT(PropertiesV11, forceFlush, 32);
AT(PropertiesV11, speed, 36);
AT(PropertiesV11, port, 40);
AT(PropertiesV11, latency, 44);
AT(PropertiesV11, maxComms, 48);
AT(PropertiesV11, maxRecvs, 52);
AT(PropertiesV11, netDeviceType, 56);
AT(PropertiesV11, netDeviceVersion, 60);
AT(PropertiesV11, vProps, 64);
AT(PropertiesV11, maxP2pBytes, 88);
AT(PropertiesV11, maxCollBytes, 96);
AT(PropertiesV11, maxMultiRequestSize, 104);

static_assert(sizeof(PropertiesV12) == 128 && std::is_standard_layout_v<PropertiesV12>);
AT(PropertiesV12, name, 0);
AT(PropertiesV12, pciPath, 8);
AT(PropertiesV12, guid, 16);
AT(PropertiesV12, ptrSupport, 24);
AT(PropertiesV12, regIsGlobal, 28);
AT(PropertiesV12, forceFlush, 32);
AT(PropertiesV12, speed, 36);
AT(PropertiesV12, port, 40);
AT(PropertiesV12, latency, 44);
AT(PropertiesV12, maxComms, 48);
AT(PropertiesV12, maxRecvs, 52);
AT(PropertiesV12, netDeviceType, 56);
AT(PropertiesV12, netDeviceVersion, 60);
AT(PropertiesV12, vProps, 64);
AT(PropertiesV12, maxP2pBytes, 104);
AT(PropertiesV12, maxCollBytes, 112);
AT(PropertiesV12, maxMultiRequestSize, 120);
AT(PropertiesV12, railId, 124);
AT(PropertiesV12, planeId, 126);

static_assert(sizeof(NetV6) == 17 * sizeof(void*) && std::is_standard_layout_v<NetV6>);
SLOT(NetV6, name, 0);
SLOT(NetV6, init, 1);
SLOT(NetV6, devices, 2);
SLOT(NetV6, getProperties, 3);
SLOT(NetV6, listen, 4);
SLOT(NetV6, connect, 5);
SLOT(NetV6, accept, 6);
SLOT(NetV6, regMr, 7);
SLOT(NetV6, regMrDmaBuf, 8);
SLOT(NetV6, deregMr, 9);
SLOT(NetV6, isend, 10);
SLOT(NetV6, irecv, 11);
SLOT(NetV6, iflush, 12);
SLOT(NetV6, test, 13);
SLOT(NetV6, closeSend, 14);
SLOT(NetV6, closeRecv, 15);
SLOT(NetV6, closeListen, 16);

static_assert(sizeof(NetV7) == 19 * sizeof(void*) && std::is_standard_layout_v<NetV7>);
SLOT(NetV7, name, 0);
SLOT(NetV7, init, 1);
SLOT(NetV7, devices, 2);
SLOT(NetV7, getProperties, 3);
SLOT(NetV7, listen, 4);
SLOT(NetV7, connect, 5);
SLOT(NetV7, accept, 6);
SLOT(NetV7, regMr, 7);
SLOT(NetV7, regMrDmaBuf, 8);
SLOT(NetV7, deregMr, 9);
SLOT(NetV7, isend, 10);
SLOT(NetV7, irecv, 11);
SLOT(NetV7, iflush, 12);
SLOT(NetV7, test, 13);
SLOT(NetV7, closeSend, 14);
SLOT(NetV7, closeRecv, 15);
SLOT(NetV7, closeListen, 16);
SLOT(NetV7, getDeviceMr, 17);
SLOT(NetV7, irecvConsumed, 18);

static_assert(sizeof(NetV8) == 19 * sizeof(void*) && std::is_standard_layout_v<NetV8>);
SLOT(NetV8, name, 0);
SLOT(NetV8, init, 1);
SLOT(NetV8, devices, 2);
SLOT(NetV8, getProperties, 3);
SLOT(NetV8, listen, 4);
SLOT(NetV8, connect, 5);
SLOT(NetV8, accept, 6);
SLOT(NetV8, regMr, 7);
SLOT(NetV8, regMrDmaBuf, 8);
SLOT(NetV8, deregMr, 9);
SLOT(NetV8, isend, 10);
SLOT(NetV8, irecv, 11);
SLOT(NetV8, iflush, 12);
SLOT(NetV8, test, 13);
SLOT(NetV8, closeSend, 14);
SLOT(NetV8, closeRecv, 15);
SLOT(NetV8, closeListen, 16);
SLOT(NetV8, getDeviceMr, 17);
SLOT(NetV8, irecvConsumed, 18);

static_assert(sizeof(NetV9) == 20 * sizeof(void*) && std::is_standard_layout_v<NetV9>);
SLOT(NetV9, name, 0);
SLOT(NetV9, init, 1);
SLOT(NetV9, devices, 2);
SLOT(NetV9, getProperties, 3);
SLOT(NetV9, listen, 4);
SLOT(NetV9, connect, 5);
SLOT(NetV9, accept, 6);
SLOT(NetV9, regMr, 7);
SLOT(NetV9, regMrDmaBuf, 8);
SLOT(NetV9, deregMr, 9);
SLOT(NetV9, isend, 10);
SLOT(NetV9, irecv, 11);
SLOT(NetV9, iflush, 12);
SLOT(NetV9, test, 13);
SLOT(NetV9, closeSend, 14);
SLOT(NetV9, closeRecv, 15);
SLOT(NetV9, closeListen, 16);
SLOT(NetV9, getDeviceMr, 17);
SLOT(NetV9, irecvConsumed, 18);
SLOT(NetV9, makeVDevice, 19);

static_assert(sizeof(NetV10) == 20 * sizeof(void*) && std::is_standard_layout_v<NetV10>);
SLOT(NetV10, name, 0);
SLOT(NetV10, init, 1);
SLOT(NetV10, devices, 2);
SLOT(NetV10, getProperties, 3);
SLOT(NetV10, listen, 4);
SLOT(NetV10, connect, 5);
SLOT(NetV10, accept, 6);
SLOT(NetV10, regMr, 7);
SLOT(NetV10, regMrDmaBuf, 8);
SLOT(NetV10, deregMr, 9);
SLOT(NetV10, isend, 10);
SLOT(NetV10, irecv, 11);
SLOT(NetV10, iflush, 12);
SLOT(NetV10, test, 13);
SLOT(NetV10, closeSend, 14);
SLOT(NetV10, closeRecv, 15);
SLOT(NetV10, closeListen, 16);
SLOT(NetV10, getDeviceMr, 17);
SLOT(NetV10, irecvConsumed, 18);
SLOT(NetV10, makeVDevice, 19);

static_assert(sizeof(NetV11) == 22 * sizeof(void*) && std::is_standard_layout_v<NetV11>);
SLOT(NetV11, name, 0);
SLOT(NetV11, init, 1);
SLOT(NetV11, devices, 2);
SLOT(NetV11, getProperties, 3);
SLOT(NetV11, listen, 4);
SLOT(NetV11, connect, 5);
SLOT(NetV11, accept, 6);
SLOT(NetV11, regMr, 7);
SLOT(NetV11, regMrDmaBuf, 8);
SLOT(NetV11, deregMr, 9);
SLOT(NetV11, isend, 10);
SLOT(NetV11, irecv, 11);
SLOT(NetV11, iflush, 12);
SLOT(NetV11, test, 13);
SLOT(NetV11, closeSend, 14);
SLOT(NetV11, closeRecv, 15);
SLOT(NetV11, closeListen, 16);
SLOT(NetV11, getDeviceMr, 17);
SLOT(NetV11, irecvConsumed, 18);
SLOT(NetV11, makeVDevice, 19);
SLOT(NetV11, finalize, 20);
SLOT(NetV11, setNetAttr, 21);

static_assert(sizeof(NetV12) == 22 * sizeof(void*) && std::is_standard_layout_v<NetV12>);
SLOT(NetV12, name, 0);
SLOT(NetV12, init, 1);
SLOT(NetV12, devices, 2);
SLOT(NetV12, getProperties, 3);
SLOT(NetV12, listen, 4);
SLOT(NetV12, connect, 5);
SLOT(NetV12, accept, 6);
SLOT(NetV12, regMr, 7);
SLOT(NetV12, regMrDmaBuf, 8);
SLOT(NetV12, deregMr, 9);
SLOT(NetV12, isend, 10);
SLOT(NetV12, irecv, 11);
SLOT(NetV12, iflush, 12);
SLOT(NetV12, test, 13);
SLOT(NetV12, closeSend, 14);
SLOT(NetV12, closeRecv, 15);
SLOT(NetV12, closeListen, 16);
SLOT(NetV12, getDeviceMr, 17);
SLOT(NetV12, irecvConsumed, 18);
SLOT(NetV12, makeVDevice, 19);
SLOT(NetV12, finalize, 20);
SLOT(NetV12, setNetAttr, 21);

AT(DeviceHandle, netDeviceType, 0);
AT(DeviceHandle, netDeviceVersion, 4);
AT(DeviceHandle, handle, 8);
AT(DeviceHandle, size, 16);
AT(DeviceHandle, needsProxyProgress, 24);
static_assert(sizeof(DeviceHandle) == 32);

static_assert(sizeof(CommConfig) == 4);
static_assert(sizeof(CommAttr) == 16);
AT(NetAttr, sendCommAttr, 0);
AT(NetAttr, recvCommAttr, 16);
AT(NetAttr, op, 32);
AT(NetAttr, algo, 36);
AT(NetAttr, proto, 40);
static_assert(sizeof(NetAttr) == 44);

AT(VDeviceProps, devs, 4);
AT(VDevicePropsV12, devs, 4);
static_assert(sizeof(VDeviceProps) == 20 && sizeof(VDevicePropsV12) == 36);

static_assert(kSuccess == 0 && kUnhandledCudaError == 1 && kSystemError == 2 &&
              kInternalError == 3 && kInvalidArgument == 4 && kInvalidUsage == 5 &&
              kRemoteError == 6 && kInProgress == 7);
static_assert(kLogNone == 0 && kLogVersion == 1 && kLogWarn == 2 && kLogInfo == 3 &&
              kLogAbort == 4 && kLogTrace == 5);
static_assert(kProfileStart == 0 && kProfileStop == 1);
static_assert(kPtrHost == 1 && kPtrCuda == 2 && kPtrDmaBuf == 4);
static_assert(kHandleBytes == 128 && kMaxRequests == 32 && kMaxReceives == 8);

}  // namespace
}  // namespace spindrift::nccl
