#include "serve/recordings.hpp"

#include "base/text.hpp"
#include "base/threads.hpp"
#include "base/time.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <compare>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <dirent.h>
#include <fcntl.h>
#include <filesystem>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

// size: the findings and pages of recordings are one state behind one lock
namespace vram::serve {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxNameBytes = 255;
constexpr size_t kMaxFindings = 10;
constexpr uint64_t kMaxReportBytes = uint64_t{32} << 20;
constexpr auto kEndTimeout = std::chrono::seconds(2);
// Browsers wake the pages that they do not show once a minute.
constexpr auto kRequestPause = std::chrono::seconds(90);
constexpr std::array<std::string_view, 3> kSuffixes = {".vtrace", ".pickle", ".pkl"};
constexpr std::array<std::string_view, 3> kPacked = {".gz", ".xz", ".zst"};

// A file as it was when its report was made.
struct FileId {
  std::string name;
  uint64_t bytes = 0;
  int64_t modified_ns = 0;
  uint64_t inode = 0;

  auto operator<=>(const FileId&) const = default;
  // What stays while it grows.
  [[nodiscard]] std::pair<std::string, uint64_t> key() const { return {name, inode}; }
};

// What is listed: other files in the folder are not looked into.
bool is_recording_name(std::string_view name) {
  if (name.starts_with('.') || name.size() > kMaxNameBytes) return false;
  for (const std::string_view suffix : kPacked)
    if (name.ends_with(suffix)) name.remove_suffix(suffix.size());
  return std::ranges::any_of(kSuffixes, [&](auto suffix) { return name.ends_with(suffix); });
}

std::optional<FileId> file_id(std::string name, const struct stat& facts) {
  if (!S_ISREG(facts.st_mode)) return std::nullopt;
  return FileId{.name = std::move(name),
                .bytes = static_cast<uint64_t>(facts.st_size),
                .modified_ns = facts.st_mtim.tv_sec * kSignedSecondNs + facts.st_mtim.tv_nsec,
                .inode = facts.st_ino};
}

struct OpenFile {
  Descriptor descriptor;
  FileId id;
};

// A regular file of that folder: no link, nothing outside of it, and no pipe that would block.
Result<OpenFile> open_in(const Descriptor& folder, const std::string& name) {
  const auto missing = [&] {
    return fail(Code::kNotFound, "there is no recording '{}'; {} lists them", printable(name),
                kRecordingsPath);
  };
  if (name.find('/') != std::string::npos || !is_recording_name(name)) return missing();
  Descriptor file(openat(folder.number(), name.c_str(),
                         O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
  struct stat facts{};
  if (!file.is_open() || fstat(file.number(), &facts) != 0) return missing();
  auto id = file_id(name, facts);
  if (!id) return missing();
  return OpenFile{std::move(file), *std::move(id)};
}

// 128 random bits.
std::string random_key() {
  std::array<unsigned char, 16> bytes{};
  VRAM_CHECK(getrandom(bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  std::string key;
  for (const unsigned char each : bytes) key += fmt::format("{:02x}", each);
  return key;
}

// Of a vram.report/1: the facts and findings of its main device. The other members are dropped
// while they are parsed.
Result<Json> summary_of(const std::string& report) {
  static const std::set<std::string> kKept = {"events", "peak", "oom_count", "findings"};
  const Json document = Json::parse(
      report,
      [](int depth, Json::parse_event_t event, Json& parsed) {
        return depth != 1 || event != Json::parse_event_t::key ||
               kKept.contains(parsed.get<std::string>());
      },
      false);
  if (!document.is_object() || !document.contains("findings"))
    return fail(Code::kBadInput, "the report has no findings");
  Json findings = Json::array();
  for (const Json& each : document["findings"]) {
    if (findings.size() == kMaxFindings) break;
    findings.push_back(
        {{"kind", each.at("kind")}, {"bytes", each.at("bytes")}, {"title", each.at("title")}});
  }
  const Json& peak = document.at("peak");
  return Json({{"events", document.at("events")},
               {"oom_count", document.at("oom_count")},
               {"peak_requested_bytes", peak.at("requested_bytes")},
               {"peak_reserved_bytes", peak.at("reserved_bytes")},
               {"findings", std::move(findings)}});
}

}  // namespace

class Recordings::State {
 public:
  State(Descriptor folder, std::string program, std::string work, RecordingLimits limits)
      : folder_(std::move(folder)),
        program_(std::move(program)),
        work_(std::move(work)),
        limits_(limits) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    std::error_code error;
    fs::remove_all(work_, error);
  }

  [[nodiscard]] Result<std::string> list();
  [[nodiscard]] Result<std::string> request_page(const std::string& name);
  [[nodiscard]] Result<Descriptor> page(std::string_view key);
  void work();  // until end()
  void end();

 private:
  using Clock = std::chrono::steady_clock;
  struct Task {
    FileId file;
    bool is_page = false;
  };
  struct Explained {
    FileId file = {};  // as it was when it was to be read
    bool is_awaited = false;
    std::optional<Clock::time_point> read = {};
    Json summary = {};
    std::string error = {};
  };
  struct Page {
    std::string key;
    FileId file;
    bool is_done = false;
    bool is_given = false;
    std::string error = {};
    Clock::time_point used = Clock::now();
  };
  [[nodiscard]] Result<std::vector<FileId>> files() const;
  [[nodiscard]] Json entry_of(const FileId& file);
  [[nodiscard]] static bool is_awaited(const Page& page);
  void forget_old_pages();
  [[nodiscard]] Result<> run(const Task& task, std::vector<std::string> arguments) const;
  [[nodiscard]] Explained explain(const Task& task) const;
  void make_page(const Task& task);

  const Descriptor folder_;
  const std::string program_;
  const std::string work_;  // a private folder
  const RecordingLimits limits_;
  std::atomic<bool> must_end_ = false;
  std::mutex mutex_;  // guards what follows
  std::condition_variable more_;
  std::deque<Task> tasks_;
  std::map<std::pair<std::string, uint64_t>, Explained> explained_;  // by FileId::key()
  std::list<Page> pages_;                                            // the last requested first
};

// The newest first.
Result<std::vector<FileId>> Recordings::State::files() const {
  const int descriptor = openat(folder_.number(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* const folder = descriptor < 0 ? nullptr : fdopendir(descriptor);
  if (folder == nullptr) {
    if (descriptor >= 0) (void)::close(descriptor);
    return fail(Code::kIo, "cannot read the folder of --recordings: {}", std::strerror(errno));
  }
  std::vector<FileId> found;
  while (const dirent* const entry = readdir(folder)) {
    struct stat facts{};
    if (!is_recording_name(entry->d_name) ||
        fstatat(folder_.number(), entry->d_name, &facts, AT_SYMLINK_NOFOLLOW) != 0)
      continue;
    if (auto id = file_id(entry->d_name, facts)) found.push_back(*std::move(id));
  }
  (void)closedir(folder);
  std::ranges::sort(found, [](const FileId& left, const FileId& right) {
    return std::pair(right.modified_ns, left.name) < std::pair(left.modified_ns, right.name);
  });
  if (found.size() > limits_.listed) found.resize(limits_.listed);
  return found;
}

Json Recordings::State::entry_of(const FileId& file) {
  Json entry = {{"name", json_text(file.name)},
                {"size_bytes", file.bytes},
                {"modified_unix_ns", file.modified_ns},
                {"state", "unread"},
                {"error", Json()},
                {"summary", Json()}};
  if (file.bytes > limits_.explained_bytes) return entry;
  Explained& explained = explained_[file.key()];
  // While a program writes the recording, each list finds another file.
  const bool is_recent = explained.read && explained.error.empty() &&
                         Clock::now() - *explained.read < limits_.growing_pause;
  if (explained.file != file && !explained.is_awaited && !is_recent) {
    explained.file = file;
    explained.is_awaited = true;
    tasks_.push_back({file, false});
  }
  entry["state"] = !explained.read ? "reading" : explained.error.empty() ? "read" : "failed";
  if (!explained.error.empty()) entry["error"] = json_text(explained.error);
  entry["summary"] = explained.summary;
  return entry;
}

Result<std::string> Recordings::State::list() {
  VRAM_TRY_ASSIGN(const auto found, files());
  Json entries = Json::array();
  {
    const std::lock_guard guard(mutex_);
    for (const FileId& file : found) entries.push_back(entry_of(file));
    std::set<std::pair<std::string, uint64_t>> there;
    for (const FileId& file : found) there.insert(file.key());
    std::erase_if(explained_, [&](const auto& each) { return !there.contains(each.first); });
    std::erase_if(tasks_, [&](const Task& task) {
      return !task.is_page && !there.contains(task.file.key());
    });
  }
  more_.notify_all();
  const Json document = {{"schema", "vram.recordings/1"}, {"recordings", std::move(entries)}};
  return document.dump(2, ' ', true, Json::error_handler_t::replace) + "\n";
}

// Those that were not requested for long, and the oldest of too many.
void Recordings::State::forget_old_pages() {
  const auto now = Clock::now();
  size_t count = 0;
  std::erase_if(pages_, [&](const Page& page) {
    const bool is_old = page.is_done && now - page.used > limits_.page_life;
    if (++count <= limits_.pages && !is_old) return false;
    if (!page.is_done) return false;
    std::error_code error;
    fs::remove(work_ + "/" + page.key, error);
    return true;
  });
}

// While a program writes the recording, each request finds another file: the page that is being
// made answers all of them, and the first of those that come when it is ready.
bool Recordings::State::is_awaited(const Page& page) {
  return !page.is_done || (!page.is_given && Clock::now() - page.used < kRequestPause);
}

Result<std::string> Recordings::State::request_page(const std::string& name) {
  VRAM_TRY_ASSIGN(const auto file, open_in(folder_, name));
  if (file.id.bytes > limits_.opened_bytes)
    return fail(Code::kTooLarge,
                "the recording has more than {} GiB: open it on its machine, with vram report "
                "--serve",
                limits_.opened_bytes >> 30U);
  const std::lock_guard guard(mutex_);
  forget_old_pages();
  auto page = std::ranges::find(pages_, file.id, &Page::file);
  if (page == pages_.end())
    page = std::ranges::find_if(
        pages_, [&](const Page& each) { return each.file.name == name && is_awaited(each); });
  if (page == pages_.end()) {
    pages_.push_front({.key = random_key(), .file = file.id});
    page = pages_.begin();
    tasks_.push_front({file.id, true});
    more_.notify_all();
  }
  page->used = Clock::now();
  pages_.splice(pages_.begin(), pages_, page);
  const bool has_failed = !page->error.empty();
  const std::string_view state = !page->is_done ? "preparing" : has_failed ? "failed" : "ready";
  page->is_given = state == "ready";
  const Json document = {
      {"schema", "vram.recording_page/1"},
      {"state", state},
      {"path",
       state == "ready" ? Json(fmt::format("{}{}", kRecordingPagesPath, page->key)) : Json()},
      {"error", has_failed ? json_text(page->error) : Json()}};
  if (has_failed) pages_.erase(page);  // the next request tries it again
  return document.dump(2, ' ', true, Json::error_handler_t::replace) + "\n";
}

Result<Descriptor> Recordings::State::page(std::string_view key) {
  const std::lock_guard guard(mutex_);
  forget_old_pages();
  const auto page = std::ranges::find(pages_, key, &Page::key);
  if (page != pages_.end() && page->is_done && page->error.empty()) {
    Descriptor file(::open((work_ + "/" + page->key).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (file.is_open()) return file;
  }
  return fail(Code::kNotFound,
              "there is no such report, or no longer: open it again from the "
              "dashboard");
}

Result<> Recordings::State::run(const Task& task, std::vector<std::string> arguments) const {
  VRAM_TRY_ASSIGN(const auto file, open_in(folder_, task.file.name));
  return run_report({.program = program_,
                     .folder = work_,
                     .name = task.file.name,
                     .arguments = std::move(arguments)},
                    file.descriptor, limits_.report, must_end_);
}

Recordings::State::Explained Recordings::State::explain(const Task& task) const {
  const auto read = [&]() -> Result<Json> {
    VRAM_TRY(run(task, {"--json"}));
    VRAM_TRY_ASSIGN(const auto text, read_whole(work_ + "/output", kMaxReportBytes));
    try {
      return summary_of(text);
    } catch (const Json::exception& exception) {
      return fail(Code::kBadInput, "the report is none of vram's: {}", exception.what());
    }
  };
  Explained explained{.file = task.file};
  if (auto summary = read())
    explained.summary = *std::move(summary);
  else
    explained.error = summary.error().message;
  explained.read = Clock::now();
  return explained;
}

void Recordings::State::make_page(const Task& task) {
  const std::string made = work_ + "/page.html";
  Result<> done = run(task, {"--html", made, "--force"});
  const std::lock_guard guard(mutex_);
  const auto page = std::ranges::find(pages_, task.file, &Page::file);
  if (page == pages_.end()) return;
  if (done && rename(made.c_str(), (work_ + "/" + page->key).c_str()) != 0)
    done = fail(Code::kIo, "cannot keep the report: {}", std::strerror(errno));
  page->is_done = true;
  if (!done) page->error = done.error().message;
}

void Recordings::State::work() {
  std::unique_lock lock(mutex_);
  while (!must_end_) {
    if (tasks_.empty()) {
      more_.wait(lock);
      continue;
    }
    const Task task = tasks_.front();
    tasks_.pop_front();
    lock.unlock();
    if (task.is_page) {
      make_page(task);
      lock.lock();
      continue;
    }
    Explained explained = explain(task);
    lock.lock();
    if (const auto known = explained_.find(task.file.key()); known != explained_.end())
      known->second = std::move(explained);
  }
}

void Recordings::State::end() {
  {
    const std::lock_guard guard(mutex_);
    must_end_ = true;
  }
  more_.notify_all();
}

Result<std::shared_ptr<Recordings>> Recordings::open(const std::string& folder, std::string program,
                                                     RecordingLimits limits) {
  Descriptor opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!opened.is_open())
    return fail(Code::kBadInput, "--recordings: expected a folder, found {}: {}", folder,
                std::strerror(errno));
  std::error_code error;
  std::string work = fs::temp_directory_path(error) / "vram-serve-XXXXXX";
  if (error || mkdtemp(work.data()) == nullptr)
    return fail(Code::kIo, "--recordings: cannot create a temporary folder {}: {}", work,
                std::strerror(errno));
  auto state =
      std::make_shared<State>(std::move(opened), std::move(program), std::move(work), limits);
  return std::shared_ptr<Recordings>(new Recordings(std::move(state)));
}

Recordings::Recordings(std::shared_ptr<State> state)
    : state_(std::move(state)), thread_([state = state_] { state->work(); }) {}

Recordings::~Recordings() {
  state_->end();
  (void)thread_.join_for(kEndTimeout);
}

Result<std::string> Recordings::list() { return state_->list(); }
Result<std::string> Recordings::request_page(const std::string& name) {
  return state_->request_page(name);
}
Result<Descriptor> Recordings::page(std::string_view key) { return state_->page(key); }

}  // namespace vram::serve
