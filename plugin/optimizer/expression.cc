#include "optimizer/expression.h"

#include <algorithm>
#include <cmath>

namespace costate {

Expression::Slopes Expression::Differentiate(const Node& node, double a, double b, double y) {
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

Expression::Point& Expression::SlopesAt(double time, const VectorXd& z) const {
  static thread_local Point point;
  if (point.owner == number_ && point.time == time && point.z == z) return point;
  point.owner = number_;
  point.time = time;
  point.z = z;
  Run(time, z, &point.values);
  point.slopes.resize(nodes_.size());
  for (std::size_t i = 0; i < nodes_.size(); i++) {
    const Node& node = nodes_[i];
    const bool leaf = node.op == Op::kConstant || node.op == Op::kInput || node.op == Op::kTime;
    point.slopes[i] = leaf ? Slopes{}
                           : Differentiate(node, point.values[node.a], node.b < 0 ? 0 : point.values[node.b],
                                           point.values[static_cast<Eigen::Index>(i)]);
  }
  return point;
}

// the slope of the last node by every one, backwards
template <typename Row>
void Expression::AddSlopes(int last, Point* point, Row&& row) const {
  VectorXd& adjoint = point->adjoint;
  adjoint.setZero(last + 1);
  adjoint[last] = 1;
  for (int i = last; i >= 0; i--) {
    if (adjoint[i] == 0) continue;
    const Node& node = nodes_[static_cast<std::size_t>(i)];
    if (node.op == Op::kInput) {
      row[node.a] += adjoint[i];
    } else if (node.a >= 0) {
      const Slopes slope = point->slopes[static_cast<std::size_t>(i)];
      adjoint[node.a] += slope.a * adjoint[i];
      if (node.b >= 0) adjoint[node.b] += slope.b * adjoint[i];
    }
  }
}

void Expression::Jacobian(const KnotView& knot, const VectorXd& z, ResidualJacobian* J) const {
  Point& point = SlopesAt(knot.TaskTime(), z);
  J->measured.setZero(size(), z.size());
  J->x.resize(0, 0);
  J->u.resize(0, 0);
  for (int row = 0; row < size(); row++) {
    AddSlopes(results_[static_cast<std::size_t>(row)], &point, J->measured.row(row));
  }
}

// ---- curvature ------------------------------------------------------------------------------------------------------

namespace {

// Components of more numbers keep Gauss–Newton's curvature, by far sooner where numbers meet in products: those are hardly
// ever convex.
constexpr std::size_t kMaxVariables = 64, kMaxMeeting = 3;
constexpr double kConvex = 1e-9;  // of the largest entry: less is none

// H = W Wᵀ of an H that is convex, by the largest pivots; the number of W's columns, -1 where H is none. H is used up.
Eigen::Index PartConvex(MatrixXd* H, MatrixXd* W) {
  const double least = kConvex * H->cwiseAbs().maxCoeff();
  const Eigen::Index k = H->rows();
  W->resize(k, k);
  for (Eigen::Index i = 0; i < k; i++) {
    Eigen::Index pivot;
    const double largest = H->diagonal().maxCoeff(&pivot);
    if (H->diagonal().minCoeff() < -least) return -1;
    if (largest <= least) return H->cwiseAbs().maxCoeff() <= least ? i : -1;
    W->col(i) = H->col(pivot) / std::sqrt(largest);
    H->noalias() -= W->col(i) * W->col(i).transpose();
    H->row(pivot).setZero();
    H->col(pivot).setZero();
  }
  return k;
}

}  // namespace

Expression::Bends Expression::DifferentiateTwice(const Node& node, double a, double b, double y) {
  switch (node.op) {
    case Op::kMultiply: return {0, 1, 0};
    case Op::kDivide: return {0, -1 / (b * b), 2 * y / (b * b)};
    case Op::kPower: {
      const bool none = b == 0 || b == 1 || (a == 0 && b < 2);
      const double log = a > 0 ? std::log(a) : 0;
      return {none ? 0 : b * (b - 1) * std::pow(a, b - 2), a > 0 ? std::pow(a, b - 1) * (1 + b * log) : 0,
              y * log * log};
    }
    case Op::kAtan2: {
      const double s = (a * a + b * b) * (a * a + b * b);
      return {-2 * a * b / s, (a * a - b * b) / s, 2 * a * b / s};
    }
    case Op::kSin:
    case Op::kCos: return {-y};
    case Op::kTan: return {2 * y * (1 + y * y)};
    case Op::kAsin: return {a / std::pow(1 - a * a, 1.5)};
    case Op::kAcos: return {-a / std::pow(1 - a * a, 1.5)};
    case Op::kAtan: return {-2 * a / ((1 + a * a) * (1 + a * a))};
    case Op::kSinh:
    case Op::kCosh:
    case Op::kExp: return {y};
    case Op::kTanh: return {-2 * y * (1 - y * y)};
    case Op::kLog: return {-1 / (a * a)};
    case Op::kSqrt: return {y > 0 ? -0.25 / (y * y * y) : 0};
    default: return {};
  }
}

// each component's variables: affine nodes that go into what is not, on the way to it
void Expression::FindCurved() {
  enum Kind { kFixed, kAffine, kBent };
  std::vector<Kind> kind(nodes_.size(), kFixed);
  std::vector<char> bends(nodes_.size(), 0);  // by more than its arguments do
  const auto kind_of = [&](int i) { return i < 0 ? kFixed : kind[static_cast<std::size_t>(i)]; };
  for (std::size_t i = 0; i < nodes_.size(); i++) {
    const Node& node = nodes_[i];
    if (node.op == Op::kInput) kind[i] = kAffine;
    if (node.op == Op::kInput || node.op == Op::kConstant || node.op == Op::kTime) continue;
    const Kind a = kind_of(node.a), b = kind_of(node.b);
    switch (node.op) {
      case Op::kAdd:
      case Op::kSubtract:
      case Op::kMin:
      case Op::kMax:
      case Op::kAbs: break;
      case Op::kFloor: continue;  // constant between its steps
      case Op::kMultiply: bends[i] = a != kFixed && b != kFixed; break;
      case Op::kDivide: bends[i] = b != kFixed; break;
      default: bends[i] = a != kFixed || b != kFixed;
    }
    kind[i] = bends[i] ? kBent : std::max(a, b);
  }

  for (int row = 0; row < size(); row++) {
    const int last = results_[static_cast<std::size_t>(row)];
    if (kind_of(last) != kBent) continue;
    Curved curved;
    curved.row = row;
    bool meeting = false;
    std::vector<char> reached(static_cast<std::size_t>(last) + 1, 0), needed = reached;
    reached[static_cast<std::size_t>(last)] = 1;
    for (int i = last; i >= 0; i--) {
      const auto n = static_cast<std::size_t>(i);
      if (!reached[n]) continue;
      if (kind[n] != kBent) {
        if (needed[n]) curved.variables.push_back(i);
        continue;
      }
      curved.nodes.push_back(i);
      const bool both = kind_of(nodes_[n].a) != kFixed && kind_of(nodes_[n].b) != kFixed;
      meeting = meeting || (bends[n] && both && nodes_[n].a != nodes_[n].b);
      for (const int argument : {nodes_[n].a, nodes_[n].b}) {
        if (kind_of(argument) == kFixed) continue;
        reached[static_cast<std::size_t>(argument)] = 1;
        needed[static_cast<std::size_t>(argument)] |= bends[n] | needed[n];
      }
    }
    std::reverse(curved.nodes.begin(), curved.nodes.end());
    if (curved.variables.size() > (meeting ? kMaxMeeting : kMaxVariables)) continue;
    curvatures_ += static_cast<int>(curved.variables.size());
    curved_.push_back(std::move(curved));
  }
}

void Expression::Curvature(const KnotView& knot, const VectorXd& z, const VectorXd& g, MatrixXd* V) const {
  V->setZero(curvatures_, z.size());
  if (curvatures_ == 0) return;
  static thread_local MatrixXd tangents, slopes, H, W;
  Point& point = SlopesAt(knot.TaskTime(), z);
  const VectorXd& values = point.values;
  VectorXd& adjoint = point.adjoint;
  Eigen::Index first = 0;
  for (const Curved& curved : curved_) {
    const auto k = static_cast<Eigen::Index>(curved.variables.size());
    const Eigen::Index row = first;
    first += k;
    if (g[curved.row] == 0) continue;

    // tangents of the nodes by the variables
    tangents.setZero(k, values.size());
    for (Eigen::Index j = 0; j < k; j++) tangents(j, curved.variables[static_cast<std::size_t>(j)]) = 1;
    for (const int i : curved.nodes) {
      const Node& node = nodes_[static_cast<std::size_t>(i)];
      const Slopes slope = point.slopes[static_cast<std::size_t>(i)];
      tangents.col(i) = slope.a * tangents.col(node.a);
      if (node.b >= 0) tangents.col(i) += slope.b * tangents.col(node.b);
    }

    // H = the sum over nodes of their own second derivative along these tangents, times g and their slope in it
    H.setZero(k, k);
    adjoint.setZero(values.size());
    adjoint[curved.nodes.back()] = g[curved.row];
    for (auto i = curved.nodes.rbegin(); i != curved.nodes.rend(); ++i) {
      const Node& node = nodes_[static_cast<std::size_t>(*i)];
      const double weight = adjoint[*i];
      if (weight == 0) continue;
      const Slopes slope = point.slopes[static_cast<std::size_t>(*i)];
      const Bends bend = DifferentiateTwice(node, values[node.a], node.b < 0 ? 0 : values[node.b], values[*i]);
      const auto ta = tangents.col(node.a);
      adjoint[node.a] += weight * slope.a;
      if (bend.aa != 0) H.noalias() += weight * bend.aa * ta * ta.transpose();
      if (node.b < 0) continue;
      const auto tb = tangents.col(node.b);
      adjoint[node.b] += weight * slope.b;
      if (bend.bb != 0) H.noalias() += weight * bend.bb * tb * tb.transpose();
      if (bend.ab == 0) continue;
      H.noalias() += weight * bend.ab * ta * tb.transpose();
      H.noalias() += weight * bend.ab * tb * ta.transpose();
    }
    if (!H.allFinite()) continue;

    // by z, where it is convex: of a saddle's, what is convex by itself leads to other valleys
    const Eigen::Index parts = PartConvex(&H, &W);
    if (parts <= 0) continue;
    slopes.setZero(k, z.size());
    for (Eigen::Index j = 0; j < k; j++) {
      AddSlopes(curved.variables[static_cast<std::size_t>(j)], &point, slopes.row(j));
    }
    V->middleRows(row, parts).noalias() = W.leftCols(parts).transpose() * slopes;
  }
}

}  // namespace costate
