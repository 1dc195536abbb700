// GmLake: a model of GMLake, PyTorch's caching allocator with stitching. Requests up to 1 MiB are
// served as in TorchNative. Larger ones are multiples of 2 MiB and come from primitive blocks,
// whose memory is 2 MiB handles of their own; where none suffices, free primitive blocks of the
// same stream are stitched: mapped a second time, one after the other, into new address space.
//
//     best fit among primitive blocks, else among wholly free stitched ones ──▶ stitch ──▶ grow
//          ──▶ give everything back, grow ──▶ OOM          (defragLevel 1, 2: stitch after grow)
//
// Stitched blocks stay when their program's block is gone, for requests of their size; a request
// takes the lower part, the rest of the memory stays free for others. They go with the memory under
// them, with empty_cache, and all that are idle once their address space passes autoGC; it is no
// reserved memory. The event that each free records is counted as a driver call.
//
// Source: arXiv 2401.08156 and the authors' glake repository (for PyTorch 2.0). Differences: the
// model collects stitched blocks at once, GMLake leaves those whose event has not happened yet;
// free memory that the untaken part of a stitched block in use lies over stays, GMLake gives it
// back once that block is freed; GMLake does not count what it collected with the memory under it,
// so autoGC acts earlier there. max_split_size and garbage collection, which GMLake inherits, are
// left out. Single-threaded.
#pragma once

#include "base/bytes.hpp"
#include "replay/peers/caching_base.hpp"
#include "replay/peers/free_set.hpp"
#include "replay/peers/torch_rules.hpp"
#include "replay/registry.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace vram::replay {

// Stitches: blocks without memory of their own: address space over pieces of other (primitive)
// blocks, for gmlake. Knows the memory of each, and which of them are wholly free: a byte that is
// in use, through whichever address, makes every stitch over it busy. Knows no driver. Not
// thread-safe; allocates when a stitch is added. Use of a range costs a visit of the stitches over
// its segment.
class Stitches {
 public:
  using Id = uint32_t;
  // A range of a segment of primitive blocks, by its own address there.
  struct Piece {
    uint32_t segment = 0;
    uint64_t address = 0;
    uint64_t bytes = 0;
  };
  struct Stitch {
    uint64_t address = 0;
    uint64_t bytes = 0;
    uint64_t busy_bytes = 0;  // in use, by itself or others
    uint32_t lane = 0;
    std::vector<Piece> pieces;  // in the order of its addresses
    std::vector<NodeId> held;   // the primitive blocks it is in use with; empty: not in use
  };

  [[nodiscard]] Id add(Stitch stitch);
  // Not in use.
  void drop(Id id);
  [[nodiscard]] Stitch& operator[](Id id) { return stitches_[id]; }
  // Their address space.
  [[nodiscard]] uint64_t total_bytes() const { return total_bytes_; }

  // A range came into use, or is free again.
  void use(const Piece& range);
  void leave(const Piece& range);

  // The smallest wholly free one of the lane within these sizes, of those the lowest.
  [[nodiscard]] std::optional<Id> best_fit(uint32_t lane, uint64_t min_bytes,
                                           uint64_t max_bytes) const;
  // Those over any part of the segment, each once.
  [[nodiscard]] std::vector<Id> over(uint32_t segment) const;
  // All that are not in use.
  [[nodiscard]] std::vector<Id> idle() const;

 private:
  struct Link {  // from a segment to what lies over a range of it
    Id stitch = 0;
    uint64_t begin = 0;
    uint64_t end = 0;
  };
  // visit(stitch, bytes) for each piece of one that shares bytes with the range.
  template <typename Visit>
  void for_each_over(const Piece& range, Visit visit);
  [[nodiscard]] FreeSet& free_of(const Stitch& stitch) { return free_[stitch.lane]; }

  std::vector<Stitch> stitches_;
  std::vector<Id> unused_;
  std::vector<FreeSet> free_;             // by lane: the wholly free ones
  std::vector<std::vector<Link>> links_;  // by segment
  uint64_t total_bytes_ = 0;
};

// The settings of GMLake, as its environment variables are called and with their defaults. From a
// spec to gmlake. Pure.

struct GmLakeSettings {
  uint64_t frag_limit_bytes = 512 * kMiB;  // smaller requests are not stitched for
  double reuse_limit = 10;                 // a stitched block may be that many times the request
  uint64_t defrag_level = 0;  // stitch: 0 before growing, 1 after it, 2 after giving back
  uint64_t auto_gc_bytes = 1000 * kGiB;
};

[[nodiscard]] std::span<const PeerKey> gmlake_keys();
// Errors: kBadInput with the value, what is accepted, and all valid keys.
[[nodiscard]] Result<GmLakeSettings> parse_gmlake_settings(Settings settings);

class GmLake final : public CachingBase {
 public:
  GmLake(const GmLakeSettings& settings, const PeerContext& context);

  [[nodiscard]] uint64_t malloc(const Request& request) override;
  void free(uint32_t block, int64_t time_ns) override;
  void complete(uint32_t block, int64_t time_ns) override;
  void empty_cache() override;
  [[nodiscard]] uint64_t largest_free_bytes(const Request& request) const override;

 private:
  struct Wanted {
    uint64_t size_bytes = 0;
    uint64_t segment_bytes = 0;
    uint32_t lane = 0;
    bool is_small = false;
  };
  struct Segment {  // of primitive blocks
    uint64_t address = 0;
    uint64_t bytes = 0;
    NodeId first = kNoNode;
  };

  [[nodiscard]] NodeId find_free(const Wanted& wanted);
  [[nodiscard]] NodeId serve_slowly(const Wanted& wanted);
  [[nodiscard]] NodeId grow(const Wanted& wanted);
  [[nodiscard]] NodeId take_primitive(const Wanted& wanted);
  [[nodiscard]] NodeId carve(NodeId node, const Wanted& wanted);
  void release(NodeId node);

  // Primitive blocks come into use, also under stitched ones, and are free again.
  void start_use(NodeId node);
  void end_use(NodeId node);
  [[nodiscard]] NodeId occupy(const Stitches::Piece& range);
  [[nodiscard]] Stitches::Piece range_of(NodeId node);

  [[nodiscard]] bool may_stitch(const Wanted& wanted, uint64_t level);
  [[nodiscard]] NodeId stitch(const Wanted& wanted, uint64_t level);
  [[nodiscard]] NodeId reuse_stitch(const Wanted& wanted);
  // The lower size_bytes of a stitched block as a node.
  [[nodiscard]] NodeId node_for(Stitches::Id id, uint64_t size_bytes);
  void drop_stitch(Stitches::Id id);
  void collect_stitches();

  void give_back_all();
  void give_back_primitive(NodeId node);
  [[nodiscard]] uint64_t& free_bytes(uint32_t lane);

  GmLakeSettings settings_;
  TorchRules rules_;
  Stitches stitches_;
  std::vector<Segment> primitives_;
  std::vector<uint64_t> free_bytes_;  // of primitive blocks, by lane
};

[[nodiscard]] std::unique_ptr<Allocator> make_gmlake(Settings settings, const PeerContext& context);

}  // namespace vram::replay
