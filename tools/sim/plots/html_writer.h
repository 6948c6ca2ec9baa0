#pragma once
// Puts a page together from text that is escaped here and drawings that are markup already.
#include <string>
#include <string_view>
#include <vector>

namespace spindrift::simtool {

class HtmlWriter {
 public:
  // <name attributes>...</name> around what is written between; attributes: " class=\"wide\"".
  void open(std::string_view name, std::string_view attributes = {});
  void close();
  void text(std::string_view text);
  void element(std::string_view name, std::string_view text, std::string_view attributes = {});
  void markup(std::string_view markup) { out_ += markup; }

  // All elements are closed.
  std::string finish();

 private:
  std::string out_{};
  std::vector<std::string> open_{};
};

struct Cell {
  std::string text{};
  bool is_best = false;
};
// The first column names the row.
struct Table {
  std::vector<std::string> columns{};
  std::vector<std::vector<Cell>> rows{};
};
void write(HtmlWriter& html, const Table& table);

// The page's style sheet.
std::string_view report_style();

}  // namespace spindrift::simtool
