// The recordings in a folder, with their findings and reports, for browsers. Names and contents of
// files are untrusted: a name without a slash is opened below the folder, links are refused, and
// `vram report` reads the file in a process of its own (report_process), one at a time.
//
//     folder ─▶ list() ─▶ names, sizes, findings
//                └─ a thread ─▶ vram report ─▶ findings (from small files, unasked), pages
//
// A page is a file in a private temporary folder, under a random name that is known only to those
// who requested it: a browser cannot send a token when it opens a page. It is removed when it is
// old or there are too many.
//
// May be called from any thread; list() and page() read from disk.
#pragma once

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/result.hpp"
#include "base/threads.hpp"
#include "serve/report_process.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace vram::serve {

// Where clients find them, and their pages.
inline constexpr std::string_view kRecordingsPath = "/api/v1/recordings";
inline constexpr std::string_view kRecordingPagesPath = "/recordings/";

struct RecordingLimits {
  size_t listed = 1000;                           // the newest
  uint64_t explained_bytes = uint64_t{64} << 20;  // of files that are explained unasked
  std::chrono::seconds growing_pause = std::chrono::seconds(30);  // until one is explained again
  uint64_t opened_bytes = uint64_t{4} << 30;                      // of others, a report is not made
  size_t pages = 16;
  std::chrono::seconds page_life = std::chrono::hours(1);
  ReportLimits report = {};
};

class Recordings {
 public:
  // kIo, kBadInput: `folder` is no folder that can be read, or there is no room for pages.
  [[nodiscard]] static Result<std::shared_ptr<Recordings>> open(
      const std::string& folder, std::string program = "/proc/self/exe",
      RecordingLimits limits = {});
  ~Recordings();  // kills the process, if any, and removes all pages
  Recordings(const Recordings&) = delete;
  Recordings& operator=(const Recordings&) = delete;

  // vram.recordings/1
  [[nodiscard]] Result<std::string> list();
  // vram.recording_page/1: where the page of a recording is, or how far it is. kNotFound: there is
  // no such recording.
  [[nodiscard]] Result<std::string> request_page(const std::string& name);
  // kNotFound: there is no page, or no longer.
  [[nodiscard]] Result<Descriptor> page(std::string_view key);

 private:
  class State;
  explicit Recordings(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
  DetachableThread thread_;
};

}  // namespace vram::serve
