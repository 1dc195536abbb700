#include "serve/outbox.hpp"

#include "watch/rules/saved.hpp"

#include <algorithm>
#include <utility>

namespace vram::serve {
namespace {

constexpr size_t kMostNews = 256;

watch::Json saved_news(const notify::News& news) {
  watch::Json changes = watch::Json::array();
  for (const watch::AlertChange& change : news.changes)
    changes.push_back(watch::to_json(change.alert));
  return {{"number", news.number},
          {"time_unix_ns", news.moment.time_unix_ns},
          {"host", news.moment.host},
          {"changes", std::move(changes)}};
}

notify::News news_of(const watch::Json& json) {
  notify::News news{.moment = {.time_unix_ns = json.at("time_unix_ns"),
                               .host = json.at("host").get<std::string>()},
                    .changes = {},
                    .alerts = {},
                    .number = json.at("number")};
  for (const watch::Json& one : json.at("changes")) {
    if (auto alert = watch::alert_of(one)) news.changes.push_back({*std::move(alert)});
  }
  return news;
}

}  // namespace

void Outbox::add(const show::AlertsMoment& moment, std::vector<watch::AlertChange> changes) {
  news_.push_back(
      {.moment = moment, .changes = std::move(changes), .alerts = {}, .number = next_number_++});
  if (news_.size() > kMostNews) news_.pop_front();
}

void Outbox::settle(const notify::Owed& owed) {
  uint64_t first = next_number_;
  for (const auto& [name, number] : owed) first = std::min(first, number);
  while (!news_.empty() && news_.front().number < first) news_.pop_front();
}

std::string Outbox::save(const notify::Owed& owed) const {
  watch::Json news = watch::Json::array();
  for (const notify::News& one : news_) news.push_back(saved_news(one));
  const watch::Json json = {
      {"next_number", next_number_}, {"owed", owed}, {"news", std::move(news)}};
  return json.dump(-1, ' ', true, watch::Json::error_handler_t::replace);
}

Result<Outbox::Restored> Outbox::restore(const std::string& saved) {
  Restored restored;
  if (saved.empty()) return restored;
  try {
    const watch::Json json = watch::Json::parse(saved);
    const uint64_t next_number = json.at("next_number");
    restored.owed = json.at("owed").get<notify::Owed>();
    for (const watch::Json& one : json.at("news")) restored.news.push_back(news_of(one));
    next_number_ = next_number;
  } catch (const watch::Json::exception& error) {
    return fail(Code::kBadInput, "what receivers are owed can't be restored: {}", error.what());
  }
  news_.assign(restored.news.begin(), restored.news.end());
  return restored;
}

}  // namespace vram::serve
