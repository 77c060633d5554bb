// Fluid forces on one body, of both models, as functions of its velocity. Section F of README.md.
#ifndef COSTATE_DERIVATIVE_FLUID_H_
#define COSTATE_DERIVATIVE_FLUID_H_

#include <mujoco/mujoco.h>

#include "derivative/tree_derivative.h"

namespace costate {

/// Does the model have a fluid at all?
bool HasFluid(const mjModel* model);

/// Wrench (torque; force) in the frame of a body's inertia or of a geom, and its slopes by the velocity in that frame.
struct FluidForce {
  Vec6 wrench = Vec6::Zero();
  Mat6 slope = Mat6::Zero();
};

/// (F1) drag of the box that has the body's inertia.
FluidForce BoxFluidForce(const mjModel* model, int body, const Vec6& velocity);

/// (F2) added mass, drag, Magnus and Kutta lift of one geom's ellipsoid.
FluidForce EllipsoidFluidForce(const mjModel* model, int geom, const Vec6& velocity);

/// Adds the forces on all bodies, linearized, (F3). @return were there any?
bool AddFluid(const mjModel* model, const mjData* data, std::vector<BodyConstraint>* body);

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_FLUID_H_
