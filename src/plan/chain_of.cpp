#include "plan/chain_of.hpp"

#include "base/bytes.hpp"
#include "explain/history/history.hpp"
#include "explain/names/names.hpp"
#include "plan/recorded/windows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>
#include <span>
#include <utility>

namespace vram::plan {
namespace {

using explain::History;
using explain::Lifetime;

constexpr uint32_t kForeverEvent = std::numeric_limits<uint32_t>::max();

// From event `first` until before event `end`.
struct Life {
  int64_t first = -1;  // -1: from before the first event
  uint32_t end = kForeverEvent;
  uint64_t bytes = 0;
};

Life life_of(const Lifetime& lifetime) {
  const bool is_old = lifetime.alloc_event == explain::kBeforeRecording;
  return {is_old ? -1 : static_cast<int64_t>(lifetime.alloc_event), lifetime.free_completed_event,
          lifetime.requested_bytes};
}

struct Recorded {
  const trace::Trace& trace;
  const trace::DeviceTrace* device = nullptr;
  History history = {};
  std::vector<uint64_t> live_bytes = {};  // before event i; one more than there are events
};

std::vector<uint64_t> live_bytes_of(const History& history, size_t event_count) {
  std::vector<uint64_t> change(event_count + 2, 0);  // modulo 2^64
  for (const Lifetime& each : history.lifetimes) {
    const Life life = life_of(each);
    change[static_cast<size_t>(life.first + 1)] += life.bytes;
    if (life.end < event_count) change[life.end + 1] -= life.bytes;
  }
  for (size_t i = 1; i < change.size(); ++i) change[i] += change[i - 1];
  change.pop_back();
  return change;
}

Result<Recorded> busiest_gpu(const trace::Trace& trace) {
  Recorded best{trace};
  uint64_t best_peak = 0;
  for (const trace::DeviceTrace& device : trace.devices) {
    if (device.kind != trace::DeviceKind::kGpu || device.event_count == 0) continue;
    History history = explain::replay_history(trace, device);
    auto live = live_bytes_of(history, device.event_count);
    const uint64_t peak = *std::ranges::max_element(live);
    if (best.device && peak <= best_peak) continue;
    best_peak = peak;
    best.device = &device;
    best.history = std::move(history);
    best.live_bytes = std::move(live);
  }
  if (!best.device)
    return fail(Code::kBadInput,
                "expected events of a GPU's memory, found none; plan the trace of "
                "a dry run or a recording of a training step");
  return best;
}

uint64_t peak_between(const Recorded& recorded, uint32_t begin, uint32_t end) {
  return *std::max_element(recorded.live_bytes.begin() + begin,
                           recorded.live_bytes.begin() + end + 1);
}

uint64_t peak_outside(const Recorded& recorded, const std::vector<Pass>& passes) {
  uint64_t peak = 0;
  uint32_t begin = 0;
  for (const Pass& pass : passes) {
    peak = std::max(peak, peak_between(recorded, begin, pass.first));
    begin = pass.end;
  }
  const auto event_count = static_cast<uint32_t>(recorded.device->event_count);
  return std::max(peak, peak_between(recorded, begin, event_count));
}

Result<Pass> highest_pass(const Recorded& recorded, const ModuleScopes& scopes,
                          const std::vector<Pass>& passes) {
  const auto events = recorded.trace.events_of(*recorded.device);
  const auto has_scope = [&](const trace::Event& event) {
    return scopes.part(event) != explain::StepPart::kNone;
  };
  if (std::ranges::none_of(events, has_scope)) {
    return fail(Code::kBadInput,
                "expected events in the scopes of modules, found none in {} events; record the "
                "program with vram.watch(model), or run it with: python -m vram.dry",
                events.size());
  }
  if (passes.empty()) {
    return fail(Code::kBadInput,
                "expected a training step, found no backward pass after a forward pass; record "
                "at least one whole step");
  }
  const Pass& pass = *std::ranges::max_element(
      passes, {}, [&](const Pass& each) { return peak_between(recorded, each.first, each.end); });
  if (pass.recomputes) {
    return fail(Code::kBadInput,
                "expected a step that keeps all activations, found modules that run again during "
                "backward; record the program without its checkpointing");
  }
  return pass;
}

// How the blocks of one pass count in the chain.
class Sums {
 public:
  Sums(const Recorded& recorded, const Pass& pass, const Windows& windows)
      : recorded_(recorded),
        pass_(pass),
        windows_(windows),
        count_(windows.stages.size()),
        entering_(2 * count_),
        change_(pass.end - pass.first),
        stages_(count_) {}

  void add_blocks() {
    find_parameter_sizes();
    for (const Lifetime& each : recorded_.history.lifetimes) {
      const Life life = life_of(each);
      if (life.end <= pass_.first || life.first >= static_cast<int64_t>(pass_.end)) continue;
      if (life.first < static_cast<int64_t>(pass_.first)) {
        add_older(life);
      } else if (const size_t born = window_at(static_cast<uint32_t>(life.first)); born < count_) {
        add_of_forward(life, born);
      } else {
        add_of_backward(life, stage_of(born));
      }
    }
    add_long_gradients();
  }

  [[nodiscard]] Chain chain() const {
    const std::vector<uint64_t> peaks = window_peaks();
    Chain chain;
    chain.fixed_bytes = fixed_bytes_;
    for (size_t i = 0; i < count_; ++i) {
      const StageBytes& bytes = stages_[i];
      Stage& stage = chain.stages.emplace_back();
      stage.name = windows_.stages[i];
      // An output that its own stage saves dies with what else that saves. Its gradient, which goes
      // from stage to stage, shows how large it is.
      stage.output_bytes = std::max(bytes.passed_on, bytes.gradient);
      stage.gradient_bytes = bytes.gradient;
      stage.parameter_gradient_bytes = bytes.left_by_backward;
      Option& option = stage.options.emplace_back();
      option.name = "keep all";
      option.kept_bytes = std::max(bytes.passed_on + bytes.kept, stage.output_bytes);
      option.forward_ns = stage.forward_ns = duration_ns(i);
      option.backward_ns = duration_ns(2 * count_ - 1 - i);
      option.forward_peak_bytes =
          std::max(peaks[i], option.kept_bytes) + old_bytes_during_forward(i);
      stage.forward_peak_bytes = option.forward_peak_bytes;
      option.backward_peak_bytes = peaks[2 * count_ - 1 - i];
    }
    return chain;
  }

  [[nodiscard]] std::vector<std::string> notes() const {
    std::vector<std::string> notes;
    if (const uint64_t bytes = old_bytes_during_forward(0); bytes > 0) {
      notes.push_back(trf(
          "{} from before the step are freed during its forward pass, and count in every forward; "
          "if they are gradients, call zero_grad() before the forward pass",
          format_bytes(bytes)));
    }
    if (skipping_bytes_ > 0) {
      notes.push_back(trf("{} skip over stages or outlive them, and count as there all the time",
                          format_bytes(skipping_bytes_)));
    }
    return notes;
  }

 private:
  struct StageBytes {
    uint64_t passed_on = 0;          // made in forward; the next stage frees it
    uint64_t kept = 0;               // ... its own backward does
    uint64_t gradient = 0;           // of its output: made in the next stage's backward
    uint64_t gradient_in_place = 0;  // ... or in one further behind, and changed in place since
    uint64_t left_by_backward = 0;   // still there after the pass
    uint64_t freed_older = 0;        // from before the pass, freed in this forward
  };

  // Made in the backward of stage `maker`, freed in that of `reader`, which is further in front.
  struct LongGradient {
    size_t reader = 0;
    size_t maker = 0;
    uint64_t bytes = 0;
  };

  // Backward of a stage has the same distance from the end as its forward from the beginning.
  [[nodiscard]] size_t stage_of(size_t window) const {
    return window < count_ ? window : 2 * count_ - 1 - window;
  }
  // 2 * count_: after the pass.
  [[nodiscard]] size_t window_at(uint32_t event) const {
    if (event >= pass_.end) return 2 * count_;
    const auto after = std::ranges::upper_bound(windows_.begins, event);
    return static_cast<size_t>(after - windows_.begins.begin()) - 1;
  }

  void find_parameter_sizes() {
    const trace::Tables& tables = recorded_.trace.tables;
    const auto events = recorded_.trace.events_of(*recorded_.device);
    for (const explain::NamedBlock& block :
         explain::named_blocks(tables, events, recorded_.history)) {
      if (tables.strings[tables.contexts[block.context].category] ==
          explain::to_string(explain::Category::kParameter))
        parameter_sizes_.insert(recorded_.history.lifetimes[block.lifetime].requested_bytes);
    }
  }

  void add_older(const Life& life) {
    if (const size_t freed = window_at(life.end); freed < count_) {
      stages_[freed].freed_older += life.bytes;
    } else {
      fixed_bytes_ += life.bytes;
    }
  }

  void add_of_forward(const Life& life, size_t stage) {
    const size_t freed = window_at(life.end);
    const size_t own_backward = 2 * count_ - 1 - stage;
    const bool is_temporary = freed == stage;
    const bool is_kept = freed == own_backward;
    const bool is_passed_on = freed < 2 * count_ && stage_of(freed) == stage + 1;
    if (!is_temporary && !is_kept && !is_passed_on) {
      fixed_bytes_ += life.bytes;
      skipping_bytes_ += freed < 2 * count_ ? life.bytes : 0;
      return;
    }
    count_in(stage, life);
    if (is_kept) {
      stages_[stage].kept += life.bytes;
      count_in(own_backward, life);
    }
    if (is_passed_on) stages_[stage].passed_on += life.bytes;
  }

  void add_of_backward(const Life& life, size_t stage) {
    const size_t freed = window_at(life.end);
    const size_t born = 2 * count_ - 1 - stage;
    count_in(born, life);
    if (freed == born) return;
    if (freed == born + 1 && freed < 2 * count_) {
      stages_[stage - 1].gradient += life.bytes;
      count_in(freed, life);
      return;
    }
    stages_[stage].left_by_backward += life.bytes;
    if (freed < 2 * count_ && !parameter_sizes_.contains(life.bytes))
      long_gradients_.push_back({stage_of(freed), stage, life.bytes});
  }

  // A gradient that lives through the backward of several stages is one of two things. Stages with
  // residual connections may pass on the gradients of their outputs in one block, each adding to
  // it; then each passed on such an output, and has no other gradient for it. Or it is the gradient
  // of a tensor that several stages read: this tensor must stay for all of them.
  void add_long_gradients() {
    for (const LongGradient& each : long_gradients_) {
      const auto outputs = std::span(stages_).subspan(each.reader, each.maker - each.reader);
      if (std::ranges::all_of(outputs, [&](const StageBytes& stage) {
            return stage.gradient + stage.gradient_in_place + each.bytes <= stage.passed_on;
          })) {
        for (StageBytes& stage : outputs) stage.gradient_in_place += each.bytes;
      } else {
        fixed_bytes_ += each.bytes;
        skipping_bytes_ += each.bytes;
      }
    }
  }

  // Counts a block in a window, while it is alive there.
  void count_in(size_t window, const Life& life) {
    const int64_t begin = windows_.begins[window];
    if (life.first < begin) {
      entering_[window] += life.bytes;
    } else {
      change_[static_cast<size_t>(life.first) - pass_.first] += life.bytes;
    }
    if (life.end < windows_.begins[window + 1]) change_[life.end - pass_.first] -= life.bytes;
  }

  [[nodiscard]] std::vector<uint64_t> window_peaks() const {
    std::vector<uint64_t> peaks(entering_);
    for (size_t window = 0; window < peaks.size(); ++window) {
      uint64_t live = entering_[window];
      for (uint32_t i = windows_.begins[window]; i < windows_.begins[window + 1]; ++i) {
        live += change_[i - pass_.first];
        peaks[window] = std::max(peaks[window], live);
      }
    }
    return peaks;
  }

  [[nodiscard]] uint64_t old_bytes_during_forward(size_t stage) const {
    uint64_t bytes = 0;
    for (size_t i = stage; i < count_; ++i) bytes += stages_[i].freed_older;
    return bytes;
  }

  // From its first event to the next window's. Clocks may step back.
  [[nodiscard]] uint64_t duration_ns(size_t window) const {
    const auto events = recorded_.trace.events_of(*recorded_.device);
    const uint32_t end = std::min(windows_.begins[window + 1], pass_.end - 1);
    const int64_t begin_ns = events[windows_.begins[window]].time_ns;
    const int64_t end_ns = events[end].time_ns;
    return end_ns <= begin_ns ? 0 : static_cast<uint64_t>(end_ns) - static_cast<uint64_t>(begin_ns);
  }

  const Recorded& recorded_;
  const Pass& pass_;
  const Windows& windows_;
  size_t count_;
  uint64_t fixed_bytes_ = 0;
  uint64_t skipping_bytes_ = 0;
  std::vector<uint64_t> entering_;  // by window: counted there when it begins
  std::vector<uint64_t> change_;    // by event of the pass, modulo 2^64
  std::vector<StageBytes> stages_;
  std::vector<LongGradient> long_gradients_;
  std::set<uint64_t> parameter_sizes_;
};

// The events of a dry run have times of its own clock (docs/dry-run.md).
void add_clock_notes(const trace::Trace& trace, std::vector<std::string>& notes) {
  const auto has_key = [](std::string_view key) {
    return [key](const trace::Setting& each) { return each.key == key; };
  };
  const bool is_dry = std::ranges::any_of(trace.about, has_key("vram.dry_run"));
  notes.emplace_back(
      is_dry
          ? tr("times are the dry run's estimates for its GPU, not measured")
          : tr("times are those of the host between the first events of stages, not of the GPU"));
  const auto rates = std::ranges::find_if(trace.about, has_key("vram.dry_run.rates"));
  if (rates != trace.about.end()) notes.push_back(rates->value);
}

}  // namespace

Result<RecordedChain> chain_of(const trace::Trace& trace, const ChainOptions& options) {
  if (!trace.has_time)
    return fail(Code::kBadInput,
                "expected events with times, which say what a stage costs; found "
                "a trace without a clock");
  VRAM_TRY_ASSIGN(const auto recorded, busiest_gpu(trace));
  const auto events = trace.events_of(*recorded.device);
  const ModuleScopes scopes(trace.tables);
  const std::vector<Pass> passes = find_passes(scopes, events);
  VRAM_TRY_ASSIGN(const auto pass, highest_pass(recorded, scopes, passes));
  VRAM_TRY_ASSIGN(const auto windows, find_windows(scopes, events, pass, options.stages));
  Sums sums(recorded, pass, windows);
  sums.add_blocks();
  RecordedChain result;
  result.chain = sums.chain();
  VRAM_TRY(check(result.chain));
  result.step.device = recorded.device->ordinal;
  result.step.pass_peak_bytes = peak_between(recorded, pass.first, pass.end);
  result.step.rest_peak_bytes = peak_outside(recorded, passes);
  result.step.notes = sums.notes();
  add_clock_notes(trace, result.step.notes);
  return result;
}

}  // namespace vram::plan
