#include "core/engine/session.h"

#include "tests/cases/case.h"

SLOTSCOPE_CASE(cpu_is_always_there) { CHECK_EQ(slotscope::engine::devices().front().name, std::string("cpu")); }
