// The sections of the text report, in the order in which they are read. Each appends to the page,
// or nothing where the report has nothing to say.
#pragma once

#include "explain/report.hpp"
#include "show/page.hpp"
#include "show/sections/detail.hpp"

namespace vram::show {

// What a section draws from: the whole report, and the device it leads with.
struct Subject {
  const explain::Report& report;
  const explain::DeviceReport& device;
  const Detail& detail;
};

void draw_origin(const Subject& subject, Page& page);    // what ran, and how far it can be believed
void draw_devices(const Subject& subject, Page& page);   // one line each, where there are several
void draw_peak(const Subject& subject, Page& page);      // the figures
void draw_timeline(const Subject& subject, Page& page);  // their course
void draw_holders(const Subject& subject, Page& page);   // who held the peak
void draw_categories(const Subject& subject, Page& page);  // what it was, where that is known
void draw_waste(const Subject& subject, Page& page);       // what was reserved for nothing, and why
void draw_steps(const Subject& subject, Page& page);       // steps, and what grows with them
void draw_phases(const Subject& subject, Page& page);      // inside a step
void draw_ooms(const Subject& subject, Page& page);        // requests that failed
void draw_what_if(const Subject& subject, Page& page);     // other settings, replayed
void draw_at(const Subject& subject, Page& page);          // the moment asked for
void draw_findings(const Subject& subject, Page& page);    // what to do
void draw_notes(const Subject& subject, Page& page);       // what the reader had to leave out
void draw_left_out(Page& page);                            // what --full adds

}  // namespace vram::show
