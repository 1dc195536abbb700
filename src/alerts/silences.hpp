// Silences: alerts whose notifications are withheld for a while. A silence names one alert or all
// of a rule. It withholds the beginning of an alert; when it ends and the alert is still
// firing, receivers are notified. They get the end of each alert whose beginning they got, and of
// no other. Alerts stay visible, with their silence.
//
// A value; use it from one thread at a time.
#pragma once

#include "alerts/alert.hpp"
#include "base/json.hpp"
#include "base/result.hpp"

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace vram::alerts {

struct Silence {
  uint64_t number = 0;
  std::string alert = {};  // the id of the one that it names; empty: all of `rule`
  std::string rule = {};
  std::string comment = {};
  int64_t from_unix_ns = 0;
  int64_t until_unix_ns = 0;

  bool operator==(const Silence&) const = default;
};

inline constexpr size_t kMaxSilences = 200;
inline constexpr size_t kMaxCommentBytes = 500;
inline constexpr int64_t kMinSilenceNs = 60 * kSignedSecondNs;
inline constexpr int64_t kMaxSilenceNs = int64_t{90} * 24 * 3600 * kSignedSecondNs;

class Silences {
 public:
  // Takes the texts as they are and sets the number. kBadInput: it names nothing or both, is too
  // long or too short, or there are too many.
  [[nodiscard]] Result<Silence> add(Silence silence);
  // kNotFound: there is none of this number now.
  [[nodiscard]] Result<> end(uint64_t number, int64_t now_unix_ns);
  // The one that ends last; null: none.
  [[nodiscard]] const Silence* find(const Alert& alert, int64_t now_unix_ns) const;
  [[nodiscard]] const std::vector<Silence>& all() const { return silences_; }

  // The changes of which receivers are notified, with alerts whose silence is over. `alerts`: all
  // there are. Forgets silences that are over.
  [[nodiscard]] std::vector<AlertChange> pass(std::vector<AlertChange> changes,
                                              std::span<const Alert> alerts, int64_t now_unix_ns);
  // Those that receivers know of.
  [[nodiscard]] std::vector<Alert> known(std::vector<Alert> alerts) const;

  // For a later process. An error leaves it as it was.
  [[nodiscard]] std::string save() const;
  [[nodiscard]] Result<> restore(const std::string& saved);

  bool operator==(const Silences&) const = default;

 private:
  std::vector<Silence> silences_;   // by number
  std::set<std::string> withheld_;  // ids of firing alerts whose beginning was withheld
  uint64_t next_number_ = 1;
};

[[nodiscard]] Json json_silence(const Silence& silence);

}  // namespace vram::alerts
