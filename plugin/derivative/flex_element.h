// Elements of flexes, triangles and tetrahedra, as the engine numbers their edges and stores what they are made of.
#ifndef COSTATE_DERIVATIVE_FLEX_ELEMENT_H_
#define COSTATE_DERIVATIVE_FLEX_ELEMENT_H_

#include <mujoco/mujoco.h>

#include <vector>

namespace costate {

inline constexpr int kBendingNumbers = 17;  ///< of an edge: a 4 × 4 matrix, and what the curve of its rest adds

/// Does a flex resist stretching by its elements' edges?
inline bool HasStretch(const mjModel* m, int flex) {
  return m->flex_dim[flex] >= 2 && m->flex_interp[flex] == 0 && !m->flex_rigid[flex] &&
         m->flex_stiffnessadr[flex] >= 0 && m->flex_stiffness[m->flex_stiffnessadr[flex]] != 0;
}

/// Does it resist bending about its triangles' edges?
bool HasBending(const mjModel* model, int flex);

struct ElementShape {
  explicit ElementShape(int dim) : solid(dim == 3), vertices(dim + 1), edges(solid ? 6 : 3), numbers(solid ? 24 : 21) {}

  const int* Ends(int edge) const {
    static constexpr int kTriangle[3][2] = {{1, 2}, {2, 0}, {0, 1}};
    static constexpr int kTetrahedron[6][2] = {{0, 1}, {1, 2}, {2, 0}, {2, 3}, {0, 3}, {1, 3}};
    return solid ? kTetrahedron[edge] : kTriangle[edge];
  }

  /// The symmetric matrix K of which flex_stiffness has the triangle: −l_a Σ_b K_ab (l_b² − l0_b²) is an edge's tension.
  void Unpack(const mjtNum* triangle, double K[6][6]) const {
    for (int a = 0; a < edges; a++) {
      for (int b = a; b < edges; b++) K[a][b] = K[b][a] = *triangle++;
    }
  }

  bool solid;
  int vertices, edges;
  int numbers;                         ///< of flex_stiffness, of one element
  static constexpr int products = 21;  ///< the first are K; of a tetrahedron others follow, zero but in other materials
};

/// A triangle or tetrahedron: vertices and edges of its flex, and K.
struct FlexElement {
  FlexElement(const mjModel* m, int flex, int element) {
    const ElementShape shape(m->flex_dim[flex]);
    vertex = m->flex_elem + m->flex_elemdataadr[flex] + shape.vertices * element;
    edge = m->flex_elemedge + m->flex_elemedgeadr[flex] + shape.edges * element;
    shape.Unpack(m->flex_stiffness + m->flex_stiffnessadr[flex] + shape.numbers * element, K);
  }
  const int *vertex, *edge;
  double K[6][6];
};

/// f(vertex (4, of all flexes), numbers of flex_bending) for each edge of a flex that has a triangle on both sides: its
/// ends first. (P8)
template <typename F>
void ForFlaps(const mjModel* m, int flex, F f) {
  const int first = m->flex_vertadr[flex];
  for (int e = 0; e < m->flex_edgenum[flex]; e++) {
    const int* ends = m->flex_edge + 2 * (m->flex_edgeadr[flex] + e);
    const int* flap = m->flex_edgeflap + 2 * (m->flex_edgeadr[flex] + e);
    if (flap[1] < 0) continue;
    const int vertex[4] = {first + ends[0], first + ends[1], first + flap[0], first + flap[1]};
    f(vertex, m->flex_bending + m->flex_bendingadr[flex] + kBendingNumbers * e);
  }
}

/// (H4) T = Σ_a K_a (l_a² − l0_a² − plastic_a) of one edge of an element.
struct Tension {
  double value = 0;
  double room = 0;       ///< [m] by how much each edge changes, at least, for another sign; < 0: none does
  signed char sign = 0;  ///< 1: pulls, −1: pushes, 0: none, to rounding
};
/// @param plastic  of the element's edges; null: none.
Tension FindTension(const mjModel* model, const mjData* data, int flex, const FlexElement& element, int edge,
                    const mjtNum* plastic = nullptr);

/// Tension of an edge within an element of a flex, by whose sign the discrete integrator's metric has a part of it, (H4).
struct FlexTension {
  int flex, element, edge;  ///< of the flex, of the element
  signed char sign;         ///< 1: pulls, -1: pushes, 0: none, to rounding
  bool matters;             ///< do its ends move apart? Else that part multiplies nothing
  double room;  ///< [m] by how much each edge of the element has to be longer or shorter, at least, for another sign
};

/// Those of all elastic flexes of triangles or tetrahedra under the discrete integrator; none under others. @pre `data`
/// is after mj_forward or mj_step.
void FindFlexTensions(const mjModel* model, const mjData* data, std::vector<FlexTension>* tensions);

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_FLEX_ELEMENT_H_
