#include "watch/history/schema.hpp"

#include "watch/history/metrics.hpp"

#include <fmt/format.h>

namespace vram::watch {
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
  auto tables = database.number("SELECT count(*) FROM sqlite_schema");
  if (!tables) return tl::unexpected(tables.error());
  auto application = database.number("PRAGMA application_id");
  if (!application) return tl::unexpected(application.error());
  auto version = database.number("PRAGMA user_version");
  if (!version) return tl::unexpected(version.error());
  const bool is_new = *tables == 0 && *application == 0 && *version == 0;
  if (is_new) {
    if (auto made = make_tables(database); !made) return made;
  } else if (auto ours = check_owner(*application, *version, path); !ours) {
    return ours;
  }
  return database.execute(std::string(kSettings) + kKept);
}

}  // namespace vram::watch
