// API endpoints of the history: a metric of each device over time, and the processes that held
// memory. Responses are read from the history's file, so they are made on the server's second
// thread while they are sent.
#pragma once

#include "base/json.hpp"
#include "history/history.hpp"
#include "history/series.hpp"
#include "serve/http.hpp"
#include "serve/router.hpp"
#include "show/live/status_export.hpp"
#include "watch/process_texts.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace vram::serve {

// Without a history (null), responses say how to enable one. Command lines are filtered again,
// since the file may be from a time with other settings.
[[nodiscard]] std::vector<Route> history_routes(
    const std::shared_ptr<const history::History>& history, const std::function<int64_t()>& now_ns,
    watch::CommandLines commands);
[[nodiscard]] bool is_about_history(const Request& request);

// A document with series of points, made in parts while it is sent: it keeps only the points of the
// last part that are not sent yet.

// One element of "series": `facts` with "points" at its end.
struct SeriesPart {
  Json facts;
  std::vector<history::HistoryPoint> points;
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
