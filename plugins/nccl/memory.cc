#include "plugins/nccl/memory.h"

#include <functional>

namespace spindrift::nccl {
namespace {

bool covers(std::span<std::byte> outer, std::span<std::byte> inner) {
  const std::less_equal<const std::byte*> is_at_most;
  return is_at_most(outer.data(), inner.data()) &&
         is_at_most(inner.data() + inner.size(), outer.data() + outer.size());
}

}  // namespace

Registration* Registrations::take(std::span<std::byte> bytes) {
  const std::lock_guard guard(mutex_);
  std::size_t vacant = by_number_.size();
  for (std::size_t i = 0; i < by_number_.size(); ++i) {
    Registration* const one = by_number_[i].get();
    if (one == nullptr) {
      vacant = i;
    } else if (one->users != 0 && covers(one->bytes, bytes)) {
      ++one->users;
      return one;
    }
  }
  if (vacant == by_number_.size()) by_number_.emplace_back();
  by_number_[vacant] = std::make_unique<Registration>(
      Registration{.bytes = bytes, .number = static_cast<std::uint32_t>(vacant), .users = 1});
  return by_number_[vacant].get();
}

Registration* Registrations::give_back(Registration* registration) {
  const std::lock_guard guard(mutex_);
  return --registration->users == 0 ? registration : nullptr;
}

void Registrations::retire(Registration* registration) {
  const std::lock_guard guard(mutex_);
  by_number_[registration->number].reset();
}

}  // namespace spindrift::nccl
