#include "tools/chart/svg.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <utility>

namespace spindrift::chart {
namespace {

// Length of the UTF-8 character that starts at `at`; 0: none does.
std::size_t character_bytes(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(at);
  std::size_t length = 0;
  if (lead < 0x80) length = 1;
  if (lead >= 0xc2 && lead < 0xe0) length = 2;
  if (lead >= 0xe0 && lead < 0xf0) length = 3;
  if (lead >= 0xf0 && lead < 0xf5) length = 4;
  if (length == 0 || at + length > text.size()) return 0;
  for (std::size_t i = at + 1; i < at + length; ++i)
    if ((byte(i) & 0xc0U) != 0x80) return 0;
  // Overlong forms, surrogates, beyond the last code point, and what XML excludes.
  if (length == 3 && lead == 0xe0 && byte(at + 1) < 0xa0) return 0;
  if (length == 3 && lead == 0xed && byte(at + 1) >= 0xa0) return 0;
  if (length == 3 && lead == 0xef && byte(at + 1) == 0xbf && byte(at + 2) >= 0xbe) return 0;
  if (length == 4 && lead == 0xf0 && byte(at + 1) < 0x90) return 0;
  if (length == 4 && lead == 0xf4 && byte(at + 1) >= 0x90) return 0;
  return length;
}

// In parts of the font size; a little generous, as fonts differ.
double character_width(std::string_view character) {
  if (character.size() > 1) return character.size() == 2 ? 0.6 : 1;
  const char c = character.front();
  constexpr std::string_view kNarrow = "ijl.,:;|'!I ftr()[]/";
  constexpr std::string_view kWide = "mwMW%@";
  if (kNarrow.find(c) != std::string_view::npos) return 0.33;
  if (kWide.find(c) != std::string_view::npos) return 0.86;
  return c >= 'A' && c <= 'Z' ? 0.68 : 0.56;
}

std::string_view name_of(Anchor anchor) {
  switch (anchor) {
    case Anchor::kStart:
      return "start";
    case Anchor::kMiddle:
      return "middle";
    case Anchor::kEnd:
      return "end";
  }
  return "start";
}

}  // namespace

std::string escape_xml(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = character_bytes(text, at);
    const std::string_view character = text.substr(at, length == 0 ? 1 : length);
    at += character.size();
    if (character == "&")
      out += "&amp;";
    else if (character == "<")
      out += "&lt;";
    else if (character == ">")
      out += "&gt;";
    else if (character == "\"")
      out += "&quot;";
    else if (character == "'")
      out += "&#39;";
    else if (length == 0 || static_cast<unsigned char>(character.front()) < 0x20)
      out += ' ';
    else
      out += character;
  }
  return out;
}

std::string pixels(double coordinate) {
  const double tenths = std::round(coordinate * 10);
  std::array<char, 40> buffer{};
  const int length =
      std::snprintf(buffer.data(), buffer.size(), "%.1f", tenths == 0 ? 0 : tenths / 10);
  std::string text(buffer.data(), static_cast<std::size_t>(length));
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text;
}

double text_width(std::string_view text, double font_pixels) {
  double width = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = std::max<std::size_t>(character_bytes(text, at), 1);
    width += character_width(text.substr(at, length));
    at += length;
  }
  return width * font_pixels;
}

std::string fitted(std::string_view text, double font_pixels, double width) {
  if (text_width(text, font_pixels) <= width) return std::string(text);
  const double room = width - text_width("…", font_pixels);
  std::string out;
  double used = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = std::max<std::size_t>(character_bytes(text, at), 1);
    const std::string_view character = text.substr(at, length);
    used += text_width(character, font_pixels);
    if (used > room) break;
    out += character;
    at += length;
  }
  return out + "…";
}

Svg::Svg(double width, double height, std::string_view title) {
  out_ = "<svg xmlns=\"http://www.w3.org/2000/svg\"";
  attribute("width", width);
  attribute("height", height);
  out_.append(" viewBox=\"0 0 ").append(pixels(width)).append(" ").append(pixels(height));
  out_ += "\" font-family=\"Helvetica,Arial,sans-serif\" role=\"img\">\n";
  out_.append("<title>").append(escape_xml(title)).append("</title>\n");
}

// A nested drawing cuts at its edges, and unlike a clip path it needs no name that could be taken
// twice where several figures share a page.
void Svg::begin_clip(const Box& box) {
  out_ += "<svg";
  attribute("x", box.left);
  attribute("y", box.top);
  attribute("width", box.width);
  attribute("height", box.height);
  out_ += " viewBox=\"" + pixels(box.left) + " " + pixels(box.top) + " " + pixels(box.width) + " " +
          pixels(box.height) + "\">\n";
}

void Svg::end_clip() {
  out_ += "</svg>\n";
}

void Svg::rectangle(const Box& box, std::string_view fill, double opacity) {
  out_ += "<rect";
  attribute("x", box.left);
  attribute("y", box.top);
  attribute("width", box.width);
  attribute("height", box.height);
  out_.append(" fill=\"").append(fill).append("\"");
  if (opacity < 1) attribute("fill-opacity", opacity);
  out_ += "/>\n";
}

void Svg::frame(const Box& box, const Stroke& with) {
  out_ += "<rect";
  attribute("x", box.left);
  attribute("y", box.top);
  attribute("width", box.width);
  attribute("height", box.height);
  stroke(with);
  out_ += "/>\n";
}

void Svg::line(double x1, double y1, double x2, double y2, const Stroke& with) {
  path("M" + pixels(x1) + " " + pixels(y1) + "L" + pixels(x2) + " " + pixels(y2), with);
}

void Svg::path(std::string_view path, const Stroke& with) {
  if (path.empty()) return;
  out_.append("<path d=\"").append(path).append("\"");
  stroke(with);
  out_ += "/>\n";
}

void Svg::area(std::string_view path, std::string_view fill, double opacity) {
  if (path.empty()) return;
  out_.append("<path d=\"").append(path).append("\" fill=\"").append(fill).append("\"");
  if (opacity < 1) attribute("fill-opacity", opacity);
  out_ += "/>\n";
}

void Svg::text(double x, double y, std::string_view text, const TextStyle& style) {
  if (text.empty()) return;
  out_ += "<text";
  attribute("x", x);
  attribute("y", y);
  attribute("font-size", style.font_pixels);
  out_.append(" fill=\"").append(style.colour).append("\"");
  if (style.anchor != Anchor::kStart)
    out_.append(" text-anchor=\"").append(name_of(style.anchor)).append("\"");
  if (style.is_bold) out_ += " font-weight=\"bold\"";
  if (style.is_upright) out_ += " transform=\"rotate(-90 " + pixels(x) + " " + pixels(y) + ")\"";
  out_.append(">").append(escape_xml(text)).append("</text>\n");
}

std::string Svg::finish() {
  return std::move(out_) + "</svg>\n";
}

void Svg::attribute(std::string_view name, double coordinate) {
  out_.append(" ").append(name).append("=\"").append(pixels(coordinate)).append("\"");
}

void Svg::stroke(const Stroke& stroke) {
  out_.append(" fill=\"none\" stroke=\"").append(stroke.colour).append("\"");
  if (stroke.width != 1) attribute("stroke-width", stroke.width);
  if (!stroke.dashes.empty())
    out_.append(" stroke-dasharray=\"").append(stroke.dashes).append("\"");
}

}  // namespace spindrift::chart
