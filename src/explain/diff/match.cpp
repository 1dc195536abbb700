#include "explain/diff/match.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

namespace vram::explain {
namespace {

using Sites = std::vector<PeakSite>;
using Indices = std::vector<size_t>;

// The largest table of an alignment. Longer sequences, after their equal ends, are paired in order.
constexpr size_t kMaxCells = size_t{4} << 20;

// What a site without a partner costs, if a pair of equal sites is worth 1: a program with other
// sizes in the same order is more likely than one that has gained and lost places.
constexpr float kGapCost = 0.5F;

std::string_view last_parts(std::string_view path, size_t parts) {
  size_t at = path.size();
  for (; parts > 0; --parts) {
    at = at == 0 ? std::string_view::npos : path.find_last_of("/\\", at - 1);
    if (at == std::string_view::npos) return path;
  }
  return path.substr(at + 1);
}

uint32_t line_of(const PeakSite& site) { return site.calls.empty() ? 0 : site.calls.front().line; }

// How well two sites of one sequence fit together. Sizes count as much as the shared shift of line
// numbers: either may have changed.
class Fit {
 public:
  Fit(const Sites& a, const Sites& b, const Indices& in_a, const Indices& in_b)
      : a_(a), b_(b), shift_(find_shift(in_a, in_b)) {}

  [[nodiscard]] bool is_same(size_t a, size_t b) const {
    return a_[a].bytes == b_[b].bytes && has_shift(a, b);
  }
  [[nodiscard]] float of(size_t a, size_t b) const {
    constexpr float kLine = 0.9F;
    constexpr float kUnequal = 0.5F;
    constexpr float kMinRatio = 1.0F / 64;
    const auto [least, most] = std::minmax(a_[a].bytes, b_[b].bytes);
    if (least == most) return 1 + (is_on_its_line(a, b) ? kLine : 0);
    const float ratio = static_cast<float>(least) / static_cast<float>(most);
    if (is_on_its_line(a, b)) return kLine + kUnequal * ratio;
    return ratio < kMinRatio ? -3 * kGapCost : kUnequal * ratio;
  }

 private:
  [[nodiscard]] int64_t shift_between(size_t a, size_t b) const {
    return int64_t{line_of(b_[b])} - int64_t{line_of(a_[a])};
  }
  // Positions and names have no lines.
  [[nodiscard]] bool has_shift(size_t a, size_t b) const {
    return a_[a].calls.empty() || shift_between(a, b) == shift_;
  }
  [[nodiscard]] bool is_on_its_line(size_t a, size_t b) const {
    return !a_[a].calls.empty() && has_shift(a, b);
  }
  // That of most pairs; of those, the one with most equal sizes; of those, the smallest.
  [[nodiscard]] int64_t find_shift(const Indices& in_a, const Indices& in_b) const {
    using Votes = std::pair<size_t, size_t>;
    constexpr size_t kMaxVoters = 512;  // of a side
    std::map<int64_t, Votes> votes;
    for (const size_t a : std::span(in_a).first(std::min(in_a.size(), kMaxVoters))) {
      for (const size_t b : std::span(in_b).first(std::min(in_b.size(), kMaxVoters))) {
        if (a_[a].calls.empty()) continue;
        auto& [pairs, equal] = votes[shift_between(a, b)];
        ++pairs;
        equal += a_[a].bytes == b_[b].bytes ? 1 : 0;
      }
    }
    const auto best = std::ranges::max_element(votes, {}, [](const auto& vote) {
      return std::tuple(vote.second, -std::abs(vote.first), vote.first);
    });
    return best == votes.end() ? 0 : best->first;
  }

  const Sites& a_;
  const Sites& b_;
  int64_t shift_;
};

// Pairs two sequences without changing their order, so that the sum of all fits is as large as
// possible, less what sites without a partner cost: Needleman–Wunsch.
class Alignment {
 public:
  Alignment(std::span<const size_t> a, std::span<const size_t> b, const Fit& fit)
      : a_(a), b_(b), fit_(fit) {}

  [[nodiscard]] std::vector<SitePair> pairs() {
    take_equal_ends();
    if (a_.size() * b_.size() > kMaxCells) {
      for (size_t i = 0; i < std::min(a_.size(), b_.size()); ++i) pairs_.push_back({a_[i], b_[i]});
    } else if (!a_.empty() && !b_.empty()) {
      fill();
      trace_back();
    }
    return std::move(pairs_);
  }

 private:
  enum Move : uint8_t { kPair, kSkipA, kSkipB };

  void take_equal_ends() {
    while (!a_.empty() && !b_.empty() && fit_.is_same(a_.front(), b_.front())) {
      pairs_.push_back({a_.front(), b_.front()});
      a_ = a_.subspan(1);
      b_ = b_.subspan(1);
    }
    while (!a_.empty() && !b_.empty() && fit_.is_same(a_.back(), b_.back())) {
      pairs_.push_back({a_.back(), b_.back()});
      a_ = a_.first(a_.size() - 1);
      b_ = b_.first(b_.size() - 1);
    }
  }

  void fill() {
    const size_t columns = b_.size();
    std::vector<float> above(columns + 1);  // best sums of the row before
    std::vector<float> row(columns + 1);
    for (size_t j = 1; j <= columns; ++j) above[j] = above[j - 1] - kGapCost;
    moves_.resize(a_.size() * columns);
    for (size_t i = 0; i < a_.size(); ++i) {
      row[0] = above[0] - kGapCost;
      for (size_t j = 0; j < columns; ++j) {
        Move& move = moves_[i * columns + j];
        move = kPair;
        row[j + 1] = above[j] + fit_.of(a_[i], b_[j]);
        if (const float skipped = above[j + 1] - kGapCost; skipped > row[j + 1]) {
          move = kSkipA;
          row[j + 1] = skipped;
        }
        if (const float skipped = row[j] - kGapCost; skipped > row[j + 1]) {
          move = kSkipB;
          row[j + 1] = skipped;
        }
      }
      std::swap(above, row);
    }
  }

  void trace_back() {
    size_t i = a_.size();
    size_t j = b_.size();
    while (i > 0 && j > 0) {
      const Move move = moves_[(i - 1) * b_.size() + j - 1];
      if (move == kPair) pairs_.push_back({a_[i - 1], b_[j - 1]});
      i -= move != kSkipB ? 1 : 0;
      j -= move != kSkipA ? 1 : 0;
    }
  }

  std::span<const size_t> a_;
  std::span<const size_t> b_;
  const Fit& fit_;
  std::vector<Move> moves_;
  std::vector<SitePair> pairs_;
};

// What has to be equal in a round.
enum class Round : uint8_t { kFolders, kFiles, kInnermost, kFunctions };

// "step 3" and "step 12" are one.
std::string without_numbers(std::string_view name) {
  std::string text;
  for (const char c : name) {
    const bool is_digit = c >= '0' && c <= '9';
    if (!is_digit) text += c;
    if (is_digit && !text.ends_with('#')) text += '#';
  }
  return text;
}

std::string key_of(const PeakSite& site, Round round) {
  if (site.calls.empty())
    return round == Round::kFunctions ? without_numbers(site.name) : site.name;
  const bool with_files = round != Round::kFunctions;
  const size_t parts = round == Round::kFolders ? 2 : 1;
  std::string key = "\n";
  for (const Frame& call : site.calls) {
    if (with_files) key += last_parts(call.file, parts);
    key += "\n" + call.function + "\n";
    if (round == Round::kInnermost) break;
  }
  return key;
}

class Matcher {
 public:
  Matcher(const Sites& a, const Sites& b) : a_(a), b_(b), open_a_(a.size()), open_b_(b.size()) {
    std::iota(open_a_.begin(), open_a_.end(), size_t{0});
    std::iota(open_b_.begin(), open_b_.end(), size_t{0});
  }

  void align_all() {
    take(open_a_, open_b_);
    undo_swaps();
  }

  void match_by(Round round) {
    std::map<std::string, std::pair<Indices, Indices>> groups;
    for (const size_t i : open_a_) groups[key_of(a_[i], round)].first.push_back(i);
    for (const size_t i : open_b_) groups[key_of(b_[i], round)].second.push_back(i);
    for (auto& [key, group] : groups) {
      if (group.first.empty() || group.second.empty()) continue;
      sort_by_lines(a_, group.first);
      sort_by_lines(b_, group.second);
      take(group.first, group.second);
    }
    drop_paired();
  }

  [[nodiscard]] std::vector<SitePair> finish() {
    drop_paired();
    for (const size_t i : open_a_) pairs_.push_back({i, std::nullopt});
    for (const size_t i : open_b_) pairs_.push_back({std::nullopt, i});
    return std::move(pairs_);
  }

 private:
  static void sort_by_lines(const Sites& sites, Indices& indices) {
    std::ranges::stable_sort(indices, [&](size_t left, size_t right) {
      return std::ranges::lexicographical_compare(sites[left].calls, sites[right].calls, {},
                                                  &Frame::line, &Frame::line);
    });
  }

  void take(const Indices& a, const Indices& b) {
    const Fit fit(a_, b_, a, b);
    const std::vector<SitePair> found = Alignment(a, b, fit).pairs();
    pairs_.insert(pairs_.end(), found.begin(), found.end());
  }

  // Threads and streams may have made the same two allocations in the other order: a pair of sizes
  // (x, y) with a pair (y, x) is no change.
  void undo_swaps() {
    std::map<std::pair<uint64_t, uint64_t>, Indices> open;
    for (size_t i = 0; i < pairs_.size(); ++i) {
      const uint64_t in_a = a_[*pairs_[i].a].bytes;
      const uint64_t in_b = b_[*pairs_[i].b].bytes;
      if (in_a == in_b) continue;
      Indices& swapped = open[{in_b, in_a}];
      if (swapped.empty()) {
        open[{in_a, in_b}].push_back(i);
        continue;
      }
      std::swap(pairs_[i].b, pairs_[swapped.back()].b);
      swapped.pop_back();
    }
  }

  void drop_paired() {
    std::vector<bool> has_a(a_.size());
    std::vector<bool> has_b(b_.size());
    for (const SitePair& pair : pairs_) {
      has_a[*pair.a] = true;
      has_b[*pair.b] = true;
    }
    std::erase_if(open_a_, [&](size_t i) { return has_a[i]; });
    std::erase_if(open_b_, [&](size_t i) { return has_b[i]; });
  }

  const Sites& a_;
  const Sites& b_;
  Indices open_a_;  // not paired yet
  Indices open_b_;
  std::vector<SitePair> pairs_;
};

}  // namespace

std::vector<SitePair> match_sites(const Sites& a, const Sites& b, SiteBasis basis) {
  Matcher matcher(a, b);
  if (basis == SiteBasis::kPosition) {
    matcher.align_all();
  } else {
    for (const Round round : {Round::kFolders, Round::kFiles, Round::kInnermost, Round::kFunctions})
      matcher.match_by(round);
  }
  return matcher.finish();
}

}  // namespace vram::explain
