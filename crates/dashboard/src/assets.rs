//! Scripts, styles and pictures, in the program and under addresses that change with what is in them.
//!
//! All of them share one version in their path, so that modules import each other by relative paths
//! and a browser keeps each of them for ever.

use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::LazyLock;

use axum::extract::Path;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest as _, Sha256};

use crate::app::App;
use crate::error::PageError;
use crate::gate::{DeclaredRoute, Right, Route};

const JAVASCRIPT: &str = "text/javascript; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SVG: &str = "image/svg+xml";

macro_rules! files {
    ($($name:literal: $kind:ident),* $(,)?) => {
        &[$(($name, $kind, include_bytes!(concat!("../assets/", $name)))),*]
    };
}

/// Everything that is served, by its name.
const FILES: &[(&str, &str, &[u8])] = files![
    "app.js": JAVASCRIPT,
    "lib.js": JAVASCRIPT,
    "forms.js": JAVASCRIPT,
    "login.js": JAVASCRIPT,
    "markdown.js": JAVASCRIPT,
    "chat-line.js": JAVASCRIPT,
    "pictures.js": JAVASCRIPT,
    "plot.js": JAVASCRIPT,
    "log-view.js": JAVASCRIPT,
    "notices.js": JAVASCRIPT,
    "pages/usage.js": JAVASCRIPT,
    "pages/task.js": JAVASCRIPT,
    "pages/review.js": JAVASCRIPT,
    "diff.js": JAVASCRIPT,
    "pages/chat.js": JAVASCRIPT,
    "pages/now.js": JAVASCRIPT,
    "pages/sandboxes.js": JAVASCRIPT,
    "pages/board.js": JAVASCRIPT,
    "pages/conversations.js": JAVASCRIPT,
    "pages/operations.js": JAVASCRIPT,
    "pages/settings.js": JAVASCRIPT,
    "pages/keys.js": JAVASCRIPT,
    "pages/schedules.js": JAVASCRIPT,
    "pages/profiles.js": JAVASCRIPT,
    "pages/models.js": JAVASCRIPT,
    "pages/extensions.js": JAVASCRIPT,
    "terminal-line.js": JAVASCRIPT,
    "terminal-styles.js": JAVASCRIPT,
    "pages/terminal.js": JAVASCRIPT,
    "pages/files.js": JAVASCRIPT,
    "pages/sandbox-head.js": JAVASCRIPT,
    "pages/sandbox-actions.js": JAVASCRIPT,
    "pages/sandbox-usage.js": JAVASCRIPT,
    "style.css": CSS,
    "icon.svg": SVG,
    "vendor/preact.mjs": JAVASCRIPT,
    "vendor/hooks.mjs": JAVASCRIPT,
    "vendor/htm.mjs": JAVASCRIPT,
    "vendor/signals.mjs": JAVASCRIPT,
    "vendor/signals-core.mjs": JAVASCRIPT,
    "vendor/xterm.mjs": JAVASCRIPT,
    "vendor/xterm.css": CSS,
    "vendor/addon-fit.mjs": JAVASCRIPT,
];

/// Names by which published modules import each other, and the files they are here. The files are
/// kept as they were published; a browser cannot look names up without an inline script.
const SPECIFIERS: &[(&str, &str)] = &[
    ("\"@preact/signals-core\"", "\"./signals-core.mjs\""),
    ("\"preact/hooks\"", "\"./hooks.mjs\""),
    ("\"preact\"", "\"./preact.mjs\""),
];

/// One file, ready to be sent.
struct Asset {
    name: &'static str,
    kind: &'static str,
    plain: Vec<u8>,
    compressed: Vec<u8>,
}

struct Assets {
    base: String,
    files: Vec<Asset>,
}

static ASSETS: LazyLock<Assets> = LazyLock::new(|| {
    let mut hash = Sha256::new();
    let mut files = Vec::with_capacity(FILES.len());
    for (name, kind, bytes) in FILES {
        let plain = resolved(name, bytes);
        hash.update(name.as_bytes());
        hash.update(&plain);
        let compressed = compressed(&plain);
        files.push(Asset { name, kind, plain, compressed });
    }
    let hash = hash.finalize();
    let version = hex(&hash[..8]);
    Assets { base: format!("/assets/{version}"), files }
});

/// Returns the beginning of every address of an asset.
pub(crate) fn base() -> &'static str {
    &ASSETS.base
}

pub(crate) fn routes() -> Vec<DeclaredRoute<App>> {
    vec![
        Route::get("/assets/{version}/{*name}", asset).needs(Right::Public),
        Route::get("/favicon.ico", favicon).needs(Right::Public),
    ]
}

async fn favicon() -> StatusCode {
    StatusCode::NO_CONTENT
}

async fn asset(
    Path((version, name)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Response, PageError> {
    let is_current = ASSETS.base.strip_prefix("/assets/") == Some(version.as_str());
    let found = ASSETS.files.iter().find(|asset| is_current && asset.name == name);
    let found = found.ok_or_else(|| {
        PageError::not_found("there is no such file in this version; load the page again")
    })?;
    let accepted = headers.get(header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok());
    let takes_gzip = accepted.is_some_and(|accepted| {
        accepted.split(',').any(|coding| coding.split(';').next().unwrap_or("").trim() == "gzip")
    });
    let mut response = if takes_gzip {
        ([(header::CONTENT_ENCODING, "gzip")], found.compressed.as_slice()).into_response()
    } else {
        found.plain.as_slice().into_response()
    };
    let fixed = [
        (header::CONTENT_TYPE, found.kind),
        (header::CACHE_CONTROL, "public, max-age=31536000, immutable"),
        (header::VARY, "accept-encoding"),
    ];
    for (name, value) in fixed {
        response.headers_mut().insert(name, axum::http::HeaderValue::from_static(value));
    }
    Ok(response)
}

/// Returns bytes in the digits of a checksum.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        write!(text, "{byte:02x}").ok();
        text
    })
}

/// Returns a file as browsers can load it.
fn resolved(name: &str, bytes: &[u8]) -> Vec<u8> {
    let Ok(text) = std::str::from_utf8(bytes) else { return bytes.to_vec() };
    if !name.starts_with("vendor/") {
        return bytes.to_vec();
    }
    let text = SPECIFIERS.iter().fold(text.to_owned(), |text, (published, here)| {
        text.replace(&format!("from{published}"), &format!("from{here}"))
    });
    // What is behind it are the maps of the sources, which are not shipped.
    let text = text.split("//# sourceMappingURL=").next().unwrap_or_default();
    text.as_bytes().to_vec()
}

/// Compresses once; where that fails, which it does not in memory, the file is sent as it is.
fn compressed(plain: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(plain.len() / 2), Compression::best());
    match encoder.write_all(plain).and_then(|()| encoder.finish()) {
        Ok(compressed) => compressed,
        Err(error) => {
            tracing::error!(%error, "an asset was not compressed");
            Vec::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    /// What all assets together may be, compressed.
    const BUDGET: usize = 350 << 10;

    #[derive(Deserialize)]
    struct Vendored {
        file: String,
        name: String,
        version: String,
        license: String,
        tarball: String,
        path: String,
        sha256: String,
    }

    #[test]
    fn all_assets_together_stay_within_their_budget() {
        let total: usize = ASSETS.files.iter().map(|asset| asset.compressed.len()).sum();
        assert!(total <= BUDGET, "{total} bytes");
        assert!(ASSETS.files.iter().all(|asset| !asset.compressed.is_empty()));
    }

    #[test]
    fn every_vendored_file_is_the_published_one_on_record() {
        let manifest = include_str!("../assets/vendor/manifest.json");
        let manifest: Vec<Vendored> = serde_json::from_str(manifest).unwrap();
        for (name, _, bytes) in FILES {
            let Some(file) = name.strip_prefix("vendor/") else { continue };
            let entry = manifest.iter().find(|entry| entry.file == file).unwrap();
            assert_eq!(hex(&Sha256::digest(bytes)), entry.sha256, "{file} of {}", entry.name);
            assert!(["MIT", "Apache-2.0"].contains(&entry.license.as_str()));
            assert!(entry.tarball.contains(&entry.version) && entry.path.starts_with("package/"));
        }
        assert_eq!(manifest.len(), FILES.iter().filter(|f| f.0.starts_with("vendor/")).count());
    }

    #[test]
    fn modules_import_files_that_are_there() {
        for asset in ASSETS.files.iter().filter(|asset| asset.kind == JAVASCRIPT) {
            let text = std::str::from_utf8(&asset.plain).unwrap();
            let dir = asset.name.rsplit_once('/').map_or("", |(dir, _)| dir);
            let imports = text.split("from\"").chain(text.split("from \"")).skip(1);
            for rest in imports.filter(|rest| rest.starts_with('.') || rest.starts_with('@')) {
                let target = rest.split('"').next().unwrap();
                let mut parts: Vec<&str> = dir.split('/').filter(|part| !part.is_empty()).collect();
                for part in target.split('/') {
                    match part {
                        "." => {}
                        ".." => drop(parts.pop()),
                        part => parts.push(part),
                    }
                }
                let target = parts.join("/");
                assert!(
                    ASSETS.files.iter().any(|other| other.name == target),
                    "{} imports {target}",
                    asset.name
                );
            }
            assert!(!text.contains("from\"preact"), "{}", asset.name);
        }
    }

    #[test]
    fn no_script_of_ours_makes_markup_of_text() {
        const FORBIDDEN: &[&str] = &[
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "dangerouslySetInnerHTML",
            "eval(",
            "new Function",
            "javascript:",
            "srcdoc",
            "DOMParser",
        ];
        let own = FILES.iter().filter(|(name, ..)| !name.starts_with("vendor/"));
        for (name, _, bytes) in own {
            let text = std::str::from_utf8(bytes).unwrap();
            for word in FORBIDDEN {
                assert!(!text.contains(word), "{word} in {name}");
            }
            for address in ["http://", "https://"] {
                // The names of the namespaces of pictures are not requests.
                let text = text.replace("http://www.w3.org/2000/svg", "");
                assert!(!text.contains(address), "{name} asks another server");
            }
        }
        for page in
            [include_str!("../templates/shell.html"), include_str!("../templates/login.html")]
        {
            assert!(!page.contains("<script>") && !page.contains("<style"), "inline");
            assert!(!page.contains(" style=") && !page.contains(" onclick"), "inline");
        }
    }
}
