// Measurer: the value of a rule for each device, process or source of a sample. Keeps what a single
// sample does not contain: trends, the times of faults, and earlier processes and devices.
//
//     begin(view) ──▶ measure(view, rule), for each rule ──▶ Measured
//
// Use it from one thread at a time. Measured values point into the sample and into this object.
#pragma once

#include "alerts/judge/saved.hpp"
#include "alerts/judge/subject.hpp"
#include "alerts/judge/trend.hpp"
#include "alerts/rules/rule.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

namespace vram::alerts {

class Measurer {
 public:
  explicit Measurer(bool sees_all_processes) : sees_all_processes_(sees_all_processes) {}

  // All rules, including disabled ones: Xids that a rule names are not reported as "other".
  void set_rules(const std::vector<Rule>& rules);

  // Starts a sample.
  void begin(const SampleView& view);
  // Of the last started sample, or of one that has not ended, which only has its delay. Valid until
  // the next call.
  [[nodiscard]] const std::vector<Measured>& measure(const SampleView& view, const Rule& rule);
  // Returns whether the subject no longer exists, as far as this sample shows. A device seen only
  // by an earlier process may still appear later.
  [[nodiscard]] bool is_gone(const Subject& subject) const;

  // The state, for a later process. That process has its own numbers, so subjects are saved with
  // the names of their device and source.
  [[nodiscard]] Json save() const;
  [[nodiscard]] Json names_of(const Subject& subject) const;
  // Call it before the first sample, with the rules set. Throws Json::exception on unexpected JSON.
  // `is_same_boot`: a process that was seen alive then still has its number.
  void restore(const Json& saved, bool is_same_boot);
  void renumber(Subject& subject, const Json& names);

 private:
  struct KnownDevice {
    gpu::DeviceIdentity identity;
    uint64_t seen_ns = 0;
    std::optional<size_t> place;  // in this sample
    bool is_seen = true;          // by this process
  };
  struct KnownSource {
    std::string last_note;
    bool fails = false;       // now
    bool has_worked = false;  // in any sample
  };
  struct KnownTrend {
    Trend trend;
    uint64_t used_ns = 0;
  };
  struct SubjectHash {
    size_t operator()(const Subject& subject) const;
  };
  using Trends = std::unordered_map<Subject, KnownTrend, SubjectHash>;
  using TrendKey = std::tuple<std::string, uint64_t, uint64_t>;  // what a rule requires

  static TrendKey key_of_trends(const Rule& rule) {
    return {rule.name, rule.window_ns, rule.at_least_bytes};
  }

  void note_device(size_t place);
  void note_faults(uint32_t number, const watch::Device& device);
  void note_processes();
  void note_uses();
  void note_counts(const Measured& measured);
  void note_sources();

  [[nodiscard]] Json saved_trends() const;
  [[nodiscard]] Json saved_counts() const;
  void restore_devices(const Json& saved);
  void restore_faults(const Json& saved);
  void restore_trends(const Json& saved);
  void restore_counts(const Json& saved);

  void measure_memory(const Rule& rule, std::vector<Measured>& found) const;
  void measure_device(const Rule& rule, std::vector<Measured>& found) const;
  void measure_use(const Rule& rule, std::vector<Measured>& found) const;
  void measure_xids(const Rule& rule, std::vector<Measured>& found) const;
  void measure_trends(const Rule& rule, std::vector<Measured>& found);
  void measure_counts(const Rule& rule, std::vector<Measured>& found) const;
  void measure_missing(const Rule& rule, std::vector<Measured>& found) const;
  void measure_sources(std::vector<Measured>& found) const;

  [[nodiscard]] Measured of_device(size_t place) const;
  [[nodiscard]] std::optional<bool> is_dead(const watch::Process& process) const;
  // True: its trend was not updated in this sample yet.
  bool follow(Trends& trends, const Rule& rule, Measured& measured, std::optional<uint64_t> bytes,
              std::optional<uint64_t> room);

  bool sees_all_processes_;
  std::set<uint64_t> named_xids_;
  const SampleView* view_ = nullptr;
  bool is_first_ = true;
  std::vector<uint32_t> numbers_;  // of the sample's devices, by index
  std::map<std::string, uint32_t> device_numbers_;
  std::map<uint32_t, KnownDevice> devices_;
  std::map<std::string, uint32_t> source_numbers_;
  std::map<uint32_t, KnownSource> sources_;
  std::map<Subject, Occurrences> xids_;
  std::map<uint32_t, Occurrences> ecc_;
  // What the allocator of a process counts since the process started.
  struct KnownCounts {
    std::optional<Occurrences> retries;
    std::optional<Occurrences> ooms;
    uint64_t seen_ns = 0;
  };
  std::map<Subject, KnownCounts> counts_;
  std::vector<uint32_t> seen_alive_;  // pids that are named still, in order
  // Uses in the sample, without values: the starting point of rules.
  std::vector<Measured> uses_;
  std::vector<Measured> found_;
  std::map<TrendKey, Trends> trends_;
};

}  // namespace vram::alerts
