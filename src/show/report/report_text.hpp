// The report as text: one screen, from the program to the advice. A pure function of the report and
// the terminal's properties, which cli/ determines. The end names what max_lines leaves out.
#pragma once

#include "explain/report.hpp"
#include "show/draw/page.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>

namespace vram::show {

[[nodiscard]] std::string draw_report(const explain::Report& report,
                                      const TextOptions& options = {});

// Detail: how much of a report is drawn. If it is longer than the screen, it is drawn again without
// the least important remaining part.
struct Detail {
  static constexpr size_t kAll = std::numeric_limits<size_t>::max();

  size_t devices = kAll;
  int plot_rows = 9;       // 0: no timeline
  size_t holders = 8;      // of each table
  bool has_shares = true;  // a line for each other grouping of holders
  size_t categories = 8;
  bool has_waste_notes = true;  // what holds segments open, and the largest fit
  bool has_steps = true;
  bool has_step_table = true;
  size_t growths = 4;
  bool has_phases = true;
  bool has_rest = true;
  bool has_marks = true;
  size_t ooms = 3;
  size_t what_ifs = kAll;
  size_t findings = kAll;
  size_t evidence = kAll;  // findings with their evidence
  size_t advice = kAll;
  bool has_notes = true;
};

// Each leaves out a little more; in the order in which they are tried.
[[nodiscard]] std::span<void (*const)(Detail&)> reductions();

// The sections of the text report, in order. Each appends to the page, or nothing if the report has
// no such content.

// The input of a section: the whole report, and its main device.
struct Subject {
  const explain::Report& report;
  const explain::DeviceReport& device;
  const Detail& detail;
};

void draw_origin(const Subject& subject, Page& page);    // what ran, and how far it can be believed
void draw_devices(const Subject& subject, Page& page);   // one line each, if there are several
void draw_peak(const Subject& subject, Page& page);      // the figures
void draw_timeline(const Subject& subject, Page& page);  // their course
void draw_holders(const Subject& subject, Page& page);   // who held the peak
void draw_categories(const Subject& subject, Page& page);  // what it was used for, if known
void draw_waste(const Subject& subject, Page& page);       // what was reserved for nothing, and why
void draw_steps(const Subject& subject, Page& page);       // steps, and what grows with them
void draw_phases(const Subject& subject, Page& page);      // inside a step
void draw_rest(const Subject& subject, Page& page);        // the rest of the device, by owner
void draw_marks(const Subject& subject, Page& page);       // collectives and copies
void draw_ooms(const Subject& subject, Page& page);        // requests that failed
void draw_what_if(const Subject& subject, Page& page);     // other settings, replayed
void draw_at(const Subject& subject, Page& page);          // the requested moment
void draw_findings(const Subject& subject, Page& page);    // what to do
void draw_notes(const Subject& subject, Page& page);       // what the reader left out
void draw_left_out(Page& page);                            // what --full adds

// The line that every screen about a recording begins with: the path, with its format on the same
// line if it fits, else below.
void draw_file(const std::string& path, const std::string& format, uint64_t file_bytes, Page& page);

}  // namespace vram::show
