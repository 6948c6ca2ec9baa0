#pragma once
// How the spindrift command ends, and how it says why not.
#include <string_view>

namespace spindrift::tools {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailure = 1;  // the network, the peer, the host, or a missed limit
inline constexpr int kExitUsage = 2;    // wrong arguments
inline constexpr int kExitInterrupted = 130;

// Prints "spindrift perf: <sentence>" to standard error and returns `exit_code`. What a peer may
// have put into the sentence does nothing to a terminal.
int complain(std::string_view command, std::string_view sentence, int exit_code);

// Flushes standard output; complains and returns kExitFailure when it could not be written.
int finish_output(std::string_view command, int exit_code);

// From now on the first Ctrl-C (or SIGTERM) only raises a flag; a second one kills.
void catch_interrupts();
bool was_interrupted();

}  // namespace spindrift::tools
