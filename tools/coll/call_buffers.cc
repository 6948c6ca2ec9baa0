#include "tools/coll/call_buffers.h"

#include <algorithm>

namespace spindrift::coll {
namespace {

// No value of a pattern looks like this in any type.
constexpr std::byte kUnwritten{0xA5};

}  // namespace

CallBuffers::CallBuffers(const Options& options, std::uint32_t rank, std::uint32_t ranks,
                         std::uint64_t max_bytes)
    : options_(options),
      operation_(operation_of(options.collective)),
      rank_(rank),
      ranks_(ranks),
      element_bytes_(bytes_of(options.type)),
      pattern_(options.type, options.op, ranks) {
  const std::uint64_t count = count_for(operation_, max_bytes, options.type, ranks);
  input_.resize(input_elements(count) * element_bytes_);
  output_.resize(output_elements(count) * element_bytes_);
}

std::uint64_t CallBuffers::input_elements(std::uint64_t count) const {
  switch (options_.collective) {
    case Collective::kReduceScatter:
    case Collective::kAllToAll:
    case Collective::kScatter:
      return count * ranks_;
    case Collective::kAllToAllV:
      return count * ranks_ * (ranks_ + 1) / 2;
    default:
      return count;
  }
}

std::uint64_t CallBuffers::output_elements(std::uint64_t count) const {
  switch (options_.collective) {
    case Collective::kAllGather:
    case Collective::kAllToAll:
    case Collective::kGather:
      return count * ranks_;
    case Collective::kAllToAllV:
      return count * ranks_ * (ranks_ + 1) / 2;
    default:
      return count;
  }
}

std::span<std::byte> CallBuffers::elements(std::vector<std::byte>& buffer, std::uint64_t first,
                                           std::uint64_t count) const {
  return std::span(buffer).subspan(first * element_bytes_, count * element_bytes_);
}

// In place, the smaller of the two lies in the larger, where the operation wants it.
CallBuffers::Extent CallBuffers::extent(std::uint64_t count, Place place) {
  const std::uint64_t in = input_elements(count);
  const std::uint64_t out = output_elements(count);
  if (place == Place::kApart) return {elements(input_, 0, in), elements(output_, 0, out)};
  std::vector<std::byte>& whole = in > out ? input_ : output_;
  const bool is_root = rank_ == options_.root;
  std::uint64_t input_first = 0;
  std::uint64_t output_first = 0;
  switch (options_.collective) {
    case Collective::kReduceScatter:
      output_first = rank_ * count;
      break;
    case Collective::kAllGather:
      input_first = rank_ * count;
      break;
    case Collective::kGather:
      input_first = is_root ? rank_ * count : 0;
      break;
    case Collective::kScatter:
      output_first = is_root ? rank_ * count : 0;
      break;
    default:
      break;
  }
  return {elements(whole, input_first, in), elements(whole, output_first, out)};
}

void CallBuffers::lay_out_parts(std::uint64_t count) {
  for (auto* numbers : {&input_counts_, &input_offsets_, &output_counts_, &output_offsets_})
    numbers->assign(ranks_, 0);
  std::uint64_t input_next = 0;
  std::uint64_t output_next = 0;
  for (std::uint32_t other = 0; other < ranks_; ++other) {
    input_counts_[other] = uneven_part(count, rank_, other, ranks_);
    output_counts_[other] = uneven_part(count, other, rank_, ranks_);
    input_offsets_[other] = input_next;
    output_offsets_[other] = output_next;
    input_next += input_counts_[other];
    output_next += output_counts_[other];
  }
}

CollectiveCall CallBuffers::call(std::uint64_t count, Place place) {
  const Extent at = extent(count, place);
  CollectiveCall call{.collective = options_.collective,
                      .input = at.input.data(),
                      .output = at.output.data(),
                      .count = count,
                      .type = options_.type,
                      .op = options_.op,
                      .root = options_.root};
  if (options_.collective == Collective::kAllToAllV) {
    lay_out_parts(count);
    call.input_counts = input_counts_;
    call.input_offsets = input_offsets_;
    call.output_counts = output_counts_;
    call.output_offsets = output_offsets_;
  } else if (options_.collective == Collective::kSendReceive) {
    const std::uint32_t next = (rank_ + 1) % ranks_;
    const std::uint32_t before = (rank_ + ranks_ - 1) % ranks_;
    transfers_ = {{.peer = next, .is_send = true, .data = at.input.data(), .count = count},
                  {.peer = before, .is_send = false, .data = at.output.data(), .count = count}};
    call.transfers = transfers_;
  }
  return call;
}

void CallBuffers::clear(std::uint64_t count, Place place) {
  const Extent at = extent(count, place);
  std::fill(at.input.begin(), at.input.end(), std::byte{0});
  std::fill(at.output.begin(), at.output.end(), std::byte{0});
}

void CallBuffers::fill(std::uint64_t count, Place place) {
  const Extent at = extent(count, place);
  std::fill(at.output.begin(), at.output.end(), kUnwritten);
  // In place, what only the root has would show at others if it were there already.
  const bool is_given = (options_.collective != Collective::kBroadcast &&
                         options_.collective != Collective::kScatter) ||
                        rank_ == options_.root;
  if (is_given) pattern_.fill(at.input, rank_, 0);
}

std::uint64_t CallBuffers::count_wrong_parts(std::span<const std::byte> output,
                                             std::uint64_t count) {
  std::uint64_t wrong = 0;
  for (std::uint32_t from = 0; from < ranks_; ++from) {
    // Where rank `from` has the part for this rank.
    std::uint64_t first = 0;
    std::uint64_t part = count;
    std::uint64_t place = from * count;
    if (options_.collective == Collective::kAllToAll) first = rank_ * count;
    if (options_.collective == Collective::kAllToAllV) {
      for (std::uint32_t to = 0; to < rank_; ++to)
        first += uneven_part(count, from, to, ranks_);
      part = output_counts_[from];
      place = output_offsets_[from];
    }
    wrong += pattern_.count_wrong(output.subspan(place * element_bytes_, part * element_bytes_),
                                  from, first);
  }
  return wrong;
}

std::uint64_t CallBuffers::count_wrong(std::uint64_t count, Place place) {
  const std::span<const std::byte> output = extent(count, place).output;
  const bool is_root = rank_ == options_.root;
  switch (options_.collective) {
    case Collective::kAllReduce:
      return pattern_.count_wrong_reduced(output, 0);
    case Collective::kReduceScatter:
      return pattern_.count_wrong_reduced(output, rank_ * count);
    case Collective::kReduce:
      return is_root ? pattern_.count_wrong_reduced(output, 0) : 0;
    case Collective::kBroadcast:
      return pattern_.count_wrong(output, options_.root, 0);
    case Collective::kScatter:
      return pattern_.count_wrong(output, options_.root, rank_ * count);
    case Collective::kSendReceive:
      return pattern_.count_wrong(output, (rank_ + ranks_ - 1) % ranks_, 0);
    case Collective::kGather:
      return is_root ? count_wrong_parts(output, count) : 0;
    case Collective::kAllGather:
    case Collective::kAllToAll:
    case Collective::kAllToAllV:
      return count_wrong_parts(output, count);
    case Collective::kBarrier:
      return 0;
  }
  return 0;
}

}  // namespace spindrift::coll
