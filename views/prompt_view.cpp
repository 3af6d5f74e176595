#include "views/prompt_view.h"

#include <QActionGroup>
#include <QHBoxLayout>
#include <QKeyEvent>
#include <QLabel>
#include <QLineEdit>
#include <QMenu>
#include <QMouseEvent>
#include <QPainter>
#include <algorithm>
#include <cmath>

#include "views/answer_verdict.h"
#include "views/caption.h"
#include "views/format.h"
#include "views/prompt_values.h"

namespace slotscope::views {

namespace {

using Quantity = PromptView::Quantity;
constexpr int kFigureLines = 80;

// Position in the colour map: weak values stay visible, the weakest stay out (design: section 10).
int mapIndex(double value, double maximum) {
  if (!(maximum > 0) || !(value > 0.004 * maximum)) return -1;
  return std::clamp(int(std::lround(255 * std::pow(value / maximum, 0.7))), 0, 255);
}

QString formula(Quantity quantity) {
  switch (quantity) {
    case Quantity::WritesIntoSlot:
      return QStringLiteral("write strength s = 1 − exp(a·r), Raven section 3");
    case Quantity::TotalWrites:
      return QStringLiteral("Σᵢ s[t,i]; s = 1 − exp(a·r), Raven section 3");
    case Quantity::LeftAtQuery:
      return QStringLiteral("left = Σᵢ s·exp(Σ a·r) / Σᵢ s over later tokens up to the query (ours)");
    case Quantity::ReadBySelected:
      return QStringLiteral("A[t,j] = Σᵢ p·s·exp(Σ a·r) (ours)");
    case Quantity::Surprisal:
      break;
  }
  return QStringLiteral("−log p(token), nats");
}

}  // namespace

PromptView::PromptView(SelectionModel* selection, QWidget* parent) : PaintedView(selection, parent) {
  setCursor(Qt::IBeamCursor);
  refreshAccessibility();
}

PromptView::~PromptView() = default;

void PromptView::setRun(std::shared_ptr<const RunData> run) {
  text_.reset();
  values_valid_ = false;
  matches_.clear();
  surprisals_.clear();
  PaintedView::setRun(std::move(run));
  if (quantity_ == Quantity::Surprisal) requestSurprisals();
  if (emptyText().isEmpty() && selection_) showToken(selection_->current().token);
}

void PromptView::setHead(std::shared_ptr<const analysis::HeadData> head) {
  values_valid_ = false;
  PaintedView::setHead(std::move(head));
}

void PromptView::setQuantity(Quantity quantity) {
  quantity_ = quantity;
  values_valid_ = false;
  if (quantity_ == Quantity::Surprisal) requestSurprisals();
  contentChanged();
  Q_EMIT choiceTextChanged(choiceText());
}

void PromptView::requestSurprisals() {
  if (!run_ || !hasInfo(*run_) || !surprisals_.empty()) return;
  const auto wanted = run_;
  reader_.request(this, run_, 0, run_->info().tokens, [this, wanted](int64_t, std::vector<double> values) {
    if (run_ != wanted) return;
    surprisals_ = std::move(values);
    values_valid_ = false;
    update();
  });
}

void PromptView::setAsWritten(bool on) {
  as_written_ = on;
  contentChanged();
  if (emptyText().isEmpty()) showToken(selection_->current().token);
}

QString PromptView::quantityName() const {
  switch (quantity_) {
    case Quantity::WritesIntoSlot:
      return QStringLiteral("writes into slot %1").arg(selection_ ? selection_->current().slot : 0);
    case Quantity::TotalWrites:
      return QStringLiteral("total writes");
    case Quantity::LeftAtQuery:
      return QStringLiteral("left at query");
    case Quantity::ReadBySelected:
      return QStringLiteral("read by token %1").arg(selection_ ? selection_->current().token : 0);
    case Quantity::Surprisal:
      break;
  }
  return QStringLiteral("surprisal");
}

QString PromptView::choiceText() const { return QStringLiteral("colour: ") + quantityName(); }

QMenu* PromptView::choiceMenu() {
  if (menu_) return menu_;
  menu_ = new QMenu(this);
  auto* group = new QActionGroup(menu_);
  const auto add = [&](const QString& text, Quantity quantity) {
    auto* action = menu_->addAction(text, this, [this, quantity] { setQuantity(quantity); });
    action->setCheckable(true);
    action->setData(int(quantity));
    group->addAction(action);
  };
  add(QStringLiteral("Writes into the selected slot"), Quantity::WritesIntoSlot);
  add(QStringLiteral("Total writes"), Quantity::TotalWrites);
  add(QStringLiteral("Left at query"), Quantity::LeftAtQuery);
  add(QStringLiteral("Read by the selected token"), Quantity::ReadBySelected);
  add(QStringLiteral("Surprisal"), Quantity::Surprisal);
  menu_->addSeparator();
  auto* written = menu_->addAction(QStringLiteral("Line breaks as written"), this,
                                   [this] { setAsWritten(!as_written_); });
  written->setCheckable(true);
  menu_->addAction(QStringLiteral("Find…"), this, &PromptView::openSearch);
  connect(menu_, &QMenu::aboutToShow, this, [this, group, written] {
    const auto actions = group->actions();
    for (auto* action : actions) action->setChecked(action->data().toInt() == int(quantity_));
    written->setChecked(as_written_);
  });
  return menu_;
}

void PromptView::rebuildValues() const {
  values_valid_ = true;
  values_.clear();
  why_.clear();
  maximum_ = 0;
  if (!run_ || !hasInfo(*run_)) return;
  const auto& info = run_->info();
  if (quantity_ == Quantity::Surprisal) {
    values_ = surprisals_;
    if (!hasLogits(*run_))
      why_ = QStringLiteral("Logits were not captured, so surprisal is known for the answer only.");
  } else if (!head_) {
    why_ = QStringLiteral("This head has no routes.");
  } else if (quantity_ == Quantity::WritesIntoSlot) {
    values_ = writesIntoSlot(*head_, selection_->current().slot);
  } else if (quantity_ == Quantity::TotalWrites) {
    values_ = totalWrites(*head_);
  } else if (quantity_ == Quantity::LeftAtQuery) {
    values_ = survivalOfAll(*head_, analysis::query_token(info));
    if (values_.empty() && !head_->routes.no_survival.empty())
      why_ = QString::fromStdString(head_->routes.no_survival);
    else if (values_.empty())
      why_ = QStringLiteral("Log decay was not captured, so what is left cannot be known.");
  } else {
    values_ = attributionOf(*head_, selection_->current().token, selection_->current().slot);
    if (values_.empty() && !head_->no_attribution.empty())
      why_ = QString::fromStdString(head_->no_attribution);
    else if (values_.empty())
      why_ = QStringLiteral("No reads were captured at token %1.").arg(selection_->current().token);
  }
  values_.resize(size_t(info.tokens), std::nan(""));
  if (maximum_ == 0)
    for (const double v : values_)
      if (std::isfinite(v)) maximum_ = std::max(maximum_, v);
}

const std::vector<double>& PromptView::values() const {
  if (!values_valid_) rebuildValues();
  return values_;
}

QString PromptView::emptyText() const {
  if (!run_ || !hasInfo(*run_)) return QStringLiteral("Nothing is open. Run a prompt or open a trace.");
  if (run_->info().tokens == 0) return QStringLiteral("This run has no tokens yet.");
  return {};
}

const PromptLayout& PromptView::text() const {
  const QFont& font = Theme::current().fixed;
  if (!text_) text_ = std::make_unique<PromptLayout>(run_->info(), font);
  return *text_;
}

double PromptView::contentHeight(double width) const { return text().height(width, as_written_); }

int PromptView::lineCount() const {
  return emptyText().isEmpty() ? text().lines(contentRect().width(), as_written_) : 0;
}

QVector<QRectF> PromptView::tokenRects(int64_t token) const {
  if (!emptyText().isEmpty()) return {};
  const QRectF r = text().rect(contentRect().width(), as_written_, token);
  return r.isNull() ? QVector<QRectF>{} : QVector<QRectF>{r};
}

int64_t PromptView::tokenAt(const QPointF& content) const {
  return emptyText().isEmpty() ? text().tokenAt(contentRect().width(), as_written_, content) : -1;
}

void PromptView::showToken(int64_t token) {
  const auto rects = tokenRects(token);
  if (!rects.isEmpty())
    ensureVisible(rects[0].top() - PromptLayout::kTop, rects[0].bottom() + PromptLayout::kTop);
}

void PromptView::paintContent(QPainter& painter, const QSizeF&, const Theme& theme) {
  const QRectF clip = painter.clipBoundingRect();
  paintLines(painter, text(), contentRect().width(), theme, clip.top(), clip.bottom(), true);
}

namespace {

// Pieces of neighbouring cells in one style are drawn as one text: searchable in exported files and cheaper.
struct Piece {
  double left = 0, width = 0;
  QString text;
  QColor colour;
  bool bold = false, single = false;
};

void drawPieces(QPainter& painter, const QVector<Piece>& pieces, double top, double step,
                const Theme& theme) {
  QFont bold = theme.fixed;
  bold.setBold(true);
  for (const auto& p : pieces) {
    painter.setFont(p.bold ? bold : theme.fixed);
    painter.setPen(p.colour);
    painter.drawText(QRectF(p.left, top, p.width + 8, step),
                     int((p.single ? Qt::AlignHCenter : Qt::AlignLeft) | Qt::AlignVCenter) |
                         Qt::TextSingleLine | Qt::TextIncludeTrailingSpaces,
                     p.text);
  }
}

}  // namespace

void PromptView::paintLines(QPainter& painter, const PromptLayout& layout, double width, const Theme& theme,
                            double top, double bottom, bool marks) const {
  const auto& info = run_->info();
  const auto& numbers = values();
  const double step = layout.step();
  static const QColor dark_text = Theme::light().text;
  const auto map = colourMap(QStringLiteral("cividis"), theme.dark);
  const auto chosen = selection_ ? selection_->current() : Selection{};
  const auto brush = marks && selection_ ? selection_->brush() : std::nullopt;
  const int first = std::max(0, int((top - PromptLayout::kTop) / step));
  const int last = std::min(layout.lines(width, as_written_) - 1, int((bottom - PromptLayout::kTop) / step));
  QRectF ring;
  for (int index = first; index <= last; ++index) {
    const double y = PromptLayout::kTop + index * step;
    QVector<Piece> pieces;
    for (const auto& placed : layout.line(width, as_written_, index)) {
      const auto& cell = placed.cell;
      const double part = placed.width / cell.count;
      painter.setRenderHint(QPainter::Antialiasing, false);
      if (placed.divider) painter.fillRect(QRectF(std::round(placed.left - 6), y, 1, step - 1), theme.text2);
      int colour = -1;
      for (int i = 0; i < cell.count; ++i) {
        const auto t = size_t(cell.first + i);
        const int at = t < numbers.size() ? mapIndex(numbers[t], maximum_) : -1;
        if (at >= 0) painter.fillRect(QRectF(placed.left + i * part, y, part, step - 1), QColor(map[at]));
        colour = std::max(colour, at);
        if (brush && cell.first + i >= brush->first && cell.first + i < brush->second) {
          QColor wash = theme.selection;
          wash.setAlphaF(0.12);
          painter.fillRect(QRectF(placed.left + i * part, y, part, step - 1), wash);
          if (cell.first + i == brush->first)
            painter.fillRect(QRectF(placed.left + i * part, y, 1, step - 1), theme.selection);
          if (cell.first + i + 1 == brush->second)
            painter.fillRect(QRectF(placed.left + (i + 1) * part - 1, y, 1, step - 1), theme.selection);
        }
      }
      const bool red = isRetrieval(info, cell.first);
      const QString span = tokenSpan(info, cell.first);
      if (red || isStrongSpan(info, span.toStdString()))
        painter.fillRect(QRectF(placed.left, y + step - 2, placed.width, 2), theme.retrieval);
      else if (!span.isEmpty())
        painter.fillRect(QRectF(placed.left, y + step - 2, placed.width, 1), theme.text2);
      if (cell.count > 1) {  // a thin bracket joins the tokens of one character
        painter.setPen(QPen(theme.text3, 1));
        const double b = y + step - 4;
        painter.drawLine(QPointF(placed.left + 1, b), QPointF(placed.left + placed.width - 2, b));
        painter.drawLine(QPointF(placed.left + 1, b), QPointF(placed.left + 1, b - 2));
        painter.drawLine(QPointF(placed.left + placed.width - 2, b),
                         QPointF(placed.left + placed.width - 2, b - 2));
      }
      QColor pen = red ? theme.retrieval : cell.special || cell.newline ? theme.text3 : theme.text;
      if (colour >= 0)
        pen = contrast(QColor(map[colour]), Qt::white) >= contrast(QColor(map[colour]), dark_text)
                  ? QColor(Qt::white)
                  : dark_text;
      const bool single = cell.count > 1;
      if (!pieces.isEmpty() && !single && !pieces.back().single && pieces.back().colour == pen &&
          pieces.back().bold == red &&
          std::abs(pieces.back().left + pieces.back().width - placed.left) < 0.5) {
        pieces.back().text += cell.text;
        pieces.back().width += placed.width;
      } else {
        pieces.push_back(
            {placed.left, single ? placed.width - 8 : placed.width, cell.text, pen, red, single});
      }
      if (marks && chosen.token >= cell.first && chosen.token < cell.first + cell.count)
        ring = QRectF(placed.left + double(chosen.token - cell.first) * part, y, part, step - 1);
    }
    drawPieces(painter, pieces, y - 1, step, theme);
  }
  if (!marks) return;
  painter.setRenderHint(QPainter::Antialiasing);
  painter.setBrush(Qt::NoBrush);
  const auto box = [&](int64_t token) {
    return layout.rect(width, as_written_, token).adjusted(0, 0, 0, -1);
  };
  for (const auto& [from, to] : matches_) {
    if (box(from).bottom() < top) continue;
    if (box(from).top() > bottom) break;
    painter.setPen(QPen(theme.text2, 1, Qt::DotLine));
    for (int64_t t = from; t < to; ++t) {
      const QRectF a = box(t);
      QRectF joined = a;
      while (t + 1 < to && box(t + 1).top() == a.top()) joined |= box(++t);
      painter.drawRect(joined.adjusted(-0.5, 0.5, 0.5, -0.5));
    }
  }
  if (const auto hover = selection_->hoverToken(); hover >= 0 && hover < info.tokens) {
    painter.setPen(QPen(theme.hover, 1.5));
    painter.drawRect(box(hover));
  }
  if (!ring.isNull()) {
    painter.setPen(QPen(theme.surface, 4));
    painter.drawRoundedRect(ring.adjusted(-1, 0, 1, 0), 2, 2);
    painter.setPen(QPen(theme.selection, 2));
    painter.drawRoundedRect(ring.adjusted(-1, 0, 1, 0), 2, 2);
  }
}

QSizeF PromptView::figureSize() const {
  if (!emptyText().isEmpty()) return {760, 160};
  const PromptLayout layout(run_->info(), Theme::current().fixed);
  return {760, PromptLayout::kTop * 2 +
                   std::min(kFigureLines, layout.lines(760, as_written_)) * layout.step() + 44};
}

void PromptView::paintFigure(QPainter& painter, const QRectF& area, const Theme& theme,
                             const FigureOptions& options) {
  painter.save();
  painter.fillRect(area, theme.surface);
  if (!emptyText().isEmpty()) {
    painter.setFont(theme.ui);
    painter.setPen(theme.text2);
    painter.drawText(area, int(Qt::AlignCenter) | Qt::TextWordWrap, emptyText());
    painter.restore();
    return;
  }
  const PromptLayout layout(run_->info(), theme.fixed);
  const int lines = layout.lines(area.width(), as_written_);
  QString extra =
      QStringLiteral("background: ") + quantityName() + QStringLiteral(", 0 to ") + strength(maximum_);
  values();
  QRectF rest = area;
  const auto caption = [&] {
    return options.caption
               ? paintCaption(painter, area, captionText(*run_, head_.get(), extra, options), theme)
               : area;
  };
  const int room = std::max(1, int((area.height() - 44 - 2 * PromptLayout::kTop) / layout.step()));
  int first = 0;
  if (lines > room) {  // a part around the selected token, and the caption says which
    first = std::clamp(
        layout.lineOf(area.width(), as_written_, selection_ ? selection_->current().token : 0) - room / 2, 0,
        lines - room);
    extra +=
        QStringLiteral(", lines %1 to %2 of %3").arg(count(first + 1), count(first + room), count(lines));
  }
  rest = caption();
  painter.setClipRect(rest, Qt::IntersectClip);
  painter.translate(area.left(), area.top() - first * layout.step());
  paintLines(painter, layout, area.width(), theme, first * layout.step() + PromptLayout::kTop,
             (first + std::min(lines, room)) * layout.step() + PromptLayout::kTop - 1, options.selection);
  painter.restore();
}

QString PromptView::csv() const {
  if (!emptyText().isEmpty()) return {};
  const auto& info = run_->info();
  Facts facts = runFacts(*run_, head_.get());
  facts.push_back({QStringLiteral("figure"), figureKind()});
  facts.push_back({QStringLiteral("value"), quantityName()});
  QString text = factLines(facts) + QStringLiteral("token,id,text,role,span,value,bytes_hex\n");
  const auto& numbers = values();
  // Text is for reading (a part of a character shows all of it); the bytes are exact.
  for (int64_t t = 0; t < info.tokens; ++t) {
    const auto bytes = info.token_bytes(t);
    text += QStringLiteral("%1,%2,%3,%4,%5,%6,%7\n")
                .arg(QString::number(t),
                     size_t(t) < info.ids.size() ? QString::number(info.ids[size_t(t)]) : QString(),
                     csvField(tokenName(info, t)),
                     isRetrieval(info, t) ? QStringLiteral("retrieval") : QStringLiteral("other"),
                     csvField(tokenSpan(info, t)),
                     csvNumber(size_t(t) < numbers.size() ? numbers[size_t(t)] : std::nan("")),
                     QString::fromLatin1(QByteArray(bytes.data(), qsizetype(bytes.size())).toHex()));
  }
  return text;
}

QString PromptView::tipAt(const QPointF& position) const {
  const int64_t token = tokenAt(position);
  if (token < 0) return {};
  const auto& info = run_->info();
  QVector<std::pair<QString, QString>> rows;
  if (size_t(token) < info.ids.size())
    rows.push_back({QStringLiteral("id"), QString::number(info.ids[size_t(token)])});
  if (const QString span = tokenSpan(info, token); !span.isEmpty())
    rows.push_back({QStringLiteral("span"), span});
  rows.push_back({QStringLiteral("role"),
                  isRetrieval(info, token) ? QStringLiteral("retrieval") : QStringLiteral("other")});
  const auto& numbers = values();
  if (why_.isEmpty() || std::isfinite(numbers[size_t(token)]))
    rows.push_back({quantityName(), strength(numbers[size_t(token)], 4)});
  return tipText(QStringLiteral("Token %1 %2").arg(count(token), tokenTitle(info, token)), rows,
                 why_.isEmpty() ? formula(quantity_) : why_, Theme::current());
}

QString PromptView::accessibleText() const {
  if (!emptyText().isEmpty()) return QStringLiteral("Prompt, ") + emptyText();
  const auto& info = run_->info();
  const int64_t token = selection_->current().token;
  QString text = QStringLiteral("Prompt, %1 tokens, token %2 %3")
                     .arg(info.tokens)
                     .arg(token)
                     .arg(tokenName(info, token));
  if (const QString span = tokenSpan(info, token); !span.isEmpty()) text += QStringLiteral(", ") + span;
  const auto& numbers = values();
  if (token >= 0 && size_t(token) < numbers.size() && std::isfinite(numbers[size_t(token)]))
    text += QStringLiteral(", %1 %2").arg(quantityName(), strength(numbers[size_t(token)]));
  return text;
}

void PromptView::selectionMoved(int parts) {
  if ((parts & SelectionModel::Slot && quantity_ == Quantity::WritesIntoSlot) ||
      (parts & SelectionModel::Token && quantity_ == Quantity::ReadBySelected)) {
    values_valid_ = false;
    Q_EMIT choiceTextChanged(choiceText());
  }
  if (parts & SelectionModel::Token) showToken(selection_->current().token);
  PaintedView::selectionMoved(parts);
}

void PromptView::hoverMoved() { update(); }

void PromptView::contentChanged() {
  PaintedView::contentChanged();
  placeSearch();
}

bool PromptView::event(QEvent* event) {
  if (event->type() == QEvent::ShortcutOverride) {
    const auto* key = static_cast<QKeyEvent*>(event);
    if (key->key() == Qt::Key_F3 || (key->key() == Qt::Key_F && key->modifiers() == Qt::ControlModifier) ||
        (key->key() == Qt::Key_Escape && search_ && search_->isVisible()))
      event->accept();
  }
  return PaintedView::event(event);
}

void PromptView::changeEvent(QEvent* event) {
  if (event->type() == QEvent::PaletteChange || event->type() == QEvent::FontChange) text_.reset();
  PaintedView::changeEvent(event);
}

void PromptView::resizeEvent(QResizeEvent* event) {
  PaintedView::resizeEvent(event);
  placeSearch();
}

void PromptView::mousePressEvent(QMouseEvent* event) {
  const int64_t token = tokenAt(toContent(event->position()));
  if (event->button() != Qt::LeftButton) return PaintedView::mousePressEvent(event);
  if (event->modifiers() & Qt::ShiftModifier) {
    if (token < 0) return;
    brushing_ = true;
    brush_from_ = token;
    selection_->setBrush(std::pair<qint64, qint64>{token, token + 1});
  } else if (token >= 0) {
    selection_->request({.token = token});
  }
}

void PromptView::mouseMoveEvent(QMouseEvent* event) {
  const int64_t token = tokenAt(toContent(event->position()));
  if (brushing_) {
    if (token >= 0)
      selection_->setBrush(
          std::pair{std::min<qint64>(token, brush_from_), std::max<qint64>(token, brush_from_) + 1});
    return;
  }
  selection_->setHover(-1, token);
  if (token < 0) return Q_EMIT statusText({});
  const auto& numbers = values();
  Q_EMIT statusText(QStringLiteral("token %1 %2   %3 %4")
                        .arg(count(token), tokenTitle(run_->info(), token), quantityName(),
                             strength(numbers[size_t(token)], 4)));
}

void PromptView::mouseReleaseEvent(QMouseEvent*) { brushing_ = false; }

void PromptView::mouseDoubleClickEvent(QMouseEvent* event) {
  const int64_t token = tokenAt(toContent(event->position()));
  if (event->button() != Qt::LeftButton || token < 0) return;
  const auto& info = run_->info();
  const auto is_space = [&](int64_t t) {
    const auto b = info.token_bytes(t);
    return (size_t(t) < info.special.size() && info.special[size_t(t)]) || b.empty() ||
           std::all_of(b.begin(), b.end(), [](char c) { return c == ' ' || c == '\n' || c == '\t'; });
  };
  const auto begins_word = [&](int64_t t) {
    const auto b = info.token_bytes(t);
    return !b.empty() && (b.front() == ' ' || b.front() == '\n');
  };
  if (is_space(token)) return;
  int64_t from = token, to = token + 1;
  while (from > 0 && !begins_word(from) && !is_space(from - 1)) --from;
  while (to < info.tokens && !is_space(to) && !begins_word(to)) ++to;
  selection_->setBrush(std::pair<qint64, qint64>{from, to});
}

void PromptView::leaveEvent(QEvent*) {
  if (selection_) selection_->setHover(-1, -1);
  Q_EMIT statusText({});
}

void PromptView::keyPressEvent(QKeyEvent* event) {
  if (event->key() == Qt::Key_F3) {
    findNext(event->modifiers() & Qt::ShiftModifier);
  } else if (event->key() == Qt::Key_F && event->modifiers() == Qt::ControlModifier) {
    openSearch();
  } else if (event->key() == Qt::Key_Escape && search_ && search_->isVisible()) {
    closeSearch();
  } else {
    return PaintedView::keyPressEvent(event);
  }
  event->accept();
}

int PromptView::searchFor(const QString& wanted) {
  matches_.clear();
  update();
  if (!emptyText().isEmpty() || wanted.isEmpty()) return 0;
  const auto& info = run_->info();
  const auto lower = [](QByteArray b) {
    for (char& c : b)
      if (c >= 'A' && c <= 'Z') c = char(c + 32);
    return b;
  };
  const QByteArray text =
      lower(QByteArray(reinterpret_cast<const char*>(info.bytes.data()), qsizetype(info.bytes.size())));
  const QByteArray needle = lower(wanted.toUtf8());
  const auto token_of = [&](int64_t byte) {
    return int64_t(std::upper_bound(info.byte_offsets.begin(), info.byte_offsets.end(), byte) -
                   info.byte_offsets.begin()) -
           1;
  };
  for (qsizetype at = text.indexOf(needle); at >= 0 && matches_.size() < 100'000;
       at = text.indexOf(needle, at + needle.size()))
    matches_.push_back({token_of(at), token_of(at + needle.size() - 1) + 1});
  if (!matches_.empty()) {
    const auto now = std::find_if(matches_.begin(), matches_.end(),
                                  [&](const auto& m) { return m.first >= selection_->current().token; });
    selection_->request({.token = (now == matches_.end() ? matches_.front() : *now).first});
  }
  return int(matches_.size());
}

void PromptView::findNext(bool backwards) {
  if (matches_.empty()) return openSearch();
  const int64_t token = selection_->current().token;
  size_t at;
  if (backwards) {
    const auto found =
        std::find_if(matches_.rbegin(), matches_.rend(), [&](const auto& m) { return m.first < token; });
    at = found == matches_.rend() ? matches_.size() - 1 : size_t(matches_.rend() - found) - 1;
  } else {
    const auto found =
        std::find_if(matches_.begin(), matches_.end(), [&](const auto& m) { return m.first > token; });
    at = found == matches_.end() ? 0 : size_t(found - matches_.begin());
  }
  selection_->request({.token = matches_[at].first});
  if (search_count_) search_count_->setText(QStringLiteral("%1 of %2").arg(at + 1).arg(matches_.size()));
}

void PromptView::openSearch() {
  if (!search_) {
    auto* frame = new QFrame(this);
    frame->setProperty("ui", "chip");
    search_ = frame;
    auto* row = new QHBoxLayout(frame);
    row->setContentsMargins(6, 2, 8, 2);
    search_field_ = new QLineEdit(frame);
    search_field_->setPlaceholderText(QStringLiteral("Find in the prompt"));
    search_field_->setAccessibleName(QStringLiteral("Find in the prompt"));
    search_field_->setFixedWidth(170);
    search_count_ = new QLabel(frame);
    search_count_->setProperty("ui", "text2");
    search_count_->setMinimumWidth(64);
    row->addWidget(search_field_);
    row->addWidget(search_count_);
    connect(search_field_, &QLineEdit::textChanged, this, [this](const QString& wanted) {
      const int n = searchFor(wanted);
      search_count_->setText(wanted.isEmpty() ? QString()
                             : n == 0         ? QStringLiteral("no match")
                                              : QStringLiteral("%1 found").arg(n));
    });
    connect(search_field_, &QLineEdit::returnPressed, this, [this] { findNext(false); });
    // Escape and F3 while typing.
    auto* next = new QAction(search_field_);
    next->setShortcuts({QKeySequence(Qt::Key_F3)});
    next->setShortcutContext(Qt::WidgetShortcut);
    connect(next, &QAction::triggered, this, [this] { findNext(false); });
    auto* close = new QAction(search_field_);
    close->setShortcut(QKeySequence(Qt::Key_Escape));
    close->setShortcutContext(Qt::WidgetShortcut);
    connect(close, &QAction::triggered, this, &PromptView::closeSearch);
    search_field_->addActions({next, close});
  }
  search_->show();
  placeSearch();
  search_->raise();
  search_field_->setFocus();
  search_field_->selectAll();
}

void PromptView::closeSearch() {
  if (search_) search_->hide();
  matches_.clear();
  setFocus();
  update();
}

void PromptView::placeSearch() {
  if (!search_ || !search_->isVisibleTo(this)) return;
  const QSize size = search_->sizeHint();
  const auto area = contentRect();
  search_->setGeometry(int(area.right()) - size.width() - 8, int(area.top()) + 4, size.width(),
                       size.height());
}

}  // namespace slotscope::views
