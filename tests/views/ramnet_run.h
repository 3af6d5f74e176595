// A made RAM-Net trace as views get it.
#pragma once

#include <QString>
#include <memory>

#include "tests/cases/analysis/overlap_problem.h"
#include "views/view.h"

namespace slotscope::testing {

inline std::shared_ptr<const views::RunData> ramnetRun(const QString& file, const MadeRun& made) {
  auto run = std::make_shared<views::RunData>();
  run->trace = TraceMaker::make(file.toStdString(), made);
  run->summary = analysis::summarise(*run->trace, 0);
  run->model_name = QStringLiteral("ramnet-test");
  run->device_text = QStringLiteral("CPU · float64");
  return run;
}

}  // namespace slotscope::testing
