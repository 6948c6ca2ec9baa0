#include "providers/shm/shm_copy.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include <sys/uio.h>

namespace spindrift {
namespace {

using Vectors = std::array<iovec, kMaxSge>;

// What is left of a list after `done` bytes; the number of pieces.
template <class Piece, class ToVector>
std::size_t rest_of(std::span<const Piece> list, std::uint64_t done, Vectors& out,
                    ToVector to_vector) {
  std::size_t count = 0;
  for (const Piece& piece : list.first(std::min(list.size(), kMaxSge))) {
    if (done >= piece.bytes) {
      done -= piece.bytes;
      continue;
    }
    out[count++] = to_vector(piece, done);
    done = 0;
  }
  return count;
}

}  // namespace

bool can_read_process(pid_t process, std::uint64_t address, std::uint64_t value) {
  if (process <= 0 || address == 0) return false;
  std::uint64_t found = ~value;
  const Sge into{.data = reinterpret_cast<std::byte*>(&found), .bytes = sizeof(found)};
  const RemoteSpan from{.address = address, .bytes = sizeof(found)};
  return read_process(process, {&from, 1}, {&into, 1}) == 0 && found == value;
}

int read_process(pid_t process, std::span<const RemoteSpan> from, std::span<const Sge> into) {
  std::uint64_t total = 0;
  for (const Sge& piece : into)
    total += piece.bytes;
  for (std::uint64_t done = 0; done < total;) {
    Vectors local;
    Vectors remote;
    const std::size_t locals = rest_of(into, done, local, [](const Sge& piece, std::uint64_t skip) {
      return iovec{.iov_base = piece.data + skip, .iov_len = piece.bytes - skip};
    });
    const std::size_t remotes =
        rest_of(from, done, remote, [](const RemoteSpan& piece, std::uint64_t skip) {
          return iovec{.iov_base = reinterpret_cast<void*>(piece.address + skip),
                       .iov_len = piece.bytes - skip};
        });
    const ssize_t count =
        ::process_vm_readv(process, local.data(), locals, remote.data(), remotes, 0);
    if (count < 0) return errno;
    if (count == 0) return EFAULT;
    done += static_cast<std::uint64_t>(count);
  }
  return 0;
}

}  // namespace spindrift
