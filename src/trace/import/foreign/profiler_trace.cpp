#include "base/bytes.hpp"
#include "base/json.hpp"
#include "trace/import/foreign/foreign.hpp"
#include "trace/import/foreign/profiler_events.hpp"

#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

namespace vram::trace {
namespace {

// A single text or number of a trace; the parser holds it in memory.
constexpr size_t kMaxTokenBytes = size_t{16} << 20;

// The characters of a window, for a parser that takes iterators. Copies share the place.
class Characters {
 public:
  struct Place {
    explicit Place(ByteWindow& the_window) : window(the_window), at(the_window.begin()) {}
    ByteWindow& window;
    const uint8_t* at;
    size_t since_token = 0;
    bool is_at_end = false;
    bool is_too_long = false;
  };
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  explicit Characters(Place* place) : place_(place) {}  // nullptr: the end
  [[nodiscard]] reference operator*() const { return *reinterpret_cast<const char*>(place_->at); }
  Characters& operator++() {
    ++place_->at;
    if (++place_->since_token > kMaxTokenBytes) place_->is_too_long = true;
    return *this;
  }
  friend bool operator==(const Characters& a, const Characters& b) {
    return a.is_end() == b.is_end();
  }

 private:
  [[nodiscard]] bool is_end() const {
    if (place_ == nullptr || place_->is_at_end || place_->is_too_long) return true;
    ByteWindow& window = place_->window;
    if (place_->at == window.end()) {
      const bool is_read = window.refill(place_->at, 1);
      place_->at = window.begin();
      place_->is_at_end = !is_read || window.begin() == window.end();
    }
    return place_->is_at_end;
  }
  Place* place_;
};

// Takes the members that matter out of the parser's calls: of the root, of the objects in
// "traceEvents", and of their "args".
class TraceHandler final : public nlohmann::json_sax<Json> {
 public:
  TraceHandler(Characters::Place& place, ProfilerEvents& events) : place_(place), events_(events) {}

  [[nodiscard]] bool has_events() const { return has_events_; }
  // Once it is, the parser ends.
  [[nodiscard]] bool is_too_deep() const { return depth_ > kMaxDepth; }
  [[nodiscard]] const std::string& complaint() const { return complaint_; }

  bool null() override { return token(); }
  bool boolean(bool) override { return token(); }
  bool number_integer(int64_t value) override {
    take(static_cast<double>(value), value);
    return token();
  }
  bool number_unsigned(uint64_t value) override {
    take(static_cast<double>(value), static_cast<int64_t>(value));
    return token();
  }
  bool number_float(double value, const std::string&) override {
    take(value, 0);
    return token();
  }
  bool string(std::string& value) override {
    if (is_in_event() && depth_ == kEventDepth) {
      if (key_ == "ph" && value.size() == 1) event_.phase = value.front();
      if (key_ == "name") event_.name = value;
      if (key_ == "cat") event_.category = value;
      // Threads of a trace are numbers, and texts for tracks of the profiler's own.
      if (key_ == "tid") event_.thread = static_cast<int64_t>(std::hash<std::string>()(value));
    }
    return token();
  }
  bool binary(binary_t&) override { return token(); }
  bool start_object(size_t) override {
    if (++depth_ == kEventDepth && is_in_events_) event_ = {};
    return token() && !is_too_deep();
  }
  bool end_object() override {
    if (depth_-- == kEventDepth && is_in_events_) events_.add(event_);
    return token() && !events_.is_full();
  }
  bool start_array(size_t) override {
    if (++depth_ == kEventDepth - 1 && root_key_ == "traceEvents")
      is_in_events_ = has_events_ = true;
    return token() && !is_too_deep();
  }
  bool end_array() override {
    if (depth_-- == kEventDepth - 1) is_in_events_ = false;
    return token();
  }
  bool key(std::string& value) override {
    if (depth_ == 1) root_key_ = value;
    if (depth_ == kEventDepth) key_ = value;
    if (depth_ == kEventDepth + 1) inner_key_ = value;
    return token();
  }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception& error) override {
    complaint_ = error.what();
    return false;
  }

 private:
  static constexpr size_t kEventDepth = 3;  // root, array, event
  static constexpr size_t kMaxDepth = 256;

  bool token() {
    place_.since_token = 0;
    return true;
  }
  [[nodiscard]] bool is_in_event() const { return is_in_events_ && depth_ >= kEventDepth; }
  void take(double number, int64_t whole) {
    if (depth_ == 1 && root_key_ == "baseTimeNanoseconds") events_.set_base_ns(whole);
    if (!is_in_event()) return;
    if (depth_ == kEventDepth) {
      if (key_ == "ts") event_.begin_us = number;
      if (key_ == "dur") event_.duration_us = number;
      if (key_ == "pid") event_.process = whole;
      if (key_ == "tid") event_.thread = whole;
    } else if (depth_ == kEventDepth + 1 && key_ == "args") {
      if (inner_key_ == "Bytes") event_.bytes = whole;
      if (inner_key_ == "Addr") event_.address = static_cast<uint64_t>(whole);
      if (inner_key_ == "Device Id") event_.device = whole;
      if (inner_key_ == "Device Type") event_.device_type = whole;
    }
  }

  Characters::Place& place_;
  ProfilerEvents& events_;
  size_t depth_ = 0;
  bool is_in_events_ = false;
  bool has_events_ = false;
  std::string root_key_;
  std::string key_;
  std::string inner_key_;
  ProfilerEvent event_;
  std::string complaint_;
};

}  // namespace

Result<Trace> import_profiler_trace(ByteSource& source, const OpenOptions& options) {
  ByteWindow window(source, {options.max_decompressed_bytes, options.progress});
  Characters::Place place(window);
  Trace trace;
  ProfilerEvents events(trace);
  TraceHandler handler(place, events);
  const bool is_complete =
      Json::sax_parse(Characters(&place), Characters(nullptr), &handler) && !source.is_truncated();
  const uint64_t offset = window.offset_of(place.at);
  if (window.error()) return tl::unexpected(*window.error());
  if (place.is_too_long)
    return fail(Code::kTooLarge, "expected texts of at most {}, found a longer one at byte {}",
                format_bytes(kMaxTokenBytes), format_count(offset));
  if (handler.is_too_deep())
    return fail(Code::kBadInput,
                "expected JSON of torch.profiler, found too many levels at byte {}",
                format_count(offset));
  if (!is_complete && !place.is_at_end && !events.is_full())
    return fail(Code::kBadInput, "expected JSON of torch.profiler, found an error at byte {}: {}",
                format_count(offset), handler.complaint());
  if (!is_complete && !events.is_full()) trace.origin.truncated_at_byte = offset;
  if (is_complete && !handler.has_events())
    return fail(Code::kBadInput,
                "expected a trace of torch.profiler, found JSON without \"traceEvents\"");
  VRAM_TRY(events.finish());
  trace.origin.format = "torch.profiler trace";
  return trace;
}

}  // namespace vram::trace
