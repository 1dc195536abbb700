// Database, Statement: SQLite's C functions with owners and Results, and where a database may lie.
// The only place that includes sqlite3.h. One thread at a time an object.
#pragma once

#include "base/file.hpp"
#include "base/result.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

struct sqlite3;
struct sqlite3_stmt;

namespace vram::history {

// Error codes: kBadInput if the file is damaged or no database, else kIo.
class Statement {
 public:
  Statement() = default;
  explicit Statement(sqlite3_stmt* statement) : statement_(statement) {}

  // Places count from 1. Text and bytes must stay until reset().
  Statement& bind(int place, int64_t value);
  Statement& bind(int place, std::string_view text);
  Statement& bind(int place, std::span<const uint8_t> bytes);
  Statement& bind_if_any(int place, const std::optional<std::string>& text);
  Statement& bind_if_any(int place, std::optional<uint64_t> value);

  // True: there is a row.
  [[nodiscard]] Result<bool> step();
  // To its end, and resets it.
  [[nodiscard]] Result<> run();
  void reset();

  // Of the row, places from 0; good until the next step.
  [[nodiscard]] bool is_null(int place) const;
  [[nodiscard]] int64_t number(int place) const;
  [[nodiscard]] std::optional<int64_t> number_if_any(int place) const;
  [[nodiscard]] std::optional<std::string> text(int place) const;
  [[nodiscard]] std::span<const uint8_t> bytes(int place) const;

 private:
  struct End {
    void operator()(sqlite3_stmt* statement) const;
  };
  std::unique_ptr<sqlite3_stmt, End> statement_;
};

class Database {
 public:
  [[nodiscard]] static Result<Database> open(const std::string& path, bool read_only);

  [[nodiscard]] Result<Statement> prepare(std::string_view sql);
  // Any number of statements; rows are thrown away.
  [[nodiscard]] Result<> execute(const std::string& sql);
  // Returns the first column of the first row, or 0 without rows.
  [[nodiscard]] Result<int64_t> number(std::string_view sql);

 private:
  struct Close {
    void operator()(sqlite3* database) const;
  };
  std::unique_ptr<sqlite3, Close> database_;
};

// The schema of the history's file, and how a connection is set up to write it.

inline constexpr int64_t kApplicationId = kHistoryApplication;
inline constexpr int64_t kSchemaVersion = 1;

// Creates the tables of an empty file. Errors: kBadInput: damaged, or no database; kUnsupported: of
// another program, or of a newer vram.
[[nodiscard]] Result<> prepare_schema(Database& database, const std::string& path);

// On what kind of file system a history may lie. SQLite's log is shared memory, which programs on
// several machines do not have, and there two servers would write one file.

// What a file system is called that machines share, by its number (statfs(2)).
[[nodiscard]] std::optional<std::string_view> network_file_system(uint32_t magic);

// kUnsupported: other machines may write there, too. What can't be looked at is fine: opening it
// says why not.
[[nodiscard]] Result<> check_is_local(const std::string& path);

}  // namespace vram::history
