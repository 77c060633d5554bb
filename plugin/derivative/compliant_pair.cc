// Which geoms costate.smooth_contact pushes apart, and whether it may.
#include <costate/error.h>
#include <costate/model.h>
#include <fmt/format.h>

#include <algorithm>

#include "core/collision_filter.h"
#include "core/did_you_mean.h"
#include "derivative/chain.h"
#include "derivative/compliant_contact.h"

namespace costate {
namespace {

std::vector<int> NamedGeoms(const mjModel* m, const Attributes& attributes, const char* key) {
  const std::string text = attributes.Required(key);
  std::vector<std::string> all;
  for (int g = 0; g < m->ngeom; g++) {
    if (const char* name = mj_id2name(m, mjOBJ_GEOM, g)) all.push_back(name);
  }
  std::vector<int> geoms;
  for (const std::string& word : attributes.Words(key)) {
    const int geom = mj_name2id(m, mjOBJ_GEOM, word.c_str());
    if (geom < 0) attributes.Fail(key, fmt::format("there is no geom '{}'{}", word, DidYouMean(word, all)));
    if (std::find(geoms.begin(), geoms.end(), geom) != geoms.end())
      attributes.Fail(key, fmt::format("geom '{}' is named twice, and would push twice", word));
    geoms.push_back(geom);
  }
  return geoms;
}

CompliantPair MakePair(const mjModel* m, const Attributes& attributes, int g1, int g2, const CompliantLaw& law) {
  const std::string names =
      fmt::format("geoms '{}' and '{}'", ElementName(m, mjOBJ_GEOM, g1), ElementName(m, mjOBJ_GEOM, g2));
  const bool forward = HasTouchPoints(m, g1, g2);
  if (!forward && !HasTouchPoints(m, g2, g1)) {
    attributes.Fail("geom2", fmt::format("{} have no closed form: {} have one", names, kTouchingShapes));
  }
  if (LastDof(m, m->geom_bodyid[g1]) == LastDof(m, m->geom_bodyid[g2])) {
    attributes.Fail("geom2", names + " cannot move against each other");
  }
  // whether contacts are disabled does not count: the compiler disables them while it makes a
  // model, and hosts have a key for it
  if (FindPair(m, g1, g2) >= 0 || MayTouch(m, g1, g2)) {
    attributes.Fail("geom2", fmt::format("{} are collided by the engine as well: exclude their "
                                         "bodies (<contact><exclude body1=\"{}\" "
                                         "body2=\"{}\"/></contact>) or set contype and conaffinity",
                                         names, ElementName(m, mjOBJ_BODY, m->geom_bodyid[g1]),
                                         ElementName(m, mjOBJ_BODY, m->geom_bodyid[g2])));
  }
  return {forward ? g1 : g2, forward ? g2 : g1, law};
}

}  // namespace

std::vector<CompliantPair> ReadCompliantPairs(const mjModel* m, int instance) {
  const Attributes attributes(m, instance);
  CompliantLaw law;
  law.stiffness = attributes.Positive("stiffness", law.stiffness);
  law.exponent = attributes.Number("exponent", law.exponent);
  if (law.exponent < 1) attributes.Fail("exponent", fmt::format("it is {:g}, expected at least 1", law.exponent));
  law.dissipation = attributes.NotNegative("dissipation", law.dissipation);
  law.friction = attributes.NotNegative("friction", law.friction);
  law.stiction = attributes.Positive("stiction", law.stiction);
  law.smoothing = attributes.Positive("smoothing", law.smoothing);
  std::vector<CompliantPair> pairs;
  const std::vector<int> second = NamedGeoms(m, attributes, "geom2");
  for (const int g1 : NamedGeoms(m, attributes, "geom1")) {
    for (const int g2 : second) pairs.push_back(MakePair(m, attributes, g1, g2, law));
  }
  return pairs;
}

}  // namespace costate
