// A forward pass that keeps its activations although no backward pass uses them.
#include "base/bytes.hpp"
#include "base/language.hpp"
#include "explain/findings/findings.hpp"
#include "explain/waste/patterns.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>

namespace vram::explain {
namespace {

constexpr uint32_t kOtherPath = 0xffffffff;
// Without a graph, a result is released when this many more have been made.
constexpr size_t kResultsInUse = 8;

// Blocks that were dropped together at the peak, all made by modules: a graph without a backward
// pass, if training passes keep the same results until their backward pass.
using Dropped = std::vector<uint32_t>;

// Those of a set that modules made in a forward pass; empty if they are few.
Dropped graph_in(WasteIndex& index, const std::vector<uint32_t>& set) {
  Dropped dropped;
  uint64_t bytes = 0;
  for (const uint32_t id : set) {
    const Lifetime& block = index.block(id);
    const bool is_alike =
        dropped.empty() || (block.stack == 0) == (index.block(dropped.front()).stack == 0);
    if (!is_alike || !index.is_of_forward(block)) continue;
    dropped.push_back(id);
    bytes += block.requested_bytes;
  }
  const bool is_large = matters(bytes, kMinPriceShare, index.peak_bytes());
  return dropped.size() >= kMinSetBlocks && is_large ? dropped : Dropped();
}

// Releases each block of a dropped graph when kResultsInUse more have been made. `run`: in order of
// allocation.
void release_in_turn(const WasteIndex& index, std::span<const uint32_t> run,
                     std::vector<Change>* changes) {
  for (size_t i = 0; i + kResultsInUse < run.size(); ++i) {
    const int64_t next = born(index.block(run[i + kResultsInUse]));
    changes->push_back({run[i], next, gone(index.block(run[i]))});
  }
}

// Blocks of the paths of a dropped graph, in the whole recording, by how they end.
class PathFollower {
 public:
  PathFollower(WasteIndex& index, const Dropped& dropped)
      : index_(index), path_of_stack_(index.sources().trace.tables.stacks.size(), kOtherPath) {
    std::unordered_map<uint64_t, uint32_t> numbers;
    for (const uint32_t id : dropped) {
      const uint64_t path = index.facts(index.block(id).stack).module_path;
      const auto [at, is_new] = numbers.try_emplace(path, static_cast<uint32_t>(paths_.size()));
      if (is_new) paths_.emplace_back();
      paths_[at->second].bytes += index.block(id).requested_bytes;
    }
    for (trace::StackId stack = 1; stack < path_of_stack_.size(); ++stack) {
      const auto found = numbers.find(index.facts(stack).module_path);
      if (found != numbers.end()) path_of_stack_[stack] = found->second;
    }
  }

  void follow() {
    const History& history = index_.history();
    born_at_.resize(history.lifetimes.size());
    for (size_t e = 0; e < history.lifetime_of_event.size(); ++e) {
      const uint32_t id = history.lifetime_of_event[e];
      if (id == kNoLifetime) continue;
      const Lifetime& block = index_.block(id);
      if (born(block) == static_cast<int64_t>(e)) {
        end_run();
        born_at_[id] = ++allocations_;
      } else if (released(block) == static_cast<int64_t>(e) &&
                 path_of_stack_[block.stack] != kOtherPath) {
        run_.push_back(id);
      }
    }
    end_run();
    for (const auto& [number, life] : in_turn_) {
      Path& path = paths_[number];
      path.trained += life >= path.longest ? 1 : 0;
    }
  }

  // Training passes keep the same results for at least as long.
  [[nodiscard]] bool is_kept_by_training() const {
    uint64_t all = 0;
    uint64_t kept = 0;
    for (const Path& path : paths_) {
      all += path.bytes;
      kept += path.trained >= kMinRepetitions ? path.bytes : 0;
    }
    return kept * 10 >= all * 9;
  }
  [[nodiscard]] const std::vector<Change>& changes() const { return changes_; }
  [[nodiscard]] uint64_t passes() const { return passes_; }

 private:
  struct Path {
    uint32_t longest = 0;  // life in a graph that was dropped, in allocations
    uint64_t bytes = 0;    // of the dropped graph at the peak
    uint64_t trained = 0;  // blocks that lived as long, and were released in turn
  };

  [[nodiscard]] uint32_t life_of(uint32_t id) const { return allocations_ - born_at_[id]; }

  // Releases with no allocation between them.
  void end_run() {
    if (run_.size() < kMinSetBlocks) {
      for (const uint32_t id : run_)
        in_turn_.emplace_back(path_of_stack_[index_.block(id).stack], life_of(id));
    } else {
      drop_graph();
    }
    run_.clear();
  }

  void drop_graph() {
    std::ranges::sort(run_);
    ++passes_;
    for (const uint32_t id : run_) {
      Path& path = paths_[path_of_stack_[index_.block(id).stack]];
      path.longest = std::max(path.longest, life_of(id));
    }
    release_in_turn(index_, run_, &changes_);
  }

  WasteIndex& index_;
  std::vector<Path> paths_;
  std::vector<uint32_t> path_of_stack_;
  std::vector<uint32_t> run_;
  std::vector<std::pair<uint32_t, uint32_t>> in_turn_;  // path, life
  std::vector<uint32_t> born_at_;                       // by lifetime: number of allocations before
  uint32_t allocations_ = 0;
  std::vector<Change> changes_;
  uint64_t passes_ = 0;
};

// The same for recordings with scopes: training passes release the results of these scopes in their
// backward pass. A cache of keys and values has the scope of its module, too, but only few of those
// whose results training keeps.
class ScopeFollower {
 public:
  ScopeFollower(WasteIndex& index, const Dropped& dropped)
      : index_(index), is_dropped_(index.place_count()), trained_(index.place_count()) {
    for (const uint32_t id : dropped) is_dropped_[index.place(index.block(id))] = 1;
  }

  void follow() {
    const History& history = index_.history();
    for (size_t e = 0; e < history.lifetime_of_event.size(); ++e) {
      const uint32_t id = history.lifetime_of_event[e];
      if (id == kNoLifetime) continue;
      const Lifetime& block = index_.block(id);
      if (born(block) == static_cast<int64_t>(e)) end_run();
      const bool is_release = released(block) == static_cast<int64_t>(e);
      if (!is_release || index_.part_of(block.context) != StepPart::kForward) continue;
      if (index_.part_of(index_.events()[e].context) == StepPart::kBackward) {
        ++trained_[index_.place(block)];
      } else if (is_dropped_[index_.place(block)] != 0) {
        run_.push_back(id);
      }
    }
    end_run();
  }

  [[nodiscard]] bool is_kept_by_training() const {
    size_t trained = 0;
    size_t dropped = 0;
    size_t both = 0;
    for (size_t place = 0; place < trained_.size(); ++place) {
      const bool is_trained = trained_[place] >= kMinRepetitions;
      trained += is_trained ? 1 : 0;
      dropped += is_dropped_[place];
      both += is_trained && is_dropped_[place] != 0 ? 1 : 0;
    }
    return trained > 0 && both * 10 >= dropped * 9 && both * 10 >= trained * 8;
  }
  [[nodiscard]] const std::vector<Change>& changes() const { return changes_; }
  [[nodiscard]] uint64_t passes() const { return passes_; }

 private:
  void end_run() {
    if (run_.size() >= kMinSetBlocks) {
      std::ranges::sort(run_);
      ++passes_;
      release_in_turn(index_, run_, &changes_);
    }
    run_.clear();
  }

  WasteIndex& index_;
  std::vector<uint8_t> is_dropped_;  // by place
  std::vector<uint64_t> trained_;    // by place: blocks that a backward pass released
  std::vector<uint32_t> run_;
  std::vector<Change> changes_;
  uint64_t passes_ = 0;
};

template <typename Follower>
Patterns no_grad_of(WasteIndex& index, const Dropped& dropped) {
  Follower follower(index, dropped);
  follower.follow();
  if (!follower.is_kept_by_training()) return {};
  const auto largest = std::ranges::max_element(
      dropped, {}, [&](uint32_t id) { return index.block(id).requested_bytes; });
  Finding finding{FindingKind::kNoGrad, 0,
                  trf("A forward pass without a backward pass keeps its activations: {}",
                      index.line(index.block(*largest))),
                  trf("{} blocks were released at once, {} such {}; training passes keep the same "
                      "results until their backward pass.",
                      format_count(dropped.size()), format_count(follower.passes()),
                      follower.passes() == 1 ? tr("pass") : tr("passes")),
                  tr("Run it under torch.no_grad() or torch.inference_mode().")};
  finding.line = index.line(index.block(*largest));
  return finding_if_saved(index, kMinSavedShare, std::move(finding), follower.changes());
}

}  // namespace

Patterns no_grad(WasteIndex& index) {
  for (const std::vector<uint32_t>& set : index.released_together()) {
    const Dropped dropped = graph_in(index, set);
    if (dropped.empty()) continue;
    const bool has_stacks = index.block(dropped.front()).stack != 0;
    Patterns found = has_stacks ? no_grad_of<PathFollower>(index, dropped)
                                : no_grad_of<ScopeFollower>(index, dropped);
    if (!found.empty()) return found;
  }
  return {};
}

}  // namespace vram::explain
