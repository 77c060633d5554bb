// What mjData.plastic holds: state that yields, and the frames of rods, which follow every motion.
#ifndef COSTATE_CORE_PLASTIC_H_
#define COSTATE_CORE_PLASTIC_H_

#include <mujoco/mujoco.h>

#include <algorithm>
#include <vector>

namespace costate {

/// Of each number of mjData.plastic: may it yield? An open rod, a flex of one dimension, has reference frames and twists
/// there instead.
inline std::vector<char> Yielding(const mjModel* m) {
  std::vector<char> yields(m->nplastic, 1);
  for (int f = 0; f < m->nflex; ++f) {
    const int begin = m->flex_plasticadr[f];
    if (begin < 0 || m->flex_dim[f] != 1) continue;
    int end = static_cast<int>(m->nplastic);
    const auto next = [&](const int* addresses, mjtSize n) {
      for (int i = 0; i < n; ++i) {
        if (addresses[i] > begin) end = std::min(end, addresses[i]);
      }
    };
    next(m->jnt_plasticadr, m->njnt);
    next(m->tendon_plasticadr, m->ntendon);
    next(m->flex_plasticadr, m->nflex);
    std::fill(yields.begin() + begin, yields.begin() + end, 0);
  }
  return yields;
}

/// Is there anything that may yield?
inline bool HasPlasticity(const mjModel* m) {
  const std::vector<char> yields = Yielding(m);
  return std::find(yields.begin(), yields.end(), 1) != yields.end();
}

/// Is there a rod with frames?
inline bool HasRodFrames(const mjModel* m) {
  const std::vector<char> yields = Yielding(m);
  return std::find(yields.begin(), yields.end(), 0) != yields.end();
}

}  // namespace costate

#endif  // COSTATE_CORE_PLASTIC_H_
