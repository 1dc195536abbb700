#include "streams.hpp"

#include <algorithm>

namespace vram::gpu::cuda::fake {

void Streams::push(StreamKey stream, const Item& item) {
  Stream& target = streams_[stream];
  while (!target.items.empty() && is_done(target.items.front())) {
    target.items.pop_front();
    ++target.dropped;
  }
  target.items.push_back(item);
}

StreamKey Streams::named(int device, CUstream stream) const {
  const auto found = places_.find(stream);
  return {found != places_.end() ? found->second : device, stream};
}

void Streams::queue(StreamKey stream) { push(stream, {}); }

void Streams::finish_work(StreamKey stream) {
  for (Item& item : streams_[stream].items) item.is_done = item.is_done || !item.is_wait;
}

void Streams::finish_device(int device) {
  for (const auto& [key, stream] : streams_) {
    if (key.first == device) finish_stream(key);
  }
}

Streams::Point Streams::end_of(StreamKey stream) {
  const Stream& found = streams_[stream];
  return {stream, found.dropped + found.items.size()};
}

bool Streams::is_done(Item& item) {
  if (item.is_wait && !item.is_done) item.is_done = is_done(item.awaited);
  return item.is_done;
}

bool Streams::is_done(const Point& point) {
  Stream& stream = streams_[point.stream];
  for (uint64_t i = stream.dropped; i < point.items; ++i) {
    if (!is_done(stream.items[i - stream.dropped])) return false;
  }
  return true;
}

void Streams::finish(const Point& point) {
  Stream& stream = streams_[point.stream];
  for (uint64_t i = stream.dropped; i < point.items; ++i) {
    Item& item = stream.items[i - stream.dropped];
    if (item.is_wait && !item.is_done) finish(item.awaited);
    item.is_done = true;
  }
}

Streams::Event* Streams::find(CUevent event) {
  const auto found = events_.find(event);
  return found == events_.end() ? nullptr : &found->second;
}

CUresult Streams::create_event(int device, CUevent* event) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): a handle, never a pointer to anything
  *event = reinterpret_cast<CUevent>(last_event_ += 16);
  events_[*event] = {.device = device};
  return kSuccess;
}

CUresult Streams::record(CUevent event, StreamKey stream) {
  Event* const found = find(event);
  if (found == nullptr || found->device != stream.first) return kErrorInvalidHandle;
  const CUresult refused = refusal_to_queue(stream);
  if (refused != kSuccess) return refused;
  Stream& target = streams_[stream];
  // An event of a graph that is being captured stays the graph's when it is recorded elsewhere.
  const bool is_a_graphs =
      found->is_captured && streams_[found->captured_in].capture != kCaptureNone;
  if (is_a_graphs) return kSuccess;
  found->is_captured = target.capture != kCaptureNone;
  if (found->is_captured) {
    found->captured_in = stream;
    ++target.nodes;
  }
  found->is_recorded = true;
  found->point = end_of(stream);
  return kSuccess;
}

CUresult Streams::refusal_of_captured(const Event& event) {
  if (streams_[event.captured_in].capture == kCaptureNone) return kErrorInvalidValue;
  spoil_captures();
  return kErrorCapturedEvent;
}

CUresult Streams::query(CUevent event) {
  const Event* const found = find(event);
  if (found == nullptr) return kErrorInvalidHandle;
  if (found->is_captured) return refusal_of_captured(*found);
  return !found->is_recorded || is_done(found->point) ? kSuccess : kErrorNotReady;
}

CUresult Streams::synchronize(CUevent event) {
  const Event* const found = find(event);
  if (found == nullptr) return kErrorInvalidHandle;
  if (found->is_captured) return refusal_of_captured(*found);
  if (found->is_recorded) finish(found->point);
  return kSuccess;
}

CUresult Streams::wait(StreamKey stream, CUevent event) {
  const Event* const found = find(event);
  if (found == nullptr) return kErrorInvalidHandle;
  const CUresult refused = refusal_to_queue(stream);
  if (refused != kSuccess) return refused;
  Stream& target = streams_[stream];
  if (target.capture != kCaptureNone) {
    if (!found->is_captured) target.capture = kCaptureInvalidated;
    return found->is_captured ? kSuccess : kErrorCaptureIsolation;
  }
  if (found->is_recorded) push(stream, {.is_wait = true, .awaited = found->point});
  return kSuccess;
}

CUresult Streams::destroy_event(CUevent event) {
  return events_.erase(event) == 1 ? kSuccess : kErrorInvalidHandle;
}

// As an H200's driver answers (580.159): whether the default stream is captured can't be told while
// a blocking stream is, and asking harms nothing.
CUresult Streams::refusal(StreamKey stream) {
  if (destroyed_.count(stream) != 0) {
    ++uses_of_destroyed_;
    return kErrorInvalidHandle;
  }
  constexpr uintptr_t kLegacyDefault = 1;
  if (reinterpret_cast<uintptr_t>(stream.second) > kLegacyDefault) return kSuccess;
  const bool is_needed = std::any_of(streams_.begin(), streams_.end(), [&](const auto& entry) {
    const Stream& other = entry.second;
    return entry.first.first == stream.first && other.capture != kCaptureNone && other.is_blocking;
  });
  return is_needed ? kErrorCaptureImplicit : kSuccess;
}

CUresult Streams::refusal_to_queue(StreamKey stream) {
  const CUresult refused = refusal(stream);
  if (refused == kErrorCaptureImplicit) spoil_captures();
  return refused;
}

void Streams::begin_capture(StreamKey stream, bool is_blocking) {
  streams_[stream].capture = kCaptureActive;
  streams_[stream].is_blocking = is_blocking;
  streams_[stream].nodes = 0;
}

int Streams::end_capture(StreamKey stream) {
  Stream& target = streams_[stream];
  const bool is_whole = std::exchange(target.capture, kCaptureNone) == kCaptureActive;
  return is_whole ? target.nodes : -1;
}

CUcaptureStatus Streams::capture_status(StreamKey stream) { return streams_[stream].capture; }

bool Streams::is_any_captured() const {
  return std::any_of(streams_.begin(), streams_.end(),
                     [](const auto& entry) { return entry.second.capture != kCaptureNone; });
}

bool Streams::is_any_captured(int device) const {
  return std::any_of(streams_.begin(), streams_.end(), [device](const auto& entry) {
    return entry.first.first == device && entry.second.capture != kCaptureNone;
  });
}

void Streams::spoil_captures() {
  for (auto& [key, stream] : streams_) {
    if (stream.capture != kCaptureNone) stream.capture = kCaptureInvalidated;
  }
}

}  // namespace vram::gpu::cuda::fake
