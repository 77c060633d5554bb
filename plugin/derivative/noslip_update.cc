#include "derivative/noslip_update.h"

#include <mujoco/mujoco.h>

#include <algorithm>
#include <cmath>

#include "derivative/plant.h"

namespace costate {

namespace {

constexpr double kWorse = 1e-10;  // the engine takes an update back that raises the cost by more

// an update that the engine took back
void KeepForces(const double* f, NoslipUpdate* out) {
  out->Clear(out->dim);
  for (int i = 0; i < out->dim; i++) {
    out->force[i] = f[i];
    out->by_f[i][i] = 1;
  }
}

void Settle(const double* A, const double* y, const double* f, NoslipUpdate* out) {
  const int n = out->dim;
  double change = 0;
  for (int i = 0; i < n; i++) {
    const double delta = out->force[i] - f[i];
    change += delta * y[i];
    for (int j = 0; j < n; j++) change += 0.5 * delta * A[n * i + j] * (out->force[j] - f[j]);
  }
  if (change > kWorse) {
    const double room = out->room;
    KeepForces(f, out);
    out->room = room;
  } else {
    out->improvement = -change;
  }
}

// a number with its slopes by the entries of A, b and the normal force
template <int kColumns>
struct Slope {
  double x = 0;
  Eigen::Matrix<double, kColumns, 1> d = Eigen::Matrix<double, kColumns, 1>::Zero();
  Slope(double value = 0) : x(value) {}  // NOLINT: constants mix freely
  Slope(double value, int column) : x(value) { d[column] = 1; }
  Slope(double value, double slope, const Slope& a) : x(value), d(slope * a.d) {}

  friend Slope operator+(Slope a, const Slope& b) {
    a.x += b.x, a.d += b.d;
    return a;
  }
  friend Slope operator-(Slope a, const Slope& b) {
    a.x -= b.x, a.d -= b.d;
    return a;
  }
  friend Slope operator*(const Slope& a, const Slope& b) {
    Slope out(a.x * b.x);
    out.d = a.x * b.d + b.x * a.d;
    return out;
  }
  friend Slope operator/(const Slope& a, const Slope& b) {
    Slope out(a.x / b.x);
    out.d = (a.d - out.x * b.d) / b.x;
    return out;
  }
  friend Slope Sqrt(const Slope& a) { return Slope(std::sqrt(a.x), 0.5 / std::sqrt(std::max(a.x, mjMINVAL)), a); }
};

// min ½ vᵀA v + bᵀv within Σ (v_i / friction_i)² ≤ normal², by the engine's own Newton steps on the multiplier
template <int n>
struct Ellipsoid {
  static constexpr int kColumns = n * n + n + 1;
  using Number = Slope<kColumns>;
  Number A[n][n], b[n], normal, v[n];
  double free_norm = 0;  // of the minimum without bound, in scaled coordinates
  bool bounded = false;

  // x ← (A + λ)⁻¹ x by Cholesky; false where the engine gives up
  bool Factor(const Number& la) {
    double det = 1;
    for (int j = 0; j < n; j++) {
      Number pivot = A[j][j] + la;
      for (int k = 0; k < j; k++) pivot = pivot - L[j][k] * L[j][k];
      if (n > 3 && pivot.x < 1e-10) return false;
      det *= pivot.x;
      if (!(pivot.x > 0)) return false;
      L[j][j] = Sqrt(pivot);
      for (int i = j + 1; i < n; i++) {
        Number sum = A[i][j];
        for (int k = 0; k < j; k++) sum = sum - L[i][k] * L[j][k];
        L[i][j] = sum / L[j][j];
      }
    }
    return n > 3 || det >= 1e-10;
  }
  void SolveInPlace(Number* x) const {
    for (int i = 0; i < n; i++) {
      for (int k = 0; k < i; k++) x[i] = x[i] - L[i][k] * x[k];
      x[i] = x[i] / L[i][i];
    }
    for (int i = n - 1; i >= 0; i--) {
      for (int k = i + 1; k < n; k++) x[i] = x[i] - L[k][i] * x[k];
      x[i] = x[i] / L[i][i];
    }
  }

  bool Solve(const double* friction) {
    Number la;
    for (int iteration = 0; iteration < 20; iteration++) {
      if (!Factor(la)) {
        std::fill(v, v + n, Number(0));
        bounded = false;
        return false;
      }
      for (int i = 0; i < n; i++) v[i] = Number(0) - b[i];
      SolveInPlace(v);
      Number excess = Number(0) - normal * normal;
      for (int i = 0; i < n; i++) excess = excess + v[i] * v[i];
      if (iteration == 0) free_norm = std::sqrt(std::max(0.0, excess.x + normal.x * normal.x));
      if (excess.x < 1e-10) break;
      Number w[n], slope;
      std::copy(v, v + n, w);
      SolveInPlace(w);
      for (int i = 0; i < n; i++) slope = slope + v[i] * w[i];
      const Number delta = excess / (Number(2) * slope);
      if (delta.x < 1e-10) break;
      la = la + delta;
    }
    bounded = la.x != 0;
    if (bounded) {
      Number sum;
      for (int i = 0; i < n; i++) sum = sum + v[i] * v[i];
      const Number scale = normal / Sqrt(sum);
      for (int i = 0; i < n; i++) v[i] = v[i] * scale;
    }
    for (int i = 0; i < n; i++) v[i] = v[i] * Number(friction[i]);
    return true;
  }

  Number L[n][n];
};

template <int n>
void SolveEllipsoid(const double* A, const double* y, const double* f, double normal, const double* friction,
                    NoslipUpdate* out) {
  Ellipsoid<n> problem;
  using Number = typename Ellipsoid<n>::Number;
  for (int i = 0; i < n; i++) {
    double b = y[i];
    for (int j = 0; j < n; j++) {
      b -= A[n * i + j] * f[j];
      problem.A[i][j] = Number(friction[i] * friction[j]) * Number(A[n * i + j], n * i + j);
    }
    problem.b[i] = Number(friction[i]) * Number(b, n * n + i);
  }
  problem.normal = Number(normal, n * n + n);
  problem.Solve(friction);
  out->bounded = problem.bounded;
  out->room = std::abs(problem.free_norm - normal);

  // b = y − A f
  for (int i = 0; i < n; i++) {
    const auto& slope = problem.v[i].d;
    out->force[i] = problem.v[i].x;
    out->by_normal[i] = PLANT("noslip: ellipsoid by normal", slope[n * n + n]);
    for (int j = 0; j < n; j++) {
      const double by_b = PLANT("noslip: ellipsoid", slope[n * n + j]);
      out->by_y[i][j] = by_b;
      for (int k = 0; k < n; k++) {
        out->by_f[i][k] -= by_b * A[n * j + k];
        out->by_A[i][n * j + k] += PLANT("noslip: ellipsoid by inertia", slope[n * j + k]) - by_b * f[k];
      }
    }
  }
}

}  // namespace

void NoslipUpdate::Clear(int rows) {
  dim = rows;
  improvement = room = 0;
  bounded = false;
  for (int i = 0; i < rows; i++) {
    force[i] = by_normal[i] = 0;
    std::fill_n(by_y[i], rows, 0.0);
    std::fill_n(by_f[i], rows, 0.0);
    std::fill_n(by_A[i], rows * rows, 0.0);
  }
}

void UpdateInterval(double A, double y, double f, double loss, NoslipUpdate* out) {
  out->Clear(1);
  const double free = f - y / A;
  out->room = std::abs(std::abs(free) - loss);
  out->bounded = free < -loss || free > loss;
  out->force[0] = std::clamp(free, -loss, loss);
  const double delta = out->force[0] - f;
  out->improvement = -(0.5 * delta * delta * A + delta * y);
  if (out->bounded) return;
  out->by_f[0][0] = 1;
  out->by_y[0][0] = PLANT("noslip: dry friction", -1 / A);
  out->by_A[0][0] = PLANT("noslip: dry friction by inertia", y / (A * A));
}

void UpdateEdges(const double* A, const double* y, const double* f, NoslipUpdate* out) {
  out->Clear(2);

  // f = (mid + t, mid − t): t = −K0 / K1
  const double mid = 0.5 * (f[0] + f[1]), K1 = A[0] + A[3] - A[1] - A[2];
  double b[2];
  for (int k = 0; k < 2; k++) b[k] = y[k] - A[2 * k] * f[0] - A[2 * k + 1] * f[1];
  const double K0 = mid * (A[0] - A[3]) + b[0] - b[1], t = K1 < mjMINVAL ? 0 : -K0 / K1;
  out->room = std::abs(std::abs(t) - mid);
  out->bounded = K1 >= mjMINVAL && std::abs(t) > mid;
  const double half[2] = {0.5, 0.5};  // ∂mid
  if (K1 < mjMINVAL || out->bounded) {
    for (int i = 0; i < 2; i++) {
      const double share = !out->bounded ? 1 : (i == 0) == (t > 0) ? 2 : 0;
      out->force[i] = share * mid;
      for (int k = 0; k < 2; k++) out->by_f[i][k] = PLANT("noslip: edges, bounded", share * half[k]);
    }
  } else {
    for (int i = 0; i < 2; i++) {
      const double sign = i == 0 ? 1 : -1;
      out->force[i] = mid + sign * t;
      for (int k = 0; k < 2; k++) {
        const double row = k == 0 ? 1 : -1;  // ∂K0/∂b_k
        const double by_K0 = PLANT("noslip: edges", -sign / K1);
        out->by_y[i][k] = by_K0 * row;
        out->by_f[i][k] = half[k] + by_K0 * (half[k] * (A[0] - A[3]) - (A[k] - A[2 + k]));
        for (int l = 0; l < 2; l++) {
          const double by_A = (k == l ? row * mid : 0) - row * f[l] + t * (k == l ? 1 : -1);
          out->by_A[i][2 * k + l] = PLANT("noslip: edges by inertia", by_K0 * by_A);
        }
      }
    }
  }
  Settle(A, y, f, out);
}

void UpdateEllipsoid(int rows, const double* A, const double* y, const double* f, double normal, const double* friction,
                     NoslipUpdate* out) {
  out->Clear(rows);
  if (normal >= mjMINVAL) {
    switch (rows) {
      case 2: SolveEllipsoid<2>(A, y, f, normal, friction, out); break;
      case 3: SolveEllipsoid<3>(A, y, f, normal, friction, out); break;
      default: SolveEllipsoid<5>(A, y, f, normal, friction, out);
    }
  }
  Settle(A, y, f, out);
}

}  // namespace costate
