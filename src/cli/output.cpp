#include "cli/output.hpp"

#include "base/bytes.hpp"
#include "base/file.hpp"
#include "base/language.hpp"
#include "base/result.hpp"
#include "base/text.hpp"
#include "show/draw/plot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

namespace vram::cli {

Option output_option(Output& target) {
  return {"-o,--output", "FILE",
          tr("write to this file instead of standard output; it appears when it is complete, and "
             "replaces only files that vram wrote"),
          file(&target.path)};
}

Option force_option(Output& target) {
  target.can_be_forced = true;
  return {"--force", "", tr("replace an existing file even if vram did not write it"),
          &target.is_forced};
}

show::TextOptions text_options(const Output& output, const Console& console) {
  const bool to_file = !output.path.empty();
  return {.columns = console.columns(),
          .colour = console.colour() && !to_file,
          .unicode = console.unicode() || to_file,
          .bars = console.bars() || to_file};
}

Error with_force(Error error) {
  if (error.code == Code::kBadInput) error.message += tr(", or add --force");
  return error;
}

namespace {

bool are_same_file(const std::string& a, const std::string& b) {
  std::error_code error;
  return std::filesystem::is_regular_file(a, error) && std::filesystem::equivalent(a, b, error) &&
         !error;
}

// Also if there is no file yet. Devices and pipes take any number of outputs.
bool are_same_place(const std::string& a, const std::string& b) {
  std::error_code error;
  if (b.empty() || std::filesystem::is_other(a, error)) return false;
  const auto place = [&](const std::string& path) {
    return std::filesystem::weakly_canonical(std::filesystem::absolute(path, error), error);
  };
  return are_same_file(a, b) || place(a) == place(b);
}

}  // namespace

Result<> check_output(const Output& output, const std::vector<std::string>& inputs) {
  if (output.path.empty()) return {};
  const auto is_output = [&](const std::string& path) { return are_same_file(path, output.path); };
  if (std::ranges::any_of(inputs, is_output)) {
    return fail(Code::kBadInput, "{}: input and output are the same file; name another output",
                output.path);
  }
  auto target = find_output_target(output.path, replace_for(output.is_forced));
  if (target) return {};
  const bool can_help = output.can_be_forced && !output.is_forced;
  return tl::unexpected(can_help ? with_force(target.error()) : target.error());
}

Result<> check_outputs_differ(const std::vector<std::string>& paths) {
  for (auto path = paths.begin(); path != paths.end(); ++path) {
    const auto is_it = [&](const std::string& other) { return are_same_place(*path, other); };
    if (!path->empty() && std::any_of(path + 1, paths.end(), is_it))
      return fail(Code::kBadInput, "{}: two outputs are the same file; name another one", *path);
  }
  return {};
}

namespace {

enum class Mark : uint8_t { kNone, kLastLine };

Result<> write(const std::string& text, const Output& output, Mark mark, Console& console) {
  if (output.path.empty()) return console.print(text);
  VRAM_TRY(check_output(output));
  VRAM_TRY_ASSIGN(auto file, AtomicFile::create(output.path, replace_for(output.is_forced)));
  VRAM_TRY(file.write(text));
  if (mark == Mark::kLastLine && !file.is_in_place() && !is_own_format(text, "")) {
    const std::string_view gap = text.ends_with('\n') ? "\n" : "\n\n";
    const std::string end = fmt::format("{}{}{}\n", gap, kTextEnd, VRAM_VERSION);
    VRAM_TRY(file.write(end));
  }
  return file.commit();
}

}  // namespace

Result<> deliver(const std::string& text, const Output& output, Console& console) {
  return write(text, output, Mark::kLastLine, console);
}

Result<> deliver_as_it_is(const std::string& text, const Output& output, Console& console) {
  return write(text, output, Mark::kNone, console);
}

namespace {

using namespace std::chrono_literals;

constexpr auto kQuick = 300ms;
constexpr auto kBetweenDraws = 100ms;
constexpr uint64_t kManyEvents = 500'000;
constexpr int kBarColumns = 24;
constexpr int kNameColumns = 30;

std::string bar_text(uint64_t done, uint64_t total) {
  if (total == 0) return "";
  const double share = static_cast<double>(done) / static_cast<double>(total);
  std::string bar = show::share_bar(share, kBarColumns);
  bar.append(static_cast<size_t>(kBarColumns - display_width(bar)), ' ');
  return fmt::format("│{}│ {:3.0f} %  ", bar, 100 * share);
}

}  // namespace

Progress::Progress(const Console& console, std::string what)
    : console_(console),
      what_(std::move(what)),
      begin_(Clock::now()),
      next_draw_(begin_ + kQuick) {}

Progress::~Progress() {
  if (drawn_) console_.progress("");
}

void Progress::announce(uint64_t events) {
  if (!console_.shows_progress() || events < kManyEvents) return;
  drawn_ = true;
  console_.progress(
      trf("{}  {} events …", shorten_front(printable(what_), kNameColumns), format_count(events)));
}

void Progress::update_stage(std::string_view stage, double share) {
  if (!console_.shows_progress() || (!drawn_ && Clock::now() < next_draw_)) return;
  drawn_ = true;
  constexpr uint64_t kWhole = 1000;
  console_.progress(fmt::format("{}  {}{}", shorten_front(printable(what_), kNameColumns),
                                bar_text(static_cast<uint64_t>(share * kWhole), kWhole), stage));
}

bool Progress::is_due(Clock::time_point now) {
  if (!console_.shows_progress() || now < next_draw_) return false;
  next_draw_ = now + kBetweenDraws;
  drawn_ = true;
  return true;
}

void Progress::update(uint64_t done_bytes, uint64_t total_bytes) {
  const auto now = Clock::now();
  if (!is_due(now)) return;
  const double seconds = std::chrono::duration<double>(now - begin_).count();
  const auto rate = static_cast<uint64_t>(static_cast<double>(done_bytes) / seconds);
  console_.progress(fmt::format("{}  {}{}, {}/s", shorten_front(printable(what_), kNameColumns),
                                bar_text(done_bytes, total_bytes), format_bytes(done_bytes),
                                format_bytes(rate)));
}

void Progress::update_count(uint64_t done, uint64_t total, std::string_view things) {
  if (!is_due(Clock::now())) return;
  console_.progress(trf("{}  {}{} of {} {}", shorten_front(printable(what_), kNameColumns),
                        bar_text(done, total), format_count(done), format_count(total), things));
}

std::function<void(uint64_t, uint64_t)> Progress::callback() {
  return [this](uint64_t done_bytes, uint64_t total_bytes) { update(done_bytes, total_bytes); };
}

}  // namespace vram::cli
