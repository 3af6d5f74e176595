// Help texts of slotscope-cli: groups, wrapped descriptions, examples.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>

namespace slotscope::cli {

// Descriptions wrapped to 100 columns; names on a line of their own when they are long.
std::shared_ptr<CLI::FormatterBase> help_formatter();

extern const char* const kMainFooter;
extern const char* const kRunFooter;
extern const char* const kInfoFooter;
extern const char* const kTokenizeFooter;
extern const char* const kDetokenizeFooter;
extern const char* const kAnalyzeFooter;
extern const char* const kSweepFooter;
extern const char* const kVerifyFooter;
extern const char* const kRepairFooter;
extern const char* const kMakeFooter;
extern const char* const kSelftestFooter;

}  // namespace slotscope::cli
