// What the theory lab shows, as one value: everything on its screen follows from it. Saved as JSON in a file and in the window's
// settings; results of `slotscope-cli ramnet theory --out` open as one.
#pragma once

#include <QByteArray>
#include <QString>
#include <QVector>
#include <utility>
#include <vector>

#include "core/analysis/kernel_sweep.h"

namespace slotscope::views {

struct TheoryState {
  static constexpr int kMostCodes = 256, kMostFactors = 16, kMostPairs = 5000, kMostKeys = 64;
  static constexpr double kLeastMultiple = 1e-6, kMostMultiple = 1e6, kLongest = 1e6;

  int codes = 4;                                              // d
  std::vector<double> q{0.6, -0.2, 0.1, 0.7}, k{0.5, 0.3, -0.4, 0.6};  // [2U]
  double read = 1, write = 1;                                 // multiples of beta*
  bool linked = true;                                         // one slider moves both
  int factor = 0;                                             // the one that is shown large
  analysis::PairKind pair_kind = analysis::PairKind::random_angles;
  int pairs = 400;
  quint64 seed = 0;                                           // of the pairs and of the other keys
  int keys = 6;                                               // k and others of its lengths, for the weights

  int factors() const { return int(q.size() / 2); }
  double betaStar() const { return analysis::beta_star(factors()); }
  analysis::KernelInput input() const;
  // Adds or takes blocks at the end; new ones are those of factor 0 turned by a right angle per factor.
  void setFactors(int count);
  bool operator==(const TheoryState&) const = default;
};

// One JSON object, numbers to the last bit.
QByteArray theoryJson(const TheoryState& state);
// Throws slotscope::Error that names `file`, the key, what was found and what was expected.
TheoryState parseTheory(const QByteArray& json, const QString& file);
// A state from JSON or from a result file of kind "ramnet-theory" (at most kMostCodes codes, kMostFactors factors).
TheoryState readTheory(const QString& path);
// Replaces the file as a whole. Throws Error.
void writeTheory(const TheoryState& state, const QString& path);

// Named states: the reference's cases and where the theory ends.
const QVector<std::pair<QString, TheoryState>>& theoryPresets();

}  // namespace slotscope::views
