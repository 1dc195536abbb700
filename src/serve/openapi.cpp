#include "serve/openapi.hpp"

#include "base/json.hpp"
#include "base/result.hpp"
#include "watch/figures/figure.hpp"

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vram::serve {
namespace {

namespace figures = watch::figures;
using Schema = Json;

Schema reference(std::string_view schema) {
  return {{"$ref", fmt::format("#/components/schemas/{}", schema)}};
}

Schema list_of(Schema items) { return {{"type", "array"}, {"items", std::move(items)}}; }

Schema or_null(Schema schema, bool may_be_null) {
  if (!may_be_null) return schema;
  if (schema.contains("type") && schema["type"] != "array")
    schema["type"] = Schema::array({schema["type"], "null"});
  else
    schema = {{"oneOf", Schema::array({std::move(schema), {{"type", "null"}}})}};
  return schema;
}

Schema schema_of(figures::Shape shape) {
  switch (shape) {
    case figures::Shape::kFlag:
      return {{"type", "boolean"}};
    case figures::Shape::kCount:
      return {{"type", "integer"}, {"minimum", 0}};
    case figures::Shape::kSigned:
      return {{"type", "integer"}};
    case figures::Shape::kRatio:
      return {{"type", "number"}};
    case figures::Shape::kTexts:
      return list_of({{"type", "string"}});
    case figures::Shape::kInstances:
      return list_of(reference(figures::type_of<gpu::MigInstance>().schema));
    case figures::Shape::kFaults:
      return list_of(reference(figures::type_of<watch::XidCount>().schema));
    case figures::Shape::kUses:
      return list_of(reference(figures::type_of<watch::Use>().schema));
    case figures::Shape::kUnknown:
    case figures::Shape::kText:
      break;
  }
  return {{"type", "string"}};
}

template <typename T>
Schema schema_of(const figures::Figure<T>& figure) {
  if (!figure.words.empty())
    return {{"enum", std::vector(figure.words.begin(), figure.words.end())}};
  return or_null(schema_of(figure.value.shape), figure.value.is_optional);
}

Schema object_schema(std::string_view description, Schema properties) {
  Schema required = Schema::array();
  for (const auto& property : properties.items()) required.push_back(property.key());
  return {{"type", "object"},
          {"description", description},
          {"properties", std::move(properties)},
          {"required", std::move(required)}};
}

// The schemas of a type's objects and of the objects in them, by name.
template <typename T>
void add_schemas(Schema& schemas) {
  Schema properties = Schema::object();
  Schema parts = Schema::object();
  for (const figures::Figure<T>& figure : figures::figures_of<T>()) {
    if (figure.key.empty()) continue;
    if (figure.in == nullptr) {
      properties[figure.key] = schema_of(figure);
      continue;
    }
    const figures::Group<T>& part = *figure.in;
    properties[part.key] = or_null(reference(part.type->schema), part.is_known != nullptr);
    parts[part.type->schema][figure.key] = schema_of(figure);
    schemas[part.type->schema] = object_schema(part.type->description, parts[part.type->schema]);
  }
  const figures::ObjectType& type = figures::type_of<T>();
  schemas[type.schema] = object_schema(type.description, std::move(properties));
}

std::string indented(const Schema& schema) {
  constexpr std::string_view kDepth = "      ";
  std::string text;
  for (const char each : schema.dump(2)) {
    text += each;
    if (each == '\n') text += kDepth;
  }
  return text;
}

}  // namespace

std::string openapi_json() {
  Schema schemas = Schema::object();
  add_schemas<watch::Device>(schemas);
  add_schemas<gpu::MigInstance>(schemas);
  add_schemas<watch::XidCount>(schemas);
  add_schemas<watch::Process>(schemas);
  add_schemas<watch::Use>(schemas);
  std::string text(openapi_template());
  for (const auto& [name, schema] : schemas.items()) {
    const std::string empty = fmt::format("\"{}\": {{}}", name);
    const size_t place = text.find(empty);
    VRAM_CHECK(place != std::string::npos);  // openapi.json says where the schema stands
    text.replace(place, empty.size(), fmt::format("\"{}\": {}", name, indented(schema)));
  }
  return text;
}

}  // namespace vram::serve
