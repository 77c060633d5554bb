// Fluid forces on one body, of both models, as functions of its velocity. Section F of README.md.
#ifndef COSTATE_DERIVATIVE_FLUID_H_
#define COSTATE_DERIVATIVE_FLUID_H_

#include <mujoco/mujoco.h>

#include "core/joint.h"
#include "derivative/moment.h"
#include "derivative/tree_derivative.h"

namespace costate {

/// Does the model have a fluid at all?
bool HasFluid(const mjModel* model);

/// Half axes of the ellipsoid that stands for a geom.
Vec3 FluidHalfAxes(const mjModel* model, int geom);

/// (F1) torques and forces are −(linear + quadratic |l|) l, direction by direction.
void BoxFluidCoefficients(const mjModel* model, int body, Vec6* linear, Vec6* quadratic);

/// Y: motion about the tree's origin → motion at a point, seen by the axes there (row-major).
Mat6 FluidFrame(const mjModel* model, const mjData* data, int body, const mjtNum* point, const mjtNum* axes);

/// Calls part(body, geom) for all that feels the fluid and can move; geom −1: the body's inertia box.
template <typename F>
void ForFluidParts(const mjModel* m, F part) {
  for (int b = 1; b < m->nbody; b++) {
    if (m->body_mass[b] < mjMINVAL || LastDof(m, b) < 0) continue;
    const int begin = m->body_geomadr[b], end = begin + m->body_geomnum[b];
    bool box = true;
    for (int g = begin; g < end; g++) box = box && !(m->geom_fluid[mjNFLUID * g] > 0);
    if (box) part(b, -1);
    for (int g = begin; g < end && !box; g++) {
      if (m->geom_fluid[mjNFLUID * g] != 0) part(b, g);
    }
  }
}

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
