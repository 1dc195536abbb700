// A document with series of points, made in parts while it is sent: it keeps only the points of the
// last part that are not sent yet.
#pragma once

#include "base/json.hpp"
#include "serve/http.hpp"
#include "show/status_objects.hpp"
#include "watch/history/series.hpp"

#include <functional>
#include <string>
#include <vector>

namespace vram::serve {

// One element of "series": `facts` with "points" at its end.
struct SeriesPart {
  Json facts;
  std::vector<watch::HistoryPoint> points;
};

class SeriesStream final : public Stream {
 public:
  // Returns the next parts; none: the end.
  using Source = std::function<Result<std::vector<SeriesPart>>()>;

  // Reads the first part immediately, so that an invalid request is an error. `document` contains
  // everything but "series".
  [[nodiscard]] static Result<std::shared_ptr<Stream>> begin(const Json& document, Source source);

  [[nodiscard]] Result<std::string> next() override;
  [[nodiscard]] size_t held_bytes() const override;

 private:
  SeriesStream(std::string text, Source source);
  [[nodiscard]] Result<> load();
  void add_some(std::string& text);

  std::string text_;  // of the document, up to the first series
  Source source_;
  std::vector<SeriesPart> parts_;  // the last parts of the source; none: the end
  size_t part_ = 0;
  size_t point_ = 0;        // of that part
  bool has_begun_ = false;  // that part
  bool is_first_ = true;
  bool has_ended_ = false;
};

}  // namespace vram::serve
