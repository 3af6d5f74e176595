#include "app/cli/help.h"

namespace slotscope::cli {
namespace {

constexpr size_t kNames = 30, kWidth = 100;

// `left` in the first column, `text` wrapped in the second.
std::string two_columns(const std::string& left, const std::string& text) {
  std::string out = "  " + left;
  size_t column = out.size();
  if (column + 2 > kNames) {
    out += "\n";
    column = 0;
  }
  out.append(kNames - column, ' ');
  column = kNames;
  size_t at = 0;
  bool first = true;
  while (at < text.size()) {
    const size_t end = std::min(text.find(' ', at), text.size());
    const size_t length = end - at;
    if (!first && column + 1 + length > kWidth) {
      out += "\n" + std::string(kNames, ' ');
      column = kNames;
      first = true;
    }
    if (!first) out += " ", ++column;
    out.append(text, at, length);
    column += length;
    first = false;
    at = end + 1;
  }
  return out + "\n";
}

class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_option(const CLI::Option* option, bool positional) const override {
    return two_columns(make_option_name(option, positional) + (positional ? "" : make_option_opts(option)),
                       make_option_desc(option));
  }
  std::string make_usage(const CLI::App* app, std::string name) const override {
    if (app->get_name() != "run") return CLI::Formatter::make_usage(app, name);
    return "Usage: " + name + " FOLDER (--text S | --text-file F | --ids L | --ids-file F | --prompts F | --task passkey)\n" +
           std::string(name.size() + 8, ' ') + "[options] --out TRACE.h5\n";
  }
  std::string make_group(std::string group, bool positional, std::vector<const CLI::Option*> options) const override {
    std::string out = "\n" + group + ":\n";
    for (const CLI::Option* option : options) out += make_option(option, positional);
    // make_groups() puts an empty line after every group but the last; one between groups is enough.
    return out[0] == '\n' && group != "Options" && !positional ? out.substr(1) : out;
  }
  std::string make_subcommand(const CLI::App* command) const override {
    return two_columns(command->get_name(), command->get_description());
  }
};

}  // namespace

std::shared_ptr<CLI::FormatterBase> help_formatter() {
  auto formatter = std::make_shared<HelpFormatter>();
  formatter->label("Positionals", "Arguments");
  formatter->label("OPTIONS", "options");
  formatter->label("SUBCOMMAND", "COMMAND");
  return formatter;
}

const char* const kMainFooter =
    "Every command has its own --help. Results go to standard output; progress, notes, warnings and errors go to\n"
    "standard error. With --json, standard output is exactly one JSON document (keys: resources/cli.md).\n"
    "\n"
    "Exit codes: 0 done; 1 bad input or environment, or verify failed; 2 wrong option; 130 cancelled. Ctrl+C\n"
    "cancels and leaves a readable trace; a second one ends at once.\n"
    "\n"
    "Examples:\n"
    "  slotscope-cli info resources/checkpoints/raven-passkey\n"
    "  slotscope-cli run resources/checkpoints/raven-passkey --task passkey --length 512 --out trace.h5\n"
    "  slotscope-cli analyze trace.h5\n";

const char* const kRunFooter =
    "Names of --capture: `slotscope-cli run --fields` lists them. Positions count tokens from 0; A:B is half-open; a list\n"
    "such as 0,2-3 includes both ends. File sizes are in powers of 1000 (MB), --max-gpu-mem in GiB.\n"
    "\n"
    "The work goes to TRACE.h5.part, which becomes TRACE.h5 at the end: a broken file never has the final name. After a\n"
    "kill or a power cut, `slotscope-cli repair` keeps what was written.\n"
    "\n"
    "Examples:\n"
    "  A password prompt of 2048 tokens, needle at a quarter, with the default capture:\n"
    "    slotscope-cli run MODEL --task passkey --length 2048 --depth 0.25 --seed 7 --out p.h5\n"
    "  Your own text on the second GPU in bfloat16, only layers 0 and 12 to 15, and 32 tokens of answer:\n"
    "    slotscope-cli run MODEL --text-file essay.txt --device cuda:1 --dtype bfloat16 \\\n"
    "      --layers 0,12-15 --generate 32 --out essay.h5\n"
    "  The first ten rows of an lm-eval or RULER file, each a run with its spans and score:\n"
    "    slotscope-cli run MODEL --prompts niah_single_1.jsonl --rows 0:10 --out niah.h5\n"
    "  Many prompts as token ids, routes only, for a script:\n"
    "    slotscope-cli run MODEL --ids-file prompts.json --capture route --json --out many.h5\n";

const char* const kInfoFooter =
    "No weight is read, but the one of --tensor. A folder of an unknown family is listed too; only running it is refused.\n"
    "\n"
    "Examples:\n"
    "  slotscope-cli info MODEL\n"
    "  slotscope-cli info MODEL --tensor model.embeddings.weight --bins 20\n"
    "  slotscope-cli info MODEL --json | python3 -c 'import json, sys; print(json.load(sys.stdin)[\"parameters\"])'\n";

const char* const kTokenizeFooter =
    "from and to: characters of the text (Unicode code points), half-open. A token that holds a part of a character has that\n"
    "character's place; the table shows its bytes in hex. tokenizer.json is read first, then tokenizer.model, then\n"
    "vocab.json with merges.txt; a tokenizer that cannot be followed exactly is refused.\n"
    "\n"
    "Examples:\n"
    "  slotscope-cli tokenize MODEL --text 'Hello world'\n"
    "  slotscope-cli tokenize MODEL --text-file essay.txt --no-special --json > ids.json\n";

const char* const kDetokenizeFooter =
    "Ids without a token stand for nothing (shown as <unused 300>). Text that is not valid UTF-8, such as a cut character, is\n"
    "shown in hex; with --json its exact bytes are in decoded_bytes_hex.\n"
    "\n"
    "Example:\n"
    "  slotscope-cli detokenize MODEL --ids 256,72,105\n";

const char* const kAnalyzeFooter =
    "Needs no model. Per head: slots used, effective sequence length (ESL) with its exponential fit, slot classes\n"
    "(retrieval only, shared, other only, empty), retrieval score, entropy of the mean route in nats, Gini of ESL, margin\n"
    "at the top-k cut, survival of the key at the query, and read attribution to the key.\n"
    "\n"
    "Examples:\n"
    "  slotscope-cli analyze trace.h5\n"
    "  slotscope-cli analyze trace.h5 --json > heads.json\n";

const char* const kSweepFooter =
    "Every prompt follows from seed, length, depth and number alone, so all models see the same ones. A prompt counts as\n"
    "exact when every token of the answer and <eos> was the arg max. SWEEP.h5 is renewed every ten seconds: after Ctrl+C or\n"
    "a kill the same command goes on, and finished prompts are not run again. More folders may be given later; other\n"
    "settings than the file's are refused by name. `slotscope-cli analyze SWEEP.h5` prints the table without running\n"
    "anything, `slotscope figure SWEEP.h5 --out F.pdf` draws it.\n"
    "\n"
    "Examples:\n"
    "  Four models on the same 100 prompts, as their training.json counts lengths:\n"
    "    slotscope-cli sweep raven-passkey gsa-passkey swa-passkey llama-passkey --lengths 256,512,1024,2048 --seeds 25 \\\n"
    "      --length-counts total --depths uniform --haystack mixed --out sweep.h5\n"
    "  Where in the haystack one model finds the needle:\n"
    "    slotscope-cli sweep MODEL --lengths 512,1024,2048 --depths 0,0.25,0.5,0.75,1 --seeds 10 --out depth.h5\n";

const char* const kVerifyFooter =
    "Names in the golden file: input_ids [T] or [1, T]; logits, logits_f64; block_out.i (= hidden of layer i),\n"
    "mixer_in.i, mixer_out.i; log_keep.i and write_strength.i as [T, heads, slots]; any captured field as FIELD.i or\n"
    "layers.i.FIELD. Where log_keep.i is given, the selected slots are compared as sets too.\n"
    "Tolerances (absolute): 1e-4, on CUDA 2e-4; 1e-9 for float64 tensors in a float64 run; write strength 1e-6. bfloat16\n"
    "has none: give --tolerance.\n"
    "\n"
    "Example:\n"
    "  slotscope-cli verify tests/golden/models/raven_fla_default \\\n"
    "    --golden tests/golden/models/raven_fla_default/golden.safetensors --dtype float64\n";

const char* const kMakeFooter =
    "For measuring and trying out: a model that nobody trained, whose passes have the size and the cost of a real one. Weights\n"
    "depend on --seed, tensor name and position only: the same bytes on every machine. FOLDER is written as FOLDER.part and renamed.\n"
    "\n"
    "Presets:\n"
    "  ramnet-340m  27 layers, 1024 wide, 16 heads, 4^5 slots, top 8, CAPE in the first 8 layers, tied, 32 000 rows\n"
    "  ramnet-tiny  4 layers, 64 wide, 4 heads, 4^3 slots, top 4, bytes\n"
    "  raven-424m   24 layers, 1024 wide, 4 heads, 256 slots, top 32, 32 000 rows\n"
    "  raven-tiny   4 layers, 64 wide, 4 heads, 16 slots, top 4, bytes\n"
    "\n"
    "Examples:\n"
    "  slotscope-cli make ramnet-340m --preset ramnet-340m\n"
    "  slotscope-cli make small --preset ramnet-340m --set num_hidden_layers=4 --set ramnet.readout=mass_aware --dtype float32\n"
    "  slotscope-cli make gla --model-type gla --set hidden_size=512 --set num_hidden_layers=6 --seed 7\n"
    "  slotscope-cli make twin --config MODEL --tokenizer MODEL --dry-run\n";

const char* const kRepairFooter =
    "For a trace whose program was killed while it wrote. IN is not changed; OUT gets every whole chunk and is marked with\n"
    "how many tokens it holds.\n"
    "\n"
    "Example:\n"
    "  slotscope-cli repair trace.h5.part repaired.h5\n";

const char* const kSelftestFooter =
    "Runs the test cases that need no window, for machines without Qt, and ends with `N passed, N failed, N skipped`.\n"
    "\n"
    "Examples:\n"
    "  slotscope-cli selftest\n"
    "  slotscope-cli selftest --device cuda --golden ~/slotscope\n";

}  // namespace slotscope::cli
