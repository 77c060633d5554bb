// What ParameterSet is made of.
#ifndef COSTATE_PARAMETER_PARAMETER_SET_H_
#define COSTATE_PARAMETER_PARAMETER_SET_H_

#include <costate/parameter.h>

#include <cstddef>

#include "parameter/field.h"

namespace costate {

/// The numbers of one field of one element, of which some are parameters.
struct ParameterBlock {
  const Field* field = nullptr;
  int id = 0;
  VectorXd given, value;
};

/// One array inside mjModel's buffer.
struct ModelArray {
  std::string name;
  std::size_t offset = 0, bytes = 0;
  bool numbers = false;  // of mjtNum
};

/// The buffer that all arrays of a model lie in.
inline char* Bytes(const mjModel* m) { return static_cast<char*>(m->buffer); }

/// "joint:hip/damping[2]" in parts; index −1: all.
struct ParameterName {
  std::string kind, element, field;
  int index = -1;
};
ParameterName SplitName(const std::string& name);

/// The element's id and the field. @throws Error{kInvalidArgument} with near names.
int FindElement(const mjModel* model, const std::string& kind, const std::string& element, const std::string& name);
const Field* FindField(const mjModel* model, const std::string& kind, int id, const std::string& field,
                       const std::string& name);

/// "joint:hip/damping", "option/gravity"; "[index]" unless the field has one number.
std::string FullName(const mjModel* model, const Field& field, int id, int index);

/// The values of a field as the model has them. @throws Error{kInvalidArgument} when they are not of the field's form.
VectorXd ReadField(const mjModel* model, const Field& field, int id);

/// Writes the block into `model`, whose other numbers are those of `given`.
void WriteField(const mjModel* given, const ParameterBlock& block, mjModel* model);

/// What WriteField writes, to find two parameters that write the same number.
std::vector<std::string> Writes(const mjModel* model, const Field& field, int id, int index);

/// Value, unit, bounds, nudge, note.
Parameter Describe(const mjModel* model, const Field& field, int id, int index, const VectorXd& values);

/// What of that follows the value, of the model that has it: nudge, clamps, one_sided.
void DescribeAt(const mjModel* model, const Field& field, int id, int index, double value, Parameter* parameter);

struct ParameterSet::Impl {
  std::shared_ptr<mjModel> given;  // never changes once the set is made: copies share it
  ModelPtr model;
  DataPtr data;  // workspace of mj_setConst; made when first needed
  std::vector<ParameterBlock> blocks;
  std::vector<std::pair<int, int>> at;  // parameter → block, index
  std::vector<Parameter> parameters;
  std::vector<ModelArray> arrays;       // all that a Set may change
  std::vector<std::size_t> kept_words;  // offsets in the buffer
  std::vector<std::string> kept;
  std::uint64_t revision = 0;

  void Add(const std::string& name);
  void FindArrays();
  void FindKept();
  VectorXd Values() const;
  void Check(ConstVectorRef values) const;
  void Write();
};

/// Calls mj_setConst. @throws Error{kEngine}.
void SetConst(mjModel* model, mjData* data);

}  // namespace costate

#endif  // COSTATE_PARAMETER_PARAMETER_SET_H_
