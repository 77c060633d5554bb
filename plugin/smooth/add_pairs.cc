#include "smooth/add_pairs.h"

#include <mujoco/mjxmacro.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>

#include "core/collision_filter.h"
#include "core/engine_guard.h"
#include "core/model_arrays.h"

namespace costate {
namespace {

using Bytes = std::vector<unsigned char>;

constexpr int kNameSlots = 2;         // of the engine's hash map of names, for each element
constexpr mjtSize kBufferAlign = 64;  // of each array within a model
constexpr int kBinaryHeader = 5;      // integers at the head of a binary model

[[noreturn]] void RefuseLayout(const char* what) {
  throw Error(ErrorCode::kUnsupported, std::string("contact pairs cannot be added to this model: ") + what +
                                           " is not laid out as in MuJoCo " + mj_versionString());
}

// (S2) where each of the new pairs stands among the old ones: order[k] < npair is an old one, else a new one
std::vector<int> MergeOrder(const mjModel* m, const std::vector<ContactPair>& pairs) {
  const int old = static_cast<int>(m->npair);
  std::vector<int> order(static_cast<std::size_t>(old) + pairs.size());
  std::iota(order.begin(), order.end(), 0);
  const auto signature = [&](int k) {
    return k < old ? m->pair_signature[k] : PairSignature(m, pairs[k - old].geom1, pairs[k - old].geom2);
  };
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return static_cast<unsigned>(signature(a)) < static_cast<unsigned>(signature(b));
  });
  return order;
}

// the engine's hash of a name
std::uint64_t HashName(const char* text, std::uint64_t slots) {
  std::uint64_t hash = 5381;
  for (; *text; text++) hash = ((hash << 5) + hash) ^ static_cast<std::uint64_t>(static_cast<int>(*text));
  return hash % slots;
}

// the part of the map of names that belongs to pairs: slots after it are those of the types below
mjtSize SlotsBehindPairs(const mjModel* m) {
  return kNameSlots * (m->nexclude + m->neq + m->ntendon + m->nactuator + m->nsensor + m->nnumeric + m->ntext +
                       m->ntuple + m->nkey + m->nplugin);
}

// values of the enlarged arrays, by name
struct Grown {
  std::vector<int> dim, geom1, geom2, signature, name, map, tuple;
  std::vector<double> solref, solreffriction, solimp, margin, gap, adhesion, friction;
};

template <typename T>
void AppendRow(const T* from, int count, std::vector<T>* to) {
  to->insert(to->end(), from, from + count);
}

Grown Grow(const mjModel* m, const std::vector<ContactPair>& pairs, const std::vector<int>& order) {
  Grown g;
  const int old = static_cast<int>(m->npair);
  const int unnamed = static_cast<int>(std::strlen(m->names));  // the end of the model's own name: an empty one
  const double zero[mjNREF] = {};
  std::vector<int> index(old);
  for (std::size_t at = 0; at < order.size(); at++) {
    const int k = order[at];
    if (k < old) {
      index[k] = static_cast<int>(at);
      g.dim.push_back(m->pair_dim[k]);
      g.geom1.push_back(m->pair_geom1[k]);
      g.geom2.push_back(m->pair_geom2[k]);
      g.signature.push_back(m->pair_signature[k]);
      g.name.push_back(m->name_pairadr[k]);
      AppendRow(m->pair_solref + mjNREF * k, mjNREF, &g.solref);
      AppendRow(m->pair_solreffriction + mjNREF * k, mjNREF, &g.solreffriction);
      AppendRow(m->pair_solimp + mjNIMP * k, mjNIMP, &g.solimp);
      AppendRow(m->pair_friction + 5 * k, 5, &g.friction);
      g.margin.push_back(m->pair_margin[k]);
      g.gap.push_back(m->pair_gap[k]);
      g.adhesion.push_back(m->pair_adhesion[k]);
      continue;
    }
    const ContactPair& pair = pairs[static_cast<std::size_t>(k - old)];
    g.dim.push_back(pair.dim);
    g.geom1.push_back(pair.geom1);
    g.geom2.push_back(pair.geom2);
    g.signature.push_back(PairSignature(m, pair.geom1, pair.geom2));
    g.name.push_back(unnamed);
    AppendRow(pair.solref, mjNREF, &g.solref);
    AppendRow(zero, mjNREF, &g.solreffriction);
    AppendRow(pair.solimp, mjNIMP, &g.solimp);
    AppendRow(pair.friction, 5, &g.friction);
    g.margin.push_back(pair.margin);
    g.gap.push_back(pair.gap);
    g.adhesion.push_back(pair.adhesion);
  }

  // names: the slots of pairs anew, all others as they are
  const mjtSize behind = SlotsBehindPairs(m), before = m->nnames_map - behind - kNameSlots * m->npair;
  if (before < 0) RefuseLayout("the map of names");
  const std::size_t slots = kNameSlots * order.size();
  std::vector<int> section(slots, -1);
  for (std::size_t k = 0; k < order.size(); k++) {
    const char* name = m->names + g.name[k];
    if (*name == '\0') continue;
    std::size_t slot = HashName(name, slots);
    while (section[slot] >= 0) slot = (slot + 1) % slots;
    section[slot] = static_cast<int>(k);
  }
  g.map.assign(m->names_map, m->names_map + before);
  g.map.insert(g.map.end(), section.begin(), section.end());
  g.map.insert(g.map.end(), m->names_map + m->nnames_map - behind, m->names_map + m->nnames_map);

  // tuples name pairs by number
  g.tuple.assign(m->tuple_objid, m->tuple_objid + m->ntupledata);
  for (int i = 0; i < m->ntupledata; i++) {
    if (m->tuple_objtype[i] == mjOBJ_PAIR) g.tuple[i] = index[g.tuple[i]];
  }
  return g;
}

// bytes that stand in front of the arrays in a binary model, and bytes of the arrays within one in memory
struct ModelBytes {
  mjtSize in_file = 0, in_memory = 0;
};
ModelBytes CountArrays(const mjModel* m) {
  ModelBytes total;
  ForEachArray(m, [&](const char*, auto member, const ArrayShape& shape) {
    const mjtSize size = static_cast<mjtSize>(sizeof(*(m->*member)) * shape.rows * shape.columns);
    total.in_file += size;
    total.in_memory += (kBufferAlign - total.in_memory % kBufferAlign) % kBufferAlign + size;
  });
  total.in_memory += kBufferAlign - 1;  // room to align the first
  return total;
}

// do all names of the old model lead to the same elements of the new one?
bool SameNames(const mjModel* a, const mjModel* b) {
  const std::pair<int, mjtSize> types[] = {
      {mjOBJ_BODY, a->nbody},       {mjOBJ_JOINT, a->njnt},       {mjOBJ_GEOM, a->ngeom},
      {mjOBJ_SITE, a->nsite},       {mjOBJ_CAMERA, a->ncam},      {mjOBJ_MATERIAL, a->nmat},
      {mjOBJ_EQUALITY, a->neq},     {mjOBJ_TENDON, a->ntendon},   {mjOBJ_ACTUATOR, a->nactuator},
      {mjOBJ_SENSOR, a->nsensor},   {mjOBJ_KEY, a->nkey},         {mjOBJ_PLUGIN, a->nplugin},
      {mjOBJ_EXCLUDE, a->nexclude}, {mjOBJ_NUMERIC, a->nnumeric}, {mjOBJ_TUPLE, a->ntuple}};
  for (const auto& [type, count] : types) {
    for (int i = 0; i < count; i++) {
      const char* name = mj_id2name(a, type, i);
      if (name && mj_name2id(b, type, name) != mj_name2id(a, type, name)) return false;
    }
  }
  for (int i = 0; i < a->npair; i++) {
    const char* name = mj_id2name(a, mjOBJ_PAIR, i);
    if (!name) continue;
    const int k = mj_name2id(b, mjOBJ_PAIR, name);
    if (k < 0 || b->pair_geom1[k] != a->pair_geom1[i] || b->pair_geom2[k] != a->pair_geom2[i]) return false;
  }
  return true;
}

}  // namespace

ContactPair MixPair(const mjModel* m, int g1, int g2) {
  ContactPair out;
  // the engine orders two geoms by type before it mixes
  if (m->geom_type[g1] > m->geom_type[g2]) std::swap(g1, g2);
  out.geom1 = g1;
  out.geom2 = g2;
  const mjtNum *ref1 = m->geom_solref + mjNREF * g1, *ref2 = m->geom_solref + mjNREF * g2;
  const mjtNum *imp1 = m->geom_solimp + mjNIMP * g1, *imp2 = m->geom_solimp + mjNIMP * g2;
  const mjtNum *fri1 = m->geom_friction + 3 * g1, *fri2 = m->geom_friction + 3 * g2;
  double friction[3];
  if (m->geom_priority[g1] != m->geom_priority[g2]) {
    const bool first = m->geom_priority[g1] > m->geom_priority[g2];
    out.dim = m->geom_condim[first ? g1 : g2];
    std::copy_n(first ? ref1 : ref2, mjNREF, out.solref);
    std::copy_n(first ? imp1 : imp2, mjNIMP, out.solimp);
    std::copy_n(first ? fri1 : fri2, 3, friction);
    out.adhesion = m->geom_adhesion[first ? g1 : g2];
  } else {
    out.dim = std::max(m->geom_condim[g1], m->geom_condim[g2]);
    const double mix1 = m->geom_solmix[g1], mix2 = m->geom_solmix[g2];
    double mix = 1;
    if (mix1 >= mjMINVAL && mix2 >= mjMINVAL) mix = mix1 / (mix1 + mix2);
    else if (mix1 < mjMINVAL) mix = mix2 < mjMINVAL ? 0.5 : 0;
    const bool standard = ref1[0] > 0 && ref2[0] > 0;
    for (int i = 0; i < mjNREF; i++) {
      out.solref[i] = standard ? mix * ref1[i] + (1 - mix) * ref2[i] : std::min(ref1[i], ref2[i]);
    }
    for (int i = 0; i < mjNIMP; i++) out.solimp[i] = mix * imp1[i] + (1 - mix) * imp2[i];
    for (int i = 0; i < 3; i++) friction[i] = std::max(fri1[i], fri2[i]);
    out.adhesion = m->geom_adhesion[g1] + m->geom_adhesion[g2];
  }
  const int unpacked[5] = {0, 0, 1, 2, 2};
  for (int i = 0; i < 5; i++) out.friction[i] = friction[unpacked[i]];
  out.margin = m->geom_margin[g1] + m->geom_margin[g2];
  out.gap = m->geom_gap[g1] + m->geom_gap[g2];
  return out;
}

ModelPtr AddPairs(const mjModel* model, const std::vector<ContactPair>& pairs) {
  if (pairs.empty()) return CopyModel(model);
  const mjModel* m = model;
  const std::vector<int> order = MergeOrder(m, pairs);
  const Grown g = Grow(m, pairs, order);

  // what stands in front of the arrays, with new sizes
  const Bytes old = SerializeModel(m);
  const ModelPtr parsed = DeserializeModel(old);  // textures may have come in
  m = parsed.get();
  mjModel sizes = *m;
  const ModelBytes before = CountArrays(m);
  if (before.in_memory != m->nbuffer) RefuseLayout("its buffer");
  sizes.npair = static_cast<mjtSize>(order.size());
  sizes.nnames_map = static_cast<mjtSize>(g.map.size());
  sizes.nbuffer = CountArrays(&sizes).in_memory;
  Bytes bytes(old.begin(), old.end() - static_cast<std::ptrdiff_t>(before.in_file));
  std::size_t position = kBinaryHeader * sizeof(int);
  const auto write_size = [&](mjtSize was, mjtSize is) {
    mjtSize found;
    std::memcpy(&found, bytes.data() + position, sizeof(found));
    if (found != was) RefuseLayout("its list of sizes");
    std::memcpy(bytes.data() + position, &is, sizeof(is));
    position += sizeof(is);
  };
#define X(name) write_size(m->name, sizes.name);
  MJMODEL_SIZES
#undef X

  // arrays: those of pairs and names are new
  const auto write = [&](const void* from, std::size_t size) {
    const auto* begin = static_cast<const unsigned char*>(from);
    bytes.insert(bytes.end(), begin, begin + size);
  };
  const auto replacement = [&](const char* name) -> std::pair<const void*, std::size_t> {
    const auto of = [](const auto& values) {
      return std::pair<const void*, std::size_t>(values.data(), values.size() * sizeof(values[0]));
    };
    const std::string field = name;
    if (field == "pair_dim") return of(g.dim);
    if (field == "pair_geom1") return of(g.geom1);
    if (field == "pair_geom2") return of(g.geom2);
    if (field == "pair_signature") return of(g.signature);
    if (field == "pair_solref") return of(g.solref);
    if (field == "pair_solreffriction") return of(g.solreffriction);
    if (field == "pair_solimp") return of(g.solimp);
    if (field == "pair_margin") return of(g.margin);
    if (field == "pair_gap") return of(g.gap);
    if (field == "pair_adhesion") return of(g.adhesion);
    if (field == "pair_friction") return of(g.friction);
    if (field == "name_pairadr") return of(g.name);
    if (field == "names_map") return of(g.map);
    if (field == "tuple_objid") return of(g.tuple);
    return {nullptr, 0};
  };
  ForEachPairOfArrays(m, &sizes, [&](const char* name, auto member, const ArrayShape& was, const ArrayShape& is) {
    const std::size_t expected = sizeof(*(m->*member)) * is.rows * is.columns;
    const auto [data, size] = replacement(name);
    if (data ? size != expected : is.rows != was.rows) RefuseLayout(name);
    write(data ? data : m->*member, expected);
  });
  ModelPtr out = DeserializeModel(bytes);
  if (!SameNames(model, out.get())) RefuseLayout("the map of names");
  return out;
}

}  // namespace costate
