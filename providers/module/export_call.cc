#include "providers/module/export_call.h"

namespace spindrift {

void report(const ModuleErrorSink& sink, const Error& error) {
  sink.report(sink.to, static_cast<std::uint32_t>(error.code()), error.message().data(),
              error.message().size());
}

}  // namespace spindrift
