#include "optimizer/goal_slots.h"

#include <costate/state.h>
#include <costate/step.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace costate {
namespace {

// the sensor of a place in the world that an entry reads, or −1
int PlaceSensor(const mjModel* m, const LinearEntry& entry) {
  if (entry.scalar.input != Input::kSensor) return -1;
  const auto sensor = static_cast<int>(std::upper_bound(m->sensor_adr, m->sensor_adr + m->nsensor, entry.scalar.value) -
                                       m->sensor_adr - 1);
  return sensor >= 0 && m->sensor_type[sensor] == mjSENS_FRAMEPOS && m->sensor_refid[sensor] < 0 ? sensor : -1;
}

// does it measure what neither the robot nor a program moves?
bool IsFixed(const mjModel* m, int sensor) {
  const int id = m->sensor_objid[sensor];
  int body = id;
  switch (m->sensor_objtype[sensor]) {
    case mjOBJ_SITE: body = m->site_bodyid[id]; break;
    case mjOBJ_GEOM: body = m->geom_bodyid[id]; break;
    case mjOBJ_CAMERA: body = m->cam_bodyid[id]; break;
    default: break;
  }
  return m->body_weldid[body] == 0;
}

// rows "part − fixed place" become "part − number"
void GiveNumbers(const mjModel* m, const VectorXd& sensors, ResidualTerm* term) {
  for (std::size_t row = 0; row < term->row_slot.size(); ++row) {
    LinearEntry* part = nullptr;
    auto fixed = term->linear.end();
    int entries = 0;
    for (auto entry = term->linear.begin(); entry != term->linear.end(); ++entry) {
      if (entry->row != static_cast<int>(row)) continue;
      ++entries;
      const int sensor = PlaceSensor(m, *entry);
      if (sensor < 0) continue;
      if (entry->coef == 1 && !IsFixed(m, sensor)) part = &*entry;
      if (entry->coef == -1 && IsFixed(m, sensor)) fixed = entry;
    }
    if (entries != 2 || part == nullptr || fixed == term->linear.end() || term->row_slot[row] >= 0) continue;
    MatrixXd& values = term->target.values;
    const Eigen::Index slot = values.rows();
    values.conservativeResize(slot + 1, std::max<Eigen::Index>(values.cols(), 1));
    values.row(slot).setConstant(sensors[fixed->scalar.value]);
    term->row_slot[row] = static_cast<int>(slot);
    term->linear.erase(fixed);
  }
}

// visit(sensor's address, axis, slot) of each number of a term that a place in the world shall have
template <typename F>
void ForEachPlace(const mjModel* m, const ResidualTerm& term, F&& visit) {
  if (term.map || term.target.values.size() == 0) return;
  for (const LinearEntry& entry : term.linear) {
    const int sensor = PlaceSensor(m, entry), slot = term.row_slot[static_cast<std::size_t>(entry.row)];
    if (sensor < 0 || entry.coef != 1 || slot < 0) continue;
    visit(static_cast<int>(m->sensor_adr[sensor]), entry.scalar.value - static_cast<int>(m->sensor_adr[sensor]), slot);
  }
}

double LastOf(const ResidualTerm& term, int slot) { return term.target.values(slot, term.target.values.cols() - 1); }

}  // namespace

bool IsGoal(const ResidualTerm& term) { return term.terminal.maxCoeff() > term.weight.maxCoeff(); }

std::vector<SlottedGoal> FindGoals(const mjModel* m, const ResidualCost& cost) {
  std::vector<SlottedGoal> goals;
  for (const ResidualTerm& term : cost.terms()) {
    if (!IsGoal(term)) continue;
    GoalPlace goal{-1, {NAN, NAN, NAN}};
    ForEachPlace(m, term, [&](int sensor, int axis, int slot) {
      goal.sensor = sensor;
      goal.place[axis] = LastOf(term, slot);
    });
    if (goal.sensor >= 0) goals.push_back({goal, {}});
  }
  for (SlottedGoal& goal : goals) {
    for (std::size_t i = 0; i < cost.terms().size(); ++i) {
      const ResidualTerm& term = cost.terms()[i];
      ForEachPlace(m, term, [&](int sensor, int axis, int slot) {
        if (sensor != goal.goal.sensor || LastOf(term, slot) != goal.goal.place[axis]) return;
        goal.slots.push_back({static_cast<int>(i), slot, axis});
      });
    }
  }
  return goals;
}

namespace {

// of a cost that may be null: one of somebody's own has no goals that are known
std::vector<GoalPlace> PlacesOf(const mjModel* m, const ResidualCost* cost) {
  std::vector<GoalPlace> places;
  if (cost == nullptr) return places;
  for (const SlottedGoal& goal : FindGoals(m, *cost)) places.push_back(goal.goal);
  return places;
}

}  // namespace

std::unique_ptr<ResidualCost> MovableCost(const Task& task) {
  const auto* cost = dynamic_cast<const ResidualCost*>(task.cost.get());
  if (cost == nullptr) return nullptr;
  const mjModel* m = task.model.get();
  const DataPtr data = MakeData(m);
  SetContext(m, data.get(), task.context);
  VectorXd sensors = VectorXd::Zero(m->nsensordata);
  Forward(m, data.get(), task.x0, VectorXd::Zero(m->nu), sensors);
  std::vector<ResidualTerm> terms = cost->terms();
  for (ResidualTerm& term : terms) {
    if (!term.map) GiveNumbers(m, sensors, &term);
  }
  return std::make_unique<ResidualCost>(m, std::move(terms), cost->scale());
}

std::vector<GoalPlace> MovablePlaces(const Task& task) { return PlacesOf(task.model.get(), MovableCost(task).get()); }

std::string NameOfPlace(const mjModel* model, const GoalPlace& place) {
  for (int i = 0; i < model->nsensor; ++i) {
    if (model->sensor_adr[i] != place.sensor) continue;
    const int type = model->sensor_objtype[i];
    return std::string(type == mjOBJ_XBODY ? "body" : mju_type2Str(type)) + " " +
           ElementName(model, type == mjOBJ_XBODY ? mjOBJ_BODY : type, model->sensor_objid[i]);
  }
  return "";
}

std::vector<GoalPlace> GoalPlaces(const Task& task) {
  return PlacesOf(task.model.get(), dynamic_cast<const ResidualCost*>(task.cost.get()));
}

}  // namespace costate
