#include "plan/plan.hpp"

#include "plan/solve/solvers.hpp"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

namespace vram::plan {
namespace {

void add(Plan& plan, std::string_view solver, Result<Schedule> schedule) {
  Attempt& attempt = plan.attempts.emplace_back();
  attempt.solver = solver;
  if (!schedule) {
    attempt.why_not = std::move(schedule.error().message);
    return;
  }
  const auto rank = [](const Cost& cost) { return std::tuple(cost.time_ns, cost.peak_bytes); };
  if (plan.best.operations.empty() || rank(schedule->cost) < rank(plan.best.cost))
    plan.best = *schedule;
  attempt.schedule = std::move(*schedule);
}

// Reads "reverse [first, last]" and returns its regions.
class Reader {
 public:
  explicit Reader(std::span<const Operation> operations) : operations_(operations) {}

  std::optional<std::vector<Region>> read(uint32_t first, uint32_t last) {
    std::vector<Region> regions;
    for (uint32_t s = first; s <= last;) {
      if (take(OpKind::kForwardSave, s)) {
        regions.push_back({s, s, operations_[next_ - 1].option, {}});
        (void)take(OpKind::kOffload, s);
        ++s;
        continue;
      }
      if (!take(OpKind::kForwardKeepInput, s)) return std::nullopt;
      uint32_t end = s;
      while (end < last && take(OpKind::kForward, end + 1)) ++end;
      if (end == last) return std::nullopt;  // nothing kept for the backward that comes next
      regions.push_back({s, end, std::nullopt, {}});
      s = end + 1;
    }
    for (size_t i = regions.size(); i-- > 0;) {
      Region& region = regions[i];
      if (region.option) {
        (void)take(OpKind::kFetch, region.first);
        if (!take(OpKind::kBackward, region.first)) return std::nullopt;
        continue;
      }
      if (!take(OpKind::kDiscard, region.last)) return std::nullopt;
      auto parts = read(region.first, region.last);
      if (!parts) return std::nullopt;
      region.parts = std::move(*parts);
    }
    return regions;
  }
  bool is_at_end() const { return next_ == operations_.size(); }

 private:
  bool take(OpKind kind, uint32_t stage) {
    if (is_at_end() || operations_[next_].kind != kind || operations_[next_].stage != stage)
      return false;
    ++next_;
    return true;
  }

  std::span<const Operation> operations_;
  size_t next_ = 0;
};

}  // namespace

Result<Plan> make_plan(const Chain& chain, uint64_t budget_bytes, const RotorSettings& settings) {
  if (Result<> valid = check(chain); !valid) return tl::unexpected(std::move(valid.error()));
  Result<RotorSchedule> found = rotor(chain, budget_bytes, settings);
  if (!found) return tl::unexpected(std::move(found.error()));
  Result<Schedule> ideal = keep_all(chain, std::numeric_limits<uint64_t>::max());
  if (!ideal) return tl::unexpected(std::move(ideal.error()));
  Plan plan;
  plan.budget_bytes = budget_bytes;
  plan.ideal_ns = ideal->cost.time_ns;
  plan.ideal_peak_bytes = ideal->cost.peak_bytes;
  plan.lower_bound_ns = lower_bound_ns(chain, budget_bytes);
  plan.persistent_bound_ns = found->lower_bound_ns;
  add(plan, "rotor", std::move(found->schedule));
  add(plan, "chen", chen(chain, budget_bytes));
  add(plan, "revolve", revolve(chain, budget_bytes));
  add(plan, "checkpoint_every_stage", checkpoint_every_stage(chain, budget_bytes));
  add(plan, "keep_all", keep_all(chain, budget_bytes));
  return plan;
}

Result<std::vector<Plan>> sweep(const Chain& chain, size_t count, const RotorSettings& settings) {
  VRAM_TRY(check(chain));
  VRAM_TRY_ASSIGN(const auto ideal, keep_all(chain, std::numeric_limits<uint64_t>::max()));
  const uint64_t smallest = smallest_budget_bytes(chain);
  const uint64_t range = ideal.cost.peak_bytes - std::min(smallest, ideal.cost.peak_bytes);
  std::vector<Plan> plans;
  for (size_t i = 0; i < (range == 0 ? 1 : count); ++i) {
    const uint64_t last = count - 1;
    // The same as range * i / last, which may overflow.
    const uint64_t above = range / last * i + range % last * i / last;
    VRAM_TRY_ASSIGN(auto plan, make_plan(chain, smallest + above, settings));
    plans.push_back(std::move(plan));
  }
  return plans;
}

std::optional<std::vector<Region>> regions_of(std::span<const Operation> operations,
                                              uint32_t stage_count) {
  Reader reader(operations);
  auto regions = reader.read(0, stage_count - 1);
  return regions && reader.is_at_end() ? std::move(regions) : std::nullopt;
}

std::vector<uint32_t> forward_runs(std::span<const Operation> operations, uint32_t stage_count) {
  std::vector<uint32_t> runs(stage_count);
  for (const Operation& each : operations) {
    if (each.kind <= OpKind::kForwardSave) ++runs[each.stage];
  }
  return runs;
}

}  // namespace vram::plan
