// TorchBase: PyTorch's DeviceCachingAllocator as far as its two kinds of segments have it in
// common: the order of attempts in malloc, and what a free does. Where memory comes from and goes
// to is the business of torch_native and torch_expandable.
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

}  // namespace vram::replay
