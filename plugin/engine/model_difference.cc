#include "engine/model_difference.h"

#include <costate/model.h>
#include <fmt/format.h>
#include <mujoco/mjxmacro.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <vector>

#include "core/extremes.h"
#include "core/model_arrays.h"
#include "parameter/field.h"

namespace costate {
namespace {

// below this share of the tolerance a number is rounding of 0
constexpr double kFloor = 1e-6;

// what no motion depends on, and numbers of this process
bool IsPhysics(const std::string& array) {
  if (array == "plugin" || array == "names" || array == "names_map" || array == "paths") return false;
  for (const char* begin : {"cam_", "light_", "skin_", "tex_", "mat_", "name_", "key_", "sensor_", "numeric_", "text_",
                            "tuple_", "mesh_texcoord", "flex_texcoord"}) {
    if (array.starts_with(begin)) return false;
  }
  for (const char* end : {"_user", "_rgba", "_matid", "_group", "_pathadr", "_castshadow"}) {
    if (array.ends_with(end)) return false;
  }
  return true;
}

// made by the compiler from other numbers
bool IsVolume(const std::string& array) {
  return array.starts_with("bvh_") || array.starts_with("oct_") || array.ends_with("_aabb") ||
         array.ends_with("_rbound") || array.ends_with("_sameframe") || array == "body_simple" ||
         array == "dof_simplenum";
}

// neither volume nor made by mj_setConst
bool IsOwn(const std::string& array) {
  const std::vector<Field>& fields = Fields();
  const bool parameter = std::any_of(fields.begin(), fields.end(), [&](const Field& f) { return array == f.array; });
  return IsPhysics(array) && !IsVolume(array) && (parameter || !IsDerived(array));
}

// the row of an array by its element: "knee", "qvel[knee]", "3"
std::string RowName(const mjModel* m, const std::string& array, std::size_t row) {
  constexpr struct {
    const char* prefix;
    int object;
  } kObjects[] = {{"body_", mjOBJ_BODY}, {"jnt_", mjOBJ_JOINT},   {"geom_", mjOBJ_GEOM},    {"site_", mjOBJ_SITE},
                  {"pair_", mjOBJ_PAIR}, {"eq_", mjOBJ_EQUALITY}, {"tendon_", mjOBJ_TENDON}};
  if (array.starts_with("dof_")) return TangentNames(m)[static_cast<std::size_t>(m->nv) + row];
  if (array.starts_with("qpos")) return StateNames(m)[row];
  if (array == "actuator_ctrlrange" || array == "actuator_ctrllimited") return ControlNames(m)[row];
  if (array.starts_with("actuator_") && m->nout == m->nactuator)
    return ElementName(m, mjOBJ_ACTUATOR, static_cast<int>(row));
  for (const auto& known : kObjects) {
    if (array.starts_with(known.prefix)) return ElementName(m, known.object, static_cast<int>(row));
  }
  return fmt::format("row {}", row);
}

template <typename T>
bool Agree(T a, T b, double tolerance, double scale) {
  if (std::memcmp(&a, &b, sizeof(T)) == 0) return true;
  if constexpr (std::is_floating_point_v<T>) {
    return a == b || std::abs(static_cast<double>(a) - static_cast<double>(b)) <= tolerance * (scale + kFloor);
  }
  return false;
}

template <typename T>
std::string Both(const std::string& what, T run, T here) {
  return fmt::format("{} is {} in the run's model, {} here", what, +run, +here);
}

// the first number of an array that differs
template <typename T>
std::string Difference(const mjModel* run, const mjModel* here, const std::string& array, T* mjModel::*member,
                       const ArrayShape& shape, const ArrayShape& other, double tolerance) {
  const std::size_t n = shape.rows * shape.columns, m = other.rows * other.columns;
  if (n != m) return Both("the size of " + array, n, m);
  for (std::size_t row = 0; row < shape.rows; ++row) {
    const T *a = run->*member + row * shape.columns, *b = here->*member + row * shape.columns;
    const double scale = std::max(Largest(a, shape.columns), Largest(b, shape.columns));
    for (std::size_t k = 0; k < shape.columns; ++k) {
      if (Agree(a[k], b[k], tolerance, scale)) continue;
      const std::string index = shape.columns > 1 ? fmt::format("[{}]", k) : "";
      return Both(fmt::format("{}{} of {}", array, index, RowName(run, array, row)), a[k], b[k]);
    }
  }
  return "";
}

std::string OptionDifference(const mjModel* run, const mjModel* here) {
#define X(type, name, columns) \
  if (run->opt.name != here->opt.name) return Both("option " #name, run->opt.name, here->opt.name);
#define XVEC(type, name, columns)                                                             \
  for (int k = 0; k < columns; ++k) {                                                         \
    if (run->opt.name[k] == here->opt.name[k]) continue;                                      \
    return Both(fmt::format("option " #name "[{}]", k), run->opt.name[k], here->opt.name[k]); \
  }
  MJOPTION_FIELDS
#undef XVEC
#undef X
  return "";
}

}  // namespace

std::string SizeDifference(const mjModel* run, const mjModel* here) {
#define SIZE(name) \
  if (run->name != here->name) return Both(#name, run->name, here->name);
  SIZE(nbody)
  SIZE(njnt)
  SIZE(ngeom) SIZE(nsite) SIZE(nmesh) SIZE(nmeshvert) SIZE(nhfield) SIZE(nhfielddata) SIZE(nflex) SIZE(npair)
      SIZE(nexclude) SIZE(neq) SIZE(ntendon) SIZE(nwrap) SIZE(nactuator) SIZE(nout) SIZE(nmocap)
#undef SIZE
          return "";
}

std::set<std::string> DifferentArrays(const mjModel* run, const mjModel* here, double tolerance) {
  std::set<std::string> different;
  ForEachPairOfArrays(run, here, [&](const std::string& name, auto member, ArrayShape shape, ArrayShape other) {
    if (!IsOwn(name)) return;
    if (!Difference(run, here, name, member, shape, other, tolerance).empty()) different.insert(name);
  });
  return different;
}

std::string ModelDifference(const mjModel* run, const mjModel* here, double tolerance,
                            const std::set<std::string>* arrays, bool more_plugins) {
  std::string found = SizeDifference(run, here);
  if (found.empty()) found = OptionDifference(run, here);
  if (!found.empty()) return found;
  ForEachPairOfArrays(run, here, [&](const std::string& name, auto member, ArrayShape shape, ArrayShape other) {
    if (!found.empty() || !(arrays ? arrays->count(name) > 0 : IsPhysics(name) && !IsVolume(name))) return;
    const bool longer = more_plugins && name.starts_with("plugin_") && other.rows > shape.rows;
    found = Difference(run, here, name, member, shape, longer ? shape : other, tolerance);
  });
  return found;
}

void TakeNumbers(const mjModel* run, const std::set<std::string>& arrays, mjModel* here) {
  ForEachPairOfArrays(run, here, [&](const std::string& name, auto member, ArrayShape shape, ArrayShape) {
    using Number = std::remove_reference_t<decltype(*(run->*member))>;
    if constexpr (std::is_same_v<Number, mjtNum>) {
      if (arrays.count(name) > 0) std::copy_n(run->*member, shape.rows * shape.columns, here->*member);
    }
  });
}

}  // namespace costate
