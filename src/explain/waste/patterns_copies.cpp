// Blocks that exist twice, or only for a moment.
#include "base/bytes.hpp"
#include "base/language.hpp"
#include "explain/findings/findings.hpp"
#include "explain/names/names.hpp"
#include "explain/waste/patterns.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>

namespace vram::explain {
namespace {

bool is_temporary(const Lifetime& block) {
  return born(block) >= 0 && released(block) != kNeverGone &&
         released(block) - born(block) <= kMaxTemporaryEvents;
}

// Did autograd allocate while this block was alive? Then what the forward pass made is no
// temporary: the backward pass needs it.
bool lives_into_backward(WasteIndex& index, const Lifetime& block) {
  if (index.is_of_backward(block.stack, block.context)) return false;
  const auto first = static_cast<size_t>(born(block));
  const auto count = static_cast<size_t>(released(block) - born(block));
  return std::ranges::any_of(index.events().subspan(first, count), [&](const trace::Event& event) {
    return event.kind == trace::EventKind::kAlloc &&
           index.is_of_backward(event.stack, event.context);
  });
}

// The temporaries of one line at the peak, and their places.
struct TemporaryLine {
  uint64_t bytes = 0;
  uint64_t count = 0;
  uint64_t largest_bytes = 0;
  std::vector<uint32_t> places;
};

// Not those that a graph or a list holds: they are released with many others.
std::vector<uint32_t> temporaries_at_peak(WasteIndex& index) {
  std::vector<uint32_t> ids;
  for (const std::vector<uint32_t>& set : index.released_together()) {
    if (set.size() >= kMinSetBlocks) continue;
    for (const uint32_t id : set)
      if (is_temporary(index.block(id)) && index.place(index.block(id)) != 0) ids.push_back(id);
  }
  return ids;
}

// All blocks of these places that are like these, removed: the peak comes again in the next step.
template <typename IsOne>
std::vector<Change> blocks_of(const WasteIndex& index, const std::vector<uint32_t>& places,
                              IsOne&& is_one) {
  std::vector<uint8_t> is_place(index.place_count());
  for (const uint32_t place : places) is_place[place] = 1;
  std::vector<Change> changes;
  const History& history = index.history();
  for (uint32_t id = 0; id < history.lifetimes.size(); ++id) {
    const Lifetime& block = index.block(id);
    if (is_place[index.place(block)] != 0 && is_one(block) && !index.is_private(block))
      changes.push_back(remove_block(history, id));
  }
  return changes;
}

}  // namespace

Patterns temporaries(WasteIndex& index) {
  std::map<std::string, TemporaryLine> lines;
  for (const uint32_t id : temporaries_at_peak(index)) {
    const Lifetime& block = index.block(id);
    if (lives_into_backward(index, block)) continue;
    TemporaryLine& line = lines[index.line(block)];
    line.bytes += block.requested_bytes;
    line.largest_bytes = std::max(line.largest_bytes, block.requested_bytes);
    ++line.count;
    line.places.push_back(index.place(block));
  }
  Patterns found;
  for (const auto& [name, line] : lines) {
    // More than their bytes can't be saved.
    if (!matters(line.bytes, kMinPriceShare, index.peak_bytes())) continue;
    Finding finding{
        FindingKind::kTemporaries, 0,
        trf("Temporaries make the peak: {} of {}", format_bytes(line.bytes), name),
        trf("{} at the peak, the largest {}, released within {} events of their "
            "allocation.",
            counted(line.count, "block"), format_bytes(line.largest_bytes), kMaxTemporaryEvents),
        tr("Compute this in smaller pieces (a loop over parts of the batch or of the vocabulary, "
           "or a "
           "fused kernel such as scaled_dot_product_attention or a chunked loss), or in place.")};
    finding.line = name;
    Patterns one = finding_if_saved(index, kMinPriceShare, std::move(finding),
                                    blocks_of(index, line.places, is_temporary));
    found.insert(found.end(), one.begin(), one.end());
  }
  return found;
}

Patterns stream_duplicates(WasteIndex& index) {
  if (index.report().stream_count < 2 || index.step_events() == 0) return {};
  using Equal = std::tuple<trace::StackId, uint64_t>;
  std::map<Equal, std::map<trace::StreamId, std::vector<uint32_t>>> sets;
  for (const uint32_t id : index.at_peak()) {
    const Lifetime& block = index.block(id);
    if (block.stack == 0) continue;
    const auto long_life = static_cast<int64_t>(2 * index.step_events());
    if (released(block) != kNeverGone && released(block) - born(block) < long_life) continue;
    sets[{block.stack, block.requested_bytes}][block.stream].push_back(id);
  }
  std::vector<Change> changes;
  const Lifetime* largest = nullptr;
  size_t streams = 0;
  for (const auto& [equal, by_stream] : sets) {
    if (by_stream.size() < 2) continue;
    streams = std::max(streams, by_stream.size());
    for (auto each = std::next(by_stream.begin()); each != by_stream.end(); ++each) {
      for (const uint32_t id : each->second) {
        changes.push_back(remove_block(index.history(), id));
        const Lifetime& block = index.block(id);
        if (largest == nullptr || block.requested_bytes > largest->requested_bytes)
          largest = &block;
      }
    }
  }
  if (largest == nullptr) return {};
  Finding finding{
      FindingKind::kDuplicate, 0,
      trf("{} streams hold equal blocks of {}", format_count(streams), index.line(*largest)),
      changes.size() == 1
          ? trf("A block of {} has the same size and stack as one of another stream, and lives for "
                "several steps.",
                format_bytes(largest->requested_bytes))
          : trf("{} blocks have the same size and stack as one of another stream, and live for "
                "several steps; the largest has {}.",
                format_count(changes.size()), format_bytes(largest->requested_bytes)),
      tr("Use fewer streams for this work. Libraries keep one workspace for each stream: for "
         "cuBLAS, "
         "CUBLAS_WORKSPACE_CONFIG sets its size.")};
  finding.line = index.line(*largest);
  return finding_if_saved(index, kMinSavedShare, std::move(finding), changes);
}

namespace {

// Was this set made by allocations that follow each other, as those of a model's parameters do?
bool is_made_at_once(const WasteIndex& index, std::span<const uint32_t> set) {
  const int64_t first = born(index.block(set.front()));
  const int64_t last = born(index.block(set.back()));
  return first >= 0 && !index.has_more_allocations(2 * set.size(), first, last + 1);
}

// The blocks after `old` with the same sizes in the same order, alive to the end.
std::span<const uint32_t> replacement_of(const WasteIndex& index, std::span<const uint32_t> old,
                                         const std::vector<uint32_t>& kept) {
  const auto first = std::ranges::lower_bound(kept, old.back());
  const auto same_size = [&](uint32_t a, uint32_t b) {
    return index.block(a).requested_bytes == index.block(b).requested_bytes;
  };
  const auto found = std::search(first, kept.end(), old.begin(), old.end(), same_size);
  if (found == kept.end()) return {};
  return std::span(kept).subspan(static_cast<size_t>(found - kept.begin()), old.size());
}

}  // namespace

Patterns old_model(WasteIndex& index) {
  std::vector<uint32_t> kept;
  for (const uint32_t id : index.at_peak())
    if (released(index.block(id)) == kNeverGone && born(index.block(id)) >= 0) kept.push_back(id);
  for (const std::vector<uint32_t>& old : index.released_together()) {
    if (old.size() < kMinSetBlocks || kept.size() < old.size()) continue;
    uint64_t bytes = 0;
    for (const uint32_t id : old) bytes += index.block(id).requested_bytes;
    if (!matters(bytes, kMinSavedShare, index.peak_bytes())) continue;
    if (!is_made_at_once(index, old)) continue;
    const std::span<const uint32_t> now = replacement_of(index, old, kept);
    if (now.empty() || !is_made_at_once(index, now)) continue;
    std::vector<Change> changes;
    for (const uint32_t id : old)
      changes.push_back({id, born(index.block(now.front())), gone(index.block(id))});
    Finding finding{
        FindingKind::kOldModel, 0,
        trf("The old copy of {} blocks is alive at the peak: {}", format_count(old.size()),
            format_bytes(bytes)),
        tr("Blocks of the same sizes in the same order were allocated after them, and the "
           "first ones were released at once later."),
        tr("Release the first copy (`del`) before the second one is made: load a state dict "
           "to the CPU or with mmap=True, and assign it (load_state_dict(..., assign=True)).")};
    finding.line = index.line(index.block(now.front()));
    return finding_if_saved(index, kMinSavedShare, std::move(finding), changes);
  }
  return {};
}

Patterns equal_parameters(WasteIndex& index) {
  const Names& names = index.sources().names;
  if (!names.has_labels()) return {};
  std::map<std::pair<Names::Label, uint64_t>, std::vector<uint32_t>> sets;
  for (const uint32_t id : index.at_peak()) {
    if (names.category(id) != Category::kParameter) continue;
    sets[{names.label(id), index.block(id).requested_bytes}].push_back(id);
  }
  std::vector<Change> changes;
  std::string example;
  for (const auto& [name, ids] : sets) {
    for (size_t i = 0; i + 1 < ids.size(); ++i)
      changes.push_back(remove_block(index.history(), ids[i]));
    if (ids.size() > 1 && example.empty()) example = names.text(name.first);
  }
  if (changes.empty()) return {};
  return finding_if_saved(
      index, kMinSavedShare,
      {FindingKind::kEqualParameters, 0,
       changes.size() == 1
           ? tr("A parameter exists more than once at the peak")
           : trf("{} parameters exist more than once at the peak", format_count(changes.size())),
       trf("Live blocks have the same name and size as a later one, such as {}.", example),
       tr("If this is no copy on purpose (an average of the weights, a reference model), release "
          "the "
          "old model with its optimizer before the new one is made; a reference that an exception, "
          "a "
          "closure or a list keeps is enough to hold it.")},
      changes);
}

Patterns upcasts(WasteIndex& index) {
  std::vector<uint32_t> places;
  const Lifetime* largest = nullptr;
  uint64_t bytes = 0;
  for (const uint32_t id : index.at_peak()) {
    const Lifetime& block = index.block(id);
    if (block.stack == 0 || !index.facts(block.stack).upcasts) continue;
    places.push_back(block.stack);
    bytes += block.requested_bytes;
    if (largest == nullptr || block.requested_bytes > largest->requested_bytes) largest = &block;
  }
  if (largest == nullptr) return {};
  Finding finding{
      FindingKind::kUpcast, 0,
      trf("Copies in float32 at the peak: {} of {}", format_bytes(bytes), index.line(*largest)),
      tr("Autocast made them for operations that it runs in float32."),
      tr("Use a fused operation that converts inside its kernel (fused cross-entropy, RMSNorm), "
         "or run this operation in the lower precision if its accuracy allows that.")};
  finding.line = index.line(*largest);
  return finding_if_saved(index, kMinSavedShare, std::move(finding),
                          blocks_of(index, places, [](const Lifetime&) { return true; }));
}

}  // namespace vram::explain
