#include "serve/outbox.hpp"

#include "watch/rules/saved.hpp"

#include <algorithm>
#include <utility>

namespace vram::serve {
namespace {

constexpr size_t kMaxUpdates = 256;

Json saved_updates(const notify::AlertUpdate& update) {
  Json changes = Json::array();
  for (const watch::AlertChange& change : update.changes)
    changes.push_back(watch::to_json(change.alert));
  return {{"number", update.number},
          {"time_unix_ns", update.moment.time_unix_ns},
          {"host", update.moment.host},
          {"changes", std::move(changes)}};
}

notify::AlertUpdate update_of(const Json& json) {
  notify::AlertUpdate update{.moment = {.time_unix_ns = json.at("time_unix_ns"),
                                        .host = json.at("host").get<std::string>()},
                             .changes = {},
                             .alerts = {},
                             .number = json.at("number")};
  for (const Json& one : json.at("changes")) {
    if (auto alert = watch::alert_of(one)) update.changes.push_back({*std::move(alert)});
  }
  return update;
}

}  // namespace

void Outbox::add(const show::AlertsMoment& moment, std::vector<watch::AlertChange> changes) {
  updates_.push_back(
      {.moment = moment, .changes = std::move(changes), .alerts = {}, .number = next_number_++});
  if (updates_.size() > kMaxUpdates) updates_.pop_front();
}

void Outbox::settle(const notify::Undelivered& undelivered) {
  uint64_t first = next_number_;
  for (const auto& [name, number] : undelivered) first = std::min(first, number);
  while (!updates_.empty() && updates_.front().number < first) updates_.pop_front();
}

std::string Outbox::save(const notify::Undelivered& undelivered) const {
  Json update = Json::array();
  for (const notify::AlertUpdate& one : updates_) update.push_back(saved_updates(one));
  const Json json = {
      {"next_number", next_number_}, {"owed", undelivered}, {"news", std::move(update)}};
  return json.dump(-1, ' ', true, Json::error_handler_t::replace);
}

Result<Outbox::Restored> Outbox::restore(const std::string& saved) {
  Restored restored;
  if (saved.empty()) return restored;
  try {
    const Json json = Json::parse(saved);
    const uint64_t next_number = json.at("next_number");
    restored.undelivered = json.at("owed").get<notify::Undelivered>();
    for (const Json& one : json.at("news")) restored.update.push_back(update_of(one));
    next_number_ = next_number;
  } catch (const Json::exception& error) {
    return fail(Code::kBadInput, "what receivers are owed can't be restored: {}", error.what());
  }
  updates_.assign(restored.update.begin(), restored.update.end());
  return restored;
}

}  // namespace vram::serve
