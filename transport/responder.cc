#include "transport/responder.h"

#include <algorithm>
#include <atomic>

#include "transport/base/bytes.h"

namespace spindrift {
namespace {

constexpr std::uint32_t kAtomicBytes = 8;

MemoryTable::Target find_target(const EngineContext& ctx, const wire::StandardRequest& request) {
  if (request.opcode == wire::Opcode::kRead)
    return ctx.memory.find(request.key, request.buffer_offset, request.request_length,
                           Access::kRemoteRead);
  MemoryTable::Target target =
      ctx.memory.find(request.key, request.buffer_offset, kAtomicBytes, Access::kRemoteAtomic);
  if (target.code == wire::ReturnCode::kOk &&
      reinterpret_cast<std::uintptr_t>(target.data) % kAtomicBytes != 0)
    target.code = wire::ReturnCode::kAtomicUnaligned;
  return target;
}

void execute_read(Connection& c, const wire::StandardRequest& request) {
  ResponseWork& work = c.send->queue.responses.push_back();
  work = ResponseWork{};
  work.key = request.key;
  work.offset = request.buffer_offset;
  work.length = request.request_length;
  work.message_id = request.message_id;
}

void execute_atomic(Connection& c, const WaitingRead& waiting, std::byte* target) {
  std::atomic_ref<std::uint64_t> cell(*reinterpret_cast<std::uint64_t*>(target));
  std::uint64_t old = 0;
  if (waiting.atomic.opcode == wire::AtomicOpcode::kSum) {
    old = cell.fetch_add(waiting.operand);
  } else {
    old = waiting.atomic.compare;
    cell.compare_exchange_strong(old, waiting.atomic.swap);
  }
  ResponseWork& work = c.send->queue.responses.push_back();
  work = ResponseWork{};
  work.is_atomic = true;
  work.result = old;
  work.length = kAtomicBytes;
  work.message_id = waiting.request.message_id;
}

bool parse_atomic(std::span<const std::byte> rest, WaitingRead& waiting) {
  std::size_t bytes = 0;
  if (wire::parse(rest, waiting.atomic, bytes) != wire::ParseError::kOk) return false;
  if (waiting.atomic.opcode != wire::AtomicOpcode::kSum) return true;
  if (rest.size() < bytes + kAtomicBytes) return false;
  waiting.operand = load_be<std::uint64_t>(rest, bytes);
  return true;
}

}  // namespace

wire::ReturnCode take_read(EngineContext& ctx, Connection& c, Psn psn,
                           const wire::StandardRequest& request, std::span<const std::byte> rest) {
  std::vector<WaitingRead>& waiting = c.receive->waiting;
  if (!request.is_som || !request.is_eom || request.request_length > kMaxMessageBytes)
    return wire::ReturnCode::kOperation;
  const Ring<ResponseWork>& responses = c.send->queue.responses;
  if (waiting.size() + responses.size() >= responses.capacity()) return wire::ReturnCode::kNull;
  const wire::ReturnCode code = find_target(ctx, request).code;
  if (code != wire::ReturnCode::kOk) return code;
  WaitingRead read{.psn = psn, .request = request};
  if (request.opcode == wire::Opcode::kFetchingAtomic && !parse_atomic(rest, read))
    return wire::ReturnCode::kUnsupportedOp;
  const auto at =
      std::upper_bound(waiting.begin(), waiting.end(), psn,
                       [](Psn value, const WaitingRead& other) { return value < other.psn; });
  waiting.insert(at, read);
  return wire::ReturnCode::kOk;
}

wire::ReturnCode execute_reads(EngineContext& ctx, Connection& c, Psn& failed) {
  std::vector<WaitingRead>& waiting = c.receive->waiting;
  const Psn edge = c.receive->log.cumulative();
  std::size_t done = 0;
  wire::ReturnCode code = wire::ReturnCode::kOk;
  while (done < waiting.size() && waiting[done].psn <= edge) {
    const WaitingRead& read = waiting[done++];
    const MemoryTable::Target target = find_target(ctx, read.request);  // it may be gone by now
    code = target.code;
    failed = read.psn;
    if (code != wire::ReturnCode::kOk) break;
    if (read.request.opcode == wire::Opcode::kRead)
      execute_read(c, read.request);
    else
      execute_atomic(c, read, target.data);
  }
  waiting.erase(waiting.begin(), waiting.begin() + static_cast<std::ptrdiff_t>(done));
  if (done != 0) ctx.make_ready(c);
  return code;
}

}  // namespace spindrift
