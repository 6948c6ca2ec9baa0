#include "collectives/call.h"

#include <algorithm>
#include <functional>
#include <span>

#include <absl/strings/str_format.h>

#include "collectives/plan.h"
#include "transport/base/siphash.h"

namespace spindrift::collectives {
namespace {

constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 56U;

Error invalid(std::string message) {
  return {ErrorCode::kInvalidArgument, std::move(message)};
}

std::uint64_t extent_of(std::span<const std::uint64_t> counts,
                        std::span<const std::uint64_t> offsets) {
  std::uint64_t end = 0;
  for (std::size_t i = 0; i < counts.size(); ++i)
    if (counts[i] > 0) end = std::max(end, offsets[i] + counts[i]);
  return end;
}

// Elements of both buffers at this rank.
struct Elements {
  std::uint64_t input = 0;
  std::uint64_t output = 0;
};

Elements elements_of(const CollectiveCall& call, std::uint32_t rank, std::uint32_t ranks) {
  if (call.collective == Collective::kAllToAllV) {
    return {.input = extent_of(call.input_counts, call.input_offsets),
            .output = extent_of(call.output_counts, call.output_offsets)};
  }
  const BlockCounts blocks = blocks_of(call.collective, ranks);
  Elements elements{.input = call.count * blocks.input, .output = call.count * blocks.output};
  if (rank == call.root) return elements;
  switch (call.collective) {
    case Collective::kBroadcast:
    case Collective::kScatter:
      elements.input = 0;
      break;
    case Collective::kReduce:
    case Collective::kGather:
      elements.output = 0;
      break;
    default:
      break;
  }
  return elements;
}

Status check_tables(const CollectiveCall& call, std::uint32_t rank, std::uint32_t ranks) {
  for (const std::span<const std::uint64_t> table :
       {call.input_counts, call.input_offsets, call.output_counts, call.output_offsets}) {
    if (table.size() != ranks) {
      return invalid(
          absl::StrFormat("all_to_all_v needs %d counts and %d offsets for input and "
                          "output; one table has %d",
                          ranks, ranks, table.size()));
    }
    for (const std::uint64_t value : table) {
      if (value > kMaxBytes / 16) return invalid("a count or offset is out of range");
    }
  }
  if (call.input_counts[rank] != call.output_counts[rank]) {
    return invalid(absl::StrFormat("rank %d sends itself %d elements and expects %d", rank,
                                   call.input_counts[rank], call.output_counts[rank]));
  }
  return ok_status();
}

// Where the output lies when the call is in place.
const std::byte* in_place_output(const CollectiveCall& call, const std::byte* input,
                                 std::uint32_t rank, std::uint64_t block_bytes) {
  switch (call.collective) {
    case Collective::kReduceScatter:
    case Collective::kScatter:
      return input + rank * block_bytes;
    case Collective::kAllGather:
    case Collective::kGather:
      return input - rank * block_bytes;
    default:
      return input;
  }
}

}  // namespace

Result<CallBuffers> check_call(const CollectiveCall& call, std::uint32_t rank,
                               std::uint32_t ranks) {
  if (call.root >= ranks) {
    return invalid(absl::StrFormat("root %d of %d ranks; ranks count from 0 to %d", call.root,
                                   ranks, ranks - 1));
  }
  const std::size_t element = bytes_of(call.type);
  if (call.count > kMaxBytes / 16 / ranks) return invalid("the element count is out of range");
  if (call.collective == Collective::kAllToAllV) {
    if (Status status = check_tables(call, rank, ranks); !status.ok()) return status.error();
  }
  const Elements elements = elements_of(call, rank, ranks);
  CallBuffers buffers{// Registered memory is not const, whatever is done with it.
                      .input = static_cast<std::byte*>(const_cast<void*>(call.input)),
                      .output = static_cast<std::byte*>(call.output),
                      .input_bytes = elements.input * element,
                      .output_bytes = elements.output * element};
  if ((buffers.input_bytes > 0 && buffers.input == nullptr) ||
      (buffers.output_bytes > 0 && buffers.output == nullptr)) {
    return invalid(
        "input and output may be null only for a count of 0, or at a rank that has no "
        "such buffer");
  }
  if (buffers.input_bytes == 0 || buffers.output_bytes == 0) return buffers;
  const std::byte* const same = in_place_output(call, buffers.input, rank, call.count * element);
  if (call.collective != Collective::kAllToAllV && buffers.output == same) {
    buffers.is_in_place = true;
    return buffers;
  }
  const std::less<const std::byte*> before;
  if (before(buffers.input, buffers.output + buffers.output_bytes) &&
      before(buffers.output, buffers.input + buffers.input_bytes)) {
    return invalid(
        "input and output overlap; pass the same memory as the collective's in-place "
        "rule says, or two that do not touch");
  }
  return buffers;
}

BlockTables tables_of(const CollectiveCall& call) {
  const std::size_t element = bytes_of(call.type);
  BlockTables tables;
  for (std::size_t i = 0; i < call.input_counts.size(); ++i) {
    tables.input.push_back(
        {.first = call.input_offsets[i] * element, .bytes = call.input_counts[i] * element});
    tables.output.push_back(
        {.first = call.output_offsets[i] * element, .bytes = call.output_counts[i] * element});
  }
  return tables;
}

Result<TransferPlan> plan_transfers(const CollectiveCall& call, std::uint32_t rank,
                                    std::uint32_t ranks) {
  TransferPlan made{.plan = {.rank = rank, .ranks = ranks}, .chunks = {}};
  std::vector<std::uint32_t> own_sends;
  std::vector<std::uint32_t> own_receives;
  for (std::uint32_t i = 0; i < call.transfers.size(); ++i) {
    const Transfer& transfer = call.transfers[i];
    if (transfer.peer >= ranks) {
      return invalid(absl::StrFormat("a transfer names rank %d of %d", transfer.peer, ranks));
    }
    if (transfer.count > kMaxBytes / 16 || (transfer.count > 0 && transfer.data == nullptr)) {
      return invalid("a transfer has no buffer, or its element count is out of range");
    }
    made.chunks.push_back({.first = reinterpret_cast<std::uintptr_t>(transfer.data),
                           .bytes = transfer.count * bytes_of(call.type)});
    if (transfer.peer == rank) {
      (transfer.is_send ? own_sends : own_receives).push_back(i);
      continue;
    }
    const StepKind kind = transfer.is_send ? StepKind::kSend : StepKind::kReceive;
    const ChunkRef place{.buffer = transfer.is_send ? BufferKind::kInput : BufferKind::kOutput,
                         .chunk = i};
    auto lane = std::find_if(made.plan.lanes.begin(), made.plan.lanes.end(), [&](const Lane& one) {
      return one.peer == transfer.peer && one.steps.front().kind == kind;
    });
    if (lane == made.plan.lanes.end()) {
      lane = made.plan.lanes.insert(lane, Lane{.peer = transfer.peer, .channel = 0, .steps = {}});
    }
    lane->steps.push_back({.kind = kind, .source = place, .target = place});
  }
  if (own_sends.size() != own_receives.size()) {
    return invalid(absl::StrFormat("rank %d lists %d sends to itself and %d receives", rank,
                                   own_sends.size(), own_receives.size()));
  }
  for (std::size_t i = 0; i < own_sends.size(); ++i) {
    if (call.transfers[own_sends[i]].count != call.transfers[own_receives[i]].count) {
      return invalid("a transfer of a rank to itself has two counts");
    }
    Lane lane;
    lane.steps.push_back({.kind = StepKind::kCopy,
                          .source = {.buffer = BufferKind::kInput, .chunk = own_sends[i]},
                          .target = {.buffer = BufferKind::kOutput, .chunk = own_receives[i]}});
    made.plan.lanes.push_back(lane);
  }
  return made;
}

std::uint32_t fingerprint_of(const CollectiveCall& call, std::uint32_t name_hash) {
  const bool is_uniform =
      call.collective != Collective::kAllToAllV && call.collective != Collective::kSendReceive;
  const std::uint64_t kinds =
      static_cast<std::uint64_t>(call.collective) | static_cast<std::uint64_t>(call.type) << 8U |
      static_cast<std::uint64_t>(call.op) << 16U | std::uint64_t{call.root} << 24U;
  // Multipliers are odd and random: no secret, only unlikely to be equal by chance.
  std::uint64_t hash = (kinds + name_hash * 0x9E3779B97F4A7C15ULL) * 0xBF58476D1CE4E5B9ULL;
  hash = (hash ^ (hash >> 29U)) + (is_uniform ? call.count : 0) * 0x94D049BB133111EBULL;
  return static_cast<std::uint32_t>(hash >> 32U);
}

std::uint32_t hash_of(std::string_view name) {
  // Fixed keys: a short name for a name.
  return static_cast<std::uint32_t>(
      siphash24(std::as_bytes(std::span(name.data(), name.size())), SipKey{.k0 = 1, .k1 = 2}));
}

}  // namespace spindrift::collectives
