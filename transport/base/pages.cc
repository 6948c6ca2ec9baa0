#include "transport/base/pages.h"

#include <cerrno>
#include <cstdint>
#include <string>
#include <system_error>

#include <sys/mman.h>
#include <unistd.h>

namespace spindrift {

Pages::~Pages() {
  if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
}

Result<Pages> Pages::map(std::size_t bytes) {
  if (bytes == 0) return Pages();
  const bool is_large = bytes >= kHugeBytes;
  const std::size_t mapped = is_large ? bytes + kHugeBytes : bytes;
  void* const at =
      ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED)
    return Error(ErrorCode::kNoMemory,
                 std::to_string(bytes) + " bytes: " + std::system_category().message(errno));
  auto* first = static_cast<std::byte*>(at);
  if (is_large) {
    // What lies before the first multiple, and behind the end.
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    const std::size_t before = -reinterpret_cast<std::uintptr_t>(first) % kHugeBytes;
    const std::size_t used = before + (bytes + page - 1) / page * page;
    if (before != 0) ::munmap(first, before);
    if (used < mapped) ::munmap(first + used, mapped - used);
    first += before;
    // Refused by kernels without huge pages: small ones serve as well.
    static_cast<void>(::madvise(first, bytes, MADV_HUGEPAGE));
  }
  return Pages({first, bytes});
}

}  // namespace spindrift
