// GrowthJoiner: which of the leaking sites are one leak. Part of growth.cpp.
#pragma once

#include "explain/growth/growth_group.hpp"
#include "explain/history/history.hpp"
#include "explain/site/site.hpp"
#include "trace/trace.hpp"

#include <optional>
#include <utility>
#include <vector>

namespace vram::explain {

// In order:
//   - sites without a stack whose blocks are born in the same steps: the tensors of one structure;
//   - sites without a stack at the same position in different steps: a tensor of changing shape;
//   - four or more lines with the same births, called from one line of the user's: that line keeps
//     them (a list of outputs with their graphs), not the layers that made them;
//   - sites that keep the rhythm of a leak that does not leak in each step: its births, or the step
//     before or after. A kept graph also keeps its input, which another line made.
// Last, blocks without a stack move to a leak from what is none, and from a leak of fewer steps, if
// the same allocations precede them, of the same size or in the same ratio to theirs: the same
// place made them from another batch. A hook that keeps its output does so in evaluations, too.
class GrowthJoiner {
 public:
  GrowthJoiner(const trace::Tables& tables, const History& history,
               const std::vector<GrowthSite>& sites, const GrowthWindow& window, UserFrames* frames)
      : tables_(tables), history_(history), sites_(sites), window_(window), frames_(*frames) {}

  // Takes groups that keep a leak's rhythm from `others`.
  [[nodiscard]] std::vector<GrowthGroup> joined(std::vector<GrowthGroup> leaks,
                                                std::vector<GrowthGroup>* others);

 private:
  using Groups = std::vector<GrowthGroup>;

  [[nodiscard]] Groups join_births(Groups leaks);
  [[nodiscard]] Groups join_positions(Groups leaks) const;
  [[nodiscard]] Groups join_rhythms(Groups leaks, Groups* others) const;
  void claim_other_batches(Groups* leaks, Groups* others) const;
  [[nodiscard]] std::vector<uint64_t> sizes_before(uint32_t lifetime) const;
  void join_frames(Groups* same, Groups* result);
  [[nodiscard]] bool keeps_rhythm(const GrowthGroup& lead, const GrowthGroup& g) const;
  [[nodiscard]] bool is_framed(const GrowthGroup& g) const {
    return sites_[g.blocks.front().site].frame != 0;
  }
  void add_to(GrowthGroup* into, GrowthGroup from) const;
  [[nodiscard]] trace::FrameId common_user_frame(const GrowthGroup& g);

  const trace::Tables& tables_;
  const History& history_;
  const std::vector<GrowthSite>& sites_;
  GrowthWindow window_;
  UserFrames& frames_;
};

}  // namespace vram::explain
