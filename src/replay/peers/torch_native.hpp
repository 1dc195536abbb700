// TorchNative: PyTorch's default allocator: segments from cudaMalloc, given back whole. Exact: the
// same driver calls with the same sizes in the same order as PyTorch makes, as long as frees
// complete as recorded. See torch_base.hpp for the flow.
#pragma once

#include "replay/peers/torch_base.hpp"

namespace vram::replay {

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

}  // namespace vram::replay
