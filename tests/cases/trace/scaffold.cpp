#include "core/trace/sink.h"

#include "tests/cases/case.h"

SLOTSCOPE_CASE(element_sizes) {
  CHECK_EQ(slotscope::trace::element_size(slotscope::trace::ElementType::f16), size_t(2));
  CHECK_EQ(slotscope::trace::element_size(slotscope::trace::ElementType::i64), size_t(8));
}
