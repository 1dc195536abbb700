#include "history/database.hpp"

#include "base/result.hpp"
#include "history/metrics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <sqlite3.h>
#include <sys/vfs.h>
#include <system_error>
#include <utility>

namespace vram::history {
namespace {

constexpr int kTimeoutMs = 2000;  // with others who have the file open

Error error_of(sqlite3* database) {
  const int code = sqlite3_errcode(database) & 0xff;
  const bool is_broken = code == SQLITE_CORRUPT || code == SQLITE_NOTADB;
  return {is_broken ? Code::kBadInput : Code::kIo, sqlite3_errmsg(database)};
}

}  // namespace

void Statement::End::operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }

Statement& Statement::bind(int place, int64_t value) {
  sqlite3_bind_int64(statement_.get(), place, value);
  return *this;
}
Statement& Statement::bind(int place, std::string_view text) {
  sqlite3_bind_text64(statement_.get(), place, text.data(), text.size(), SQLITE_STATIC,
                      SQLITE_UTF8);
  return *this;
}
Statement& Statement::bind(int place, std::span<const uint8_t> bytes) {
  sqlite3_bind_blob64(statement_.get(), place, bytes.data(), bytes.size(), SQLITE_STATIC);
  return *this;
}
Statement& Statement::bind_if_any(int place, const std::optional<std::string>& text) {
  if (text) return bind(place, std::string_view(*text));
  sqlite3_bind_null(statement_.get(), place);
  return *this;
}
Statement& Statement::bind_if_any(int place, std::optional<uint64_t> value) {
  if (value) return bind(place, static_cast<int64_t>(*value));
  sqlite3_bind_null(statement_.get(), place);
  return *this;
}

Result<bool> Statement::step() {
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return tl::unexpected(error_of(sqlite3_db_handle(statement_.get())));
}

Result<> Statement::run() {
  auto row = step();
  while (row && *row) row = step();
  reset();
  if (!row) return tl::unexpected(row.error());
  return {};
}

void Statement::reset() {
  sqlite3_reset(statement_.get());
  sqlite3_clear_bindings(statement_.get());
}

bool Statement::is_null(int place) const {
  return sqlite3_column_type(statement_.get(), place) == SQLITE_NULL;
}
int64_t Statement::number(int place) const { return sqlite3_column_int64(statement_.get(), place); }
std::optional<int64_t> Statement::number_if_any(int place) const {
  if (is_null(place)) return std::nullopt;
  return number(place);
}
std::optional<std::string> Statement::text(int place) const {
  const unsigned char* text = sqlite3_column_text(statement_.get(), place);
  if (text == nullptr) return std::nullopt;
  const auto length = static_cast<size_t>(sqlite3_column_bytes(statement_.get(), place));
  return std::string(reinterpret_cast<const char*>(text), length);
}
std::span<const uint8_t> Statement::bytes(int place) const {
  const void* bytes = sqlite3_column_blob(statement_.get(), place);
  const auto length = static_cast<size_t>(sqlite3_column_bytes(statement_.get(), place));
  return {static_cast<const uint8_t*>(bytes), bytes == nullptr ? 0 : length};
}

void Database::Close::operator()(sqlite3* database) const { sqlite3_close_v2(database); }

Result<Database> Database::open(const std::string& path, bool read_only) {
  sqlite3* raw = nullptr;
  const int mode = read_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE;
  const int code = sqlite3_open_v2(path.c_str(), &raw, mode | SQLITE_OPEN_NOMUTEX, nullptr);
  Database database;
  database.database_.reset(raw);
  if (raw == nullptr) return fail(Code::kIo, "no memory for a database");
  if (code != SQLITE_OK) return tl::unexpected(error_of(raw));
  sqlite3_busy_timeout(raw, kTimeoutMs);
  return database;
}

Result<Statement> Database::prepare(std::string_view sql) {
  sqlite3_stmt* statement = nullptr;
  const int code = sqlite3_prepare_v2(database_.get(), sql.data(), static_cast<int>(sql.size()),
                                      &statement, nullptr);
  if (code != SQLITE_OK) return tl::unexpected(error_of(database_.get()));
  return Statement(statement);
}

Result<> Database::execute(const std::string& sql) {
  const int code = sqlite3_exec(database_.get(), sql.c_str(), nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) return tl::unexpected(error_of(database_.get()));
  return {};
}

Result<int64_t> Database::number(std::string_view sql) {
  VRAM_TRY_ASSIGN(auto statement, prepare(sql));
  VRAM_TRY_ASSIGN(auto row, statement.step());
  return row ? statement.number(0) : 0;
}

namespace {

// Has to be said before there is a table.
constexpr const char* kBeforeTables = "PRAGMA auto_vacuum=INCREMENTAL;";

constexpr const char* kTables = R"(
CREATE TABLE metric(
  number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, unit TEXT NOT NULL);
CREATE TABLE device(
  id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, name TEXT NOT NULL,
  place INTEGER NOT NULL, total_bytes INTEGER);
CREATE TABLE device_chunk(
  id INTEGER PRIMARY KEY, device INTEGER NOT NULL, grain_s INTEGER NOT NULL,
  begin_s INTEGER NOT NULL, samples BLOB NOT NULL);
CREATE INDEX device_chunk_by_time ON device_chunk(device, grain_s, begin_s);
CREATE TABLE process(
  id INTEGER PRIMARY KEY, pid INTEGER NOT NULL, start_ticks INTEGER, user TEXT, command TEXT,
  container TEXT, pod TEXT, slurm_job TEXT, last_s INTEGER NOT NULL);
CREATE TABLE process_chunk(
  id INTEGER PRIMARY KEY, process INTEGER NOT NULL, device INTEGER NOT NULL,
  begin_s INTEGER NOT NULL, samples BLOB NOT NULL);
CREATE INDEX process_chunk_by_time ON process_chunk(device, begin_s);
)";

// Files of earlier versions have none; those versions leave it alone.
constexpr const char* kKept =
    "CREATE TABLE IF NOT EXISTS kept(name TEXT PRIMARY KEY, text TEXT NOT NULL);";

// Each connection: a commit waits for no disk, and what SQLite keeps in memory and in the log is
// little. 256 pages of log are 1 MiB.
constexpr const char* kSettings =
    "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA cache_size=-512; PRAGMA "
    "wal_autocheckpoint=256;"
    "PRAGMA journal_size_limit=1048576; PRAGMA temp_store=MEMORY;";

std::string metric_rows() {
  std::string sql;
  for (const Metric& metric : metrics())
    sql += fmt::format("INSERT OR REPLACE INTO metric VALUES({},'{}','{}');", metric.number,
                       metric.name, metric.unit);
  return sql;
}

Result<> make_tables(Database& database) {
  if (auto set = database.execute(kBeforeTables); !set) return set;
  return database.execute(fmt::format(
      "BEGIN IMMEDIATE; {} {} PRAGMA application_id={}; PRAGMA user_version={}; COMMIT;", kTables,
      metric_rows(), kApplicationId, kSchemaVersion));
}

Result<> check_owner(int64_t application, int64_t version, const std::string& path) {
  if (application != kApplicationId)
    return fail(Code::kUnsupported,
                "{} is a database of another program: give the history a file of its own", path);
  if (version > kSchemaVersion)
    return fail(Code::kUnsupported,
                "{} has the schema of a newer vram ({}, this one writes {}): use that one, or "
                "another file",
                path, version, kSchemaVersion);
  return {};
}

}  // namespace

Result<> prepare_schema(Database& database, const std::string& path) {
  VRAM_TRY_ASSIGN(auto tables, database.number("SELECT count(*) FROM sqlite_schema"));
  VRAM_TRY_ASSIGN(auto application, database.number("PRAGMA application_id"));
  VRAM_TRY_ASSIGN(auto version, database.number("PRAGMA user_version"));
  const bool is_new = tables == 0 && application == 0 && version == 0;
  if (is_new) {
    if (auto made = make_tables(database); !made) return made;
  } else if (auto ours = check_owner(application, version, path); !ours) {
    return ours;
  }
  return database.execute(std::string(kSettings) + kKept);
}

// By linux/magic.h, and the numbers that `stat -f` of the GNU coreutils knows. FUSE and 9P are not
// among them: containers have files of their own machine by these, too.
std::optional<std::string_view> network_file_system(uint32_t magic) {
  using Known = std::pair<uint32_t, std::string_view>;
  static constexpr std::array<Known, 14> kShared{{{0x6969, "NFS"},
                                                  {0x517b, "SMB"},
                                                  {0xff534d42, "SMB"},
                                                  {0xfe534d42, "SMB"},
                                                  {0x0bd00bd0, "Lustre"},
                                                  {0x47504653, "GPFS"},
                                                  {0x00c36400, "Ceph"},
                                                  {0x19830326, "BeeGFS"},
                                                  {0xaad7aaea, "PanFS"},
                                                  {0x5346414f, "AFS"},
                                                  {0x6b414653, "AFS"},
                                                  {0x73757245, "Coda"},
                                                  {0x01161970, "GFS2"},
                                                  {0x7461636f, "OCFS2"}}};
  const auto found = std::ranges::find(kShared, magic, &Known::first);
  return found == kShared.end() ? std::nullopt : std::optional(found->second);
}

Result<> check_is_local(const std::string& path) {
  struct statfs about{};
  std::error_code error;
  auto file = std::filesystem::absolute(path, error);
  if (!error) file = std::filesystem::weakly_canonical(file, error);        // what a link leads to
  if (error || statfs(file.parent_path().c_str(), &about) != 0) return {};  // opening says why
  const auto name = network_file_system(static_cast<uint32_t>(about.f_type));
  if (!name) return {};
  return fail(Code::kUnsupported,
              "the history {} would be on {}: expected a file system of this machine; name a file "
              "elsewhere with --history",
              path, *name);
}

}  // namespace vram::history
