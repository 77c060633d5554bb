// A vector of numbers as an expression of named vectors and of time, with its exact derivative.
#ifndef COSTATE_OPTIMIZER_EXPRESSION_H_
#define COSTATE_OPTIMIZER_EXPRESSION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "optimizer/residual_map.h"

namespace costate {

/// A name that an expression may use: a part of z, or another expression.
struct ExpressionName {
  std::string name;
  int first = 0, size = 0;  ///< z.segment(first, size) …
  std::string text{};       ///< … unless this is not empty
};

/// Compiled to single operations on numbers, one after the other; derivatives by the chain rule backwards through them.
class Expression final : public ResidualMap {
 public:
  /// @param names  later ones may use earlier ones in their text.
  /// @throws Error{kParse}, "at 'sin(': …", for what is not understood; messages name the nearest known name.
  Expression(const std::string& text, const std::vector<ExpressionName>& names);

  int size() const override { return static_cast<int>(results_.size()); }
  void Value(const KnotView& knot, const VectorXd& z, VectorXd* r) const override;
  void Jacobian(const KnotView& knot, const VectorXd& z, ResidualJacobian* J) const override;
  void Curvature(const KnotView& knot, const VectorXd& z, const VectorXd& g, MatrixXd* V) const override;

  enum class Op {
    kConstant,
    kInput,
    kTime,
    kAdd,
    kSubtract,
    kMultiply,
    kDivide,
    kPower,
    kMin,
    kMax,
    kAtan2,
    kSin,
    kCos,
    kTan,
    kAsin,
    kAcos,
    kAtan,
    kSinh,
    kCosh,
    kTanh,
    kExp,
    kLog,
    kSqrt,
    kAbs,
    kFloor
  };
  struct Node {
    Op op;
    int a = -1, b = -1;  ///< earlier nodes; of kInput, a is the entry of z
    double value = 0;    ///< of kConstant
  };

  /// What an operation on numbers gives; b only where it takes two.
  static double Operate(Op op, double a, double b);

 private:
  // partial derivatives of a node by its arguments
  struct Slopes {
    double a = 0, b = 0;
  };
  struct Bends {
    double aa = 0, ab = 0, bb = 0;
  };
  // y: the node's value. Where there is none (sqrt, abs and powers below 1 at 0) it is 0.
  static Slopes Differentiate(const Node& node, double a, double b, double y);
  static Bends DifferentiateTwice(const Node& node, double a, double b, double y);

  // A component that is not affine in z, nor between corners: a function of a few numbers that are.
  struct Curved {
    int row = 0;
    std::vector<int> variables;  // nodes: those numbers
    std::vector<int> nodes;      // what is made of them, in order; the last is the component
  };

  // all nodes at a point, in this thread's memory: whose they are and where, so that the same is not found twice
  struct Point {
    std::uint64_t owner = 0;
    double time = 0;
    VectorXd z, values, adjoint;
    std::vector<Slopes> slopes;
  };
  Point& SlopesAt(double time, const VectorXd& z) const;
  // row[e] += the slope of a node by z[e]
  template <typename Row>
  void AddSlopes(int node, Point* point, Row&& row) const;
  void Run(double time, const VectorXd& z, VectorXd* values) const;
  void FindCurved();

  std::uint64_t number_;  // no other expression has it
  std::vector<Node> nodes_;
  std::vector<int> results_;  ///< nodes
  std::vector<Curved> curved_;
  int curvatures_ = 0;  // rows of Curvature: all their variables
};

/// Words of a text that could be names: for finding what an expression reads before it is compiled.
std::vector<std::string> ExpressionWords(const std::string& text);

/// True for letters, digits and '_', not beginning with a digit, and not a function or constant of the language.
bool IsExpressionName(const std::string& name);

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_EXPRESSION_H_
