#include "explain/names/named_blocks.hpp"

#include <algorithm>
#include <iterator>
#include <map>

namespace vram::explain {
namespace {

using trace::EventKind;

bool is_name(const trace::Tables& tables, const trace::Event& event) {
  if (event.kind != EventKind::kAnnotate) return false;
  const trace::Context& context = tables.contexts[event.context];
  return context.user_metadata != 0 || context.category != 0;
}

// The blocks that are there, by address, as the events come.
class Present {
 public:
  explicit Present(const History& history) : history_(history) {
    for (uint32_t id = 0; id < history.before_recording_count; ++id) add(id);
  }
  // A block that a later one replaced goes with that one.
  void see(const trace::Event& event, uint32_t lifetime) {
    if (lifetime == kNoLifetime) return;
    if (event.kind == EventKind::kAlloc) add(lifetime);
    if (event.kind == EventKind::kFreeCompleted) remove(lifetime);
  }
  [[nodiscard]] uint32_t at(uint64_t address) const {
    const auto after = by_address_.upper_bound(address);
    if (after == by_address_.begin()) return kNoLifetime;
    const uint32_t id = std::prev(after)->second;
    const Lifetime& lifetime = history_.lifetimes[id];
    return address - lifetime.address < lifetime.block_bytes ? id : kNoLifetime;
  }

 private:
  void add(uint32_t id) { by_address_.insert_or_assign(history_.lifetimes[id].address, id); }
  void remove(uint32_t id) {
    const auto found = by_address_.find(history_.lifetimes[id].address);
    if (found != by_address_.end() && found->second == id) by_address_.erase(found);
  }
  const History& history_;
  std::map<uint64_t, uint32_t> by_address_;
};

}  // namespace

std::vector<NamedBlock> named_blocks(const trace::Tables& tables,
                                     std::span<const trace::Event> events, const History& history) {
  const auto named = [&](const trace::Event& event) { return is_name(tables, event); };
  if (std::ranges::none_of(events, named)) return {};
  Present present(history);
  std::map<uint32_t, NamedBlock> blocks;
  for (size_t i = 0; i < history.lifetime_of_event.size(); ++i) {
    present.see(events[i], history.lifetime_of_event[i]);
    if (!is_name(tables, events[i])) continue;
    const uint32_t id = present.at(events[i].address);
    if (id == kNoLifetime) continue;
    NamedBlock& best = blocks[id];
    if (events[i].size_bytes < best.size_bytes) continue;
    best = {id, events[i].context, events[i].size_bytes};
  }
  std::vector<NamedBlock> all;
  for (const auto& [id, best] : blocks) all.push_back(best);
  return all;
}

}  // namespace vram::explain
