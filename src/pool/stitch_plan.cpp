#include "pool/stitch_plan.hpp"

#include <algorithm>

namespace vram::pool {

Survey::Survey(const Arena& arena, const Stock& stock, std::span<const StreamIndex> streams)
    : arena_(arena), stock_(stock), ends_(stock.limit()), tails_(1), heads_(1) {
  for (const StreamIndex stream : streams) {
    arena.for_each_free(stream, [this](NodeId id) { visit(id); });
  }
  const auto by_size = [](const FreePiece& a, const FreePiece& b) {
    return a.bytes != b.bytes ? a.bytes < b.bytes : a.address < b.address;
  };
  std::ranges::sort(tails_, by_size);
  std::ranges::sort(heads_, by_size);
  std::ranges::sort(wholes_, [](const FreePiece& a, const FreePiece& b) {
    return a.bytes != b.bytes ? a.bytes > b.bytes : a.address < b.address;
  });
  ends_bytes_ = max_at_ends();
}

void Survey::visit(NodeId id) {
  const Node& node = arena_[id];
  const Address end = node.address + node.size_bytes;
  for (Address at = node.address; at < end;) {
    const HandleId handle = stock_.at(at);
    const Address until = std::min(end, stock_[handle].end());
    keep({handle, id, at, until - at});
    at = until;
  }
}

void Survey::keep(const FreePiece& piece) {
  const Stock::Piece& handle = stock_[piece.handle];
  const bool is_head = piece.address == handle.home;
  const bool is_tail = piece.address + piece.bytes == handle.end();
  Ends& ends = ends_[piece.handle];
  if (is_head) ends.head = piece;
  if (is_tail) ends.tail = piece;
  if (is_head && is_tail) {
    wholes_.push_back(piece);
    whole_bytes_ += piece.bytes;
  } else if (is_head) {
    heads_.push_back(piece);
  } else if (is_tail) {
    tails_.push_back(piece);
  }
}

uint64_t Survey::max_at_ends() const {
  const FreePiece& tail = tails_.back();
  const FreePiece& head = heads_.back();
  if (tail.handle != head.handle || tail.handle == kNoHandle) return tail.bytes + head.bytes;
  return std::max(tail.bytes + heads_[heads_.size() - 2].bytes,
                  head.bytes + tails_[tails_.size() - 2].bytes);
}

uint64_t Survey::missing_bytes(uint64_t bytes) const {
  const uint64_t there = whole_bytes_ + ends_bytes_;
  return bytes > there ? bytes - there : 0;
}

namespace {

// The pair that leaves the least over; one of the two may be none. Never of one handle: when that
// is free as a whole it would count twice.
void add_ends(const Survey& survey, uint64_t bytes, FreePiece* tail, FreePiece* head) {
  const std::vector<FreePiece>& heads = survey.heads();
  uint64_t best = UINT64_MAX;
  size_t h = heads.size();
  for (const FreePiece& candidate : survey.tails()) {
    while (h > 0 && candidate.bytes + heads[h - 1].bytes >= bytes) --h;
    size_t with = h;
    if (with < heads.size() && with > 0 && heads[with].handle == candidate.handle) ++with;
    if (with == heads.size()) continue;
    const uint64_t sum = candidate.bytes + heads[with].bytes;
    if (sum >= best) continue;
    best = sum;
    *tail = candidate;
    *head = heads[with];
  }
}

// A run of handles in an idle stitch, and how many of them are in use.
struct Window {
  StitchId stitch = kNoStitch;
  size_t first = 0;
  size_t count = 0;
  size_t patches = 0;
};

// What the handle in the middle of a run lends: all of it, exchanged for a free one if need be.
// The first lends its tail, the last its head, if those suffice.
class WindowSearch {
 public:
  WindowSearch(const Survey& survey, const Stitches& stitches, uint64_t bytes, uint32_t percent)
      : survey_(survey), stitches_(stitches), bytes_(bytes), percent_(percent) {}

  std::optional<Window> find() {
    for (StitchId id = 0; id < stitches_.limit(); ++id) {
      const Stitches::Stitch& stitch = stitches_[id];
      if (stitch.bytes < bytes_ || !stitch.is_idle()) continue;
      uint64_t rest = stitch.bytes;
      for (size_t first = 0; rest >= bytes_; ++first) {
        try_at(id, first);
        if (best_ && best_->patches == 0) return best_;
        rest -= survey_.stock()[stitch.handles[first]].bytes;
      }
    }
    return best_;
  }

 private:
  void try_at(StitchId id, size_t first) {
    const std::vector<HandleId>& handles = stitches_[id].handles;
    Window window{id, first, 0, 0};
    uint64_t rest = bytes_;
    for (size_t i = first; rest > 0; ++i, ++window.count) {
      if (i == handles.size()) return;
      const uint64_t lent = lends(handles[i], i == first, rest);
      if (lent == 0 && (++window.patches, percent_ == 0 || is_no_better(window))) return;
      rest -= std::min(rest, lent == 0 ? survey_.stock()[handles[i]].bytes : lent);
    }
    if (window.patches <= window.count * percent_ / 100) best_ = window;
  }
  // 0: nothing as it is.
  [[nodiscard]] uint64_t lends(HandleId id, bool is_first, uint64_t rest) const {
    const Survey::Ends& ends = survey_.ends(id);
    if (survey_.is_whole(id)) return ends.head.bytes;
    if (is_first) return ends.tail.bytes;
    return ends.head.bytes >= rest ? rest : 0;
  }
  [[nodiscard]] bool is_no_better(const Window& window) const {
    return best_ && window.patches >= best_->patches;
  }

  const Survey& survey_;
  const Stitches& stitches_;
  uint64_t bytes_;
  uint32_t percent_;
  std::optional<Window> best_;
};

// Free handles to be exchanged for ones that are in use: as large, and not in the stitch.
class Spares {
 public:
  Spares(const Survey& survey, const Stitches::Stitch& stitch)
      : wholes_(survey.wholes()), in_stitch_(survey.stock().limit()) {
    for (const HandleId id : stitch.handles) in_stitch_[id] = true;
  }
  const FreePiece* take(uint64_t bytes) {
    for (const FreePiece& piece : wholes_) {
      if (piece.bytes != bytes || in_stitch_[piece.handle]) continue;
      in_stitch_[piece.handle] = true;
      return &piece;
    }
    return nullptr;
  }

 private:
  const std::vector<FreePiece>& wholes_;
  std::vector<bool> in_stitch_;
};

std::optional<StitchPlan> fill(const Survey& survey, const Stitches& stitches, const Window& window,
                               uint64_t bytes) {
  const Stitches::Stitch& stitch = stitches[window.stitch];
  StitchPlan plan;
  plan.stitch = window.stitch;
  Spares spares(survey, stitch);
  for (size_t i = 0; i < window.first; ++i) {
    plan.offset_bytes += survey.stock()[stitch.handles[i]].bytes;
  }
  for (size_t i = window.first; bytes > 0; ++i) {
    const HandleId id = stitch.handles[i];
    const Survey::Ends& ends = survey.ends(id);
    FreePiece piece = i == window.first ? ends.tail : ends.head;
    const bool is_enough = piece.bytes >= bytes || survey.is_whole(id);
    if (piece.bytes == 0 || (i != window.first && !is_enough)) {
      const FreePiece* spare = spares.take(survey.stock()[id].bytes);
      if (spare == nullptr) return {};
      plan.patches.push_back({i, spare->handle});
      piece = *spare;
    }
    if (i == window.first) plan.offset_bytes += survey.stock()[id].bytes - piece.bytes;
    piece.bytes = std::min(piece.bytes, bytes);
    bytes -= piece.bytes;
    plan.pieces.push_back(piece);
  }
  return plan;
}

}  // namespace

std::optional<StitchPlan> plan_reuse(const Survey& survey, const Stitches& stitches, uint64_t bytes,
                                     uint32_t max_percent) {
  const std::optional<Window> window = WindowSearch(survey, stitches, bytes, max_percent).find();
  if (!window) return {};
  return fill(survey, stitches, *window, bytes);
}

std::optional<StitchPlan> plan_stitch(const Survey& survey, uint64_t bytes) {
  if (survey.missing_bytes(bytes) > 0) return {};
  size_t count = 0;
  uint64_t rest = bytes;
  while (rest > survey.ends_bytes()) rest -= std::min(rest, survey.wholes()[count++].bytes);
  FreePiece tail;
  FreePiece head;
  if (rest > 0) add_ends(survey, rest, &tail, &head);
  StitchPlan plan;
  const auto use = [&](FreePiece piece) {
    piece.bytes = std::min(piece.bytes, bytes);
    if (piece.bytes == 0) return;
    bytes -= piece.bytes;
    plan.pieces.push_back(piece);
  };
  if (tail.bytes > 0) plan.offset_bytes = survey.stock()[tail.handle].bytes - tail.bytes;
  use(tail);
  for (size_t i = 0; i < count; ++i) use(survey.wholes()[i]);
  use(head);
  return plan;
}

}  // namespace vram::pool
