// vram top: who uses which GPU's memory, live, on a terminal.
#include "base/bytes.hpp"
#include "base/file.hpp"
#include "base/language.hpp"
#include "base/result.hpp"
#include "cli/command.hpp"
#include "cli/folders.hpp"
#include "cli/live.hpp"
#include "cli/top_loop.hpp"
#include "show/top/screen.hpp"
#include "show/top/settings.hpp"

#include <filesystem>
#include <string>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace vram::cli {
namespace {

namespace fs = std::filesystem;
using show::top::Settings;
using show::top::Size;
using show::top::TopState;

// The file of the settings is read at the start, and written at the end when something changed.
constexpr uint64_t kMaxSettingsFileBytes = uint64_t{64} << 10;

// What is made meanwhile is this user's alone. Of the whole process: no other thread makes files
// then.
class PrivateUmask {
 public:
  PrivateUmask() : before_(umask(077)) {}
  PrivateUmask(const PrivateUmask&) = delete;
  PrivateUmask& operator=(const PrivateUmask&) = delete;
  ~PrivateUmask() { umask(before_); }

 private:
  mode_t before_;
};

// With sudo's HOME it may be another user's, who could not read the file that root makes there.
Result<> make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  struct stat found{};
  if (stat(folder.c_str(), &found) != 0)
    return fail(Code::kIo, "cannot make {}: {}", folder.string(), error.message());
  if (found.st_uid != geteuid())
    return fail(Code::kIo, "{} belongs to another user", folder.string());
  return {};
}

// $XDG_CONFIG_HOME/vram/top.toml; empty if the environment does not define it.
std::string top_settings_path() {
  const fs::path folder = user_folder("XDG_CONFIG_HOME", ".config");
  return folder.empty() ? "" : folder / "top.toml";
}

// None if there is no file. A pipe would have to be waited for.
Result<Settings> read_top_settings(const std::string& path) {
  std::error_code error;
  const fs::file_status found = fs::status(path, error);
  if (found.type() == fs::file_type::not_found) return Settings();
  if (fs::exists(found) && !fs::is_regular_file(found))
    return fail(Code::kBadInput, "{} is no plain file", path);
  VRAM_TRY_ASSIGN(const auto text, read_whole(path, kMaxSettingsFileBytes));
  return show::top::settings_of_toml(text, path);
}

// Merges the changes into the current file, so that of two programs the last one to end wins; the
// file is complete at any time. An invalid file is not changed.
Result<> keep_top_settings(const std::string& path, const Settings& changed) {
  VRAM_TRY_ASSIGN(const auto known, read_top_settings(path));
  std::error_code error;
  const fs::path real = fs::weakly_canonical(path, error);  // a link to it stays one
  if (error) return fail(Code::kIo, "cannot find {}: {}", path, error.message());
  const PrivateUmask privately;
  if (auto made = make_folder(real.parent_path()); !made) return made;
  VRAM_TRY_ASSIGN(auto file, AtomicFile::create(real, Replace::kAny));
  VRAM_TRY(file.write(to_toml(put_over(known, changed))));
  return file.commit();
}

constexpr Size kPaper = {120, 40};

class TopCommand final : public Command {
 public:
  [[nodiscard]] const Manual& manual() const override;
  [[nodiscard]] std::vector<Option> options() override;
  [[nodiscard]] Result<int> run(Console& console) override;

 private:
  [[nodiscard]] std::string filter_text_of() const;
  [[nodiscard]] Result<TopState> state() const;
  [[nodiscard]] Result<int> once(Live& live, const TopState& state, Console& console) const;
  [[nodiscard]] Result<int> on_terminal(Live live, TopState state, const Console& console) const;
  [[nodiscard]] bool takes_settings() const { return !once_ && !no_settings_; }

  Settings given_;  // take precedence over the saved ones
  bool once_ = false;
  LiveSource gpu_;
  std::string filter_;
  std::string user_;
  std::vector<uint64_t> pids_;
  bool tree_ = false;
  bool readonly_ = false;
  bool no_color_ = false;
  bool no_mouse_ = false;
  bool no_settings_ = false;
};

const Manual& TopCommand::manual() const {
  static const Manual kManual = {
      "top",
      tr("monitor GPUs and their processes"),
      "[--period TIME] [--once] [--filter WORDS]",
      tr("Shows each GPU with its memory, load and recent history, and the processes that use it "
         "as a "
         "sorted and filtered list or tree, with the memory that their allocators hold and could "
         "release. F1 lists the keys; most are those of htop and nvtop. The keyboard stays "
         "responsive "
         "even if the driver hangs. Signals to processes (F9) and requests to release memory (F8) "
         "need a confirmation."),
      {{"vram top", tr("every second, until q")},
       {"vram top --period 0.2s --user ann", tr("one user's processes, five times a second")},
       {"vram top --filter 'gpu:0,1 mem>1G'", tr("the filter, as typed after F4")},
       {"vram top --once", tr("one screen as text, 120 by 40 or COLUMNS by LINES")},
       {"vram top --gpu sim", tr("no GPU: plays a recording that comes with vram")},
       {"vram top --gpu sim:run.vtrace", tr("plays a recording at its own pace")}}};
  return kManual;
}

Result<uint64_t> parse_top_period(std::string_view text) {
  VRAM_TRY_ASSIGN(const auto period, parse_duration_ns(text));
  if (!show::top::is_period(period))
    return fail(Code::kBadInput, "expected 0.1s to 1h, found '{}'", text);
  return static_cast<uint64_t>(period);
}

std::vector<std::string> column_names() {
  std::vector<std::string> names;
  for (const show::top::FieldInfo& info : show::top::all_fields()) names.emplace_back(info.name);
  return names;
}

Result<show::top::Field> parse_column(std::string_view text) {
  if (const auto field = show::top::field_named(text)) return *field;
  return fail(Code::kBadInput, "expected one of {}, found '{}'", fmt::join(column_names(), ", "),
              text);
}

std::vector<Option> TopCommand::options() {
  return {
      {"--period", "TIME", tr("sampling period, 0.1s to 1h (default: as last time, at first 1s)"),
       value(given_.period_ns, parse_top_period)},
      {"--once", "", tr("print one screen as text and exit; ignores saved settings"), &once_},
      source_option(tr("which source to read: nvml (NVIDIA), drm (AMD, Intel), or sim[:RECORDING] "
                       "(default: all)"),
                    gpu_),
      {"--sort", "COLUMN",
       tr("memory, busy, step, pid, user, gpu, allocated, reserved, cached, peak, … (default: as "
          "last "
          "time, at first memory)"),
       with_choices(value(given_.sort, parse_column), column_names())},
      {"--filter", "WORDS",
       tr("show only processes that match all words: user:ann, gpu:0,1, pid:7, type:compute, "
          "in:POD, "
          "scope:TEXT, mem>1G, busy>50, cached>1G, or a text; ! negates a word"),
       &filter_},
      {"--user", "NAME", tr("show only this user's processes"), &user_},
      {"--pid", "PID", tr("show only this process; may be repeated"), value(pids_, parse_number<>)},
      {"--tree", "", tr("start with the process tree"), &tree_},
      {"--readonly", "", tr("disable the keys that signal processes or request memory"),
       &readonly_},
      {"--no-color", "", tr("no colours; NO_COLOR has the same effect"), &no_color_},
      {"--no-mouse", "", tr("do not capture the mouse"), &no_mouse_},
      {"--no-settings", "",
       tr("neither load nor save settings ($XDG_CONFIG_HOME/vram/top.toml, by default "
          "~/.config/vram/top.toml)"),
       &no_settings_}};
}

// A file that is wrong is no reason not to begin.
void take_settings(TopState& state) {
  const auto kept = read_top_settings(top_settings_path());
  if (kept)
    apply(*kept, state);
  else
    state.show_message(tr("cannot load settings: ") + kept.error().message, show::Style::kWarning);
}

void keep_settings(const Settings& changed, const Console& console) {
  const std::string path = top_settings_path();
  if (path.empty() || changed == Settings()) return;
  if (const auto kept = keep_top_settings(path, changed); !kept)
    console.warning(trf("cannot save settings: {}; repair or remove that, or use --no-settings",
                        kept.error().message));
}

// --user and --pid are words of the filter, too, and can be changed with it.
std::string TopCommand::filter_text_of() const {
  std::string words = filter_;
  const auto add = [&](const std::string& word) { words += (words.empty() ? "" : " ") + word; };
  if (!user_.empty()) add("user:" + user_);
  if (!pids_.empty()) add(fmt::format("pid:{}", fmt::join(pids_, ",")));
  return words;
}

Result<TopState> TopCommand::state() const {
  TopState state;
  state.is_readonly = readonly_;
  state.filter_text = filter_text_of();
  VRAM_TRY_ASSIGN(auto filter, show::top::Filter::parse(state.filter_text));
  state.filter = std::move(filter);
  if (takes_settings()) take_settings(state);
  Settings given = given_;
  if (given.sort) given.is_inverted = false;
  if (tree_) given.is_tree = true;
  apply(given, state);
  return state;
}

Result<int> TopCommand::once(Live& live, const TopState& state, Console& console) const {
  watch::Sampled sampled;
  sampled.begin_ns = watch::monotonic_ns();
  sampled.snapshot = live.take_sample();
  sampled.number = 1;
  const show::top::Clock clock = {sampled.begin_ns, 0};
  show::top::History history;
  history.add(sampled);
  const show::top::Surface paper = {
      {console.columns_or(kPaper.columns), console.rows_or(kPaper.rows)}, console.unicode(), true};
  const show::top::Grid grid = show::top::draw(state, history, &sampled, clock, paper);
  VRAM_TRY(console.print(grid.text(console.colour() && !no_color_)));
  return sampled.snapshot.devices.empty() ? kEnvironment : 0;
}

Result<int> TopCommand::on_terminal(Live live, TopState state, const Console& console) const {
  auto terminal = show::Terminal::open(
      {console.unicode(), console.colour() && !no_color_, !no_mouse_,
       tr("'vram top --once' prints one screen, 'vram status --watch 1' keeps printing")});
  if (!terminal) {
    console.error(terminal.error().message);
    return kEnvironment;
  }
  const Settings before = settings_of(state);
  TopLoop loop(std::make_shared<Live>(std::move(live)), std::move(state), *std::move(terminal));
  loop.run();
  if (takes_settings()) keep_settings(changes(before, settings_of(loop.state())), console);
  _exit(0);  // a sample may hang for good; do not wait for it
}

Result<int> TopCommand::run(Console& console) {
  VRAM_TRY_ASSIGN(auto state, this->state());
  VRAM_TRY_ASSIGN(auto live, Live::of(gpu_));
  if (once_) return once(live, state, console);
  return on_terminal(std::move(live), std::move(state), console);
}

}  // namespace

std::unique_ptr<Command> top_command() { return std::make_unique<TopCommand>(); }

}  // namespace vram::cli
