use serde_json::json;

use super::*;

#[test]
fn a_context_length_is_found_wherever_providers_put_it() {
    let cases = [
        json!({"id": "m", "context_length": 5}),
        json!({"id": "m", "max_model_len": 5}),
        json!({"id": "m", "context_window": 5}),
        json!({"id": "m", "max_input_tokens": 5}),
        json!({"id": "m", "context_length": 9, "top_provider": {"context_length": 5}}),
        json!({"id": "m", "meta": {"n_ctx": 5, "n_ctx_train": 9}}),
    ];
    for model in cases {
        assert_eq!(info(&model).unwrap().context_length, Some(5), "{model}");
    }
    let without = info(&json!({"id": "m", "context_length": null, "display_name": "M"}));
    let name = Some("M".to_owned());
    assert_eq!(without, Some(ModelInfo { id: "m".to_owned(), name, context_length: None }));
    assert_eq!(info(&json!({"object": "model"})), None);
}
