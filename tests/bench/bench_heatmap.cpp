// Pans and zooms the heatmap through a synthetic head of 131,072 tokens x 256 slots (top-8) without a
// display, and reports the median and 95 % time of a frame: from the input until everything it caused in the
// window's thread, painting included, is done. Reductions run in the worker meanwhile. Usage: bench_heatmap
// [tokens] [slots] [width height]
#include <QApplication>
#include <QElapsedTimer>
#include <QHoverEvent>
#include <QMouseEvent>
#include <algorithm>
#include <cstdio>
#include <thread>

#include "tests/views/demo.h"
#include "views/heatmap_view.h"

using namespace slotscope;
using namespace slotscope::views;

namespace {

struct Frames {
  std::vector<double> ms;
  int sharp = 0;
};

void report(const char* name, Frames f) {
  std::sort(f.ms.begin(), f.ms.end());
  const size_t n = f.ms.size();
  std::printf("%-28s %4zu frames   median %6.2f ms   95 %% %6.2f ms   worst %6.2f ms   %3.0f %% sharp\n",
              name, n, f.ms[n / 2], f.ms[n * 95 / 100], f.ms.back(), 100.0 * f.sharp / double(n));
}

}  // namespace

int main(int argc, char** argv) {
  if (!qEnvironmentVariableIsSet("QT_QPA_PLATFORM")) qputenv("QT_QPA_PLATFORM", "offscreen");
  QApplication app(argc, argv);
  const int64_t tokens = argc > 1 ? std::atoll(argv[1]) : 131072;
  const int slots = argc > 2 ? std::atoi(argv[2]) : 256;
  const int width = argc > 4 ? std::atoi(argv[3]) : 1400, height = argc > 4 ? std::atoi(argv[4]) : 800;
  Theme::apply(Theme::light());

  auto run = std::make_shared<RunData>();
  run->own_info = std::make_shared<trace::RunInfo>(testing::demoRun(tokens));
  QElapsedTimer clock;
  clock.start();
  const auto head = testing::demoHead(*run->own_info, 3, 0, slots);
  std::printf("%lld tokens x %d slots, %zu writes, made in %.0f ms; window %d x %d\n",
              static_cast<long long>(run->own_info->tokens), slots, head->writes.token.size(),
              double(clock.nsecsElapsed()) / 1e6, width, height);
  SelectionModel selection;
  selection.setLimits(1, 4, 4, slots, run->own_info->tokens);
  Worker worker;
  HeatmapView view(&selection, &worker);
  view.resize(width, height);
  view.show();
  app.processEvents();
  clock.restart();
  view.setRun(run);
  view.setHead(head);
  const auto settle = [&] {
    do {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      app.processEvents();
    } while (worker.busy());
    app.processEvents();
  };
  app.processEvents();
  const double blocked = double(clock.nsecsElapsed()) / 1e6;
  settle();
  std::printf("opening the head: window blocked %.1f ms, picture after %.1f ms\n", blocked,
              double(clock.nsecsElapsed()) / 1e6);

  const auto frame = [&](Frames& f, auto&& input) {
    QElapsedTimer t;
    t.start();
    input();
    app.processEvents();
    app.processEvents();  // the repaint that a queued replot asks for
    const double ms = double(t.nsecsElapsed()) / 1e6;
    f.ms.push_back(ms);
    const auto* grid = view.shownGrid();
    const CellRange r = view.tokenRange();
    f.sharp += grid && grid->first <= r.first && grid->last >= r.second &&
               grid->tokens_per_column <=
                   double(tokensPerColumn(r.second - r.first, int(view.plotGeometry().plot.width())));
    // Input comes 60 times a second; the worker has the rest of the time.
    if (ms < 16) std::this_thread::sleep_for(std::chrono::microseconds(int((16 - ms) * 1000)));
  };
  Frames all;
  const auto section = [&](const char* name, Frames f) {
    all.ms.insert(all.ms.end(), f.ms.begin(), f.ms.end());
    all.sharp += f.sharp;
    report(name, std::move(f));
    settle();
  };
  const auto T = run->own_info->tokens;
  {
    Frames f;
    for (int pass = 0; pass < 2; ++pass) {
      const double anchor = double(T) * (pass ? 0.71 : 0.3);
      for (int i = 0; i < 36; ++i)
        frame(f, [&] { view.setTokenRange(zoomRange(view.tokenRange(), anchor, 1.25, T)); });
      for (int i = 0; i < 36; ++i)
        frame(f, [&] { view.setTokenRange(zoomRange(view.tokenRange(), anchor, 0.8, T)); });
    }
    section("zoom in and out", f);
  }
  for (const int64_t visible : {int64_t(65536), int64_t(8192), int64_t(1200), int64_t(64)}) {
    Frames f;
    view.setTokenRange(centreRange(T / 4, visible, T));
    settle();
    for (int i = 0; i < 80; ++i)
      frame(f,
            [&] { view.setTokenRange(panRange(view.tokenRange(), std::max<int64_t>(1, visible / 40), T)); });
    char name[64];
    std::snprintf(name, sizeof name, "pan, %lld tokens visible", static_cast<long long>(visible));
    section(name, f);
  }
  {
    Frames f;
    view.zoomToAll();
    settle();
    for (int i = 0; i < 40; ++i)
      frame(f,
            [&] { view.setRowRange(zoomRange(view.rowRange(), slots * 0.4, i < 20 ? 1.25 : 0.8, slots)); });
    section("zoom slots", f);
  }
  {
    Frames f;
    view.zoomToAll();
    settle();
    const QRectF plot = view.plotGeometry().plot;
    for (int i = 0; i < 120; ++i)
      frame(f, [&] {
        const QPointF at(plot.left() + plot.width() * (i % 40) / 40,
                         plot.top() + plot.height() * (i % 17) / 17);
        QMouseEvent move(QEvent::MouseMove, at, view.plotWidget()->mapToGlobal(at), Qt::NoButton,
                         Qt::NoButton, Qt::NoModifier);
        QApplication::sendEvent(view.plotWidget(), &move);
      });
    section("hover", f);
  }
  {
    Frames f;
    for (int i = 0; i < 60; ++i)
      frame(f, [&] { selection.request({.slot = i * 7 % slots, .token = i * T / 60}, true); });
    section("select", f);
  }
  report("everything", all);
  std::sort(all.ms.begin(), all.ms.end());
  return all.ms[all.ms.size() / 2] < 16 ? 0 : 1;
}
