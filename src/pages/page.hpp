// Page: the data of an HTML report of one or several recordings. docs/html-report.md describes the
// blocks and their columns. One thread at a time.
#pragma once

#include "explain/report.hpp"
#include "pages/block.hpp"
#include "pages/device_blocks.hpp"
#include "trace/trace.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace vram::pages {

struct Page {
  Json head;                 // "vram.page/1": the recordings, their devices, dimensions and sizes
  std::vector<Block> first;  // what the first picture needs
  std::vector<Block> rest;
};

// What the recordings of a page are to each other.
enum class PageKind : uint8_t {
  kReport,  // one recording
  kDiff,    // two that are compared: the old one, the new one
  kRanks,   // of the processes of a program
};

class PageMaker {
 public:
  // `part_positions`: what a page reads at a time of a large recording (device_blocks.hpp).
  PageMaker(PageKind kind, std::string_view title, uint64_t part_positions = kPartPositions);

  // Reads the trace, whose blocks are copied: it may go afterwards. `report`: of this trace. Linear
  // in the events.
  void add(const trace::Trace& trace, const explain::Report& report);
  // A document for a view of its own: "diff", "ranks", "plan".
  void add_document(Block document);
  [[nodiscard]] Page take() { return std::move(page_); }

 private:
  Page page_;
  uint64_t part_positions_;
};

}  // namespace vram::pages
