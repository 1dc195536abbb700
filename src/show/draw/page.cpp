#include "show/draw/page.hpp"

#include "show/draw/line.hpp"

#include <algorithm>
#include <utility>

namespace vram::show {
namespace {

constexpr int kMinPageWidth = 60;

constexpr int kGap = 2;
constexpr int kMinColumnWidth = 8;

Line fitted(const Line& cell, Shrink shrink, int width) {
  switch (shrink) {
    case Shrink::kNothing:
      return cell;
    case Shrink::kFront:
      return cell.without_front(width);
    case Shrink::kEnd:
      return cell.without_end(width);
    case Shrink::kCut:
      return cell.cut(width);
  }
  return cell;
}

}  // namespace

Page::Page(const TextOptions& options, int widest)
    : options_(options), columns_(std::clamp(options.columns, kMinPageWidth, widest)) {}

void Page::heading(std::string_view title, std::string_view about) {
  blank();
  Line lead(title, Style::kHeading);
  lead.add("  ");
  paragraph(lead, about);
}

void Page::add(std::vector<Line> lines) {
  for (Line& line : lines) lines_.push_back(std::move(line));
}

void Page::paragraph(const Line& lead, std::string_view text, Style style) {
  Line line = lead;
  for (const std::string& part : wrap(text, columns_ - lead.width())) {
    line.pad_to(lead.width()).add(part, style);
    add(std::exchange(line, Line()));
  }
}

void Page::leave_out(const std::string& what) {
  if (std::ranges::find(left_out_, what) == left_out_.end()) left_out_.push_back(what);
}

std::string Page::finish() const {
  std::string out;
  for (const Line& line : lines_) {
    const std::string text = line.text(options_.colour);
    out += options_.unicode ? text : to_ascii(text);
    out += '\n';
  }
  return out;
}

std::vector<int> Table::widths(int available) const {
  std::vector<int> result(columns_.size(), 0);
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size() && i < result.size(); ++i) {
      result[i] = std::max(result[i], row[i].width());
    }
  }
  int excess = -available - kGap;
  int payable = 0;
  for (size_t i = 0; i < result.size(); ++i) {
    excess += result[i] > 0 ? result[i] + kGap : 0;
    if (columns_[i].shrink != Shrink::kNothing) payable += std::max(result[i] - kMinColumnWidth, 0);
  }
  for (size_t i = result.size(); i-- > 0 && excess > payable;) {
    if (!columns_[i].may_go || result[i] == 0) continue;
    excess -= result[i] + kGap;
    result[i] = 0;
  }
  for (size_t i = result.size(); i-- > 0 && excess > 0;) {  // what stands last tells least
    if (columns_[i].shrink == Shrink::kNothing) continue;
    const int paid = std::clamp(result[i] - kMinColumnWidth, 0, excess);
    result[i] -= paid;
    excess -= paid;
  }
  return result;
}

std::vector<Line> Table::draw(int indent, int columns) const {
  const std::vector<int> width = widths(columns - indent);
  std::vector<Line> lines;
  for (const auto& row : rows_) {
    Line line;
    int column = indent;
    for (size_t i = 0; i < row.size() && i < width.size(); ++i) {
      if (width[i] == 0) continue;
      const Line cell = fitted(row[i], columns_[i].shrink, width[i]);
      const bool right = columns_[i].align == Align::kRight;
      line.pad_to(right ? column + width[i] - cell.width() : column).add(cell);
      column += width[i] + kGap;
    }
    lines.push_back(line.width() > columns ? line.without_end(columns) : std::move(line));
  }
  return lines;
}

}  // namespace vram::show
