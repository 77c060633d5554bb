// All arrays of a model, one after the other as the engine lists them.
#ifndef COSTATE_CORE_MODEL_ARRAYS_H_
#define COSTATE_CORE_MODEL_ARRAYS_H_

#include <mujoco/mjxmacro.h>
#include <mujoco/mujoco.h>

#include <cstddef>
#include <vector>

namespace costate {

struct ArrayShape {
  std::size_t rows, columns;
};

/// visit(name, member, shape) of each, `member` a pointer to the member of mjModel that points to the array's numbers.
template <typename F>
void ForEachArray(const mjModel* m, F&& visit) {
  MJMODEL_POINTERS_PREAMBLE(m)
  (void)nuser_body, (void)nuser_jnt, (void)nuser_geom, (void)nuser_site, (void)nuser_cam, (void)nuser_tendon;
  (void)nuser_actuator, (void)nuser_sensor, (void)nq, (void)nv, (void)na, (void)nu, (void)nmocap, (void)nplastic;
#define X(type, name, rows, columns) \
  visit(#name, &mjModel::name, ArrayShape{static_cast<std::size_t>(m->rows), static_cast<std::size_t>(columns)});
  MJMODEL_POINTERS
#undef X
}

/// visit(name, member, shape in a, shape in b) of each.
template <typename F>
void ForEachPairOfArrays(const mjModel* a, const mjModel* b, F&& visit) {
  std::vector<ArrayShape> others;
  ForEachArray(b, [&](const char*, auto, const ArrayShape& shape) { others.push_back(shape); });
  auto other = others.begin();
  ForEachArray(a,
               [&](const char* name, auto member, const ArrayShape& shape) { visit(name, member, shape, *other++); });
}

}  // namespace costate

#endif  // COSTATE_CORE_MODEL_ARRAYS_H_
