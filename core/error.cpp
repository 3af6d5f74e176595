#include "core/error.h"

namespace slotscope {

Error::Error(ErrorParts parts, Kind kind) : parts_(std::move(parts)), kind_(kind) {
  for (const std::string* head : {&parts_.file, &parts_.item})
    if (!head->empty()) text_ += (text_.empty() ? "" : ": ") + *head;
  if (!parts_.found.empty()) text_ += (text_.empty() ? "" : ": ") + parts_.found;
  if (!parts_.expected.empty()) text_ += (text_.empty() ? "expected " : ", expected ") + parts_.expected;
  if (!parts_.advice.empty()) text_ += (text_.empty() ? "" : ". ") + parts_.advice;
}

}  // namespace slotscope
