#pragma once
// Writes SVG 1.1. The same calls give the same bytes; everything given as text is escaped.
#include <cstdint>
#include <string>
#include <string_view>

namespace spindrift::chart {

// Fit for text and for attribute values. Control characters, which XML cannot hold, become spaces;
// so does a byte that is no part of a UTF-8 character.
std::string escape_xml(std::string_view text);

// A coordinate to a tenth of a pixel, without idle zeros: "12", "0.5", "-3.4".
std::string pixels(double coordinate);

// About how wide a sans serif font sets the text, in pixels.
double text_width(std::string_view text, double font_pixels);
// The text, or as much of it as fits with an ellipsis at the end.
std::string fitted(std::string_view text, double font_pixels, double width);

struct Box {
  double left = 0;
  double top = 0;
  double width = 0;
  double height = 0;
  double right() const { return left + width; }
  double bottom() const { return top + height; }
};

struct Stroke {
  std::string_view colour = "#000000";
  double width = 1;
  std::string_view dashes{};  // lengths: "6 3"; empty: solid
};

enum class Anchor : std::uint8_t { kStart, kMiddle, kEnd };

struct TextStyle {
  double font_pixels = 12;
  std::string_view colour = "#333333";
  Anchor anchor = Anchor::kStart;
  bool is_bold = false;
  bool is_upright = false;  // turned to read from bottom to top
};

class Svg {
 public:
  // `title` is what a screen reader says and what a browser shows for the whole figure.
  Svg(double width, double height, std::string_view title);

  // What is drawn between these is cut off at the box.
  void begin_clip(const Box& box);
  void end_clip();

  void rectangle(const Box& box, std::string_view fill, double opacity = 1);
  void frame(const Box& box, const Stroke& stroke);
  void line(double x1, double y1, double x2, double y2, const Stroke& stroke);
  // `path`: the d attribute, made of numbers and commands alone.
  void path(std::string_view path, const Stroke& stroke);
  void area(std::string_view path, std::string_view fill, double opacity = 1);
  // y is the baseline.
  void text(double x, double y, std::string_view text, const TextStyle& style);

  // The whole document; nothing may be drawn after it.
  std::string finish();

 private:
  void attribute(std::string_view name, double coordinate);
  void stroke(const Stroke& stroke);

  std::string out_{};
};

}  // namespace spindrift::chart
