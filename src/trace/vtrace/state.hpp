// The contents of state frames (segments and blocks of one device, after a given event) and of
// frames of annotations, figures and marks. Lists too long for one frame come in several, in order.
#pragma once

#include "base/pod_vector.hpp"
#include "base/result.hpp"
#include "trace/event.hpp"
#include "trace/vtrace/events.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace vram::trace {

inline constexpr size_t kMaxFrameItems = 64 * 1024;  // segments, blocks or annotations of one frame

// A piece of a device's state. The pieces of one state are consecutive: the first drops an earlier
// state, the last completes it.
struct StatePiece {
  bool is_first = true;
  bool is_last = true;
  std::span<const Segment> segments;  // with first_block as an index into the blocks of all pieces
  std::span<const Block> blocks;
};

void encode_state(const StatePiece& piece, PodVector<uint8_t>& content);

struct DecodedState {
  bool is_complete = false;
  std::vector<Segment> segments;
  PodVector<Block> blocks;
};
// Adds a piece to state, which holds the pieces before it. Every id is checked; whether the
// segments' blocks exist is checked with the last piece.
[[nodiscard]] Result<> decode_state(std::span<const uint8_t> content, const TableSizes& limits,
                                    DecodedState& state);

void encode_annotations(std::span<const Annotation> annotations, PodVector<uint8_t>& content);
[[nodiscard]] Result<> decode_annotations(std::span<const uint8_t> content,
                                          const TableSizes& limits,
                                          std::vector<Annotation>& annotations);

void encode_figures(std::span<const Figure> figures, PodVector<uint8_t>& content);
[[nodiscard]] Result<> decode_figures(std::span<const uint8_t> content, const TableSizes& limits,
                                      std::vector<Figure>& figures);

void encode_marks(std::span<const Mark> marks, PodVector<uint8_t>& content);
[[nodiscard]] Result<> decode_marks(std::span<const uint8_t> content, const TableSizes& limits,
                                    std::vector<Mark>& marks);

}  // namespace vram::trace
