#pragma once
// Memory of an engine or a provider that is kept for long, straight from the kernel.
#include <cstddef>
#include <span>
#include <utility>

#include "spindrift/result.h"

namespace spindrift {

class Pages {
 public:
  static constexpr std::size_t kHugeBytes = std::size_t{2} << 20U;

  Pages() = default;
  // Zeroed; what is never touched costs nothing. From 2 MiB on it begins at a multiple of that, and
  // the kernel is asked for huge pages: a first touch of each 4 KiB costs more than the message
  // that is to go there.
  static Result<Pages> map(std::size_t bytes);
  Pages(Pages&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  Pages& operator=(Pages&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  ~Pages();

  std::span<std::byte> bytes() const { return bytes_; }
  std::byte* data() const { return bytes_.data(); }
  std::size_t size() const { return bytes_.size(); }
  bool is_empty() const { return bytes_.empty(); }

 private:
  explicit Pages(std::span<std::byte> bytes) : bytes_(bytes) {}
  std::span<std::byte> bytes_;
};

}  // namespace spindrift
