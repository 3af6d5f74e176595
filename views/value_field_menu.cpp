// Menus of the value-field lab: columns, presets, settings as text, files.
#include <QClipboard>
#include <QFileDialog>
#include <QGuiApplication>
#include <QInputDialog>
#include <QMenu>
#include <algorithm>
#include <cmath>

#include "core/analysis/value_field_json.h"
#include "views/value_field_view.h"

namespace slotscope::views {

using analysis::FieldKind;
using analysis::FieldPanel;

namespace {

// A submenu of choices of one member; the present one is ticked.
template <class Value>
void choices(QMenu* menu, const QString& title, const std::vector<std::pair<QString, Value>>& values, const Value& now, const std::function<void(Value)>& choose) {
  QMenu* sub = menu->addMenu(title);
  for (const auto& [name, value] : values) {
    QAction* action = sub->addAction(name, sub, [choose, value = value] { choose(value); });
    action->setCheckable(true);
    action->setChecked(value == now);
  }
}

}  // namespace

void ValueFieldView::fillPanelMenu(QMenu* menu, int panel) {
  const auto& s = state_.settings;
  const size_t column = size_t(panel) % s.columns.size();
  const FieldPanel& p = s.columns[column];
  const auto edit = [this, column](const std::function<void(FieldPanel&)>& how) {
    change([&](FieldState& state) {
      if (column >= state.settings.columns.size()) return;
      FieldPanel& p = state.settings.columns[column];
      p.name.clear();
      how(p);
      state.columns.clear();
    });
  };
  menu->addSection(fieldTitle(s, column));
  if (p.kind == FieldKind::ramnet) {
    std::vector<std::pair<QString, int>> codes;
    for (const int d : {2, 3, 4, 6, 8, 12, 16, 24, 32}) codes.push_back({QString::number(d), d});
    choices<int>(menu, QStringLiteral("Codes per factor"), codes, p.codes, [edit, space = s.space](int d) {
      edit([&](FieldPanel& p) {
        if (p.top_k >= analysis::field_slots(space, p.codes)) p.top_k = analysis::field_slots(space, d);
        p.codes = d;
      });
    });
    const int64_t M = analysis::field_slots(s.space, p.codes);
    std::vector<std::pair<QString, int64_t>> kept;
    for (int64_t k = M; k >= 1; k /= 2) kept.push_back({k == M ? QStringLiteral("all %1").arg(M) : QString::number(k), k});
    choices<int64_t>(menu, QStringLiteral("Top-K"), kept, std::min(p.top_k, M), [edit](int64_t k) { edit([k](FieldPanel& p) { p.top_k = k; }); });
    choices<int>(menu, QStringLiteral("Readout"), {{QStringLiteral("standard"), 0}, {QStringLiteral("standard, divided by read mass"), 1}, {QStringLiteral("mass-aware"), 2}},
                 p.mass_aware ? 2 : p.divide, [edit](int kind) { edit([kind](FieldPanel& p) { p.mass_aware = kind == 2, p.divide = kind == 1; }); });
    constexpr double inf = std::numeric_limits<double>::infinity();
    choices<double>(menu, QStringLiteral("Update"), {{QStringLiteral("cumulative mean"), -inf}, {QStringLiteral("GSU, γ = −4"), -4}, {QStringLiteral("GSU, γ = −2"), -2},
                                                     {QStringLiteral("GSU, γ = 0"), 0}, {QStringLiteral("GSU, γ = 2"), 2}, {QStringLiteral("overwrite, γ = ∞"), inf}},
                    p.cumulative ? -inf : p.gamma, [edit](double gamma) { edit([gamma](FieldPanel& p) { p.cumulative = gamma == -inf, p.gamma = gamma == -inf ? 0 : gamma; }); });
    choices<double>(menu, QStringLiteral("β of writes, times that of reads"), {{QStringLiteral("0.5"), 0.5}, {QStringLiteral("1"), 1}, {QStringLiteral("2"), 2}, {QStringLiteral("4"), 4}, {QStringLiteral("∞ (nearest code)"), inf}},
                    p.beta_write, [edit](double times) { edit([times](FieldPanel& p) { p.beta_write = times; }); });
  }
  menu->addAction(QStringLiteral("Another column like this"), this, [this, column] {
    change([&](FieldState& state) {
      state.settings.columns.insert(state.settings.columns.begin() + std::ptrdiff_t(column), state.settings.columns[column]);
      state.columns.clear(), state.large = -1;
    });
  });
  QAction* remove = menu->addAction(QStringLiteral("Remove this column"), this, [this, column] {
    change([&](FieldState& state) {
      state.settings.columns.erase(state.settings.columns.begin() + std::ptrdiff_t(column));
      state.columns.clear(), state.large = -1;
    });
  });
  remove->setEnabled(s.columns.size() > 1);
  menu->addSeparator();
}

void ValueFieldView::fillMenu(QMenu* menu) {
  menu->addAction(QStringLiteral("Add a column…"), this, [this] {
    bool good = false;
    const QString text = QInputDialog::getText(this, QStringLiteral("Add a column"),
                                               QStringLiteral("A memory in words: ramnet,d=8,K=16,mass-aware,gamma=-2 · quantised,d=8,bits=4 ·\nquantised,k-means=16 · linear,elu · linear,features=64 · full"), QLineEdit::Normal, QStringLiteral("ramnet,d=8"), &good);
    if (good)
      change([&](FieldState& state) {
        state.settings.columns.push_back(analysis::parse_field_panel(text.toStdString(), state.settings.space));
        state.columns.clear(), state.large = -1;
      });
  });
  QAction* capture = menu->addAction(QStringLiteral("Keys from the open trace…"), this, [this] {
    if (!run_) return;
    FieldCaptureDialog dialog(*run_, this);
    if (dialog.exec() == QDialog::Accepted) takeHead(dialog.chosen());
  });
  capture->setEnabled(run_ && run_->trace);
  QMenu* grid = menu->addMenu(QStringLiteral("Queries per side"));
  for (const int g : {64, 128, 256, 512}) {
    QAction* action = grid->addAction(QString::number(g), this, [this, g] { change([g](FieldState& state) { state.settings.grid = g; }); });
    action->setCheckable(true);
    action->setChecked(g == state_.settings.grid);
  }
  QAction* back = menu->addAction(QStringLiteral("Undo"), this, &ValueFieldView::undo);
  back->setEnabled(canUndo());
  menu->addSeparator();
  menu->addAction(QStringLiteral("Copy settings as JSON"), this, [this] { QGuiApplication::clipboard()->setText(QString::fromStdString(analysis::field_settings_json(state_.settings))); });
  menu->addAction(QStringLiteral("Paste settings"), this, [this] {
    change([](FieldState& state) { state = parseFieldState(QGuiApplication::clipboard()->text().toUtf8()); });
  });
  menu->addAction(QStringLiteral("Open settings or a result…"), this, [this] {
    const QString path = QFileDialog::getOpenFileName(this, QStringLiteral("Open settings or a result"), {}, QStringLiteral("Settings and results (*.json *.h5);;All files (*)"));
    if (!path.isEmpty()) openFile(path);
  });
  menu->addAction(QStringLiteral("Save settings…"), this, [this] {
    const QString path = QFileDialog::getSaveFileName(this, QStringLiteral("Save settings"), QStringLiteral("value-field.json"), QStringLiteral("Settings (*.json)"));
    if (!path.isEmpty()) saveFile(path);
  });
  menu->addSeparator();
}

}  // namespace slotscope::views
