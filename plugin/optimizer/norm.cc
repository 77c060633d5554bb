#include "optimizer/norm.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace costate {
namespace {

// where a formula has an infinite slope or curvature at zero, it is taken at this residual instead
constexpr double kSmallest = 1e-10;

struct NormInfo {
  const char* name;
  int parameters;
  const char* text;
};

// in the order of NormType
constexpr NormInfo kNorms[] = {
    {"quadratic", 0, "no parameter"},
    {"l2", 1, "p >= 0 (radius of the rounding)"},
    {"l22", 2, "p >= 0 (radius of the rounding) and q > 1 (power)"},
    {"cosh", 1, "p > 0 (where growth turns exponential)"},
    {"power", 1, "p >= 1 (power)"},
    {"smooth_abs", 1, "p >= 0 (radius of the rounding)"},
    {"smooth_abs2", 2, "p >= 0 (radius of the rounding) and q > 1 (power)"},
    {"rectify", 1, "p >= 0 (width of the corner)"},
    {"huber", 1, "p > 0 (where quadratic turns linear)"},
    {"hinge", 0, "no parameter"},
};

const NormInfo& Info(NormType type) { return kNorms[static_cast<int>(type)]; }

// y = sqrt(r² + p²) - p
double SmoothAbsOf(double r, double p) { return std::hypot(r, p) - p; }
NormValue SmoothAbs(double r, double p) {
  const double s = std::hypot(r, p);
  if (s == 0) return {};
  return {s - p, r / s, p / s * (p / s) / s};
}

// (a^q + p^q)^(1/q), with the larger of both taken out so that nothing overflows
double PowerSum(double a, double p, double q) {
  const double m = std::max(a, p);
  return m == 0 ? 0 : m * std::pow(std::pow(a / m, q) + std::pow(p / m, q), 1 / q);
}

double SmoothAbs2Of(double r, double p, double q) { return PowerSum(std::abs(r), p, q) - p; }
// y = s - p with s = (|r|^q + p^q)^(1/q):  y' = (|r|/s)^(q-1) sign r,  y'' = (q-1) (|r|/s)^(q-2) (p/s)^q / s
NormValue SmoothAbs2(double r, double p, double q) {
  const double a = std::max(std::abs(r), kSmallest);
  const double s = PowerSum(a, p, q);
  return {SmoothAbs2Of(r, p, q), r / a * std::pow(a / s, q - 1),
          (q - 1) * std::pow(a / s, q - 2) * std::pow(p / s, q) / s};
}

// y = p² (cosh(r/p) - 1)
double CoshOf(double r, double p) {
  const double half = std::sinh(0.5 * r / p);  // cosh z - 1 = 2 sinh²(z/2): no cancellation near zero
  return 2 * p * p * half * half;
}
NormValue Cosh(double r, double p) { return {CoshOf(r, p), p * std::sinh(r / p), std::cosh(r / p)}; }

// y = |r|^p
NormValue Power(double r, double p) {
  const double a = std::abs(r);
  const double safe = std::max(a, kSmallest);
  return {std::pow(a, p), r / safe * p * std::pow(safe, p - 1), p * (p - 1) * std::pow(safe, p - 2)};
}

// y = p log(1 + exp(r/p)), without overflow; p = 0 is the hinge max(r, 0)
NormValue Rectify(double r, double p) {
  if (p == 0) return {std::max(r, 0.0), r > 0 ? 1.0 : 0.0, 0};
  const double z = r / p;
  const double e = std::exp(-std::abs(z));
  return {std::max(r, 0.0) + p * std::log1p(e), z > 0 ? 1 / (1 + e) : e / (1 + e), e / (p * (1 + e) * (1 + e))};
}

// y = ½ r² up to p, p (|r| - p/2) beyond
NormValue Huber(double r, double p) {
  const double a = std::abs(r);
  if (a <= p) return {0.5 * r * r, r, 1};
  return {p * (a - 0.5 * p), std::copysign(p, r), p / a};
}

}  // namespace

NormValue Evaluate(const Norm& norm, double r) {
  switch (norm.type) {
    case NormType::kQuadratic: return {0.5 * r * r, r, 1};
    case NormType::kCosh: return Cosh(r, norm.p);
    case NormType::kPower: return Power(r, norm.p);
    case NormType::kL2:  // of one component
    case NormType::kSmoothAbs: return SmoothAbs(r, norm.p);
    case NormType::kL22:
    case NormType::kSmoothAbs2: return SmoothAbs2(r, norm.p, norm.q);
    case NormType::kRectify: return Rectify(r, norm.p);
    case NormType::kHuber: return Huber(r, norm.p);
    case NormType::kHinge: return r > 0 ? NormValue{0.5 * r * r, r, 1} : NormValue{};
  }
  return {};
}

double Value(const Norm& norm, double r) {
  switch (norm.type) {
    case NormType::kCosh: return CoshOf(r, norm.p);
    case NormType::kPower: return std::pow(std::abs(r), norm.p);
    case NormType::kL2:
    case NormType::kSmoothAbs: return SmoothAbsOf(r, norm.p);
    case NormType::kL22:
    case NormType::kSmoothAbs2: return SmoothAbs2Of(r, norm.p, norm.q);
    default: return Evaluate(norm, r).value;
  }
}

double ValueOfVector(const Norm& norm, ConstVectorRef r) { return Value(norm, r.norm()); }

VectorNormValue EvaluateVector(const Norm& norm, ConstVectorRef r) {
  // ρ(a) with a = ‖r‖:  gradient = ρ'/a r,  Hessian = ρ'/a 1 + (ρ'' - ρ'/a) / a² r rᵀ
  const double a = r.norm();
  const double safe = std::max(a, kSmallest);
  const NormValue at = Evaluate(norm, safe);
  const double slope = at.gradient / safe;
  if (a < kSmallest) return {Value(norm, a), slope, 0};
  return {at.value, slope, (at.curvature - slope) / (safe * safe)};
}

const std::vector<std::string>& NormNames() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const NormInfo& info : kNorms) list.push_back(info.name);
    return list;
  }();
  return names;
}

int NormParameterCount(NormType type) { return Info(type).parameters; }

const char* NormParameterText(NormType type) { return Info(type).text; }

bool HasValidParameters(const Norm& norm) {
  switch (norm.type) {
    case NormType::kQuadratic:
    case NormType::kHinge: return true;
    case NormType::kCosh:
    case NormType::kHuber: return norm.p > 0;
    case NormType::kPower: return norm.p >= 1;
    case NormType::kL22:
    case NormType::kSmoothAbs2: return norm.p >= 0 && norm.q > 1;
    case NormType::kL2:
    case NormType::kSmoothAbs:
    case NormType::kRectify: return norm.p >= 0;
  }
  return false;
}

std::string ToString(const Norm& norm) {
  const NormInfo& info = Info(norm.type);
  std::string text = info.name;
  if (info.parameters > 0) text += fmt::format(" {:g}", norm.p);
  if (info.parameters > 1) text += fmt::format(" {:g}", norm.q);
  return text;
}

}  // namespace costate
