// slotscope-engine.so: core/engine and LibTorch behind one function. See engine_api.h.
#include "app/engine_module/engine_api.h"

extern "C" __attribute__((visibility("default"))) const slotscope::app::EngineApi* slotscope_engine_api() {
  static const slotscope::app::EngineApi api{slotscope::app::engine_api_version, &slotscope::engine::inspect,
                                             &slotscope::engine::devices, &slotscope::engine::Model::load};
  return &api;
}
