// Reads parts of a .vtrace file: the tables and the list of frames are loaded at the start, events
// on request. The list comes from the index or, if the recorder was stopped before it wrote one,
// from the frames' headers. read_vtrace() (reader.hpp) reads whole recordings. Use it from one
// thread at a time; holds the tables and the buffers of one frame.
#pragma once

#include "base/result.hpp"
#include "trace/trace.hpp"
#include "trace/vtrace/events.hpp"
#include "trace/vtrace/frames.hpp"
#include "trace/vtrace/index.hpp"
#include "trace/vtrace/meta.hpp"
#include "trace/vtrace/source.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace vram::trace {

class VtraceFile {
 public:
  // Errors as of read_vtrace().
  [[nodiscard]] static Result<VtraceFile> open(const std::string& path);
  [[nodiscard]] static Result<VtraceFile> open(std::unique_ptr<VtraceSource> source);

  [[nodiscard]] const std::vector<IndexedFrame>& frames() const { return list_; }
  [[nodiscard]] bool has_index() const { return has_index_; }
  [[nodiscard]] const std::vector<VtraceDevice>& devices() const { return devices_; }
  // Everything but the events, segments and blocks: tables, settings, origin.
  [[nodiscard]] const Trace& about() const { return about_; }

  // Appends the events of one frame of the list. kBadInput: another kind of frame, or a damaged
  // one.
  [[nodiscard]] Result<> read_events(const IndexedFrame& frame, PodVector<Event>& out);

  // Calls visit(first event's number, events) for each frame of the device that may contain events
  // in [from_ns, to_ns), in order; always complete frames, so some events may be outside the range.
  using Visit = std::function<void(uint64_t first_event, std::span<const Event> events)>;
  [[nodiscard]] Result<> read_between(uint16_t device, int64_t from_ns, int64_t to_ns,
                                      const Visit& visit);

 private:
  explicit VtraceFile(std::unique_ptr<VtraceSource> source);
  [[nodiscard]] bool load_index();
  [[nodiscard]] Result<> scan();
  [[nodiscard]] Result<> load_tables();

  std::unique_ptr<VtraceSource> source_;
  FrameReader reader_;
  EventDecoder decoder_;
  std::vector<IndexedFrame> list_;
  std::vector<VtraceDevice> devices_;
  Trace about_;
  bool has_index_ = false;
};

}  // namespace vram::trace
