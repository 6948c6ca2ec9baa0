#include "collectives/bootstrap/pmix.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>

#include <absl/strings/str_format.h>
#include <dlfcn.h>

#include "collectives/bootstrap/pmix_abi.h"

namespace spindrift::collectives {
namespace {

constexpr const char* kLibrary = "libpmix.so.2";

struct Functions {
  pmix::Init init = nullptr;
  pmix::Finalize finalize = nullptr;
  pmix::Put put = nullptr;
  pmix::Commit commit = nullptr;
  pmix::Get get = nullptr;
  pmix::ErrorText error_text = nullptr;
};

Error no_pmix(const std::string& what) {
  return {ErrorCode::kUnavailable,
          absl::StrFormat("the launcher offers PMIx, but %s; install libpmix2, or give the ranks "
                          "another meeting point by SPINDRIFT_RENDEZVOUS=host:port",
                          what)};
}

template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
}

class LoadedPmix final : public PmixSession {
 public:
  LoadedPmix(const Functions& functions, const pmix::Process& self)
      : functions_(functions), self_(self) {}
  // The library stays loaded: it may have threads and exit handlers of its own.
  ~LoadedPmix() override { functions_.finalize(nullptr, 0); }

  Status complete(Launch& launch) override {
    const auto ranks = number(pmix::kWholeJob, pmix::kJobSize);
    if (!ranks) return no_pmix("its server does not say how many ranks there are");
    launch.ranks = *ranks;
    launch.rank = self_.rank;
    launch.local_rank = number(self_.rank, pmix::kLocalRank).value_or(launch.local_rank);
    launch.local_ranks = number(pmix::kWholeJob, pmix::kLocalSize).value_or(launch.local_ranks);
    return ok_status();
  }

  Status publish(const std::string& name, const std::string& value) override {
    std::string text = value;
    pmix::Value published{.type = pmix::kTypeString, .data = {.string = text.data()}};
    int status = functions_.put(pmix::kGlobalScope, name.c_str(), &published);
    if (status == pmix::kSuccess) status = functions_.commit();
    if (status == pmix::kSuccess) return ok_status();
    return no_pmix(absl::StrFormat("its server takes no value: %s", functions_.error_text(status)));
  }

  Result<std::string> look_up(std::uint32_t rank, const std::string& name,
                              Duration timeout) override {
    pmix::Info limit{};
    std::strncpy(limit.key, pmix::kTimeout, sizeof(limit.key) - 1);
    limit.value.type = pmix::kTypeInt;
    limit.value.data.integer =
        static_cast<int>(std::max<std::int64_t>(1, timeout / std::chrono::seconds(1)));
    pmix::Value* found = nullptr;
    const int status = functions_.get(process(rank).get(), name.c_str(), &limit, 1, &found);
    if (status == pmix::kSuccess && found != nullptr && found->type == pmix::kTypeString) {
      std::string text = found->data.string;
      std::free(found->data.string);
      std::free(found);
      return text;
    }
    return Error(ErrorCode::kTimedOut, absl::StrFormat("the PMIx server has nothing of it: %s",
                                                       functions_.error_text(status)));
  }

 private:
  std::unique_ptr<pmix::Process> process(std::uint32_t rank) const {
    auto other = std::make_unique<pmix::Process>(self_);
    other->rank = rank;
    return other;
  }

  std::optional<std::uint32_t> number(std::uint32_t rank, const char* key) const {
    pmix::Value* found = nullptr;
    if (functions_.get(process(rank).get(), key, nullptr, 0, &found) != pmix::kSuccess ||
        found == nullptr) {
      return std::nullopt;
    }
    const pmix::Value value = *found;
    std::free(found);
    if (value.type == pmix::kTypeUint32) return value.data.uint32;
    if (value.type == pmix::kTypeUint16) return value.data.uint16;
    return std::nullopt;
  }

  const Functions functions_;
  const pmix::Process self_;
};

}  // namespace

Result<std::unique_ptr<PmixSession>> PmixSession::start() {
  void* library = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = ::dlerror();  // NOLINT(concurrency-mt-unsafe): of this thread
    return no_pmix(absl::StrFormat("%s cannot be loaded: %s", kLibrary,
                                   reason == nullptr ? "no reason given" : reason));
  }
  Functions functions;
  find(library, "PMIx_Init", functions.init);
  find(library, "PMIx_Finalize", functions.finalize);
  find(library, "PMIx_Put", functions.put);
  find(library, "PMIx_Commit", functions.commit);
  find(library, "PMIx_Get", functions.get);
  find(library, "PMIx_Error_string", functions.error_text);
  if (functions.init == nullptr || functions.finalize == nullptr || functions.put == nullptr ||
      functions.commit == nullptr || functions.get == nullptr || functions.error_text == nullptr) {
    return no_pmix(absl::StrFormat("%s lacks functions of PMIx 2", kLibrary));
  }
  pmix::Process self{};
  const int status = functions.init(&self, nullptr, 0);
  if (status != pmix::kSuccess) {
    return no_pmix(
        absl::StrFormat("its server cannot be reached: %s", functions.error_text(status)));
  }
  return std::unique_ptr<PmixSession>(std::make_unique<LoadedPmix>(functions, self));
}

}  // namespace spindrift::collectives
