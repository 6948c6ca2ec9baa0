#include "transport/base/url_options.h"

#include <algorithm>
#include <string>

namespace spindrift {
namespace {

std::string known_options(const std::string& prefix, TunableScope scope) {
  std::string out;
  for (const Tunable& tunable : tunables())
    if (tunable.scope == scope)
      out += (out.empty() ? "" : ", ") + std::string(tunable.name.substr(prefix.size()));
  return out;
}

}  // namespace

Status take_url_options(const Url& url, TunableScope scope, Settings& settings) {
  const std::string prefix = url.scheme + "_";
  for (const auto& [key, text] : url.options) {
    const Tunable* tunable = find_tunable(prefix + key);
    if (tunable == nullptr || tunable->scope != scope)
      return Error(ErrorCode::kInvalidArgument, url.scheme + " has no option '" + key +
                                                    "'; it knows " + known_options(prefix, scope));
    const auto value = parse_value(*tunable, text);
    if (!value.ok())
      return Error(ErrorCode::kInvalidArgument,
                   url.scheme + " option " + key + "=" + text + ": " + value.error().message());
    tunable->set(settings, value.value());
  }
  return ok_status();
}

void add_url_options(const Settings& settings, TunableScope scope, Url& url) {
  const std::size_t prefix = url.scheme.size() + 1;
  for (const Tunable& tunable : tunables()) {
    if (tunable.scope != scope) continue;
    const std::string key(tunable.name.substr(prefix));
    const bool is_said = std::any_of(url.options.begin(), url.options.end(),
                                     [&key](const auto& option) { return option.first == key; });
    if (!is_said) url.options.emplace_back(key, format_value(tunable, tunable.get(settings)));
  }
}

Status refuse_url_options(const Url& url) {
  if (url.options.empty()) return ok_status();
  const std::string& option = url.options.front().first;
  return Error(ErrorCode::kInvalidArgument,
               "option '" + option +
                   "' stands where a connection or a listener is asked for; it "
                   "is an endpoint's: give it to open_endpoint(), as in " +
                   url.scheme + "://?" + option + "=" + url.options.front().second);
}

}  // namespace spindrift
