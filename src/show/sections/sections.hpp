// The sections of the text report, in order. Each appends to the page, or nothing if the report has
// no such content.
#pragma once

#include "explain/report.hpp"
#include "show/page.hpp"
#include "show/sections/detail.hpp"

namespace vram::show {

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
void draw_ooms(const Subject& subject, Page& page);        // requests that failed
void draw_what_if(const Subject& subject, Page& page);     // other settings, replayed
void draw_at(const Subject& subject, Page& page);          // the requested moment
void draw_findings(const Subject& subject, Page& page);    // what to do
void draw_notes(const Subject& subject, Page& page);       // what the reader left out
void draw_left_out(Page& page);                            // what --full adds

}  // namespace vram::show
