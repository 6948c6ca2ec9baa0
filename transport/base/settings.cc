// Settings from files and the environment.
#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <system_error>

#include "spindrift/tunables.h"

#include "absl/strings/str_cat.h"
#include "transport/base/edit_distance.h"

extern "C" char** environ;  // NOLINT(readability-redundant-declaration): not in every libc's header

namespace spindrift {
namespace {

constexpr std::string_view kPrefix = "SPINDRIFT_";
constexpr std::string_view kDefault = "default";

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  const std::size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

const Tunable& nearest(std::string_view name) {
  return *std::min_element(tunables().begin(), tunables().end(),
                           [name](const Tunable& a, const Tunable& b) {
                             return edit_distance(name, a.name) < edit_distance(name, b.name);
                           });
}

// One assignment, wherever it stands. `spelled` is the name as written there.
struct Assignment {
  std::string name;
  std::string value;
  std::string spelled;
  std::string origin;
};

Status apply(const Assignment& one, Settings& settings) {
  const Tunable* tunable = find_tunable(one.name);
  const bool is_from_file = one.name == one.spelled;
  if (tunable == nullptr || (tunable->get == nullptr && is_from_file)) {
    const Tunable& meant = nearest(one.name);
    settings.warnings.push_back(
        tunable != nullptr
            ? absl::StrCat(one.origin, ": '", one.spelled, "' can only be set in the environment, ",
                           environment_name(*tunable))
            : absl::StrCat(one.origin, ": nobody knows '", one.spelled, "'; the nearest name is ",
                           is_from_file ? std::string(meant.name) : environment_name(meant)));
    return ok_status();
  }
  const auto index = static_cast<std::size_t>(tunable - tunables().data());
  settings.origins[index] = one.origin;
  if (tunable->set == nullptr) return ok_status();
  const Result<TunableValue> value = parse_value(*tunable, one.value);
  if (!value.ok())
    return Error(ErrorCode::kInvalidArgument,
                 absl::StrCat(one.origin, ": ", one.spelled, " is '", one.value, "'; ",
                              value.error().message()));
  tunable->set(settings, value.value());
  return ok_status();
}

// By errno; `otherwise` where that says nothing.
Status unreadable(const std::string& path, int otherwise) {
  return Error(ErrorCode::kNotFound,
               absl::StrCat("cannot read ", path, ", which SPINDRIFT_CONFIG names: ",
                            std::system_category().message(errno == 0 ? otherwise : errno)));
}

Status apply_file(const std::string& path, bool is_needed, Settings& settings) {
  errno = 0;
  std::ifstream file(path);
  if (!file) return is_needed ? unreadable(path, ENOENT) : ok_status();
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    const std::string_view text =
        trimmed(std::string_view(line).substr(0, std::min(line.find('#'), line.size())));
    if (text.empty()) continue;
    const std::string origin = absl::StrCat(path, ":", number);
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos)
      return Error(ErrorCode::kInvalidArgument,
                   absl::StrCat(origin, ": '", std::string(text),
                                "' is no setting; write 'name = value', or # before a comment"));
    const std::string name(trimmed(text.substr(0, equals)));
    Status status = apply({.name = name,
                           .value = std::string(trimmed(text.substr(equals + 1))),
                           .spelled = name,
                           .origin = origin},
                          settings);
    if (!status.ok()) return status;
  }
  // A directory opens like a file.
  return file.bad() && is_needed ? unreadable(path, EIO) : ok_status();
}

Status apply_environment(const std::vector<std::string>& environment, Settings& settings) {
  for (const std::string& entry : environment) {
    const std::size_t equals = entry.find('=');
    if (equals == std::string::npos || !entry.starts_with(kPrefix)) continue;
    const std::string spelled = entry.substr(0, equals);
    Status status = apply({.name = lower(spelled.substr(kPrefix.size())),
                           .value = entry.substr(equals + 1),
                           .spelled = spelled,
                           .origin = "environment"},
                          settings);
    if (!status.ok()) return status;
  }
  return ok_status();
}

}  // namespace

std::string environment_name(const Tunable& tunable) {
  std::string out(kPrefix);
  for (const char c : tunable.name)
    out += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return out;
}

SettingsSources process_sources() {
  SettingsSources sources;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry)
    sources.environment.emplace_back(*entry);
  // Read while nobody changes the environment: at the start of a program.
  if (const char* named = std::getenv("SPINDRIFT_CONFIG")) {  // NOLINT(concurrency-mt-unsafe)
    if (*named != '\0') sources.files = {named};
    sources.needs_files = true;
    return sources;
  }
  sources.files = {"/etc/spindrift.conf"};
  const char* folder = std::getenv("HOME");  // NOLINT(concurrency-mt-unsafe)
  if (folder != nullptr) sources.files.push_back(std::string(folder) + "/.config/spindrift.conf");
  return sources;
}

Result<Settings> load_settings(const SettingsSources& sources) {
  Settings settings;
  settings.origins.assign(tunables().size(), std::string(kDefault));
  for (const std::string& file : sources.files) {
    const Status status = apply_file(file, sources.needs_files, settings);
    if (!status.ok()) return status.error();
  }
  const Status status = apply_environment(sources.environment, settings);
  if (!status.ok()) return status.error();
  const Status fits = check_bounds(settings.connect);  // of fields that limit each other
  if (!fits.ok()) return fits.error();
  return settings;
}

Result<Settings> load_settings() {
  return load_settings(process_sources());
}

std::string_view origin_of(const Settings& settings, std::string_view name) {
  const Tunable* tunable = find_tunable(name);
  if (tunable == nullptr || settings.origins.empty()) return kDefault;
  return settings.origins[static_cast<std::size_t>(tunable - tunables().data())];
}

}  // namespace spindrift
