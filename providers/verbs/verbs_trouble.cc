#include "providers/verbs/verbs_trouble.h"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>

#include <sys/resource.h>
#include <unistd.h>

namespace spindrift {
namespace {

std::string_view cause_of(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_RETRY_EXC_ERR:
      return "no answer: the peer's port or process is down, the path to it is cut or drops "
             "packets "
             "of this size, or its queue pair is in error";
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return "the peer had no buffer posted for long";
    case IBV_WC_REM_ACCESS_ERR:
      return "the peer's device lets nobody read there: the memory was deregistered";
    case IBV_WC_REM_INV_REQ_ERR:
      return "the peer's device refuses such a request: its queue pair was made otherwise";
    case IBV_WC_REM_OP_ERR:
      return "the peer's device failed at its own work";
    case IBV_WC_LOC_PROT_ERR:
    case IBV_WC_LOC_ACCESS_ERR:
      return "memory of this side is not registered, or no longer";
    case IBV_WC_LOC_LEN_ERR:
      return "a message longer than the buffer it met";
    case IBV_WC_LOC_QP_OP_ERR:
      return "this side's device could not do its work";
    case IBV_WC_WR_FLUSH_ERR:
      return "given up because an earlier request of the queue pair failed";
    case IBV_WC_RESP_TIMEOUT_ERR:
      return "the device gave up waiting";
    default:
      return "see the device's documentation";
  }
}

}  // namespace

std::string in_words(int error) {
  return std::generic_category().message(error);
}

std::string explain_no_device(int error) {
  const bool has_module = ::access("/sys/class/infiniband_verbs", F_OK) == 0;
  if (error == ENOSYS || !has_module)
    return "no RDMA device: the kernel's module ib_uverbs is not loaded (modprobe ib_uverbs and "
           "the "
           "driver of the NIC, such as mlx5_ib; for soft-RoCE: rdma link add rxe0 type rxe netdev "
           "eth0)";
  if (error != 0) return "the list of RDMA devices cannot be read: " + in_words(error);
  if (::access("/dev/infiniband", F_OK) != 0)
    return "no RDMA device in this container: /dev/infiniband is missing (docker run --device="
           "/dev/infiniband, or a device plug-in)";
  return "no RDMA device that libibverbs knows (Debian: apt-get install ibverbs-providers; "
         "`ibv_devices` and `rdma link` list what there is)";
}

std::string explain_open(int error) {
  if (error == EACCES || error == EPERM)
    return in_words(error) + "; this user may not open /dev/infiniband/uverbs*";
  return in_words(error);
}

std::string memory_lock_advice(std::size_t bytes, std::uint64_t limit) {
  if (limit == UINT64_MAX)
    return "this process may lock as much as it likes; the device may have no room for more "
           "regions, or the host no memory";
  return "this process may lock " + std::to_string(limit) + " bytes in all (ulimit -l), and " +
         std::to_string(bytes) +
         " more are wanted: `ulimit -l unlimited`, LimitMEMLOCK=infinity of the service, or "
         "docker run --ulimit memlock=-1";
}

std::string memory_lock_advice(std::size_t bytes) {
  rlimit limit{};
  const bool is_limited = ::getrlimit(RLIMIT_MEMLOCK, &limit) == 0 &&
                          limit.rlim_cur != RLIM_INFINITY && ::geteuid() != 0;
  return memory_lock_advice(bytes, is_limited ? limit.rlim_cur : UINT64_MAX);
}

Error explain_registration(std::size_t bytes, int error, const std::string& where, bool is_device) {
  std::string text = std::to_string(bytes) + " bytes " + (is_device ? "of a dma-buf " : "") +
                     "cannot be registered with " + where + ": " + in_words(error);
  if (is_device && (error == EOPNOTSUPP || error == EPROTONOSUPPORT))
    return Error(ErrorCode::kUnsupported,
                 text + "; its driver takes no device memory. Register host memory and copy");
  if (is_device && error == EBADF) text += "; the descriptor is none of a dma-buf";
  if (error == ENOMEM || error == EAGAIN || error == EPERM)
    text += "; " + memory_lock_advice(bytes);
  if (error == EFAULT) text += "; not all of it is memory of this process";
  return Error(ErrorCode::kNoMemory, std::move(text));
}

std::string explain_completion(ibv_wc_status status, std::uint32_t vendor_error) {
  std::string text = ibv_wc_status_str(status);
  text += " (";
  text += cause_of(status);
  if (vendor_error != 0) text += "; vendor's code " + std::to_string(vendor_error);
  return text + ")";
}

void prepare_for_fork() {
  if (ibv_is_fork_initialized() == IBV_FORK_DISABLED) static_cast<void>(ibv_fork_init());
}

std::uint8_t port_of_interface(const std::string& interface) {
  std::ifstream file("/sys/class/net/" + interface + "/dev_port");
  unsigned port = 0;
  return file >> port && port < 254 ? static_cast<std::uint8_t>(port + 1) : 0;
}

}  // namespace spindrift
