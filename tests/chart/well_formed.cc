#include "tests/chart/well_formed.h"

#include <algorithm>
#include <array>
#include <set>
#include <vector>

namespace spindrift::chart {
namespace {

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == ':' || c == '_';
}

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  std::string read() {
    if (text_.starts_with("<!DOCTYPE html>")) at_ = 15;
    while (at_ < text_.size() && wrong_.empty()) {
      if (text_[at_] == '<')
        read_tag();
      else
        read_character();
    }
    if (wrong_.empty() && !open_.empty()) fail("\"" + open_.back() + "\" stays open");
    if (wrong_.empty() && roots_ != 1) fail(std::to_string(roots_) + " roots");
    return wrong_;
  }

 private:
  void fail(const std::string& what) {
    const std::size_t from = at_ < 20 ? 0 : at_ - 20;
    if (wrong_.empty())
      wrong_ =
          what + " near \"" + std::string(text_.substr(std::min(from, text_.size()), 60)) + "\"";
  }
  char now() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool take(char c) {
    if (now() != c) return false;
    ++at_;
    return true;
  }
  void skip_space() {
    while (now() == ' ' || now() == '\n')
      ++at_;
  }
  std::string name() {
    const std::size_t from = at_;
    while (is_name_character(now()))
      ++at_;
    if (at_ == from) fail("a name is missing");
    return std::string(text_.substr(from, at_ - from));
  }

  void read_character() {
    constexpr std::array<std::string_view, 5> kEntities = {"&amp;", "&lt;", "&gt;", "&quot;",
                                                           "&#39;"};
    const bool is_space = now() == '\n' || now() == ' ';
    if (open_.empty() && !is_space) fail("text outside the root");
    if (!is_space && static_cast<unsigned char>(now()) < 0x20) fail("a control character");
    if (now() == '&' && std::none_of(kEntities.begin(), kEntities.end(), [this](auto entity) {
          return text_.substr(at_).starts_with(entity);
        }))
      fail("a bare ampersand");
    ++at_;
  }

  void read_tag() {
    ++at_;
    if (take('/')) {
      const std::string tag = name();
      if (open_.empty() || open_.back() != tag)
        fail("\"" + tag + "\" closes what is not open");
      else
        open_.pop_back();
      if (!take('>')) fail("a closing tag does not end");
      return;
    }
    const std::string tag = name();
    if (open_.empty()) ++roots_;
    std::set<std::string> seen;
    for (skip_space(); wrong_.empty() && now() != '>' && now() != '/'; skip_space())
      read_attribute(seen);
    const bool is_empty = take('/');
    if (!take('>')) fail("a tag does not end");
    if (!is_empty) open_.push_back(tag);
  }

  void read_attribute(std::set<std::string>& seen) {
    if (!seen.insert(name()).second) fail("an attribute stands twice");
    if (!take('=') || !take('"')) fail("an attribute has no quotes");
    open_.emplace_back("attribute");
    while (wrong_.empty() && at_ < text_.size() && now() != '"') {
      if (now() == '<') fail("a tag within an attribute");
      read_character();
    }
    open_.pop_back();
    if (!take('"')) fail("an attribute does not end");
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int roots_ = 0;
  std::vector<std::string> open_{};
  std::string wrong_{};
};

}  // namespace

std::string what_is_ill_formed(std::string_view text) {
  return Reader(text).read();
}

}  // namespace spindrift::chart
