#include "core/formats/presets.h"

namespace slotscope::formats {

using json = nlohmann::ordered_json;

json cape_pattern(int64_t layers, int64_t heads, int64_t all, int64_t half) {
  json list = json::array();
  for (int64_t layer = 0; layer < layers; ++layer) {
    json of_layer = json::array();
    const int64_t count = layer < all ? heads : layer < all + half ? heads / 2 : 0;
    for (int64_t head = 0; head < count; ++head) of_layer.push_back(head);
    list.push_back(of_layer);
  }
  return list;
}

namespace {

json ramnet(int64_t hidden, int64_t layers, int64_t heads, int64_t inner, int64_t vocab, int order, int codes, int top_k) {
  return {{"model_type", "ramnet"},
          {"architectures", {"RamNetForCausalLM"}},
          {"vocab_size", vocab},
          {"hidden_size", hidden},
          {"intermediate_size", inner},
          {"num_hidden_layers", layers},
          {"num_attention_heads", heads},
          {"head_dim", hidden / heads},
          {"hidden_act", "silu"},
          {"rms_norm_eps", 1e-6},
          {"attention_bias", false},
          {"tie_word_embeddings", false},
          {"max_position_embeddings", 4096},
          {"ramnet",
           {{"order", order},
            {"codes_per_factor", codes},
            {"top_k", top_k},
            {"renormalize_topk", false},
            {"slot_order", "factor0_least_significant"},
            {"update_rule", "gsu"},
            {"pdma_gamma", 1.0},
            {"state_eps", 1e-6},
            {"readout", "standard"},
            {"cape_direction", 1},
            {"cape_heads", cape_pattern(layers, heads, 4, 4)},
            {"log_scale", true},
            {"output_norm", false},
            {"output_gate", true}}}};
}

json raven(int64_t hidden, int64_t layers, int64_t heads, int64_t slots, int64_t top_k, int64_t vocab) {
  return {{"model_type", "raven"},
          {"architectures", {"RavenForCausalLM"}},
          {"vocab_size", vocab},
          {"hidden_size", hidden},
          {"hidden_ratio", 4},
          {"intermediate_size", nullptr},
          {"num_hidden_layers", layers},
          {"num_heads", heads},
          {"num_kv_heads", nullptr},
          {"num_slots", slots},
          {"topk", top_k},
          {"decay_type", "Mamba2"},
          {"feature_map", "swish"},
          {"use_output_gate", true},
          {"use_rope", false},
          {"attnres_block_size", nullptr},
          {"attn", nullptr},
          {"hidden_act", "swish"},
          {"norm_eps", 1e-6},
          {"tie_word_embeddings", false},
          {"max_position_embeddings", 2048}};
}

// The 340M model of the first RAM-Net paper (spec: ramnet 1.1). Its MLP width and tied embeddings are not printed: this width is that
// of the code base it was trained with, and with it and tied embeddings the count is the paper's 340.8 million.
json ramnet_340m() {
  json config = ramnet(1024, 27, 16, 2816, 32000, 5, 4, 8);
  config["tie_word_embeddings"] = true;
  config["ramnet"]["output_gate"] = false;
  return config;
}

json ramnet_tiny() {
  json config = ramnet(64, 4, 4, 128, 260, 3, 4, 4);
  config["ramnet"]["cape_heads"] = cape_pattern(4, 4, 1, 2);
  return config;
}

}  // namespace

const std::vector<Preset>& presets() {
  static const std::vector<Preset> list = {
      {"ramnet-340m", "RAM-Net of 340M parameters: 27 layers, 1024 wide, 16 heads, 4^5 slots, top 8, CAPE in the first 8 layers", ramnet_340m()},
      {"ramnet-tiny", "a RAM-Net for trials: 4 layers, 64 wide, 4 heads, 4^3 slots, top 4", ramnet_tiny()},
      {"raven-424m", "Raven of 424M parameters: 24 layers, 1024 wide, 4 heads, 256 slots, top 32", raven(1024, 24, 4, 256, 32, 32000)},
      {"raven-tiny", "a Raven for trials: 4 layers, 64 wide, 4 heads, 16 slots, top 4", raven(64, 4, 4, 16, 4, 260)}};
  return list;
}

}  // namespace slotscope::formats
