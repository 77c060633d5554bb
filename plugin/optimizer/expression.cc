#include "optimizer/expression.h"

#include <cmath>

namespace costate {
namespace {

using Op = Expression::Op;

struct Slopes {
  double a = 0, b = 0;
};

// partial derivatives of a node by its arguments; y: its value. Where there is none (sqrt, abs and
// powers below 1 at 0) it is 0.
Slopes Differentiate(const Expression::Node& node, double a, double b, double y) {
  switch (node.op) {
    case Op::kAdd: return {1, 1};
    case Op::kSubtract: return {1, -1};
    case Op::kMultiply: return {b, a};
    case Op::kDivide: return {1 / b, -y / b};
    case Op::kPower: {
      const bool none = b == 0 || (a == 0 && b > 0 && b < 1);
      return {none ? 0 : b * std::pow(a, b - 1), a > 0 ? y * std::log(a) : 0};
    }
    case Op::kMin: return a <= b ? Slopes{1, 0} : Slopes{0, 1};
    case Op::kMax: return a >= b ? Slopes{1, 0} : Slopes{0, 1};
    case Op::kAtan2: return {b / (a * a + b * b), -a / (a * a + b * b)};
    case Op::kSin: return {std::cos(a)};
    case Op::kCos: return {-std::sin(a)};
    case Op::kTan: return {1 + y * y};
    case Op::kAsin: return {1 / std::sqrt(1 - a * a)};
    case Op::kAcos: return {-1 / std::sqrt(1 - a * a)};
    case Op::kAtan: return {1 / (1 + a * a)};
    case Op::kSinh: return {std::cosh(a)};
    case Op::kCosh: return {std::sinh(a)};
    case Op::kTanh: return {1 - y * y};
    case Op::kExp: return {y};
    case Op::kLog: return {1 / a};
    case Op::kSqrt: return {y > 0 ? 0.5 / y : 0};
    case Op::kAbs: return {a > 0 ? 1.0 : a < 0 ? -1.0 : 0.0};
    case Op::kFloor:
    case Op::kConstant:
    case Op::kInput:
    case Op::kTime: break;
  }
  return {};
}

}  // namespace

double Expression::Operate(Op op, double a, double b) {
  switch (op) {
    case Op::kAdd: return a + b;
    case Op::kSubtract: return a - b;
    case Op::kMultiply: return a * b;
    case Op::kDivide: return a / b;
    case Op::kPower: return std::pow(a, b);
    case Op::kMin: return std::isnan(a) || a <= b ? a : b;  // what is no number stays none
    case Op::kMax: return std::isnan(a) || a >= b ? a : b;
    case Op::kAtan2: return std::atan2(a, b);
    case Op::kSin: return std::sin(a);
    case Op::kCos: return std::cos(a);
    case Op::kTan: return std::tan(a);
    case Op::kAsin: return std::asin(a);
    case Op::kAcos: return std::acos(a);
    case Op::kAtan: return std::atan(a);
    case Op::kSinh: return std::sinh(a);
    case Op::kCosh: return std::cosh(a);
    case Op::kTanh: return std::tanh(a);
    case Op::kExp: return std::exp(a);
    case Op::kLog: return std::log(a);
    case Op::kSqrt: return std::sqrt(a);
    case Op::kAbs: return std::abs(a);
    case Op::kFloor: return std::floor(a);
    case Op::kConstant:
    case Op::kInput:
    case Op::kTime: break;
  }
  return 0;
}

void Expression::Run(double time, const VectorXd& z, VectorXd* values) const {
  values->resize(static_cast<Eigen::Index>(nodes_.size()));
  for (std::size_t i = 0; i < nodes_.size(); i++) {
    const Node& node = nodes_[i];
    double& value = (*values)[static_cast<Eigen::Index>(i)];
    if (node.op == Op::kConstant) {
      value = node.value;
    } else if (node.op == Op::kInput) {
      value = z[node.a];
    } else if (node.op == Op::kTime) {
      value = time;
    } else {
      value = Operate(node.op, (*values)[node.a], node.b < 0 ? 0 : (*values)[node.b]);
    }
  }
}

void Expression::Value(const KnotView& knot, const VectorXd& z, VectorXd* r) const {
  static thread_local VectorXd values;
  Run(knot.TaskTime(), z, &values);
  r->resize(size());
  for (int i = 0; i < size(); i++) (*r)[i] = values[results_[static_cast<std::size_t>(i)]];
}

void Expression::Jacobian(const KnotView& knot, const VectorXd& z, ResidualJacobian* J) const {
  static thread_local VectorXd values, adjoint;
  static thread_local std::vector<Slopes> slopes;
  Run(knot.TaskTime(), z, &values);
  slopes.resize(nodes_.size());
  for (std::size_t i = 0; i < nodes_.size(); i++) {
    const Node& node = nodes_[i];
    const bool leaf = node.op == Op::kConstant || node.op == Op::kInput || node.op == Op::kTime;
    slopes[i] = leaf ? Slopes{}
                     : Differentiate(node, values[node.a], node.b < 0 ? 0 : values[node.b],
                                     values[static_cast<Eigen::Index>(i)]);
  }

  // one row of the Jacobian: the slope of its result by every node, backwards
  J->measured.setZero(size(), z.size());
  J->x.resize(0, 0);
  J->u.resize(0, 0);
  for (int row = 0; row < size(); row++) {
    const int last = results_[static_cast<std::size_t>(row)];
    adjoint.setZero(last + 1);
    adjoint[last] = 1;
    for (int i = last; i >= 0; i--) {
      if (adjoint[i] == 0) continue;
      const Node& node = nodes_[static_cast<std::size_t>(i)];
      if (node.op == Op::kInput) {
        J->measured(row, node.a) += adjoint[i];
      } else if (node.a >= 0) {
        adjoint[node.a] += slopes[static_cast<std::size_t>(i)].a * adjoint[i];
        if (node.b >= 0) adjoint[node.b] += slopes[static_cast<std::size_t>(i)].b * adjoint[i];
      }
    }
  }
}

}  // namespace costate
