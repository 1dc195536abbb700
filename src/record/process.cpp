#include "record/process.hpp"

#include "base/environment.hpp"
#include "base/file.hpp"
#include "record/board_page.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <string_view>
#include <unistd.h>
#include <utility>

namespace vram::record {
namespace {

constexpr std::array<std::pair<const char*, const char*>, 4> kRankVariables = {{
    {"RANK", "WORLD_SIZE"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"PMI_RANK", "PMI_SIZE"},
    {"SLURM_PROCID", "SLURM_NTASKS"},
}};

std::optional<unsigned> number_in(const char* variable) {
  const std::string digits = environment(variable);
  unsigned number = 0;
  const char* const last = digits.data() + digits.size();
  const auto [end, error] = std::from_chars(digits.data(), last, number);
  if (error != std::errc() || end != last || digits.empty()) return std::nullopt;
  return number;
}

std::string host() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

// Of this boot of the machine.
std::string boot() {
  const auto text = read_whole("/proc/sys/kernel/random/boot_id", 64);
  return text ? text->substr(0, text->find('\n')) : "";
}

std::string number_text(uint64_t number) { return number != 0 ? std::to_string(number) : ""; }

}  // namespace

std::optional<Rank> rank_of_process() {
  for (const auto& [own, all] : kRankVariables) {
    const auto number = number_in(own);
    const auto count = number_in(all);
    if (number && count && *count > 1) return Rank{*number, *count};
  }
  return std::nullopt;
}

std::string path_with(const std::string& path, const std::string& word) {
  const std::filesystem::path name(path);
  const std::string own = name.stem().string() + "." + word + name.extension().string();
  return (name.parent_path() / own).string();
}

std::string path_of_rank(const std::string& path) {
  const auto rank = rank_of_process();
  return rank ? path_with(path, "rank" + std::to_string(rank->number)) : path;
}

std::vector<Fact> facts_of_process() {
  constexpr auto kAbout = Fact::Kind::kAbout;
  const BoardOwner process = this_process();
  std::vector<Fact> facts = {{kAbout, "process.pid", std::to_string(process.pid)},
                             {kAbout, "process.pid_namespace", number_text(process.pid_namespace)},
                             {kAbout, "process.start_ticks", number_text(process.start_ticks)},
                             {kAbout, "process.command", program_invocation_name},
                             {kAbout, "recorder", "vram " VRAM_VERSION}};
  std::ranges::move(facts_of_machine(), std::back_inserter(facts));
  if (const auto rank = rank_of_process()) {
    facts.push_back({kAbout, "rank", std::to_string(rank->number)});
    facts.push_back({kAbout, "world_size", std::to_string(rank->count)});
  }
  std::erase_if(facts, [](const Fact& fact) { return fact.value.empty(); });  // not known
  return facts;
}

std::vector<Fact> facts_of_machine() {
  constexpr auto kAbout = Fact::Kind::kAbout;
  return {{kAbout, "host", host()}, {kAbout, "host.boot", boot()}};
}

void renew_facts(std::vector<Fact>& facts) {
  for (const Fact& own : facts_of_process()) {
    for (Fact& fact : facts)
      if (fact.kind == own.kind && fact.key == own.key) fact.value = own.value;
  }
}

}  // namespace vram::record
