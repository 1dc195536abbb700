#include "cli/plan_request.hpp"

namespace vram::cli {

Result<int> plan_model(const PlanRequest& request, std::string_view /*config*/,
                       Console& /*console*/) {
  return fail(Code::kUnsupported,
              "{}: is the configuration of a model, which vram plan cannot read yet; run one step "
              "with python -m vram.dry and plan its trace",
              request.input);
}

}  // namespace vram::cli
