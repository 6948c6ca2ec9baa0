#pragma once
// A network plugin as NCCL sees it: loaded from its file, one version of its interface, behind
// calls that are the same for all versions.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "plugins/nccl/abi.h"

namespace spindrift::nccl_check {

using nccl::NcclResult;

inline constexpr int kLowestVersion = 6;
inline constexpr int kHighestVersion = 12;

struct Properties {
  std::string name;
  std::string pci_path;  // empty: null
  std::uint64_t guid = 0;
  int ptr_support = 0;
  int reg_is_global = -1;  // -1: this version does not say
  int speed_mbps = 0;
  int port = 0;
  float latency = 0;
  int max_comms = 0;
  int max_receives = 0;
  int device_type = 0;
  std::vector<int> parts;         // empty: this version does not say
  std::size_t max_p2p_bytes = 0;  // 0: this version does not say
  std::size_t max_coll_bytes = 0;
};

struct Receive {
  void* data = nullptr;
  std::size_t capacity = 0;
  int tag = 0;
  void* handle = nullptr;
};

class Net {
 public:
  virtual ~Net() = default;
  virtual int version() const = 0;
  virtual const char* name() const = 0;
  // From version 11 on a context of its own; before, the process's.
  virtual NcclResult init() = 0;
  virtual NcclResult devices(int* count) = 0;
  virtual NcclResult properties(int device, Properties* out) = 0;
  virtual NcclResult listen(int device, void* handle, void** comm) = 0;
  virtual NcclResult connect(int device, void* handle, void** comm) = 0;
  virtual NcclResult accept(void* listen_comm, void** comm) = 0;
  virtual NcclResult register_memory(void* comm, void* data, std::size_t bytes, void** handle,
                                     int type = nccl::kPtrHost) = 0;
  // Of the device; with no file behind it.
  virtual NcclResult register_dma_buf(void* comm, void* data, std::size_t bytes, void** handle) = 0;
  virtual NcclResult deregister_memory(void* comm, void* handle) = 0;
  virtual NcclResult isend(void* comm, void* data, std::size_t bytes, int tag, void* handle,
                           void** request) = 0;
  virtual NcclResult irecv(void* comm, const std::vector<Receive>& group, void** request) = 0;
  virtual NcclResult iflush(void* comm, const Receive& receive, int bytes, void** request) = 0;
  virtual NcclResult test(void* request, int* done, int* sizes) = 0;
  virtual NcclResult close_send(void* comm) = 0;
  virtual NcclResult close_recv(void* comm) = 0;
  virtual NcclResult close_listen(void* comm) = 0;
  // Null members: false.
  virtual bool has_make_device() const = 0;
  virtual NcclResult make_device(const std::vector<int>& parts, int* device) = 0;
  // Nothing before version 11.
  virtual NcclResult finalize() = 0;
  virtual NcclResult finalize_null() = 0;
};

// The shared object; closed by the destructor.
class Library {
 public:
  // Throws std::runtime_error with the loader's words.
  explicit Library(const std::string& file);
  ~Library();
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  // Null: it has no such version.
  std::unique_ptr<Net> net(int version) const;
  void* symbol(const char* name) const;

 private:
  void* handle_ = nullptr;
};

// What the plugin said through NCCL's logger, so far.
struct Said {
  int warnings = 0;
  int lines = 0;
  std::string last_warning;
};
Said said();
// Also writes all of it to standard error.
void show_log(bool is_shown);
void log_line(int level, unsigned long flags, const char* file, int line, const char* format, ...);

}  // namespace spindrift::nccl_check
