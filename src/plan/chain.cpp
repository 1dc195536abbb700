#include "plan/chain.hpp"

#include "base/json.hpp"
#include "base/text.hpp"

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

namespace vram::plan {
namespace {

struct NamedValue {
  std::string_view name;
  uint64_t value;
};

Result<> check_limit(const std::string& where, uint64_t limit,
                     std::initializer_list<NamedValue> values) {
  for (const NamedValue& each : values) {
    if (each.value > limit)
      return fail(Code::kTooLarge, "{}: {} is {}; the limit is {}", where, each.name, each.value,
                  limit);
  }
  return {};
}

Result<> check_contains(const std::string& where, NamedValue peak, NamedValue part) {
  if (peak.value >= part.value) return {};
  return fail(Code::kBadInput,
              "{}: {} is {}, less than {} ({}); a peak includes everything that the stage has then",
              where, peak.name, peak.value, part.name, part.value);
}

std::string name_of(const Chain& chain, size_t index) {
  const std::string& name = chain.stages[index].name;
  return name.empty() ? fmt::format("stage {}", index)
                      : fmt::format("stage {} ({})", index, printable(name));
}

Result<> check_option(const Chain& chain, size_t index, const Option& option) {
  const Stage& stage = chain.stages[index];
  const uint64_t input_gradient =
      index == 0 ? chain.input_gradient_bytes : chain.stages[index - 1].gradient_bytes;
  const std::string where =
      fmt::format("{}, option '{}'", name_of(chain, index), printable(option.name));
  const NamedValue backward_peak{"backward_peak_bytes", option.backward_peak_bytes};
  return check_limit(where, kMaxStageBytes,
                     {{"kept_bytes", option.kept_bytes},
                      {"forward_peak_bytes", option.forward_peak_bytes},
                      {"backward_peak_bytes", option.backward_peak_bytes},
                      {"offloaded_bytes", option.offloaded_bytes}})
      .and_then([&] {
        return check_limit(where, kMaxDurationNs,
                           {{"forward_ns", option.forward_ns},
                            {"backward_ns", option.backward_ns},
                            {"offload_ns", option.offload_ns},
                            {"fetch_ns", option.fetch_ns}});
      })
      .and_then([&] {
        return check_contains(where, {"kept_bytes", option.kept_bytes},
                              {"output_bytes", stage.output_bytes});
      })
      .and_then([&] {
        return check_contains(
            where, {"forward_peak_bytes", option.forward_peak_bytes},
            {tr("kept_bytes plus offloaded_bytes"), option.kept_bytes + option.offloaded_bytes});
      })
      .and_then([&] {
        return check_contains(where, backward_peak, {"gradient_bytes", stage.gradient_bytes});
      })
      .and_then([&] {
        return check_contains(where, backward_peak,
                              {tr("the gradients of its input and its parameters"),
                               input_gradient + stage.parameter_gradient_bytes});
      });
}

Result<> check_stage(const Chain& chain, size_t index) {
  const Stage& stage = chain.stages[index];
  const std::string where = name_of(chain, index);
  if (stage.options.empty() || stage.options.size() > kMaxOptions)
    return fail(Code::kBadInput, "{} has {} options; expected 1 to {}", where, stage.options.size(),
                kMaxOptions);
  Result<> result =
      check_limit(where, kMaxStageBytes,
                  {{"output_bytes", stage.output_bytes},
                   {"gradient_bytes", stage.gradient_bytes},
                   {"parameter_gradient_bytes", stage.parameter_gradient_bytes},
                   {"forward_peak_bytes", stage.forward_peak_bytes}})
          .and_then([&] {
            return check_limit(where, kMaxDurationNs, {{"forward_ns", stage.forward_ns}});
          })
          .and_then([&] {
            return check_contains(where, {"forward_peak_bytes", stage.forward_peak_bytes},
                                  {"output_bytes", stage.output_bytes});
          });
  for (size_t i = 0; result && i < stage.options.size(); ++i)
    result = check_option(chain, index, stage.options[i]);
  return result;
}

constexpr std::string_view kSchema = "vram.chain/1";

// Reads one object. Remembers the first error, so that a reader can read all fields first.
class Fields {
 public:
  Fields(const Json& json, std::string where) : json_(json), where_(std::move(where)) {
    if (!json.is_object()) refuse(tr_later("expected an object, found {}"), json.type_name());
  }

  std::optional<uint64_t> number(const char* key) {
    const Json* value = find(key);
    if (value == nullptr) return std::nullopt;
    if (value->is_number_unsigned()) return value->get<uint64_t>();
    refuse(tr_later("{} must be an integer of at least 0, found {}"), key,
           printable(value->dump().substr(0, 40)));
    return std::nullopt;
  }
  uint64_t required_number(const char* key) {
    if (find(key) == nullptr) refuse(tr_later("{} is missing"), key);
    return number(key).value_or(0);
  }
  std::string text(const char* key) {
    const Json* value = find(key);
    if (value == nullptr) return {};
    if (!value->is_string())
      refuse(tr_later("{} must be a text, found {}"), key, value->type_name());
    return value->is_string() ? value->get<std::string>() : std::string();
  }
  // Empty if it is absent or no array.
  const Json& array(const char* key) {
    static const Json kNone = Json::array();
    const Json* value = find(key);
    if (value != nullptr && value->is_array()) return *value;
    refuse(tr_later("{} must be an array"), key);
    return kNone;
  }

  // After the last field: the first error, which may be a key that was not read.
  Result<> finish() {
    if (json_.is_object()) {
      for (const auto& [key, value] : json_.items()) {
        if (std::ranges::find(read_, key) == read_.end())
          refuse(tr_later("unknown key \"{}\""), printable(key));
      }
    }
    if (error_) return tl::unexpected(std::move(*error_));
    return {};
  }

 private:
  const Json* find(const char* key) {
    read_.emplace_back(key);
    const auto found = json_.is_object() ? json_.find(key) : json_.end();
    return found == json_.end() ? nullptr : &*found;
  }
  template <typename... Args>
  void refuse(fmt::format_string<Args...> format, Args&&... args) {
    if (error_) return;
    error_ = Error{Code::kBadInput, where_ + ": " + trf(format, std::forward<Args>(args)...)};
  }

  const Json& json_;
  std::string where_;
  std::vector<std::string> read_;
  std::optional<Error> error_;
};

Result<Option> read_option(const Json& json, const std::string& where, const Stage& stage,
                           uint64_t input_gradient_bytes) {
  Fields fields(json, where);
  Option option;
  option.name = fields.text("name");
  option.kept_bytes = fields.required_number("kept_bytes");
  option.forward_ns = fields.number("forward_ns").value_or(stage.forward_ns);
  option.backward_ns = fields.required_number("backward_ns");
  option.offloaded_bytes = fields.number("offloaded_bytes").value_or(0);
  option.offload_ns = fields.number("offload_ns").value_or(0);
  option.fetch_ns = fields.number("fetch_ns").value_or(0);
  const uint64_t tape_bytes = option.kept_bytes + option.offloaded_bytes;
  option.forward_peak_bytes = fields.number("forward_peak_bytes").value_or(tape_bytes);
  option.backward_peak_bytes = fields.number("backward_peak_bytes")
                                   .value_or(tape_bytes + stage.gradient_bytes +
                                             input_gradient_bytes + stage.parameter_gradient_bytes);
  return fields.finish().map([&] { return option; });
}

Result<Stage> read_stage(const Json& json, size_t index, uint64_t input_gradient_bytes) {
  const std::string where = fmt::format("stages[{}]", index);
  Fields fields(json, where);
  Stage stage;
  stage.name = fields.text("name");
  stage.output_bytes = fields.required_number("output_bytes");
  stage.gradient_bytes = fields.number("gradient_bytes").value_or(stage.output_bytes);
  stage.parameter_gradient_bytes = fields.number("parameter_gradient_bytes").value_or(0);
  stage.forward_ns = fields.required_number("forward_ns");
  stage.forward_peak_bytes = fields.number("forward_peak_bytes").value_or(stage.output_bytes);
  const Json& options = fields.array("options");
  if (Result<> read = fields.finish(); !read) return tl::unexpected(std::move(read.error()));
  for (const Json& each : options) {
    Result<Option> option =
        read_option(each, fmt::format("{}.options[{}]", where, stage.options.size()), stage,
                    input_gradient_bytes);
    if (!option) return tl::unexpected(std::move(option.error()));
    stage.options.push_back(std::move(*option));
  }
  return stage;
}

Result<Chain> read_chain(const Json& json) {
  Fields fields(json, "chain");
  const std::string schema = fields.text("schema");
  if (json.is_object() && schema != kSchema)
    return fail(Code::kUnsupported, "chain: schema is \"{}\"; expected \"{}\"", printable(schema),
                kSchema);
  Chain chain;
  chain.fixed_bytes = fields.number("fixed_bytes").value_or(0);
  chain.input_bytes = fields.number("input_bytes").value_or(0);
  chain.input_gradient_bytes = fields.number("input_gradient_bytes").value_or(0);
  const Json& stages = fields.array("stages");
  if (Result<> read = fields.finish(); !read) return tl::unexpected(std::move(read.error()));
  uint64_t input_gradient_bytes = chain.input_gradient_bytes;
  for (const Json& each : stages) {
    Result<Stage> stage = read_stage(each, chain.stages.size(), input_gradient_bytes);
    if (!stage) return tl::unexpected(std::move(stage.error()));
    input_gradient_bytes = stage->gradient_bytes;
    chain.stages.push_back(std::move(*stage));
  }
  return check(chain).map([&] { return std::move(chain); });
}

Json option_object(const Option& option) {
  return {{"name", printable(option.name)},
          {"kept_bytes", option.kept_bytes},
          {"forward_ns", option.forward_ns},
          {"backward_ns", option.backward_ns},
          {"forward_peak_bytes", option.forward_peak_bytes},
          {"backward_peak_bytes", option.backward_peak_bytes},
          {"offloaded_bytes", option.offloaded_bytes},
          {"offload_ns", option.offload_ns},
          {"fetch_ns", option.fetch_ns}};
}

}  // namespace

uint64_t option_ns(const Option& option) {
  return option.forward_ns + option.backward_ns + option.offload_ns + option.fetch_ns;
}

uint32_t fastest_option(const Stage& stage) {
  const auto fastest = std::ranges::min_element(stage.options, {}, [](const Option& option) {
    return std::tuple(option_ns(option), option.kept_bytes);
  });
  return static_cast<uint32_t>(fastest - stage.options.begin());
}

Result<> check(const Chain& chain) {
  if (chain.stages.empty() || chain.stages.size() > kMaxStages)
    return fail(Code::kBadInput,
                "the chain has {} stages; expected 1 to {}: merge neighbouring stages",
                chain.stages.size(), kMaxStages);
  Result<> result = check_limit("chain", kMaxStageBytes,
                                {{"fixed_bytes", chain.fixed_bytes},
                                 {"input_bytes", chain.input_bytes},
                                 {"input_gradient_bytes", chain.input_gradient_bytes}});
  for (size_t i = 0; result && i < chain.stages.size(); ++i) result = check_stage(chain, i);
  return result;
}

Result<Chain> parse_chain(std::string_view json) {
  try {
    return read_chain(Json::parse(json));
  } catch (const Json::parse_error& error) {
    return fail(Code::kBadInput, "the chain is not valid JSON at byte {}; expected {}", error.byte,
                kSchema);
  }
}

std::string chain_json(const Chain& chain) {
  Json stages = Json::array();
  for (const Stage& stage : chain.stages) {
    Json options = Json::array();
    for (const Option& option : stage.options) options.push_back(option_object(option));
    stages.push_back({{"name", printable(stage.name)},
                      {"output_bytes", stage.output_bytes},
                      {"gradient_bytes", stage.gradient_bytes},
                      {"parameter_gradient_bytes", stage.parameter_gradient_bytes},
                      {"forward_ns", stage.forward_ns},
                      {"forward_peak_bytes", stage.forward_peak_bytes},
                      {"options", std::move(options)}});
  }
  const Json document = {{"schema", kSchema},
                         {"fixed_bytes", chain.fixed_bytes},
                         {"input_bytes", chain.input_bytes},
                         {"input_gradient_bytes", chain.input_gradient_bytes},
                         {"stages", std::move(stages)}};
  return document.dump(2) + "\n";
}

}  // namespace vram::plan
