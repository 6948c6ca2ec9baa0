#include "tools/coll/gather.h"

#include <absl/strings/str_format.h>

namespace spindrift::coll {

Result<std::vector<std::string>> Gather::to_rank_0(std::string_view text) {
  const std::uint32_t round = round_++;
  std::vector<std::string> texts;
  if (rank_ != 0) {
    if (Status status = store_.set(absl::StrFormat("gather/%d/%d", round, rank_), text);
        !status.ok()) {
      return status.error();
    }
    return texts;
  }
  texts.emplace_back(text);
  for (std::uint32_t rank = 1; rank < ranks_; ++rank) {
    Result<std::string> other = store_.get(absl::StrFormat("gather/%d/%d", round, rank), timeout_);
    if (!other.ok()) {
      return Error(other.error().code(), absl::StrFormat("rank %d did not report its results: %s",
                                                         rank, other.error().message()));
    }
    texts.push_back(std::move(other).value());
  }
  return texts;
}

Result<std::string> Gather::from_rank_0(std::string_view text) {
  const std::string key = absl::StrFormat("word/%d", round_++);
  if (rank_ != 0) return store_.get(key, timeout_);
  if (Status status = store_.set(key, text); !status.ok()) return status.error();
  return std::string(text);
}

}  // namespace spindrift::coll
