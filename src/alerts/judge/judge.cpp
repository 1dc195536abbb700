#include "alerts/judge/judge.hpp"

#include "alerts/judge/judge_state.hpp"
#include "alerts/rules/alert_words.hpp"
#include "base/language.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <tuple>
#include <utility>

namespace vram::alerts {
namespace {

constexpr size_t kMaxResolved = 256;

Verdict verdict_of(const Rule& rule, const Measured& measured) {
  if (!measured.value) return Verdict::kUnknown;
  const double value = *measured.value;
  const bool is_below = facts_of(rule.measure).holds_below;
  const bool holds = is_below ? value <= rule.threshold : value >= rule.threshold;
  if (holds && measured.counts) return Verdict::kHolds;
  const bool is_clear = is_below ? value > rule.clear : value < rule.clear;
  return is_clear || !measured.counts ? Verdict::kClear : Verdict::kBetween;
}

Alert new_alert(const Rule& rule, const Measured& measured, int64_t time_ns) {
  Alert alert;
  alert.id = alert_id(rule, measured);
  alert.rule = rule.name;
  alert.measure = rule.measure;
  alert.severity = rule.severity;
  alert.since_unix_ns = time_ns;
  if (measured.process != nullptr) alert.pid = measured.process->facts->pid;
  alert.labels = labels_of(rule, measured);
  alert.annotations = annotations_of(measured);
  return alert;
}

}  // namespace

void Judge::State::set_rules(RuleBook given) {
  book = std::move(given);
  measurer.set_rules(book.rules());
  std::vector<Ruled> before = std::exchange(rules, {});
  for (const Rule& rule : book.rules()) {
    if (!rule.is_enabled) continue;
    Ruled& ruled = rules.emplace_back(Ruled{rule, {}});
    for (Ruled& old : before) {
      if (has_same_name(old.rule, rule)) ruled.cases = std::exchange(old.cases, {});
    }
  }
  for (Ruled& old : before) {
    for (auto& [subject, one] : old.cases) {
      if (one.phase.is_firing()) orphans.push_back(std::move(one.alert));
    }
  }
}

void Judge::State::resolve(Alert alert, Ending ending, int64_t time_ns,
                           std::vector<AlertChange>& changes) {
  alert.state = AlertState::kResolved;
  alert.ending = ending;
  alert.ended_unix_ns = std::max(time_ns, alert.started_unix_ns.value_or(time_ns));
  changes.push_back({alert});
  resolved.push_back({std::move(alert), now_ns});
  if (resolved.size() > kMaxResolved) resolved.pop_front();
}

bool Judge::State::take_turn(Transition transition, Case& one, int64_t time_ns,
                             std::vector<AlertChange>& changes) {
  if (transition == Transition::kNothing) return false;
  if (transition == Transition::kFires) {
    one.alert.state = AlertState::kFiring;
    one.alert.started_unix_ns = time_ns;
    std::erase_if(resolved, [&](const Resolved& old) { return old.alert.id == one.alert.id; });
    changes.push_back({one.alert});
    return false;
  }
  if (transition != Transition::kDropped)
    resolve(std::move(one.alert),
            transition == Transition::kIsClear ? Ending::kClear : Ending::kUnknown, time_ns,
            changes);
  return true;
}

void Judge::State::judge_one(Ruled& ruled, const Measured& measured, const SampleView& view,
                             std::vector<AlertChange>& changes) {
  const Verdict verdict = verdict_of(ruled.rule, measured);
  const int64_t time_ns = view.sampled.snapshot.time_ns;
  auto found = ruled.cases.find(measured.subject);
  if (found == ruled.cases.end()) {
    if (verdict != Verdict::kHolds) return;
    found = ruled.cases
                .emplace(measured.subject,
                         Case{Phase(view.now_ns), new_alert(ruled.rule, measured, time_ns)})
                .first;
  }
  Case& one = found->second;
  one.seen = sample_count;
  const Transition transition = one.phase.advance(ruled.rule, view.now_ns, verdict);
  Alert& alert = one.alert;
  if (one.phase.since_ns() == view.now_ns) alert.since_unix_ns = time_ns;
  alert.is_unknown = !measured.value;
  alert.threshold = ruled.rule.threshold;
  if (measured.identity != nullptr) alert.device = measured.identity->index;
  if (measured.value) {
    alert.value = std::isfinite(*measured.value) ? measured.value : std::nullopt;
    alert.advice = tr(std::string_view(ruled.rule.advice));
    alert.summary =
        summary_text(ruled.rule, measured, *measured.value, view.now_ns - one.phase.since_ns());
  }
  if (take_turn(transition, one, time_ns, changes)) ruled.cases.erase(found);
}

void Judge::State::judge_unseen(Ruled& ruled, const SampleView& view,
                                std::vector<AlertChange>& changes) {
  const int64_t time_ns = view.sampled.snapshot.time_ns;
  for (auto entry = ruled.cases.begin(); entry != ruled.cases.end();) {
    Case& one = entry->second;
    bool is_over = false;
    if (one.seen != sample_count) {
      const bool is_gone =
          ruled.rule.measure == Measure::kMissing || measurer.is_gone(entry->first);
      if (is_gone && one.phase.is_firing())
        resolve(std::move(one.alert), Ending::kGone, time_ns, changes);
      one.alert.is_unknown = true;
      is_over = is_gone || take_turn(one.phase.advance(ruled.rule, view.now_ns, Verdict::kUnknown),
                                     one, time_ns, changes);
    }
    entry = is_over ? ruled.cases.erase(entry) : std::next(entry);
  }
}

void Judge::State::judge_rule(Ruled& ruled, const SampleView& view,
                              std::vector<AlertChange>& changes) {
  for (const Measured& measured : measurer.measure(view, ruled.rule))
    judge_one(ruled, measured, view, changes);
  judge_unseen(ruled, view, changes);
}

void Judge::State::forget_resolved() {
  while (!resolved.empty() && now_ns - resolved.front().ended_ns > options.resolved_kept_ns)
    resolved.pop_front();
}

void Judge::State::see(uint64_t monotonic_ns) {
  now_ns = std::max(now_ns, monotonic_ns + static_cast<uint64_t>(ahead_ns));
}

std::vector<AlertChange> Judge::State::judge(const SampleView& view, bool is_whole) {
  std::vector<AlertChange> changes;
  ++sample_count;
  for (Alert& orphan : std::exchange(orphans, {}))
    resolve(std::move(orphan), Ending::kNoRule, view.sampled.snapshot.time_ns, changes);
  if (is_whole) measurer.begin(view);
  for (Ruled& ruled : rules) {
    if (is_whole || ruled.rule.measure == Measure::kSampleOverdue) judge_rule(ruled, view, changes);
  }
  forget_resolved();
  return changes;
}

Judge::Judge(RuleBook book, JudgeOptions options)
    : state_(std::make_unique<State>(RuleBook::built_in(), options)) {
  state_->set_rules(std::move(book));
}
Judge::Judge(Judge&&) noexcept = default;
Judge::~Judge() = default;

std::vector<AlertChange> Judge::judge(const watch::Sampled& sampled) {
  state_->see(sampled.begin_ns);
  return state_->judge(SampleView{sampled, state_->now_ns, 0}, true);
}

std::vector<AlertChange> Judge::judge_overdue(uint64_t now_ns, int64_t now_unix_ns,
                                              uint64_t overdue_ns) {
  state_->see(now_ns);
  watch::Sampled none;
  none.snapshot.time_ns = now_unix_ns;
  return state_->judge(SampleView{none, state_->now_ns, overdue_ns}, false);
}

std::vector<Alert> Judge::alerts() const {
  std::vector<Alert> all;
  for (const Ruled& ruled : state_->rules) {
    for (const auto& [subject, one] : ruled.cases) all.push_back(one.alert);
  }
  for (const State::Resolved& old : state_->resolved) all.push_back(old.alert);
  const auto rank = [](const Alert& alert) {
    static constexpr int kRanks[] = {1, 0, 2};  // by state: firing ones first
    return std::tuple(kRanks[static_cast<size_t>(alert.state)], -static_cast<int>(alert.severity));
  };
  std::ranges::stable_sort(all, {}, rank);
  return all;
}

void Judge::set_rules(RuleBook book) { state_->set_rules(std::move(book)); }

const RuleBook& Judge::rules() const { return state_->book; }

}  // namespace vram::alerts
