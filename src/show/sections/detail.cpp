#include "show/sections/detail.hpp"

#include <algorithm>
#include <array>

namespace vram::show {
namespace {

using Reduction = void (*)(Detail&);

// An asked number of holders may be less already.
void at_most(size_t limit, size_t& number) { number = std::min(number, limit); }

constexpr auto kReductions = std::to_array<Reduction>(
    {[](Detail& d) { d.has_notes = d.has_phases = false; }, [](Detail& d) { d.plot_rows = 5; },
     [](Detail& d) { d.has_shares = false; }, [](Detail& d) { d.evidence = 1; },
     [](Detail& d) { at_most(5, d.holders), at_most(5, d.categories); },
     [](Detail& d) { d.what_ifs = 2; }, [](Detail& d) { d.has_waste_notes = false, d.growths = 2; },
     [](Detail& d) { d.findings = 4, d.advice = 3; }, [](Detail& d) { d.has_step_table = false; },
     [](Detail& d) { d.findings = 3, d.ooms = 1, d.devices = 4; },
     [](Detail& d) { at_most(3, d.holders), at_most(3, d.categories); },
     [](Detail& d) { d.advice = 2; }, [](Detail& d) { d.plot_rows = 3; },
     [](Detail& d) { d.evidence = 0, d.growths = 1; }, [](Detail& d) { d.advice = 1; },
     [](Detail& d) { d.plot_rows = 0; },
     [](Detail& d) { d.what_ifs = 0, d.categories = 0, d.findings = 2; },
     [](Detail& d) { d.has_steps = false, d.devices = 1, d.findings = 1; }});

}  // namespace

std::span<void (*const)(Detail&)> reductions() { return kReductions; }

}  // namespace vram::show
