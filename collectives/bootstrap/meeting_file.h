#pragma once
// A file in a folder that all ranks see, in which rank 0 leaves where it serves.
#include <string>

#include "spindrift/result.h"

namespace spindrift::collectives {

// Replaces the file as a whole: a reader sees the old text or the new one.
Status write_meeting_file(const std::string& path, const std::string& text);
// Empty: there is none yet.
std::string read_meeting_file(const std::string& path);
void remove_meeting_file(const std::string& path);

}  // namespace spindrift::collectives
