// Writes a .vtrace file: by `vram convert` from a whole Trace, or by a live recorder, call by call
// in the training process. Every frame is passed to the sink in one piece when it is complete, and
// never before the tables that it refers to; what reached the file survives the process. Bounded
// memory: one frame of events for each device, the encoder, and the index. Use it from one thread
// at a time; throws nothing: errors of the sink are returned, and the file stays readable.
#pragma once

#include "base/file.hpp"
#include "base/result.hpp"
#include "trace/trace.hpp"
#include "trace/vtrace/frames.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vram::trace {

// Receives the bytes: appended, in order, each call a complete header or frame.
class VtraceSink {
 public:
  virtual ~VtraceSink() = default;
  [[nodiscard]] virtual Result<> write(std::string_view bytes) = 0;
};

struct VtraceOptions {
  bool has_time = true;
  bool has_pools = false;
  int compression_level = 3;
};

// The index among the writer's devices.
using DeviceIndex = uint16_t;

class VtraceWriter {
 public:
  // Writes the file's header. The sink and the tables must outlive the writer; the tables may grow
  // between calls, and whatever is in them goes to the file before the frame that may need it.
  [[nodiscard]] static Result<VtraceWriter> open(VtraceSink& sink, const Tables& tables,
                                                 const VtraceOptions& options = {});
  VtraceWriter(VtraceWriter&&) noexcept;
  VtraceWriter& operator=(VtraceWriter&&) noexcept;
  ~VtraceWriter();  // writes nothing: a file without finish() is a stopped recording

  // At most kMaxDevices, each (kind, ordinal) once. Written with the next frame.
  [[nodiscard]] Result<DeviceIndex> add_device(DeviceKind kind, uint32_t ordinal);
  // May be called at any time; written with the next frame.
  void add_setting(const Setting& setting);
  void add_about(const Setting& about);
  void add_note(const Note& note);
  void set_ring_overflowed(DeviceIndex device);
  // The recording this one was converted from.
  void set_origin(const Origin& origin);

  // Events of one device, in order. They are kept until they fill a frame.
  [[nodiscard]] Result<> append(DeviceIndex device, std::span<const Event> events);
  [[nodiscard]] Result<> append_annotations(std::span<const Annotation> annotations);
  [[nodiscard]] Result<> append_figures(std::span<const Figure> figures);
  [[nodiscard]] Result<> append_marks(std::span<const Mark> marks);
  // The memory of the device's allocator after the events appended so far. A later call replaces
  // it.
  [[nodiscard]] Result<> append_state(DeviceIndex device, std::span<const Segment> segments,
                                      std::span<const Block> blocks);
  // Writes all that is kept: after this the sink has everything it was given.
  [[nodiscard]] Result<> flush();
  // flush(), then the index. The writer takes nothing more.
  [[nodiscard]] Result<> finish();
  // Writes to another sink, which has a copy of all bytes so far, what completes that copy: facts
  // about it, and the index. Call flush() before the copy is made. This writer continues.
  [[nodiscard]] Result<> complete_copy(VtraceSink& copy, std::span<const Setting> about);

 private:
  struct State;
  explicit VtraceWriter(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Writes the whole trace to a file that appears when it is complete ("-": standard output).
[[nodiscard]] Result<> write_vtrace(const Trace& trace, const std::string& path,
                                    Replace replace = Replace::kOwn);
[[nodiscard]] Result<> write_vtrace(const Trace& trace, VtraceSink& sink);

}  // namespace vram::trace
