// SegmentSource: where an allocator in replay gets its segments: the simulated GPU, by calls as the
// recorded driver saw them. Keeps the log that is compared with the recording. As long as the
// replayed calls equal the recorded ones, segments get the recorded addresses; from the first
// difference on, the simulated GPU's model of addresses decides (which of two equal free blocks is
// taken depends on them). One device, single-threaded; allocates per segment or mapped granule.
#pragma once

#include "gpu/sim/sim_gpu.hpp"
#include "replay/program.hpp"

#include <cstdint>
#include <unordered_map>
#include <vector>

namespace vram::replay {

// More than any device has, and all that a simulated one has where no capacity is named: one
// without an end would be filled, handle by handle, for one request of a damaged recording.
inline constexpr uint64_t kMaxDeviceBytes = uint64_t{1} << 40;

class SegmentSource {
 public:
  // Both must outlive it. ignores_addresses: segments do not lie where the recording has them.
  SegmentSource(gpu::SimGpu& gpu, const Program& program, bool ignores_addresses = false)
      : gpu_(gpu), program_(program), ignores_addresses_(ignores_addresses) {}

  // What was there before the program: at its recorded address, in no log. Everything later counts.
  [[nodiscard]] uint64_t take_initial(const InitialSegment& segment);
  void begin_program() {
    is_logging_ = true;
    log_.clear();
  }
  void set_event(uint32_t event) { event_ = event; }

  // A segment (cudaMalloc, cudaFree); 0 if the device has too little memory.
  [[nodiscard]] uint64_t take(uint64_t bytes);
  void give_back(uint64_t address, uint64_t bytes);

  // Address space, and memory in it piece by piece: bytes in multiples of granule_bytes, one handle
  // each. All or nothing. Access is given to the range in one call, or to each granule.
  enum class Access : uint8_t { kOneCall, kEachGranule };
  [[nodiscard]] uint64_t reserve(uint64_t bytes);
  void unreserve(uint64_t address, uint64_t bytes);
  [[nodiscard]] bool map(uint64_t address, uint64_t bytes, uint64_t granule_bytes,
                         Access access = Access::kOneCall);
  void unmap(uint64_t address, uint64_t bytes, uint64_t granule_bytes);
  // Remaps the memory of one granule to another, unmapped address; not logged.
  void move(uint64_t from, uint64_t to, uint64_t granule_bytes);
  // Maps the memory of a range at a second address, and removes that mapping; not logged.
  void alias(uint64_t from, uint64_t to, uint64_t bytes, uint64_t granule_bytes);
  void drop_aliases(uint64_t address, uint64_t bytes);

  [[nodiscard]] const std::vector<DriverCall>& log() const { return log_; }
  // Calls that equal the recorded ones, up to the first that does not.
  [[nodiscard]] uint64_t matched_calls() const { return matched_calls_; }
  [[nodiscard]] gpu::SimGpu& gpu() { return gpu_; }

 private:
  [[nodiscard]] const DriverCall* recorded_next() const;
  void note(DriverCall::Kind kind, uint64_t bytes, uint64_t address);
  void give_access(uint64_t address, uint64_t bytes, uint64_t granule_bytes, Access access);
  void drop_granules(uint64_t address, uint64_t bytes, uint64_t granule_bytes);

  gpu::SimGpu& gpu_;
  const Program& program_;
  bool ignores_addresses_;
  std::vector<DriverCall> log_;
  std::unordered_map<uint64_t, gpu::Handle> handles_;  // by the granule's address
  uint64_t matched_calls_ = 0;
  uint32_t event_ = 0;
  bool is_logging_ = false;
  bool follows_recording_ = true;
};

}  // namespace vram::replay
