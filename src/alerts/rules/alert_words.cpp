#include "alerts/rules/alert_words.hpp"

#include "alerts/rules/rule.hpp"
#include "base/bytes.hpp"
#include "base/language.hpp"
#include "base/text.hpp"
#include "gpu/nvml/nvml_events.hpp"
#include "watch/sources.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace vram::alerts {
namespace {

constexpr int kNameColumns = 60;   // of a command in a summary
constexpr int kTextColumns = 400;  // of any other text

std::string safe(const std::string& text, int columns = kTextColumns) {
  return shorten_end(printable(text), columns);
}

std::string xid_text(uint64_t xid, double value) {
  const gpu::nvml::XidMeaning* const meaning = gpu::nvml::meaning_of_xid(xid);
  std::string text = fmt::format("Xid {}", xid);
  if (meaning != nullptr) text += fmt::format(", {}", tr(meaning->what));
  if (value > 1) text += trf(" ({:.0f} times)", value);
  return text;
}

std::string trend_text(const Measured& measured) {
  if (measured.per_second <= 0) return tr("it does not grow any more");
  const double per_hour = std::min(measured.per_second * 3600, 9e18);
  return trf("it grows by {} an hour", format_bytes(static_cast<uint64_t>(per_hour)));
}

std::string reserve_text(const Measured& measured) {
  const auto& allocator = measured.use->allocator;
  if (!allocator || !allocator->reserved_bytes || !allocator->allocated_bytes) return "";
  return trf("{} of {} in tensors", format_bytes(*allocator->allocated_bytes),
             format_bytes(*allocator->reserved_bytes));
}

std::string reasons_text(const Rule& rule, const Measured& measured) {
  std::vector<std::string> matched;
  for (const std::string& reason :
       measured.device->sample.throttle_reasons.value_or(std::vector<std::string>())) {
    if (std::ranges::count(rule.reasons, reason) > 0) matched.push_back(reason);
  }
  return safe(fmt::format("{}", fmt::join(matched, ", ")));
}

std::string detail_text(const Rule& rule, const Measured& measured, double value) {
  switch (rule.measure) {
    case Measure::kMemoryUsed:
      return measured.free_bytes ? format_bytes(*measured.free_bytes) + tr(" free") : "";
    case Measure::kTimeToFull:
    case Measure::kProcessTimeToFull:
      return trend_text(measured);
    case Measure::kUnusedReserve:
      return reserve_text(measured);
    case Measure::kXid:
    case Measure::kOtherXid:
      return xid_text(measured.subject.xid, value);
    case Measure::kHeldClocks:
      return reasons_text(rule, measured);
    case Measure::kAllocRetries:
    case Measure::kOoms:
    case Measure::kEccUncorrected:
      return trf("in {}",
                 value_text(Unit::kSeconds, static_cast<double>(rule.window_ns) / kSecondNs));
    case Measure::kRecoveryAction:
      return safe(measured.device->health.recovery_action.value_or("nothing"));
    case Measure::kTrouble:
      return safe(measured.device->sample.trouble.value_or(tr("it answers again")));
    case Measure::kSourceFailing:
      return safe(*measured.text);
    default:
      return std::string(facts_of(rule.measure).meaning);
  }
}

// A MIG instance, as "1" or "1/0"; empty: the whole.
std::string instance_text(const Subject& subject) {
  if (subject.gpu_instance == kNoNumber) return "";
  if (subject.compute_instance == kNoNumber) return std::to_string(subject.gpu_instance);
  return fmt::format("{}/{}", subject.gpu_instance, subject.compute_instance);
}

void add_place(const watch::ProcessFacts& facts, std::map<std::string, std::string>& labels) {
  if (facts.user) labels["user"] = safe(*facts.user);
  if (facts.container) labels["container_id"] = safe(facts.container->id.substr(0, 12));
  if (facts.pod) {
    labels["pod"] = safe(facts.pod->name.value_or(facts.pod->uid));
    if (facts.pod->space) labels["namespace"] = safe(*facts.pod->space);
  }
  if (facts.slurm_job) labels["slurm_job"] = safe(*facts.slurm_job);
}

}  // namespace

std::span<const std::string> summary_fields() {
  static const std::vector<std::string> kFields = {"{device}",    "{process}", "{value}",
                                                   "{threshold}", "{for}",     "{detail}"};
  return kFields;
}

std::string device_text(const Measured& measured) {
  if (measured.identity == nullptr) return tr("this machine");
  const std::string instance = instance_text(measured.subject);
  std::string text = instance.empty() ? "" : trf("MIG {} of ", instance);
  text += fmt::format("GPU {}", measured.identity->index);
  const auto& name = measured.identity->name;
  return name && !name->empty() ? fmt::format("{} ({})", text, safe(*name, kNameColumns)) : text;
}

std::string process_text(const Measured& measured) {
  if (measured.process == nullptr) return tr("a process");
  const watch::ProcessFacts& facts = *measured.process->facts;
  std::string who = facts.user ? safe(*facts.user, kNameColumns) : "";
  if (facts.command) {
    who += who.empty() ? "" : ": ";
    who += safe(*facts.command, kNameColumns);
  }
  return who.empty() ? trf("process {}", facts.pid) : trf("process {} ({})", facts.pid, who);
}

// One field after the other of the rule's own text: what is filled in is not looked at again.
std::string summary_text(const Rule& rule, const Measured& measured, double value,
                         uint64_t held_ns) {
  const Unit unit = facts_of(rule.measure).unit;
  const std::map<std::string, std::string> texts = {
      {"{device}", device_text(measured)},
      {"{process}", process_text(measured)},
      {"{value}", value_text(unit, value)},
      {"{threshold}", value_text(unit, rule.threshold)},
      {"{for}", value_text(Unit::kSeconds, static_cast<double>(held_ns) / kSecondNs)},
      {"{detail}", detail_text(rule, measured, value)}};
  const std::string summary(tr(std::string_view(rule.summary)));
  std::string result;
  for (size_t at = 0; at < summary.size();) {
    const size_t open = summary.find('{', at);
    result += summary.substr(at, open - at);
    if (open == std::string::npos) break;
    const size_t close = summary.find('}', open);
    const auto text = texts.find(summary.substr(open, close - open + 1));
    result += text == texts.end() ? "{" : text->second;
    at = text == texts.end() ? open + 1 : close + 1;
  }
  return result;
}

std::map<std::string, std::string> labels_of(const Rule& rule, const Measured& measured) {
  std::map<std::string, std::string> labels = rule.labels;
  labels["alertname"] = rule.name;
  labels["severity"] = identifier(rule.severity);
  if (measured.identity != nullptr) {
    labels["gpu"] = std::to_string(measured.identity->index);
    const std::string key = watch::key_of(*measured.identity);
    if (!key.empty()) labels[measured.identity->uuid ? "uuid" : "pci_id"] = safe(key);
  }
  const std::string instance = instance_text(measured.subject);
  if (!instance.empty()) labels["mig"] = instance;
  if (measured.subject.xid != 0) labels["xid"] = std::to_string(measured.subject.xid);
  if (measured.text != nullptr)
    labels["source"] = safe(measured.text->substr(0, measured.text->find(':')));
  if (measured.process != nullptr) {
    labels["pid"] = std::to_string(measured.process->facts->pid);
    add_place(*measured.process->facts, labels);
  }
  return labels;
}

std::map<std::string, std::string> annotations_of(const Measured& measured) {
  std::map<std::string, std::string> annotations;
  if (measured.identity != nullptr && measured.identity->name)
    annotations["device"] = safe(*measured.identity->name);
  if (measured.process != nullptr && measured.process->facts->command)
    annotations["command"] = safe(*measured.process->facts->command);
  return annotations;
}

std::string alert_id(const Rule& rule, const Measured& measured) {
  const Subject& subject = measured.subject;
  std::string id = rule.name;
  if (measured.identity != nullptr) {
    const std::string key = watch::key_of(*measured.identity);
    id += "/" + (key.empty() ? fmt::format("gpu{}", measured.identity->index) : safe(key));
  }
  if (subject.gpu_instance != kNoNumber) id += "/mig" + instance_text(subject);
  if (subject.pid != kNoNumber) id += fmt::format("/pid{}@{}", subject.pid, subject.start_ticks);
  if (subject.xid != 0) id += fmt::format("/xid{}", subject.xid);
  if (measured.text != nullptr)
    id += "/" + safe(measured.text->substr(0, measured.text->find(':')));
  return id;
}

}  // namespace vram::alerts
