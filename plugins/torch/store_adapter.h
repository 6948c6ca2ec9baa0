#pragma once
// PyTorch's store as ours.
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "spindrift/collective.h"

#include "plugins/torch/engine.h"

namespace spindrift::torch_plugin {

// As safe to use from several threads as the store behind it; PyTorch's are.
class StoreAdapter final : public Store {
 public:
  explicit StoreAdapter(c10::intrusive_ptr<c10d::Store> store) : store_(std::move(store)) {}

  Status set(std::string_view key, std::string_view value) override {
    return guarded([&] {
      store_->set(std::string(key), std::vector<std::uint8_t>(value.begin(), value.end()));
      return ok_status();
    });
  }

  // Asks again and again: a get that waits keeps other threads out of PyTorch's store.
  Result<std::string> get(std::string_view key, Duration timeout) override {
    const Time deadline = clock_now() + timeout;
    return guarded([&]() -> Result<std::string> {
      while (!store_->check({std::string(key)})) {
        if (clock_now() >= deadline) {
          return Error(ErrorCode::kTimedOut,
                       "nobody set \"" + std::string(key) + "\" in PyTorch's store in time");
        }
        std::this_thread::sleep_for(kPause);
      }
      const std::vector<std::uint8_t> value = store_->get(std::string(key));
      return std::string(value.begin(), value.end());
    });
  }

  Result<std::int64_t> add(std::string_view key, std::int64_t amount) override {
    return guarded([&] { return Result<std::int64_t>(store_->add(std::string(key), amount)); });
  }

 private:
  static constexpr auto kPause = std::chrono::milliseconds(2);

  template <class Call>
  static auto guarded(const Call& call) -> decltype(call()) {
    try {
      return call();
    } catch (const std::exception& exception) {
      return Error(ErrorCode::kIo, std::string("PyTorch's store: ") + exception.what());
    }
  }

  const c10::intrusive_ptr<c10d::Store> store_;
};

}  // namespace spindrift::torch_plugin
