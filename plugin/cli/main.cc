// The program `costate`: parses the command line, runs one command, turns every error into a sentence and an exit code.
#include <fmt/core.h>
#include <mujoco/mujoco.h>

#include <csignal>
#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include <costate/error.h>
#include <costate/model.h>

#include "cli/commands.h"
#include "core/compiler.h"
#include "core/did_you_mean.h"
#include "core/plugin_library.h"

namespace costate::cli {
namespace {

constexpr char kFirstFiveMinutes[] = R"(
The first five minutes, with any robot in MJCF or URDF:

  costate rollout robot.xml --key home                simulate, and judge the motion
  costate check robot.xml --key home                  are the derivatives right?
  costate optimize robot.xml --start key:home --goal key:crouch --time 2 --out run
  costate optimize robot.xml --goal site:hand=0.4,0.1,0.5 --out run      without keyframes
  costate gradient robot.xml --fit motion.csv --parameter joint:knee/damping      its numbers from a recorded motion
  costate replay run                                  the same motion again, bit for bit
  costate view run                                    see it

`costate COMMAND --help` explains one command. Exit codes: 0 yes, 1 no, 2 bad input, 130 interrupted.
)";

// one line a command, in alphabetical order
void AddCommands(CLI::App& app, int* exit_code) {
  AddCheckCommand(app, exit_code);
  AddGradientCommand(app, exit_code);
  AddInfoCommand(app, exit_code);
  AddMpcCommand(app, exit_code);
  AddOptimizeCommand(app, exit_code);
  AddReplayCommand(app, exit_code);
  AddRolloutCommand(app, exit_code);
  AddTaskCommand(app, exit_code);
  AddTrainCommand(app, exit_code);
  AddViewCommand(app, exit_code);
}

// what was not understood, with the command or option that was meant, most likely
std::string Unexpected(const CLI::App& app) {
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  std::vector<std::string> options, commands;
  for (const CLI::App* scope : {chosen.empty() ? &app : static_cast<const CLI::App*>(chosen[0]), &app}) {
    for (const CLI::Option* option : scope->get_options()) {
      for (const std::string& name : option->get_lnames()) options.push_back("--" + name);
    }
  }
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    commands.push_back(command->get_name());
  std::string others;
  for (const std::string& word : app.remaining(true)) {
    const std::string name = word.substr(0, word.find('='));
    if (name.size() > 1 && name[0] == '-' && !(name[1] >= '0' && name[1] <= '9') && name[1] != '.') {
      return fmt::format("{}there is no option '{}'{}", chosen.empty() ? "" : "costate " + chosen[0]->get_name() + ": ",
                         name, DidYouMean(name, options));
    }
    const std::string meant = chosen.empty() ? DidYouMean(word, commands) : "";
    if (!meant.empty()) return fmt::format("there is no command '{}'{}", word, meant);
    others += (others.empty() ? "'" : ", '") + word + "'";
  }
  if (chosen.empty()) return fmt::format("there is no command among {}", others);
  std::string flags, lists;  // given, and perhaps taken for options with a value; with several
  for (const CLI::Option* option : chosen[0]->get_options()) {
    if (option->count() == 0) continue;
    const bool is_flag = option->get_expected_max() == 0, is_list = option->get_expected_max() > 1;
    if (!is_flag && (!is_list || option->get_allow_extra_args() || option->get_positional())) continue;
    std::string& names = is_flag ? flags : lists;
    names += (names.empty() ? "" : ", ") + option->get_name(false, true);
  }
  std::string hint;
  if (!lists.empty()) {
    hint = fmt::format(" ({}: once before each value)", lists);
  } else if (!flags.empty()) {
    hint = fmt::format(" ({}: without a value)", flags);
  }
  return fmt::format("costate {}: {} was not expected{}", chosen[0]->get_name(), others, hint);
}

int Run(int argc, char** argv) {
  CLI::App app("Derivatives of MuJoCo's step, and motions optimized with them.", "costate");
  app.set_version_flag("--version", fmt::format("costate {} (MuJoCo {}, compiled by {})", COSTATE_VERSION,
                                                mj_versionString(), kCompiler));
  app.footer(kFirstFiveMinutes);
  app.require_subcommand(0, 1);
  app.fallthrough();  // what belongs to all commands may stand behind one
  app.add_option_function<std::vector<std::string>>(
         "--plugin",
         [](const std::vector<std::string>& paths) {
           for (const std::string& path : paths) LoadPlugins(path);
         },
         "library of engine plugins that the model needs, or a folder of them; again for more. The engine's own are "
         "loaded when needed")
      ->allow_extra_args(false)
      ->trigger_on_parse();
  app.failure_message([](const CLI::App* failed, const CLI::Error& error) {
    const bool extra = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
    return fmt::format("costate: error: {}\nTry `costate --help`.\n", extra ? Unexpected(*failed) : error.what());
  });
  int exit_code = kExitOk;
  AddCommands(app, &exit_code);

  // the chosen command's callback runs inside parse
  try {
    app.parse(argc, argv);
    if (app.get_subcommands().empty()) fmt::print("{}", app.help());
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kExitOk : kExitError;
  }
  return exit_code;
}

}  // namespace
}  // namespace costate::cli

int main(int argc, char** argv) {
  // a file larger than allowed is a write error with a reason, not the end of the process
  std::signal(SIGXFSZ, SIG_IGN);

  int exit_code = costate::cli::kExitError;
  try {
    exit_code = costate::cli::Run(argc, argv);
  } catch (const costate::Error& error) {
    fmt::print(stderr, "costate: error: {}\n", error.what());
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "costate: error: out of memory\n");
  } catch (const std::exception& error) {
    fmt::print(stderr, "costate: error: unexpected: {}\n", error.what());
  }

  // output that could not be written is an error too
  if (std::fflush(stdout) != 0 || std::ferror(stdout)) {
    fmt::print(stderr, "costate: error: standard output could not be written\n");
    return costate::cli::kExitError;
  }
  return exit_code;
}
