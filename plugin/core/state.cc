#include <costate/state.h>

#include "core/check.h"

namespace costate {
namespace {

VectorXd Get(const mjModel* model, const mjData* data, int signature) {
  CheckData(model, data);
  VectorXd state(mj_stateSize(model, signature));
  mj_getState(model, data, state.data(), signature);
  return state;
}

void Set(const mjModel* model, mjData* data, const char* name, const char* symbol, ConstVectorRef state,
         int signature) {
  CheckData(model, data);
  CheckSize(model, name, state.size(), symbol, mj_stateSize(model, signature));
  mj_setState(model, data, state.data(), signature);
}

}  // namespace

VectorXd GetState(const mjModel* model, const mjData* data) { return Get(model, data, kStateSignature); }

void SetState(const mjModel* model, mjData* data, ConstVectorRef x) { Set(model, data, "x", "nx", x, kStateSignature); }

VectorXd GetContext(const mjModel* model, const mjData* data) { return Get(model, data, kContextSignature); }

void SetContext(const mjModel* model, mjData* data, ConstVectorRef context) {
  Set(model, data, "context", "context size", context, kContextSignature);
}

VectorXd GetMovingContext(const mjModel* model, const mjData* data) { return Get(model, data, kMovingSignature); }

void SetMovingContext(const mjModel* model, mjData* data, ConstVectorRef moving) {
  Set(model, data, "moving context", "moving context size", moving, kMovingSignature);
}

VectorXd Retract(const mjModel* model, ConstVectorRef x, ConstVectorRef dx) {
  const Dims dims(model);
  CheckSize(model, "x", x.size(), "nx", dims.nx);
  CheckSize(model, "dx", dx.size(), "ndx", dims.ndx);

  // q' = q ⊕ dq, v' = v + dv, w' = w + dw
  VectorXd result = x;
  mj_integratePos(model, result.data(), dx.data(), 1);
  result.tail(dims.nv + dims.na) += dx.tail(dims.nv + dims.na);
  return result;
}

void Difference(const mjModel* model, ConstVectorRef x1, ConstVectorRef x0, VectorRef dx) {
  const Dims dims(model);
  CheckSize(model, "x1", x1.size(), "nx", dims.nx);
  CheckSize(model, "x0", x0.size(), "nx", dims.nx);
  CheckSize(model, "dx", dx.size(), "ndx", dims.ndx);

  // dq = q1 ⊖ q0, dv = v1 - v0, dw = w1 - w0
  mj_differentiatePos(model, dx.data(), 1, x0.data(), x1.data());
  dx.tail(dims.nv + dims.na) = x1.tail(dims.nv + dims.na) - x0.tail(dims.nv + dims.na);
}

VectorXd Difference(const mjModel* model, ConstVectorRef x1, ConstVectorRef x0) {
  VectorXd dx(Dims(model).ndx);
  Difference(model, x1, x0, dx);
  return dx;
}

}  // namespace costate
