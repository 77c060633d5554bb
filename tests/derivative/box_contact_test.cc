#include <fmt/core.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

#include <costate/model.h>

#include "derivative/contact_rates.h"

namespace costate {
namespace {

// Two boxes anyhow, apart by up to their margin or in each other a little: whatever pair of features the engine's points
// are of, they move as its own collisions at nudged poses do, extrapolated from two sizes. Where those differ a contact
// bends nearby, and is left out. Points of boxes that are apart need not be on the edges that make their normal, nor on
// either box.
TEST(BoxContact, BoxesAtAnyDistanceMoveAsTheEnginesOwn) {
  constexpr double kStep = 1e-5, kBends = 1e-5, kTolerance = 1e-7;
  std::mt19937 random(7);
  std::uniform_real_distribution<double> uniform(-1, 1);
  std::normal_distribution<double> normal;
  int compared = 0, apart = 0;
  for (int pose = 0; pose < 2500; pose++) {
    std::string xml = "<mujoco><worldbody>";
    for (int body = 0; body < 2; body++) {
      const auto size = [&] { return .1 + .05 * uniform(random); };
      const auto place = [&] { return (body ? .19 : .12) * uniform(random); };
      const double x = place(), y = place(), z = place(), a = size(), b = size(), c = size();
      const double q0 = normal(random), q1 = normal(random), q2 = normal(random), q3 = normal(random);
      xml += fmt::format(
          "<body pos='{} {} {}' quat='{} {} {} {}'><freejoint/><geom type='box' size='{} {} {}' margin='.1'/></body>",
          x, y, z, q0, q1, q2, q3, a, b, c);
    }
    const ModelPtr model = LoadModelFromString(xml + "</worldbody></mujoco>");
    const DataPtr data = MakeData(model.get());
    mj_forward(model.get(), data.get());
    if (data->ncon == 0 || data->contact[0].dist < -.02) continue;
    ContactGeometry geometry(model.get());
    std::string missing;
    if (!geometry.Compute(model.get(), data.get(), &missing)) continue;
    for (int dof = 6; dof < 12; dof++) {
      const auto near = EnginesRates(model.get(), data.get(), dof, kStep),
                 far = EnginesRates(model.get(), data.get(), dof, 2 * kStep);
      for (std::size_t c = 0; c < near.size() && near.size() == far.size(); c++) {
        const double scale = 1 + near[c].cwiseAbs().maxCoeff();
        if ((near[c] - far[c]).cwiseAbs().maxCoeff() > kBends * scale) continue;
        const int k = static_cast<int>(c);
        const ContactNumbers predicted = PredictedRate(model.get(), data.get(), geometry.motion(k), k, dof),
                             found = (4 * near[c] - far[c]) / 3;
        EXPECT_LE((predicted - found).cwiseAbs().maxCoeff(), kTolerance * scale)
            << "pose " << pose << " contact " << c << " dof " << dof << "\n"
            << predicted.transpose() << "\n"
            << found.transpose();
        compared++;
        apart += data->contact[k].dist > 0;
      }
    }
  }
  EXPECT_GT(compared, 5000);
  EXPECT_GT(apart, compared / 2);
}

}  // namespace
}  // namespace costate
