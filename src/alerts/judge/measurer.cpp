#include "alerts/judge/measurer.hpp"

#include "watch/sources.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace vram::alerts {
namespace {

constexpr size_t kMaxSources = 32;

template <typename Numbers>
uint32_t number_of(Numbers& numbers, const std::string& text) {
  return numbers.try_emplace(text, static_cast<uint32_t>(numbers.size())).first->second;
}

// "nvml: the driver is not loaded" is of nvml. Other notes have no source.
std::string source_of(const std::string& note) {
  const std::string name = note.substr(0, note.find(": "));
  const bool is_name =
      name.size() < note.size() && name.size() <= 16 &&
      std::ranges::all_of(
          name, [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); });
  return is_name ? name : "";
}

}  // namespace

void Measurer::set_rules(const std::vector<Rule>& rules) {
  std::map<TrendKey, Trends> kept;
  named_xids_.clear();
  for (const Rule& rule : rules) {
    if (rule.measure == Measure::kXid) named_xids_.insert(rule.xids.begin(), rule.xids.end());
    auto trends = trends_.extract(key_of_trends(rule));
    if (!trends.empty()) kept.insert(std::move(trends));
  }
  trends_ = std::move(kept);
}

void Measurer::begin(const SampleView& view) {
  view_ = &view;
  numbers_.clear();
  for (auto& [number, known] : devices_) known.place.reset();
  for (size_t place = 0; place < view.sampled.snapshot.devices.size(); ++place) note_device(place);
  note_processes();
  note_uses();
  note_sources();
  is_first_ = false;
}

void Measurer::note_device(size_t place) {
  const watch::Device& device = view_->sampled.snapshot.devices[place];
  std::string key = watch::key_of(device.identity);
  if (key.empty()) key = fmt::format("number {}", device.identity.index);
  const uint32_t number = number_of(device_numbers_, key);
  numbers_.push_back(number);
  devices_[number] = {device.identity, view_->now_ns, place};
  note_faults(number, device);
}

void Measurer::note_faults(uint32_t number, const watch::Device& device) {
  if (device.xids) {
    for (const watch::XidCount& xid : *device.xids) {
      Subject subject;
      subject.device = number;
      subject.xid = xid.xid;
      // Counted since this program began to watch: what there is was not there before.
      const auto [entry, is_new] = xids_.try_emplace(subject, Occurrences(0));
      entry->second.add(view_->now_ns, xid.count);
    }
  }
  // Since the driver was loaded: what there is at first is old.
  if (const auto count = device.health.ecc_since_boot.uncorrected)
    ecc_.try_emplace(number, Occurrences(std::nullopt)).first->second.add(view_->now_ns, *count);
}

void Measurer::note_processes() {
  std::vector<uint32_t> alive;
  alive.reserve(view_->sampled.snapshot.processes.size());
  for (const watch::Process& process : view_->sampled.snapshot.processes) {
    if (process.facts->start_ticks || std::ranges::binary_search(seen_alive_, process.facts->pid))
      alive.push_back(process.facts->pid);
  }
  std::ranges::sort(alive);
  seen_alive_ = std::move(alive);
}

void Measurer::note_uses() {
  uses_.clear();
  for (const watch::Process& process : view_->sampled.snapshot.processes) {
    for (const watch::Use& use : process.uses) {
      if (use.device >= numbers_.size()) continue;
      Measured& measured = uses_.emplace_back(of_device(use.device));
      measured.subject.pid = process.facts->pid;
      measured.subject.start_ticks = process.facts->start_ticks.value_or(0);
      measured.subject.gpu_instance = use.process.gpu_instance.value_or(kNoNumber);
      measured.subject.compute_instance = use.process.compute_instance.value_or(kNoNumber);
      measured.process = &process;
      measured.use = &use;
      note_counts(measured);
    }
  }
  std::erase_if(counts_, [&](const auto& known) { return known.second.seen_ns != view_->now_ns; });
}

// Counted since the process started: at the first sample, what there is is old.
void Measurer::note_counts(const Measured& measured) {
  const auto& allocator = measured.use->allocator;
  if (!allocator || (!allocator->num_alloc_retries && !allocator->num_ooms)) return;
  KnownCounts& known = counts_[measured.subject];
  known.seen_ns = view_->now_ns;
  const auto add = [&](std::optional<Occurrences>& counted, std::optional<uint64_t> count) {
    if (!count) return;
    if (!counted) counted.emplace(is_first_ ? std::nullopt : std::optional<uint64_t>(0));
    counted->add(view_->now_ns, *count);
  };
  add(known.retries, allocator->num_alloc_retries);
  add(known.ooms, allocator->num_ooms);
}

void Measurer::note_sources() {
  for (auto& [number, known] : sources_) known.fails = false;
  for (const std::string& note : view_->sampled.snapshot.notes) {
    const std::string name = source_of(note);
    if (name.empty() || (sources_.size() >= kMaxSources && !source_numbers_.contains(name)))
      continue;
    KnownSource& known = sources_[number_of(source_numbers_, name)];
    // One that is heard of later said nothing so far: all was well.
    if (known.last_note.empty()) known.has_worked = !is_first_;
    known.last_note = note;
    known.fails = true;
  }
  for (auto& [number, known] : sources_) known.has_worked = known.has_worked || !known.fails;
}

const std::vector<Measured>& Measurer::measure(const SampleView& view, const Rule& rule) {
  view_ = &view;
  std::vector<Measured>& found = found_;
  found.clear();
  switch (rule.measure) {
    case Measure::kMemoryUsed:
      measure_memory(rule, found);
      break;
    case Measure::kTimeToFull:
    case Measure::kProcessTimeToFull:
      measure_trends(rule, found);
      break;
    case Measure::kIdleMemory:
    case Measure::kUnusedReserve:
    case Measure::kDeadProcessMemory:
      measure_use(rule, found);
      break;
    case Measure::kAllocRetries:
    case Measure::kOoms:
      measure_counts(rule, found);
      break;
    case Measure::kXid:
    case Measure::kOtherXid:
      measure_xids(rule, found);
      break;
    case Measure::kMissing:
      measure_missing(rule, found);
      break;
    case Measure::kSourceFailing:
      measure_sources(found);
      break;
    case Measure::kSampleTime:
      found.emplace_back().value =
          static_cast<double>(view_->sampled.sample_duration_ns) / kSecondNs;
      break;
    case Measure::kSampleOverdue:
      found.emplace_back().value = static_cast<double>(view_->overdue_ns) / kSecondNs;
      break;
    default:
      measure_device(rule, found);
  }
  return found;
}

bool Measurer::is_gone(const Subject& subject) const {
  if (subject.device == kNoNumber) return false;
  const auto known = devices_.find(subject.device);
  if (known == devices_.end()) return true;
  if (!known->second.place) return known->second.is_seen;
  const watch::Device& device = view_->sampled.snapshot.devices[*known->second.place];
  return subject.pid != kNoNumber && device.sample.processes.has_value();
}

Measured Measurer::of_device(size_t place) const {
  Measured measured;
  measured.subject.device = numbers_[place];
  measured.device = &view_->sampled.snapshot.devices[place];
  measured.identity = &measured.device->identity;
  return measured;
}

void Measurer::measure_xids(const Rule& rule, std::vector<Measured>& found) const {
  for (const auto& [subject, occurrences] : xids_) {
    const bool is_selected = rule.measure == Measure::kOtherXid
                                 ? !named_xids_.contains(subject.xid)
                                 : std::ranges::count(rule.xids, subject.xid) > 0;
    const KnownDevice& known = devices_.at(subject.device);
    if (!is_selected || !known.place) continue;
    Measured& measured = found.emplace_back(of_device(*known.place));
    measured.subject = subject;
    const uint64_t count = occurrences.in_window(view_->now_ns, rule.window_ns);
    measured.value = static_cast<double>(count);
  }
}

void Measurer::measure_counts(const Rule& rule, std::vector<Measured>& found) const {
  for (const Measured& use : uses_) {
    const auto known = counts_.find(use.subject);
    if (known == counts_.end()) continue;
    const auto& counted =
        rule.measure == Measure::kOoms ? known->second.ooms : known->second.retries;
    if (!counted) continue;
    found.emplace_back(use).value =
        static_cast<double>(counted->in_window(view_->now_ns, rule.window_ns));
  }
}

void Measurer::measure_missing(const Rule& rule, std::vector<Measured>& found) const {
  for (const auto& [number, known] : devices_) {
    if (view_->now_ns - known.seen_ns > rule.window_ns) continue;
    Measured measured;
    measured.subject.device = number;
    measured.identity = &known.identity;
    measured.value = known.place ? 0 : 1;
    found.push_back(measured);
  }
}

// A source that never worked is none of this machine's, unless there is no other.
void Measurer::measure_sources(std::vector<Measured>& found) const {
  const bool has_devices = !view_->sampled.snapshot.devices.empty();
  for (const auto& [number, known] : sources_) {
    Measured& measured = found.emplace_back();
    measured.subject.source = number;
    measured.text = &known.last_note;
    measured.value = known.fails && (known.has_worked || !has_devices) ? 1 : 0;
  }
}

}  // namespace vram::alerts
