#include "show/process_words.hpp"

#include "base/bytes.hpp"
#include "show/status_words.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace vram::show {

std::string user_text(const watch::ProcessFacts& facts) {
  if (!facts.user && facts.uid) return std::to_string(*facts.uid);
  return name_text(facts.user);
}

std::string known_place_text(const watch::ProcessFacts& facts) {
  std::string text = place_text(facts);
  if (text.empty() && !is_visible(facts)) text = kUnknown;
  return text;
}

std::string instance_text(const gpu::DeviceProcess& process) {
  if (!process.gpu_instance) return std::string(kUnknown);
  if (!process.compute_instance) return std::to_string(*process.gpu_instance);
  return fmt::format("{}/{}", *process.gpu_instance, *process.compute_instance);
}

std::string step_time_text(const watch::Process& process) {
  if (!process.step_ns) return std::string(kUnknown);
  return format_duration_ns(static_cast<int64_t>(std::min(*process.step_ns, uint64_t{INT64_MAX})));
}

std::string command_text(const watch::ProcessFacts& facts) {
  if (!is_visible(facts)) return "hidden: gone, or in another pid namespace";
  const std::string command = name_text(facts.command);
  const size_t folder = command.substr(0, command.find(' ')).rfind('/');
  return folder == std::string::npos ? command : command.substr(folder + 1);
}

}  // namespace vram::show
