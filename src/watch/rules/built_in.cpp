#include "watch/rules/built_in.hpp"

#include "base/bytes.hpp"

#include <utility>

namespace vram::watch {
namespace {

Rule rule_of(std::string name, Measure measure, Severity severity, std::string summary,
             std::string advice) {
  Rule rule;
  rule.name = std::move(name);
  rule.measure = measure;
  rule.severity = severity;
  rule.summary = std::move(summary);
  rule.advice = std::move(advice);
  return rule;
}

Rule full_rule(std::string name, Severity severity, double threshold, double clear,
               uint64_t headroom_bytes) {
  Rule rule = rule_of(std::move(name), Measure::kMemoryUsed, severity,
                      "{device}: {value} of its memory is used, {detail}",
                      "`vram status` shows who holds it, `vram free` what their allocators would "
                      "give back");
  rule.threshold = threshold;
  rule.clear = clear;
  rule.for_ns = 2 * kMinuteNs;
  rule.headroom_bytes = headroom_bytes;
  return rule;
}

Rule trend_rule(Rule rule, uint64_t threshold_ns, uint64_t window_ns, uint64_t at_least_bytes) {
  rule.threshold = static_cast<double>(threshold_ns) / kSecondNs;
  rule.clear = rule.threshold * 1.5;
  rule.for_ns = 5 * kMinuteNs;
  rule.clear_for_ns = 5 * kMinuteNs;
  rule.window_ns = window_ns;
  rule.at_least_bytes = at_least_bytes;
  return rule;
}

Rule bytes_rule(Rule rule, uint64_t threshold, uint64_t clear, uint64_t for_ns) {
  rule.threshold = static_cast<double>(threshold);
  rule.clear = static_cast<double>(clear);
  rule.for_ns = for_ns;
  return rule;
}

Rule celsius_rule(Rule rule, double threshold, double clear) {
  rule.threshold = threshold;
  rule.clear = clear;
  rule.for_ns = 5 * kMinuteNs;
  return rule;
}

Rule lasting(Rule rule, uint64_t for_ns) {
  rule.for_ns = for_ns;
  return rule;
}

Rule in_window(Rule rule, uint64_t window_ns) {
  rule.window_ns = window_ns;
  rule.clear_for_ns = 0;  // the window is long enough
  return rule;
}

Rule xid_rule(std::string name, Severity severity, std::string summary, std::string advice,
              std::vector<uint64_t> xids) {
  Rule rule = rule_of(std::move(name), xids.empty() ? Measure::kOtherXid : Measure::kXid, severity,
                      std::move(summary), std::move(advice));
  rule.xids = std::move(xids);
  return in_window(std::move(rule), 10 * kMinuteNs);
}

Rule clocks_rule(std::string name, std::string summary, std::string advice,
                 std::vector<std::string> reasons) {
  Rule rule = rule_of(std::move(name), Measure::kHeldClocks, Severity::kWarning, std::move(summary),
                      std::move(advice));
  rule.reasons = std::move(reasons);
  rule.for_ns = 5 * kMinuteNs;
  return rule;
}

std::vector<Rule> memory_rules() {
  return {
      full_rule("memory-almost-full", Severity::kWarning, 0.95, 0.92, 4 * kGiB),
      full_rule("memory-full", Severity::kCritical, 0.99, 0.97, 512 * kMiB),
      trend_rule(rule_of("memory-full-soon", Measure::kTimeToFull, Severity::kCritical,
                         "{device}: full in {value}, {detail}",
                         "`vram status` shows who grows; save a checkpoint before it is full"),
                 kHourNs, 30 * kMinuteNs, kGiB),
      trend_rule(rule_of("memory-leak", Measure::kProcessTimeToFull, Severity::kWarning,
                         "{process} on {device} grows without end: full in {value}, {detail}",
                         "record it: `vram run --record run.vtrace -- COMMAND`, then `vram report "
                         "run.vtrace` names the lines that keep memory"),
                 24 * kHourNs, 6 * kHourNs, 256 * kMiB),
  };
}

std::vector<Rule> waste_rules() {
  Rule reserve = rule_of(
      "reserve-unused", Measure::kUnusedReserve, Severity::kWarning,
      "{process} on {device} uses little of what it took: {value} unused, {detail}",
      "`vram free PID` asks it to give its cache back; `vram tune` finds settings that waste less");
  reserve.threshold = 0.5;
  reserve.clear = 0.4;
  reserve.for_ns = 15 * kMinuteNs;
  reserve.at_least_bytes = 4 * kGiB;
  return {
      std::move(reserve),
      bytes_rule(rule_of("memory-held-idle", Measure::kIdleMemory, Severity::kWarning,
                         "{process} holds {value} on {device} and has not computed for {for}",
                         "ask its owner; `vram free` shows what it would give back without ending"),
                 kGiB, kGiB, kHourNs),
      bytes_rule(rule_of("dead-process-memory", Measure::kDeadProcessMemory, Severity::kWarning,
                         "{process} is gone, and {device} still counts {value} as its own",
                         "look for children that it left behind (`fuser -v /dev/nvidia*`); with "
                         "none, the device needs a reset"),
                 64 * kMiB, 64 * kMiB, 2 * kMinuteNs),
      bytes_rule(rule_of("memory-unattributed", Measure::kUnattributed, Severity::kWarning,
                         "{device}: {value} used by no process that the driver names",
                         "`vram status -q` as root, outside of containers: hidden processes, "
                         "managed memory, or what a dead one left"),
                 4 * kGiB, 3 * kGiB, 15 * kMinuteNs),
  };
}

// 48, 95, 140: memory errors that could not be contained; 62, 119, 120: the device's own
// processors; 64: a row could not be replaced; 74: NVLink; 79: off the bus. 63, 92, 94: memory that
// is going bad and was contained; 154: what the driver asks for has changed. 13, 31, 43, 45, 68,
// 109: what programs do wrong themselves.
std::vector<Rule> fault_rules() {
  return {
      xid_rule("xid-critical", Severity::kCritical, "{device}: {detail}",
               "drain it: no new jobs; `dmesg` has the driver's words. A reset, and if it comes "
               "again the card's maker, are next",
               {48, 62, 64, 74, 79, 95, 119, 120, 140}),
      xid_rule("xid-warning", Severity::kWarning, "{device}: {detail}",
               "the device dealt with a fault, of its memory as a rule: reset it when its jobs are "
               "done",
               {63, 92, 94, 154}),
      xid_rule("xid-application", Severity::kInfo, "{device}: {detail}",
               "a program's own fault, most often an address out of bounds: its log has more",
               {13, 31, 43, 45, 68, 109}),
      xid_rule("xid-other", Severity::kWarning, "{device}: {detail}",
               "look the number up in NVIDIA's list of Xid errors; `dmesg` has the driver's words",
               {}),
      in_window(rule_of("ecc-uncorrected", Measure::kEccUncorrected, Severity::kCritical,
                        "{device}: {value} uncorrected memory errors, {detail}",
                        "results of that time are in doubt; reset the device, and have it replaced "
                        "if they come again"),
                kHourNs),
      rule_of("row-remap-failed", Measure::kRowRemapFailed, Severity::kCritical,
              "{device}: a bad row of its memory could not be replaced",
              "take it out of use: the card has no spare rows left there"),
      rule_of("row-remap-pending", Measure::kRowRemapPending, Severity::kWarning,
              "{device}: a bad row of its memory is replaced at the next reset",
              "its jobs go on unaffected; reset it when they are done: `nvidia-smi --gpu-reset -i "
              "UUID`"),
      rule_of("page-retirement-failed", Measure::kPageRetirementFailed, Severity::kCritical,
              "{device}: a bad page of its memory could not be taken out of use",
              "take it out of use: jobs go on getting that page"),
      rule_of("page-retirement-pending", Measure::kPageRetirementPending, Severity::kWarning,
              "{device}: a bad page of its memory is in use until the next reset",
              "reset it when its jobs are done: `nvidia-smi --gpu-reset -i UUID`, for AMD's "
              "`rocm-smi --gpureset -d N`"),
      rule_of("recovery-action", Measure::kRecoveryAction, Severity::kCritical,
              "{device}: the driver asks for: {detail}",
              "drain it and do what the driver asks for"),
  };
}

std::vector<Rule> device_rules() {
  Rule software = clocks_rule("throttled-software-heat",
                              "{device}: the driver holds its clocks down for {for}: {detail}",
                              "usual at the edge of a card's power and cooling: switched on for "
                              "machines where it should not be",
                              {"software thermal"});
  software.is_enabled = false;
  return {
      clocks_rule("throttled-heat", "{device}: too hot for its clocks for {for}: {detail}",
                  "look at fans, filters and the air that comes in", {"hardware thermal"}),
      clocks_rule("throttled-power", "{device}: held down by the power supply for {for}: {detail}",
                  "look at power supplies and cables: the machine told the card to brake",
                  {"power brake"}),
      std::move(software),
      celsius_rule(
          rule_of("temperature", Measure::kTemperature, Severity::kWarning,
                  "{device}: {value} for {for}", "look at fans, filters and the air that comes in"),
          90, 85),
      celsius_rule(rule_of("memory-temperature", Measure::kMemoryTemperature, Severity::kWarning,
                           "{device}: its memory has {value} for {for}",
                           "look at fans, filters and the air that comes in"),
                   100, 95),
      lasting(rule_of("gpu-trouble", Measure::kTrouble, Severity::kCritical, "{device}: {detail}",
                      "`dmesg` has the driver's words; a lost device comes back with a reset or a "
                      "reboot"),
              kMinuteNs),
      [] {
        Rule rule = lasting(rule_of("gpu-missing", Measure::kMissing, Severity::kCritical,
                                    "{device} was there, and is not listed any more",
                                    "`lspci` tells whether the bus still has it; `dmesg` why not"),
                            5 * kMinuteNs);
        rule.window_ns = 30 * 24 * kHourNs;
        return rule;
      }(),
  };
}

std::vector<Rule> watcher_rules() {
  Rule slow = lasting(rule_of("look-slow", Measure::kSampleTime, Severity::kWarning,
                              "one look at the devices takes {value}",
                              "a driver answers slowly: `vram status` says which device; figures "
                              "are that much older than they seem"),
                      10 * kMinuteNs);
  slow.threshold = 5;
  slow.clear = 4;
  Rule overdue = rule_of("look-overdue", Measure::kSampleOverdue, Severity::kCritical,
                         "a driver has not answered for {value}: all figures are that old",
                         "`dmesg` may tell why; processes in state D wait for the same driver");
  overdue.threshold = 60;
  overdue.clear = 10;  // so that a driver that answers once a minute is one alert
  return {
      lasting(rule_of("source-failing", Measure::kSourceFailing, Severity::kWarning, "{detail}",
                      "nothing is known of its devices until it works: `vram status` says more"),
              5 * kMinuteNs),
      std::move(slow),
      std::move(overdue),
  };
}

}  // namespace

std::vector<Rule> built_in_rules() {
  std::vector<Rule> all;
  for (auto* const rules : {memory_rules, waste_rules, fault_rules, device_rules, watcher_rules}) {
    for (Rule& rule : rules()) all.push_back(std::move(rule));
  }
  return all;
}

}  // namespace vram::watch
