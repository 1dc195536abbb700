// Breakdown: the holders of a moment's memory, by one dimension. Every live block belongs to
// exactly one holder, so the sums equal the moment's totals: requested_bytes to requested,
// block_bytes to active.
//
// kUserFrame groups blocks by the name that the program gave them, else by the user's frame of
// their stack, else by the path of their scope, else by size class; a recording with none of the
// first three is grouped by kSize. Blocks from before the recording with unknown origin are "before
// recording" in the dimensions of origin (stack, user frame, scope, age). Not thread-safe;
// allocates for each holder.
#pragma once

#include "base/language.hpp"
#include "explain/history/heap.hpp"
#include "explain/moment/state.hpp"
#include "explain/report.hpp"
#include "explain/site/site.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace vram::explain {

// Holders that are no place in the code: blocks from before the recording with unknown origin, and
// blocks without any recorded information.
inline constexpr std::string_view kBeforeName = tr_later("before recording");
inline constexpr std::string_view kNoStackName = tr_later("no stack recorded");
inline constexpr std::string_view kNoScopeName = tr_later("outside all scopes");

// Assigns blocks to groups, and names the groups.
class Grouping {
 public:
  Grouping(const Sources& sources, const LiveSet& live, Dimension by);

  // Equal for blocks of one group. Different keys may still have the same name, and are then one
  // holder, except between stacks.
  [[nodiscard]] uint64_t key(uint32_t lifetime);
  [[nodiscard]] std::string name(uint32_t member);

 private:
  [[nodiscard]] uint64_t site_key(uint32_t id);
  [[nodiscard]] std::string site_name(uint32_t id);
  [[nodiscard]] trace::StringId path_of(const Lifetime& lifetime) const;
  [[nodiscard]] trace::StringId operator_of(trace::StackId stack);
  [[nodiscard]] uint64_t scope_key(const Lifetime& lifetime) const;
  [[nodiscard]] uint64_t age_key(const Lifetime& lifetime) const;
  [[nodiscard]] uint64_t pool_key(const Lifetime& lifetime) const;

  const Sources& sources_;
  const LiveSet& live_;
  Dimension by_;
  UserFrames user_frames_;
  std::unordered_map<trace::StackId, trace::StringId> operators_;  // 0: none
};

[[nodiscard]] Breakdown break_down(const Sources& sources, const LiveSet& live, Dimension by);

// "4 MiB blocks": sizes that print alike are one class.
[[nodiscard]] std::string size_class_name(uint64_t requested_bytes);

// Waste: reserved memory that no tensor requested, by the reason why it cannot serve the next
// request; and the blocks that pin segments. Pure functions of a moment. At every moment, exactly:
//
//   reserved = requested of allocated blocks + rounding + pending + releasable + stranded
//              + private pools
//
// Pending blocks count completely (with their rounding), and every free byte is releasable,
// stranded, or of a private pool. Since Totals::requested_bytes includes pending blocks, reserved -
// requested = rounding + (pending - their requests) + releasable + stranded + private pools.
// Releasable is what empty_cache() returns: free segments of the default pool, and complete
// granules within free ranges of expandable segments. Free memory of a private pool is no waste:
// the pool's CUDA graph writes there whenever it runs.

[[nodiscard]] Waste measure_waste(const Sources& sources, const AllocatorRules& rules,
                                  const LiveSet& live);

// Segments with free space in which all live blocks come from one site (a user frame, or a size
// class without stacks): freeing that site's blocks would empty them. Counts what measure_waste()
// counts as stranded there. Sorted by stranded bytes, descending.
[[nodiscard]] std::vector<Pinner> find_pinners(const Sources& sources, const AllocatorRules& rules,
                                               const LiveSet& live);

}  // namespace vram::explain
