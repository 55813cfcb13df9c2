//! What a body is, and its text.

use crate::fetch::FetchedPage;
use crate::markdown::{Converted, to_markdown};
use encoding_rs::{Encoding, UTF_8};

/// Bytes at the beginning of a page in which it may name its encoding.
const HEAD: usize = 1024;

/// What a page holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PageContent {
    /// HTML, converted.
    Html(Converted),
    /// Text as it is.
    Text(String),
    /// A picture.
    Picture,
    /// Something else.
    Binary,
}

impl PageContent {
    /// Reads a page.
    pub(crate) fn of(page: &FetchedPage, whole: bool) -> Self {
        let kind = essence(&page.content_type);
        match PageKind::of(&kind, &page.body) {
            PageKind::Html => {
                let html = decoded(page);
                Self::Html(to_markdown(&html, &page.url, whole))
            }
            PageKind::Text => Self::Text(decoded(page)),
            PageKind::Picture => Self::Picture,
            PageKind::Binary => Self::Binary,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PageKind {
    Html,
    Text,
    Picture,
    Binary,
}

impl PageKind {
    fn of(essence: &str, body: &[u8]) -> Self {
        let is_text = matches!(
            essence,
            "application/json"
                | "application/xml"
                | "application/javascript"
                | "application/x-javascript"
                | "application/yaml"
                | "application/x-yaml"
                | "application/toml"
                | "application/x-sh"
                | "application/x-ndjson"
                | "application/graphql"
                | "application/sql"
        ) || essence.starts_with("text/")
            || essence.ends_with("+json")
            || essence.ends_with("+xml") && essence != "application/xhtml+xml";
        match essence {
            "text/html" | "application/xhtml+xml" => Self::Html,
            "image/svg+xml" => Self::Text,
            _ if is_text => Self::Text,
            _ if essence.starts_with("image/") => Self::Picture,
            // Not said, or said of everything.
            "" | "application/octet-stream" | "binary/octet-stream" => Self::sniffed(body),
            _ => Self::Binary,
        }
    }

    fn sniffed(body: &[u8]) -> Self {
        let head = &body[..body.len().min(HEAD)];
        if vestal_model::Image::begins_with(head) {
            return Self::Picture;
        }
        // A character that is cut at the end is no fault.
        let is_utf8 = match std::str::from_utf8(head) {
            Ok(_) => true,
            Err(error) => error.error_len().is_none(),
        };
        if head.contains(&0) || !is_utf8 {
            return Self::Binary;
        }
        let text = String::from_utf8_lossy(head).trim_start().to_ascii_lowercase();
        if text.starts_with("<!doctype html") || text.starts_with("<html") {
            Self::Html
        } else {
            Self::Text
        }
    }
}

/// Returns a content type without its parameters.
pub(crate) fn essence(content_type: &str) -> String {
    content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Returns a body as text: in the encoding that the server names, else the page, else UTF-8.
fn decoded(page: &FetchedPage) -> String {
    let named = page.content_type.to_ascii_lowercase();
    let named = named.split_once("charset=").map(|(_, rest)| rest.to_owned());
    let named = named.or_else(|| in_page(&page.body));
    let encoding = named
        .as_deref()
        .map(|name| name.trim_start_matches(['"', '\'']))
        .and_then(|name| name.split(['"', '\'', ';', ' ', '>', '/']).next())
        .and_then(|name| Encoding::for_label(name.as_bytes()))
        .unwrap_or(UTF_8);
    encoding.decode(&page.body).0.into_owned()
}

/// Returns the encoding that a page names in its head.
fn in_page(body: &[u8]) -> Option<String> {
    let head = String::from_utf8_lossy(&body[..body.len().min(HEAD)]).to_ascii_lowercase();
    let (_, rest) = head.split_once("charset=")?;
    Some(rest.chars().take(60).collect())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use reqwest::Url;

    use super::*;

    fn page(content_type: &str, body: &[u8]) -> FetchedPage {
        FetchedPage {
            url: Url::parse("https://example.org/").unwrap(),
            status: 200,
            content_type: content_type.to_owned(),
            body: Bytes::copy_from_slice(body),
            is_cut: false,
        }
    }

    #[test]
    fn what_a_page_is_is_said_by_its_type_or_its_beginning() {
        let kind = |kind: &str, body: &[u8]| PageKind::of(&essence(kind), body);
        assert_eq!(kind("text/html; charset=utf-8", b""), PageKind::Html);
        assert_eq!(kind("application/xhtml+xml", b""), PageKind::Html);
        assert_eq!(kind("Application/LD+JSON", b""), PageKind::Text);
        assert_eq!(kind("text/markdown", b""), PageKind::Text);
        assert_eq!(kind("image/png", b""), PageKind::Picture);
        assert_eq!(kind("image/svg+xml", b""), PageKind::Text);
        assert_eq!(kind("application/pdf", b"%PDF"), PageKind::Binary);
        assert_eq!(kind("", b"  <!DOCTYPE html><p>"), PageKind::Html);
        assert_eq!(kind("", b"plain"), PageKind::Text);
        assert_eq!(kind("", b"\x7fELF\0"), PageKind::Binary);
        assert_eq!(kind("application/octet-stream", b"\x89PNG\r\n\x1a\n...."), PageKind::Picture);
    }

    #[test]
    fn text_is_read_in_the_encoding_that_is_named() {
        let text = |kind: &str, body: &[u8]| match PageContent::of(&page(kind, body), false) {
            PageContent::Text(text) => text,
            PageContent::Html(converted) => converted.text,
            other => panic!("{other:?}"),
        };
        assert_eq!(text("text/plain; charset=ISO-8859-1", b"caf\xe9"), "café");
        assert_eq!(text("text/html", b"<meta charset=\"windows-1252\"><p>\x80 5</p>"), "€ 5");
        assert_eq!(text("text/plain; charset=\"Shift_JIS\"", b"\x93\xfa"), "日");
        assert_eq!(text("text/plain", "é\u{feff}".as_bytes()), "é\u{feff}");
        assert_eq!(text("text/plain; charset=nonsense", b"a\xff"), "a\u{fffd}");
    }
}
