//! What an error of the HTTP client says.

use std::error::Error;

/// Returns the causes of an error, without the address in it and without the
/// client's own words for "it did not work", which say nothing.
pub(crate) fn chain(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut causes: Vec<String> = Vec::new();
    let mut next: Option<&dyn Error> = Some(&error);
    while let Some(cause) = next {
        let text = cause.to_string();
        if !causes.iter().any(|known| known.contains(&text)) {
            causes.push(text);
        }
        next = cause.source();
    }
    let empty = [
        "error sending request",
        "client error",
        "builder error",
        "request or response body",
        "error decoding response body",
        "error reading a body",
    ];
    let telling = causes.iter().filter(|text| !empty.iter().any(|empty| text.starts_with(empty)));
    let telling: Vec<&str> = telling.map(String::as_str).collect();
    if telling.is_empty() { causes.join(": ") } else { telling.join(": ") }
}
