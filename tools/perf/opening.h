#pragma once
// The endpoints of client and server, sized for what tests need.
#include <memory>
#include <string_view>

#include "spindrift/open.h"

#include "tools/perf/options.h"

namespace spindrift::perf {

// `address` may name rails to open.
Result<std::unique_ptr<Endpoint>> open_perf_endpoint(std::string_view address,
                                                     const PerfOptions& options);

// Before the endpoint ends: writes its trace. An error names the file, trace or capture, that is
// not complete.
Status finish_files(Endpoint& endpoint, const PerfOptions& options);

// For the control connection.
ConnectOptions control_options(const PerfOptions& options);

}  // namespace spindrift::perf
