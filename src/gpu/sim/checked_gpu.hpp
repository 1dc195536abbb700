// CheckedGpu: the simulated GPU with work that names the memory it reads and writes, and runs late:
// in any order that streams and events allow (work_order.hpp), one step at a time, when the test
// says so. It finds what would corrupt memory or kill the context on a real device, and keeps it as
// text instead of stopping:
//
//   - a range is unmapped, mapped again or given other access rights, although work that names it
//   may be
//     unfinished as far as the host can know;
//   - two pieces of work, at least one of which writes, touch the same physical bytes, and neither
//     is ordered before the other. A handle that is mapped twice is one piece of memory;
//   - a read finds other bytes than were last written for it, or memory that is not there;
//   - a stream is named after it ended;
//   - the device is waited for while a stream is captured into a graph, which breaks the capture;
//   - the device is waited for, and work on it waits for what never comes.
//
// Races are found when work is queued, whatever order it runs in later. For tests of allocators:
// the plain SimGpu does none of this. One device, one thread at a time; copies are not checked.
#pragma once

#include "gpu/sim/sim_gpu.hpp"
#include "gpu/sim/work_order.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace vram::gpu {

// Spans: a value for each byte of [0, bytes), kept as the spans over which it is the same. A sorted
// vector: cheap for the few dozen blocks of one handle. Not thread-safe.

template <typename T>
class Spans {
 public:
  explicit Spans(uint64_t bytes) : bytes_(bytes) { spans_.push_back({0, T()}); }

  // visit(begin, end, value) for each span of the range; spans are split at its borders.
  template <typename Visit>
  void update(uint64_t begin, uint64_t end, Visit visit) {
    const size_t first = split(begin);
    const size_t last = split(end);
    for (size_t i = first; i < last; ++i) visit(spans_[i].begin, end_of(i), spans_[i].value);
  }
  // One value for all of the range.
  void assign(uint64_t begin, uint64_t end, T value) {
    const size_t first = split(begin);
    const size_t last = split(end);
    spans_[first].value = std::move(value);
    spans_.erase(spans_.begin() + static_cast<ptrdiff_t>(first) + 1,
                 spans_.begin() + static_cast<ptrdiff_t>(last));
  }
  [[nodiscard]] size_t size() const { return spans_.size(); }

 private:
  struct Span {
    uint64_t begin = 0;
    T value;
  };
  [[nodiscard]] uint64_t end_of(size_t i) const {
    return i + 1 < spans_.size() ? spans_[i + 1].begin : bytes_;
  }
  // The index of the span that begins there.
  size_t split(uint64_t at) {
    if (at == bytes_) return spans_.size();
    auto next = std::ranges::upper_bound(spans_, at, {}, &Span::begin);
    if (std::prev(next)->begin == at) return static_cast<size_t>(next - spans_.begin()) - 1;
    next = spans_.insert(next, {at, std::prev(next)->value});
    return static_cast<size_t>(next - spans_.begin());
  }

  uint64_t bytes_;
  std::vector<Span> spans_;
};

class CheckedGpu : public SimGpu {
 public:
  explicit CheckedGpu(const SimOptions& options = {});

  // Work that touches these ranges. Flags: work that waits for one runs after the work that sets
  // it, which no stream or event says, as a kernel spins on memory that another one writes.
  void work(StreamHandle stream, std::vector<Access> accesses, WorkOrder::Flag waits_for = 0,
            WorkOrder::Flag sets = 0);
  // Work runs, if any can: which, the number chooses.
  bool step(uint64_t choice) { return order_.step(choice); }
  // All of it; what never can is a violation.
  void finish_work();
  void end_stream(StreamHandle stream) { order_.end(stream); }
  [[nodiscard]] uint32_t spare_streams() const { return order_.spare_streams(); }
  void begin_stream(StreamHandle stream) { order_.begin(stream); }
  // A stream that is captured cannot be queried: no event is recorded in it, and it waits for none
  // (kNotReady). The capture ends before the stream does.
  void begin_capture(StreamHandle stream) { order_.begin_capture(stream); }
  void end_capture(StreamHandle stream) { order_.end_capture(stream); }
  [[nodiscard]] bool is_captured(StreamHandle stream) const { return order_.is_captured(stream); }

  [[nodiscard]] bool has_violations() const { return violation_count_ > 0; }
  [[nodiscard]] uint64_t violation_count() const { return violation_count_; }
  // The first ones.
  [[nodiscard]] const std::vector<std::string>& violations() const { return violations_; }

  // Memory: those calls that mean something to the checks.
  [[nodiscard]] Status alloc_segment(uint32_t device, uint64_t bytes, Address* address) override;
  [[nodiscard]] Status free_segment(uint32_t device, Address address) override;
  [[nodiscard]] Status create(uint32_t device, uint64_t bytes, Handle* handle) override;
  [[nodiscard]] Status release(Handle handle) override;
  [[nodiscard]] Status map(Address address, uint64_t bytes, Handle handle) override;
  [[nodiscard]] Status set_access(Address address, uint64_t bytes, uint32_t device) override;
  [[nodiscard]] Status unmap(Address address, uint64_t bytes) override;
  [[nodiscard]] Status record(uint32_t device, StreamHandle stream, EventHandle* event) override;
  [[nodiscard]] Status query(EventHandle event) override;
  [[nodiscard]] Status wait(EventHandle event) override;
  [[nodiscard]] Status stream_wait(uint32_t device, StreamHandle stream,
                                   EventHandle event) override;
  [[nodiscard]] Status destroy(EventHandle event) override;
  [[nodiscard]] Status synchronize(uint32_t device) override;

 private:
  // Work that touched bytes: a number in a slot of the clocks.
  struct Touch {
    StreamHandle stream = 0;
    uint32_t slot = 0;
    uint64_t number = 0;  // 0: none
  };
  struct Touches {
    Touch writer;
    std::vector<Touch> readers;  // since then, the last of each slot
  };
  // Physical memory.
  struct Piece {
    explicit Piece(uint64_t bytes) : touches(bytes), tags(bytes) {}
    Spans<Touches> touches;  // as queued
    Spans<uint64_t> tags;    // as run so far
    uint32_t mappings = 0;
    bool is_released = false;
  };
  struct Mapped {
    uint64_t bytes = 0;
    Handle handle = 0;
    bool is_accessible = false;
    WorkOrder::Clock named{};  // by work so far: the last number of each slot
  };
  struct Part {
    Mapped* mapped = nullptr;
    Address address = 0;
    uint64_t offset = 0;  // in the handle
    uint64_t bytes = 0;
  };
  // visit(part) for each mapping of the range; says where memory is missing.
  template <typename Visit>
  void for_parts(const WorkOrder::Work& work, const Access& access, Visit visit);
  void note(const WorkOrder::Work& work, const Access& access, const Part& part);
  void run(const WorkOrder::Work& work);
  void check_order(const WorkOrder::Work& work, const Access& access, const Part& part,
                   const Touch& before, const char* did);
  void check_unused(const char* call, Address address, uint64_t bytes);
  void check_stream(const char* call, StreamHandle stream);
  void add_mapping(Address address, uint64_t bytes, Handle handle);
  void drop_mappings(Address address, uint64_t bytes);
  void report(std::string text);

  WorkOrder order_;
  std::map<Address, Mapped> mapped_;
  std::unordered_map<Handle, Piece> pieces_;
  std::vector<std::string> violations_;
  uint64_t violation_count_ = 0;
};

}  // namespace vram::gpu
