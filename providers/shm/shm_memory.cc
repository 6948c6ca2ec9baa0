#include "providers/shm/shm_memory.h"

#include <cerrno>
#include <string>
#include <system_error>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

namespace spindrift {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

Error refused(const std::string& what) {
  return Error(ErrorCode::kIo, what + ": " + std::system_category().message(errno));
}

}  // namespace

ShmMemory::~ShmMemory() {
  if (base_ != nullptr) ::munmap(base_, layout_.total_bytes());
}

Result<ShmMemory> ShmMemory::map(int fd, const ShmLayout& layout) {
  void* at = ::mmap(nullptr, layout.total_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) return refused("mapping shared memory");
  ShmMemory out;
  out.base_ = static_cast<std::byte*>(at);
  out.layout_ = layout;
  return out;
}

Result<UniqueFd> make_shm_file(const ShmLayout& layout) {
  UniqueFd fd(::memfd_create("spindrift", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.is_open()) return refused("memfd_create");
  const auto bytes = static_cast<off_t>(layout.total_bytes());
  if (const int error = ::posix_fallocate(fd.get(), 0, bytes); error != 0) {
    errno = error;
    return refused(std::to_string(bytes) +
                   " bytes of shared memory for a connection (smaller: shm_ring_bytes)");
  }
  if (::fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0) return refused("sealing shared memory");
  return fd;
}

Status check_shm_file(int fd, const ShmLayout& layout) {
  struct stat found {};
  if (::fstat(fd, &found) != 0) return refused("the shared memory of the peer");
  if (found.st_size < 0 || static_cast<std::size_t>(found.st_size) != layout.total_bytes())
    return Error(ErrorCode::kInvalidArgument,
                 "the shared memory of the peer has " + std::to_string(found.st_size) +
                     " bytes instead of " + std::to_string(layout.total_bytes()));
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals)
    return Error(ErrorCode::kInvalidArgument,
                 "the shared memory of the peer is not sealed against becoming shorter");
  return ok_status();
}

}  // namespace spindrift
