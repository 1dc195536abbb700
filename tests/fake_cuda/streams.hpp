// Work in streams, the events that mark points in it, and captures into graphs. A stream is any
// handle value of a device; it exists from its first use, on the device of the current context
// unless place() named another one. Guarded by the machine's mutex.
#pragma once

#include "gpu/cuda/driver_types.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <utility>

namespace vram::gpu::cuda::fake {

using StreamKey = std::pair<int, CUstream>;  // device, handle

class Streams {
 public:
  void place(StreamKey stream) { places_[stream.second] = stream.first; }
  // The stream that a call in a context of the device names.
  [[nodiscard]] StreamKey named(int device, CUstream stream) const;
  void queue(StreamKey stream);
  // What a test queued; then all of a stream or of a device, with what it waits for.
  void finish_work(StreamKey stream);
  void finish_stream(StreamKey stream) { finish(end_of(stream)); }
  void finish_device(int device);

  [[nodiscard]] CUresult create_event(int device, CUevent* event);
  [[nodiscard]] CUresult record(CUevent event, StreamKey stream);
  [[nodiscard]] CUresult query(CUevent event);
  // Finishes the work before the event.
  [[nodiscard]] CUresult synchronize(CUevent event);
  [[nodiscard]] CUresult wait(StreamKey stream, CUevent event);
  [[nodiscard]] CUresult destroy_event(CUevent event);
  [[nodiscard]] size_t events() const { return events_.size(); }

  // is_blocking: the default stream waits for it, and so can't be used meanwhile.
  void begin_capture(StreamKey stream, bool is_blocking = false);
  [[nodiscard]] int end_capture(StreamKey stream);
  [[nodiscard]] CUcaptureStatus capture_status(StreamKey stream);
  // Why the stream can't be named now; kSuccess: it can.
  [[nodiscard]] CUresult refusal(StreamKey stream);
  // The same of a call that would queue something, which spoils captures that it depends on.
  [[nodiscard]] CUresult refusal_to_queue(StreamKey stream);
  void destroy(StreamKey stream) { destroyed_.insert(stream); }
  [[nodiscard]] uint64_t uses_of_destroyed() const { return uses_of_destroyed_; }
  [[nodiscard]] bool is_any_captured() const;
  [[nodiscard]] bool is_any_captured(int device) const;
  void spoil_captures();

 private:
  // Behind so many items of a stream, counted from its first use.
  struct Point {
    StreamKey stream;
    uint64_t items = 0;
  };
  // Something that a test queued, or a wait for another stream.
  struct Item {
    bool is_wait = false;
    bool is_done = false;
    Point awaited{};
  };
  struct Stream {
    std::deque<Item> items;
    uint64_t dropped = 0;  // items before these, all done
    CUcaptureStatus capture = kCaptureNone;
    bool is_blocking = false;  // while it is captured
    int nodes = 0;
  };
  struct Event {
    int device = 0;
    Point point{};
    bool is_recorded = false;
    StreamKey captured_in{};  // where it was recorded last, if that was captured
    bool is_captured = false;
  };
  // As an H200's driver answers (580.159) for an event that was recorded in a captured stream.
  [[nodiscard]] CUresult refusal_of_captured(const Event& event);
  void push(StreamKey stream, const Item& item);
  [[nodiscard]] Point end_of(StreamKey stream);
  [[nodiscard]] bool is_done(Item& item);
  [[nodiscard]] bool is_done(const Point& point);
  void finish(const Point& point);
  [[nodiscard]] Event* find(CUevent event);

  std::map<StreamKey, Stream> streams_;
  std::map<CUevent, Event> events_;
  std::map<CUstream, int> places_;  // devices
  std::set<StreamKey> destroyed_;
  uint64_t uses_of_destroyed_ = 0;
  uintptr_t last_event_ = 0xe000;
};

}  // namespace vram::gpu::cuda::fake
