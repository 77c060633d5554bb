// The active set of a constraint solution, and the constraint force of a nearby configuration on the same smooth
// branch.
#ifndef COSTATE_DERIVATIVE_ACTIVE_SET_H_
#define COSTATE_DERIVATIVE_ACTIVE_SET_H_

#include <mujoco/mujoco.h>

#include <vector>

namespace costate {

/// Which rows act, and on which piece of their cost, at one point. The force at a neighbouring point is evaluated on
/// the *same* pieces: the residual is then smooth, and a row that would switch inside a difference stencil does not
/// spoil it. Source: README.md, eq. (5).
class ActiveSet {
 public:
  /// Remembers rows and states of `data`; efc_state must belong to the solution (mj_constraintUpdate at J a − aref).
  void Capture(const mjData* data);

  /// Finds each row of `data` among the captured ones. @return false if a captured row that carries force is missing.
  bool Match(const mjData* data);

  /// The captured row that a row of the last Match is; −1: none.
  int captured(int row) const { return match_[row]; }

  /// Constraint forces (nefc) at y = J a − aref, each row on its captured piece; rows that were not captured carry
  /// none.
  /// @param only  when given, captured rows with only[row] = 0 carry none either.
  /// @pre Match(data).
  void Force(const mjData* data, const double* y, double* force, const std::vector<char>* only = nullptr) const;

 private:
  struct Row {
    int type, id, state;
    double position;
  };
  struct Contact {
    int pair[8];  // geom, flex, elem, vert of both sides
    int dim, row, rows;
    double position[3], normal[3];
  };
  static Contact MakeContact(const mjData* data, int i);
  void MatchOther(const mjData* data);
  void MatchContacts(const mjData* data);

  int other_rows_ = 0;             // rows before the contacts
  std::vector<Row> rows_;          // all captured rows
  std::vector<Contact> contacts_;  // captured contacts that have rows
  std::vector<int> match_;         // row of data → captured row, or -1
  std::vector<char> found_;        // captured row → was it met
};

}  // namespace costate

#endif  // COSTATE_DERIVATIVE_ACTIVE_SET_H_
