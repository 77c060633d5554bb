// Bad task files: each error names file, line, element, what was expected and the nearest name.
#include <costate/task.h>
#include <gtest/gtest.h>

#include "support/engine_test.h"
#include "support/task_file.h"

namespace costate {
namespace {

using support::TemporaryFolder;
using support::ZooTask;

struct Bad {
  const char* name;
  const char* elements;  // on line 2 of the file
  std::vector<const char*> texts;
  ErrorCode code = ErrorCode::kParse;
};
void PrintTo(const Bad& bad, std::ostream* out) { *out << bad.elements; }

class BadElement : public ::testing::TestWithParam<Bad> {};

TEST_P(BadElement, IsRefusedWithItsLine) {
  const TemporaryFolder folder;
  folder.Write("short.csv", "0,1\n1,2\n");
  folder.Write("text.csv", "time,a\n0,x\n");
  folder.Write("backwards.csv", "0,1,2,3\n0,1,2,3\n");
  folder.Write("shouldr.csv", "# by hand\ntime,extend,shouldr,pull\n0,1,2,3\n");
  folder.Write("others.csv", "time,a,b,c\n0,1,2,3\n");
  folder.Write("twice.csv", "time,shoulder,shoulder,pull,extend\n0,1,2,3,4\n");
  const std::string file = folder.Write("zoo.task.xml", ZooTask(GetParam().elements));
  try {
    LoadTask(file);
    FAIL() << "loads: " << GetParam().elements;
  } catch (const Error& error) {
    const std::string what = error.what();
    EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(GetParam().code)) << what;
    EXPECT_EQ(what.find(file + ":2: <"), 0u) << what;
    for (const char* text : GetParam().texts) {
      EXPECT_NE(what.find(text), std::string::npos) << "'" << text << "' is not in: " << what;
    }
  }
}

const Bad kBad[] = {
    // elements and attributes
    {"UnknownElement", "<cots ctrl='all'/>", {"<cots>", "did you mean 'cost'?"}},
    {"UnknownAttribute", "<cost ctrl='all' wieght='1'/>", {"<cost>", "'wieght'", "did you mean 'weight'?"}},
    {"AttributeTwice", "<cost ctrl='all' ctrl='all'/>", {"'ctrl' is given twice"}},
    {"TextInside", "<cost ctrl='all'>weight</cost>", {"text inside", "'weight'"}},
    {"EmptyAttribute", "<cost ctrl=''/>", {"ctrl is empty"}},
    {"SecondStart", "<start key='home'/><start key='home'/><cost ctrl='all'/>", {"<start>", "a second"}},
    {"ElementInsideStart", "<start key='home'><cost ctrl='all'/></start>", {"no elements inside <start>"}},
    {"SameName", "<cost name='a' ctrl='all'/><cost name='a' qvel='all'/>", {"<cost name='a'>", "a second cost"}},

    // a length of motion that is open
    {"TimeWithoutRange", "<cost ctrl='all'/><time shortest='1'/>", {"<time>: longest is missing: seconds"}},
    {"TimeOfNothing",
     "<cost ctrl='all'/><time shortest='0' longest='1'/>",
     {"<time>: shortest is 0, expected a number above 0"}},
    {"TimeBackwards",
     "<cost ctrl='all'/><time shortest='2' longest='1'/>",
     {"<time>: longest is 1, not above shortest 2"}},
    {"TimeNotANumber",
     "<cost ctrl='all'/><time shortest='1' longest='inf'/>",
     {"<time>: longest: 'inf' is not a finite number"}},
    {"TimePaid",
     "<cost ctrl='all'/><time shortest='1' longest='2' weight='-1'/>",
     {"<time>: weight is -1, expected at least 0"}},
    {"TimeTolerance",
     "<cost ctrl='all'/><time shortest='1' longest='2' tolerance='1'/>",
     {"<time>: tolerance is 1, expected less than 1"}},
    {"TimeAttribute",
     "<cost ctrl='all'/><time shortst='1' longest='2'/>",
     {"<time>: there is no attribute 'shortst', did you mean 'shortest'?"}},
    {"TimeTwice",
     "<cost ctrl='all'/><time shortest='1' longest='2'/><time shortest='1' longest='2'/>",
     {"a second <time>"}},
    {"TimeAndWindow",
     "<cost name='late' ctrl='all' when='0 0.05'/><time shortest='1' longest='2'/>",
     {"<cost name='late'>: <time> leaves the length of the motion open: when can only be \"end\""},
     ErrorCode::kUnsupported},
    {"CostAtATime",
     "<cost name='via' qvel='all' when='0.05'/>",
     {"<cost name='via'>: when is '0.05', one time", "<constraint when=\"0.05\">"}},
    {"TimeAndBoundAtATime",
     "<cost ctrl='all'/><constraint name='via' qvel='all' equals='0' when='0.05'/><time shortest='1' longest='2'/>",
     {"<constraint name='via'>: <time> leaves"},
     ErrorCode::kUnsupported},
    {"TimeAndReference",
     "<cost name='track' qpos='all' target='key:home@0 key:pose@0.1'/><time shortest='1' longest='2'/>",
     {"<cost name='track'>", "target cannot be a reference over time"},
     ErrorCode::kUnsupported},
    {"TimeAndStates",
     "<cost ctrl='all'/><guess states='key:home@0 key:pose@0.1'/><solver type='fddp'/><time shortest='1' longest='2'/>",
     {"<guess>: states do not go with <time>"},
     ErrorCode::kUnsupported},
    {"SmoothingAndStates",
     "<cost ctrl='all'/><guess states='key:home@0 key:pose@0.1'/><solver type='fddp'/><smooth strategy='onset:0.01'/>",
     {"<guess>: states do not go with <smooth>"},
     ErrorCode::kUnsupported},

    {"PoseAsABound",
     "<cost ctrl='all'/><constraint name='there' site='tip' quantity='pose' equals='0 0 1 1 0 0' when='end'/>",
     {"<constraint name='there'>: equals has 6 numbers", "7"}},
    {"SoftPose",
     "<cost ctrl='all'/><constraint name='there' site='tip' quantity='pose' equals='0 0 1 1 0 0 0' soft='1'/>",
     {"<constraint name='there'>: soft is not supported for a pose: write a <cost> with quantity=\"pose\""},
     ErrorCode::kUnsupported},
    {"BoundsOfPose",
     "<cost ctrl='all'/><constraint name='near' site='tip' quantity='pose' target='0 0 1 1 0 0 0' upper='1 2 3'/>",
     {"<constraint name='near'>: upper has 3 numbers, what it bounds has 6 components"}},
    {"DerivativeEvery", "<cost ctrl='all'/><solver derivative_every='0'/>", {"<solver>", "derivative_every is 0"}},
    {"DerivativeEveryExact",
     "<cost ctrl='all'/><solver type='fddp' second_order='true' derivative_every='3'/>",
     {"<solver>: second_order takes the curvature at each knot, derivative_every is 3"}},

    // what is measured
    {"NoMeasure", "<cost weight='1'/>", {"what it measures"}},
    {"TwoMeasures", "<cost ctrl='all' qvel='all'/>", {"give qvel or ctrl, not both"}},
    {"TwoElements", "<cost site='tip' body='arm' quantity='pos'/>", {"give body or site, not both"}},
    {"NoSite",
     "<cost name='tip' site='tib' quantity='pos'/>",
     {"<cost name='tip'>: no site 'tib', did you mean 'tip'?"}},
    {"NoBody", "<cost subtree='bass' quantity='com'/>", {"no body 'bass', did you mean 'base'?"}},
    {"NoSensor", "<cost sensor='gyru'/>", {"no sensor 'gyru', did you mean 'gyro'?"}},
    {"NoJoint", "<cost qpos='shouldr'/>", {"no joint 'shouldr', did you mean 'shoulder'?"}},
    {"NoActuator", "<cost ctrl='pul'/>", {"no actuator 'pul'", "did you mean 'pull'?"}},
    {"NoQuantity", "<cost site='tip'/>", {"site=\"tip\" needs a quantity"}},
    {"WrongQuantity",
     "<cost site='tip' quantity='linvell'/>",
     {"no quantity 'linvell'", "did you mean 'linvel'?", "gyro"}},
    {"QuantityOfSensor", "<cost sensor='gyro' quantity='pos'/>", {"quantity belongs to elements"}},
    {"FreeJoint", "<cost joint='root' quantity='pos'/>", {"'root' is free", "qpos=\"root\""}},
    {"QuatOfHinge", "<cost joint='shoulder' quantity='quat'/>", {"no ball joint"}},
    {"ActOfMotor", "<cost act='pull'/>", {"actuator 'pull' has no act"}},
    {"ActuatorOfList",
     "<cost actuator='shoulder pul' quantity='force'/>",
     {"no actuator 'pul'", "did you mean 'pull'?"}},
    {"ActuatorTwice", "<cost actuator='pull pull' quantity='force'/>", {"actuator: 'pull' is chosen twice"}},
    {"BallOfList", "<cost joint='shoulder neck' quantity='force'/>", {"'neck' is a ball joint"}},
    {"SeveralSites", "<cost site='tip imu' quantity='pos'/>", {"no site 'tip imu'"}},
    {"TargetOfList", "<cost actuator='all' quantity='force' target='site:tip'/>", {"needs one measured sensor"}},
    {"IndexBeyondList",
     "<cost actuator='all' quantity='force' index='3'/>",
     {"index 3 does not exist: actuator:all.force has 3 components"}},
    {"EntryBeyond", "<cost qvel='11'/>", {"no entry 11, the model has 11 entries"}},
    {"EntryOfQuaternion", "<cost qpos='4'/>", {"quaternion", "name the joint"}},
    {"ChosenTwice", "<cost qvel='0 root'/>", {"chosen twice"}},
    {"IndexBeyond", "<cost sensor='gyro' index='3'/>", {"index 3", "3 components"}},
    {"IndexTwice", "<cost sensor='gyro' index='1 1'/>", {"index 1 is given twice"}},
    {"IndexFraction", "<cost sensor='gyro' index='0.5'/>", {"index 0.5"}},
    {"DistanceAlone", "<cost geom='skull' quantity='distance'/>", {"geom2"}},
    {"PairOfPosition", "<cost geom='skull' geom2='floor' quantity='pos'/>", {"geom2 belongs to distance"}},
    {"NoGeom2", "<cost geom='skull' geom2='flor' quantity='distance'/>", {"no geom 'flor', did you mean 'floor'?"}},
    {"CutoffOfPosition", "<cost geom='skull' cutoff='1' quantity='pos'/>", {"cutoff belongs to distance"}},
    {"ReferenceAlone", "<cost site='tip' quantity='pos' reftype='body'/>", {"reftype and refname"}},
    {"TermOfUnequalSize",
     "<cost><term sensor='gyro'/><term ctrl='0'/></cost>",
     {"<term>", "1 component", "3 components"}},
    {"TermOfRotation", "<cost><term sensor='attitude'/><term sensor='gyro'/></cost>", {"orientation"}},
    {"TermScalesRotation", "<cost><term sensor='attitude' coef='2'/></cost>", {"<term>", "neither be scaled"}},
    {"TermAndMeasure", "<cost ctrl='all'><term ctrl='all'/></cost>", {"another <term>"}},
    {"MeasureBesideTerm", "<cost index='0'><term ctrl='all'/></cost>", {"index belongs to a <term>"}},
    {"TermOfNothing", "<cost><term coef='2'/></cost>", {"<term>", "what it measures"}},
    {"NotATerm", "<cost><trem ctrl='all'/></cost>", {"<trem>", "<term> elements"}},

    // targets
    {"TargetSize", "<cost sensor='gyro' target='1 2'/>", {"target has 2 numbers, expected 3"}},
    {"TargetNan", "<cost sensor='gyro' target='1 2 nan'/>", {"'nan' is not a finite number"}},
    {"TargetText", "<cost sensor='gyro' target='1 2 x'/>", {"'x' is not a finite number"}},
    {"TargetWord", "<cost sensor='gyro' target='kez:home'/>", {"expected 3 numbers, key:NAME"}},
    {"TargetKey",
     "<cost qpos='all' target='key:hume'/>",
     {"no keyframe 'hume', did you mean 'home'?"},
     ErrorCode::kInvalidArgument},
    {"TargetKeyTime", "<cost qpos='all' target='key:home@0 key:pose'/>", {"'key:pose'", "key:NAME@SECONDS"}},
    {"TargetKeyOrder", "<cost qpos='all' target='key:home@1 key:pose@1'/>", {"times must increase"}},
    {"TargetSite", "<cost site='tip' quantity='pos' target='site:gripp'/>", {"no site 'gripp', did you mean 'grip'?"}},
    {"TargetMocap", "<cost site='tip' quantity='pos' target='mocap:arm'/>", {"'arm' is not a mocap body"}},
    {"TargetOfScalar",
     "<cost joint='shoulder' quantity='pos' target='site:grip'/>",
     {"target 'site:grip' needs a measured position"}},
    {"TargetOfVector", "<cost qpos='all' target='site:grip'/>", {"one measured sensor"}},
    {"TargetZeroQuat", "<cost sensor='attitude' target='0 0 0 0'/>", {"quaternion has length 0"}},
    {"TargetFileMissing",
     "<cost sensor='gyro' target='file:nowhere.csv'/>",
     {"nowhere.csv' does not exist"},
     ErrorCode::kFile},
    {"TargetFileShort",
     "<cost sensor='gyro' target='file:short.csv'/>",
     {"short.csv:1", "2 columns, expected the time and 3 numbers"}},
    {"TargetFileText", "<cost ctrl='0' target='file:text.csv'/>", {"text.csv:2: 'x' in column 2"}},
    {"TargetFileBackwards",
     "<cost sensor='gyro' target='file:backwards.csv'/>",
     {"backwards.csv:2: times do not increase"}},

    {"TargetFileJoint",
     "<cost qpos='shoulder' target='file:shouldr.csv'/>",
     {"<cost>: target: ", "shouldr.csv:2: column 'shouldr' is none of the model, did you mean 'qpos[shoulder]'?"}},
    {"TargetFileJoints",
     "<cost qpos='shoulder' target='file:others.csv'/>",
     {"others.csv:1: the header has no column 'qpos[shoulder]', it has time, a, b and c"}},
    {"GuessFileColumn",
     "<guess file='shouldr.csv'/><cost ctrl='all'/>",
     {"<guess>: ", "shouldr.csv:2: column 'shouldr' is none of the model, did you mean 'ctrl[shoulder]'?"}},
    {"GuessFileColumns",
     "<guess file='others.csv'/><cost ctrl='all'/>",
     {"<guess>: ", "others.csv:1: the header has no column 'ctrl[shoulder]', it has time, a, b and c",
      "in order are columns without a header, or called u0, u1"}},
    {"GuessFileTwice",
     "<guess file='twice.csv'/><cost ctrl='all'/>",
     {"twice.csv:1: two columns are called 'shoulder'"}},
    {"StartFileColumn",
     "<start file='shouldr.csv'/><cost ctrl='all'/>",
     {"<start>: file: ", "shouldr.csv:2: column 'shouldr' is none of the model, did you mean 'qpos[shoulder]'?"}},

    // what no motion can have
    {"DirectionTooLong",
     "<cost body='arm' quantity='zaxis' target='0 0 2'/>",
     {"sensor[body:arm.zaxis].2 shall be 2, beyond what a direction's component can be, -1 to 1"}},
    {"DirectionOfNothing",
     "<cost body='arm' quantity='zaxis' target='0 0 0'/>",
     {"target '0 0 0': a direction has length 1, this one 0"}},
    {"DirectionInPart",
     "<cost body='arm' quantity='zaxis' index='0 2' target='1 1'/>",
     {"target '1 1': a direction has length 1, its given part has 1.41421"}},
    {"ConstraintDirection",
     "<constraint name='up' body='arm' quantity='zaxis' index='2' lower='1.5'/><cost ctrl='all'/>",
     {"<constraint name='up'>: ", "shall be 1.5 at least, beyond what a direction's component can be, -1 to 1"}},
    {"ConstraintBeyondRange",
     "<constraint name='there' qpos='shoulder' equals='9' when='end'/><cost ctrl='all'/>",
     {"<constraint name='there'>: qpos[shoulder] shall be 9, beyond the range of joint 'shoulder', -1.5708 to 1.5708 "
      "rad"}},
    {"LimitBeyondRange",
     "<limit joint='shoulder' upper='-9'/><cost ctrl='all'/>",
     {"qpos[shoulder] shall be -9 at most, beyond the range of joint 'shoulder', "}},
    {"TimeOfNoMotion",
     "<time shortest='1' longest='2'/>",
     {"<time>: there is neither a <cost> nor a <constraint>: nothing to be reached"}},

    // norms, weights, windows
    {"NoNorm", "<cost ctrl='all' norm='quadratik'/>", {"no norm 'quadratik', did you mean 'quadratic'?"}},
    {"NormWithoutParam", "<cost ctrl='all' norm='cosh'/>", {"param has 0 numbers, norm 'cosh' takes 1 number: p > 0"}},
    {"NormParamRange", "<cost ctrl='all' norm='power' param='0.5'/>", {"'power' needs p >= 1"}},
    {"QuadraticParam", "<cost ctrl='all' param='1'/>", {"param has 1 number, norm 'quadratic' takes 0 numbers"}},
    {"NegativeWeight", "<cost ctrl='all' weight='-1'/>", {"weight is -1", "never negative"}},
    {"WeightSize", "<cost ctrl='all' weight='1 2'/>", {"weight has 2 numbers, the residual has 3 components"}},
    {"WeightOfVectorNorm", "<cost ctrl='all' norm='l2' param='.1' weight='1 2 3'/>", {"l2", "mixes the components"}},
    {"TerminalOfControl", "<cost ctrl='all' terminal='1'/>", {"ctrl has no value at the end"}},
    {"EndOfControl", "<cost ctrl='all' when='end'/>", {"ctrl has no value at the end"}},
    {"BadWindow", "<cost ctrl='all' when='1 0'/>", {"when is '1 0'", "t0 t1"}},
    {"BadWindowWord", "<cost ctrl='all' when='begin'/>", {"when is 'begin'"}},
    {"WeightAndTerminalAtEnd", "<cost qvel='all' when='end' weight='1' terminal='1'/>", {"not both"}},

    // start, guess, solver
    {"StartSize", "<start qpos='1 2'/><cost ctrl='all'/>", {"<start>", "qpos has 2 numbers, model 'zoo' has 13"}},
    {"StartKey", "<start key='homme'/><cost ctrl='all'/>", {"did you mean 'home'?"}, ErrorCode::kInvalidArgument},
    {"StartZeroQuat", "<start qpos='0 0 1 0 0 0 0 1 0 0 0 0 0'/><cost ctrl='all'/>", {"joint 'root' has length 0"}},
    {"StartNan", "<start qvel='nan'/><cost ctrl='all'/>", {"'nan' is not a finite number"}},
    {"GuessHold", "<guess hold='maybe'/><cost ctrl='all'/>", {"hold: 'maybe' is neither true", "NAME@SECONDS"}},
    {"GuessHoldKey",
     "<guess hold='hume@1'/><cost ctrl='all'/>",
     {"hold: ", "did you mean 'home'?"},
     ErrorCode::kInvalidArgument},
    {"GuessHoldAtOnce", "<guess hold='home@0'/><cost ctrl='all'/>", {"what holds the start comes at 0 s"}},
    {"GuessPostureSize",
     "<guess hold='true' qpos='1 2'/><cost ctrl='all'/>",
     {"<guess>", "qpos has 2 numbers, model 'zoo' has 13"}},
    {"GuessPostureAlone",
     "<guess ctrl='0' qpos='1'/><cost ctrl='all'/>",
     {"qpos stands beside hold=\"true\"", "or follow=\"true\""}},
    {"GuessFollow", "<guess follow='maybe'/><cost ctrl='all'/>", {"follow: 'maybe' is neither true", "NAME@SECONDS"}},
    {"GuessFollowNowhere", "<guess follow='true'/><cost ctrl='all'/>", {"follow=\"true\" has no qpos"}},
    {"GuessDrivenAlone", "<guess hold='true' driven='true'/><cost ctrl='all'/>", {"driven stands beside follow"}},
    {"GuessFollowAtOnce", "<guess follow='home@0'/><cost ctrl='all'/>", {"follow: the start is at 0 s"}},
    {"GuessFollowAndHold", "<guess follow='home@1' hold='true'/><cost ctrl='all'/>", {"give one of key, ctrl, file"}},
    {"GuessPostureTime",
     "<guess hold='true' qpos='0 0 1 1 0 0 0 1 0 0 0 0 0' at='0'/><cost ctrl='all'/>",
     {"at is 0 s, expected a time above 0"}},
    {"GuessTimeAlone", "<guess hold='true' at='1'/><cost ctrl='all'/>", {"at stands beside qpos"}},
    {"GuessTarget", "<cost qpos='all' target='guess'/>", {"target is 'guess', which has controls alone"}},
    {"GuessTarget2", "<constraint ctrl='all' equals='guess'/><cost ctrl='all'/>", {"equals is 'guess'"}},
    {"GuessTwice", "<guess key='home' ctrl='0 0 0'/><cost ctrl='all'/>", {"one of key, ctrl, file, hold and follow"}},
    {"GuessSize", "<guess ctrl='0 0'/><cost ctrl='all'/>", {"ctrl has 2 numbers, model 'zoo' has nu = 3"}},
    {"GuessKeyTime",
     "<guess key='home@0 pose'/><cost ctrl='all'/>",
     {"'pose' is no keyframe with a time, expected NAME@SECONDS"}},
    {"GuessKeyOrder", "<guess key='home@1 pose@1'/><cost ctrl='all'/>", {"times must increase, 'pose@1' does not"}},
    {"GuessFile", "<guess file='nowhere'/><cost ctrl='all'/>", {"nowhere' does not exist"}, ErrorCode::kFile},
    {"StatesTwiceAtOnce",
     "<guess hold='true' states='key:home@0 key:pose@0'/><cost ctrl='all'/>",
     {"<guess>: states: times must increase, 'key:pose@0' does not"}},
    {"StatesNoTime",
     "<guess hold='true' states='key:home@0 key:pose'/><cost ctrl='all'/>",
     {"<guess>: states: 'key:pose' is no keyframe with a time", "key:NAME@SECONDS", "file:PATH"}},
    {"StatesNoKey",
     "<guess hold='true' states='home@0'/><cost ctrl='all'/>",
     {"states: 'home@0' is no keyframe with a time"}},
    {"StatesKey",
     "<guess hold='true' states='key:hume@0'/><cost ctrl='all'/>",
     {"<guess>: states: ", "'hume'", "did you mean 'home'?"},
     ErrorCode::kInvalidArgument},
    {"StatesFile",
     "<guess hold='true' states='file:nowhere.csv'/><cost ctrl='all'/>",
     {"<guess>: states: ", "nowhere.csv' does not exist"},
     ErrorCode::kFile},
    {"StatesOfIlqr", "<guess hold='true' states='key:home@0'/><cost ctrl='all'/><solver type='ilqr'/>", {"states"}},
    {"SecondOrderWord", "<solver type='fddp' second_order='yes'/><cost ctrl='all'/>", {"<solver>", "'yes'", "true"}},
    {"SecondOrderOfIlqr", "<solver second_order='true'/><cost ctrl='all'/>", {"<solver>", "second_order", "fddp"}},
    {"SolverType", "<solver type='fdpp'/><cost ctrl='all'/>", {"<solver>", "'fdpp'", "fddp"}},
    {"SolverIterations", "<solver iterations='0'/><cost ctrl='all'/>", {"iterations is 0", "at least 1"}},
    {"SolverTolerance", "<solver tolerance='-1'/><cost ctrl='all'/>", {"tolerance is -1"}},
    {"SolverDerivative",
     "<solver derivative='exact'/><cost ctrl='all'/>",
     {"'exact', expected best, analytic, residual, step or auto"}},

    // constraints
    {"ConstraintBound",
     "<constraint name='land' qvel='all'/><cost ctrl='all'/>",
     {"<constraint name='land'>: has no bound"}},
    {"ConstraintBoth",
     "<constraint name='land' qvel='all' equals='0' lower='1'/><cost ctrl='all'/>",
     {"give equals, or lower and upper"}},
    {"ConstraintOrder",
     "<constraint site='tip' quantity='pos' index='2' lower='2' upper='1'/><cost ctrl='all'/>",
     {"lower is 2, above upper 1"}},
    {"ConstraintCount",
     "<constraint site='tip' quantity='pos' upper='1 2'/><cost ctrl='all'/>",
     {"upper has 2 numbers, what it bounds has 3 components"}},
    {"ConstraintEquals",
     "<constraint qvel='shoulder extend' equals='1 2 3'/><cost ctrl='all'/>",
     {"equals has 3 numbers, expected 2"}},
    {"ConstraintKey",
     "<constraint qpos='all' equals='key:hame'/><cost ctrl='all'/>",
     {"equals: ", "'home'"},
     ErrorCode::kInvalidArgument},
    {"ConstraintElement",
     "<constraint site='tib' quantity='pos' lower='0'/><cost ctrl='all'/>",
     {"no site 'tib', did you mean 'tip'?"}},
    {"ConstraintWhen",
     "<constraint qvel='all' upper='1' when='0.02 0.01'/><cost ctrl='all'/>",
     {"when is '0.02 0.01'", "0 to the end at 0.1 s"}},
    {"ConstraintStart",
     "<constraint qvel='all' upper='1' when='0'/><cost ctrl='all'/>",
     {"no knot lies in when=\"0\"", "the first is the start"}},
    {"ConstraintControlEnd",
     "<constraint ctrl='all' upper='1' when='end'/><cost ctrl='all'/>",
     {"ctrl has no value at the end"}},
    {"ConstraintSoftRotation",
     "<constraint body='base' quantity='quat' upper='1' soft='2'/><cost ctrl='all'/>",
     {"a soft bound of an orientation can only be equals"}},
    {"ConstraintTwice",
     "<constraint name='a' qvel='all' upper='1'/><constraint name='a' qvel='all' lower='1'/><cost ctrl='all'/>",
     {"a second constraint 'a': a name of its own tells them apart"},
     ErrorCode::kInvalidArgument},
    {"LimitKind", "<limit lower='1'/><cost ctrl='all'/>", {"give one of joint, tendon and actuator"}},
    {"LimitRange", "<limit joint='root'/><cost ctrl='all'/>", {"joint 'root' has no range in the model"}},
    {"LimitName", "<limit joint='sholder'/><cost ctrl='all'/>", {"no joint 'sholder', did you mean 'shoulder'?"}},
    {"LimitVelocity",
     "<limit joint='all' quantity='velocity'/><cost ctrl='all'/>",
     {"no range of velocity", "give lower, upper or both"}},
    {"LimitMargin",
     "<limit joint='shoulder' margin='2'/><cost ctrl='all'/>",
     {"margin 2 leaves nothing of the range of qpos[shoulder]"}},
    {"LimitTendon", "<limit tendon='cord'/><cost ctrl='all'/>", {"tendon 'cord' has no range"}},
    {"LimitActuator", "<limit actuator='pull'/><cost ctrl='all'/>", {"the ranges of all controls always hold"}},
    {"LimitPowerSoft",
     "<limit actuator='all' quantity='power' upper='1' soft='2'/><cost ctrl='all'/>",
     {"soft is not supported for power"},
     ErrorCode::kUnsupported},
    {"PeriodicNothing", "<periodic/><cost ctrl='all'/>", {"names nothing that shall return"}},
    {"PeriodicExcept",
     "<periodic qpos='all' except='root.y'/><periodic name='b' qvel='all' except='bone'/><cost ctrl='all'/>",
     {"<periodic name='b'>: except: 'bone' is none of the entries"}},
    {"SolverCostUnit", "<solver cost_unit='-1'/><cost ctrl='all'/>", {"cost_unit is -1, expected above 0"}},
    {"SolverViolation", "<solver violation='0'/><cost ctrl='all'/>", {"violation is 0, expected a number above 0"}},
    // <mpc>
    {"MpcRate", "<mpc rate='0'/><cost ctrl='all'/>", {"<mpc>: rate is 0, expected a number above 0"}},
    {"MpcDelay", "<mpc delay='-0.01'/><cost ctrl='all'/>", {"<mpc>: delay is -0.01, expected at least 0"}},
    {"MpcFallback", "<mpc fallback='pray'/><cost ctrl='all'/>", {"'pray', expected plan, hold or damp"}},
    {"MpcIterations", "<mpc iterations='0'/><cost ctrl='all'/>", {"<mpc>", "iterations", "1"}},
    {"MpcAttribute", "<mpc speed='2'/><cost ctrl='all'/>", {"<mpc>", "speed"}},
    {"MpcTwice", "<mpc/><mpc/><cost ctrl='all'/>", {"a second <mpc>"}},

    // not yet
    {"OtherSolver", "<solver type='sqp'/><cost ctrl='all'/>", {"type", "'sqp'", "fddp"}},
    {"Smooth",
     "<smooth strategy='soft'/><cost ctrl='all'/>",
     {"<smooth>: smoothing 'soft' is none of auto"},
     ErrorCode::kInvalidArgument},
    {"SmoothOnly",
     "<smooth only='geom:nothing'/><cost ctrl='all'/>",
     {"<smooth>", "no geom 'nothing'"},
     ErrorCode::kInvalidArgument},
    {"HoppingSize", "<hopping size='0'/><cost ctrl='all'/>", {"<hopping>", "size"}},
    {"SmoothShrink", "<smooth shrink='1'/><cost ctrl='all'/>", {"shrink is 1, expected less than 1"}},
    {"Callback", "<cost callback='gait'/>", {"no residual is registered under 'gait'"}, ErrorCode::kUnsupported},
    {"CallbackReads", "<cost callback='gait' reads='toe'/>", {"reads: there is no <measure> 'toe'"}},
    {"ReadsAlone", "<cost qpos='all' reads='toe'/>", {"reads belongs to callback"}},
    {"ValueName", "<cost value='height'/>", {"value: 'height', at 'height': there is no <measure> or <let> 'height'"}},
    {"ValueTarget", "<cost value='1' target='2'/>", {"there is no target beside value: subtract it in the expression"}},
    {"ValueMeasure", "<cost value='1' qpos='all'/>", {"qpos belongs to a <measure>, not beside value"}},
    {"MeasureName", "<measure name='sin' qpos='all'/><cost qpos='all'/>", {"name is 'sin', expected letters"}},
    {"MeasureTwice",
     "<measure name='a' qpos='all'/><let name='a' value='1'/><cost qpos='all'/>",
     {"a second definition of the name 'a'"}},
    {"MeasureNothing", "<measure name='a'/><cost qpos='all'/>", {"says not what it measures"}},
    {"MeasureTarget", "<measure name='a' qpos='all' target='0'/><cost qpos='all'/>", {"no attribute 'target'"}},
    {"LetEmpty", "<let name='a'/><cost qpos='all'/>", {"value is missing"}},
    {"LetLater",
     "<let name='a' value='b'/><let name='b' value='1'/><cost value='a'/>",
     {"there is no <measure> or <let> 'b'"}},
    {"ValueTerminal",
     "<measure name='u' ctrl='all'/><cost value='u * u' terminal='1'/>",
     {"ctrl has no value at the end"}},
    {"SamplesAlone", "<solver samples='10'/><cost qpos='all'/>", {"samples belongs to start=\"sampling\""}},
    {"NodesOfPeriods",
     "<solver start='periodic' nodetime='.1'/><cost qpos='all'/>",
     {"nodetime belongs to start=\"sampling\""}},
    {"TooShortForPeriods", "<solver start='periodic'/><cost qpos='all'/>", {"two periods in the motion"}},
    {"StartWord", "<solver start='guessing'/><cost qpos='all'/>", {"start is 'guessing', expected sampling"}},
    {"Elites",
     "<solver start='sampling' samples='4' elites='9'/><cost qpos='all'/>",
     {"elites is 9, more than the 4 samples"}},
    {"OptionSolimp", "<option solimp0='1'/><cost qpos='all'/>", {"solimp0 is 1, expected"}},
    {"OptionIntegrator", "<option integrator='euler'/><cost qpos='all'/>", {"euler"}},
};

INSTANTIATE_TEST_SUITE_P(TaskFile, BadElement, ::testing::ValuesIn(kBad),
                         [](const ::testing::TestParamInfo<Bad>& info) { return std::string(info.param.name); });

class BadFile : public ::testing::Test {
 protected:
  std::string Write(const std::string& text) const { return folder_.Write("bad.task.xml", text); }
  std::string Head(const std::string& attributes) const {
    return Write("<task model='" COSTATE_TESTDATA "/task_zoo.xml' " + attributes + ">\n<cost ctrl='all'/></task>");
  }
  TemporaryFolder folder_;
};

TEST_F(BadFile, IsMissingOrNoXml) {
  EXPECT_ERROR(LoadTask(folder_.File("none.task.xml")), ErrorCode::kFile, "none.task.xml' does not exist");
  EXPECT_ERROR(LoadTask(folder_.path().string()), ErrorCode::kFile, "is a folder");
  folder_.Write("task.xml", "");
  EXPECT_ERROR(LoadTask(folder_.path().string()), ErrorCode::kFile, "is a folder: a run, whose task is");
  EXPECT_ERROR(LoadTask("/dev/zero"), ErrorCode::kFile, "'/dev/zero' is not a regular file");
  EXPECT_ERROR(LoadTask(Write("")), ErrorCode::kParse, "bad.task.xml:1:");
  EXPECT_ERROR(LoadTask(Write("<task>\n<cost\n</task>")), ErrorCode::kParse,
               "bad.task.xml:3: this is not well-formed XML");
  EXPECT_ERROR(LoadTask(Write("<!-- -->\n<mujoco/>")), ErrorCode::kParse,
               "bad.task.xml:2: <mujoco>: this is a model, not a task");
  EXPECT_ERROR(LoadTask(Write("<task/>\n<task/>")), ErrorCode::kParse, "bad.task.xml:2: <task>", "second");
  EXPECT_ERROR(LoadTask(Write(std::string("<task \0 />", 10))), ErrorCode::kParse, "bad.task.xml:1:");
}

TEST_F(BadFile, HasNoUsableHead) {
  EXPECT_ERROR(LoadTask(Write("<task horizon='1'><cost ctrl='all'/></task>")), ErrorCode::kParse, "model is missing");
  EXPECT_ERROR(LoadTask(Write("<task model='x.xml'><cost ctrl='all'/></task>")), ErrorCode::kParse,
               "horizon is missing");
  EXPECT_ERROR(LoadTask(Write("<task model='x.xml' horizon='1'/>")), ErrorCode::kParse, "no <cost>");
  EXPECT_ERROR(LoadTask(Write("<task model='x.xml' horizon='1'><limit joint='all'/><time shortest='1' longest='2' "
                              "weight='0'/></task>")),
               ErrorCode::kParse, "no <cost>, and the weight of <time> is 0");
  EXPECT_ERROR(LoadTask(Write("<task model='x.xml' horizon='1'><cost ctrl='all'/></task>")), ErrorCode::kFile,
               "bad.task.xml:1: <task>: ", "x.xml' does not exist");
  EXPECT_ERROR(LoadTask(Head("horizon='0'")), ErrorCode::kParse, "horizon is 0, expected a number above 0");
  EXPECT_ERROR(LoadTask(Head("horizon='1 2'")), ErrorCode::kParse, "horizon has 2 numbers, expected 1");
  EXPECT_ERROR(LoadTask(Head("horizon='1s'")), ErrorCode::kParse, "'1s' is not a finite number");
  EXPECT_ERROR(LoadTask(Head("horizon='0.0005'")), ErrorCode::kInvalidArgument, "less than one control interval");
  EXPECT_ERROR(LoadTask(Head("horizon='1e9'")), ErrorCode::kInvalidArgument,
               "control intervals of 0.002 s; at most 1000000");
  EXPECT_ERROR(LoadTask(Head("horizon='1e300'")), ErrorCode::kInvalidArgument,
               "horizon is 1e+300 s, that is 5e+302 control intervals");
  EXPECT_ERROR(LoadTask(Head("horizon='1' controlstep='0'")), ErrorCode::kParse,
               "controlstep is 0, expected a whole number of at least 1");
  EXPECT_ERROR(LoadTask(Head("horizon='1' controlstep='1.5'")), ErrorCode::kParse, "controlstep is 1.5");
  EXPECT_ERROR(LoadTask(Head("horizon='1' scale='max'")), ErrorCode::kParse,
               "scale is 'max', expected dt, mean, sum or knots");
  EXPECT_ERROR(LoadTask(Head("horizon='1' steps='5'")), ErrorCode::kParse, "no attribute 'steps'");
}

TEST_F(BadFile, HasAModelWithNothingToOptimize) {
  folder_.Write("still.xml", "<mujoco model='still'><worldbody><geom size='.1'/></worldbody></mujoco>");
  folder_.Write("passive.xml",
                "<mujoco model='passive'><worldbody><body><freejoint/><geom size='.1'/></body></worldbody></mujoco>");
  folder_.Write("blind.xml",
                "<mujoco model='blind'><option><flag sensor='disable'/></option><worldbody><body><joint name='j'/>"
                "<geom size='.1'/></body></worldbody><actuator><motor joint='j'/></actuator></mujoco>");
  folder_.Write("broken.xml", "<mujoco>\n<worldbody><bdy/></worldbody></mujoco>");
  auto task = [&](const std::string& model) {
    return Write("<task model='" + model + "' horizon='1'><cost qvel='all'/></task>");
  };
  EXPECT_ERROR(LoadTask(task("still.xml")), ErrorCode::kInvalidArgument, "no degrees of freedom (nv = 0)");
  EXPECT_ERROR(LoadTask(task("passive.xml")), ErrorCode::kInvalidArgument, "no actuators (nu = 0)");
  EXPECT_ERROR(LoadTask(task("blind.xml")), ErrorCode::kUnsupported, "disables sensors");
  EXPECT_ERROR(LoadTask(task("broken.xml")), ErrorCode::kParse, "broken.xml", "bdy");
}

}  // namespace
}  // namespace costate
