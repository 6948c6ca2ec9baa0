#pragma once
// What both endpoints do with the queues that they show their users.
#include <memory>
#include <span>
#include <vector>

#include "spindrift/endpoint.h"

#include "transport/base/ring.h"
#include "transport/receive_queue.h"

namespace spindrift {

// Field by field: the wide loads of a plain copy would wait for the narrow stores that `from` was
// made with.
inline void put(Ring<Completion>& queue, const Completion& from) {
  Completion& to = queue.push_back();
  to.user_data = from.user_data;
  to.bytes = from.bytes;
  to.conn = from.conn;
  to.immediate = from.immediate;
  to.kind = from.kind;
  to.status = from.status;
  to.has_immediate = from.has_immediate;
  to.is_shared = from.is_shared;
}

// Moves what fits; how many.
template <class T>
std::size_t drain(Ring<T>& queue, std::span<T> out) {
  std::size_t count = 0;
  while (count < out.size() && !queue.is_empty()) {
    out[count++] = queue.front();
    queue.pop_front();
  }
  return count;
}

// Takes the oldest event of one kind and leaves the others in their order; false: there is none.
inline bool take_first(Ring<ConnEvent>& events, ConnEvent::Kind kind, ConnEvent& out) {
  bool is_taken = false;
  for (std::size_t i = events.size(); i != 0; --i) {
    const ConnEvent event = events.front();
    events.pop_front();
    if (is_taken || event.kind != kind) {
      events.push_back(event);
    } else {
      out = event;
      is_taken = true;
    }
  }
  return is_taken;
}

inline Status add_shared_queue(std::vector<std::unique_ptr<SharedReceiveQueue>>& queues,
                               std::uint32_t capacity) {
  constexpr std::uint32_t kMost = 1048576;
  if (capacity < 1 || capacity > kMost)
    return Error(ErrorCode::kInvalidArgument,
                 "a shared receive queue of " + std::to_string(capacity) +
                     " entries; it must be 1.." + std::to_string(kMost));
  queues.push_back(std::make_unique<SharedReceiveQueue>(capacity));
  return ok_status();
}

}  // namespace spindrift
