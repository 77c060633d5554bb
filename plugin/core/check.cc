#include "core/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>

#include "core/collision_filter.h"
#include "core/option_words.h"

namespace costate {

void CheckFinite(const mjModel* model, const char* what, ConstVectorRef values,
                 std::vector<std::string> (*names)(const mjModel*), const std::string& where) {
  for (int i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i])) continue;
    throw Error(ErrorCode::kInvalidArgument, fmt::format("{} is not finite: {}{} is {} (model '{}')", what,
                                                         names(model)[i], where, values[i], ModelName(model)));
  }
}

namespace {

constexpr int kMostPassive = 3;  // condim of a passive contact that mj_effBuild of 4.0.1 survives

// passive contact is that of a flex with another, with itself or with what cannot move; a plane meets single vertices
void CheckPassiveContacts(const mjModel* m) {
  const auto check = [m](int f, int object, int id, int condim, int priority) {
    const int own = m->flex_priority[f];
    const int most = own == priority  ? std::max(m->flex_condim[f], condim)
                     : own > priority ? m->flex_condim[f]
                                      : condim;
    if (most <= kMostPassive) return;
    throw Error(
        ErrorCode::kUnsupported,
        fmt::format("flex '{}' has passive contact of condim {} with '{}', at which MuJoCo {} crashes: give both "
                    "condim=\"1\", since passive contact has no friction (model '{}')",
                    ElementName(m, mjOBJ_FLEX, f), most, ElementName(m, object, id), mj_versionString(), ModelName(m)));
  };
  for (int f = 0; f < m->nflex; f++) {
    if (!m->flex_passive[f]) continue;
    for (int g = 0; g < m->ngeom; g++) {
      const bool moves = m->body_weldid[m->geom_bodyid[g]] != 0;
      if (moves || !FlexMayTouchGeom(m, f, g) || (m->geom_type[g] == mjGEOM_PLANE && !m->flex_interp[f])) continue;
      check(f, mjOBJ_GEOM, g, m->geom_condim[g], m->geom_priority[g]);
    }
    for (int other = 0; other < m->nflex; other++) {
      if (FlexesMayTouch(m, f, other)) check(f, mjOBJ_FLEX, other, m->flex_condim[other], m->flex_priority[other]);
    }
  }
}

}  // namespace

void CheckModelOptions(const mjModel* model) {
  const mjOption& o = NotNull(model)->opt;
  const auto fail = [&](const std::string& text) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("opt.{} (model '{}')", text, ModelName(model)));
  };
  if (!(o.timestep > 0) || !std::isfinite(o.timestep))
    fail(fmt::format("timestep is {:g} s, expected a finite number above 0", o.timestep));
  const auto word = [&](const char* name, int value, const auto& words) {
    const int count = static_cast<int>(std::size(words));
    if (value < 0 || value >= count) fail(fmt::format("{} is {}, expected 0 … {}", name, value, count - 1));
  };
  word("integrator", o.integrator, kIntegratorWords);
  word("cone", o.cone, kConeWords);
  word("solver", o.solver, kSolverWords);
  word("jacobian", o.jacobian, kJacobianWords);
  if (o.integrator == mjINT_DISCRETE && !(o.disableflags & mjDSBL_CONTACT)) CheckPassiveContacts(model);
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
