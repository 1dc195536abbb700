#include "serve/series_stream.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

namespace vram::serve {
namespace {

constexpr size_t kPieceBytes = size_t{32} << 10;
constexpr size_t kFactsBytes = 1024;  // about what the facts of a part take in memory

std::string compact(const Json& json) { return json.dump(-1, ' ', true); }

// As the JSON library writes doubles: 3 is 3.0, and what is no number null.
std::string number_text(double number) {
  if (!std::isfinite(number)) return "null";
  std::string text = fmt::format("{}", number);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

void append_point(std::string& text, const watch::HistoryPoint& point) {
  fmt::format_to(std::back_inserter(text),
                 R"({{"time_unix_ns":{},"average":{},"minimum":{},"maximum":{},"count":{}}})",
                 point.time_ns, number_text(point.average), number_text(point.minimum),
                 number_text(point.maximum), point.count);
}

}  // namespace

SeriesStream::SeriesStream(std::string text, Source source)
    : text_(std::move(text)), source_(std::move(source)) {}

Result<std::shared_ptr<Stream>> SeriesStream::begin(const Json& document, Source source) {
  std::string text = compact(document);
  text.back() = ',';  // was its closing brace
  text += "\"series\":[";
  std::shared_ptr<SeriesStream> stream(new SeriesStream(std::move(text), std::move(source)));
  if (const auto loaded = stream->load(); !loaded) return tl::unexpected(loaded.error());
  return stream;
}

Result<> SeriesStream::load() {
  auto parts = source_();
  if (!parts) return tl::unexpected(parts.error());
  parts_ = *std::move(parts);
  part_ = 0;
  return {};
}

// Of the part under way, as much as a piece has room for.
void SeriesStream::add_some(std::string& text) {
  SeriesPart& part = parts_[part_];
  if (!std::exchange(has_begun_, true)) {
    if (!std::exchange(is_first_, false)) text += ',';
    text += compact(part.facts);
    text.back() = ',';
    text += "\"points\":[";
  }
  for (; point_ < part.points.size() && text.size() < kPieceBytes; ++point_) {
    if (point_ > 0) text += ',';
    append_point(text, part.points[point_]);
  }
  if (point_ < part.points.size()) return;
  text += "]}";
  part = SeriesPart();
  ++part_;
  point_ = 0;
  has_begun_ = false;
}

Result<std::string> SeriesStream::next() {
  std::string text = std::exchange(text_, "");
  while (text.size() < kPieceBytes && !has_ended_) {
    if (parts_.empty()) {
      text += "]}\n";
      has_ended_ = true;
    } else if (part_ < parts_.size()) {
      add_some(text);
    } else if (const auto loaded = load(); !loaded) {
      return tl::unexpected(loaded.error());
    }
  }
  return text;
}

size_t SeriesStream::held_bytes() const {
  size_t bytes = 0;
  for (size_t i = part_; i < parts_.size(); ++i)
    bytes += kFactsBytes + parts_[i].points.capacity() * sizeof(watch::HistoryPoint);
  return bytes;
}

}  // namespace vram::serve
