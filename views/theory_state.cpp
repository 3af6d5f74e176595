#include "views/theory_state.h"

#include <QFile>
#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>
#include <QSaveFile>
#include <algorithm>
#include <cmath>

#include "core/analysis/theory_result.h"
#include "core/error.h"

namespace slotscope::views {

namespace {

constexpr qint64 kLargestFile = 1 << 20;
const QString kFormat = QStringLiteral("slotscope-theory");

[[noreturn]] void refuse(const QString& file, const QString& item, const QString& found, const QString& expected) {
  throw Error({.file = file.toStdString(), .item = item.toStdString(), .found = found.toStdString(), .expected = expected.toStdString()});
}

QString jsonText(const QJsonValue& value) {
  const QByteArray text = QJsonDocument(QJsonArray{value}).toJson(QJsonDocument::Compact);
  return value.isUndefined() ? QStringLiteral("nothing") : QString::fromUtf8(text.mid(1, std::min<qsizetype>(text.size() - 2, 60)));
}

class Reader {
 public:
  Reader(const QJsonObject& object, QString file) : object_(object), file_(std::move(file)) {}

  double number(const char* key, double low, double high) const {
    const QJsonValue value = object_.value(QLatin1String(key));
    const double v = value.toDouble(std::nan(""));
    if (!(v >= low && v <= high)) refuse(file_, QLatin1String(key), jsonText(value), QStringLiteral("a number from %1 to %2").arg(low).arg(high));
    return v;
  }
  // 0, or what a slider and a field can say.
  double multiple(const char* key) const {
    const double v = number(key, 0, TheoryState::kMostMultiple);
    if (v != 0 && v < TheoryState::kLeastMultiple) refuse(file_, QLatin1String(key), QString::number(v), QStringLiteral("0, or 1e-6 to 1e6"));
    return v;
  }
  int whole(const char* key, int low, int high) const {
    const double v = number(key, low, high);
    if (v != std::floor(v)) refuse(file_, QLatin1String(key), QString::number(v), QStringLiteral("a whole number"));
    return int(v);
  }
  QString text(const char* key) const {
    const QJsonValue value = object_.value(QLatin1String(key));
    if (!value.isString()) refuse(file_, QLatin1String(key), jsonText(value), QStringLiteral("a text"));
    return value.toString();
  }
  bool flag(const char* key) const {
    const QJsonValue value = object_.value(QLatin1String(key));
    if (!value.isBool()) refuse(file_, QLatin1String(key), jsonText(value), QStringLiteral("true or false"));
    return value.toBool();
  }
  std::vector<double> blocks(const char* key) const {
    const QJsonValue value = object_.value(QLatin1String(key));
    const QJsonArray list = value.toArray();
    if (!value.isArray() || list.isEmpty() || list.size() % 2 != 0 || list.size() > 2 * TheoryState::kMostFactors)
      refuse(file_, QLatin1String(key), value.isArray() ? QStringLiteral("%1 numbers").arg(list.size()) : jsonText(value),
             QStringLiteral("two numbers for each of 1 to %1 factors").arg(TheoryState::kMostFactors));
    std::vector<double> out;
    for (const QJsonValue& v : list) {
      const double x = v.toDouble(std::nan(""));
      if (!(std::abs(x) <= TheoryState::kLongest))
        refuse(file_, QStringLiteral("%1, number %2").arg(QLatin1String(key)).arg(out.size()), jsonText(v),
               QStringLiteral("a number from -1e6 to 1e6"));
      out.push_back(x);
    }
    return out;
  }

 private:
  QJsonObject object_;
  QString file_;
};

QJsonArray jsonArray(const std::vector<double>& values) {
  QJsonArray out;
  for (const double v : values) out.append(v);
  return out;
}

// The multiple of `star` that gives `beta` again, to the last bit where there is one.
double multipleOf(double beta, double star) {
  const double near = beta / star;
  for (const double m : {near, std::nextafter(near, 0.0), std::nextafter(near, 1e300)})
    if (m * star == beta) return m;
  return near;
}

TheoryState stateOf(const analysis::StoredTheory& stored, const QString& file) {
  const auto& in = stored.input;
  if (in.codes > TheoryState::kMostCodes || in.factors() > TheoryState::kMostFactors)
    refuse(file, QStringLiteral("codes and factors"), QStringLiteral("%1 codes, %2 factors").arg(in.codes).arg(in.factors()),
           QStringLiteral("at most %1 and %2 to be shown").arg(TheoryState::kMostCodes).arg(TheoryState::kMostFactors));
  TheoryState out;
  out.codes = int(in.codes);
  out.q = in.q;
  out.k = in.k;
  const auto largest = [](const std::vector<double>& x) {
    double most = 0;
    for (const double v : x) most = std::max(most, std::abs(v));
    return most;
  };
  out.read = multipleOf(in.beta_read, out.betaStar());
  out.write = multipleOf(in.beta_write, out.betaStar());
  out.linked = in.beta_read == in.beta_write;
  const auto shown = [](double m) { return m == 0 || (m >= TheoryState::kLeastMultiple && m <= TheoryState::kMostMultiple); };
  if (std::max(largest(in.q), largest(in.k)) > TheoryState::kLongest || !shown(out.read) || !shown(out.write))
    refuse(file, QStringLiteral("q, k and betas"), QStringLiteral("numbers outside what can be shown"),
           QStringLiteral("q and k up to 1e6; betas 0, or 1e-6 to 1e6 times beta*"));
  out.pair_kind = stored.options.kind;
  out.pairs = int(std::clamp<int64_t>(stored.options.pairs, 1, TheoryState::kMostPairs));
  out.seed = stored.options.seed;
  return out;
}

}  // namespace

analysis::KernelInput TheoryState::input() const {
  const double star = betaStar();
  return {codes, q, k, read * star, write * star};
}

void TheoryState::setFactors(int count) {
  count = std::clamp(count, 1, kMostFactors);
  for (auto* x : {&q, &k}) {
    while (int(x->size()) < 2 * count) {
      const double a = (*x)[x->size() - 2], b = (*x)[x->size() - 1];
      x->insert(x->end(), {-b + 0.0, a});
    }
    x->resize(size_t(2 * count));
  }
  factor = std::min(factor, count - 1);
}

QByteArray theoryJson(const TheoryState& s) {
  const QJsonObject object{{"format", kFormat}, {"version", 1}, {"codes", s.codes}, {"q", jsonArray(s.q)}, {"k", jsonArray(s.k)},
                           {"beta_read_over_beta_star", s.read}, {"beta_write_over_beta_star", s.write}, {"linked", s.linked},
                           {"factor", s.factor}, {"pair_kind", QLatin1String(analysis::pair_kind_name(s.pair_kind))}, {"pairs", s.pairs},
                           {"seed", QString::number(s.seed)}, {"keys", s.keys}};
  return QJsonDocument(object).toJson();
}

TheoryState parseTheory(const QByteArray& json, const QString& file) {
  QJsonParseError error;
  const QJsonDocument document = QJsonDocument::fromJson(json, &error);
  if (error.error != QJsonParseError::NoError)
    refuse(file, QStringLiteral("byte %1").arg(error.offset), error.errorString(), QStringLiteral("a JSON document"));
  const Reader in(document.object(), file);
  if (document.object().value("format").toString() != kFormat)
    refuse(file, QStringLiteral("format"), jsonText(document.object().value("format")), QStringLiteral("\"%1\"").arg(kFormat));
  if (in.whole("version", 1, 1 << 30) > 1)
    refuse(file, QStringLiteral("version"), jsonText(document.object().value("version")), QStringLiteral("1, which this program knows"));
  TheoryState out;
  out.codes = in.whole("codes", 2, TheoryState::kMostCodes);
  out.q = in.blocks("q");
  out.k = in.blocks("k");
  if (out.q.size() != out.k.size())
    refuse(file, QStringLiteral("k"), QStringLiteral("%1 numbers").arg(out.k.size()), QStringLiteral("%1, as many as q has").arg(out.q.size()));
  out.read = in.multiple("beta_read_over_beta_star");
  out.write = in.multiple("beta_write_over_beta_star");
  out.linked = in.flag("linked") && out.read == out.write;
  out.factor = in.whole("factor", 0, out.factors() - 1);
  out.pair_kind = analysis::pair_kind(in.text("pair_kind").toStdString());
  out.pairs = in.whole("pairs", 1, TheoryState::kMostPairs);
  bool whole = false;
  out.seed = in.text("seed").toULongLong(&whole);
  if (!whole) refuse(file, QStringLiteral("seed"), in.text("seed").left(60), QStringLiteral("a whole number as text"));
  out.keys = in.whole("keys", 2, TheoryState::kMostKeys);
  return out;
}

TheoryState readTheory(const QString& path) {
  QFile file(path);
  if (!file.open(QIODevice::ReadOnly)) refuse(path, QStringLiteral("file"), file.errorString(), QStringLiteral("a file that can be read"));
  if (file.peek(8) == QByteArrayLiteral("\x89HDF\r\n\x1a\n")) {
    file.close();
    return stateOf(analysis::stored_theory(trace::read_result(path.toStdString(), analysis::kTheoryKind)), path);
  }
  if (file.size() > kLargestFile)
    refuse(path, QStringLiteral("file"), QStringLiteral("%1 bytes").arg(file.size()), QStringLiteral("at most %1: a state of the theory lab").arg(kLargestFile));
  return parseTheory(file.read(kLargestFile), path);
}

void writeTheory(const TheoryState& state, const QString& path) {
  QSaveFile file(path);
  const QByteArray text = theoryJson(state);
  if (!file.open(QIODevice::WriteOnly) || file.write(text) != text.size() || !file.commit())
    refuse(path, QStringLiteral("file"), file.errorString(), QStringLiteral("a place that can be written"));
}

const QVector<std::pair<QString, TheoryState>>& theoryPresets() {
  static const auto presets = [] {
    QVector<std::pair<QString, TheoryState>> out;
    const auto add = [&](const char* name, auto change) {
      TheoryState state;
      change(state);
      out.append({QString::fromUtf8(name), state});
    };
    const std::vector<double> q5{-0.216, -0.324, 0.25, 0.539, 0.193, -0.121, 0.123, 0.219, -0.516, -0.514},
        k5{-0.043, 0.014, 0.43, 0.497, -0.281, 0.022, -0.209, -0.096, 0.445, 0.149};
    add("U 2 · d 4 at β*", [](TheoryState&) {});
    add("β = 1.58 β*", [](TheoryState& s) { s.read = s.write = 1.58; });
    add("Beyond Theorem 2: β = 4 β*", [](TheoryState& s) { s.read = s.write = 4; });
    add("Fine codebook: d 16 at 4 β*", [](TheoryState& s) { s.codes = 16, s.read = s.write = 4; });
    add("d 2 sees one coordinate", [](TheoryState& s) { s.codes = 2; });
    add("d 3: cubic error", [](TheoryState& s) { s.codes = 3; });
    add("Migration: U 5 · d 4", [&](TheoryState& s) { s.q = q5, s.k = k5; });
    add("Aligned pair: k = q", [&](TheoryState& s) { s.q = q5, s.k = q5; });
    add("Hard write: β_w = 80 β*", [](TheoryState& s) { s.write = 80, s.linked = false; });
    add("Key between two codes", [](TheoryState& s) { s.q = {0.7, 0.2}, s.k = {0.4, 0.4}, s.write = 20, s.linked = false; });
    return out;
  }();
  return presets;
}

}  // namespace slotscope::views
