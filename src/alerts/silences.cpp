#include "alerts/silences.hpp"

#include <algorithm>
#include <utility>

namespace vram::alerts {
namespace {

bool is_active(const Silence& silence, int64_t now_unix_ns) {
  return now_unix_ns < silence.until_unix_ns;
}

bool names(const Silence& silence, const Alert& alert) {
  return silence.alert.empty() ? silence.rule == alert.rule : silence.alert == alert.id;
}

Silence silence_of(const Json& json) {
  Silence silence;
  json.at("number").get_to(silence.number);
  json.at("alert").get_to(silence.alert);
  json.at("rule").get_to(silence.rule);
  json.at("comment").get_to(silence.comment);
  json.at("from_unix_ns").get_to(silence.from_unix_ns);
  json.at("until_unix_ns").get_to(silence.until_unix_ns);
  return silence;
}

}  // namespace

Result<Silence> Silences::add(Silence silence) {
  if (silence.alert.empty() == silence.rule.empty())
    return fail(Code::kBadInput, "expected 'alert' (an id) or 'rule' (a name), and not both");
  const int64_t length_ns = silence.until_unix_ns - silence.from_unix_ns;
  if (length_ns < kMinSilenceNs || length_ns > kMaxSilenceNs)
    return fail(Code::kBadInput, "duration: expected 1min to 2160h (90 days)");
  if (silence.comment.size() > kMaxCommentBytes)
    return fail(Code::kBadInput, "comment: expected at most {} bytes, found {}", kMaxCommentBytes,
                silence.comment.size());
  if (silences_.size() >= kMaxSilences)
    return fail(Code::kBadInput, "there are {} silences already: end one first", kMaxSilences);
  silence.number = next_number_++;
  silences_.push_back(silence);
  return silence;
}

Result<> Silences::end(uint64_t number, int64_t now_unix_ns) {
  const auto found = std::ranges::find(silences_, number, &Silence::number);
  if (found == silences_.end() || !is_active(*found, now_unix_ns))
    return fail(Code::kNotFound, "there is no silence {} now; /api/v1/silences lists them", number);
  silences_.erase(found);
  return {};
}

const Silence* Silences::find(const Alert& alert, int64_t now_unix_ns) const {
  const Silence* longest = nullptr;
  for (const Silence& each : silences_) {
    if (!names(each, alert) || !is_active(each, now_unix_ns)) continue;
    if (longest == nullptr || each.until_unix_ns > longest->until_unix_ns) longest = &each;
  }
  return longest;
}

std::vector<AlertChange> Silences::pass(std::vector<AlertChange> changes,
                                        std::span<const Alert> alerts, int64_t now_unix_ns) {
  std::erase_if(silences_, [&](const Silence& each) { return !is_active(each, now_unix_ns); });
  std::vector<AlertChange> passed;
  for (AlertChange& change : changes) {
    const bool begins = change.alert.state == AlertState::kFiring;
    if (begins && find(change.alert, now_unix_ns) != nullptr) {
      withheld_.insert(change.alert.id);
    } else if (begins || withheld_.erase(change.alert.id) == 0) {
      passed.push_back(std::move(change));
    }
  }
  std::set<std::string> still_withheld;
  for (const Alert& alert : alerts) {
    if (alert.state != AlertState::kFiring || !withheld_.contains(alert.id)) continue;
    if (find(alert, now_unix_ns) != nullptr) {
      still_withheld.insert(alert.id);
    } else {
      passed.push_back({alert});
    }
  }
  withheld_ = std::move(still_withheld);
  return passed;
}

std::vector<Alert> Silences::known(std::vector<Alert> alerts) const {
  std::erase_if(alerts, [&](const Alert& alert) { return withheld_.contains(alert.id); });
  return alerts;
}

std::string Silences::save() const {
  Json silences = Json::array();
  for (const Silence& each : silences_) silences.push_back(json_silence(each));
  const Json document = {
      {"next", next_number_}, {"silences", std::move(silences)}, {"withheld", withheld_}};
  return document.dump(-1, ' ', true, Json::error_handler_t::replace);
}

Result<> Silences::restore(const std::string& saved) {
  if (saved.empty()) return {};
  try {
    const Json document = Json::parse(saved);
    Silences restored;
    document.at("next").get_to(restored.next_number_);
    for (const Json& each : document.at("silences")) {
      if (restored.silences_.size() < kMaxSilences) restored.silences_.push_back(silence_of(each));
    }
    document.at("withheld").get_to(restored.withheld_);
    *this = std::move(restored);
    return {};
  } catch (const Json::exception& exception) {
    return fail(Code::kBadInput, "the silences of alerts in the history can't be read: {}",
                exception.what());
  }
}

Json json_silence(const Silence& silence) {
  return {{"number", silence.number},
          {"alert", json_text(silence.alert)},
          {"rule", json_text(silence.rule)},
          {"comment", json_text(silence.comment)},
          {"from_unix_ns", silence.from_unix_ns},
          {"until_unix_ns", silence.until_unix_ns}};
}

}  // namespace vram::alerts
