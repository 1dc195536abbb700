// Measurer: the value of a rule for each device, process or source of a look. Remembers what values
// of now can't tell: trends, when faults came, which processes and devices there were.
//
//     begin(look) ──▶ measure(look, rule), for each rule ──▶ Measured
//
// One thread at a time. Measured values point into the look and into this.
#pragma once

#include "watch/rules/occurrences.hpp"
#include "watch/rules/rule.hpp"
#include "watch/rules/saved.hpp"
#include "watch/rules/subject.hpp"
#include "watch/rules/trend.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

namespace vram::watch {

class Measurer {
 public:
  explicit Measurer(bool sees_all_processes) : sees_all_processes_(sees_all_processes) {}

  // All rules that will be asked for, and disabled ones: the Xids that they name are no others.
  void set_rules(const std::vector<Rule>& rules);

  // Takes note of a look.
  void begin(const Look& look);
  // Of the look that began last, or of one that has not ended: of that only its being overdue.
  // Valid until the next call.
  [[nodiscard]] const std::vector<Measured>& measure(const Look& look, const Rule& rule);
  // What it was about is not there any more, as far as this look can tell. A device that only a
  // process before this one saw may just be late.
  [[nodiscard]] bool is_gone(const Subject& subject) const;

  // What it knows, for a later process. That has numbers of its own: a subject goes along with the
  // names of its device and its source.
  [[nodiscard]] Json save() const;
  [[nodiscard]] Json names_of(const Subject& subject) const;
  // Before the first look, with the rules set. Throws Json::exception on JSON of another form.
  // `is_same_boot`: a process that was seen alive then has its number still.
  void restore(const Json& saved, bool is_same_boot);
  void renumber(Subject& subject, const Json& names);

 private:
  struct KnownDevice {
    gpu::DeviceIdentity identity;
    uint64_t seen_ns = 0;
    std::optional<size_t> place;  // in this look
    bool is_seen = true;          // by this process
  };
  struct KnownSource {
    std::string says;
    bool fails = false;       // now
    bool has_worked = false;  // in some look
  };
  struct KnownTrend {
    Trend trend;
    uint64_t used_ns = 0;
  };
  struct SubjectHash {
    size_t operator()(const Subject& subject) const;
  };
  using Trends = std::unordered_map<Subject, KnownTrend, SubjectHash>;
  using TrendKey = std::tuple<std::string, uint64_t, uint64_t>;  // what a rule asks for

  static TrendKey key_of_trends(const Rule& rule) {
    return {rule.name, rule.window_ns, rule.at_least_bytes};
  }

  void note_device(size_t place);
  void note_faults(uint32_t number, const Device& device);
  void note_processes();
  void note_uses();
  void note_sources();

  [[nodiscard]] Json saved_trends() const;
  void restore_devices(const Json& saved);
  void restore_faults(const Json& saved);
  void restore_trends(const Json& saved);

  void measure_memory(const Rule& rule, std::vector<Measured>& found) const;
  void measure_device(const Rule& rule, std::vector<Measured>& found) const;
  void measure_use(const Rule& rule, std::vector<Measured>& found) const;
  void measure_xids(const Rule& rule, std::vector<Measured>& found) const;
  void measure_trends(const Rule& rule, std::vector<Measured>& found);
  void measure_missing(const Rule& rule, std::vector<Measured>& found) const;
  void measure_sources(std::vector<Measured>& found) const;

  [[nodiscard]] Measured of_device(size_t place) const;
  [[nodiscard]] std::optional<bool> is_dead(const Process& process) const;
  // True: its trend was not followed in this look yet.
  bool follow(Trends& trends, const Rule& rule, Measured& measured, std::optional<uint64_t> bytes,
              std::optional<uint64_t> room);

  bool sees_all_processes_;
  std::set<uint64_t> named_xids_;
  const Look* look_ = nullptr;
  bool is_first_ = true;
  std::vector<uint32_t> numbers_;  // of the look's devices, by place
  std::map<std::string, uint32_t> device_numbers_;
  std::map<uint32_t, KnownDevice> devices_;
  std::map<std::string, uint32_t> source_numbers_;
  std::map<uint32_t, KnownSource> sources_;
  std::map<Subject, Occurrences> xids_;
  std::map<uint32_t, Occurrences> ecc_;
  std::vector<uint32_t> seen_alive_;  // pids that are named still, in order
  std::vector<Measured> uses_;        // of the look, without values: where rules begin
  std::vector<Measured> found_;
  std::map<TrendKey, Trends> trends_;
};

}  // namespace vram::watch
