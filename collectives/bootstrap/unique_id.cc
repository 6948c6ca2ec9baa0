#include "collectives/bootstrap/unique_id.h"

#include <algorithm>

#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>

namespace spindrift::collectives {
namespace {

constexpr std::string_view kMagic = "spindrift-1";

}  // namespace

std::string to_text(const Meeting& meeting) {
  std::string text = std::string(kMagic) + "/" + meeting.token + "/";
  bool is_first = true;
  for (const std::string& address : meeting.addresses) {
    if (text.size() + 1 + address.size() > UniqueId::kBytes) break;
    text += (is_first ? "" : ",") + address;
    is_first = false;
  }
  return text;
}

Result<Meeting> meeting_from_text(std::string_view text) {
  const std::vector<std::string> parts = absl::StrSplit(std::string(text), '/');
  if (parts.size() != 3 || parts[0] != kMagic || parts[2].empty()) {
    return Error(ErrorCode::kInvalidArgument,
                 "this is no identifier of a meeting; pass the 128 bytes of Rendezvous::id() on "
                 "unchanged, between processes of the same version");
  }
  return Meeting{.token = parts[1], .addresses = absl::StrSplit(parts[2], ',')};
}

UniqueId to_id(const Meeting& meeting) {
  UniqueId id;
  const std::string text = to_text(meeting);
  std::copy(text.begin(), text.end(), id.bytes.begin());
  return id;
}

Result<Meeting> meeting_from_id(const UniqueId& id) {
  const auto end = std::find(id.bytes.begin(), id.bytes.end(), '\0');
  return meeting_from_text(std::string(id.bytes.begin(), end));
}

}  // namespace spindrift::collectives
