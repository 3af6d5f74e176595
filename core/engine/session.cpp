#include "core/engine/session.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>

#include <charconv>
#include <nlohmann/json.hpp>

#include "core/engine/cuda_stream.h"
#include "core/engine/loaded_model.h"
#include "core/engine/model/registry.h"
#include "core/error.h"

namespace slotscope::engine {
namespace {

Numerics numerics_of(const LoadOptions& options, const at::Device& device) {
  Numerics n;
  n.device = device;
  if (options.dtype == "float64") {
    n.compute = n.exact = n.router = at::kDouble;
  } else if (options.dtype == "bfloat16") {
    n.compute = at::kBFloat16;
  } else if (options.dtype != "float32") {
    throw Error(
        {.item = "--dtype", .found = "'" + options.dtype + "'", .expected = "float32, bfloat16 or float64"},
        Error::Kind::usage);
  }
  if (options.router_dtype == "bf16") {
    if (n.compute != at::kBFloat16)
      throw Error({.item = "--router-dtype",
                   .found = "bf16 with --dtype " + options.dtype,
                   .expected = "bf16 only with --dtype bfloat16"},
                  Error::Kind::usage);
    n.router = at::kBFloat16;
  } else if (options.router_dtype != "float32") {
    throw Error(
        {.item = "--router-dtype", .found = "'" + options.router_dtype + "'", .expected = "float32 or bf16"},
        Error::Kind::usage);
  }
  return n;
}

std::string device_list(const std::vector<CudaDevice>& found) {
  std::string list = "cpu";
  for (const CudaDevice& d : found) list += ", cuda:" + std::to_string(d.index);
  return list;
}

// "cpu", "cuda", "cuda:N" -> a device that exists.
at::Device device_of(const std::string& text, std::string& description) {
  description = "cpu";
  if (text == "cpu") return at::Device(at::kCPU);
  int index = 0;
  bool valid = text == "cuda";
  if (text.starts_with("cuda:")) {
    const auto [end, error] = std::from_chars(text.data() + 5, text.data() + text.size(), index);
    valid = error == std::errc() && end == text.data() + text.size() && index >= 0;
  }
  if (!valid)
    throw Error({.item = "--device", .found = "'" + text + "'", .expected = "cpu, cuda or cuda:N"},
                Error::Kind::usage);
  std::string why;
  const std::vector<CudaDevice> found = cuda_devices(&why);
  for (const CudaDevice& d : found) {
    if (d.index != index) continue;
    description = "cuda:" + std::to_string(index) + " " + d.name;
    return at::Device(at::kCUDA, c10::DeviceIndex(index));
  }
  throw Error({.item = "--device",
               .found = text + (found.empty() ? ": " + why : ": no such device"),
               .expected = "one of " + device_list(found),
               .advice = found.empty() ? "Use --device cpu" : ""});
}

std::vector<int32_t> eos_ids(const nlohmann::json* config) {
  std::vector<int32_t> ids;
  if (!config || !config->contains("eos_token_id")) return ids;
  const auto& value = config->at("eos_token_id");
  for (const auto& item : value.is_array() ? value : nlohmann::json::array({value}))
    if (item.is_number_integer() && item.get<int64_t>() >= 0 && item.get<int64_t>() <= INT32_MAX)
      ids.push_back(item.get<int32_t>());
  return ids;
}

void check_room_for_weights(const ModelInfo& info, const Numerics& n, const formats::Checkpoint& checkpoint,
                            const LoadOptions& options) {
  const int64_t needed = info.parameters * int64_t(at::elementSize(n.compute));
  const int64_t room = n.device.is_cpu() ? free_host_bytes() : free_device_bytes(n.device);
  if (room <= 0 || needed <= room) return;
  std::string advice = n.device.is_cpu() ? "Use a machine with more memory" : "Use --device cpu";
  if (options.dtype == "float64") advice = "Use --dtype float32: half the memory";
  if (options.dtype == "float32" && !n.device.is_cpu())
    advice = "Use --dtype bfloat16: half the memory, or --device cpu";
  throw Error({.file = checkpoint.folder().string(),
               .item = "weights in " + options.dtype,
               .found = std::to_string(needed >> 20) + " MiB needed, " + std::to_string(room >> 20) +
                        " MiB free on " + options.device,
               .expected = "weights that fit",
               .advice = advice});
}

}  // namespace

ModelInfo inspect(const formats::Checkpoint& checkpoint, const std::string& flavour) {
  std::string type;
  const auto family = read_model(checkpoint, flavour, type);
  return describe_model(*family, type, checkpoint);
}

std::unique_ptr<Model> Model::load(std::shared_ptr<const formats::Checkpoint> checkpoint,
                                   const LoadOptions& options, Progress& progress) {
  auto model = std::make_unique<LoadedModel>();
  const Numerics numerics = numerics_of(options, device_of(options.device, model->device_text_));
  std::string type;
  const auto family = read_model(*checkpoint, options.flavour, type);
  model->info_ = describe_model(*family, type, *checkpoint);
  check_room_for_weights(model->info_, numerics, *checkpoint, options);
  progress.begin_stage("loading weights", int64_t(checkpoint->total_bytes()));
  const c10::InferenceMode inference;
  try {
    model->lm_ = build_model(*family, Weights(*checkpoint, numerics, progress), model->info_);
  } catch (const c10::Error& e) {
    throw Error({.file = checkpoint->folder().string(),
                 .item = "loading weights",
                 .found = e.what_without_backtrace()});
  }
  model->lm_->set_weight_bytes(model->info_.parameters * int64_t(at::elementSize(numerics.compute)));
  for (const Block& block : model->lm_->blocks) model->shape_.layers.push_back(block.mixer->shape());
  model->shape_.vocab = model->lm_->vocab_rows();
  model->shape_.float64 = numerics.compute == at::kDouble;
  model->eos_ = eos_ids(checkpoint->config());
  model->options_ = options;
  model->checkpoint_ = std::move(checkpoint);
  return model;
}

trace::ModelSpec LoadedModel::model_spec() const {
  trace::ModelSpec spec{info_.config_json,
                        info_.family,
                        info_.flavour,
                        options_.dtype,
                        lm_->numerics.router == at::kBFloat16 ? "bf16"
                        : lm_->numerics.router == at::kDouble ? "float64"
                                                              : "float32",
                        device_text_,
                        checkpoint_->folder().string(),
                        info_.tensor_digest};
  spec.attributes = {{"parameters", info_.parameters},
                     {"tf32", int64_t(options_.tf32)},
                     {"flavour_reason", info_.flavour_reason},
                     {"threads", int64_t(at::get_num_threads())}};
  return spec;
}

}  // namespace slotscope::engine
