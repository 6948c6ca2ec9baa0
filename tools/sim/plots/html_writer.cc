#include "tools/sim/plots/html_writer.h"

#include "tools/chart/svg.h"

namespace spindrift::simtool {

void HtmlWriter::open(std::string_view name, std::string_view attributes) {
  out_.append("<").append(name).append(attributes).append(">");
  open_.emplace_back(name);
}

void HtmlWriter::close() {
  out_.append("</").append(open_.back()).append(">\n");
  open_.pop_back();
}

void HtmlWriter::text(std::string_view text) {
  out_ += chart::escape_xml(text);
}

void HtmlWriter::element(std::string_view name, std::string_view content,
                         std::string_view attributes) {
  open(name, attributes);
  text(content);
  close();
}

std::string HtmlWriter::finish() {
  while (!open_.empty())
    close();
  return std::move(out_);
}

void write(HtmlWriter& html, const Table& table) {
  html.open("div", " class=\"scroll\"");
  html.open("table");
  html.open("thead");
  html.open("tr");
  for (const std::string& column : table.columns)
    html.element("th", column, " scope=\"col\"");
  html.close();
  html.close();
  html.open("tbody");
  for (const std::vector<Cell>& row : table.rows) {
    html.open("tr");
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (i == 0)
        html.element("th", row[i].text, " scope=\"row\"");
      else
        html.element("td", row[i].text, row[i].is_best ? " class=\"best\"" : "");
    }
    html.close();
  }
  html.close();
  html.close();
  html.close();
}

std::string_view report_style() {
  return R"css(
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { margin: 0; background: #f3f5f7; color: #222; line-height: 1.45;
  font: 15px/1.45 -apple-system, "Segoe UI", Roboto, Helvetica, Arial, sans-serif; }
main { max-width: 1240px; margin: 0 auto; padding: 20px 16px 48px; }
h1 { font-size: 26px; line-height: 1.2; margin: 8px 0 4px; }
h2 { font-size: 19px; margin: 34px 0 8px; }
h3 { font-size: 15px; margin: 18px 0 6px; }
p { margin: 6px 0; max-width: 82ch; }
.faint { color: #5f6670; }
nav a { color: #0060a0; margin-right: 18px; }
section > .scroll, .card { background: #fff; border: 1px solid #dde1e6; border-radius: 6px; }
.scroll { overflow-x: auto; margin: 8px 0; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: 6px 12px; text-align: right; white-space: nowrap;
  border-bottom: 1px solid #edf0f3; }
thead th { color: #5f6670; font-weight: 600; font-size: 13px; }
th[scope="row"], thead th:first-child { text-align: left; }
tbody th { font-weight: 600; white-space: normal; min-width: 9em; }
th:first-child { position: sticky; left: 0; background: #fff; }
tbody tr:last-child > * { border-bottom: 0; }
td.best { color: #00664b; font-weight: 700; }
#differences table { width: auto; }
#differences td { background: #fff6e0; }
.warning { background: #fdecea; border-left: 4px solid #c0392b; padding: 8px 12px; margin: 8px 0; }
.grid { display: grid; grid-template-columns: 1fr; gap: 14px; }
.grid.several { grid-template-columns: repeat(auto-fit, minmax(min(100%, 540px), 1fr)); }
figure { margin: 0; padding: 6px; }
.card { overflow-x: auto; min-width: 0; }
figure svg { display: block; width: 100%; height: auto; min-width: 520px; max-width: 980px;
  margin: 0 auto; }
figcaption { padding: 4px 12px; font-weight: 600; }
dl { columns: 3 320px; column-gap: 28px; margin: 0; padding: 12px 16px; font-size: 13px; }
dl div { display: flex; justify-content: space-between; gap: 12px; break-inside: avoid;
  border-bottom: 1px solid #edf0f3; padding: 2px 0; }
dt { color: #5f6670; }
dd { margin: 0; text-align: right; overflow-wrap: anywhere; }
@media print {
  @page { margin: 12mm; }
  body { background: #fff; font-size: 11px; }
  main { max-width: none; padding: 0; }
  nav { display: none; }
  figure, tr, .warning { break-inside: avoid; }
  h2, h3 { break-after: avoid; }
  .scroll, .card { overflow: visible; }
  th, td { padding: 3px 5px; white-space: normal; }
  figure svg { min-width: 0; }
  .grid.several { grid-template-columns: 1fr 1fr; }
}
)css";
}

}  // namespace spindrift::simtool
