// How the contacts of a state move, as the engine's collisions at nudged positions find.
#ifndef COSTATE_TESTS_DERIVATIVE_CONTACT_RATES_H_
#define COSTATE_TESTS_DERIVATIVE_CONTACT_RATES_H_

#include <mujoco/mujoco.h>

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <costate/model.h>

#include "derivative/contact_geometry.h"

namespace costate {

using ContactNumbers = Eigen::Matrix<double, 10, 1>;  // distance, point, normal, first tangent

inline ContactNumbers ContactNumbersOf(const mjContact& contact) {
  ContactNumbers numbers;
  numbers << contact.dist, Vec3Map(contact.pos), Vec3Map(contact.frame), Vec3Map(contact.frame + 3);
  return numbers;
}

// rates of contact c along a dof, by the motions of both its geoms
inline ContactNumbers PredictedRate(const mjModel* m, const mjData* d, const ContactMotion& motion, int c, int dof) {
  const mjContact& contact = d->contact[c];
  Eigen::Matrix<double, 7, 1> rate = Eigen::Matrix<double, 7, 1>::Zero();
  for (int side = 0; side < 2; side++) {
    Eigen::Matrix<double, 3, Eigen::Dynamic, Eigen::RowMajor> point(3, m->nv), turn(3, m->nv);
    mj_jac(m, d, point.data(), turn.data(), contact.pos, m->geom_bodyid[contact.geom[side]]);
    Eigen::Matrix<double, 6, 1> twist;
    twist << turn.col(dof), point.col(dof);
    rate += (side ? motion.by_geom2 : motion.by_geom1()) * twist;
  }
  const Vec3 turn = rate.tail<3>();
  ContactNumbers numbers;
  numbers << rate.head<4>(), turn.cross(Vec3Map(contact.frame)), turn.cross(Vec3Map(contact.frame + 3));
  return numbers;
}

// rates of all contacts along a dof, centred over nudges of h; none where a nudge changes how many there are
inline std::vector<ContactNumbers> EnginesRates(const mjModel* m, const mjData* at, int dof, double h) {
  const DataPtr moved[2] = {MakeData(m), MakeData(m)};
  VectorXd nudge = VectorXd::Zero(m->nv);
  nudge[dof] = 1;
  for (int side = 0; side < 2; side++) {
    mj_copyState(m, at, moved[side].get(), mjSTATE_INTEGRATION);
    mj_integratePos(m, moved[side]->qpos, nudge.data(), side ? -h : h);
    mj_forward(m, moved[side].get());
    if (moved[side]->ncon != at->ncon) return {};
  }
  std::vector<ContactNumbers> rates;
  for (int c = 0; c < at->ncon; c++) {
    rates.push_back((ContactNumbersOf(moved[0]->contact[c]) - ContactNumbersOf(moved[1]->contact[c])) / (2 * h));
  }
  return rates;
}

// All contacts move along all dofs as steps of the engine's collision find, centred over nudges of h.
inline void ExpectEnginesMotions(const mjModel* m, const mjData* at, double h, double tolerance) {
  const DataPtr data = MakeData(m);
  mj_copyState(m, at, data.get(), mjSTATE_INTEGRATION);
  mj_forward(m, data.get());
  ContactGeometry geometry(m);
  std::string missing;
  ASSERT_TRUE(geometry.Compute(m, data.get(), &missing)) << missing;
  for (int dof = 0; dof < m->nv; dof++) {
    const std::vector<ContactNumbers> rates = EnginesRates(m, data.get(), dof, h);
    ASSERT_EQ(static_cast<int>(rates.size()), data->ncon);
    for (int c = 0; c < data->ncon; c++) {
      const ContactNumbers predicted = PredictedRate(m, data.get(), geometry.motion(c), c, dof);
      EXPECT_LE((predicted - rates[c]).cwiseAbs().maxCoeff(), tolerance) << "contact " << c << " dof " << dof << "\n"
                                                                         << predicted.transpose() << "\n"
                                                                         << rates[c].transpose();
    }
  }
}

}  // namespace costate

#endif  // COSTATE_TESTS_DERIVATIVE_CONTACT_RATES_H_
