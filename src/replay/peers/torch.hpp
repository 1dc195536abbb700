// TorchBase: PyTorch's DeviceCachingAllocator as far as its two kinds of segments have it in
// common: the order of attempts in malloc, and what a free does. Where memory comes from and goes
// to is the business of TorchNative and TorchExpandable.
//
//     malloc ──▶ find_free ──▶ collect_garbage ──▶ grow ──▶ give_back_some, grow ──▶ give_back_all,
//     grow ──▶ OOM
//
// Completions come from outside (complete()) in the recorded order. Single-threaded; allocates on
// the slow path only.
#pragma once

#include "replay/peers/caching_base.hpp"
#include "replay/peers/torch_rules.hpp"

#include <optional>
#include <span>
#include <vector>

namespace vram::replay {

class TorchBase : public CachingBase {
 public:
  // limit_bytes: PyTorch's own limit, its memory fraction; none where the program set none, and the
  // device alone refuses. takes_over: the initial segments and blocks stay where they were.
  // segments and program must outlive it.
  TorchBase(const TorchSettings& settings, std::optional<uint64_t> limit_bytes, bool takes_over,
            const Program& program, SegmentSource& segments);

  [[nodiscard]] uint64_t malloc(const Request& request) override;
  void empty_cache() override;
  [[nodiscard]] bool holds_initial_blocks() const override { return takes_over_; }
  [[nodiscard]] uint64_t largest_free_bytes(const Request& request) const override;

 protected:
  // A request on its way: rounded, with its lane, and the segment it would get.
  struct Wanted {
    uint64_t size_bytes = 0;
    uint64_t segment_bytes = 0;
    uint32_t lane = 0;
  };

  // Takes the best fit out of the lane's free set; kNoNode when there is none.
  [[nodiscard]] virtual NodeId find_free(const Wanted& wanted) = 0;
  // Memory from the device for it, in no free set; kNoNode when refused. The limit was looked at
  // before.
  [[nodiscard]] virtual NodeId take_from_device(const Wanted& wanted) = 0;
  // With max_split_size: gives back free blocks above it; true when that may be enough.
  [[nodiscard]] virtual bool give_back_some(const Wanted& wanted) = 0;
  // Everything free of a group that can go back.
  virtual void give_back(LaneGroup& group) = 0;
  // Old free segments, once the reserved bytes pass the threshold.
  virtual void collect_garbage() = 0;

  [[nodiscard]] bool collects_garbage() const {
    return limit_bytes_.has_value() && rules_.settings().garbage_collection_threshold > 0;
  }

  TorchRules rules_;

 private:
  [[nodiscard]] NodeId grow(const Wanted& wanted) {
    return is_refused_by_limit(wanted.segment_bytes) ? kNoNode : take_from_device(wanted);
  }
  [[nodiscard]] NodeId serve_slowly(const Wanted& wanted);
  void give_back_all();

  bool takes_over_;
};

// Whether the limit, or the device where none is set, has room for what the recorded allocator held
// at first, and where that is.
[[nodiscard]] bool can_hold_layout(const Program& program, std::optional<uint64_t> room_bytes);

// TorchNative: PyTorch's default allocator: segments from cudaMalloc, given back whole. Exact: the
// same driver calls with the same sizes in the same order as PyTorch makes, as long as frees
// complete as recorded.
class TorchNative final : public TorchBase {
 public:
  // Continues from the program's initial segments and blocks where the recorded allocator had none
  // that expand, and has_room, as can_hold_layout() says. Else it takes only empty segments, and
  // the blocks come as requests.
  TorchNative(const TorchSettings& settings, std::optional<uint64_t> limit_bytes, bool has_room,
              const Program& program, SegmentSource& segments);

 private:
  [[nodiscard]] NodeId find_free(const Wanted& wanted) override;
  [[nodiscard]] NodeId take_from_device(const Wanted& wanted) override;
  [[nodiscard]] bool give_back_some(const Wanted& wanted) override;
  void give_back(LaneGroup& group) override;
  void collect_garbage() override;

  [[nodiscard]] uint64_t collect_once(LaneGroup& group, double min_age, double& total_age,
                                      uint64_t& count);
};

// TorchExpandable: PyTorch with expandable_segments:True. Each lane has one reservation of address
// space, larger than the device and than any one request, whose mapped part grows and shrinks by
// granules (2 MiB in the small pool, "large_segment_size" in the large one). Exact: the same ranges
// are mapped and unmapped in the same order as PyTorch does.
class TorchExpandable final : public TorchBase {
 public:
  // has_room: can_hold_layout(). device_bytes sizes the reservations. Continues from the program's
  // initial segments and blocks where the recorded allocator had expandable ones, of granules as
  // these settings have them. Else it maps as much as empty segments had, and the blocks come as
  // requests.
  TorchExpandable(const TorchSettings& settings, std::optional<uint64_t> limit_bytes, bool has_room,
                  uint64_t device_bytes, const Program& program, SegmentSource& segments);

 private:
  struct Reservation {
    uint64_t address = 0;
    uint64_t size_bytes = 0;
  };

  [[nodiscard]] NodeId find_free(const Wanted& wanted) override;
  [[nodiscard]] NodeId take_from_device(const Wanted& wanted) override;
  [[nodiscard]] bool give_back_some(const Wanted& wanted) override;
  void give_back(LaneGroup& group) override;
  void collect_garbage() override {}  // never touches expandable segments

  [[nodiscard]] uint64_t size_with_room(NodeId node);
  [[nodiscard]] bool is_usable(NodeId node);
  [[nodiscard]] bool expands(uint32_t lane);
  void take_over(const Program& program);
  [[nodiscard]] NodeId map_initial(const InitialSegment& segment);
  [[nodiscard]] NodeId find_room(const Wanted& wanted);
  [[nodiscard]] NodeId add_reservation(const Wanted& wanted);
  [[nodiscard]] bool map(NodeId node, uint64_t bytes);
  void unmap(NodeId node);
  void drop_if_empty(NodeId node);

  uint64_t device_bytes_;
  std::span<const trace::PoolId> native_pools_;
  std::vector<Reservation> reservations_;
};

}  // namespace vram::replay
