#include "optimizer/input_tangent.h"

#include <costate/parameter.h>

#include <algorithm>

namespace costate {
namespace {

constexpr int kPiece = 500;  // knots whose tangents are kept at once

Trajectory Piece(const Trajectory& motion, int begin, int N) {
  return {motion.X.middleCols(begin, N + 1), motion.U.middleCols(begin, N), motion.S.middleCols(begin, N + 1),
          motion.time.segment(begin, N + 1), motion.context.middleCols(begin, N + 1)};
}

}  // namespace

std::vector<RolloutDirection> InputDirections(const Task& task, const std::vector<int>& inputs, int ndx, int np) {
  const int starts = static_cast<int>(task.inputs.start.size()), nu = static_cast<int>(task.U_guess.rows());
  std::vector<RolloutDirection> directions(inputs.size(),
                                           {VectorXd::Zero(ndx), MatrixXd::Zero(nu, 0), VectorXd::Zero(np)});
  for (std::size_t i = 0; i < inputs.size(); i++) {
    if (inputs[i] < starts) {
      directions[i].x0[task.inputs.start[static_cast<std::size_t>(inputs[i])]] = 1;
    } else {
      directions[i].theta[inputs[i] - starts] = 1;
    }
  }
  return directions;
}

bool AlongMotion(const Task& task, const ParameterSet* parameters, const Trajectory& motion,
                 std::vector<RolloutDirection> directions, const std::function<void(const MotionPiece&)>& use) {
  const mjModel* model = parameters ? parameters->model() : task.model.get();
  const TangentOptions options{task.solver.derivative.level, task.cost->NeedsSensors(), parameters};
  Tangent tangent(model, task.context, task.substeps);
  RolloutTangent moved;
  for (int begin = 0; begin < motion.N(); begin += kPiece) {
    const int N = std::min(kPiece, motion.N() - begin), end = begin + N == motion.N() ? begin + N + 1 : begin + N;
    for (RolloutDirection& d : directions) d.U.setZero(d.U.rows(), N);
    tangent.Push(Piece(motion, begin, N), directions, options, &moved);
    if (!moved.status.ok()) return false;
    use({begin, end, motion, moved, task.knot_time()});
    for (std::size_t i = 0; i < directions.size(); i++) directions[i].x0 = moved.dX[i].col(N);
  }
  return true;
}

void AddGaussNewton(const mjModel* model, const Loss& loss, const MotionPiece& piece, int t, double factor,
                    MatrixXd* sum) {
  const RolloutTangent& tangent = piece.tangent;
  const auto p = static_cast<Eigen::Index>(tangent.dX.size());
  const KnotView view = ViewKnot(piece.motion, t, piece.dt);
  const int column = t - piece.begin;
  KnotGradient direction, product;
  for (Eigen::Index i = 0; i < p; i++) {
    const auto at = static_cast<std::size_t>(i);
    direction.x = tangent.dX[at].col(column);
    direction.u = VectorXd::Zero(view.u.size());
    direction.s = tangent.dS.empty() ? VectorXd::Zero(model->nsensordata) : VectorXd(tangent.dS[at].col(column));
    product.x = VectorXd::Zero(direction.x.size());
    product.u = VectorXd::Zero(view.u.size());
    product.s = VectorXd::Zero(model->nsensordata);
    loss.GaussNewtonProduct(model, view, direction, &product);
    for (Eigen::Index j = 0; j < p; j++) {
      const auto other = static_cast<std::size_t>(j);
      double dot = tangent.dX[other].col(column).dot(product.x);
      if (!tangent.dS.empty()) dot += tangent.dS[other].col(column).dot(product.s);
      (*sum)(j, i) += factor * dot;
    }
  }
}

}  // namespace costate
