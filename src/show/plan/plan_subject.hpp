// What was planned: the chain, and where it came from. Plain values.
#pragma once

#include "plan/chain_of.hpp"

#include <optional>
#include <string>

namespace vram::show {

struct PlanSubject {
  std::string path = {};
  std::string card = {};  // whose memory the budget is; empty if it was given in bytes
  plan::Chain chain = {};
  std::optional<plan::RecordedStep> recorded = {};  // if the chain was made from a trace
};

}  // namespace vram::show
