// TorchExpandable: PyTorch with expandable_segments:True. Each lane has one reservation of address
// space, larger than the device and than any one request, whose mapped part grows and shrinks by
// granules (2 MiB in the small pool, "large_segment_size" in the large one). Exact: the same ranges
// are mapped and unmapped in the same order as PyTorch does. See torch_base.hpp for the flow.
#pragma once

#include "replay/peers/torch_base.hpp"

#include <span>
#include <vector>

namespace vram::replay {

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
