#include "watch/history/database.hpp"

#include <sqlite3.h>

namespace vram::watch {
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
  auto statement = prepare(sql);
  if (!statement) return tl::unexpected(statement.error());
  auto row = statement->step();
  if (!row) return tl::unexpected(row.error());
  return *row ? statement->number(0) : 0;
}

}  // namespace vram::watch
