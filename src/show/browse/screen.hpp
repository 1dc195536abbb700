// The screen of `vram report --interactive` as a grid, a pure function of the user's choices and
// the recording.
#pragma once

#include "explain/report.hpp"
#include "show/browse/state.hpp"
#include "show/top/frame.hpp"
#include "show/top/grid.hpp"

#include <optional>
#include <string>
#include <vector>

namespace vram::show::browse {

// The rows of the list that match the filter, and where things are on the screen. Valid as long as
// what it was made of.
struct BrowseView {
  std::vector<const explain::Holder*> holders;    // of kHolders
  std::vector<const explain::Finding*> findings;  // of kFindings
  size_t total = 0;                               // also those that the filter hides
  size_t selected = 0;
  size_t first = 0;
  int plot_row = 1;
  int plot_rows = 0;
  int totals_row = 0;
  int title_row = 0;
  int list_row = 0;
  int list_rows = 0;
  int note_row = 0;  // more about the selected row
  int note_rows = 0;
  int foot_row = 0;
  int bar_row = 0;

  [[nodiscard]] size_t row_count() const { return holders.size() + findings.size(); }
};

[[nodiscard]] BrowseView view_of(const BrowseState& state, const Seen& seen);

// The dimensions by which the moment's holders are known, in the order in which a key goes through
// them.
[[nodiscard]] std::vector<explain::Dimension> dimensions_of(const explain::State& state);
// What a search and a filter look at: whether the row mentions the text, in any case of letters.
[[nodiscard]] bool mentions(const explain::Holder& holder, explain::Dimension by,
                            std::string_view text);
[[nodiscard]] bool mentions(const explain::Finding& finding, std::string_view text);

// The lines of the dialog about the selected row.
[[nodiscard]] std::vector<Line> detail_of(const BrowseView& view, const BrowseState& state,
                                          const Seen& seen);

[[nodiscard]] top::Grid draw(const BrowseState& state, const Seen& seen, bool unicode);

}  // namespace vram::show::browse
