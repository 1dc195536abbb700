#include "history/store.hpp"

#include "base/file.hpp"
#include "base/result.hpp"
#include "base/text.hpp"
#include "history/database.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

// size: what may happen to a history's file is in one place.
namespace vram::history {
namespace {

constexpr int64_t kPagesAtOnce = 1024;  // given back by one prune
constexpr int64_t kSparePages = 64;     // kept for what comes

Error with_path(Error error, const std::string& path) {
  error.message = fmt::format("the history {} can't be opened: {}", path, error.message);
  return error;
}

std::string errno_text() { return std::strerror(errno); }

std::string time_for_name() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  return fmt::format("{:04}{:02}{:02}T{:02}{:02}{:02}Z", utc.tm_year + 1900, utc.tm_mon + 1,
                     utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec);
}

bool exists(const std::string& path) {
  struct stat status{};
  return lstat(path.c_str(), &status) == 0;
}

std::string free_name(const std::string& path) {
  const std::string wanted = fmt::format("{}.broken-{}", path, time_for_name());
  std::string name = wanted;
  for (int number = 2; exists(name); ++number) name = fmt::format("{}-{}", wanted, number);
  return name;
}

// What SQLite keeps next to a file.
void move_log(const std::string& path, const std::string& aside) {
  for (const char* end : {"-wal", "-shm"})
    (void)std::rename((path + end).c_str(), (aside + end).c_str());
}

// With what is next to it, under names by which SQLite finds it.
Result<std::string> rename_damaged(const std::string& path) {
  std::string aside = free_name(path);
  if (std::rename(path.c_str(), aside.c_str()) != 0 && errno != ENOENT)
    return fail(Code::kIo, "{} can't be moved aside: {}", path, errno_text());
  move_log(path, aside);
  return aside;
}

uint64_t inode_of(const std::string& path) {
  struct stat status{};
  return stat(path.c_str(), &status) == 0 ? status.st_ino : 0;
}

std::string first_bytes(int descriptor) {
  std::string bytes(kFormatBytes, '\0');
  const ssize_t count = pread(descriptor, bytes.data(), bytes.size(), 0);
  bytes.resize(count > 0 ? static_cast<size_t>(count) : 0);
  return bytes;
}

// SQLite would call another program's file a broken database, and we would move it away. Whose
// database it is, if it is one, database.cpp asks. What can't be read is for others to complain of.
Result<> check_is_database(const std::string& path) {
  constexpr std::string_view kMagic("SQLite format 3\0", 16);
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.is_open()) return {};
  const std::string found = first_bytes(file.number());
  if (found.empty() || found.starts_with(kMagic)) return {};
  return fail(Code::kUnsupported,
              "{} is not a history: expected a file that begins as SQLite's do, found '{}'; give "
              "the history a file of its own, or move this one away if it was one and is broken",
              path, printable(found.substr(0, kMagic.size())));
}

// For its owner alone: command lines may hold what others must not see. So is one that was there
// before, as far as this process may change it. SQLite gives what it puts next to the file the same
// mode; what is there already is named again.
Result<uint64_t> make_file(const std::string& path) {
  const Descriptor file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0600));
  struct stat status{};
  if (!file.is_open() || fstat(file.number(), &status) != 0)
    return fail(Code::kIo, "{}", errno_text());
  if (!S_ISREG(status.st_mode)) return fail(Code::kIo, "it is no plain file");
  if ((status.st_mode & 0077U) != 0) {
    (void)fchmod(file.number(), 0600);
    for (const char* end : {"-wal", "-shm"}) {
      const Descriptor companion(
          open((path + end).c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
      if (companion.is_open()) (void)fchmod(companion.number(), 0600);
    }
  }
  return status.st_ino;
}

// What is broken and may be moved aside; any other file that is no database is the user's.
bool is_broken_history(const std::string& path) {
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  return file.is_open() && is_history(first_bytes(file.number()));
}

// A number and the end of a line, as WriterLock writes it; or nothing yet.
bool is_lock_file(int descriptor) {
  struct stat status{};
  if (fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) return false;
  const std::string text = first_bytes(descriptor);
  return text.empty() || text.find_first_not_of("0123456789") == text.size() - 1;
}

// In SQL: by what the column says, and also once the leaps that came after it are added; the first
// alone is what an index finds.
std::string is_before(std::string_view column, int64_t time_s, const ClockLeaps& leaps) {
  std::string shifted(column);
  for (const ClockLeap& leap : leaps)
    shifted += fmt::format("+({}<={})*{}", column, leap.after_s, leap.by_s);
  return fmt::format("{}<{} AND {}<{}", column, time_s, shifted, time_s);
}

Result<> prepare_all(Database& database,
                     std::initializer_list<std::pair<Statement*, const char*>> all) {
  for (const auto& [statement, sql] : all) {
    VRAM_TRY_ASSIGN(auto prepared, database.prepare(sql));
    *statement = std::move(prepared);
  }
  return {};
}

}  // namespace

Result<WriterLock> WriterLock::take(const std::string& path) {
  const std::string name = path + ".lock";
  const int descriptor = ::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (descriptor < 0)
    return fail(Code::kIo, "the history {} can't be written: {}: {}", path, name, errno_text());
  WriterLock lock(descriptor);
  if (!is_lock_file(descriptor)) {
    return fail(Code::kIo,
                "the history {} needs {} as its lock, but the file there was not written by vram: "
                "choose another name for the history",
                path, name);
  }
  char text[32] = {};
  if (flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return fail(Code::kIo, "{} can't be locked: {}", name, errno_text());
    (void)!pread(descriptor, text, sizeof text - 1, 0);
    return fail(Code::kIo,
                "the history {} is written by another program already (process {}): end that one, "
                "or give this one another file",
                path, std::strtoul(text, nullptr, 10));
  }
  const std::string pid = fmt::format("{}\n", getpid());
  (void)!ftruncate(descriptor, 0);
  (void)!pwrite(descriptor, pid.data(), pid.size(), 0);
  return lock;
}

WriterLock::WriterLock(WriterLock&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)) {}
WriterLock::~WriterLock() {
  if (descriptor_ >= 0) (void)close(descriptor_);
}

Store::Store(std::string path, Report report, WriterLock lock)
    : path_(std::move(path)), report_(std::move(report)), lock_(std::move(lock)) {}

Result<Store> Store::open(const std::string& path, Report report) {
  for (const auto& checked : {check_is_local(path), check_is_database(path)})
    if (!checked) return tl::unexpected(checked.error());
  VRAM_TRY_ASSIGN(auto lock, WriterLock::take(path));
  Store store(path, std::move(report), std::move(lock));
  auto file = open_file(path);
  if (file) {
    store.file_ = std::move(*file);
    store.had_file_ = true;
    return store;
  }
  if (file.error().code != Code::kBadInput) return tl::unexpected(with_path(file.error(), path));
  if (!is_broken_history(path)) {
    return fail(
        Code::kUnsupported,
        "{} is not a history written by vram and is left unchanged ({}): give the history a file "
        "of its own",
        path, file.error().message);
  }
  VRAM_TRY(store.restart_file(file.error().message));
  return store;
}

Result<Store::File> Store::open_file(const std::string& path) {
  VRAM_TRY(check_is_database(path));
  VRAM_TRY_ASSIGN(auto inode, make_file(path));
  VRAM_TRY_ASSIGN(auto database, Database::open(path, false));
  File file;
  file.database = std::move(database);
  file.inode = inode;
  VRAM_TRY(prepare_schema(file.database, path));
  VRAM_TRY(prepare_all(
      file.database,
      {{&file.put_device,
        "INSERT INTO device VALUES(?1,?2,?3,?4,?5) ON CONFLICT(id) DO UPDATE SET name=?3, "
        "place=?4, total_bytes=?5"},
       {&file.put_process,
        "INSERT INTO process VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9) ON CONFLICT(id) DO UPDATE SET "
        "user=?4, command=?5, container=?6, pod=?7, slurm_job=?8, last_s=?9"},
       {&file.put_device_chunk,
        "INSERT INTO device_chunk VALUES(?1,?2,?3,?4,?5) ON CONFLICT(id) DO UPDATE SET "
        "samples=?5"},
       {&file.put_process_chunk,
        "INSERT INTO process_chunk VALUES(?1,?2,?3,?4,?5) ON CONFLICT(id) DO UPDATE SET "
        "samples=?5"},
       {&file.put_kept, "INSERT OR REPLACE INTO kept VALUES(?1,?2)"}}));
  return file;
}

Result<> Store::restart_file(const std::string& why) {
  std::string aside;
  const auto move_it = [&]() -> Result<> {
    if (!exists(path_)) return {};
    VRAM_TRY_ASSIGN(auto moved, rename_damaged(path_));
    aside = moved;
    return {};
  };
  // One that another program put in its place must stay.
  if (std::exchange(had_file_, false) && is_there())
    if (auto moved = move_it(); !moved) return moved;
  const uint64_t log = file_ ? file_->log_inode : 0;
  file_.reset();
  // SQLite leaves the log of a file that was taken away, and would play it into another one.
  if (log != 0 && exists(path_) && inode_of(path_ + "-wal") == log)
    move_log(path_, free_name(path_));
  written_devices_.clear();
  auto file = open_file(path_);
  // What a full disk left of an earlier attempt is opened, not moved.
  if (!file && file.error().code == Code::kBadInput) {
    if (auto moved = move_it(); !moved) return moved;
    file = open_file(path_);
  }
  if (!file) return tl::unexpected(with_path(file.error(), path_));
  auto devices = file->database.number("SELECT count(*) FROM device");
  if (!devices) return tl::unexpected(with_path(devices.error(), path_));
  // A backup, say. There the numbers by which chunks are written are other devices' and chunks'.
  if (*devices > 0)
    return fail(
        Code::kIo,
        "another history was put in the place of {} meanwhile: restart vram to continue with "
        "that one, or move it away",
        path_);
  file_ = std::move(*file);
  had_file_ = true;
  report_(aside.empty()
              ? fmt::format("the history {} was deleted: starting a new one", path_)
              : fmt::format("the history {} was broken ({}): moved aside as {}, a new one "
                            "is begun",
                            path_, why, aside));
  return {};
}

bool Store::is_there() const { return file_ && inode_of(path_) == file_->inode; }

Result<FoldStart> Store::start() {
  FoldStart start;
  VRAM_TRY_ASSIGN(auto chunk, file_->database.number(
                                  "SELECT max(coalesce((SELECT max(id) FROM device_chunk), 0),"
                                  "           coalesce((SELECT max(id) FROM process_chunk), 0))"));
  start.last_chunk_id = chunk;
  VRAM_TRY_ASSIGN(auto devices, file_->database.prepare("SELECT id, key FROM device ORDER BY id"));
  auto row = devices.step();
  for (; row && *row; row = devices.step()) {
    start.last_device_id = devices.number(0);
    start.devices[devices.text(1).value_or("")] = devices.number(0);
  }
  if (!row) return tl::unexpected(row.error());
  return start;
}

Result<Store::Span> Store::span() {
  VRAM_TRY_ASSIGN(
      auto statement,
      file_->database.prepare(
          "SELECT min((SELECT min(begin_s) FROM device_chunk WHERE device=d.id AND grain_s=g.s)),"
          "       max((SELECT max(begin_s) FROM device_chunk WHERE device=d.id AND grain_s=g.s))"
          " FROM device d, (SELECT 0 s UNION SELECT 60 UNION SELECT 3600) g"));
  VRAM_TRY(statement.step());
  return Span{statement.number_if_any(0), statement.number_if_any(1)};
}

Result<TextCache> Store::kept() {
  VRAM_TRY_ASSIGN(auto all, file_->database.prepare("SELECT name, text FROM kept"));
  TextCache texts;
  auto row = all.step();
  for (; row && *row; row = all.step()) texts[all.text(0).value_or("")] = all.text(1).value_or("");
  if (!row) return tl::unexpected(row.error());
  return texts;
}

Result<> Store::put(const ChunkRow& row) {
  auto& device = written_devices_[row.device->id];
  if (device != row.device) {
    const HistoryDevice& about = row.device->device;
    file_->put_device.bind(1, row.device->id).bind(2, about.key).bind(3, about.name);
    file_->put_device.bind(4, int64_t{about.index}).bind_if_any(5, about.total_bytes);
    if (auto put = file_->put_device.run(); !put) return put;
    device = row.device;
  }
  const std::span<const uint8_t> bytes(row.bytes);
  if (!row.process) {
    file_->put_device_chunk.bind(1, row.id).bind(2, row.device->id).bind(3, row.grain_s);
    file_->put_device_chunk.bind(4, row.begin_s).bind(5, bytes);
    return file_->put_device_chunk.run();
  }
  const HistoryProcess& about = row.process->process;
  Statement& process = file_->put_process;
  process.bind(1, row.process->id).bind(2, int64_t{about.pid}).bind_if_any(3, about.start_ticks);
  process.bind_if_any(4, about.user).bind_if_any(5, about.command).bind_if_any(6, about.container);
  process.bind_if_any(7, about.pod).bind_if_any(8, about.slurm_job).bind(9, row.begin_s);
  if (auto put = process.run(); !put) return put;
  file_->put_process_chunk.bind(1, row.id).bind(2, row.process->id).bind(3, row.device->id);
  file_->put_process_chunk.bind(4, row.begin_s).bind(5, bytes);
  return file_->put_process_chunk.run();
}

Result<> Store::put_all(const ChunkRows& rows, const TextCache& texts) {
  if (auto begun = file_->database.execute("BEGIN IMMEDIATE"); !begun) return begun;
  for (const auto& row : rows)
    if (auto put_row = put(*row); !put_row) return put_row;
  for (const auto& [name, text] : texts) {
    file_->put_kept.bind(1, std::string_view(name)).bind(2, std::string_view(text));
    if (auto put_text = file_->put_kept.run(); !put_text) return put_text;
  }
  return file_->database.execute("COMMIT");
}

Result<> Store::write(const ChunkRows& rows, const TextCache& texts) {
  if (!is_there()) return fail(Code::kBadInput, "it is not there any more");
  auto done = put_all(rows, texts);
  if (done) file_->log_inode = inode_of(path_ + "-wal");
  if (done) return done;
  // SQLite may have rolled back by itself; then there is nothing to roll back.
  (void)file_->database.execute("ROLLBACK");
  written_devices_.clear();
  return done;
}

Result<> Store::prune(int64_t now_s, const ClockLeaps& leaps, const HistoryKeep& keep) {
  if (!is_there()) return fail(Code::kBadInput, "it is not there any more");
  std::string sql = "BEGIN IMMEDIATE;";
  const std::array kept = {keep.samples, keep.minutes, keep.hours};
  for (size_t i = 0; i < kGrains.size(); ++i)
    sql += fmt::format(
        "DELETE FROM device_chunk WHERE device IN (SELECT id FROM device) AND grain_s={} AND {};",
        kGrains[i].grain_s,
        is_before("begin_s", now_s - kept[i].count() - kGrains[i].span_s, leaps));
  const int64_t process_s = now_s - keep.processes.count() - kProcessGrain.span_s;
  sql += fmt::format(
      "DELETE FROM process_chunk WHERE device IN (SELECT id FROM device) AND {};"
      "DELETE FROM process WHERE {}; COMMIT;",
      is_before("begin_s", process_s, leaps), is_before("last_s", process_s, leaps));
  if (auto pruned = file_->database.execute(sql); !pruned) {
    (void)file_->database.execute("ROLLBACK");
    return pruned;
  }
  VRAM_TRY_ASSIGN(auto spare, file_->database.number("PRAGMA freelist_count"));
  if (spare <= kSparePages) return {};
  return file_->database.execute(
      fmt::format("PRAGMA incremental_vacuum({})", std::min(spare - kSparePages, kPagesAtOnce)));
}

bool Store::is_broken() {
  if (!file_) return true;
  auto check = file_->database.prepare("PRAGMA quick_check(1)");
  if (!check) return check.error().code == Code::kBadInput;
  auto row = check->step();
  if (!row) return row.error().code == Code::kBadInput;
  return check->text(0).value_or("") != "ok";
}

}  // namespace vram::history
