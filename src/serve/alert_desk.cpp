#include "serve/alert_desk.hpp"

#include "serve/errors.hpp"

#include <utility>

namespace vram::serve {
namespace {

Result<watch::RuleBook> book_of(const std::string& rules_file) {
  return rules_file.empty() ? watch::RuleBook::built_in() : watch::RuleBook::load(rules_file);
}

}  // namespace

Result<std::shared_ptr<AlertDesk>> AlertDesk::open(std::string rules_file,
                                                   watch::JudgeOptions options,
                                                   const notify::NotifierOptions& receivers) {
  auto book = book_of(rules_file);
  if (!book) return tl::unexpected(std::move(book.error()));
  auto notifier = notify::Notifier::open(receivers);
  if (!notifier) return tl::unexpected(std::move(notifier.error()));
  return std::shared_ptr<AlertDesk>(new AlertDesk(
      std::move(rules_file), watch::Judge(*std::move(book), options), *std::move(notifier)));
}

void AlertDesk::tell(std::vector<watch::AlertChange> changes) {
  if (changes.empty()) return;
  notifier_->tell({.moment = moment_, .changes = std::move(changes), .alerts = judge_.alerts()});
}

void AlertDesk::judge(const watch::Sampled& sampled) {
  const std::lock_guard guard(mutex_);
  moment_ = {.time_unix_ns = sampled.snapshot.time_ns, .host = sampled.snapshot.host};
  tell(judge_.judge(sampled));
}

void AlertDesk::judge_overdue(uint64_t now_ns, int64_t now_unix_ns, uint64_t overdue_ns) {
  const std::lock_guard guard(mutex_);
  moment_.time_unix_ns = now_unix_ns;
  tell(judge_.judge_overdue(now_ns, now_unix_ns, overdue_ns));
}

Result<> AlertDesk::reload() {
  auto book = book_of(rules_file_);
  if (!book) return tl::unexpected(std::move(book.error()));
  const std::lock_guard guard(mutex_);
  judge_.set_rules(*std::move(book));
  return {};
}

Result<> AlertDesk::readdress(size_t receiver, const std::string& url) {
  return notifier_->readdress(receiver, url);
}

std::string AlertDesk::alerts_json() const {
  const std::lock_guard guard(mutex_);
  return show::alerts_json(moment_, judge_.alerts());
}

std::string AlertDesk::rules_json() const {
  const std::lock_guard guard(mutex_);
  return show::rules_json(judge_.rules());
}

std::vector<Route> alert_routes(const std::shared_ptr<const AlertDesk>& desk) {
  return {{"/api/v1/alerts",
           {},
           "what is wrong now, or was lately",
           [desk](const Request&, std::string_view) { return json_response(desk->alerts_json()); }},
          {"/api/v1/rules",
           {},
           "the rules of alerts in force",
           [desk](const Request&, std::string_view) { return json_response(desk->rules_json()); }}};
}

}  // namespace vram::serve
