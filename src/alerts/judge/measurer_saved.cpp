// A Measurer's memory as JSON, and back.
#include "alerts/judge/measurer.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace vram::alerts {
namespace {

template <typename Numbers>
std::string name_in(const Numbers& numbers, uint32_t number) {
  const auto found = std::ranges::find(numbers, number, &Numbers::value_type::second);
  return found == numbers.end() ? "" : found->first;
}

uint32_t number_in(std::map<std::string, uint32_t>& numbers, const std::string& name) {
  return numbers.try_emplace(name, static_cast<uint32_t>(numbers.size())).first->second;
}

Json identity_json(const gpu::DeviceIdentity& identity) {
  Json json = {{"index", identity.index}, {"vendor", static_cast<int>(identity.vendor)}};
  put_if_any(json, "name", identity.name);
  put_if_any(json, "uuid", identity.uuid);
  put_if_any(json, "pci_id", identity.pci_id);
  return json;
}

gpu::DeviceIdentity identity_of(const Json& json) {
  gpu::DeviceIdentity identity;
  json.at("index").get_to(identity.index);
  identity.vendor = static_cast<gpu::Vendor>(
      std::clamp(json.at("vendor").get<int>(), 0, static_cast<int>(gpu::Vendor::kSimulated)));
  identity.name = get_if_any<std::string>(json, "name");
  identity.uuid = get_if_any<std::string>(json, "uuid");
  identity.pci_id = get_if_any<std::string>(json, "pci_id");
  return identity;
}

Json faults_json(const Occurrences& faults) {
  Json batches = Json::array();
  for (const auto& batch : faults.batches()) batches.push_back({batch.time_ns, batch.count});
  Json json = {{"batches", std::move(batches)}};
  put_if_any(json, "last", faults.last());
  return json;
}

std::deque<Occurrences::Batch> batches_of(const Json& json) {
  std::deque<Occurrences::Batch> batches;
  for (const Json& one : json.at("batches")) batches.push_back({one.at(0), one.at(1)});
  return batches;
}

Occurrences occurrences_of(const Json& json) {
  return {get_if_any<uint64_t>(json, "last"), batches_of(json)};
}

Json floors_json(const std::deque<Trend::Floor>& floors) {
  Json json = Json::array();
  for (const Trend::Floor& floor : floors) json.push_back({floor.part, floor.bytes});
  return json;
}

std::deque<Trend::Floor> floors_of(const Json& json) {
  std::deque<Trend::Floor> floors;
  for (const Json& one : json) floors.push_back({one.at(0), one.at(1)});
  return floors;
}

Json trend_json(const Trend::Seen& seen) {
  Json json = {{"floors", floors_json(seen.floors)}, {"earlier", floors_json(seen.earlier)}};
  if (seen.open) json["open"] = {seen.open->part, seen.open->bytes};
  return json;
}

Trend::Seen seen_of(const Json& json) {
  Trend::Seen seen{
      .open = {}, .floors = floors_of(json.at("floors")), .earlier = floors_of(json.at("earlier"))};
  if (json.contains("open")) seen.open = Trend::Floor{json["open"].at(0), json["open"].at(1)};
  return seen;
}

}  // namespace

Json Measurer::names_of(const Subject& subject) const {
  Json names = Json::object();
  if (subject.device != kNoNumber) names["device"] = name_in(device_numbers_, subject.device);
  if (subject.source != kNoNumber) names["source"] = name_in(source_numbers_, subject.source);
  return names;
}

void Measurer::renumber(Subject& subject, const Json& names) {
  const auto device = get_if_any<std::string>(names, "device");
  const auto source = get_if_any<std::string>(names, "source");
  subject.device = device ? number_in(device_numbers_, *device) : kNoNumber;
  subject.source = source ? number_in(source_numbers_, *source) : kNoNumber;
}

Json Measurer::saved_trends() const {
  Json all = Json::array();
  for (const auto& [key, trends] : trends_) {
    const auto& [rule, window_ns, at_least_bytes] = key;
    Json list = Json::array();
    for (const auto& [subject, known] : trends)
      list.push_back({{"subject", to_json(subject)},
                      {"names", names_of(subject)},
                      {"used_ns", known.used_ns},
                      {"seen", trend_json(known.trend.seen())}});
    all.push_back({{"rule", rule},
                   {"window_ns", window_ns},
                   {"at_least_bytes", at_least_bytes},
                   {"list", std::move(list)}});
  }
  return all;
}

Json Measurer::saved_counts() const {
  Json all = Json::array();
  for (const auto& [subject, known] : counts_) {
    Json one = {{"subject", to_json(subject)}, {"names", names_of(subject)}};
    if (known.retries) one["retries"] = faults_json(*known.retries);
    if (known.ooms) one["ooms"] = faults_json(*known.ooms);
    all.push_back(std::move(one));
  }
  return all;
}

Json Measurer::save() const {
  Json devices = Json::array();
  for (const auto& [number, known] : devices_)
    devices.push_back({{"key", name_in(device_numbers_, number)},
                       {"identity", identity_json(known.identity)},
                       {"seen_ns", known.seen_ns}});
  Json sources = Json::array();
  for (const auto& [number, known] : sources_)
    sources.push_back({{"name", name_in(source_numbers_, number)},
                       {"says", known.last_note},
                       {"has_worked", known.has_worked}});
  Json xids = Json::array();
  for (const auto& [subject, faults] : xids_)
    xids.push_back({{"subject", to_json(subject)},
                    {"names", names_of(subject)},
                    {"faults", faults_json(faults)}});
  Json ecc = Json::array();
  for (const auto& [number, faults] : ecc_)
    ecc.push_back({{"device", name_in(device_numbers_, number)}, {"faults", faults_json(faults)}});
  return {{"devices", std::move(devices)}, {"sources", std::move(sources)},
          {"xids", std::move(xids)},       {"ecc", std::move(ecc)},
          {"alive", seen_alive_},          {"trends", saved_trends()},
          {"counts", saved_counts()}};
}

void Measurer::restore_devices(const Json& saved) {
  for (const Json& one : saved.at("devices")) {
    const uint32_t number = number_in(device_numbers_, one.at("key").get<std::string>());
    devices_[number] = {.identity = identity_of(one.at("identity")),
                        .seen_ns = one.at("seen_ns"),
                        .place = {},
                        .is_seen = false};
  }
  for (const Json& one : saved.at("sources")) {
    const uint32_t number = number_in(source_numbers_, one.at("name").get<std::string>());
    sources_[number] = {.last_note = one.at("says").get<std::string>(),
                        .fails = false,
                        .has_worked = one.at("has_worked")};
  }
}

// Xids are counted by this program, from 0; ECC errors by the driver, which kept counting.
void Measurer::restore_faults(const Json& saved) {
  for (const Json& one : saved.at("xids")) {
    Subject subject = subject_of(one.at("subject"));
    renumber(subject, one.at("names"));
    if (devices_.contains(subject.device))
      xids_.emplace(subject, Occurrences(0, batches_of(one.at("faults"))));
  }
  for (const Json& one : saved.at("ecc")) {
    const uint32_t number = number_in(device_numbers_, one.at("device").get<std::string>());
    ecc_.emplace(number, occurrences_of(one.at("faults")));
  }
}

void Measurer::restore_trends(const Json& saved) {
  for (const Json& rule : saved.at("trends")) {
    const TrendKey key{rule.at("rule").get<std::string>(), rule.at("window_ns").get<uint64_t>(),
                       rule.at("at_least_bytes").get<uint64_t>()};
    for (const Json& one : rule.at("list")) {
      Subject subject = subject_of(one.at("subject"));
      renumber(subject, one.at("names"));
      Trend::Seen seen = seen_of(one.at("seen"));
      if (!Trend::is_possible(seen)) continue;
      trends_[key].insert_or_assign(
          subject, KnownTrend{Trend(std::get<1>(key), std::get<2>(key), std::move(seen)),
                              one.at("used_ns")});
    }
  }
}

// The processes count on, so what was added between two servers is new. A server before this one
// may have saved none.
void Measurer::restore_counts(const Json& saved) {
  if (!saved.contains("counts")) return;
  for (const Json& one : saved["counts"]) {
    Subject subject = subject_of(one.at("subject"));
    renumber(subject, one.at("names"));
    KnownCounts& known = counts_[subject];
    if (one.contains("retries")) known.retries = occurrences_of(one["retries"]);
    if (one.contains("ooms")) known.ooms = occurrences_of(one["ooms"]);
  }
}

void Measurer::restore(const Json& saved, bool is_same_boot) {
  restore_devices(saved);
  restore_faults(saved);
  restore_trends(saved);
  if (is_same_boot) restore_counts(saved);
  if (is_same_boot) seen_alive_ = saved.at("alive").get<std::vector<uint32_t>>();
  std::ranges::sort(seen_alive_);
}

}  // namespace vram::alerts
