// Block: the operations inside one stage, and the options that follow from them: which of the
// outputs that backward reads to keep, and which to compute again when backward begins.
#pragma once

#include "plan/chain.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace vram::plan {

inline constexpr uint32_t kBlockInput = 0xffffffff;  // among the inputs of an operation
inline constexpr size_t kMaxBlockOps = 512;
inline constexpr size_t kDefaultOptions = 8;

struct BlockOp {
  std::string name;
  uint64_t output_bytes = 0;  // of its own; 0 for views and operations in place
  uint64_t forward_ns = 0;
  std::vector<uint32_t> inputs;  // earlier operations, or kBlockInput
  bool is_saved = false;         // backward reads its output
  bool is_repeatable = true;     // false: it must not run twice
};

// Operations in the order in which they run; the output of the last one is the block's output.
struct Block {
  std::vector<BlockOp> ops;
  uint64_t backward_ns = 0;
  uint64_t gradient_bytes = 0;  // of the output
  uint64_t input_gradient_bytes = 0;
  uint64_t parameter_gradient_bytes = 0;
  uint64_t backward_transient_bytes = 0;  // what backward takes besides gradients and saved outputs
};

// At most max_options (at least 2), by falling kept bytes; the first keeps everything. None keeps
// more and takes longer than another. The cost of computing outputs again is exact: it contains
// the operations that their inputs need. With up to 14 outputs to decide about, all choices are
// tried; with more, one output after another is given up, each time the one that costs least for
// its bytes. Peaks assume that everything is computed again before backward begins.
[[nodiscard]] Result<std::vector<Option>> block_options(const Block& block,
                                                        size_t max_options = kDefaultOptions);

}  // namespace vram::plan
