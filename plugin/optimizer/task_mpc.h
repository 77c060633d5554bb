// <mpc>: how plans are made while the robot moves.
#ifndef COSTATE_OPTIMIZER_TASK_MPC_H_
#define COSTATE_OPTIMIZER_TASK_MPC_H_

#include <costate/task.h>

#include "optimizer/task_xml.h"

namespace costate {

/// @param element  null: the defaults.
MpcOptions ReadMpc(const XmlElement* element);

}  // namespace costate

#endif  // COSTATE_OPTIMIZER_TASK_MPC_H_
