#include "sim/world_memory.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <sys/mman.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "transport/base/rng.h"

namespace spindrift::sim {
namespace {

constexpr std::size_t kAliasBytes = 256U << 10U;
constexpr std::uint64_t kPatternShift = 4093;  // between flows, so that mixed-up flows show
constexpr std::uint64_t kPatternShifts = 16;

Error system_error(const char* what) {
  return Error(ErrorCode::kIo, absl::StrCat(what, ": ", std::strerror(errno)));
}

}  // namespace

WorldMemory::~WorldMemory() {
  if (aliased_ != nullptr) munmap(aliased_, aliased_bytes_);
}

Status WorldMemory::prepare(const FlowPlans& flows, std::uint32_t hosts, bool carries_payload,
                            std::uint64_t seed) {
  flows_ = &flows;
  std::uint64_t longest = 1;
  for (const FlowPlan& flow : flows)
    longest = std::max(longest, flow.bytes);
  if (!carries_payload) return alias(std::min(longest, kMessageBytes));
  pattern_.resize(longest + kPatternShift * kPatternShifts);
  Rng rng(seed);
  for (std::byte& one : pattern_)
    one = static_cast<std::byte>(rng.next() >> 56);
  source_ = pattern_;
  std::vector<std::uint64_t> sizes(hosts, 0);
  for (const FlowPlan& flow : flows) {
    offsets_.push_back(sizes[flow.destination]);
    sizes[flow.destination] += flow.bytes;
  }
  for (const std::uint64_t size : sizes)
    sinks_.emplace_back(std::max<std::uint64_t>(size, 1));
  return ok_status();
}

Status WorldMemory::alias(std::size_t bytes) {
  const int file = memfd_create("spindrift-sim", MFD_CLOEXEC);
  if (file < 0) return system_error("memfd_create");
  const std::size_t pieces = (bytes + kAliasBytes - 1) / kAliasBytes;
  aliased_bytes_ = pieces * kAliasBytes;
  void* at = MAP_FAILED;
  if (ftruncate(file, kAliasBytes) == 0)
    at = mmap(nullptr, aliased_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
              0);
  bool is_mapped = at != MAP_FAILED;
  if (is_mapped) aliased_ = static_cast<std::byte*>(at);
  for (std::size_t i = 0; i < pieces && is_mapped; ++i)
    is_mapped = mmap(aliased_ + i * kAliasBytes, kAliasBytes, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_FIXED, file, 0) != MAP_FAILED;
  const Error error = system_error("mapping the hosts' memory");
  close(file);
  if (!is_mapped) return error;
  source_ = {aliased_, aliased_bytes_};
  return ok_status();
}

std::span<std::byte> WorldMemory::sink(std::uint32_t host) {
  return sinks_.empty() ? source_ : std::span<std::byte>(sinks_[host]);
}

std::uint64_t WorldMemory::source_offset(std::uint32_t flow) const {
  return sinks_.empty() ? 0 : flow % kPatternShifts * kPatternShift;
}

std::uint64_t WorldMemory::sink_offset(std::uint32_t flow) const {
  return sinks_.empty() ? 0 : offsets_[flow];
}

bool WorldMemory::is_intact(std::uint32_t flow) const {
  if (sinks_.empty()) return true;
  const FlowPlan& plan = (*flows_)[flow];
  return std::memcmp(sinks_[plan.destination].data() + offsets_[flow],
                     pattern_.data() + source_offset(flow), plan.bytes) == 0;
}

}  // namespace spindrift::sim
