// Is a model still the one that a Linearizer was made for?
#ifndef COSTATE_ENGINE_MODEL_KEY_H_
#define COSTATE_ENGINE_MODEL_KEY_H_

#include <mujoco/mujoco.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace costate {

// all sizes and flags of a model lie before its options
inline constexpr std::size_t kSizesBytes = offsetof(mjModel, opt);

/// What must be equal for a Linearizer to serve another call: address, sizes, options and structure. Values such as
/// masses and gains are read at each call and may change between calls.
struct ModelKey {
  const mjModel* model = nullptr;
  const void* buffer = nullptr;
  unsigned char sizes[kSizesBytes] = {};
  mjOption options = {};
  std::uint64_t structure = 0;

  void Read(const mjModel* m) {
    model = m;
    buffer = m->buffer;
    std::memcpy(sizes, m, kSizesBytes);
    std::memcpy(&options, &m->opt, sizeof(mjOption));
    structure = m->signature;
    Add(m->body_parentid, m->nbody);
    Add(m->body_dofadr, m->nbody);
    Add(m->jnt_type, m->njnt);
    Add(m->dof_parentid, m->nv);
    Add(m->geom_type, m->ngeom);
    Add(m->eq_type, m->neq);
    Add(m->tendon_type, m->ntendon);
    Add(m->tendon_num, m->ntendon);
    Add(m->wrap_type, m->nwrap);
    Add(m->sensor_type, m->nsensor);
    for (const int* types : {m->actuator_trntype, m->actuator_dyntype, m->actuator_gaintype, m->actuator_biastype,
                             m->actuator_actadr, m->actuator_ctrladr}) {
      Add(types, m->nactuator);
    }
  }
  bool operator==(const ModelKey& other) const {
    return model == other.model && buffer == other.buffer && structure == other.structure &&
           std::memcmp(sizes, other.sizes, kSizesBytes) == 0 &&
           std::memcmp(&options, &other.options, sizeof(mjOption)) == 0;
  }

 private:
  // FNV-1a, a word at a time, in four strands: none waits for another's product
  void Add(const int* values, mjtSize n) {
    constexpr std::uint64_t kPrime = 1099511628211u;
    std::uint64_t strand[4] = {structure, 1, 2, 3};
    for (mjtSize i = 0; i < n; ++i) strand[i % 4] = (strand[i % 4] ^ static_cast<std::uint32_t>(values[i])) * kPrime;
    for (int k = 1; k < 4; ++k) strand[0] = (strand[0] ^ strand[k] ^ strand[k] >> 32) * kPrime;
    structure = strand[0];
  }
};

}  // namespace costate

#endif  // COSTATE_ENGINE_MODEL_KEY_H_
