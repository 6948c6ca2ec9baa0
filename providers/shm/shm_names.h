#pragma once
// Names of sockets that nobody chose, and what dead processes leave behind under them. Internal to
// providers/shm.
#include <string>
#include <string_view>

namespace spindrift {

// What an address without a path is below.
inline constexpr std::string_view kShmFolder = "/dev/shm";
inline constexpr std::string_view kShmPrefix = "spindrift.";
// Ending of the sockets at which segments are handed over (shm_segments.cc).
inline constexpr std::string_view kShmSegments = ".segments";

// A free name, to stand behind kShmPrefix: this process and a random number.
std::string make_shm_name();

// Whether a socket lies there to which no process is bound any more. Nobody bound to it notices the
// question.
bool is_left_behind(const std::string& path);

// Removes the sockets of dead processes from the folder, those with names of make_shm_name alone:
// no other process may take over such a name meanwhile. What cannot be removed (another user's)
// stays.
void remove_left_behind(const std::string& folder = std::string(kShmFolder));

}  // namespace spindrift
