// Everything the theory lab draws and lists for one state, computed at once. No widgets.
#pragma once

#include <QString>
#include <QVector>
#include <optional>
#include <vector>

#include "views/theory_state.h"

namespace slotscope::views {

// How much of a set of keys each limit reads, against full attention.
struct TheoryWeights {
  QString name, formula;
  std::vector<double> weight;  // [keys]; empty: not computed, `why` says why
  double js = 0, kl = 0;       // nats, against attention (KL forward)
  QString why;
};

struct TheoryData {
  TheoryState state;
  analysis::KernelInput input;
  analysis::KernelNumbers numbers;
  std::optional<double> log_brute_force;
  QString why_no_brute_force;
  std::vector<double> read, write;         // p(j | beta_r q^u), p(j | beta_w k^u): [U*d]
  std::vector<double> factor_log_kappa;    // [U]
  // Both betas multiplied so that x = sqrt(beta_r beta_w) / beta*; empty when a beta is 0.
  std::vector<double> sweep_x;
  analysis::BetaSweep sweep;
  double x = 0, x_end = 0;                 // of the state; where xi reaches 1 (Theorem 2 ends)
  analysis::PairCloud cloud;
  std::vector<double> keys;                // [keys*2U], the state's k first
  QVector<TheoryWeights> weights;          // attention first
};

inline constexpr int64_t kLiveBruteForce = int64_t{1} << 16;  // addresses walked at once
inline constexpr int64_t kIdleBruteForce = int64_t{1} << 22;  // and in the background
// `brute_force`: up to how many addresses are walked.
TheoryData theoryData(const TheoryState& state, int64_t brute_force = kLiveBruteForce);

// One line of the table of numbers.
struct TheoryRow {
  QString section;   // not empty: a heading; the rest is empty
  QString name, explanation;
  std::optional<double> value;
  QString text;      // in place of a value: lists, reasons
  QString shown() const;   // 10 significant digits
  QString exact() const;   // reads back to the same double
};
QVector<TheoryRow> theoryRows(const TheoryData& data);

// Every curve and point: panel,series,x,value lines below "# key: value" lines.
QString theoryCsv(const TheoryData& data);
// One sentence: d, U, M, both betas.
QString theoryCaption(const TheoryData& data);

}  // namespace slotscope::views
