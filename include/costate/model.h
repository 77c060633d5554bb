// Ownership of the engine's two structs, loading a model from a file, and its sizes.
#ifndef COSTATE_MODEL_H_
#define COSTATE_MODEL_H_

#include <mujoco/mujoco.h>

#if mjVERSION_HEADER != 4000001
#error "Costate is made for MuJoCo 4.0.1, these are the headers of another"
#endif

#include <memory>
#include <string>
#include <vector>

#include <costate/error.h>
#include <costate/types.h>

namespace costate {

struct ModelDeleter {
  void operator()(mjModel* model) const { mj_deleteModel(model); }
};
struct DataDeleter {
  void operator()(mjData* data) const { mj_deleteData(data); }
};
struct SpecDeleter {
  void operator()(mjSpec* spec) const { mj_deleteSpec(spec); }
};
using ModelPtr = std::unique_ptr<mjModel, ModelDeleter>;
using DataPtr = std::unique_ptr<mjData, DataDeleter>;
using SpecPtr = std::unique_ptr<mjSpec, SpecDeleter>;

/// Sizes of a model, narrowed once: x = (qpos, qvel, act), u = ctrl, s = sensordata.
struct Dims {
  int nq = 0, nv = 0, na = 0, nu = 0;
  int nx = 0;   ///< nq + nv + na, the state
  int ndx = 0;  ///< 2 nv + na, its tangent, ordered (qpos tangent, qvel, act)
  int ns = 0;   ///< nsensordata
  explicit Dims(const mjModel* model);
  Dims() = default;
};

/// Loads a model: MJCF (.xml), URDF (.urdf or .xml) or a compiled binary (.mjb).
///
/// @param path      file; assets are found as the engine finds them, relative to it.
/// @param warnings  compiler warnings are appended when not null.
/// @throws Error{kFile} if the file is missing or unreadable; Error{kParse} with the compiler's own text, which names
///         file, line and element; Error{kUnsupported} for an .mjb of another engine version; Error{kInvalidArgument}
///         for a time step that is not finite and above 0, or an integrator, cone or solver that the engine does not
///         know.
ModelPtr LoadModel(const std::string& path, std::vector<std::string>* warnings = nullptr);

/// Parses an MJCF or URDF file to a spec that may still be edited (elements added) before CompileModel.
/// @throws as LoadModel; Error{kUnsupported} for .mjb, which has no spec.
SpecPtr LoadSpec(const std::string& path, std::vector<std::string>* warnings = nullptr);

/// Compiles a spec. @param name  stands in messages (the file it came from).
/// @throws Error{kParse} with the compiler's text; Error{kInvalidArgument} as LoadModel.
ModelPtr CompileModel(mjSpec* spec, const std::string& name, std::vector<std::string>* warnings = nullptr);

/// Loads a model from MJCF text, e.g. a raw string in a test or example; no assets. @throws as LoadModel.
ModelPtr LoadModelFromString(const std::string& xml);

/// A deep copy; the caller's model is never modified anywhere in Costate.
ModelPtr CopyModel(const mjModel* model);

/// Compiled model to bytes and back (the engine's .mjb format): what a record stores. @throws Error{kInvalidArgument}
/// for no model; of bytes Error{kFile}: damaged, Error{kUnsupported}: another engine's, or plugins that are not known.
std::vector<unsigned char> SerializeModel(const mjModel* model);
ModelPtr DeserializeModel(const std::vector<unsigned char>& bytes);

/// New data at the model's default state (qpos0). @throws Error{kEngine} when the engine cannot allocate it.
DataPtr MakeData(const mjModel* model);

/// New data at a keyframe, by name or by number ("3"). The keyframe's ctrl, mocap and time are set as well.
/// @throws Error{kInvalidArgument} that names the nearest keyframe; also when the keyframe holds a NaN.
DataPtr MakeDataAtKey(const mjModel* model, const std::string& key);

/// Name of an element, or "joint 3" when it has none; `type` is an mjtObj.
std::string ElementName(const mjModel* model, int type, int id);

/// Name of the model as its file states it ("model" attribute).
std::string ModelName(const mjModel* model);

/// Names of the entries of x, dx, u and s, as they stand in tables and CSV headers:
/// "qpos[knee]", "qpos[root].x" … "qpos[root].qw", "qvel[root].wx", "act[hip]", "ctrl[hip]", "sensor[gyro].0".
std::vector<std::string> StateNames(const mjModel* model);
std::vector<std::string> TangentNames(const mjModel* model);
std::vector<std::string> ControlNames(const mjModel* model);
std::vector<std::string> SensorNames(const mjModel* model);

/// The candidate nearest to `name` (edit distance), else the shortest that begins or ends with it, or "" when none is
/// near: for "no site 'tib', did you mean 'tip'?".
std::string NearestName(const std::string& name, const std::vector<std::string>& candidates);

}  // namespace costate

#endif  // COSTATE_MODEL_H_
