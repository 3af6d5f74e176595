// What the Run panel asks for; the same choices as `slotscope-cli run`.
#pragma once

#include <QString>
#include <cstdint>

namespace slotscope::app {

struct RunSettings {
  enum class Mode { text, task, ids, file };
  Mode mode = Mode::task;
  QString text;  // --text
  QString ids;   // --ids "1,2,3" or a JSON array
  QString prompts, rows;  // --prompts FILE --rows 0:10,15 (empty: all)
  // --task passkey
  qint64 length = 512;
  double depth = 0.3;  // < 0: drawn from the seed
  quint64 seed = 9;
  QString haystack = "noise";  // noise, or a file
  qint64 generate = -1;        // -1: what the prompt's task takes, or answer tokens + 1 with a known answer, else 0
  QString device = "cpu", dtype = "float32";
  QString capture = "route,log_decay,write_strength,read_weight,margin,ties,addresses,top_ids,top_logprob";
  bool operator==(const RunSettings&) const = default;

  // "Run password · 512", for the list of jobs.
  QString jobName() const;
};

}  // namespace slotscope::app
