/* A MuJoCo host in C that knows nothing of Costate: it loads the shared object named on its command line and, where it
   is named too, a copy, uses the C interface by name, steps a model, and prints what it saw. Not linked to Costate. */
#include <dlfcn.h>
#include <mujoco/mujoco.h>
#include <stdio.h>

static int messages = 0;
static void CountMessages(const mjLogMessage* message) {
  if (message->level < mjLOG_WARNING) return; /* such as the compiler's timing */
  ++messages;
  fprintf(stderr, "%s\n", message->subject);
}

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) return 2;
  mju_setLogHandler(CountMessages);
  const int plugins = mjp_pluginCount();
  mj_loadPluginLibrary(argv[1]);
  printf("messages %d\n", messages);
  printf("handler %s\n", mju_setLogHandler(CountMessages) == CountMessages ? "kept" : "replaced");
  for (int i = plugins; i < mjp_pluginCount(); ++i) printf("plugin %s\n", mjp_getPluginAtSlot(i)->name);

  /* a copy of the file is another library: hosts may find one in their plugin folder and be given another */
  if (argc > 2) {
    mj_loadPluginLibrary(argv[2]);
    printf("copy %d\n", mjp_pluginCount() - plugins);
  }

  /* the engine's own plugin tables and models go on working */
  char error[1000] = "";
  mjSpec* spec = mj_parseXMLString("<mujoco><worldbody><body><freejoint/><geom size='1'/></body></worldbody></mujoco>",
                                   NULL, error, sizeof(error));
  mjModel* model = spec ? mj_compile(spec, NULL) : NULL;
  mjData* data = model ? mj_makeData(model) : NULL;
  if (!data) return 1;
  mj_step(model, data);
  printf("time %g\n", data->time);
  mj_deleteData(data);
  mj_deleteModel(model);
  mj_deleteSpec(spec);

  /* the same file answers to dlopen, as from ctypes */
  void* library = dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD);
  printf("library %s\n", library ? "resident" : "gone");
  return 0;
}
