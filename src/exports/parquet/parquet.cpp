// Tables as Parquet files: a row group for each batch of a table, each column compressed with zstd,
// and the footer with the schema. Numbers of fields are those of parquet.thrift.
#include "base/export_marks.hpp"
#include "exports/export_file.hpp"
#include "exports/exports.hpp"
#include "exports/parquet/columns.hpp"
#include "exports/parquet/thrift.hpp"
#include "reports/table.hpp"

#include <zstd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

namespace vram::exports {
namespace {

using reports::Batch;
using reports::Column;

constexpr int32_t kZstd = 6;
constexpr int kZstdLevel = 3;

// The format's sizes of pages have 32 bits.
constexpr uint64_t kMaxPageBytes = INT32_MAX;

struct Chunk {
  int32_t type = 0;
  int64_t values = 0;
  int64_t dictionary_at = -1;
  int64_t data_at = 0;
  int64_t plain_bytes = 0;
  int64_t packed_bytes = 0;
};

struct RowGroup {
  std::vector<Chunk> chunks;
  int64_t rows = 0;
};

struct SchemaColumn {
  std::string name;
  ParquetType type = ParquetType::kBytes;
  bool is_nullable = false;
  bool is_unsigned = false;
};

class ParquetWriter {
 public:
  explicit ParquetWriter(ExportFile& file) : file_(file) { file_.text() += kParquetEnd; }

  [[nodiscard]] Result<> add(const Batch& batch) {
    if (schema_.empty()) describe(batch);
    RowGroup group;
    group.rows = static_cast<int64_t>(batch.rows());
    for (const Column& column : batch.columns()) {
      VRAM_TRY_ASSIGN(const Chunk chunk, write_chunk(column));
      group.chunks.push_back(chunk);
    }
    rows_ += group.rows;
    groups_.push_back(std::move(group));
    return {};
  }
  // The schema of a table without rows comes from a batch without rows.
  void describe(const Batch& batch) {
    for (const Column& column : batch.columns()) {
      const bool is_number = column.array->dictionary == nullptr;
      schema_.push_back({column.name, parquet_type(column), column.is_nullable,
                         is_number && (column.format[0] == 'I' || column.format[0] == 'L')});
    }
  }
  void finish();

 private:
  [[nodiscard]] Result<Chunk> write_chunk(const Column& column);
  [[nodiscard]] Result<> write_page(ParquetPage kind, const Page& page, ParquetEncoding encoding,
                                    Chunk& chunk);
  void write_schema(std::string& out) const;
  void write_groups(std::string& out) const;
  void write_chunk_metadata(std::string& out, const RowGroup& group, size_t column) const;

  ExportFile& file_;
  std::vector<SchemaColumn> schema_;
  std::vector<RowGroup> groups_;
  int64_t rows_ = 0;
};

Result<> ParquetWriter::write_page(ParquetPage kind, const Page& page, ParquetEncoding encoding,
                                   Chunk& chunk) {
  std::string packed(ZSTD_compressBound(page.bytes.size()), '\0');
  const size_t size =
      ZSTD_compress(packed.data(), packed.size(), page.bytes.data(), page.bytes.size(), kZstdLevel);
  if (page.bytes.size() > kMaxPageBytes || ZSTD_isError(size) != 0 || size > kMaxPageBytes)
    return fail(Code::kTooLarge,
                "a column has more than 2 GiB of text in 262,144 rows: export the "
                "table without its stacks as .csv or .jsonl");
  std::string& out = file_.text();
  const uint64_t begin = file_.bytes_so_far();
  {
    ThriftStruct header(out);
    header.add_i32(1, static_cast<int32_t>(kind));
    header.add_i32(2, static_cast<int32_t>(page.bytes.size()));
    header.add_i32(3, static_cast<int32_t>(size));
    const bool is_data = kind == ParquetPage::kData;
    header.add_struct(is_data ? 5 : 7);
    ThriftStruct own(out);
    own.add_i32(1, page.values);
    own.add_i32(2, static_cast<int32_t>(encoding));
    if (is_data) {
      own.add_i32(3, static_cast<int32_t>(ParquetEncoding::kRle));  // of definition levels
      own.add_i32(4, static_cast<int32_t>(ParquetEncoding::kRle));  // of repetition levels
    }
  }
  const auto header_bytes = static_cast<int64_t>(file_.bytes_so_far() - begin);
  out.append(packed.data(), size);
  chunk.plain_bytes += header_bytes + static_cast<int64_t>(page.bytes.size());
  chunk.packed_bytes += header_bytes + static_cast<int64_t>(size);
  file_.flush_if_large();
  return {};
}

Result<Chunk> ParquetWriter::write_chunk(const Column& column) {
  const ColumnPages pages = make_pages(column);
  Chunk chunk;
  chunk.type = static_cast<int32_t>(parquet_type(column));
  chunk.values = pages.data.values;
  if (pages.has_dictionary) {
    chunk.dictionary_at = static_cast<int64_t>(file_.bytes_so_far());
    VRAM_TRY(
        write_page(ParquetPage::kDictionary, pages.dictionary, ParquetEncoding::kPlain, chunk));
  }
  chunk.data_at = static_cast<int64_t>(file_.bytes_so_far());
  VRAM_TRY(write_page(
      ParquetPage::kData, pages.data,
      pages.has_dictionary ? ParquetEncoding::kRleDictionary : ParquetEncoding::kPlain, chunk));
  return chunk;
}

// A root with the columns as its children.
void ParquetWriter::write_schema(std::string& out) const {
  {
    ThriftStruct root(out);
    root.add_text(4, "schema");
    root.add_i32(5, static_cast<int32_t>(schema_.size()));
  }
  for (const SchemaColumn& column : schema_) {
    ThriftStruct element(out);
    element.add_i32(1, static_cast<int32_t>(column.type));
    element.add_i32(3, column.is_nullable ? 1 : 0);  // optional, or required
    element.add_text(4, column.name);
    constexpr int32_t kUtf8 = 0;
    constexpr int32_t kUint32 = 13;
    constexpr int32_t kUint64 = 14;
    const bool is_text = column.type == ParquetType::kBytes;
    if (!is_text && !column.is_unsigned) continue;
    const bool is_wide = column.type == ParquetType::kInt64;
    element.add_i32(6, is_text ? kUtf8 : is_wide ? kUint64 : kUint32);
    element.add_struct(10);  // the same as a logical type
    ThriftStruct logical(out);
    logical.add_struct(is_text ? 1 : 10);
    ThriftStruct type(out);
    if (is_text) continue;
    type.add_i8(1, is_wide ? 64 : 32);
    type.add_bool(2, false);  // is it signed?
  }
}

void ParquetWriter::write_chunk_metadata(std::string& out, const RowGroup& group,
                                         size_t column) const {
  const Chunk& chunk = group.chunks[column];
  ThriftStruct entry(out);
  entry.add_i64(2, chunk.data_at);
  entry.add_struct(3);
  ThriftStruct metadata(out);
  metadata.add_i32(1, chunk.type);
  const bool has_dictionary = chunk.dictionary_at >= 0;
  metadata.add_list(2, ThriftType::kI32, has_dictionary ? 3 : 2);
  ThriftStruct::append_signed(out, static_cast<int32_t>(ParquetEncoding::kPlain));
  ThriftStruct::append_signed(out, static_cast<int32_t>(ParquetEncoding::kRle));
  if (has_dictionary)
    ThriftStruct::append_signed(out, static_cast<int32_t>(ParquetEncoding::kRleDictionary));
  metadata.add_list(3, ThriftType::kText, 1);
  ThriftStruct::append_text(out, schema_[column].name);
  metadata.add_i32(4, kZstd);
  metadata.add_i64(5, chunk.values);
  metadata.add_i64(6, chunk.plain_bytes);
  metadata.add_i64(7, chunk.packed_bytes);
  metadata.add_i64(9, chunk.data_at);
  if (has_dictionary) metadata.add_i64(11, chunk.dictionary_at);
}

void ParquetWriter::write_groups(std::string& out) const {
  for (const RowGroup& group : groups_) {
    ThriftStruct entry(out);
    entry.add_list(1, ThriftType::kStruct, group.chunks.size());
    int64_t plain_bytes = 0;
    for (size_t column = 0; column < group.chunks.size(); ++column) {
      write_chunk_metadata(out, group, column);
      plain_bytes += group.chunks[column].plain_bytes;
    }
    entry.add_i64(2, plain_bytes);
    entry.add_i64(3, group.rows);
  }
}

void ParquetWriter::finish() {
  std::string footer;
  {
    ThriftStruct metadata(footer);
    metadata.add_i32(1, 2);  // the version of the format
    metadata.add_list(2, ThriftType::kStruct, schema_.size() + 1);
    write_schema(footer);
    metadata.add_i64(3, rows_);
    metadata.add_list(4, ThriftType::kStruct, groups_.size());
    write_groups(footer);
    metadata.add_text(6, std::string(kParquetWriter).append(VRAM_VERSION));
  }
  std::string& out = file_.text();
  out += footer;
  for (size_t i = 0; i < sizeof(uint32_t); ++i) out += static_cast<char>(footer.size() >> (i * 8));
  out += kParquetEnd;
}

Result<ExportFile> fill_table(const reports::SharedRecording& recording, std::string_view name,
                              const std::string& path, Replace replace) {
  VRAM_TRY_ASSIGN(const auto table, reports::make_table(recording, name));
  VRAM_TRY_ASSIGN(auto file, ExportFile::create(path, replace));
  ParquetWriter writer(file);
  uint64_t rows = 0;
  for (const reports::Part& part : table.parts) {
    for (uint64_t first = 0; first < part.rows; first += reports::kMaxBatchRows) {
      const uint64_t count = std::min(part.rows - first, reports::kMaxBatchRows);
      VRAM_TRY(writer.add(part.make(first, count)));
      rows += count;
    }
  }
  if (rows == 0) writer.describe(table.parts.front().make(0, 0));
  writer.finish();
  return file;
}

constexpr std::array<std::string_view, 5> kDefaultTables = {"runs", "devices", "steps", "holders",
                                                            "findings"};

}  // namespace

std::span<const std::string_view> default_tables() { return kDefaultTables; }

Result<> write_parquet_table(const reports::SharedRecording& recording, std::string_view table,
                             const std::string& path, Replace replace) {
  VRAM_TRY_ASSIGN(auto file, fill_table(recording, table, path, replace));
  return file.commit();
}

Result<> write_parquet_tables(const reports::SharedRecording& recording,
                              std::span<const std::string_view> tables, const std::string& folder,
                              Replace replace) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return fail(Code::kIo, "cannot create the folder {}: {}", folder, error.message());
  std::vector<ExportFile> files;
  for (const std::string_view table : tables) {
    const std::string path = (std::filesystem::path(folder) / table).string() + ".parquet";
    VRAM_TRY_ASSIGN(auto file, fill_table(recording, table, path, replace));
    files.push_back(std::move(file));
  }
  for (ExportFile& file : files) VRAM_TRY(file.commit());
  return {};
}

}  // namespace vram::exports
