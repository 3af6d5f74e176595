#include "app/window/engine_loader.h"

#include <dlfcn.h>

#include <QCoreApplication>
#include <QFileInfo>
#include <mutex>

#include "core/error.h"

namespace slotscope::app {

namespace {

constexpr const char* module_name = "slotscope-engine.so";

QString findModule() {
  if (const QString named = qEnvironmentVariable("SLOTSCOPE_ENGINE"); !named.isEmpty()) return named;
  const QString beside = QCoreApplication::applicationDirPath();
  for (const QString& folder : {beside, beside + "/../lib/slotscope"})
    if (const QString file = folder + "/" + module_name; QFileInfo::exists(file))
      return QFileInfo(file).canonicalFilePath();
  return beside + "/" + module_name;
}

}  // namespace

const EngineApi& engineApi() {
  static std::mutex mutex;
  static const EngineApi* loaded = nullptr;
  const std::lock_guard lock(mutex);
  if (loaded) return *loaded;
  const std::string file = findModule().toStdString();
  // Never unloaded: models, LibTorch's threads and CUDA live in it.
  void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    throw Error(
        {.file = file,
         .item = "engine",
         .found = dlerror(),
         .expected = "the part of Slotscope that runs models",
         .advice = "Traces can be opened all the same. Build target slotscope again, or run sh app/run.sh."});
  const auto entry = reinterpret_cast<decltype(&slotscope_engine_api)>(dlsym(handle, "slotscope_engine_api"));
  const EngineApi* api = entry ? entry() : nullptr;
  if (!api || api->version != engine_api_version)
    throw Error({.file = file,
                 .item = "engine",
                 .found = api ? "interface version " + std::to_string(api->version) : "no interface",
                 .expected = "interface version " + std::to_string(engine_api_version),
                 .advice = "It belongs to another build: build target slotscope again."});
  loaded = api;
  return *loaded;
}

}  // namespace slotscope::app
