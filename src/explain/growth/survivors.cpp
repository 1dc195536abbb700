#include "explain/growth/survivors.hpp"

#include <algorithm>
#include <unordered_map>

namespace vram::explain {
namespace {

class SiteTable {
 public:
  SiteTable(UserFrames* frames, std::vector<SurvivorSite>* sites)
      : frames_(frames), sites_(sites) {}

  uint32_t site_of(const Lifetime& l) {
    const trace::FrameId frame = l.stack == 0 ? 0 : frames_->frame(l.stack);
    if (frame != 0) return look_up(&by_frame_, frame, {frame, 0, 0});
    return look_up(&by_size_[l.stream], l.requested_bytes, {0, l.requested_bytes, l.stream});
  }

 private:
  uint32_t look_up(std::unordered_map<uint64_t, uint32_t>* ids, uint64_t key,
                   const SurvivorSite& site) {
    const auto [entry, is_new] = ids->try_emplace(key, static_cast<uint32_t>(sites_->size()));
    if (is_new) sites_->push_back(site);
    return entry->second;
  }

  UserFrames* frames_;
  std::vector<SurvivorSite>* sites_;
  std::unordered_map<uint64_t, uint32_t> by_frame_;
  std::unordered_map<trace::StreamId, std::unordered_map<uint64_t, uint32_t>> by_size_;
};

}  // namespace

Survivors find_survivors(const History& history, const std::vector<Step>& steps,
                         UserFrames* frames) {
  Survivors found;
  SiteTable table(frames, &found.sites);
  std::vector<uint64_t> ends;
  ends.reserve(steps.size());
  for (const Step& step : steps) ends.push_back(step.first_event + step.event_count);
  uint32_t birth = 0;
  for (uint32_t i = 0; i < history.lifetimes.size(); ++i) {
    const Lifetime& l = history.lifetimes[i];
    const bool before = l.alloc_event == kBeforeRecording;
    while (!before && birth < ends.size() && l.alloc_event >= ends[birth]) ++birth;
    if (birth + kOutlivedEnds > ends.size()) break;  // born too late to outlive so many ends
    const uint32_t freed = std::min(l.free_requested_event, l.free_completed_event);
    if (freed < ends[birth + kOutlivedEnds - 1]) continue;
    const auto death =
        std::upper_bound(ends.begin() + birth, ends.end(), uint64_t{freed}) - ends.begin();
    const bool setup = before || l.alloc_event < steps.front().first_event;
    const bool is_private = l.pool != 0;
    found.blocks.push_back({i, birth, static_cast<uint32_t>(death), table.site_of(l),
                            l.requested_bytes, setup, is_private});
  }
  std::stable_sort(found.blocks.begin(), found.blocks.end(),
                   [](const Survivor& a, const Survivor& b) { return a.site < b.site; });
  return found;
}

}  // namespace vram::explain
