// The BPF program of a probe: reads the probe's arguments where the note says they are, and puts an
// AllocatorEvent into a ring that vram reads. The kernel runs it in the thread that reached the
// probe, checks it before, and removes it with the descriptors of this process.
#pragma once

#include "attach/probes.hpp"
#include "attach/python.hpp"
#include "base/result.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <linux/bpf.h>
#include <optional>
#include <span>
#include <vector>

namespace vram::attach {

enum class AllocatorCall : uint64_t { kMalloc, kFree };

// One event of PyTorch's allocator, as the program writes it.
struct AllocatorEvent {
  uint64_t clock_ns = 0;  // CLOCK_MONOTONIC
  AllocatorCall call = AllocatorCall::kMalloc;
  uint64_t address = 0;
  // 0 for kFree:
  int64_t device = 0;
  uint64_t size_bytes = 0;
  uint64_t stream = 0;
};
static_assert(sizeof(AllocatorEvent) == 48);

// What follows the event of a kMalloc if stacks were requested: innermost first.
struct CopiedFrames {
  uint64_t count = 0;
  std::array<PythonFrame, kMaxPythonFrames> frames;
};

// How a program finds the calling thread's frames.
struct FrameSource {
  int threads = -1;  // BPF_MAP_TYPE_HASH: PythonThreads
  record::FrameLayout layout;
  // The pid namespace whose thread numbers the map has.
  uint64_t namespace_device = 0;
  uint64_t namespace_inode = 0;
};

struct ProgramMaps {
  int ring = -1;  // BPF_MAP_TYPE_RINGBUF
  int lost = -1;  // BPF_MAP_TYPE_ARRAY of one uint64_t: events for which there was no room
};

// `operands` are those of pytorch:malloc (address, device, size, stream) or pytorch:free (address).
// With `frames`, the stack of kMalloc is copied, too. kUnsupported: other arguments.
[[nodiscard]] Result<std::vector<bpf_insn>> make_program(AllocatorCall call,
                                                         std::span<const Operand> operands,
                                                         const ProgramMaps& maps,
                                                         const std::optional<FrameSource>& frames);

}  // namespace vram::attach
