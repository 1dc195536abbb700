#include "reports/table.hpp"

#include "base/result.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <exception>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <utility>

namespace vram::reports {
namespace {

// Releases what consumers have not moved elsewhere; a moved struct has no `release`.
template <typename Exported>
void release_parts(std::vector<Exported>& columns, Exported& dictionary) {
  for (Exported& column : columns) {
    if (column.release != nullptr) column.release(&column);
  }
  if (dictionary.release != nullptr) dictionary.release(&dictionary);
}

// What one exported ArrowSchema refers to.
struct SchemaData {
  std::string name;
  std::vector<ArrowSchema> columns;
  std::vector<ArrowSchema*> children;
  ArrowSchema dictionary = {};

  SchemaData() = default;
  SchemaData(const SchemaData&) = delete;
  SchemaData& operator=(const SchemaData&) = delete;
  ~SchemaData() { release_parts(columns, dictionary); }
};

// What one exported ArrowArray refers to.
struct ArrayData {
  std::shared_ptr<const Array> array;
  std::vector<const void*> buffers;
  std::vector<ArrowArray> columns;
  std::vector<ArrowArray*> children;
  ArrowArray dictionary = {};

  ArrayData() = default;
  ArrayData(const ArrayData&) = delete;
  ArrayData& operator=(const ArrayData&) = delete;
  ~ArrayData() { release_parts(columns, dictionary); }
};

template <typename Data, typename Exported>
void release_exported(Exported* exported) {
  const std::unique_ptr<Data> released(static_cast<Data*>(exported->private_data));
  exported->release = nullptr;
}

template <typename Data>
void point_at_children(Data& data) {
  for (auto& column : data.columns) data.children.push_back(&column);
}

void export_schema(std::unique_ptr<SchemaData> data, const char* format, bool is_nullable,
                   ArrowSchema* out) {
  point_at_children(*data);
  *out = {.format = format,
          .name = data->name.c_str(),
          .metadata = nullptr,
          .flags = is_nullable ? ARROW_FLAG_NULLABLE : 0,
          .n_children = static_cast<int64_t>(data->children.size()),
          .children = data->children.data(),
          .dictionary = data->dictionary.release != nullptr ? &data->dictionary : nullptr,
          .release = release_exported<SchemaData, ArrowSchema>,
          .private_data = nullptr};
  out->private_data = data.release();
}

void export_column_schema(const Column& column, ArrowSchema* out) {
  auto data = std::make_unique<SchemaData>();
  data->name = column.name;
  if (column.array->dictionary != nullptr) {
    export_schema(std::make_unique<SchemaData>(), Values<std::string_view>::kFormat, false,
                  &data->dictionary);
  }
  export_schema(std::move(data), column.format, column.is_nullable, out);
}

void export_table_schema(const Batch& batch, ArrowSchema* out) {
  auto data = std::make_unique<SchemaData>();
  data->columns.resize(batch.columns().size());
  for (size_t i = 0; i < data->columns.size(); ++i)
    export_column_schema(batch.columns()[i], &data->columns[i]);
  export_schema(std::move(data), "+s", false, out);
}

void export_array(std::unique_ptr<ArrayData> data, ArrowArray* out) {
  point_at_children(*data);
  const Array& array = *data->array;
  for (const auto& buffer : array.buffers) data->buffers.push_back(buffer.get());
  if (array.dictionary != nullptr) {
    auto dictionary = std::make_unique<ArrayData>();
    dictionary->array = array.dictionary;
    export_array(std::move(dictionary), &data->dictionary);
  }
  *out = {.length = static_cast<int64_t>(array.length),
          .null_count = static_cast<int64_t>(array.null_count),
          .offset = 0,
          .n_buffers = static_cast<int64_t>(data->buffers.size()),
          .n_children = static_cast<int64_t>(data->children.size()),
          .buffers = data->buffers.data(),
          .children = data->children.data(),
          .dictionary = data->dictionary.release != nullptr ? &data->dictionary : nullptr,
          .release = release_exported<ArrayData, ArrowArray>,
          .private_data = nullptr};
  out->private_data = data.release();
}

void export_batch(const Batch& batch, ArrowArray* out) {
  auto data = std::make_unique<ArrayData>();
  data->array = std::make_shared<const Array>(
      Array{.length = batch.rows(), .null_count = 0, .buffers = {nullptr}, .dictionary = nullptr});
  data->columns.resize(batch.columns().size());
  for (size_t i = 0; i < data->columns.size(); ++i) {
    auto column = std::make_unique<ArrayData>();
    column->array = batch.columns()[i].array;
    export_array(std::move(column), &data->columns[i]);
  }
  export_array(std::move(data), out);
}

// The state of a stream: which rows come next.
class Reader {
 public:
  explicit Reader(Table table) : table_(std::move(table)) { VRAM_CHECK(!table_.parts.empty()); }

  void schema(ArrowSchema* out) { export_table_schema(table_.parts.front().make(0, 0), out); }
  void next(ArrowArray* out) {
    while (part_ < table_.parts.size() && row_ == table_.parts[part_].rows) {
      ++part_;
      row_ = 0;
    }
    if (part_ == table_.parts.size()) {
      out->release = nullptr;
      return;
    }
    const Part& part = table_.parts[part_];
    const uint64_t count = std::min(part.rows - row_, kMaxBatchRows);
    export_batch(part.make(row_, count), out);
    row_ += count;
  }

  // Runs `body`. Exceptions become errno values, as consumers are not C++.
  template <typename Body>
  int answer(Body&& body) noexcept {
    try {
      body();
      return 0;
    } catch (const std::bad_alloc&) {
      error_ = "vram: not enough memory for the rows of a table";
      return ENOMEM;
    } catch (const std::exception&) {
      error_ = "vram: the rows of a table could not be made";
      return EIO;
    }
  }
  [[nodiscard]] const char* error() const { return error_; }

 private:
  Table table_;
  size_t part_ = 0;
  uint64_t row_ = 0;
  const char* error_ = nullptr;
};

Reader& reader(ArrowArrayStream* stream) { return *static_cast<Reader*>(stream->private_data); }

int get_schema(ArrowArrayStream* stream, ArrowSchema* out) {
  return reader(stream).answer([&] { reader(stream).schema(out); });
}
int get_next(ArrowArrayStream* stream, ArrowArray* out) {
  return reader(stream).answer([&] { reader(stream).next(out); });
}
const char* get_last_error(ArrowArrayStream* stream) { return reader(stream).error(); }
void release_stream(ArrowArrayStream* stream) {
  const std::unique_ptr<Reader> released(&reader(stream));
  stream->release = nullptr;
}

}  // namespace

void export_stream(Table table, ArrowArrayStream* stream) {
  *stream = {.get_schema = get_schema,
             .get_next = get_next,
             .get_last_error = get_last_error,
             .release = release_stream,
             .private_data = std::make_unique<Reader>(std::move(table)).release()};
}

}  // namespace vram::reports
