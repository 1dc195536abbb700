// TorchExpandable: PyTorch with expandable_segments:True. Each lane has one reservation of address
// space, larger than the device and than any one request, whose mapped part grows and shrinks by
// granules (2 MiB in the small pool, large_segment_size in the large one). Exact: the same ranges
// are mapped and unmapped in the same order as PyTorch does. See torch_base.hpp for the flow.
#pragma once

#include "replay/peers/torch_base.hpp"

#include <vector>

namespace vram::replay {

class TorchExpandable final : public TorchBase {
 public:
  // device_bytes sizes the reservations. Takes the program's initial segments.
  TorchExpandable(const TorchSettings& settings, std::optional<uint64_t> limit_bytes,
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
  [[nodiscard]] NodeId find_room(const Wanted& wanted);
  [[nodiscard]] NodeId add_reservation(const Wanted& wanted);
  [[nodiscard]] bool map(NodeId node, uint64_t bytes);
  void unmap(NodeId node);
  void drop_if_empty(NodeId node);

  uint64_t device_bytes_;
  std::vector<Reservation> reservations_;
};

}  // namespace vram::replay
