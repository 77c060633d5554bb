#include "core/check.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>

namespace costate {

void CheckFinite(const mjModel* model, const char* what, ConstVectorRef values,
                 std::vector<std::string> (*names)(const mjModel*), const std::string& where) {
  for (int i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i])) continue;
    throw Error(ErrorCode::kInvalidArgument, fmt::format("{} is not finite: {}{} is {} (model '{}')", what,
                                                         names(model)[i], where, values[i], ModelName(model)));
  }
}

// Data holds the signature of the compiled model that it was made for. Models compiled apart may still be alike, as two
// that were read from one file: the size of the buffers tells.
void CheckData(const mjModel* model, const mjData* data) {
  NotNull(model);
  if (data == nullptr) throw Error(ErrorCode::kInvalidArgument, "the data is NULL");
  if (data->signature == model->signature) return;
  static thread_local std::uint64_t alike[2];  // the last pair that is: making data takes long
  if (alike[0] == model->signature && alike[1] == data->signature) return;
  const mjtSize bytes = MakeData(model)->nbuffer;
  if (data->nbuffer != bytes) {
    throw Error(ErrorCode::kInvalidArgument, "the data was made for another model: it has " +
                                                 std::to_string(data->nbuffer) + " bytes, data of model '" +
                                                 ModelName(model) + "' has " + std::to_string(bytes));
  }
  alike[0] = model->signature;
  alike[1] = data->signature;
}

}  // namespace costate
