#include "plugins/nccl/log.h"

#include <atomic>

namespace spindrift::nccl {
namespace {

// NCCL hands it to init(), and every later call may need it.
std::atomic<Logger>& current() {
  static std::atomic<Logger> logger{nullptr};
  return logger;
}

void write(LogLevel level, unsigned long flags, const std::string& sentence) {
  const Logger logger = current().load(std::memory_order_acquire);
  if (logger != nullptr)
    logger(level, flags, "spindrift", 0, "NET/Spindrift : %s", sentence.c_str());
}

}  // namespace

void set_logger(Logger logger) {
  if (logger != nullptr) current().store(logger, std::memory_order_release);
}

void warn(const std::string& sentence) {
  write(kLogWarn, kLogNet, sentence);
}

void inform(unsigned long flags, const std::string& sentence) {
  write(kLogInfo, flags, sentence);
}

}  // namespace spindrift::nccl
