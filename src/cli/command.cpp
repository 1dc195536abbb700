#include "cli/command.hpp"

namespace vram::cli {

Option help_option() { return {"-h,--help", "", "show this", static_cast<bool*>(nullptr)}; }

std::vector<std::unique_ptr<Command>> all_commands() {
  std::vector<std::unique_ptr<Command>> commands;
  commands.push_back(demo_command());
  commands.push_back(report_command());
  commands.push_back(replay_command());
  commands.push_back(tune_command());
  commands.push_back(plan_command());
  commands.push_back(convert_command());
  commands.push_back(run_command());
  commands.push_back(status_command());
  commands.push_back(top_command());
  commands.push_back(free_command());
  commands.push_back(doctor_command());
  commands.push_back(serve_command());
  commands.push_back(completion_command());
  return commands;
}

}  // namespace vram::cli
