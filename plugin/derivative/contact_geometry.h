// How a contact moves with its two geoms: (distance, point, frame) by the twist of geom 2. Section G of README.md.
#ifndef COSTATE_DERIVATIVE_CONTACT_GEOMETRY_H_
#define COSTATE_DERIVATIVE_CONTACT_GEOMETRY_H_

#include <mujoco/mujoco.h>

#include <string>
#include <vector>

#include "derivative/contact_convex.h"
#include "derivative/spatial.h"

namespace costate {

/// Rows (dφ, dp, Ω): distance, point, and the angular velocity of the contact frame.
/// Columns: twist (w; v) of a geom, v at the contact point.
using ContactMatrix = Eigen::Matrix<double, 7, 6, Eigen::RowMajor>;

struct ContactMotion {
  ContactMatrix by_geom2;  ///< geom 2 moves, geom 1 rests
  ContactMatrix by_both;   ///< both move as one rigid body: not zero in Ω, because tangents may come from world axes
  /// Geom 1 moves, geom 2 rests: the two others tell, so six directions are enough.
  ContactMatrix by_geom1() const { return by_both - by_geom2; }
};

/// Does the iterative collider find the contact on a curved surface? Of a ball or capsule only where its centre or
/// segment is within a mesh or height field.
bool IsCurved(const mjModel* model, const mjContact& contact);

/// Is the contact found by an iterative collider on a curved surface? Then it is exact to ccd_tolerance only, and moves
/// in jumps that no difference sees through. (G7)
bool IsStaircase(const mjModel* model, const mjData* data, const mjContact& contact);

/// The contacts that are, and that push or by whose normal an adhesion pulls, which counts those within the gap too.
std::vector<int> FeltStaircases(const mjModel* model, const mjData* data);

/// Does one of these push, or an adhesion pull along it, in a later stage of RK4 about the state in `data`? What stages
/// have anew is in no fingerprint of the point. @post `data` holds that state.
bool LaterStagesHaveStaircases(const mjModel* model, mjData* data);

/// Rows of a contact in efc, from efc_address on. @pre It has some.
int RowCount(const mjData* data, const mjContact& contact);

/// Is any row of the contact active? @pre efc_state is that of the solution.
bool CarriesForce(const mjData* data, const mjContact& contact);

/// Is the Jacobian of a contact with rows zero to rounding? Its force is without effect and without bound, only the
/// engine's own differences know what it does beside the point.
bool IsWithoutLever(const mjModel* model, const mjData* data, const mjContact& contact);

/// Does a frictionless contact with a plane push in vain, because joints move its geoms against each other along the
/// plane alone? It then does so wherever they go, and has derivatives like any other. (G15)
bool PushesInVain(const mjModel* model, const mjData* data, const mjContact& contact);

/// Two boxes, face on face: the engine takes the normal of the one whose tilt costs it less, so that whose it is
/// depends on the direction in which they tilt against each other, however little. (G9)
struct FacePair {
  bool owner[2] = {false, false};  ///< is the contact's normal that of this box' face?
  double tilt = 0;                 ///< angle between the faces
};
/// @return false unless both boxes have a face along the normal.
bool FindFacePair(const mjModel* model, const mjData* data, const mjContact& contact, FacePair* out);

/// A corner of what is left when the engine clips two flat parts against each other: where two of their borders cross.
/// (G13)
struct ClippedCorner {
  std::vector<int> borders;  ///< that pass through it: two where it moves smoothly
  double room = 0;           ///< to the next one [m], which would make it another corner
};
/// @return false unless the contact is one.
bool FindClippedCorner(const mjModel* model, const mjData* data, const mjContact& contact, ClippedCorner* out);

/// The body that a side of a contact is on: a geom's, or that of a flex' vertex. @return −1 for what has several, an
/// element of a flex or a vertex that is interpolated.
int ContactBody(const mjModel* model, const mjContact& contact, int side);

/// "contact of A and B".
std::string ContactName(const mjModel* model, const mjContact& contact);

/// How far the point of a ball, or of a capsule, is from where another feature of the other geom takes over [m]: the
/// border between a box' face and its edge, the ends of a capsule's side, a cylinder's rim. The normal goes on there,
/// its rate jumps. A capsule that ends with what it lies along is on one. (K13)
/// @return mjMAXVAL for other pairs, and for parallel capsules that do not end together.
double FeatureRoom(const mjModel* model, const mjData* data, const mjContact& contact);

/// Closed forms where the collider has one (contact_closed.h); the exact contact where the engine's is iterative and a
/// surface curved (contact_convex.h); centred differences of the engine's own narrow-phase function in pose space for
/// the other pairs, shared by all contacts of a pair.
class ContactGeometry {
 public:
  /// @param differences  every pair is differenced, also those with a closed form: to compare the two.
  explicit ContactGeometry(const mjModel* model, bool differences = false);

  /// Fills motion(c) for every contact with a constraint row. Geom poses in `data` are perturbed and restored bit for
  /// bit.
  /// @param with_force  contacts that carry no force are left out.
  /// @param also  contacts with a nonzero entry are wanted all the same, with a row or without; null: none.
  /// @return false with the geoms' names in `missing` when a contact cannot be differentiated, without where it is one of
  /// a flex; the others still are.
  bool Compute(const mjModel* model, mjData* data, std::string* missing, bool with_force = false,
               const std::vector<char>* also = nullptr);

  /// The same for those alone whose differences would not be theirs: that IsStaircase and are felt, and that Flickers.
  /// @pre efc_state is that of the solution.
  /// @return false if there are none.
  bool ComputeJumping(const mjModel* model, mjData* data);

  bool has_motion(int contact) const { return done_[contact] == kMoves || done_[contact] == kBends; }
  /// Does its place jump where its geoms are nudged, however little?
  bool jumps(int contact) const { return done_[contact] == kJumps; }
  /// Does one that pushes, of the contacts of this one's geoms, jump so that has a motion? It is then that of the
  /// places at the point: where the engine keeps some of many points alike (corners of a cylinder's cap on a box),
  /// rounding decides which. Cost: at most 12 narrow phases.  @pre efc_state is that of the solution.
  bool Flickers(const mjModel* model, mjData* data, int contact);

  /// Does it move by one motion of its geoms otherwise than by the motions that this one is the sum of?
  bool bends(int contact) const { return done_[contact] == kBends; }

  const ContactMotion& motion(int contact) const { return motion_[contact]; }

  using Twists = Eigen::Matrix<double, 6, Eigen::Dynamic>;

 private:
  using Rates = Eigen::Matrix<double, 10, 6>;  // of distance, point, normal and tangent by a twist

  void Open(int ncon);
  bool IsWanted(const mjData* data, int c, bool with_force) const;
  // of its pair, what would be differenced first were all of them wanted: there the motions are chosen
  int FirstOpen(const mjData* data, int c) const;
  bool ClosedForm(const mjModel* model, const mjData* data, int c);
  bool VertexOnPlane(const mjModel* model, const mjData* data, int c);
  class Follower;
  bool Difference(const mjModel* model, mjData* data, int first, std::string* missing);
  bool FollowJoints(Follower* pair, const Twists& joints, const bool bends[], Rates rates[]);
  void TurnTogether(const mjData* data, Follower* pair);
  bool Convex(const mjModel* model, mjData* data, int c, std::string* missing);
  bool Exact(const mjModel* model, const mjData* data, int c, std::string* missing);
  bool CapsuleBox(const mjModel* model, const mjData* data, int c);
  bool Boxes(const mjModel* model, const mjData* data, int c);
  void Store(int c, const mjContact& contact, const ContactRate& rate);
  bool Refuse(const mjModel* model, const mjContact& contact, const char* why, std::string* missing);
  bool FindMargin(const mjModel* model, mjData* data, int first, double* margin);
  int Collide(const mjModel* model, mjData* data, int g1, int g2, double margin);

  enum Outcome : char { kOpen, kMoves, kBends, kRefused, kJumps };

  bool differences_;
  std::vector<ContactMotion> motion_;
  std::vector<Outcome> done_;
  const std::vector<char>* also_ = nullptr;
  std::vector<mjPreContact> found_;
  ConvexSolver convex_;
};

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_CONTACT_GEOMETRY_H_
