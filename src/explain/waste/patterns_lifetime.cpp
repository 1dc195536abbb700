// Blocks that are allocated too early or released too late.
#include "base/bytes.hpp"
#include "base/language.hpp"
#include "explain/findings/findings.hpp"
#include "explain/names/names.hpp"
#include "explain/waste/patterns.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <unordered_set>
#include <utility>

namespace vram::explain {
namespace {

std::string lines_joined(const std::string& line) { return line.empty() ? "" : tr(" in ") + line; }

// Gradients: what a call of zero_grad released, and what the program named so.
std::vector<uint32_t> find_gradients(WasteIndex& index) {
  std::vector<uint32_t> ids;
  const History& history = index.history();
  for (const EventRange& call : index.zero_grads()) {
    const uint64_t end = std::min<uint64_t>(call.end, history.lifetime_of_event.size());
    for (uint64_t e = call.first; e < end; ++e) {
      const uint32_t id = history.lifetime_of_event[e];
      if (id != kNoLifetime && released(index.block(id)) == static_cast<int64_t>(e))
        ids.push_back(id);
    }
  }
  const Names& names = index.sources().names;
  if (names.has_labels()) {
    for (uint32_t id = 0; id < history.lifetimes.size(); ++id)
      if (names.category(id) == Category::kGradient) ids.push_back(id);
  }
  std::ranges::sort(ids);
  ids.erase(std::ranges::unique(ids).begin(), ids.end());
  return ids;
}

}  // namespace

Patterns gradients_kept(WasteIndex& index) {
  if (index.optimizer_steps().empty()) return {};
  std::vector<Change> changes;
  const Lifetime* largest = nullptr;
  uint64_t count = 0;
  uint64_t bytes = 0;
  for (const uint32_t id : find_gradients(index)) {
    const Lifetime& block = index.block(id);
    if (released(block) == kNeverGone) continue;
    const EventRange* step = index.step_ended_by(released(block));
    const auto used_until = step == nullptr ? 0 : static_cast<int64_t>(step->end);
    if (step == nullptr || born(block) >= used_until || index.is_private(block)) continue;
    changes.push_back({id, used_until, release_moved(block)});
    if (index.peak_event() < used_until || index.peak_event() >= released(block)) continue;
    ++count;
    bytes += block.requested_bytes;
    if (largest == nullptr || block.requested_bytes > largest->requested_bytes) largest = &block;
  }
  if (largest == nullptr) return {};
  Finding finding{FindingKind::kGradientsKept, 0,
                  trf("Gradients of the last step live on at the peak: {}", format_bytes(bytes)),
                  trf("The optimizer had used {} gradients, and no optimizer used them again "
                      "until they were released.",
                      format_count(count)),
                  tr("Call optimizer.zero_grad(set_to_none=True) directly after optimizer.step() "
                     "instead of after the next forward pass.")};
  finding.line = index.line_of_release(*largest);
  if (!finding.line.empty()) finding.detail += trf(" Released in {}.", finding.line);
  return finding_if_saved(index, kMinSavedShare, std::move(finding), changes);
}

Patterns idle_state(WasteIndex& index) {
  const Names& names = index.sources().names;
  const std::vector<EventRange>& steps = index.optimizer_steps();
  if (!names.has_labels() || steps.size() < kMinRepetitions) return {};
  uint64_t bytes = 0;
  uint32_t last = 0;  // to be made: from then on they are all there
  for (const uint32_t id : index.at_peak()) {
    // What a step itself holds for a moment is no state.
    if (names.category(id) != Category::kOptimizerState) continue;
    if (released(index.block(id)) != kNeverGone) continue;
    bytes += index.block(id).requested_bytes;
    last = id;
  }
  if (bytes == 0) return {};
  std::vector<Change> changes;
  for (size_t i = 0; i < steps.size(); ++i) {
    const bool is_last = i + 1 == steps.size();
    const int64_t until = is_last ? kNeverGone : static_cast<int64_t>(steps[i + 1].first);
    changes.push_back({last, static_cast<int64_t>(steps[i].end), until, bytes});
  }
  return finding_if_saved(
      index, kMinPriceShare,
      {FindingKind::kIdleState, 0,
       trf("Optimizer state is idle at the peak: {}", format_bytes(bytes)),
       tr("It is used in the optimizer's step only, and the peak is outside it."),
       tr("Park it while the forward and the backward pass run (vram.park(optimizer)), which "
          "copies "
          "it to "
          "host memory and back in each step; or shard it over GPUs, or keep it in 8 bits.")},
      changes);
}

namespace {

// The blocks of a place, by how they end.
struct KeptPlace {
  std::vector<Change> changes;
  uint64_t ended = 0;  // those whose release was recorded
  int64_t last_born = -1;
};

constexpr EventRange kNoStep = {INT64_MAX, INT64_MAX};

// Of a block made in a step's forward pass: the optimizer's step that ended it, and the one after
// (`later` 1). kNoStep: there is none.
EventRange own_step(const std::vector<EventRange>& steps, const Lifetime& block,
                    std::ptrdiff_t later = 0) {
  const auto own = std::partition_point(steps.begin(), steps.end(), [&](const EventRange& step) {
    return static_cast<int64_t>(step.end) <= born(block);
  });
  return steps.end() - own > later ? *(own + later) : kNoStep;
}

int64_t end_of_own_step(const std::vector<EventRange>& steps, const Lifetime& block) {
  return static_cast<int64_t>(own_step(steps, block).end);
}

// Those that were alive at the peak although the optimizer had finished their step, by place.
std::vector<uint8_t> places_kept_past_their_step(WasteIndex& index) {
  std::vector<uint64_t> kept_bytes(index.place_count());
  for (const uint32_t id : index.at_peak()) {
    const Lifetime& block = index.block(id);
    const uint32_t place = index.place(block);
    if (place == 0 || born(block) < 0 || released(block) == kNeverGone) continue;
    if (!index.is_of_forward(block)) continue;
    if (end_of_own_step(index.optimizer_steps(), block) <= index.peak_event())
      kept_bytes[place] += block.requested_bytes;
  }
  std::vector<uint8_t> is_candidate(kept_bytes.size());
  for (size_t place = 0; place < kept_bytes.size(); ++place)
    is_candidate[place] = matters(kept_bytes[place], kMinSavedShare, index.peak_bytes()) ? 1 : 0;
  return is_candidate;
}

// Members are released when the place's next member was made, in the next step. What lives longer
// is a window of results, a cache or a leak.
std::vector<KeptPlace> follow_places(WasteIndex& index, const std::vector<uint8_t>& is_candidate) {
  const History& history = index.history();
  std::vector<KeptPlace> places(is_candidate.size());
  // From the last to the first, so that the births after each one are known.
  for (auto id = static_cast<uint32_t>(history.lifetimes.size()); id-- > 0;) {
    const Lifetime& block = index.block(id);
    const uint32_t place = index.place(block);
    if (is_candidate[place] == 0 || born(block) < 0 || index.is_private(block)) continue;
    KeptPlace& kept = places[place];
    const std::vector<EventRange>& steps = index.optimizer_steps();
    const int64_t end = end_of_own_step(steps, block);
    if (released(block) != kNeverGone) {
      ++kept.ended;
      const bool is_replaced =
          kept.last_born >= end && kept.last_born < released(block) &&
          released(block) < static_cast<int64_t>(own_step(steps, block, 1).end);
      if (is_replaced) kept.changes.push_back({id, end, release_moved(block)});
    }
    kept.last_born = born(block);
  }
  return places;
}

}  // namespace

Patterns late_free(WasteIndex& index) {
  if (index.optimizer_steps().size() < kMinRepetitions) return {};
  const std::vector<uint8_t> is_candidate = places_kept_past_their_step(index);
  if (std::ranges::none_of(is_candidate, [](uint8_t is) { return is != 0; })) return {};
  Patterns found;
  for (const KeptPlace& place : follow_places(index, is_candidate)) {
    // Of those that ended, nearly all in this way: the last may end with the program.
    const size_t kept = place.changes.size();
    if (kept < kMinRepetitions || kept * 10 < place.ended * 8) continue;
    const Lifetime& block = index.block(place.changes.front().lifetime);
    const std::string line = index.line(block);
    Finding finding{
        FindingKind::kLateFree, 0,
        trf("A result of the last step lives on at the peak: {}{}",
            format_bytes(block.requested_bytes), lines_joined(line)),
        trf("{} of {} such blocks were released only when the next step had made the next "
            "one.",
            format_count(kept), format_count(place.ended)),
        tr("Unless the next step reads it, `del` the variable at the end of the step, or keep it "
           "in a "
           "function that returns only numbers.")};
    finding.line = line;
    Patterns one = finding_if_saved(index, kMinSavedShare, std::move(finding), place.changes);
    found.insert(found.end(), one.begin(), one.end());
  }
  return found;
}

namespace {

// By stream: its blocks.
std::vector<uint64_t> count_by_stream(const History& history) {
  std::vector<uint64_t> counts(1);
  for (const Lifetime& block : history.lifetimes) {
    if (block.stream >= counts.size()) counts.resize(block.stream + size_t{1});
    ++counts[block.stream];
  }
  return counts;
}

// Blocks of one batch: released within half a step.
struct Batch {
  std::vector<uint32_t> ids;
  int64_t first_born = kNeverGone;
  int64_t first_released = kNeverGone;
};

// What a side stream holds for half a step or longer, by batches.
std::vector<Batch> batches_of(const WasteIndex& index, trace::StreamId stream) {
  const History& history = index.history();
  const auto half_step = static_cast<int64_t>(index.step_events() / 2);
  std::vector<uint32_t> ids;
  for (uint32_t id = 0; id < history.lifetimes.size(); ++id) {
    const Lifetime& block = history.lifetimes[id];
    if (block.stream != stream || born(block) < 0 || released(block) == kNeverGone) continue;
    if (!index.is_private(block) && released(block) - born(block) >= half_step) ids.push_back(id);
  }
  std::ranges::sort(ids, {}, [&](uint32_t id) { return released(index.block(id)); });
  std::vector<Batch> batches;
  for (const uint32_t id : ids) {
    const Lifetime& block = index.block(id);
    if (batches.empty() || released(block) - batches.back().first_released >= half_step)
      batches.push_back({.ids = {}, .first_released = released(block)});
    batches.back().ids.push_back(id);
    batches.back().first_born = std::min(batches.back().first_born, born(block));
  }
  return batches;
}

// What batches have in common: their place, or their size if the recording shows no places.
uint64_t kind_of(const WasteIndex& index, const Lifetime& block) {
  const uint32_t place = index.place(block);
  return place != 0 ? place : (block.requested_bytes | uint64_t{1} << 63);
}

// The batches that were there when the recording ended: allocated half a step after one another.
void add_unreleased(const WasteIndex& index, trace::StreamId stream, std::vector<Batch>* batches) {
  const auto half_step = static_cast<int64_t>(index.step_events() / 2);
  const int64_t second_born = (*batches)[1].first_born;
  std::unordered_set<uint64_t> kinds;
  for (const Batch& batch : *batches)
    for (const uint32_t id : batch.ids) kinds.insert(kind_of(index, index.block(id)));
  Batch* last = nullptr;
  for (uint32_t id = 0; id < index.history().lifetimes.size(); ++id) {
    const Lifetime& block = index.block(id);
    // What was there before the second batch is no batch.
    if (block.stream != stream || released(block) != kNeverGone || born(block) <= second_born ||
        index.is_private(block) || !kinds.contains(kind_of(index, block)))
      continue;
    if (last == nullptr || born(block) - last->first_born >= half_step)
      last = &batches->emplace_back(Batch{.ids = {}, .first_born = born(block)});
    last->ids.push_back(id);
  }
}

bool are_released_in_order(const std::vector<Batch>& batches) {
  size_t in_order = 1;
  for (size_t i = 1; i < batches.size(); ++i)
    in_order += batches[i].first_born > batches[i - 1].first_born ? 1 : 0;
  return batches.size() >= kMinRepetitions && in_order * 10 >= batches.size() * 9;
}

}  // namespace

Patterns prefetch(WasteIndex& index) {
  if (index.report().stream_count < 2 || index.step_events() < 2) return {};
  const std::vector<uint64_t> blocks = count_by_stream(index.history());
  const auto most = static_cast<size_t>(std::ranges::max_element(blocks) - blocks.begin());
  std::vector<uint64_t> bytes(blocks.size());
  for (const uint32_t id : index.at_peak())
    bytes[index.block(id).stream] += index.block(id).requested_bytes;
  Patterns found;
  for (size_t stream = 0; stream < blocks.size(); ++stream) {
    if (stream == most || !matters(bytes[stream], kMinSavedShare, index.peak_bytes())) continue;
    const auto side = static_cast<trace::StreamId>(stream);
    std::vector<Batch> batches = batches_of(index, side);
    if (!are_released_in_order(batches)) continue;
    add_unreleased(index, side, &batches);
    std::vector<Change> changes;
    size_t at_peak = 0;
    for (size_t i = 0; i < batches.size(); ++i) {
      const auto is_there = [&](uint32_t id) {
        return born(index.block(id)) <= index.peak_event() &&
               gone(index.block(id)) > index.peak_event();
      };
      at_peak += std::ranges::any_of(batches[i].ids, is_there) ? 1 : 0;
      if (i == 0) continue;
      for (const uint32_t id : batches[i].ids)
        changes.push_back({id, born(index.block(id)), batches[i - 1].first_released});
    }
    if (at_peak < 2) continue;
    const Lifetime& block = index.block(batches.back().ids.front());
    Finding finding{
        FindingKind::kPrefetch, 0,
        trf("{} prefetched batches are on the GPU at the peak", format_count(at_peak)),
        trf("A side stream allocates each batch before the one in use is "
            "released ({} of them).",
            format_count(batches.size())),
        tr("Prefetch fewer batches ahead, or keep the next one in pinned host memory and "
           "copy it when the one in use has been released.")};
    finding.line = index.line(block);
    Patterns one = finding_if_saved(index, kMinSavedShare, std::move(finding), changes);
    found.insert(found.end(), one.begin(), one.end());
  }
  return found;
}

}  // namespace vram::explain
