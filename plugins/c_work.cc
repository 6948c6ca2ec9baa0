// The C API: work, completions and the loop. Requests are translated in batches on the stack.
#include <array>

#include "absl/strings/str_format.h"
#include "plugins/c_structs.h"

using namespace spindrift;
using namespace spindrift::c_api;

static_assert(SPINDRIFT_OP_COMPARE_SWAP == static_cast<int>(OpKind::kCompareSwap));
static_assert(SPINDRIFT_STATUS_FLUSHED == static_cast<int>(OpStatus::kFlushed));
// Lists of pieces are handed on as they are.
static_assert(sizeof(spindrift_sge) == sizeof(Sge) && alignof(spindrift_sge) == alignof(Sge));
static_assert(offsetof(spindrift_sge, bytes) == offsetof(Sge, bytes));
static_assert(offsetof(spindrift_sge, local_key) == offsetof(Sge, region));
static_assert(sizeof(LocalKey) == sizeof(std::uint32_t));

namespace {

constexpr std::size_t kBatch = 32;
constexpr std::uint32_t kAllFlags =
    SPINDRIFT_WORK_UNSIGNALED | SPINDRIFT_WORK_FENCE | SPINDRIFT_WORK_INLINE;

int check_work(const spindrift_work& work, std::size_t index) {
  if (work.op > SPINDRIFT_OP_COMPARE_SWAP)
    return fail(SPINDRIFT_INVALID_ARGUMENT,
                absl::StrFormat("request %d: op is %d; it must be 0..%d", index, work.op,
                                SPINDRIFT_OP_COMPARE_SWAP));
  if ((work.flags & ~kAllFlags) != 0)
    return fail(
        SPINDRIFT_INVALID_ARGUMENT,
        absl::StrFormat("request %d: flags is %#x; known are %#x", index, work.flags, kAllFlags));
  if (work.local_count > kMaxSge || (work.local_count != 0 && work.local == nullptr))
    return fail(SPINDRIFT_INVALID_ARGUMENT,
                absl::StrFormat("request %d: local has %d pieces; up to %d are possible, not NULL",
                                index, work.local_count, kMaxSge));
  return SPINDRIFT_OK;
}

WorkRequest to_cpp(const spindrift_work& work) {
  return {.user_data = work.user_data,
          .conn = ConnId{work.conn},
          .kind = static_cast<OpKind>(work.op),
          .is_unsignaled = (work.flags & SPINDRIFT_WORK_UNSIGNALED) != 0,
          .has_fence = (work.flags & SPINDRIFT_WORK_FENCE) != 0,
          .is_inline = (work.flags & SPINDRIFT_WORK_INLINE) != 0,
          .immediate = work.immediate,
          .local = {reinterpret_cast<const Sge*>(work.local), work.local_count},
          .remote_key = work.remote_key,
          .remote_offset = work.remote_offset,
          .operand = work.operand,
          .compare = work.compare,
          .timeout = Duration(work.timeout_ns)};
}

int read_work(const spindrift_work* array, std::size_t index, WorkRequest& out) {
  const spindrift_work* given = element(array, index);
  if (given->struct_size != array->struct_size)
    return fail(
        SPINDRIFT_INVALID_ARGUMENT,
        absl::StrFormat("request %d: struct_size is %d, and %d in the first; all of an array "
                        "must have the same",
                        index, given->struct_size, array->struct_size));
  spindrift_work work{};
  int code = read_struct(given, work);
  if (code == SPINDRIFT_OK) code = check_work(work, index);
  if (code == SPINDRIFT_OK) out = to_cpp(work);
  return code;
}

// Why post() stopped.
int refusal(const Endpoint& endpoint, PostStatus status, ConnId conn) {
  switch (status) {
    case PostStatus::kOk:
      return SPINDRIFT_OK;
    case PostStatus::kQueueFull:
      return fail(SPINDRIFT_QUEUE_FULL, "the queue is full; poll completions, then post the rest");
    case PostStatus::kNotConnected:
      return fail(
          SPINDRIFT_NOT_CONNECTED,
          absl::StrFormat("connection %d does not exist, or it is closing, closed or failed",
                          conn.value));
    case PostStatus::kInvalid:
      break;
  }
  std::string sentence = endpoint.last_error(conn);
  if (sentence.empty()) sentence = endpoint.last_error(ConnId{});
  return fail(SPINDRIFT_INVALID_ARGUMENT, std::move(sentence));
}

// Translates and posts in batches; `post` takes a span of requests.
template <class Post>
int post_all(Endpoint& endpoint, const spindrift_work* work, std::size_t count,
             std::size_t* accepted, Post post) {
  std::size_t done = 0;
  int code = SPINDRIFT_OK;
  if (accepted != nullptr) *accepted = 0;
  if (count != 0) code = check_out(work);
  while (code == SPINDRIFT_OK && done < count) {
    std::array<WorkRequest, kBatch> batch;
    std::size_t filled = 0;
    while (code == SPINDRIFT_OK && filled < std::min(kBatch, count - done)) {
      code = read_work(work, done + filled, batch[filled]);
      if (code == SPINDRIFT_OK) ++filled;
    }
    const PostResult result = post(std::span<const WorkRequest>(batch).first(filled));
    done += result.accepted;
    // What was posted counts first; a later request that cannot be read comes after it.
    if (result.accepted < filled)
      code = refusal(endpoint, result.status, batch[result.accepted].conn);
  }
  if (accepted != nullptr) *accepted = done;
  return code;
}

spindrift_completion to_c(const Completion& done) {
  return {.struct_size = 0,
          .user_data = done.user_data,
          .bytes = done.bytes,
          .conn = done.conn.value,
          .op = static_cast<std::uint32_t>(done.kind),
          .status = static_cast<std::uint32_t>(done.status),
          .flags = (done.has_immediate ? std::uint32_t{SPINDRIFT_COMPLETION_HAS_IMMEDIATE} : 0) |
                   (done.is_shared ? std::uint32_t{SPINDRIFT_COMPLETION_IS_SHARED} : 0),
          .immediate = done.immediate,
          .reserved = 0};
}

}  // namespace

int spindrift_post(spindrift_endpoint* endpoint, const spindrift_work* work, size_t count,
                   size_t* accepted) {
  return with_endpoint(endpoint, [&](Endpoint& e) -> int {
    return post_all(e, work, count, accepted,
                    [&](std::span<const WorkRequest> requests) { return e.post(requests); });
  });
}

int spindrift_create_shared_queue(spindrift_endpoint* endpoint, uint32_t capacity,
                                  spindrift_shared_queue* queue) {
  return with_endpoint(endpoint, [&](Endpoint& e) -> int {
    if (queue == nullptr) return refuse_null("the queue");
    const auto made = e.create_shared_receive_queue(capacity);
    if (!made.ok()) return fail(made.error());
    *queue = made.value().value;
    return SPINDRIFT_OK;
  });
}

int spindrift_post_shared(spindrift_endpoint* endpoint, spindrift_shared_queue queue,
                          const spindrift_work* receives, size_t count, size_t* accepted) {
  return with_endpoint(endpoint, [&](Endpoint& e) -> int {
    return post_all(e, receives, count, accepted, [&](std::span<const WorkRequest> requests) {
      return e.post_shared(SharedQueueId{queue}, requests);
    });
  });
}

ptrdiff_t spindrift_poll(spindrift_endpoint* endpoint, spindrift_completion* completions,
                         size_t capacity) {
  return with_endpoint<ptrdiff_t>(endpoint, [&](Endpoint& e) -> ptrdiff_t {
    if (capacity == 0) return 0;
    const int code = check_out(completions);
    if (code != SPINDRIFT_OK) return code;
    const std::size_t room = completions->struct_size;
    std::array<Completion, kBatch> batch;
    std::size_t count = 0;
    while (count < capacity) {
      const std::size_t wanted = std::min(kBatch, capacity - count);
      const std::size_t taken = e.poll(std::span(batch).first(wanted));
      for (std::size_t i = 0; i < taken; ++i)
        write_struct(to_c(batch[i]), room, element(completions, count++));
      if (taken < wanted) break;
    }
    return static_cast<ptrdiff_t>(count);
  });
}

const char* spindrift_op_name(uint32_t op) {
  if (op > SPINDRIFT_OP_COMPARE_SWAP) return "unknown";
  return to_string(static_cast<OpKind>(op)).data();
}

const char* spindrift_status_name(uint32_t status) {
  if (status > SPINDRIFT_STATUS_FLUSHED) return "unknown";
  return to_string(static_cast<OpStatus>(status)).data();
}

int spindrift_progress(spindrift_endpoint* endpoint) {
  return with_endpoint(endpoint, [](Endpoint& e) -> int {
    e.progress();
    return SPINDRIFT_OK;
  });
}

int spindrift_wait_fd(spindrift_endpoint* endpoint) {
  return with_endpoint(endpoint, [](Endpoint& e) -> int { return e.wait_fd(); });
}

int spindrift_arm(spindrift_endpoint* endpoint) {
  return with_endpoint(endpoint, [](Endpoint& e) -> int { return e.arm() ? 1 : 0; });
}

int spindrift_wait(spindrift_endpoint* endpoint, int64_t timeout_ns) {
  return with_endpoint(endpoint, [&](Endpoint& e) -> int {
    e.wait(timeout_of(timeout_ns));
    return SPINDRIFT_OK;
  });
}

int64_t spindrift_next_deadline(spindrift_endpoint* endpoint) {
  return with_endpoint<std::int64_t>(endpoint, [](Endpoint& e) -> std::int64_t {
    return e.next_deadline().time_since_epoch().count();
  });
}

int64_t spindrift_now(spindrift_endpoint* endpoint) {
  return with_endpoint<std::int64_t>(
      endpoint, [](Endpoint& e) -> std::int64_t { return e.now().time_since_epoch().count(); });
}

int spindrift_wait_completion(spindrift_endpoint* endpoint, int64_t timeout_ns,
                              spindrift_completion* completion) {
  return with_endpoint(endpoint, [&](Endpoint& e) -> int {
    const int code = check_out(completion);
    if (code != SPINDRIFT_OK) return code;
    const auto come = wait_completion(e, timeout_of(timeout_ns));
    if (!come.ok()) return fail(come.error());
    write_struct(to_c(come.value()), completion->struct_size, completion);
    return SPINDRIFT_OK;
  });
}
